"""The decision: one world in, one plan for every service out, and the next memory. Pure: a decision
depends on the world alone.

    demand of each service -> services that share nodes are weighed against each other, all others
    decide alone -> one plan for each service

`decide_anew` is the whole rule, on one screen. `decide` gives the same answers: it leaves out what
did not change since the last decision, and leaves alone a service at which deciding fails
(`again.py`)."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial

from scaler.decide import attempts
from scaler.decide.again import DecisionCache
from scaler.decide.decision import Decision, Tally
from scaler.decide.draft import Draft
from scaler.decide.memory import Memory, ServiceMemory
from scaler.decide.nodes import Nodes
from scaler.decide.plan import plan_of
from scaler.decide.room.classes import Neighbours, NodeIndex
from scaler.decide.service.demand import Demand, demand_of
from scaler.decide.sharing.budget import number_of_rounded, within_budget
from scaler.decide.sharing.limits import are_weighed, decide_alone, is_weighed
from scaler.decide.sharing.questions import Questions
from scaler.decide.sharing.weigh import Demands, Scope, Weighed, tally_of, weigh
from scaler.decide.slices import UnderWay
from scaler.decide.work import all_of
from scaler.decide.world import World


def decide(world: World, cache: DecisionCache | None = None) -> Decision:
    """What to do about every service of the world, and what to remember for the next decision.
    `cache`: of the decisions before."""
    return (cache or DecisionCache()).decide(world)


def begin(world: World, cache: DecisionCache) -> UnderWay:
    """The same decision, in slices of bounded work (`slices.py`)."""
    return cache.begin(world)


def decide_anew(world: World) -> Decision:
    """The same decision, each service and each part looked at anew."""
    asked = world
    world = within_budget(asked)
    demands = {position: _demand(world, position) for position in range(len(world.services))}
    parts = _weigh_all(world, demands)
    drafts: dict[int, Draft] = {}
    for part in parts:
        drafts |= part.drafts
    for position, demand in demands.items():
        if not is_weighed(world, demand):
            drafts[position] = decide_alone(demand, world.now)
        elif position not in drafts:
            drafts[position] = Draft(demand)
    return Decision(
        plans=tuple([plan_of(drafts[position], world.now) for position in demands]),
        memory=_next_memory(world, [drafts[position] for position in demands]),
        recheck_at=_recheck_at(world, demands, parts),
        heeds_room=any(part.heeds_room() for part in parts),
        tally=_tally(world, demands, parts, number_of_rounded(asked, world)),
    )


def _demand(world: World, position: int) -> Demand:
    service = world.services[position]
    seen = world.memory.services.get(str(service.key), ServiceMemory())
    return demand_of(service, seen, world.now, world.policy)


def _weigh_all(world: World, demands: Demands) -> list[Weighed]:
    """Weigh the services of each part of the cluster in which a service has something to weigh."""
    sharing = {
        position: demand for position, demand in demands.items() if is_weighed(world, demand)
    }
    nodes = NodeIndex(world.nodes or Nodes())
    neighbours = Neighbours(Counter(demand.requests for demand in sharing.values()), nodes)
    by_part: dict[int, dict[int, Demand]] = defaultdict(dict)
    active: dict[int, dict[int, Demand]] = defaultdict(dict)
    is_probed = False
    for position, demand in sharing.items():
        number = neighbours.part[demand.requests]
        by_part[number][position] = demand
        if not demand.nothing_to_weigh:
            active[number][position] = demand
            is_probed |= attempts.is_probing(demand.memory, world.now, world.policy)
    parts = []
    for number, demands_of_part in active.items():
        everybody = partial(by_part.__getitem__, number)
        scope = Scope(number, nodes, neighbours, demands_of_part, everybody)
        weighed = all_of(weigh(world, scope, Questions, is_probed=is_probed))
        is_probed = weighed.is_probed
        parts.append(weighed)
    return parts


def _next_memory(world: World, drafts: list[Draft]) -> Memory:
    """What the drafts remember. Services that are gone, and those of which nothing is left to
    remember, have no entry, but for those whose pods are being made again."""
    services = {}
    for draft in drafts:
        name = draft.demand.name
        memory = draft.next_memory()
        is_as_before = name in world.memory.services and memory is draft.demand.seen
        if memory != ServiceMemory() or is_as_before:
            services[name] = memory
    there = {draft.demand.name for draft in drafts}
    for name, memory in world.memory.services.items():
        kept = attempts.kept_while_gone(memory, world.now, world.policy)
        if name not in there and kept is not None:
            services[name] = kept
    return Memory(services, world.last_bind, world.last_binds)


def _recheck_at(world: World, demands: Demands, parts: list[Weighed]) -> float:
    """When time alone may change the decision; 0.0 = never."""
    moments = [demand.until for demand in demands.values()]
    for part in parts:
        moments += part.moments(world)
    return min([moment for moment in moments if moment > world.now], default=0.0)


def _tally(world: World, demands: Demands, parts: list[Weighed], rounded: int) -> Tally | None:
    """The numbers of the decision; None where each service decides alone."""
    if not are_weighed(world):
        return None
    serving = 0
    for demand in demands.values():
        if is_weighed(world, demand) and demand.serves:
            serving += 1
    numbers = Counter[str]()
    idle = Counter[str]()
    for part in parts:
        of_part, idle_in_part = tally_of(part, world)
        numbers.update(of_part)
        idle.update(idle_in_part)
    return Tally(serving=serving, rounded=rounded, idle=dict(idle), **numbers)
