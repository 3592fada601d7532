"""The notes of a shadow: where its decision differs from what runs, since when, and for how long.

Every decision is made from what is observed. An action that no controller does is a difference,
until it is done or no longer decided. In the memory of the decision, attempts and backoff stand
still meanwhile: an action that was not done does not count as tried. Pure; must not write
anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TypeVar

import msgspec

from scaler.decide.decision import (
    NOBODY,
    Action,
    Admit,
    Complete,
    Decision,
    Evict,
    Plan,
    Revoke,
    State,
    Verdict,
)
from scaler.decide.explain import counts_in_words, words
from scaler.decide.memory import InstanceMemory, Memory, ServiceMemory
from scaler.decide.world import Instance, Service, ServiceKey, World
from scaler.reasons.row import Lacks

MOST_ENDED = 20
MOST_SERVICES = 10_000
LONGEST_WORDS = 300
_OF_MINIMUM = (
    "began",
    "made",
    "failures",
    "failures_before_bind",
    "lacks_jobs_since",
    "ended_at",
    "waiting_since",
    "goes_first",
    "has_evicted",
    "backoff_until",
    "was_reset",
    "victims",
    "room_taken",
    "evictions",
    "tried_at",
)
_OF_INSTANCE = (
    "began",
    "gives_way",
    "had_attempt",
    "failures",
    "failures_before_bind",
    "backoff_until",
    "was_reset",
)


_Memory = TypeVar("_Memory", ServiceMemory, InstanceMemory)


class What(StrEnum):
    """Kinds of differences."""

    START = "start"
    """The instance is held, or lacks pods, and the decision would start it."""
    HOLD = "hold"
    """The instance waits for the scheduler, and the decision would revoke it."""
    EVICT = "evict"
    """The instance is bound, and the decision would evict it: for a minimum, or because fewer are
    wanted."""
    STARTED = "started"
    """The instance started although the decision held it; lasts while it is beyond the target, or a
    minimum waits."""


class Difference(msgspec.Struct):
    """A difference of one instance. Times are seconds since the epoch; `until` is 0.0 while it
    lasts."""

    what: What
    instance: str
    why: str
    runs: str
    """Running counts and target of the service at its begin."""
    target: str
    since: float
    until: float = 0.0


class Tally(msgspec.Struct):
    """The notes of one service: seconds in each state, and differences."""

    since: float
    at: float
    """Time up to which the seconds are counted."""
    watched: float = 0.0
    as_decided: float = 0.0
    """Nothing differed."""
    serving: float = 0.0
    could_serve: float = 0.0
    """The service did not serve, and the decision would have started what it lacked: there was
    room. Always 0 for services that decide alone."""
    held_up: float = 0.0
    """The service did not serve for lack of room, while an instance ran that the decision would
    hold or evict."""
    counts: dict[What, int] = {}
    seconds: dict[What, float] = {}
    open: dict[str, Difference] = {}
    ended: dict[What, list[Difference]] = {}
    """The longest ones; of STARTED the newest ones."""
    serves: bool = False
    could: bool = False
    waits: bool = False
    """The service does not serve, and waits for room."""
    held: bool = False
    gone: bool = False

    @property
    def takes_room(self) -> bool:
        """Whether an instance is bound, or being bound, that the decision would not have
        admitted."""
        if self._uids(What.EVICT):
            return True
        return bool(self._uids(What.STARTED) - self._uids(What.HOLD))

    def _uids(self, what: What) -> set[str]:
        """The instances with an open difference of this kind."""
        prefix = f"{what} "
        uids = set()
        for key in self.open:
            if key.startswith(prefix):
                uids.add(key.removeprefix(prefix))
        return uids

    def advance(self, now: float, *, seen: bool = True) -> None:
        """Add the time until now to the last seen state; no time is added while nothing is seen."""
        seconds = max(0.0, now - self.at)
        self.at = max(now, self.at)
        if self.gone or not seen:
            return
        self.watched += seconds
        self.as_decided += seconds * (not self.open)
        self.serving += seconds * self.serves
        self.could_serve += seconds * self.could
        self.held_up += seconds * self.held

    def differ(self, found: dict[str, Difference], now: float) -> None:
        """Replace the present differences by these."""
        for key in [key for key in self.open if key not in found]:
            self._end(self.open.pop(key), now)
        for key, difference in found.items():
            self.open.setdefault(key, difference)

    def _end(self, one: Difference, now: float) -> None:
        one.until = now
        self.counts[one.what] = self.counts.get(one.what, 0) + 1
        self.seconds[one.what] = self.seconds.get(one.what, 0.0) + now - one.since
        ended = self.ended.setdefault(one.what, [])
        ended.append(one)
        if len(ended) > MOST_ENDED:
            ended.remove(
                min(ended, key=lambda d: d.since if d.what is What.STARTED else d.until - d.since)
            )


class Shadow:
    """Gets every decision of one term of leadership; notes of an earlier term are in `services`
    before the first."""

    def __init__(self) -> None:
        self.services: dict[str, Tally] = {}
        self.alone = ""
        self._last: dict[ServiceKey, tuple[Service, Plan]] = {}
        self._begun = False
        self._number = 0
        """Number of services in the last world."""
        self._waits = self._room_is_taken = False
        """Whether a minimum waits for room, and whether an instance runs that the decision would
        not let run."""

    def begin(self, services: dict[str, Tally], now: float) -> None:
        """Begin a term of leadership with earlier notes; the time between the terms is not
        counted."""
        self.services = services
        self._last = {}
        self._begun = False
        for tally in services.values():
            tally.advance(now, seen=False)

    def advance(self, now: float, *, seen: bool) -> None:
        """Count the time up to now."""
        for tally in self.services.values():
            tally.advance(now, seen=seen)

    def saw(
        self, world: World, decision: Decision, pairs: Iterable[tuple[Service, Plan]]
    ) -> Memory:
        """Note this decision, in which `pairs` have changed; returns the memory for the next
        one."""
        changed = {service.key: (service, plan) for service, plan in pairs if service.key.rule}
        if len(world.services) != self._number or not changed.keys() <= self._last.keys():
            self._forget({service.key for service in world.services}, world.now)
        self._number = len(world.services)
        self.alone = world.alone
        unsettled = {}
        for key, last in self._last.items():
            tally = self._tally(key)
            if tally.open or not tally.serves:
                unsettled[key] = last
        for key, (service, plan) in {**unsettled, **changed}.items():
            self._look(key, service, plan, world.now, decision.memory)
        tallies = list(map(self._tally, self._last))
        self._waits = any(tally.waits for tally in tallies)
        self._room_is_taken = any(tally.takes_room for tally in tallies)
        self._begun = True
        return self._untried(world.memory, decision.memory)

    def _tally(self, key: ServiceKey) -> Tally:
        return self.services[str(key)]

    def _look(
        self, key: ServiceKey, service: Service, plan: Plan, now: float, memory: Memory
    ) -> None:
        tally = self.services.setdefault(str(key), Tally(now, now))
        tally.advance(now)
        tally.gone = False
        found = {f"{one.what} {uid}": one for uid, one in self._found(tally, service, plan, now)}
        tally.differ(found, now)
        remembered = memory.services.get(str(key), ServiceMemory())
        starts = any(one.what is What.START for one in tally.open.values())
        tally.serves = plan.serves
        tally.could = not plan.serves and starts and not remembered.probe_began and not self.alone
        tally.waits = not plan.serves and _waits_for_minimum(plan)
        tally.held = tally.waits and not tally.could and self._room_is_taken
        self._last[key] = service, plan

    def _found(
        self, tally: Tally, service: Service, plan: Plan, now: float
    ) -> Iterator[tuple[str, Difference]]:
        instances = {instance.uid: instance for instance in service.instances}
        verdicts = {verdict.uid: verdict for verdict in plan.verdicts}
        runs = counts_in_words({name: group.running for name, group in plan.groups.items()})
        target = counts_in_words(plan.target)

        def differs(what: What, uid: str, why: str) -> tuple[str, Difference]:
            return uid, Difference(what, verdicts[uid].name, why[:LONGEST_WORDS], runs, target, now)

        for action in plan.actions:
            instance = instances.get(action.uid)
            verdict = verdicts.get(action.uid)
            if instance is None or verdict is None:
                continue
            match action:
                case Admit() | Complete() if instance.pods - instance.gated < instance.expected:
                    room = (
                        "whether there is room is not known" if self.alone else "its room is free"
                    )
                    yield differs(What.START, action.uid, f"{target} is wanted, and {room}")
                case Revoke() if _is_started(instance):
                    yield differs(What.HOLD, action.uid, words(verdict, plan))
                case Evict(beneficiary=beneficiary):
                    why = (
                        "fewer are wanted"
                        if beneficiary == NOBODY
                        else f"makes room for {beneficiary}"
                    )
                    yield differs(What.EVICT, action.uid, why)
        for uid, why in self._started(tally, service, plan):
            yield differs(What.STARTED, uid, why)

    def _started(self, tally: Tally, service: Service, plan: Plan) -> Iterator[tuple[str, str]]:
        """Uids of started instances that the decision held, each with the reason: too many in the
        group, or bound to nodes that were for others."""
        before = self._last.get(plan.key)
        was = {instance.uid: instance for instance in before[0].instances} if before else {}
        said = {verdict.uid: verdict for verdict in before[1].verdicts} if before else {}
        asked = {action.uid: action for action in before[1].actions} if before else {}
        excess = _excess(service, plan)
        there = [instance for instance in service.instances if _is_started(instance)]
        for instance in sorted(there, key=lambda instance: _wants(asked.get(instance.uid))):
            uid = instance.uid
            group = instance.group or ""
            last = was.get(uid)
            known = tally.open.get(f"{What.STARTED} {uid}")
            beyond = excess.get(group, 0) > 0
            if known is not None:
                if beyond or self._waits:
                    yield uid, known.why
            elif not (before or self._begun):
                continue  # an instance that runs before the shadow begins is no difference
            elif beyond and not (last and _is_started(last)):
                excess[group] -= 1
                yield (
                    uid,
                    f"it is beyond the {plan.groups[group].target} of {group} that were wanted",
                )
            elif (
                before
                and last
                and instance.bound
                and not last.bound
                and _had_no_room(last, said, asked.get(uid))
            ):
                yield uid, words(said[uid], before[1])

    def _forget(self, there: set[ServiceKey], now: float) -> None:
        """Keep the notes of services that have ended, up to a limit."""
        for key in [key for key in self._last if key not in there]:
            tally = self._tally(key)
            tally.advance(now)
            tally.differ({}, now)
            tally.gone = True
            del self._last[key]
        gone = sorted((tally.at, name) for name, tally in self.services.items() if tally.gone)
        for _, name in gone[: max(0, len(self.services) - MOST_SERVICES)]:
            del self.services[name]

    def _untried(self, before: Memory, after: Memory) -> Memory:
        """The memory without attempts for actions that would be done and are not."""
        open_ = []
        for name in map(str, self._last):
            if self.services[name].open and name in after.services:
                open_.append(name)
        if not open_:
            return after
        untried = {}
        for name in open_:
            untried[name] = _without_attempts(
                before.services.get(name, ServiceMemory()), after.services[name]
            )
        return msgspec.structs.replace(after, services={**after.services, **untried})


def _is_started(instance: Instance) -> bool:
    """Whether another controller has given the instance pods that may be scheduled."""
    return instance.pods > instance.gated and not instance.owner_finished


def _excess(service: Service, plan: Plan) -> Counter[str]:
    """Started instances beyond the target, by group; empty without a target."""
    started: Counter[str] = Counter()
    for instance in service.instances:
        if _is_started(instance):
            started[instance.group or ""] += 1
    excess: Counter[str] = Counter()
    for name, group in plan.groups.items():
        if name in started:
            excess[name] = started[name] - group.paired - group.target
    return excess


def _wants(asked: Action | None) -> bool:
    return isinstance(asked, Admit | Complete)


def _had_no_room(last: Instance, said: Mapping[str, Verdict], asked: Action | None) -> bool:
    """Whether the decision held the instance for lack of room, or would have revoked it, before it
    was bound."""
    if _is_started(last):
        return isinstance(asked, Revoke)
    if last.uid not in said or _wants(asked):
        return False
    return said[last.uid].reason.row.lacks is not Lacks.NOTHING


def _without_attempts(before: ServiceMemory, after: ServiceMemory) -> ServiceMemory:
    """Attempts as before; new ones after progress, or if what is read of its jobs has changed."""
    if (_most_bound(before), before.written) != (_most_bound(after), after.written):
        before = ServiceMemory()
    instances = {}
    for uid, one in after.instances.items():
        instances[uid] = _kept(before.instances.get(uid, InstanceMemory()), one, _OF_INSTANCE)
    return msgspec.structs.replace(_kept(before, after, _OF_MINIMUM), instances=instances)


def _most_bound(memory: ServiceMemory) -> dict[str, int]:
    """By uid of the instances that had bound pods since the service last served."""
    return {uid: one.most_bound for uid, one in memory.instances.items() if one.most_bound}


def _kept(before: _Memory, after: _Memory, fields: tuple[str, ...]) -> _Memory:
    return msgspec.structs.replace(after, **{field: getattr(before, field) for field in fields})


def _waits_for_minimum(plan: Plan) -> bool:
    """Whether an instance is held because something of its minimum is missing."""
    for verdict in plan.verdicts:
        if verdict.state is State.HELD and verdict.reason.row.lacks is Lacks.MINIMUM:
            return True
    return False
