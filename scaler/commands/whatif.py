"""What becomes of several services on some nodes: planned and arbitrated by the controller's own functions, pass by
pass, until nothing changes. Whatever is admitted is bound where it fits, and runs at once. Prints nothing.

Must not add rules of its own; the scheduler that it stands in for puts each pod where least is left over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import ge, sub

import msgspec

from scaler.decide.arbiter import arbitrate
from scaler.decide.explain import words
from scaler.decide.nodes import Capacity, PodRequests, Room, accepts, tolerates
from scaler.decide.planner import plan
from scaler.decide.room.placement import Board
from scaler.decide.world import (
    Admit,
    ArbiterMemory,
    Instance,
    Memory,
    Plan,
    Policy,
    Revoke,
    ServiceKey,
    Snapshot,
)
from scaler.observe.capacity import CapacityIndex, NodeFacts
from scaler.rules.rule import Ratio, Rule, RuleOptions

MOST_PASSES = 10_000
TICK = 0.001
"""Seconds between two passes: nothing is given up for lack of time."""
POLICY = Policy()


class Asked(msgspec.Struct, frozen=True):
    """One service that is asked about; as many jobs exist as its largest ratio names."""

    key: ServiceKey
    rule: Rule
    options: RuleOptions
    needs: Mapping[str, PodRequests]
    """Group -> what all pods of one instance ask for."""


class Share(msgspec.Struct, frozen=True):
    """One group in the end. `reasons`: why those that are held are, reason -> how many."""

    admitted: int
    held: int
    reasons: dict[str, int]
    words: tuple[str, ...]
    """One sentence for each different reason."""


class Outcome(msgspec.Struct, frozen=True):
    """One service in the end; `ratio` counts from 0 = the largest, -1 = it does not serve."""

    service: str
    serves: bool
    ratio: int
    counts: dict[str, int]
    groups: dict[str, Share]


class Answer(msgspec.Struct, frozen=True):
    nodes: int
    closed: int
    """Of the nodes, those that take no pods now: cordoned or not Ready."""
    serving: int
    complete: int
    """Services that run their largest ratio."""
    guessed: int
    """Services whose pods say what is not understood here, such as topology spread: that counts as fitting."""
    services: tuple[Outcome, ...]


class _Service:
    """One service on its way: which of its instances are released, and which run."""

    def __init__(self, asked: Asked, age: int) -> None:
        self.asked = asked
        self.memory = Memory()
        self.released: set[str] = set()
        self.running: set[str] = set()
        self.plan: Plan | None = None
        self.instances = {
            (one := _instance(asked, group, number, age)).uid: one
            for group in asked.rule.groups
            for number in range(asked.rule.largest.of(group))
        }

    def snapshot(self, now: float) -> Snapshot:
        asked = self.asked
        instances = tuple(self._now(one) for one in self.instances.values())
        return Snapshot(asked.key, now, instances, asked.rule, asked.options, memory=self.memory, policy=POLICY)

    def _now(self, one: Instance) -> Instance:
        if one.uid in self.running:
            size = one.expected
            return msgspec.structs.replace(one, pods=size, bound=size, running=size, ready=size, unbound=())
        return msgspec.structs.replace(one, pods=one.expected) if one.uid in self.released else one

    def follow(self, made: Plan) -> bool:
        """Do what the plan says; whether that was anything."""
        self.plan = made
        admitted = {action.uid for action in made.actions if isinstance(action, Admit)} - self.released
        revoked = {action.uid for action in made.actions if isinstance(action, Revoke)} & self.released
        self.released = (self.released | admitted) - revoked
        return bool(admitted or revoked)


def _instance(asked: Asked, group: str, number: int, age: int) -> Instance:
    name, needs = f"{group}-{number}", asked.needs[group]
    size = sum(count for _, count in needs)
    uid = f"{asked.key}/{name}"
    return Instance(uid, name, group, created=float(age), expected=size, needs=needs, unbound=needs)


def what_if(services: Sequence[Asked], nodes: Iterable[NodeFacts]) -> Answer:
    """What all of these end at; earlier ones count as older."""
    found = [_Service(asked, age) for age, asked in enumerate(services, start=1)]
    minimum = _Minimum(nodes, found)
    memory = ArbiterMemory()
    for number in range(1, MOST_PASSES):
        now = number * TICK
        decided = [(snapshot, _planned(one, snapshot)) for one in found if (snapshot := one.snapshot(now))]
        made = arbitrate(decided, minimum.capacity(), memory, now=now, policy=POLICY)
        memory = made.memory
        changed = [one.follow(share) for one, share in zip(found, made.plans, strict=True)]
        bound = [minimum.bind(one) for one in found]
        if not any((*changed, *bound)):
            break
    board = Board(minimum.capacity())
    outcomes = tuple(_outcome(one, board) for one in found)
    serving, complete = sum(one.serves for one in outcomes), sum(one.ratio == 0 for one in outcomes)
    guessed = sum(any(need.where.opaque for needs in one.needs.values() for need, _ in needs) for one in services)
    return Answer(minimum.nodes, minimum.closed, serving, complete, guessed, outcomes)


def _planned(one: _Service, snapshot: Snapshot) -> Plan:
    made, one.memory = plan(snapshot)
    return made


class _Minimum:
    """The nodes, alike ones counted together, with what runs on them."""

    def __init__(self, nodes: Iterable[NodeFacts], services: Iterable[_Service]) -> None:
        index = CapacityIndex()
        for facts in nodes:
            index.node_changed(None, facts)
        needs = {need for one in services for part in one.asked.needs.values() for need, _ in part}
        known = index.capacity(needs)
        self._resources = known.resources
        self._rooms = Counter({msgspec.structs.replace(room, count=1): room.count for room in known.rooms})
        self.nodes = self._rooms.total()
        self.closed = sum(number for room, number in self._rooms.items() if not room.schedulable)

    def capacity(self) -> Capacity:
        rooms = (msgspec.structs.replace(room, count=count) for room, count in self._rooms.items() if count)
        return Capacity(self._resources, tuple(sorted(rooms)))

    def bind(self, one: _Service) -> bool:
        """Let everything run that is released and fits, each instance whole; whether that was anything."""
        waiting = [uid for uid in one.instances if uid in one.released - one.running]
        bound = {uid for uid in waiting if self._bound(one.instances[uid].needs)}
        one.running |= bound
        return bool(bound)

    def _bound(self, needs: PodRequests) -> bool:
        before = self._rooms.copy()
        for need, count in needs:
            asked = dict(need.requests)
            amounts = tuple(asked.get(name, 0) for name in self._resources)
            for _ in range(count):
                fitting = [
                    room
                    for room, number in self._rooms.items()
                    if number and room.schedulable and accepts(need.where, room.kind)
                    and tolerates(need.where, room.passing) and all(map(ge, room.free, amounts))
                ]  # fmt: skip
                if not fitting or asked.keys() - set(self._resources):
                    self._rooms = before
                    return False
                self._take(min(fitting, key=_left_over), amounts)
        return True

    def _take(self, room: Room, amounts: tuple[int, ...]) -> None:
        self._rooms[room] -= 1
        self._rooms[msgspec.structs.replace(room, free=tuple(map(sub, room.free, amounts)))] += 1


def _left_over(room: Room) -> tuple[tuple[int, ...], Room]:
    return room.free, room


def _outcome(one: _Service, board: Board) -> Outcome:
    assert one.plan is not None  # noqa: S101 - there is at least one pass
    ratio = _runs(one.asked.rule, Counter(one.instances[uid].group or "" for uid in one.running))
    counts = dict(one.asked.rule.ratios[ratio].counts) if ratio >= 0 else {}
    shares = {group: _share(one, one.plan, group, board) for group in one.asked.rule.groups}
    key = one.asked.key
    return Outcome(f"{key.namespace}/{key.job_id}", ratio >= 0, ratio, counts, shares)


def _runs(rule: Rule, running: Counter[str]) -> int:
    """The largest ratio of which every group runs what it names; -1 while not even the smallest does."""
    met = (index for index, ratio in enumerate(rule.ratios) if _is_met(ratio, running))
    return next(met, -1)


def _is_met(ratio: Ratio, running: Counter[str]) -> bool:
    return all(running[group] >= number for group, number in ratio.counts.items())


def _share(one: _Service, made: Plan, group: str, board: Board) -> Share:
    verdicts = [verdict for verdict in made.verdicts if verdict.group == group]
    held = [verdict for verdict in verdicts if verdict.uid not in one.released]
    waiting = [verdict for verdict in verdicts if verdict.uid in one.released - one.running]
    said = [f"{verdict.reason.value}: {words(verdict, made)}" for verdict in held]
    said += [f"{verdict.reason.value}: {_unbound(one.instances[verdict.uid], board)}" for verdict in waiting]
    admitted = len(verdicts) - len(held)
    return Share(
        admitted, len(held), dict(Counter(verdict.reason.value for verdict in held)), tuple(dict.fromkeys(said))
    )


def _unbound(instance: Instance, board: Board) -> str:
    """Why the scheduler binds nothing of what was admitted: alone on its nodes, a service is not held."""
    shortage = board.fits(instance.needs)
    return f"Admitted, but nodes are missing: {shortage}." if shortage else "Admitted; waits for the scheduler."
