"""The services of one part are weighed against each other: drafts in, drafts filled by
`Arbitration` out, with what the decision says of them as a whole."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from scaler.decide import attempts
from scaler.decide.draft import Draft
from scaler.decide.nodes import Node, PodRequest
from scaler.decide.room.classes import Neighbours, NodeIndex
from scaler.decide.room.placement import Placement
from scaler.decide.service.demand import Demand
from scaler.decide.sharing import gathering, observed
from scaler.decide.sharing.arbitration import Arbitration
from scaler.decide.sharing.part import Part, Questions
from scaler.decide.sharing.release import NARROWER_FIRST
from scaler.decide.sharing.scale_up import RESERVED_FOR_OTHERS
from scaler.decide.work import Steps
from scaler.decide.world import World

UNITS_OF_DRAFT = 10
Demands = Mapping[int, Demand]
"""Position of a service in `World.services` -> what it asks for."""


class Scope(msgspec.Struct, frozen=True, eq=False):
    """One part of the cluster: its nodes, and the services that share them."""

    number: int
    nodes: NodeIndex
    neighbours: Neighbours
    active: Demands
    """Services with something to weigh."""
    everybody: Callable[[], Demands]
    """All services of the part; asked only when victims are looked for."""

    def draft(self, demand: Demand) -> Draft:
        """An empty draft of a service of the part."""
        neighbours = self.neighbours
        shares = neighbours.shares(demand.requests)
        return Draft(demand, neighbours.classes[demand.requests], shares=shares)

    def unusual_nodes(self) -> list[Node]:
        """Nodes of the part with terminating pods, or not schedulable: room may be expected."""
        part_of = self.neighbours.part_of_class
        nodes = [self.nodes.nodes[index] for index in self.nodes.unusual]
        return [node for node in nodes if part_of.get(node.node_class) == self.number]


class Weighed(msgspec.Struct, frozen=True, eq=False):
    """What came of one part. `active`: the drafts of services with something to weigh."""

    drafts: dict[int, Draft]
    active: list[Draft]
    is_probed: bool
    heeds_binds: bool
    """Whether a bind of any pod in the cluster could have changed it."""
    unusual: list[Node]
    kept_until: list[float]
    """7d: when nodes cease to be kept for minimums; times in the past included."""
    is_careful: bool
    """10c: it was not weighed what the scheduler may do to reservations: they are too many."""
    looked_up_to: float
    """As in `Everybody`."""

    def heeds_room(self) -> bool:
        """Whether a change of what is free alone may change it."""
        return any(draft.heeds_room for draft in self.active)

    def moments(self, world: World) -> Iterator[float]:
        """The times at which it may change by time alone; times in the past included."""
        for draft in self.drafts.values():
            yield from observed.moments(draft, world)
        for node in self.unusual:
            policy = world.policy
            yield from node.overdue_from(policy.due_back, policy.flap_patience)
        yield from self.kept_until


class Everybody:
    """The drafts of all services of a part, also of those with nothing to weigh. Most decisions
    look for no victims and never need them."""

    def __init__(self, scope: Scope, drafts: dict[int, Draft]) -> None:
        self._scope = scope
        self._drafts = drafts
        self._all: list[Draft] = []
        self.looked_up_to = -math.inf
        """No service has a priority up to this one; infinite: all services were looked at."""

    def of_priority(self, most: float) -> list[Draft]:
        """The drafts; none where each has a higher priority than that."""
        if most <= self.looked_up_to:
            return self._all
        demands = self._scope.everybody()
        if all(demand.priority > most for demand in demands.values()):
            self.looked_up_to = most
            return []
        self.looked_up_to = math.inf
        for position, demand in demands.items():
            if position not in self._drafts:
                self._drafts[position] = self._scope.draft(demand)
        self._all = [self._drafts[position] for position in demands]
        return self._all


def weigh(
    world: World, scope: Scope, ask: Callable[[Placement], Questions], *, is_probed: bool
) -> Steps[Weighed]:
    """Weigh the services of one part. `is_probed`: the minimum of some service of the world is
    probed now."""
    drafts = {}
    for position, demand in scope.active.items():
        drafts[position] = scope.draft(demand)
        scope.nodes.work.units += UNITS_OF_DRAFT
        yield
    active = list(drafts.values())

    everybody = Everybody(scope, drafts)
    policy = world.policy
    placement = Placement(
        scope.nodes, now=world.now, due_back=policy.due_back, flap_patience=policy.flap_patience
    )
    scaled_down = _scaled_down(active)
    placement.count_freed(scaled_down)
    unusual = scope.unusual_nodes()
    heeds_binds = any(observed.heeds_binds(draft) for draft in active)
    part = Part(
        world,
        placement,
        drafts,
        everybody.of_priority,
        ask(placement),
        is_probed=is_probed,
        expects_room=bool(scaled_down or unusual),
    )
    yield from Arbitration(part).run()
    kept_until = list(gathering.moments(part))
    scope.nodes.work.units += UNITS_OF_DRAFT * len(active)
    yield
    return Weighed(
        drafts,
        active,
        part.is_probed,
        heeds_binds,
        unusual,
        kept_until,
        part.is_careful,
        everybody.looked_up_to,
    )


def _scaled_down(active: list[Draft]) -> list[tuple[str, PodRequest]]:
    """3c: bound pods of instances beyond `spec.replicas`. Their room is expected."""
    bound_pods: list[tuple[str, PodRequest]] = []
    for draft in active:
        for member in draft.demand.scaled_down:
            bound_pods += member.instance.bound_pods
    return bound_pods


def tally_of(weighed: Weighed, world: World) -> tuple[Counter[str], Counter[str]]:
    """The numbers of `Tally` about services with something to weigh, and idle resources."""
    minimums = 0
    scale_ups = 0
    in_backoff = 0
    probing = 0
    idle = Counter[str]()
    careful = 0
    for draft in weighed.active:
        careful += weighed.is_careful and _may_wait_for_a_careful_answer(draft)
        minimums += draft.demand.lacks_minimum
        in_backoff += attempts.in_backoff(draft.memory, world.now)
        probing += attempts.is_probing(draft.memory, world.now, world.policy)
        if draft.demand.serves:
            scale_ups += len(draft.waits)
            continue
        for instance in draft.demand.service.instances:
            for _, request in instance.bound_pods:
                idle.update(dict(request.requests))
    numbers = Counter(
        minimums_waiting=minimums,
        scale_ups_waiting=scale_ups,
        in_backoff=in_backoff,
        probing=probing,
        careful=careful,
    )
    return numbers, idle


def _may_wait_for_a_careful_answer(draft: Draft) -> bool:
    """10c: whether something of the service waits because the scheduler may invalidate a
    reservation, which a careful answer says without weighing it."""
    for why in (*draft.waits.values(), *draft.revoked.values()):
        if NARROWER_FIRST in why.about or RESERVED_FOR_OTHERS in why.about:
            return True
    return False
