"""How the controller sees a small world, and how what it decides takes effect in it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec

from scaler.decide.attempts import Refusal, refuse
from scaler.decide.decision import Admit, Complete, Decision, Evict, Revoke
from scaler.decide.memory import Memory
from scaler.decide.nodes import HyperNode, Node, NodeClass, Nodes, PodRequest, Return, Taint
from scaler.decide.world import Instance, RestartBudget, Service, World
from scaler.rules.rule import RuleOptions
from tests.builders import NOW, RESOURCES, located, request, rule
from tests.decide.small_worlds import (
    GATED,
    LONG_AGO,
    NOT_THERE,
    POLICY,
    UNBOUND,
    Inst,
    Shape,
    State,
    key,
    uid,
)


@lru_cache(maxsize=1 << 16)
def instance(of: Shape, number: int, inst: Inst, away: frozenset[int]) -> Instance:
    """`away`: those of its nodes that are not ready, or gone."""
    job = of.jobs[number]
    marks = {"r": "", "s": "*"}
    pods = [
        f"n{at}{marks[phase]}" if phase in marks else phase.replace("t", "!")
        for phase, at in inst.pods
    ]
    alive = inst.count("g", "u", "s", "r")
    released = inst.count("u", "s", "r")
    lost = any(phase == "t" and at in away for phase, at in inst.pods)
    need = request(job.units, job.classes)
    if job.racks:
        need = msgspec.structs.replace(need, block=job.pods, tier="1")
    found = located(
        job.name,
        need,
        pods,
        uid=uid(number),
        created=NOW - 100_000 + number,
        ready=sum(phase == "r" and at not in away for phase, at in inst.pods),
        faulty=sum(phase in "sr" and at in away for phase, at in inst.pods),
        admitted_at=NOW - 50_000 if released else 0.0,
        newest=NOW - inst.newest if alive else 0.0,
        ends_by=(-1.0 if lost else NOW - inst.ending) if inst.count("t") else 0.0,
        leftovers=released > 0 and not of.gates,
        made_by_us=not of.gates,
        budget=RestartBudget(of.budget, inst.spent) if of.budget else None,
        priority=of.teams[job.team].priority,
        owner=of.owner(number),
        outdated=job.outdated,
        wanted=of.wanted(number),
    )
    return msgspec.structs.replace(found, unbound=_beside_bound(found)) if job.racks else found


def _beside_bound(one: Instance) -> tuple[tuple[PodRequest, int], ...]:
    """What is not bound yet has to be in the rack of what is."""
    if not one.bound_pods:
        return one.unbound
    node = one.bound_pods[0][0]
    return tuple([(msgspec.structs.replace(r, block=1, beside=node), n) for r, n in one.unbound])


@lru_cache(maxsize=1 << 16)
def service(
    of: Shape, team: int, insts: tuple[Inst, ...], away: tuple[frozenset[int], ...], replicas: int
) -> Service | None:
    """None while none of its jobs exists."""
    found = tuple(
        instance(of, number, inst, lost)
        for number, inst, lost in zip(of.of(team), insts, away, strict=True)
        if inst.there
    )
    if not found:
        return None
    words = of.teams[team]
    options = RuleOptions(preemptable=not words.protected, trade=words.trade)
    return Service(key(team), found, rule(words.ladder), options, replicas=replicas)


TAINT = Taint("maintenance")


class Load(NamedTuple):
    """What is on a node: units taken, pods, and of those that end since when and how many units."""

    units: int
    pods: int
    ending: tuple[tuple[int, int], ...]


@lru_cache(maxsize=1 << 16)
def node(
    of: Shape,
    number: int,
    state: str,
    age: int,
    load: Load,
) -> Node:
    """A node that is in this state for so many seconds."""
    kind, units = of.nodes[number]
    return Node(
        name=f"n{number}",
        node_class=NodeClass((("class", kind),), (TAINT,) if state == "T" else ()),
        allocatable=(units, 110),
        free=(units - load.units, 110 - load.pods),
        ending=tuple((NOW - since, (amount, 1)) for since, amount in load.ending),
        ready=state != "X",
        cordoned=state == "C",
        since=0.0 if age >= LONG_AGO or state == "T" else NOW - age,
        returns=(Return(NOW - age),) if state == "R" and age < LONG_AGO else (),
        hyper_nodes=(HyperNode(1, f"rack{number // of.racks}"),) if of.racks else (),
    )


def _loads(of: Shape, s: State) -> list[Load]:
    """By number of the node."""
    on: list[list[tuple[int, str, int]]] = [[] for _ in of.nodes]
    for job, inst in zip(of.jobs, s.insts, strict=True):
        for phase, place in inst.pods:
            if place >= 0:
                on[place].append((job.units, phase, inst.ending))
    loads = []
    for pods in on:
        ending = sorted((since, units) for units, phase, since in pods if phase == "t")
        loads.append(Load(sum(units for units, _, _ in pods), len(pods), tuple(ending)))
    return loads


def view(of: Shape, s: State) -> World:
    away = frozenset(n for n, (state, _) in enumerate(s.nodes) if state in "XG")
    services = []
    for team in range(len(of.teams)):
        mine = s.insts[of.of(team).start : of.of(team).stop]
        lost = []
        for inst in mine:
            lost.append(away & {place for _, place in inst.pods})
        if (one := service(of, team, mine, tuple(lost), s.replicas[team])) is not None:
            services.append(one)
    loads = _loads(of, s)
    nodes = [
        node(of, n, state, age, loads[n]) for n, (state, age) in enumerate(s.nodes) if state != "G"
    ]
    policy = msgspec.structs.replace(POLICY, preempt=of.preempt)
    seen = Nodes(RESOURCES, tuple(sorted(nodes, key=lambda each: each.name)))
    bound = 0.0 if s.last_bind >= LONG_AGO else NOW - s.last_bind
    return World(NOW, tuple(services), seen, last_bind=bound, memory=s.memory, policy=policy)


def act(of: Shape, s: State, decision: Decision) -> State:
    """All of a decision takes effect, as far as its preconditions allow; its memory is the next
    one."""
    actions = tuple(action for plan in decision.plans for action in plan.actions)
    return carried_out(of, s._replace(memory=decision.memory), actions)


def carried_out(of: Shape, s: State, actions: tuple[object, ...], *, denied: bool = False) -> State:
    """`denied`: everything that is created is refused."""
    insts = list(s.insts)
    memory = s.memory
    for action in actions:
        number = int(action.uid.removeprefix("job-"))  # type: ignore[attr-defined]
        job = of.jobs[number]
        inst = insts[number]
        refused = (denied or job.curse == "refuse") and not of.gates
        if isinstance(action, Admit) and refused:
            memory = _refused(memory, job.team, number)
        else:
            insts[number] = _acted(of, inst, action)
    return s._replace(insts=tuple(insts), memory=memory)


def _acted(of: Shape, inst: Inst, action: object) -> Inst:
    if not inst.there:
        return inst
    match action:
        case Admit() | Complete() if of.gates:
            return inst.turned({GATED: UNBOUND})
        case Admit() if inst.count("t", "u", "s", "r"):
            return inst
        case Admit() | Complete():
            return inst.turned({NOT_THERE: UNBOUND})
        case Revoke() if not inst.bound:
            return inst.turned({UNBOUND: NOT_THERE})._replace(spent=inst.spent + (of.budget > 0))
        case Evict():
            pods = [("t", node) if phase in "sr" else (phase, node) for phase, node in inst.pods]
            return inst._replace(pods=tuple(pods), ending=0).turned({UNBOUND: NOT_THERE})
    return inst


def _refused(memory: Memory, team: int, number: int) -> Memory:
    """The API server said no; tried again after times that fit the others' limits."""
    name = str(key(team))
    refused = refuse(memory, name, Refusal(uid(number), "exceeded quota", NOW, 0))
    service = refused.services[name]
    mine = service.instances[uid(number)]
    times = min(mine.refused_times, 3)
    mine = msgspec.structs.replace(
        mine, refused_times=times, refused_until=NOW + 30 * 2 ** (times - 1)
    )
    changed = msgspec.structs.replace(service, instances={**service.instances, uid(number): mine})
    return msgspec.structs.replace(refused, services={**refused.services, name: changed})
