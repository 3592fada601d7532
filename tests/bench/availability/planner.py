"""The bound: a decision in place of the product's, made of the same worlds and carried out by the
same controller, so that it pays for detection, requests, scheduler and start what the product pays.

At each moment it decides exactly: the largest number of services that miss something of their
minimum and can have it, on what is free; then of those that can have it on what ends. Scale-ups use
what is left. It moves nothing that is bound, knows no future, has no clocks and no pauses.

With `rights` it evicts as well, instances beyond a minimum, whose it may by that value of the
setting `preempt`, at once: for the smallest minimum first, then the next.

What has nothing to do with room (the life of jobs, pods that are missing of what runs) is taken
from the product's decision about each service alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide
from scaler.decide.decision import (
    Admit,
    Decision,
    Evict,
    InstanceAction,
    Plan,
    Revoke,
    State,
)
from scaler.decide.memory import NEVER_SEEN, ServiceMemory
from scaler.decide.nodes import Nodes, PodRequests
from scaler.decide.service.states import state_of
from scaler.decide.world import Instance, Preempt, Service, World
from tests.bench.availability.month import KIND
from tests.bench.availability.packing import (
    ANY,
    Need,
    Places,
    chips_of,
    fits,
    most,
    need_of,
    places_of,
    together,
)

NPU = "huawei.com/Ascend910"
PLACED = (State.RUNNING, State.STARTING, State.ADMITTED)


class Wish(NamedTuple):
    """A service of which the minimum is not all bound: the instances that it misses, and what of
    them has no node."""

    position: int
    priority: int
    created: float
    uids: tuple[str, ...]
    need: Need


class Offer(NamedTuple):
    """An instance beyond a minimum that could be evicted."""

    position: int
    priority: int
    created: float
    uid: str
    bound: tuple[tuple[str, int], ...]
    """The node and the chips of each pod."""


def pods_of(requests: PodRequests) -> list[tuple[str, int]]:
    """The class and the chips of each pod."""
    found = []
    for request, number in requests:
        kind = dict(request.where.selector).get(KIND, ANY)
        found += [(kind, dict(request.requests).get(NPU, 0))] * number
    return found


class Room:
    """Free chips of each node that takes pods; `ending` with those of pods that end."""

    def __init__(self, nodes: Nodes) -> None:
        chips = nodes.resources.index(NPU)
        self._kinds: dict[str, str] = {}
        self._free: dict[str, int] = {}
        self._ending: dict[str, int] = {}
        for node in nodes.nodes:
            if node.schedulable and not node.passing:
                self._kinds[node.name] = dict(node.node_class.labels).get(KIND, ANY)
                self._free[node.name] = node.free[chips]
                self._ending[node.name] = sum(amounts[chips] for _, amounts in node.ending)

    @property
    def free(self) -> Places:
        return self._places(Counter())

    @property
    def expected(self) -> Places:
        return self._places(Counter(self._ending))

    def without(self, offers: Iterable[Offer]) -> Places:
        """What is free or ends, and what these leave."""
        more = Counter(self._ending)
        for offer in offers:
            for node, chips in offer.bound:
                more[node] += chips
        return self._places(more)

    def _places(self, more: Counter[str]) -> Places:
        return places_of(
            [(kind, self._free[name] + more[name]) for name, kind in self._kinds.items()]
        )


class Bound:
    """Decides as the product's `decide` is called."""

    def __init__(self, rights: Preempt | None = None) -> None:
        self._rights = rights
        self._alone = DecisionCache()

    def __call__(self, world: World, _cache: DecisionCache | None = None) -> Decision:
        alone = decide(
            msgspec.structs.replace(world, nodes=None, alone="by the bound"), self._alone
        )
        plans = [self._without_room(plan) for plan in alone.plans]
        if world.nodes is not None and NPU in world.nodes.resources:
            added = _Moment(world, world.nodes, alone, self._rights).actions()
            for position, actions in added.items():
                taken = {action.uid for action in actions}
                kept = [one for one in plans[position].actions if one.uid not in taken]
                changed = (*kept, *actions)
                plans[position] = msgspec.structs.replace(plans[position], actions=changed)
        return Decision(tuple(plans), alone.memory, alone.recheck_at, heeds_room=True)

    @staticmethod
    def _without_room(plan: Plan) -> Plan:
        """Without what is decided here."""
        if not any(isinstance(one, Admit | Evict) for one in plan.actions):
            return plan
        kept = [one for one in plan.actions if not isinstance(one, Admit | Evict)]
        return msgspec.structs.replace(plan, actions=tuple(kept))


class _Moment:
    """One decision."""

    def __init__(self, world: World, nodes: Nodes, alone: Decision, rights: Preempt | None) -> None:
        self._world = world
        self._alone = alone
        self._rights = rights
        self._room = Room(nodes)
        self._found: dict[int, list[InstanceAction]] = {}
        self._wishes: list[Wish] = []
        self._with_scheduler: list[tuple[int, Instance]] = []
        """Scale-ups that the scheduler has."""
        self._offers: list[Offer] = []
        for position, (service, plan) in enumerate(zip(world.services, alone.plans, strict=True)):
            if service.rule is not None and not service.assumed:
                self._look_at(position, service, plan)
            elif service.assumed:
                self._look_at_assumed(service)

    def _look_at_assumed(self, service: Service) -> None:
        """Its writes are under way: what it will have is with the scheduler."""
        for instance in service.instances:
            if instance.pods and instance.unbound and not instance.owner_deleting:
                self._with_scheduler.append((-1, instance))

    def _look_at(self, position: int, service: Service, plan: Plan) -> None:
        assert service.rule is not None
        remembered = self._alone.memory.services.get(str(plan.key), ServiceMemory()).instances
        states = {}
        for one in service.instances:
            memory = remembered.get(one.uid, NEVER_SEEN)
            states[one.uid] = state_of(one, memory, self._world.now, self._world.policy)
        uids: list[str] = []
        pods: list[tuple[str, int]] = []
        is_complete = True
        priority = max((one.priority for one in service.instances), default=0)
        oldest = min((one.created for one in service.instances), default=0.0)
        for group, number in service.rule.smallest.counts.items():
            mine = [one for one in service.instances if one.group == group]
            placed = [one for one in mine if states.get(one.uid) in PLACED]
            placed.sort(key=lambda one: (-one.bound, one.created, one.name))
            minimum = placed[:number]
            missing = [one for one in minimum if one.unbound]
            held = [one for one in mine if is_candidate(one, states.get(one.uid))]
            held.sort(key=lambda one: (one.created, one.name))
            missing += held[: number - len(minimum)]
            is_complete &= len(minimum) + len(held) >= number
            uids += [one.uid for one in missing]
            for one in missing:
                pods += pods_of(one.unbound or one.requests)
            for one in placed[number:]:
                self._beyond(position, priority, one)
        if uids and is_complete:
            self._wishes.append(Wish(position, priority, oldest, tuple(uids), need_of(pods)))

    def _beyond(self, position: int, priority: int, one: Instance) -> None:
        if one.unbound:
            self._with_scheduler.append((position, one))
        elif one.bound == one.expected:
            chips = []
            for node, request in one.bound_pods:
                chips.append((node, dict(request.requests).get(NPU, 0)))
            self._offers.append(Offer(position, priority, one.created, one.uid, tuple(chips)))

    def actions(self) -> dict[int, list[InstanceAction]]:
        wishes = sorted(self._wishes, key=self._first)
        beside = together(
            [need_of(pods_of(one.unbound)) for at, one in self._with_scheduler if at < 0]
        )
        now = most(self._room.free, [wish.need for wish in wishes], beside)
        chosen = [wishes[index] for index in now]
        for wish in self._safe_to_release(chosen):
            self._release(wish)
        others = [wish for index, wish in enumerate(wishes) if index not in now]
        reserved = together([beside, *[wish.need for wish in chosen]])
        later = most(self._room.expected, [wish.need for wish in others], reserved)
        waiting = [others[index] for index in later]
        expected = together([reserved, *[wish.need for wish in waiting]])
        left_over = [wish for index, wish in enumerate(others) if index not in later]
        for wish in left_over:
            self._revoke(wish.position, wish.uids)
        places = self._room.expected
        if self._rights is not None:
            places, expected = self._evict(left_over, expected)
        self._scale_up(places, reserved, expected)
        return self._found

    def _safe_to_release(self, chosen: Sequence[Wish]) -> list[Wish]:
        """Those that name a class of nodes, and others when wherever the scheduler puts them all
        chosen ones fit; if all are such, all."""
        picky = [wish for wish in chosen if not is_flexible(wish.need)]
        if not picky:
            return list(chosen)
        needs = together([wish.need for wish in picky])
        safe = list(picky)
        for wish in chosen:
            if is_flexible(wish.need) and is_safe(self._room.free, needs, wish.need):
                safe.append(wish)
        return safe

    def _first(self, wish: Wish) -> tuple[bool, int, float, int]:
        """Sort key: those with the scheduler, then priority, then age."""
        held = any(
            one.uid in wish.uids and one.pods == 0
            for one in self._world.services[wish.position].instances
        )
        return held, -wish.priority, wish.created, wish.position

    def _do(self, position: int, action: InstanceAction) -> None:
        self._found.setdefault(position, []).append(action)

    def _release(self, wish: Wish) -> None:
        for one in self._world.services[wish.position].instances:
            if one.uid in wish.uids and one.pods == 0:
                self._do(wish.position, Admit(one.uid))

    def _revoke(self, position: int, uids: Iterable[str]) -> None:
        for one in self._world.services[position].instances:
            if one.uid in uids and one.pods and not one.bound:
                self._do(position, Revoke(one.uid))

    def _evict(self, wishes: Sequence[Wish], expected: Need) -> tuple[Places, Need]:
        """Evict for one after the other. Returns the room with that of all victims, and what is
        reserved in it."""
        victims: list[Offer] = []
        for wish in sorted(wishes, key=lambda each: (chips_of(each.need), self._first(each))):
            allowed = [one for one in self._offers if one not in victims and self._may(wish, one)]
            needed = together([expected, wish.need])
            if not fits(self._room.without([*victims, *allowed]), needed):
                continue
            allowed.sort(key=lambda one: (-one.priority, one.created))  # the dearest are spared
            for offer in list(allowed):
                fewer = [one for one in allowed if one is not offer]
                if fits(self._room.without([*victims, *fewer]), needed):
                    allowed = fewer
            for offer in allowed:
                self._do(
                    offer.position, Evict(offer.uid, str(self._world.services[wish.position].key))
                )
            victims += allowed
            expected = needed
        return self._room.without(victims), expected

    def _may(self, wish: Wish, offer: Offer) -> bool:
        if offer.position == wish.position:
            return True
        if self._rights is Preempt.EQUAL_OR_HIGHER:
            return offer.priority <= wish.priority
        return self._rights is Preempt.HIGHER_PRIORITY and offer.priority < wish.priority

    def _scale_up(self, places: Places, reserved: Need, expected: Need) -> None:
        """With the scheduler first, then held, by priority and age."""
        by_uid = {one.uid: one for service in self._world.services for one in service.instances}
        candidates = [(at, one, True) for at, one in self._with_scheduler if at >= 0]
        short = {wish.position for wish in self._wishes}
        for position, plan in enumerate(self._alone.plans):
            if position not in short:
                for action in plan.actions:
                    if isinstance(action, Admit):
                        candidates.append((position, by_uid[action.uid], False))
        candidates.sort(
            key=lambda each: (not each[2], -each[1].priority, each[1].created, each[1].name)
        )
        for position, one, is_released in candidates:
            need = need_of(pods_of(one.unbound or one.requests))
            has_room = fits(self._room.free, together([reserved, need]))
            if has_room and is_safe(places, expected, need):
                reserved = together([reserved, need])
                expected = together([expected, need])
                if not is_released:
                    self._do(position, Admit(one.uid))
            elif is_released and not one.bound:
                self._do(position, Revoke(one.uid))


def is_flexible(need: Need) -> bool:
    """Whether some of these pods may go to nodes of any class."""
    return any(kind == ANY for (kind, _), _ in need)


def is_safe(places: Places, reserved: Need, need: Need) -> bool:
    """Whether what is reserved fits beside these pods, also if the scheduler puts those that may go
    anywhere on nodes of one class."""
    if not fits(places, together([reserved, need])):
        return False
    for kind, _ in places:
        there = tuple(sorted(((each or kind, chips), number) for (each, chips), number in need))
        if fits(places, there) and not fits(places, together([reserved, there])):
            return False
    return True


def is_candidate(one: Instance, state: State | None) -> bool:
    """Whether it is held and could be admitted."""
    return state is State.HELD and not (one.faults or one.label_problem or one.name_taken)
