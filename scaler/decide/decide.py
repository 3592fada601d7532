"""The decision: one world in, what to do about every service out. Pure; everything it depends on is in the world.

    look at each service (demand) -> weigh them against each other (arbitration) -> one plan each, and the next memory

The same world gives the same decision, byte for byte. A `Cache` saves time only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

import msgspec

from scaler.decide import turn
from scaler.decide.arbitration import Arbitration
from scaler.decide.demand import Demand
from scaler.decide.demands import Demands
from scaler.decide.draft import Draft
from scaler.decide.ground import Ground, Sizes
from scaler.decide.minimum import Minimums
from scaler.decide.neighbours import Neighbours
from scaler.decide.nodes import Nodes
from scaler.decide.placement import Placement, PlacementCache
from scaler.decide.plan import plan_of
from scaler.decide.sources import Sources
from scaler.decide.turn import Moment
from scaler.decide.unweighed import decide_alone
from scaler.decide.world import Decision, Plan, Tally, World

_AT_ONCE = 0.001
"""Seconds until the next decision where this one has made more possible."""


class Cache:
    """What saves time from one decision to the next. The answers are the same without it."""

    def __init__(self) -> None:
        self.demands: Demands | None = None
        self.placement = PlacementCache()
        self.sizes = Sizes()
        self.ground: Ground | None = None
        self.neighbours: Neighbours | None = None
        self.parts: dict[int, _Part] = {}


def decide(world: World, cache: Cache | None = None) -> Decision:
    """What to do about every service of the world, and what to remember for the next decision."""
    cache = cache or Cache()
    demands, cache.demands = cache.demands, None  # a decision that fails leaves nothing behind
    if demands is None or not demands.leads_to(world):
        demands, cache.parts = Demands.before(world), {}
    made = _Pass(world, cache, demands).decide()
    cache.demands = demands
    return made


class _Part(msgspec.Struct, eq=False):
    """Services that share nodes, directly or through others, as they were arbitrated last. It holds as long as none
    of them and none of their nodes changes."""

    drafts: dict[int, Draft]
    tally: Tally
    recheck_at: float
    until: float
    """From then on time alone may change it; 0.0 = never."""
    seen: tuple[object, ...]
    """What it depends on beside them: what else is evicted, whether a service is probed, and who was bound when."""
    settled: bool
    """What is remembered of them is what was remembered before."""


class _Pass:
    """The working state of one decision."""

    def __init__(self, world: World, cache: Cache, demands: Demands) -> None:
        self.world = world
        self.cache = cache
        self.moment = Moment(world.now, world.last_bind, world.memory.last_bind, world.policy)
        self.demands = demands
        changed, self.came_or_went = demands.follow(world)
        self.changed = set(changed)
        self.drafts: dict[int, Draft] = {}
        """Of those that are decided anew."""
        self.unsaid: set[int] = set()
        """Something was said of it that does not hold any more."""
        self.rechecks: list[float] = [demands.until()]

    def decide(self) -> Decision:
        world = self.world
        tally = self._weigh(world.nodes) if world.nodes is not None and not world.alone else None
        for at in self.changed:
            if not self.demands.all[at].weighed:
                draft = self.drafts[at] = Draft(self.demands.all[at].demand)
                decide_alone(draft, world.now, world.policy)
        plans = self._plans()
        memory = self.demands.remember(world, {at: draft.outcome() for at, draft in self.drafts.items()})
        recheck_at = min((moment for moment in self.rechecks if moment > world.now), default=0.0)
        return Decision(plans, memory, recheck_at, tally)

    def _plans(self) -> tuple[Plan, ...]:
        """The same objects as last time where nothing changed."""
        for at in {*self.changed, *self.drafts, *self.unsaid}:
            known, draft = self.demands.all[at], self.drafts.get(at)
            ruling = draft.ruling if draft is not None and any(draft.ruling) else None
            if known.plan is None or at in self.changed or known.ruling != ruling:
                made = plan_of(draft or Draft(known.demand), self.world.now, self.world.policy)
                known.plan = known.plan if known.plan == made else made
                known.ruling = ruling
                self.demands.plans[at] = known.plan
        return tuple(self.demands.plans)

    # all services together

    def _weigh(self, nodes: Nodes) -> Tally:
        """Each part of the cluster by itself; one of which nothing changed is not arbitrated again."""
        cache, known = self.cache, self.demands.all
        ground = cache.ground = Ground.of(nodes, cache.ground)
        neighbours = self._neighbours(ground)
        touched = {neighbours.part(known[at].demand.requests) for at in self.changed if known[at].weighed}
        touched |= neighbours.parts_on(ground.changed or ())
        by_part: dict[int, list[int]] = {}
        for at in sorted(self.demands.active):
            by_part.setdefault(neighbours.part(known[at].demand.requests), []).append(at)
        weighing = _Weighing(self, nodes, ground, neighbours)
        parts = {}
        for number, active in by_part.items():
            part = cache.parts.pop(number, None)
            if part is None or number in touched or not weighing.holds(part):
                self.unsaid.update(part.drafts if part else ())
                part = weighing.arbitrate(number, active)
                self.drafts |= part.drafts
            parts[number] = part
        self._drop_parts()
        cache.parts = parts
        self.rechecks += [part.recheck_at for part in parts.values()]
        return _total([part.tally for part in parts.values()], self.demands.serving)

    def _neighbours(self, ground: Ground) -> Neighbours:
        """Those of the last decision as long as no service and no class of nodes came or went."""
        known, makes = self.cache.neighbours, self.demands.makes
        if known is None or known.makes != makes or known.classes_of_nodes != ground.classes:
            known = self.cache.neighbours = Neighbours(makes, ground.classes, ground.classes_for)
            self._drop_parts()
        elif self.came_or_went or ground.changed is None:
            self._drop_parts()
        return known

    def _drop_parts(self) -> None:
        if self.cache.parts and self.came_or_went:
            self.unsaid.update(at for at, known in enumerate(self.demands.all) if known.ruling is not None)
        else:
            self.unsaid.update(at for part in self.cache.parts.values() for at in part.drafts)
        self.cache.parts = {}


class _Weighing:
    """What the parts of one decision have in common."""

    def __init__(self, of: _Pass, nodes: Nodes, ground: Ground, neighbours: Neighbours) -> None:
        self.world, self.cache, self.moment, self.demands = of.world, of.cache, of.moment, of.demands
        self.nodes, self.ground, self.neighbours = nodes, ground, neighbours
        self.probing = any(turn.is_probing(self.demands.all[at].demand.memory, of.moment) for at in self.demands.tried)
        assumed = [self.demands.all[at].demand.service for at in sorted(self.demands.assumed)]
        ending = [i for service in assumed for i in service.instances if i.terminating and not i.pods]
        self.evicted = [seat for instance in ending for seat in instance.seats]
        """Evictions under way: the nodes do not show them yet."""

    def holds(self, part: _Part) -> bool:
        """Whether the part is as it was, given that none of its services and nodes changed."""
        in_time = not part.until or self.world.now < part.until
        return part.settled and in_time and part.seen == self._seen(heeds_binds=part.seen[-1] is not None)

    def _seen(self, *, heeds_binds: bool) -> tuple[object, ...]:
        binds = (self.moment.last_bind, self.moment.bind_before) if heeds_binds else None
        return self.evicted, self.probing, binds

    def arbitrate(self, number: int, active: list[int]) -> _Part:
        everybody = _Everybody(self, number)
        drafts = [everybody.draft(at) for at in active]
        placement = Placement(
            self.nodes, now=self.world.now, due_back=self.world.policy.due_back, cache=self.cache.placement
        )
        placement.grant(self.evicted)
        for draft in drafts:
            in_time = draft.memory.backoff_until or draft.demand.has_turns
            back_at = self.ground.back_at(self.neighbours.classes(draft)) if in_time else 0.0
            turn.observe(draft, self.moment, back_at)
            draft.shares = not self.neighbours.is_alone(draft)
        sources = Sources(
            placement,
            self.neighbours,
            self.moment,
            everybody=everybody,
            ground=self.ground,
            room_to_come=bool(self.evicted) or self.ground.is_unusual(self.neighbours.classes_of(number)),
        )
        minimums = Minimums(
            sources, too_large=lambda pods: self.cache.sizes.too_large(pods, self.nodes), probing=self.probing
        )
        heeds_binds = any(d.demand.has_turns or d.memory.turn_since or d.memory.failures for d in drafts)
        seen = self._seen(heeds_binds=heeds_binds)
        Arbitration(drafts, self.neighbours, placement, self.moment, minimums).run()
        self.probing = minimums.probing
        for draft in everybody.drafts.values():
            turn.settle(draft, self.moment)
        return self._part(everybody.drafts, drafts, seen)

    def _part(self, all_drafts: dict[int, Draft], active: list[Draft], seen: tuple[object, ...]) -> _Part:
        moments = [moment for draft in all_drafts.values() for moment in turn.moments(draft, self.moment)]
        if any(draft.again for draft in all_drafts.values()):
            moments.append(self.world.now + _AT_ONCE)
        overdue = list(self.ground.overdue_from(self.world.policy.due_back))
        if any(draft.demand.lacks_minimum for draft in active):
            moments += overdue
        return _Part(
            drafts=all_drafts,
            tally=self._tally(all_drafts, active),
            recheck_at=self._first(moments),
            until=self._first([*moments, *overdue]),
            seen=seen,
            settled=all(draft.outcome() is draft.demand.seen for draft in all_drafts.values()),
        )

    def _first(self, moments: Iterable[float]) -> float:
        return min((moment for moment in moments if moment > self.world.now), default=0.0)

    def _tally(self, drafts: dict[int, Draft], active: list[Draft]) -> Tally:
        idle: dict[str, int] = {}
        for draft in active:
            if not draft.demand.serves:
                for resource, amount in _bound_amounts(draft.demand):
                    idle[resource] = idle.get(resource, 0) + amount
        acted_on = [draft for draft in drafts.values() if not draft.demand.service.assumed]
        return Tally(
            minimums_waiting=sum(draft.demand.lacks_minimum for draft in active),
            scale_ups_waiting=sum(len(draft.waits) for draft in active if draft.demand.serves),
            in_backoff=sum(turn.in_backoff(draft.memory, self.moment) for draft in active),
            probing=sum(turn.is_probing(draft.memory, self.moment) for draft in active),
            revoked=sum(len(draft.revoked) for draft in acted_on),
            evicted=sum(len(draft.evicted) for draft in acted_on),
            idle=idle,
        )


class _Everybody:
    """Drafts of all services of one part, made when first asked for. Most decisions evict nobody and never ask."""

    def __init__(self, of: _Weighing, number: int) -> None:
        self._of, self._number = of, number
        self.drafts: dict[int, Draft] = {}

    def draft(self, at: int) -> Draft:
        if at not in self.drafts:
            self.drafts[at] = Draft(self._of.demands.all[at].demand)
        return self.drafts[at]

    @cached_property
    def _positions(self) -> list[int]:
        part, known = self._of.neighbours.part, self._of.demands.all
        return [at for at, each in enumerate(known) if each.weighed and part(each.demand.requests) == self._number]

    @cached_property
    def _lowest(self) -> int:
        return min(self._of.demands.all[at].demand.priority for at in self._positions)

    def __call__(self, most: float) -> list[Draft]:
        return [self.draft(at) for at in self._positions] if self._lowest <= most else []


def _total(tallies: list[Tally], serving: int) -> Tally:
    numbers = Counter[str]()
    idle = Counter[str]()
    for tally in tallies:
        numbers.update({name: getattr(tally, name) for name in _SUMMED})
        idle.update(tally.idle)
    return Tally(serving=serving, idle=dict(idle), **numbers)


_SUMMED = [name for name in Tally.__struct_fields__ if name not in ("serving", "idle")]


def _bound_amounts(demand: Demand) -> Iterable[tuple[str, int]]:
    for instance in demand.service.instances:
        for _, request in instance.seats:
            yield from request.requests


__all__ = ["Cache", "decide"]
