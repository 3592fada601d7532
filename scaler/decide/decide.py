"""The decision: one world in, what to do about every service out. Pure; everything it depends on is in the world.

    look at each service (demand) -> weigh them against each other (arbitration) -> one plan each, and the next memory

The same world gives the same decision, byte for byte. A `Cache` saves time only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache

import msgspec

from scaler.decide import turn
from scaler.decide.arbitration import Arbitration
from scaler.decide.demand import Demand, look
from scaler.decide.draft import Draft
from scaler.decide.minimum import Minimums
from scaler.decide.neighbours import Neighbours
from scaler.decide.nodes import Amounts, Node, NodeClass, Nodes, PodRequests
from scaler.decide.placement import Placement, PlacementCache, emptied
from scaler.decide.plan import plan_of
from scaler.decide.shortage import Shortage
from scaler.decide.sources import Sources
from scaler.decide.turn import Moment
from scaler.decide.unweighed import decide_alone
from scaler.decide.world import (
    Decision,
    Memory,
    Plan,
    Service,
    ServiceKey,
    ServiceMemory,
    Tally,
    World,
)

_EMPTY = ServiceMemory()
_AT_ONCE = 0.001
"""Seconds until the next decision where this one has made more possible."""
_name = lru_cache(maxsize=1 << 17)(str)


class _Known(msgspec.Struct):
    """One service as it was decided last. `rest`: its plan follows from its demand alone."""

    demand: Demand
    plan: Plan
    ruling: object
    weighed: bool
    rest: bool


class Cache:
    """What saves time from one decision to the next. The answers are the same without it."""

    def __init__(self) -> None:
        self.services: dict[ServiceKey, _Known] = {}
        self.placement = PlacementCache()
        self.sizes = _Sizes()
        self.ground: _Ground | None = None


def decide(world: World, cache: Cache | None = None) -> Decision:
    """What to do about every service of the world, and what to remember for the next decision."""
    return _Pass(world, cache or Cache()).decide()


class _Pass:
    """The working state of one decision."""

    def __init__(self, world: World, cache: Cache) -> None:
        self.world = world
        self.cache = cache
        self.moment = Moment(world.now, world.last_bind, world.memory.last_bind, world.policy)
        self.demands = [self._demand(service) for service in world.services]
        self.drafts: dict[ServiceKey, Draft] = {}

    def decide(self) -> Decision:
        world = self.world
        tally = self._weigh(world.nodes) if world.nodes is not None and not world.alone else None
        for demand in self.demands:
            if not self._is_weighed(demand) and not self._follows_from_demand(demand):
                decide_alone(self.draft(demand), world.now, world.policy)
        for draft in self.drafts.values():
            if self._is_weighed(draft.demand):
                turn.settle(draft, self.moment)
        return Decision(
            tuple([self._plan(demand) for demand in self.demands]), self._memory(), self._recheck_at(), tally
        )

    # each service alone

    def _demand(self, service: Service) -> Demand:
        """Unchanged ones are known."""
        seen = self.world.memory.services.get(_name(service.key), _EMPTY)
        known = self.cache.services.get(service.key)
        if known is not None and known.demand.service is service and known.demand.seen is seen:
            until = known.demand.until
            if (not until or self.world.now < until) and known.demand.policy is self.world.policy:
                return known.demand
        return look(service, seen, self.world.now, self.world.policy)

    def _is_weighed(self, demand: Demand) -> bool:
        weighs = self.world.nodes is not None and not self.world.alone
        return weighs and demand.target is not None and demand.service.options.arbitration

    def _follows_from_demand(self, demand: Demand) -> bool:
        """Whether the plan that is known of it still holds, whatever the other services do."""
        known = self.cache.services.get(demand.service.key)
        return known is not None and known.demand is demand and known.rest and known.weighed == self._is_weighed(demand)

    def draft(self, demand: Demand) -> Draft:
        found = self.drafts.get(demand.service.key)
        if found is None:
            found = self.drafts[demand.service.key] = Draft(demand)
        return found

    # all services together

    def _weigh(self, nodes: Nodes) -> Tally:
        world = self.world
        weighed = [demand for demand in self.demands if self._is_weighed(demand)]
        active = [self.draft(demand) for demand in weighed if not demand.is_at_rest]
        placement = Placement(nodes, now=world.now, due_back=world.policy.due_back, cache=self.cache.placement)
        neighbours = Neighbours(weighed, placement)
        ground = self.cache.ground = _Ground.of(nodes, self.cache.ground)
        evicted = self._grant_what_is_evicted(placement)
        for draft in active:
            back_at = ground.back_at(neighbours.classes(draft)) if _waits_for_time(draft) else 0.0
            turn.observe(draft, self.moment, back_at)
            draft.shares = not neighbours.is_alone(draft)
        sources = Sources(
            placement,
            neighbours,
            self.moment,
            everybody=_Everybody(self, weighed),
            ground=ground,
            room_to_come=evicted or bool(ground.unusual),
        )
        minimums = Minimums(
            sources,
            too_large=lambda pods: self.cache.sizes.too_large(pods, nodes),
            probing=any(turn.is_probing(draft.memory, self.moment) for draft in active),
        )
        Arbitration(active, neighbours, placement, self.moment, minimums).run()
        return self._tally(weighed, active)

    def _grant_what_is_evicted(self, placement: Placement) -> bool:
        """Evictions under way: the nodes do not show them yet."""
        assumed = [demand.service for demand in self.demands if demand.service.assumed]
        ending = [i for service in assumed for i in service.instances if i.terminating and not i.pods]
        seats = [seat for instance in ending for seat in instance.seats]
        placement.grant(seats)
        return bool(seats)

    def _tally(self, weighed: list[Demand], active: list[Draft]) -> Tally:
        idle: dict[str, int] = {}
        for draft in active:
            if not draft.demand.serves:
                for resource, amount in _bound_amounts(draft.demand):
                    idle[resource] = idle.get(resource, 0) + amount
        drafts = self.drafts.values()
        return Tally(
            serving=sum(demand.serves for demand in weighed),
            minimums_waiting=sum(draft.demand.lacks_minimum for draft in active),
            scale_ups_waiting=sum(len(draft.waits) for draft in active if draft.demand.serves),
            in_backoff=sum(turn.in_backoff(draft.memory, self.moment) for draft in active),
            probing=sum(turn.is_probing(draft.memory, self.moment) for draft in active),
            revoked=sum(len(draft.revoked) for draft in drafts if not draft.demand.service.assumed),
            evicted=sum(len(draft.evicted) for draft in drafts if not draft.demand.service.assumed),
            idle=idle,
        )

    # the outcome

    def _plan(self, demand: Demand) -> Plan:
        """The same object as last time where nothing changed."""
        key = demand.service.key
        known, draft = self.cache.services.get(key), self.drafts.get(key)
        if draft is None and known is not None and self._follows_from_demand(demand):
            return known.plan
        weighed = self._is_weighed(demand)
        at_rest = draft is None or not weighed or demand.is_at_rest
        ruling = draft.ruling if draft is not None else None
        if known is not None and known.demand is demand and known.weighed == weighed and known.ruling == ruling:
            made = known.plan
        else:
            made = plan_of(draft or Draft(demand), self.world.now, self.world.policy)
            if known is not None and known.plan == made:
                made = known.plan
        rest = at_rest and not (draft is not None and draft.evicted)
        self.cache.services[key] = _Known(demand, made, ruling, weighed, rest)
        return made

    def _memory(self) -> Memory:
        """The next memory; the same object when nothing changed. Of services that are gone nothing is kept."""
        before = self.world.memory
        changed = {d.name: after for d in self.demands if (after := self._remembered(d)) is not d.seen}
        services = before.services
        if changed:
            services = {**services, **changed}
        names = [demand.name for demand in self.demands]
        if len(services) > len(names) or any(memory == _EMPTY for memory in changed.values()):
            services = {name: found for name in names if (found := services.get(name, _EMPTY)) != _EMPTY}
        if services is before.services and before.last_bind == self.world.last_bind:
            return before
        return Memory(services, self.world.last_bind)

    def _remembered(self, demand: Demand) -> ServiceMemory:
        draft = self.drafts.get(demand.service.key)
        return draft.outcome() if draft is not None else demand.memory

    def _recheck_at(self) -> float:
        """The earliest moment after now at which time alone may change the decision; 0.0 = never."""
        moments = [demand.until for demand in self.demands if demand.until]
        for draft in self.drafts.values():
            if draft.again:
                moments.append(self.world.now + _AT_ONCE)
            moments += turn.moments(draft, self.moment)
        waits = any(draft.demand.lacks_minimum for draft in self.drafts.values())
        if waits and self.cache.ground is not None:
            moments += _to_come_until(self.cache.ground.unusual, self.world.policy.due_back)
        return min((moment for moment in moments if moment > self.world.now), default=0.0)


class _Everybody:
    """Drafts of all services, made when first asked for. Most decisions evict nobody and never ask."""

    def __init__(self, of: _Pass, weighed: list[Demand]) -> None:
        self._of = of
        self._weighed = weighed
        self._drafts: list[Draft] | None = None
        self.lowest = min((demand.priority for demand in weighed), default=0)

    def __call__(self) -> list[Draft]:
        if self._drafts is None:
            self._drafts = [self._of.draft(demand) for demand in self._weighed]
        return self._drafts


class _Ground:
    """What is known of the nodes beside the room on them; found when first asked for."""

    def __init__(self, nodes: Nodes) -> None:
        self._all = nodes
        self._nodes = nodes.nodes

    @classmethod
    def of(cls, nodes: Nodes, known: _Ground | None) -> _Ground:
        """The known one where nothing changed."""
        return known if known is not None and known._all is nodes else cls(nodes)

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self._nodes}

    @cached_property
    def unusual(self) -> list[Node]:
        """Nodes on which pods end, or that take none now."""
        return [node for node in self._nodes if node.ending or not node.ready or node.cordoned]

    @cached_property
    def _since(self) -> dict[NodeClass, float]:
        found: dict[NodeClass, float] = {}
        for node in self._nodes:
            if node.schedulable and node.since > found.get(node.node_class, 0.0):
                found[node.node_class] = node.since
        return found

    def back_at(self, classes: Iterable[NodeClass]) -> float:
        """When a node of one of these classes last appeared or returned."""
        return max((self._since.get(each, 0.0) for each in classes), default=0.0)


class _Sizes:
    """What would not fit even on empty nodes: depends on what nodes are, not on what is free."""

    def __init__(self) -> None:
        self._nodes: Nodes | None = None
        self._of: list[tuple[NodeClass, Amounts]] = []
        self._empty: Placement | None = None
        self._known: dict[PodRequests, Shortage | None] = {}

    def too_large(self, pods: PodRequests, nodes: Nodes) -> Shortage | None:
        if nodes is not self._nodes:
            of = [(node.node_class, node.allocatable) for node in nodes.nodes]
            if of != self._of or self._nodes is None or nodes.resources != self._nodes.resources:
                self._empty, self._known, self._of = None, {}, of
            self._nodes = nodes
        if pods not in self._known:
            if self._empty is None:
                self._empty = emptied(nodes)
            self._known[pods] = self._empty.fits(pods)
        return self._known[pods]


def _waits_for_time(draft: Draft) -> bool:
    memory = draft.memory
    return bool(memory.backoff_until) or any(one.backoff_until for one in memory.instances.values())


def _bound_amounts(demand: Demand) -> Iterable[tuple[str, int]]:
    for instance in demand.service.instances:
        for _, request in instance.seats:
            yield from request.requests


def _to_come_until(nodes: Iterable[Node], due_back: float) -> Iterable[float]:
    for node in nodes:
        if not node.schedulable:
            yield node.since + due_back
        for deadline, _ in node.ending:
            yield deadline + due_back


__all__ = ["Cache", "decide"]
