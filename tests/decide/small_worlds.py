"""Small worlds that move: nodes, services whose instances may be cursed, a scheduler, kubelets,
owners, and time.

A `Shape` never changes; a `State` is a handful of small numbers with the controller's memory. Times
are kept as ages, so that states that differ only in when they were reached are one state (`alike`).
`seen` shows a state to the controller and lets its decision take effect; `moves` has all else that
moves.

Curses, of one instance: `bind` the scheduler never binds it, `half` it binds its first pod only,
`make` its owner never makes its pods, `slow` its owner takes any time for that, `run` it never
runs, `refuse` its creation is refused, `stuck` its pods never end, `narrow` the scheduler binds it
to nodes of class a only, and the instance says nothing of that.

Events, each at any moment: `lose` a node with its pods, `flap` (its pods stay), `cordon`, `taint`
(nobody tolerates it), `vanish`, `back`, `outage` (the scheduler binds nothing) and `resume`,
`failover` (the controller forgets all but counted evictions), `stale` (the controller acts once on
what it decided before something else moved), `deny` (all that one decision creates is refused),
`delete` (a job goes with its pods, and may come again), `scale0=2` (two instances in all are wanted
of the first service)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from scaler.decide.memory import Memory
from scaler.decide.world import Policy, Preempt, ServiceKey
from scaler.rules.rule import ALL, Trade

LONG_AGO = 300
"""Of a node or a bind: longer ago than anything that is compared with it."""
JUST_NOW = -1
"""Of a bind: after everything that is there, before anything that comes."""
POLICY = Policy(
    broken_grace=30,
    start_timeout=120,
    minimum_timeout=30,
    backoff=30,
    backoff_max=120,
    due_back=90,
    gather=60,
    trade_after=60,
    fit_patience=3600,
    eviction_pause=150,
    restart_after=30,
)
"""Time limits scaled down, in their order, all multiples of `alike.QUANTUM`, so that the states
stay few."""


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
    racks: tuple[frozenset[int], ...] = ()
    """Its pods have to be in one of these; empty = anywhere."""

    @property
    def letter(self) -> str:
        return self.name[0]

    def takes(self, node_class: str) -> bool:
        """Whether the scheduler would bind its pods to nodes of this class that they may use."""
        return self.curse != "narrow" or node_class == "a"


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
    """Those of one service stand together, oldest first; the service whose oldest job is older
    stands in front."""
    events: tuple[str, ...] = ()
    preempt: Preempt = Preempt.HIGHER_PRIORITY
    gates: bool = False
    one_by_one: bool = False
    """The scheduler binds pods one by one, not an instance whole."""
    budget: int = 0
    """Restarts that each job allows where others make the pods; 0 = any number."""
    racks: int = 0
    """Nodes of each HyperNode of tier 1; 0 = there are none."""

    def owner(self, number: int) -> str:
        """Of instances that a rollout replaces, and of those that replace them."""
        team = self.jobs[number].team
        letter = self.jobs[number].letter
        alike = any(job.outdated and (job.team, job.letter) == (team, letter) for job in self.jobs)
        return f"{team}{letter}" if alike else ""

    def of(self, team: int) -> range:
        """The jobs of a service."""
        mine = [number for number, job in enumerate(self.jobs) if job.team == team]
        return range(mine[0], mine[-1] + 1)

    def wanted(self, number: int) -> int:
        """Instances that its owner is to have; 0 where there is no rollout."""
        owner = self.owner(number)
        return (
            sum(not job.outdated and self.owner(n) == owner for n, job in enumerate(self.jobs))
            if owner
            else 0
        )

    def job_name(self, number: int) -> str:
        return f"s{self.jobs[number].team}.{self.jobs[number].name}"


def shape(name: str, nodes: str, *teams: str, events: str = "", **changes: object) -> Shape:
    """`shape("two", "a:1x2 b:2", "2P1D > 1P1D: p p!bind d@b:2 +5 late")`.

    A job is a letter, then `^` when it is of an outdated revision (the others of its group replace
    such ones: one comes at any time and stands beside them, and an outdated one goes when it runs),
    then `*2` for its pods if not one, `%` when they have to be in one rack, `@ab` for the classes
    of nodes that it may use, `:2` for what each pod takes, `!curse`, `~` when it arrives at any
    time. `+5` is the service's priority, `late` is `~` of all its jobs, `protected`, `trade-always`
    and `trade-off` are its annotations."""
    parts = [re.fullmatch(r"(\w)(?::(\d+))?(?:x(\d+))?", word) for word in nodes.split()]
    found = tuple(
        (part[1], int(part[2] or 1)) for part in parts if part for _ in range(int(part[3] or 1))
    )
    made = list[Team]()
    jobs = list[Job]()
    for number, text in enumerate(teams):
        ladder, _, rest = text.partition(":")
        words = rest.split()
        priority = sum(int(word) for word in words if word[0] == "+")
        trade = next(
            (Trade(word[6:]) for word in words if word.startswith("trade-")), Trade.WHEN_NOT_SERVING
        )
        made.append(Team(ladder.strip(), priority, "protected" in words, trade))
        seen = Counter[str]()
        for word in words:
            match = re.fullmatch(
                r"([pde])(\^)?(?:\*(\d+))?(%)?(?:@(\w+))?(?::(\d+))?(?:!(\w+))?(~)?", word
            )
            if match is None:
                assert (
                    word in ("late", "protected") or word[0] == "+" or word.startswith("trade-")
                ), word
                continue
            letter, old, pods, racked, classes, units, curse, late = match.groups(default="")
            may = frozenset(n for n, (kind, _) in enumerate(found) if kind in (classes or kind))
            comes_late = not old and (bool(late) or "late" in words or f"{letter}^" in rest)
            job = (
                f"{letter}{seen[letter]}",
                int(pods or 1),
                int(units or 1),
                may,
                curse,
                comes_late,
                classes,
                bool(old),
                _racks(may, changes) if racked else (),
            )
            jobs.append(Job(number, *job))
            seen[letter] += 1
    gates = any(job.curse in ("make", "slow") or job.outdated for job in jobs)
    options: dict[str, Any] = {"gates": gates, **changes}
    return Shape(name, found, tuple(made), tuple(jobs), tuple(events.split()), **options)


def _racks(nodes: frozenset[int], changes: Mapping[str, Any]) -> tuple[frozenset[int], ...]:
    """The parts of these nodes that are in one rack."""
    found: dict[int, set[int]] = {}
    for node in sorted(nodes):
        found.setdefault(node // changes["racks"], set()).add(node)
    return tuple(map(frozenset, found.values()))


Spot = tuple[str, int]
"""What a pod does and on which node: `.` not there, `g` gated, `u` unbound (-1), `s` starts, `r`
runs, `t` ends."""

NOT_THERE: Spot = (".", -1)
GATED: Spot = ("g", -1)
UNBOUND: Spot = ("u", -1)


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

    def turned(self, changes: Mapping[Spot, Spot]) -> Inst:
        """With other pods for these, all of them new."""
        return self.having((changes.get(pod, pod) for pod in self.pods), newest=0)


class State(NamedTuple):
    nodes: tuple[tuple[str, int], ...]
    """`R` ready, `X` not ready, `C` cordoned, `T` tainted, `G` gone; and for how long."""
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
    return State(
        (("R", LONG_AGO),) * len(of.nodes),
        insts,
        Memory(),
        of.events,
        replicas=(ALL,) * len(of.teams),
    )


def free(of: Shape, s: State) -> Counter[int]:
    """Units that pods can be bound to, by node."""
    left = Counter({n: units for n, (_, units) in enumerate(of.nodes) if s.nodes[n][0] == "R"})
    for job, inst in zip(of.jobs, s.insts, strict=True):
        for phase, node in inst.pods:
            if phase in "srt" and node in left:
                left[node] -= job.units
    return left


def with_instance(s: State, number: int, inst: Inst) -> State:
    return s._replace(insts=(*s.insts[:number], inst, *s.insts[number + 1 :]))


def key(team: int) -> ServiceKey:
    return ServiceKey("default", "rule", f"s{team}")


def uid(number: int) -> str:
    return f"job-{number}"


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
