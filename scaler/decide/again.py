"""All that only saves time, and what becomes of a service at which deciding fails. `decide_anew` in
`decide.py` is right without this file. Ten thousand services without changes take little time.

What is kept from one decision to the next:

    of               kept           under           holds until
    a namespace      its rounded    its name        a pod request that waits comes, goes or changes
                     requests
    each service     its demand     its position    the service is another object, its memory is
                                                    another one, or `Demand.until`
    each service     its plan       its position    its demand or `Draft.plan_inputs` changes
    each part        its drafts     its number      a node of it changes, a service of it changes
                                                    what is read (`kept_draft.py`), `recheck_at`,
                                                    or `_Part.inputs` change
    a failure        `NotDecided`   its position    `PAUSE` is over, or people change the service

What is kept within one decision about one part, by `Shortcuts`:

    the shortage of a minimum       `Demand.room_key`, and how often room was given back
    why a minimum is too large      `Demand.room_key`, or its draft
    whether a minimum would fit     `Demand.room_key`
    why a scale-up is held          its pod requests and its priority
    whether a scale-up would fit    its pod requests
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from math import inf
from traceback import walk_tb
from typing import Any, TypeVar

import msgspec

from scaler.decide import attempts
from scaler.decide.decision import Decision, Note, Plan, Tally
from scaler.decide.draft import Draft
from scaler.decide.kept_draft import kept_draft
from scaler.decide.memory import Memory, ServiceMemory
from scaler.decide.nodes import Nodes, PodRequests, Room
from scaler.decide.plan import plan_of
from scaler.decide.room.classes import Neighbours, NodeIndex, Requests
from scaler.decide.room.placement import Placement
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.demand import Demand, demand_of, written_of
from scaler.decide.service.states import Member
from scaler.decide.sharing import preemption
from scaler.decide.sharing.budget import Budget, number_of_rounded
from scaler.decide.sharing.limits import are_weighed, decide_alone, is_weighed
from scaler.decide.sharing.part import Admitted, Held, Part, ReservedMinimum
from scaler.decide.sharing.questions import Questions
from scaler.decide.sharing.weigh import Scope, tally_of, weigh
from scaler.decide.since_last import Followed, Moments
from scaler.decide.slices import SLICE, UnderWay
from scaler.decide.work import Steps, Work, all_of
from scaler.decide.world import Policy, Service, ServiceKey, World
from scaler.reasons.warnings import Warning

_EMPTY = ServiceMemory()
Made = TypeVar("Made")


PAUSE = 300.0
"""Seconds until a failed service is decided about again although it did not change."""
UNITS_OF_SERVICE = 20
UNITS_OF_KEEPING = 8
"""The work of looking at a service of which what is known holds."""
UNITS_OF_CLASSES = 20
"""The work of finding the classes of nodes that a service may use."""
UNITS_OF_LOOKING = 22
"""The work of making the demand of a service, for each of its instances."""
UNITS_OF_COMPARING = 10
"""The work of comparing a service with itself, for each of its instances."""
UNITS_OF_PLANNING = 7
"""The work of making the plan of a service, for each of its instances."""
MOST_FAILING = 4
"""The largest number of failing services that are searched for in one part; after that the whole
part waits."""


class NotDecided(msgspec.Struct, frozen=True):
    """Why deciding about a service failed, and until when it is left out."""

    words: str = ""
    until: float = 0.0


def not_decided(error: Exception, now: float) -> NotDecided:
    """The error in words, with the innermost module and line."""
    *_, (frame, line) = walk_tb(error.__traceback__)
    place = f"{frame.f_globals.get('__name__', '?')}:{line}"
    return NotDecided(f"{type(error).__name__}: {error}"[:500] + f" (at {place})", now + PAUSE)


def nothing_of(service: Service, seen: ServiceMemory, policy: Policy) -> Demand:
    """A demand for nothing, in place of one that could not be made. The memory of the service stays
    as it is."""
    demand = demand_of(Service(service.key, ()), ServiceMemory(), 0.0, policy)
    return msgspec.structs.replace(demand, service=service, seen=seen, memory=seen)


def left_alone(key: ServiceKey, failed: NotDecided) -> Plan:
    """A plan without actions and verdicts, with one note that says why."""
    words = f"deciding about this service failed, it is left as it is: {failed.words}"
    return Plan(key, -1, {}, False, {}, (), notes=(Note(Warning.NOT_DECIDED, words),))


def why_not_decided(plan: Plan) -> str:
    """Why deciding about the service failed; "" when it did not fail."""
    for note in plan.notes:
        if note.warning is Warning.NOT_DECIDED:
            return note.message
    return ""


def first_failing(positions: Sequence[int], attempt: Callable[[Sequence[int]], object]) -> int:
    """The first position at which `attempt` fails for the positions up to it. It has to fail for
    all positions."""

    def fails(number: int) -> bool:
        try:
            attempt(positions[:number])
        except Exception:
            return True
        return False

    return positions[bisect_left(range(len(positions)), True, lo=1, key=fails) - 1]


class _Known(msgspec.Struct, eq=False):
    """The last demand of one service, and its last plan."""

    demand: Demand
    weighed: bool
    plan: Plan
    plan_inputs: object = ""
    """`Draft.plan_inputs` of the plan; None = the draft is empty; "" = the plan was made from
    another demand."""
    failed: NotDecided | None = None

    @property
    def until(self) -> float:
        """From when on the entry does not hold by time alone; 0.0 = never."""
        return self.demand.until if self.failed is None else self.failed.until

    def is_in_time(self, now: float) -> bool:
        return not self.until or now < self.until

    def still_fails(self, service: Service, now: float) -> bool:
        """Whether the service failed among those that share nodes, and people changed nothing of it
        since. To find out again which of them fails would cost much."""
        if self.failed is None or not self.weighed:
            return False
        return self.is_in_time(now) and _asks_the_same(service, self.demand.service)


class KnownDemands:
    """`all` is in the order of `World.services`; the sets hold positions in it."""

    def __init__(self, world: World, work: Work) -> None:
        self.weighs = are_weighed(world)
        self._work = work
        self._policy = world.policy
        self.all: list[_Known] = []
        self._sorted_plans: list[Plan] = []
        self._all_plans: tuple[Plan, ...] | None = ()
        """The same as a value; None when one of them changed."""
        self.service_counts: Counter[Requests] = Counter()
        """Pod requests -> number of weighed services with these requests."""
        self.active: set[int] = set()
        """Services with something to weigh."""
        self.drafted: set[int] = set()
        """Weighed services of which the plan depends on a draft that is not empty."""
        self.serving = 0
        self.until = Moments()
        """When services are looked at again by time alone."""
        self._services = Followed[Service]()
        self._memory = Memory()
        self._may_remember_gone = False
        """The memory of this world may have entries of services that are gone: services came or
        went, or it is not the memory that the last decision returned."""
        self._gone: tuple[str, ...] = ()
        """Services that are gone, and of which the last decision kept the memory: their pods are
        being made again."""
        self._changed: Iterable[int] = ()
        """Services of which the last decision changed the memory: their demands were made from the
        memory before."""

    def holds_in(self, world: World) -> bool:
        """Whether the demands of unchanged services hold in this world too."""
        return world.policy is self._policy and are_weighed(world) == self.weighs

    def follow(self, world: World) -> Steps[tuple[set[int], bool]]:
        """Make the demands of changed services anew. Returns their positions, and whether services
        came or went."""
        old = self._services.last
        now = world.services
        other = self._services.follow(now)
        came_or_went = len(old) != len(now) or any(old[at].key != now[at].key for at in other)
        is_other_memory = world.memory.services is not self._memory.services
        self._may_remember_gone = came_or_went or is_other_memory
        if came_or_went:
            return (yield from self._align(world)), True
        changed = set[int]()
        for at in sorted({*other, *self._due(world)}):
            before = self.all[at]
            self._work.units += UNITS_OF_KEEPING
            looked = self._looked(now[at], before, world)
            if looked is not before:
                self._count(at, -1)
                self.all[at] = looked
                self._set_plan(at, looked.plan)
                self._count(at, 1)
                changed.add(at)
                yield
        return changed, False

    def remember(self, world: World, after: dict[int, ServiceMemory]) -> Memory:
        """The next memory; the same object when nothing changed. Services that are gone are left
        out. `after`: position -> the next memory of a service that was looked at, or that has a
        draft."""
        before = world.memory
        changed = [at for at in sorted(after) if after[at] is not self.all[at].demand.seen]
        next_of: dict[str, ServiceMemory | None] = {}
        for at in changed:
            next_of[self.all[at].demand.name] = None if after[at] == _EMPTY else after[at]
        gone: dict[str, ServiceMemory | None] = {}
        for name in self._names_of_gone(before.services):
            memory = before.services[name]
            gone[name] = attempts.kept_while_gone(memory, world.now, world.policy)
        self._gone = tuple([name for name, memory in gone.items() if memory is not None])
        services = _with_entries(before.services, {**next_of, **gone})
        binds = world.last_bind, world.last_binds
        same = services is before.services and binds == (before.last_bind, before.last_binds)
        self._memory = before if same else Memory(services, *binds)
        self._changed = changed
        return self._memory

    def _names_of_gone(self, services: Iterable[str]) -> Collection[str]:
        """The services that are gone, of these that are remembered."""
        if not self._may_remember_gone:
            return self._gone
        there = {known.demand.name for known in self.all}
        return [name for name in services if name not in there]

    def leave_out(self, positions: Iterable[int], error: Exception, now: float) -> None:
        """Deciding about these services failed: leave them as they are until a pause is over."""
        failed = not_decided(error, now)
        for at in positions:
            known = self.all[at]
            self._count(at, -1)
            known.failed = failed
            known.plan = left_alone(known.demand.service.key, failed)
            self._set_plan(at, known.plan)
            self._count(at, 1)

    def keep_plan(self, at: int, plan: Plan, plan_inputs: object) -> None:
        """Keep the plan of a service. An equal plan stays the same object."""
        known = self.all[at]
        known.plan_inputs = plan_inputs
        if known.weighed and plan_inputs is not None:
            self.drafted.add(at)
        else:
            self.drafted.discard(at)
        if known.plan != plan:
            known.plan = plan
            self._set_plan(at, plan)

    def plans(self) -> tuple[Plan, ...]:
        """The plans of all services; the same object as before where none of them changed."""
        if self._all_plans is None:
            self._all_plans = tuple(self._sorted_plans)
        return self._all_plans

    def _set_plan(self, at: int, plan: Plan) -> None:
        if self._sorted_plans[at] is not plan:
            self._sorted_plans[at] = plan
            self._all_plans = None

    def number_of_failed(self, positions: Iterable[int]) -> int:
        """How many of these services failed."""
        return len([at for at in positions if self.all[at].failed is not None])

    def _align(self, world: World) -> Steps[set[int]]:
        """Services came or went: find the known services by their keys. Returns the changed
        positions."""
        known = {each.demand.service.key: each for each in self.all}
        self.all = []
        self._sorted_plans = []
        self._all_plans = None
        self.service_counts = Counter()
        self.serving = 0
        self.active.clear()
        self.drafted.clear()
        self.until.clear()
        changed = set[int]()
        for at, service in enumerate(world.services):
            before = known.get(service.key)
            each = self._looked(service, before, world)
            self.all.append(each)
            self._sorted_plans.append(each.plan)
            self._count(at, 1)
            if each.weighed and each.plan_inputs is not None:
                self.drafted.add(at)
            if each is not before:
                changed.add(at)
                yield
        return changed

    def _due(self, world: World) -> Iterator[int]:
        """Positions of services to look at again although the service is the same object: by time
        or by memory."""
        yield from self.until.due(world.now)
        remembered = world.memory.services
        if remembered is self._memory.services:
            yield from self._changed
            return
        # an older memory may be back: what was noted since is to be noted again
        for at, known in enumerate(self.all):
            demand = known.demand
            seen = remembered.get(demand.name, _EMPTY)
            if demand.memory is not demand.seen or seen is not demand.seen:
                yield at

    def _looked(self, service: Service, before: _Known | None, world: World) -> _Known:
        """The entry of the service: the one from before if it still holds."""
        remembered = world.memory.services
        if before is None:
            nothing = Plan(service.key, -1, {}, False, {}, ())
            return self._anew(service, remembered.get(str(service.key), _EMPTY), nothing, world)
        if before.still_fails(service, world.now):
            return before
        demand = before.demand
        seen = remembered.get(demand.name, _EMPTY)
        if demand.service is service and before.is_in_time(world.now):
            if demand.seen is seen and demand.memory is seen:
                return before
            if demand.memory.instances is seen.instances and demand.memory.wanted == seen.wanted:
                # a demand is made of nothing else of the memory
                return msgspec.structs.replace(before, demand=demand.remembering(seen))
        return self._anew(service, seen, before.plan, world)

    def _anew(self, service: Service, seen: ServiceMemory, plan: Plan, world: World) -> _Known:
        """A new entry. `plan`: the last one, until the next one is made."""
        self._work.units += UNITS_OF_SERVICE + UNITS_OF_LOOKING * len(service.instances)
        failed = None
        try:
            demand = demand_of(service, seen, world.now, world.policy)
        except Exception as error:
            failed = not_decided(error, world.now)
            demand = nothing_of(service, seen, world.policy)
            plan = left_alone(service.key, failed)
        return _Known(demand, is_weighed(world, demand), plan, failed=failed)

    def _count(self, at: int, sign: int) -> None:
        """Count the service in the sums, the sets and the times; with sign -1, no more."""
        known = self.all[at]
        demand = known.demand
        if known.weighed:
            self.service_counts[demand.requests] += sign
            if not self.service_counts[demand.requests]:
                del self.service_counts[demand.requests]
            self.serving += sign * demand.serves
            self.active.discard(at)
            if sign > 0 and known.failed is None and not demand.nothing_to_weigh:
                self.active.add(at)
        self.until.put(at, known.until if sign > 0 else 0.0)


def _with_entries(
    services: dict[str, ServiceMemory], next_of: Mapping[str, ServiceMemory | None]
) -> dict[str, ServiceMemory]:
    """What is remembered, with these entries in place of those before; None = no entry. The same
    object where nothing is other than before."""
    differing = {}
    for name, memory in next_of.items():
        if services.get(name) is not memory:
            differing[name] = memory
    if not differing:
        return services
    services = dict(services)
    for name, memory in differing.items():
        if memory is None:
            del services[name]
        else:
            services[name] = memory
    return services


def _asks_the_same(service: Service, before: Service) -> bool:
    """Whether people changed nothing of the service since: its jobs, its rule, `spec.replicas`."""
    return service.replicas == before.replicas and (
        service is before or written_of(service) == written_of(before)
    )


class DecisionCache:
    """What one decision keeps to save time in the next. Without a cache the decision is the
    same."""

    def __init__(self) -> None:
        self.demands: KnownDemands | None = None
        self.work = Work()
        self.node_index = NodeIndex(Nodes(), self.work)
        self.neighbours: Neighbours | None = None
        self.parts: dict[int, _Part] = {}
        self.budget = Budget()
        self.waiting = 0
        """The number of services that the decision under way has not weighed yet."""

    def decide(self, world: World) -> Decision:
        """As `decide_anew`, without what did not change since the last decision."""
        return all_of(self._steps(world))

    def begin(self, world: World, most: int = SLICE) -> UnderWay:
        """The same decision in slices, each of so many units of work. One decision of a cache is
        under way at a time."""
        self.waiting = len(world.services)
        return UnderWay(self._steps(world), self.work, lambda: self.waiting, most)

    def _steps(self, asked: World) -> Steps[Decision]:
        # a decision that fails leaves nothing behind
        budget = self.budget
        demands = self.demands
        self.budget = Budget()
        self.demands = None
        world = yield from budget.steps(asked, self.work)
        if demands is None or not demands.holds_in(world):
            demands = KnownDemands(world, self.work)
            self.parts = {}
        made = yield from _Pass(world, self, demands, number_of_rounded(asked, world)).steps()
        self.budget = budget
        self.demands = demands
        return made


class _Part(msgspec.Struct, eq=False):
    """The last arbitration of one part. Holds until a node of the part, one of `inputs`, or what is
    read of a service changes."""

    active: Sequence[int]
    """The services with something to weigh."""
    drafts: dict[int, Draft]
    """Of these, and of all services of the part where victims were looked for."""
    tally: tuple[Counter[str], Counter[str]]
    heeds_room: bool
    recheck_at: float
    inputs: tuple[object, ...]
    """The other inputs of the arbitration: whether a service is probed, the last binds."""
    unsettled: frozenset[int] = frozenset()
    """The services of which the arbitration changed the memory."""
    looked_up_to: float = -inf
    """As in `Everybody`: where finite, no service of the part has a priority up to this one."""


class _Pass:
    def __init__(
        self, world: World, cache: DecisionCache, demands: KnownDemands, rounded: int
    ) -> None:
        """`rounded`: the number of services of which a request is rounded up."""
        self.world = world
        self.rounded = rounded
        self.cache = cache
        self.demands = demands
        self.drafts: dict[int, Draft] = {}
        """Drafts of this decision; services without changes have none."""

    def _look(self) -> Steps[None]:
        """Make the demands of changed services anew, and see which services share nodes."""
        world = self.world
        cache = self.cache
        demands = self.demands
        self.changed, came_or_went = yield from demands.follow(world)
        nodes = (world.nodes if demands.weighs else None) or Nodes()
        self.node_index = cache.node_index = cache.node_index.after(nodes)
        known = cache.neighbours
        counts = demands.service_counts
        index = self.node_index
        if known is None or known.service_counts != counts or known.node_classes != index.classes:
            index.forget_others(counts)
            for requests in counts:
                index.classes_for(chain.from_iterable(requests))
                cache.work.units += UNITS_OF_CLASSES
                yield
            known = Neighbours(counts, index)
            cache.parts = {}
        elif came_or_went or index.changed is None:
            cache.parts = {}
        self.neighbours = cache.neighbours = known
        self.probing = self._is_probing()

    def _is_probing(self) -> bool:
        """Whether the minimum of some service is probed now."""
        world = self.world
        for at in self.demands.active:
            if attempts.is_probing(self.demands.all[at].demand.memory, world.now, world.policy):
                return True
        return False

    def steps(self) -> Steps[Decision]:
        yield from self._look()
        yield
        parts = self.cache.parts = yield from self._arbitrated()
        self._decide_alone()
        plans = yield from self._plans()
        memory = self._memory()
        moments = [part.recheck_at for part in parts.values()]
        moments += self.demands.until.to_come(self.world.now)
        return Decision(
            plans=plans,
            memory=memory,
            recheck_at=self._first(moments),
            heeds_room=any(part.heeds_room for part in parts.values()),
            tally=self._tally(parts.values()) if self.demands.weighs else None,
        )

    def _decide_alone(self) -> None:
        """The drafts of changed services that are not weighed against others."""
        for at in self.changed:
            known = self.demands.all[at]
            if known.weighed:
                continue
            draft = self._attempt(at, decide_alone, known.demand)
            if draft is not None:
                self.drafts[at] = draft

    def _memory(self) -> Memory:
        """The next memory: what was seen of changed services, and what the drafts say."""
        after = {at: self.demands.all[at].demand.memory for at in self.changed}
        for at, draft in self.drafts.items():
            after[at] = draft.next_memory()
        return self.demands.remember(self.world, after)

    def _tally(self, parts: Iterable[_Part]) -> Tally:
        numbers = Counter[str]()
        idle = Counter[str]()
        for part in parts:
            of_part, idle_in_part = part.tally
            numbers.update(of_part)
            idle.update(idle_in_part)
        return Tally(serving=self.demands.serving, rounded=self.rounded, idle=dict(idle), **numbers)

    def _attempt(self, at: int, make: Callable[[Any, float], Made], one: object) -> Made | None:
        """What is made of one service; None when deciding about it fails, or failed before."""
        if self.demands.all[at].failed is None:
            try:
                return make(one, self.world.now)
            except Exception as error:
                self.demands.leave_out([at], error, self.world.now)
        return None

    def _plans(self) -> Steps[tuple[Plan, ...]]:
        """All plans. Made anew are those of services that changed or have a draft now, and those
        that had a draft and have none any more."""
        have_drafts = set[int]()
        for part in self.cache.parts.values():
            have_drafts.update(part.drafts)
        for at in {*self.changed, *self.drafts, *(self.demands.drafted - have_drafts)}:
            self.cache.work.units += UNITS_OF_KEEPING
            self._plan(at, self.drafts.get(at))
            yield
        return self.demands.plans()

    def _plan(self, at: int, draft: Draft | None) -> None:
        """Make the plan of one service anew, unless the plan from before holds: it was made from
        the same demand, and a draft said the same."""
        known = self.demands.all[at]
        inputs = None
        if draft is not None and any(draft.plan_inputs):
            inputs = draft.plan_inputs
        if known.plan_inputs == inputs:
            return
        self.cache.work.units += UNITS_OF_PLANNING * len(known.demand.members)
        plan = self._attempt(at, plan_of, draft or Draft(known.demand))
        if plan is not None:
            self.demands.keep_plan(at, plan, inputs)

    def _first(self, moments: Iterable[float]) -> float:
        """The first of these times that is to come; 0.0 = none."""
        return min([moment for moment in moments if moment > self.world.now], default=0.0)

    def _arbitrated(self) -> Steps[dict[int, _Part]]:
        """All parts with something to weigh. A part of which nothing that is read has changed is
        not arbitrated again."""
        changed = self._by_part([at for at in self.changed if self.demands.all[at].weighed])
        by_part = self._by_part(sorted(self.demands.active))
        other_nodes = self._with_other_nodes()
        self.cache.work.units += UNITS_OF_KEEPING * len(self.demands.active)
        yield
        self.cache.waiting = len({*self.changed, *self.demands.active})
        parts = {}
        for number, active in by_part.items():
            kept = None
            part = self.cache.parts.get(number)
            if part is not None and number not in other_nodes and self._holds(part, active):
                kept = yield from self._kept(part, changed[number])
            if kept is None:
                kept = yield from self._arbitrate_most(number, active)
                self.drafts |= kept.drafts
            parts[number] = kept
        return parts

    def _with_other_nodes(self) -> set[int]:
        """The parts of which a node changed."""
        part_of_class = self.neighbours.part_of_class
        changed = self.node_index.changed or ()
        return {part_of_class[one] for one in changed if one in part_of_class}

    def _kept(self, part: _Part, changed: Iterable[int]) -> Steps[_Part | None]:
        """The part with these services as they are now; None where something of them that is read
        is other than before."""
        if not changed:
            return part
        drafts = {}
        for at in changed:
            known = self.demands.all[at]
            before = part.drafts.get(at)
            if known.failed is not None or (
                before is None and known.demand.priority <= part.looked_up_to
            ):
                return None
            if before is None:
                continue
            self.cache.work.units += UNITS_OF_COMPARING * len(known.demand.members)
            yield
            any_victims = part.looked_up_to == inf
            draft = kept_draft(before, known.demand, self.world, any_victims=any_victims)
            if draft is None:
                return None
            drafts[at] = draft
        self.drafts |= drafts
        unsettled = [at for at, one in drafts.items() if one.next_memory() is not one.demand.seen]
        return msgspec.structs.replace(
            part, drafts={**part.drafts, **drafts}, unsettled=frozenset(unsettled)
        )

    @cached_property
    def _positions(self) -> dict[int, list[int]]:
        """Number of a part -> positions of its services."""
        return self._by_part([at for at, one in enumerate(self.demands.all) if one.weighed])

    def _by_part(self, positions: Iterable[int]) -> dict[int, list[int]]:
        found = defaultdict[int, list[int]](list)
        for at in positions:
            found[self.neighbours.part[self.demands.all[at].demand.requests]].append(at)
        return found

    def _holds(self, part: _Part, active: Sequence[int]) -> bool:
        """Whether the last arbitration holds, if no node of the part changed, and nothing of a
        service that is read."""
        in_time = not part.recheck_at or self.world.now < part.recheck_at
        return (
            part.active == active
            and part.unsettled <= self.changed
            and in_time
            and part.inputs == self._inputs(self.probing, heeds_binds=part.inputs[-1] is not None)
        )

    def _inputs(self, probing: bool, *, heeds_binds: bool) -> tuple[object, ...]:
        if not heeds_binds:
            return probing, None
        seen = self.world.memory
        last = self.world.last_bind, self.world.last_binds
        return probing, (*last, seen.last_bind, seen.last_binds)

    def _arbitrate_most(self, number: int, active: list[int]) -> Steps[_Part]:
        """Arbitrate a part, and leave out each service whose arbitration or plan raises an error:
        nobody is evicted for it. When many services raise errors, leave out all of the part."""
        demands = self.demands
        probing = self.probing
        while active:
            self.probing = probing
            try:
                part = yield from self._arbitrate(number, active)
            except Exception as error:
                failing = active
                if demands.number_of_failed(self._positions[number]) < MOST_FAILING:
                    failing = [first_failing(active, partial(self._arbitrate_all, number))]
                demands.leave_out(failing, error, self.world.now)
            else:
                for at, draft in part.drafts.items():
                    self._plan(at, draft)
                    yield
                if not demands.number_of_failed(part.drafts):
                    return part
            active = [at for at in active if demands.all[at].failed is None]
        self.probing = probing
        nothing = (Counter[str](), Counter[str]())
        inputs = self._inputs(probing, heeds_binds=False)
        return _Part(active, {}, nothing, heeds_room=False, recheck_at=0.0, inputs=inputs)

    def _arbitrate_all(self, number: int, active: Sequence[int]) -> _Part:
        return all_of(self._arbitrate(number, active))

    def _arbitrate(self, number: int, active: Sequence[int]) -> Steps[_Part]:
        known = self.demands.all
        demands = {at: known[at].demand for at in active}

        def everybody() -> dict[int, Demand]:
            found = {}
            for at in self._positions[number]:
                if known[at].failed is None:
                    found[at] = known[at].demand
            return found

        scope = Scope(number, self.node_index, self.neighbours, demands, everybody)
        probing = self.probing
        weighed = yield from weigh(self.world, scope, Shortcuts, is_probed=probing)
        self.probing = weighed.is_probed
        unsettled = set[int]()
        for at, draft in weighed.drafts.items():
            if draft.next_memory() is not draft.demand.seen:
                unsettled.add(at)
            self.cache.work.units += UNITS_OF_SERVICE
            yield
        tally = tally_of(weighed, self.world)
        self.cache.work.units += UNITS_OF_KEEPING * len(weighed.active)
        yield
        recheck_at = self._first(weighed.moments(self.world))
        self.cache.work.units += UNITS_OF_KEEPING * len(weighed.drafts)
        yield
        return _Part(
            active=active,
            drafts=weighed.drafts,
            tally=tally,
            heeds_room=weighed.heeds_room(),
            recheck_at=recheck_at,
            inputs=self._inputs(probing, heeds_binds=weighed.heeds_binds),
            unsettled=frozenset(unsettled),
            looked_up_to=weighed.looked_up_to,
        )


class _Unreserved(Placement):
    """A placement of which nothing is ever reserved: what fits once fits."""

    def __init__(self, nodes: NodeIndex) -> None:
        super().__init__(nodes)
        self._answers: dict[tuple[PodRequests, Room], Shortage | None] = {}

    def fits(self, pods: PodRequests, room: Room = Room.FREE) -> Shortage | None:
        key = (pods, room)
        if key not in self._answers:
            self._answers[key] = super().fits(pods, room)
        return self._answers[key]


class Shortcuts(Questions):
    """Answers of one decision about one part: what is asked again gets the same answer."""

    def __init__(self, placement: Placement) -> None:
        super().__init__(placement)
        self._unfit: dict[object, Shortage] = {}
        """`Demand.room_key`, and how often room was given back -> shortage, where no source
        suffices."""
        self._too_large: dict[object, Shortage | None] = {}
        """`Demand.room_key`, or the draft where that is None -> why it is too large."""
        self._would_fit: dict[object, bool] = {}
        """`Demand.room_key` -> whether the minimum would fit if nothing was reserved."""
        self._held: dict[tuple[PodRequests, int], Held] = {}
        """Pod requests and priority of a scale-up that does not fit, or may invalidate a
        reservation, or land on a node that is kept for a minimum. Room only shrinks while scale-ups
        are admitted."""

    @cached_property
    def _unreserved(self) -> Placement:
        return _Unreserved(self._placement.nodes)

    def find(self, part: Part, draft: Draft) -> ReservedMinimum | Shortage:
        """As `Questions`. More reservations make no room: the shortage stays until room is given
        back."""
        key = draft.demand.room_key
        memory = draft.memory
        if memory.victims or memory.evictions.number or key is None:
            return super().find(part, draft)
        known = self._unfit.get((key, part.placement.given_back))
        if known is not None:
            return known
        found = super().find(part, draft)
        if isinstance(found, Shortage):
            # the search itself may give room back
            self._unfit[key, part.placement.given_back] = found
        return found

    def why_too_large(self, draft: Draft) -> Shortage | None:
        """As `Questions`. Empty nodes do not change."""
        key = draft.demand.room_key or draft
        if key not in self._too_large:
            self._too_large[key] = super().why_too_large(draft)
        return self._too_large[key]

    def would_fit(self, part: Part, draft: Draft) -> bool:
        """As `Questions`. What is free does not change within a decision."""
        key = draft.demand.room_key
        if key is None:
            return super().would_fit(part, draft)
        if key not in self._would_fit:
            self._would_fit[key] = super().would_fit(part, draft)
        return self._would_fit[key]

    def scale_up(
        self, part: Part, draft: Draft, member: Member, others: Sequence[Member]
    ) -> Admitted | Held:
        """As `Questions`. Who may trade is asked anew: surplus may make room."""
        key = (member.instance.unbound, draft.demand.priority)
        known = self._held.get(key)
        if known is not None and draft.shares and not preemption.may_trade(draft):
            return known
        answer = super().scale_up(part, draft, member, others)
        if isinstance(answer, Held) and not answer.for_now:
            self._held[key] = answer
        return answer
