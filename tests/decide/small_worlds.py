"""Small worlds that move: nodes, services whose instances may be cursed, a scheduler, kubelets, owners, and time.

A `Shape` never changes; a `State` is a handful of small numbers with the controller's memory. Times are kept as ages,
so that states that differ only in when they were reached are one state. Nothing here knows how the controller decides;
`view` shows a state to it, `act` lets a decision take effect.

Curses, of one instance: `bind` the scheduler never binds it, `half` it binds its first pod only, `make` its owner never
makes its pods, `slow` its owner takes any time for that, `run` it never runs, `refuse` its creation is refused, `stuck`
its pods never end.

Events, each at any moment: `lose` a node with its pods, `flap` (its pods stay), `cordon`, `vanish`, `back`, `outage`
(the scheduler binds nothing) and `resume`, `failover` (the controller forgets everything), `stale` (the controller acts
once on what it decided before something else moved), `scale0=2` (two instances in all are wanted of the first service).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import msgspec

from scaler.decide.memory import Memory, refuse
from scaler.decide.nodes import Node, NodeClass, Nodes
from scaler.decide.world import (
    Admit,
    Complete,
    Decision,
    Evict,
    Instance,
    Policy,
    Preempt,
    RestartBudget,
    Revoke,
    Service,
    ServiceKey,
    World,
)
from scaler.rules.rule import ALL, RuleOptions, Trade
from tests.builders import NOW, RESOURCES, located, request, rule
from tests.decide.ages import JUST_NOW, LONG_AGO, aged, regular
from tests.decide.packing import Pod

POLICY = Policy(
    broken_grace=30,
    start_timeout=120,
    minimum_timeout=30,
    backoff=30,
    backoff_max=120,
    due_back=90,
    trade_after=60,
    fit_patience=3600,
)
"""Time limits scaled down, in their order, all multiples of `ages.QUANTUM`, so that the states stay few."""


# What never changes


class Job(NamedTuple):
    """One instance as its user wrote it."""

    team: int
    name: str
    pods: int
    units: int
    nodes: frozenset[int]
    curse: str = ""
    late: bool = False
    classes: str = ""
    outdated: bool = False

    @property
    def letter(self) -> str:
        return self.name[0]


class Team(NamedTuple):
    """One service."""

    ladder: str
    priority: int = 0
    protected: bool = False
    trade: Trade = Trade.WHEN_NOT_SERVING


class Shape(NamedTuple):
    """All of a small world that never changes."""

    name: str
    nodes: tuple[tuple[str, int], ...]
    """Class and units of each."""
    teams: tuple[Team, ...]
    jobs: tuple[Job, ...]
    """Those of one service stand together, oldest first; the service whose oldest job is older stands in front."""
    events: tuple[str, ...] = ()
    preempt: Preempt = Preempt.HIGHER_PRIORITY
    gates: bool = False
    one_by_one: bool = False
    """The scheduler binds pods one by one, not an instance whole."""
    budget: int = 0
    """Restarts that each job allows where others make the pods; 0 = any number."""

    def owner(self, number: int) -> str:
        """Of instances that a rollout replaces, and of those that replace them."""
        team, letter = self.jobs[number].team, self.jobs[number].letter
        alike = any(job.outdated and (job.team, job.letter) == (team, letter) for job in self.jobs)
        return f"{team}{letter}" if alike else ""

    def of(self, team: int) -> range:
        """The jobs of a service."""
        mine = [number for number, job in enumerate(self.jobs) if job.team == team]
        return range(mine[0], mine[-1] + 1)

    @property
    def policy(self) -> Policy:
        return msgspec.structs.replace(POLICY, preempt=self.preempt)


def shape(name: str, nodes: str, *teams: str, events: str = "", **changes: object) -> Shape:
    """`shape("two", "a:1x2 b:2", "2P1D > 1P1D: p p!bind d@b:2 +5 late")`.

    A job is a letter, then `^` when it is of an outdated revision (the others of its group replace such ones: one comes
    at any time and stands beside them, and an outdated one goes when it runs), then `*2` for its pods if not one, `@ab`
    for the classes of nodes that it may use, `:2` for what each pod takes, `!curse`, `~` when it arrives at any time.
    `+5` is the service's priority, `late` lets all its jobs
    arrive at any time, `protected`, `trade-always` and `trade-off` are its annotations.
    """
    parts = [re.fullmatch(r"(\w)(?::(\d+))?(?:x(\d+))?", word) for word in nodes.split()]
    found = tuple((part[1], int(part[2] or 1)) for part in parts if part for _ in range(int(part[3] or 1)))
    jobs: list[Job] = []
    made = []
    for number, text in enumerate(teams):
        ladder, _, rest = text.partition(":")
        words = rest.split()
        made.append(
            Team(
                ladder.strip(),
                next((int(word) for word in words if word[0] == "+"), 0),
                "protected" in words,
                next((Trade(word[6:]) for word in words if word.startswith("trade-")), Trade.WHEN_NOT_SERVING),
            )
        )
        seen: dict[str, int] = {}
        for word in words:
            match = re.fullmatch(r"([pde])(\^)?(?:\*(\d+))?(?:@(\w+))?(?::(\d+))?(?:!(\w+))?(~)?", word)
            if match is None:
                assert word in ("late", "protected") or word[0] == "+" or word.startswith("trade-"), word
                continue
            letter, old, pods, classes, units, curse, late = match.groups()
            may = frozenset(n for n, (kind, _) in enumerate(found) if kind in (classes or kind))
            name_of = f"{letter}{seen.setdefault(letter, 0)}"
            seen[letter] += 1
            late_ = not old and (bool(late) or "late" in words or f"{letter}^" in rest)
            jobs.append(
                Job(number, name_of, int(pods or 1), int(units or 1), may, curse or "", late_, classes or "", bool(old))
            )
    gates = any(job.curse in ("make", "slow") or job.outdated for job in jobs)
    return Shape(name, found, tuple(made), tuple(jobs), tuple(events.split()), **{"gates": gates, **changes})  # type: ignore[arg-type]


# What moves


Spot = tuple[str, int]
"""What a pod does and on which node: `.` not there, `g` gated, `u` unbound (-1), `s` starts, `r` runs, `t` ends."""

NOT_THERE: Spot = (".", -1)
GATED: Spot = ("g", -1)
UNBOUND: Spot = ("u", -1)
NOTATION = {".": ".", "g": "g", "u": "u", "t": "!"}
"""What `builders.located` calls a pod that is on no node."""


class Inst(NamedTuple):
    there: bool
    pods: tuple[Spot, ...]
    ending: int = 0
    """How long its terminating pods have been so."""
    newest: int = 0
    """Age of its newest pod, where it matters."""
    spent: int = 0
    """Restarts."""

    def count(self, *phases: str) -> int:
        return sum(pod[0] in phases for pod in self.pods)

    @property
    def bound(self) -> int:
        return self.count("s", "r")

    def having(self, pods: Iterable[Spot], **more: Any) -> Inst:
        """With these pods, in any order."""
        return self._replace(pods=tuple(sorted(pods)), **more)


class State(NamedTuple):
    nodes: tuple[tuple[str, int], ...]
    """`R` ready, `X` not ready, `C` cordoned, `G` gone; and for how long."""
    insts: tuple[Inst, ...]
    memory: Memory
    events: tuple[str, ...]
    last_bind: int = LONG_AGO
    out: bool = False
    """The scheduler binds nothing."""
    hand: tuple[object, ...] | None = None
    """Actions decided on an older state, not carried out yet."""
    replicas: tuple[int, ...] = ()
    """Instances wanted of each service in all."""


def initial(of: Shape) -> State:
    insts = tuple(Inst(not job.late, (NOT_THERE,) * job.pods) for job in of.jobs)
    return State((("R", LONG_AGO),) * len(of.nodes), insts, Memory(), of.events, replicas=(ALL,) * len(of.teams))


def free(of: Shape, s: State) -> dict[int, int]:
    """Units that pods can be bound to, by node."""
    left = {n: units for n, (_, units) in enumerate(of.nodes) if s.nodes[n][0] == "R"}
    for job, inst in zip(of.jobs, s.insts, strict=True):
        for phase, node in inst.pods:
            if phase in "srt" and node in left:
                left[node] -= job.units
    return left


def unbound_pods(of: Shape, s: State, number: int) -> list[Pod]:
    """What an instance still has to be bound for."""
    job, inst = of.jobs[number], s.insts[number]
    return [(job.units, job.nodes)] * (job.pods - inst.bound)


# How the controller sees it


def key(team: int) -> ServiceKey:
    return ServiceKey("default", "rule", f"s{team}")


def uid(number: int) -> str:
    return f"job-{number}"


@lru_cache(maxsize=1 << 16)
def instance(of: Shape, number: int, inst: Inst, away: frozenset[int]) -> Instance:
    """`away`: those of its nodes that are not ready, or gone."""
    job = of.jobs[number]
    pods = [f"n{at}{'*' if phase == 's' else ''}" if phase in "sr" else NOTATION[phase] for phase, at in inst.pods]
    alive = inst.count("g", "u", "s", "r")
    released = inst.count("u", "s", "r")
    lost = any(phase == "t" and at in away for phase, at in inst.pods)
    return located(
        job.name,
        request(job.units, job.classes),
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
        wanted=wanted(of, number),
    )


def wanted(of: Shape, number: int) -> int:
    """Instances that its owner is to have; 0 where there is no rollout."""
    owner = of.owner(number)
    return sum(not job.outdated and of.owner(n) == owner for n, job in enumerate(of.jobs)) if owner else 0


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


@lru_cache(maxsize=1 << 16)
def node(
    of: Shape, number: int, state: str, age: int, taken: int, pods: int, ending: tuple[tuple[int, int], ...]
) -> Node:
    kind, units = of.nodes[number]
    return Node(
        name=f"n{number}",
        node_class=NodeClass((("class", kind),)),
        allocatable=(units, 110),
        free=(units - taken, 110 - pods),
        ending=tuple((NOW - since, (amount, 1)) for since, amount in ending),
        ready=state != "X",
        cordoned=state == "C",
        since=0.0 if age >= LONG_AGO else NOW - age,
    )


def view(of: Shape, s: State) -> World:
    """What the controller sees."""
    away = frozenset(n for n, (state, _) in enumerate(s.nodes) if state in "XG")
    services = []
    for team in range(len(of.teams)):
        part = of.of(team)
        mine = s.insts[part.start : part.stop]
        lost = tuple(away & {place for _, place in inst.pods} for inst in mine)
        one = service(of, team, mine, lost, s.replicas[team])
        if one is not None:
            services.append(one)
    on: list[list[tuple[int, str, int]]] = [[] for _ in of.nodes]
    for job, inst in zip(of.jobs, s.insts, strict=True):
        for phase, place in inst.pods:
            if place >= 0:
                on[place].append((job.units, phase, inst.ending))
    nodes = [
        node(
            *(of, n, state, age, sum(units for units, _, _ in on[n]), len(on[n])),
            tuple(sorted((since, units) for units, phase, since in on[n] if phase == "t")),
        )
        for n, (state, age) in enumerate(s.nodes)
        if state != "G"
    ]
    seen = Nodes(RESOURCES, tuple(sorted(nodes, key=lambda each: each.name)))
    bound = 0.0 if s.last_bind >= LONG_AGO else NOW - s.last_bind
    return World(NOW, tuple(services), seen, last_bind=bound, memory=s.memory, policy=of.policy)


# What becomes of a decision


def act(of: Shape, s: State, decision: Decision) -> State:
    """All of a decision takes effect, as far as its preconditions allow; its memory is the next one."""
    actions = tuple(action for plan in decision.plans for action in plan.actions)
    return carried_out(of, s._replace(memory=decision.memory), actions)


def carried_out(of: Shape, s: State, actions: tuple[object, ...]) -> State:
    insts, memory = list(s.insts), s.memory
    for action in actions:
        number = int(action.uid.removeprefix("job-"))  # type: ignore[attr-defined]
        job, inst = of.jobs[number], insts[number]
        if isinstance(action, Admit) and job.curse == "refuse" and not of.gates:
            memory = _refused(memory, job.team, number)
        else:
            insts[number] = _acted(of, inst, action)
    return s._replace(insts=tuple(insts), memory=memory)


def _acted(of: Shape, inst: Inst, action: object) -> Inst:
    if not inst.there:
        return inst
    match action:
        case Admit() | Complete() if of.gates:
            return _all(inst, {GATED: UNBOUND})
        case Admit() if inst.count("t", "u", "s", "r"):
            return inst
        case Admit() | Complete():
            return _all(inst, {NOT_THERE: UNBOUND})
        case Revoke() if not inst.bound:
            return _all(inst, {UNBOUND: NOT_THERE})._replace(spent=inst.spent + (of.budget > 0))
        case Evict():
            pods = [("t", node) if phase in "sr" else (phase, node) for phase, node in inst.pods]
            return _all(inst._replace(pods=tuple(pods), ending=0), {UNBOUND: NOT_THERE})
    return inst


def _all(inst: Inst, changes: dict[Spot, Spot]) -> Inst:
    return inst.having((changes.get(pod, pod) for pod in inst.pods), newest=0)


def _refused(memory: Memory, team: int, number: int) -> Memory:
    """The API server said no; tried again after times that fit the others' limits."""
    name = str(key(team))
    refused = refuse(memory, key(team), uid(number), "exceeded quota", now=NOW, generation=0)
    mine = refused.services[name].instances[uid(number)]
    times = min(mine.refused_times, 3)
    mine = msgspec.structs.replace(mine, refused_times=times, refused_until=NOW + 30 * 2 ** (times - 1))
    changed = msgspec.structs.replace(
        refused.services[name], instances={**refused.services[name].instances, uid(number): mine}
    )
    return msgspec.structs.replace(refused, services={**refused.services, name: changed})


# How the rest of the world moves

Move = tuple[str, ...]
Step = tuple[Move, State]


def moves(of: Shape, s: State) -> Iterator[Step]:
    """Scheduler, kubelets, owners: all that is faster than any time limit."""
    room = free(of, s)
    for number, (job, inst) in enumerate(zip(of.jobs, s.insts, strict=True)):
        if not inst.there:
            continue
        if of.gates and inst.count(".") and job.curse not in ("make", "slow"):
            yield ("make", job_name(of, number)), _with(s, number, _all(inst, {NOT_THERE: GATED}))
        if not s.out and inst.count("u"):
            yield from _bindings(of, s, number, room)
        if inst.count("s") and _can_run(s, job, inst):
            yield ("run", job_name(of, number)), _with(s, number, inst.having(("r", place) for _, place in inst.pods))
        left = inst.having(NOT_THERE if pod[0] == "t" and s.nodes[pod[1]][0] != "X" else pod for pod in inst.pods)
        if job.curse != "stuck" and left.pods != inst.pods:
            gone = left._replace(ending=left.count("t") and left.ending)
            yield ("gone", job_name(of, number)), _with(s, number, gone)
        if job.outdated and _is_replaced(of, s, number):
            yield ("replace", job_name(of, number)), _with(s, number, Inst(False, (NOT_THERE,) * job.pods))


def _is_replaced(of: Shape, s: State, number: int) -> bool:
    """A Deployment goes down with what is outdated as far as newest ones are up, what is not up first."""
    mates = [n for n, inst in enumerate(s.insts) if inst.there and of.owner(n) == of.owner(number)]
    up = [n for n in mates if s.insts[n].count("r") == of.jobs[n].pods]
    spare = len(mates) - wanted(of, number) - sum(not of.jobs[n].outdated and n not in up for n in mates)
    if number in up:
        idle = any(of.jobs[n].outdated and n not in up for n in mates)
        return spare > 0 and not idle and len(up) > wanted(of, number)
    return spare > 0


def _can_run(s: State, job: Job, inst: Inst) -> bool:
    ready = all(s.nodes[place][0] != "X" for _, place in inst.pods)
    return inst.bound == job.pods and job.curse != "run" and ready


def _bindings(of: Shape, s: State, number: int, room: dict[int, int]) -> Iterator[Step]:
    job, inst = of.jobs[number], s.insts[number]
    if job.curse == "bind" or (job.curse == "half" and inst.bound):
        return
    if not of.one_by_one and inst.count(".", "g"):
        return
    most = 1 if of.one_by_one or job.curse == "half" else inst.count("u")
    usable = [place for place in sorted(job.nodes) if room.get(place, 0) >= job.units]
    for chosen in combinations_with_replacement(usable, most):
        if all(room[place] >= job.units * chosen.count(place) for place in chosen):
            pods = list(inst.pods)
            for place in chosen:
                pods.remove(UNBOUND)
                pods.append(("s", place))
            after = _with(s, number, inst.having(pods))
            yield ("bind", job_name(of, number), *map(str, chosen)), after._replace(last_bind=JUST_NOW)


def events(of: Shape, s: State) -> Iterator[Step]:
    """All that comes from outside: it need not come, and comes at any moment."""
    yield from _jobs_that_come(of, s)
    for event in sorted(set(s.events)):
        rest = list(s.events)
        rest.remove(event)
        left = s._replace(events=tuple(rest))
        if event == "outage" and not s.out:
            yield (event,), left._replace(out=True)
        if event == "resume" and s.out:
            yield (event,), left._replace(out=False)
        if scaled := re.fullmatch(r"scale([0-9])=([0-9]+)", event):
            team, number = map(int, scaled.groups())
            yield (event,), left._replace(replicas=(*s.replicas[:team], number, *s.replicas[team + 1 :]))
        if event == "failover":
            yield (event,), left._replace(memory=Memory())
        yield from _nodes_that_change(left, event)


def _jobs_that_come(of: Shape, s: State) -> Iterator[Step]:
    for number, (job, inst) in enumerate(zip(of.jobs, s.insts, strict=True)):
        if not inst.there and not job.outdated and _may_come(of, s, number):
            yield ("arrive", job_name(of, number)), _with(s, number, inst._replace(there=True))
        elif job.curse == "slow" and inst.count("."):
            pods = list(inst.pods)
            pods[pods.index(NOT_THERE)] = GATED
            yield ("make one of", job_name(of, number)), _with(s, number, inst.having(pods, newest=0))


def _may_come(of: Shape, s: State, number: int) -> bool:
    """A rollout goes one by one."""
    mates = [n for n, inst in enumerate(s.insts) if inst.there and of.owner(n) == of.owner(number)]
    return not of.owner(number) or len(mates) <= wanted(of, number)


def _nodes_that_change(left: State, event: str) -> Iterator[Step]:
    for number, (state, _) in enumerate(left.nodes):
        if event in ("lose", "flap", "cordon", "vanish") and state == "R":
            yield (event, f"n{number}"), _gone(left, number, event)
        if event == "back" and state != "R":
            yield (event, f"n{number}"), _node(aged(left, 1), number, "R")


def _gone(s: State, number: int, event: str) -> State:
    insts = s.insts
    if event in ("lose", "vanish"):
        insts = tuple(_lost(inst, number, event) for inst in insts)
    return _node(s._replace(insts=insts), number, {"cordon": "C", "vanish": "G"}.get(event, "X"))


def _lost(inst: Inst, number: int, event: str) -> Inst:
    if not any(place == number for _, place in inst.pods):
        return inst
    after = NOT_THERE if event == "vanish" else ("t", number)
    pods = (after if place == number else (phase, place) for phase, place in inst.pods)
    return inst.having(pods, ending=inst.ending if event == "vanish" else 0)


def _node(s: State, number: int, state: str) -> State:
    nodes = tuple((state, 0) if place == number else each for place, each in enumerate(s.nodes))
    return s._replace(nodes=nodes)


def _with(s: State, number: int, inst: Inst) -> State:
    return s._replace(insts=(*s.insts[:number], inst, *s.insts[number + 1 :]))


def job_name(of: Shape, number: int) -> str:
    job = of.jobs[number]
    return f"s{job.team}.{job.name}"


# One state for all that are alike


def standing_for(of: Shape, s: State) -> State:
    """The one state that stands for all that are alike."""
    bound = {str(key(team)): sum(s.insts[n].bound for n in of.of(team)) for team in range(len(of.teams))}
    return regular(canonical(of, s), bound)


def canonical(of: Shape, s: State) -> State:
    """Nodes of one class and size are interchangeable: one order of them stands for all. What no longer matters of an
    instance is forgotten."""
    s = s._replace(insts=tuple(_forgotten(of, number, inst) for number, inst in enumerate(s.insts)))
    on: list[list[tuple[int, str]]] = [[] for _ in of.nodes]
    for number, inst in enumerate(s.insts):
        for phase, place in inst.pods:
            if place >= 0:
                on[place].append((number, phase))
    order = list(range(len(of.nodes)))
    for alike in _alike(of):
        ranked = sorted(alike, key=lambda n: (not on[n], sorted(on[n]), s.nodes[n]))
        for place, old in zip(alike, ranked, strict=True):
            order[old] = place
    if order == list(range(len(order))):
        return s
    nodes = list(s.nodes)
    for old, place in enumerate(order):
        nodes[place] = s.nodes[old]
    insts = tuple(inst.having((phase, order[at] if at >= 0 else at) for phase, at in inst.pods) for inst in s.insts)
    return s._replace(nodes=tuple(nodes), insts=insts)


@lru_cache(maxsize=1 << 10)
def _alike(of: Shape) -> tuple[tuple[int, ...], ...]:
    kinds: dict[tuple[str, int], list[int]] = {}
    for number, kind in enumerate(of.nodes):
        kinds.setdefault(kind, []).append(number)
    return tuple(tuple(numbers) for numbers in kinds.values() if len(numbers) > 1)


def _forgotten(of: Shape, number: int, inst: Inst) -> Inst:
    ending = inst.ending if inst.count("t") else 0
    matters = of.gates and inst.bound and inst.count(".", "t")
    newest = inst.newest if matters else 0
    spent = min(inst.spent, of.budget)
    if (ending, newest, spent) == (inst.ending, inst.newest, inst.spent):
        return inst
    return inst._replace(ending=ending, newest=newest, spent=spent)


def in_short(of: Shape, s: State) -> str:
    """A state in one line."""
    text = ["".join(state for state, _ in s.nodes)]
    for team in range(len(of.teams)):
        words = []
        for number in of.of(team):
            inst = s.insts[number]
            pods = "".join(f"{phase}{place}" if place >= 0 else phase for phase, place in inst.pods)
            words.append(f"{of.jobs[number].name}:{pods if inst.there else '(late)'}")
        text.append(f"s{team}[{' '.join(words)}]")
    return " ".join(text) + (" OUT" if s.out else "") + (" HAND" if s.hand is not None else "")
