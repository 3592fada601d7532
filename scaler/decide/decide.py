"""The decision: one world in, one plan for every service out. Pure: a decision depends on the world
alone.

    demand of each service -> arbitration, or `decide_alone` -> one plan for each service, and the
    next memory

The same world gives the same decision, byte for byte. A `DecisionCache` saves time only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property, partial
from typing import Any, TypeVar

import msgspec

from scaler.decide import attempts
from scaler.decide.again import MOST_FAILING, Demands, Shortcuts, first_failing
from scaler.decide.decision import Decision, Plan, Tally
from scaler.decide.draft import Draft
from scaler.decide.nodes import Node, Nodes
from scaler.decide.plan import plan_of
from scaler.decide.room.classes import Neighbours, NodeIndex
from scaler.decide.room.placement import Placement
from scaler.decide.sharing import observed
from scaler.decide.sharing.arbitration import Arbitration
from scaler.decide.sharing.limits import decide_alone
from scaler.decide.sharing.part import Part
from scaler.decide.world import World

Made = TypeVar("Made")


class DecisionCache:
    """What one decision keeps to save time in the next. Without a cache the decision is the
    same."""

    def __init__(self) -> None:
        self.demands: Demands | None = None
        self.node_index = NodeIndex(Nodes())
        self.neighbours: Neighbours | None = None
        self.parts: dict[int, _Part] = {}


def decide(world: World, cache: DecisionCache | None = None) -> Decision:
    """What to do about every service of the world, and what to remember for the next decision."""
    cache = cache or DecisionCache()
    # a decision that fails leaves no demands behind
    demands = cache.demands
    cache.demands = None
    if demands is None or not demands.holds_in(world):
        demands = Demands(world)
        cache.parts = {}
    made = _Pass(world, cache, demands).decide()
    cache.demands = demands
    return made


class _Part(msgspec.Struct, eq=False):
    """The last arbitration of one part. Holds until a service or a node of the part, or one of
    `inputs`, changes."""

    drafts: dict[int, Draft]
    tally: tuple[Counter[str], Counter[str]]
    heeds_room: bool
    recheck_at: float
    inputs: tuple[object, ...]
    """The other inputs of the arbitration: whether a service is probed, the last binds."""
    settled: bool
    """The arbitration changed the memory of no service."""


class _Pass:
    def __init__(self, world: World, cache: DecisionCache, demands: Demands) -> None:
        self.world = world
        self.cache = cache
        self.demands = demands
        self.changed, came_or_went = demands.follow(world)
        self.drafts: dict[int, Draft] = {}
        """Drafts of this decision; services without changes have none."""
        nodes = (world.nodes if demands.weighs else None) or Nodes()
        self.node_index = cache.node_index = cache.node_index.after(nodes)
        known = cache.neighbours
        counts = demands.service_counts
        index = self.node_index
        if known is None or known.service_counts != counts or known.node_classes != index.classes:
            known = Neighbours(counts, index)
            cache.parts = {}
        elif came_or_went or index.changed is None:
            cache.parts = {}
        self.neighbours = cache.neighbours = known
        self.probing = any(
            attempts.is_probing(demands.all[at].demand.memory, world.now, world.policy)
            for at in demands.active
        )

    def decide(self) -> Decision:
        world = self.world
        demands = self.demands
        parts = self.cache.parts = self._arbitrated()
        for at in self.changed:
            if not demands.all[at].weighed and (
                draft := self._attempt(at, decide_alone, demands.all[at].demand)
            ):
                self.drafts[at] = draft
        plans = self._plans()
        looked_at = {at: demands.all[at].demand.memory for at in self.changed}
        memory = demands.remember(
            world, looked_at | {at: draft.outcome() for at, draft in self.drafts.items()}
        )
        recheck_at = self._first(
            [*demands.until.values(), *(part.recheck_at for part in parts.values())]
        )
        numbers = Counter[str]()
        idle = Counter[str]()
        for part in parts.values():
            numbers.update(part.tally[0])
            idle.update(part.tally[1])
        tally = (
            Tally(serving=demands.serving, idle=dict(idle), **numbers) if demands.weighs else None
        )
        return Decision(
            plans, memory, recheck_at, any(part.heeds_room for part in parts.values()), tally
        )

    def _attempt(self, at: int, make: Callable[[Any, float], Made], one: object) -> Made | None:
        """What is made of one service; None when deciding about it fails, or failed before."""
        if self.demands.all[at].failed is None:
            try:
                return make(one, self.world.now)
            except Exception as error:
                self.demands.leave_out([at], error, self.world.now)
        return None

    def _plans(self) -> tuple[Plan, ...]:
        unchanged = {at for part in self.cache.parts.values() for at in part.drafts}
        for at in {*self.changed, *self.drafts, *(self.demands.drafted - unchanged)}:
            self._plan(at, self.drafts.get(at))
        return tuple(self.demands.plans)

    def _plan(self, at: int, draft: Draft | None) -> None:
        """Make the plan of one service anew, unless all that it depends on is as it was."""
        demands = self.demands
        known = self.demands.all[at]
        plan_inputs = draft.plan_inputs if draft is not None and any(draft.plan_inputs) else None
        if known.plan_inputs != plan_inputs and (
            made := self._attempt(at, plan_of, draft or Draft(known.demand))
        ):
            known.plan_inputs = plan_inputs
            (
                demands.drafted.add
                if known.weighed and plan_inputs is not None
                else demands.drafted.discard
            )(at)
            if known.plan != made:
                known.plan = demands.plans[at] = made

    def _first(self, moments: Iterable[float]) -> float:
        return min((moment for moment in moments if moment > self.world.now), default=0.0)

    def _arbitrated(self) -> dict[int, _Part]:
        """All parts with something to weigh. A part without changes is not arbitrated again."""
        touched = set(self._by_part(at for at in self.changed if self.demands.all[at].weighed))
        of_class = self.neighbours.part_of_class
        touched |= {of_class[one] for one in self.node_index.changed or () if one in of_class}
        parts = {}
        for number, active in self._by_part(sorted(self.demands.active)).items():
            part = self.cache.parts.get(number)
            if part is None or number in touched or not self._holds(part):
                part = self._arbitrate_most(number, active)
                self.drafts |= part.drafts
            parts[number] = part
        return parts

    @cached_property
    def _positions(self) -> dict[int, list[int]]:
        return self._by_part(at for at, one in enumerate(self.demands.all) if one.weighed)

    def _by_part(self, positions: Iterable[int]) -> dict[int, list[int]]:
        found = defaultdict[int, list[int]](list)
        for at in positions:
            found[self.neighbours.part[self.demands.all[at].demand.requests]].append(at)
        return found

    def _holds(self, part: _Part) -> bool:
        """Whether the last arbitration holds, if no service and no node of the part changed."""
        in_time = not part.recheck_at or self.world.now < part.recheck_at
        return (
            part.settled
            and in_time
            and part.inputs == self._inputs(heeds_binds=part.inputs[-1] is not None)
        )

    def _inputs(self, *, heeds_binds: bool) -> tuple[object, ...]:
        binds = (self.world.last_bind, self.world.memory.last_bind) if heeds_binds else None
        return self.probing, binds

    def _arbitrate_most(self, number: int, active: list[int]) -> _Part:
        """Arbitrate a part, and leave out each service whose arbitration or plan raises an error:
        nobody is evicted for it. When many services raise errors, leave out all of the part."""
        demands = self.demands
        probing = self.probing
        while active:
            self.probing = probing
            try:
                part = self._arbitrate(number, active)
            except Exception as error:
                many = (
                    sum(demands.all[at].failed is not None for at in self._positions[number])
                    >= MOST_FAILING
                )
                failing = (
                    active if many else [first_failing(active, partial(self._arbitrate, number))]
                )
                demands.leave_out(failing, error, self.world.now)
            else:
                for at, draft in part.drafts.items():
                    self._plan(at, draft)
                if all(demands.all[at].failed is None for at in part.drafts):
                    return part
            active = [at for at in active if demands.all[at].failed is None]
        self.probing = probing
        return self._part({}, [], self._inputs(heeds_binds=False), ())

    def _arbitrate(self, number: int, active: Sequence[int]) -> _Part:
        world = self.world
        known = self.demands.all
        drafts = {at: self._draft(at) for at in active}
        waiting = list(drafts.values())

        @cache  # most decisions look for no victims and never call it
        def drafts_of_part(most: float) -> list[Draft]:
            positions = [at for at in self._positions[number] if known[at].failed is None]
            if all(known[at].demand.priority > most for at in positions):
                return []
            drafts.update({at: self._draft(at) for at in positions if at not in drafts})
            return [drafts[at] for at in positions]

        placement = Placement(self.node_index, now=world.now, due_back=world.policy.due_back)
        drained = [
            bound_pod
            for draft in waiting
            for member in draft.demand.scaled_down
            for bound_pod in member.instance.bound_pods
        ]
        placement.count_freed(drained)
        part_of = self.neighbours.part_of_class
        nodes = self.node_index.nodes
        unusual = [
            nodes[at]
            for at in self.node_index.unusual
            if part_of.get(nodes[at].node_class) == number
        ]
        weighed = Part(
            world,
            placement,
            drafts,
            drafts_of_part,
            Shortcuts(placement),
            is_probed=self.probing,
            expects_room=bool(drained or unusual),
        )
        inputs = self._inputs(heeds_binds=any(observed.heeds_binds(draft) for draft in waiting))
        Arbitration(weighed).run()
        self.probing = weighed.is_probed
        return self._part(drafts, waiting, inputs, unusual)

    def _draft(self, at: int) -> Draft:
        demand = self.demands.all[at].demand
        neighbours = self.neighbours
        return Draft(
            demand, neighbours.classes[demand.requests], shares=neighbours.shares(demand.requests)
        )

    def _part(
        self,
        drafts: dict[int, Draft],
        active: list[Draft],
        inputs: tuple[object, ...],
        unusual: Sequence[Node],
    ) -> _Part:
        moments: list[float] = []
        for draft in drafts.values():
            moments += observed.moments(draft, self.world)
        moments += [
            moment for node in unusual for moment in node.overdue_from(self.world.policy.due_back)
        ]
        return _Part(
            drafts=drafts,
            tally=_tally_of(active, self.world),
            heeds_room=any(draft.heeds_room for draft in active),
            recheck_at=self._first(moments),
            inputs=inputs,
            settled=all(draft.outcome() is draft.demand.seen for draft in drafts.values()),
        )


def _tally_of(active: Sequence[Draft], world: World) -> tuple[Counter[str], Counter[str]]:
    """The numbers of `Tally` about weighed services, and idle resources. `active`: drafts with
    something to weigh."""
    idle = Counter[str]()
    for draft in active:
        for instance in () if draft.demand.serves else draft.demand.service.instances:
            for _, request in instance.bound_pods:
                idle.update(dict(request.requests))
    numbers = Counter(
        minimums_waiting=sum([draft.demand.lacks_minimum for draft in active]),
        scale_ups_waiting=sum([len(draft.waits) for draft in active if draft.demand.serves]),
        in_backoff=sum([attempts.in_backoff(draft.memory, world.now) for draft in active]),
        probing=sum(
            [attempts.is_probing(draft.memory, world.now, world.policy) for draft in active]
        ),
    )
    return numbers, idle
