"""Small worlds in which every order of events is played: nodes by kind, services with jobs, a scheduler, one fault.

A pod takes a whole node, so a state is a handful of small numbers: where each pod is, and how many nodes of each kind
are up and down. The scheduler is the worst one allowed: it binds any admitted instance whose missing pods all find
free nodes, wherever it likes. Nothing here knows how the controller decides; `view` shows a state to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, combinations_with_replacement, pairwise
from typing import NamedTuple

ABSENT, UNBOUND = -1, -2

Pods = tuple[int, ...]
"""Of one instance, each ABSENT, UNBOUND, or the kind of the node it is bound to."""


class Job(NamedTuple):
    """One instance as its user wrote it. `late`: it does not exist from the start."""

    service: int
    group: str
    name: str
    pods: int
    kinds: tuple[int, ...]
    late: bool = False


class World(NamedTuple):
    """What never changes: nodes of each kind, one ladder for each service ("2P1D > 1P1D"), all jobs. The jobs of one
    service stand together, oldest first, and the service whose oldest job is older stands in front."""

    nodes: tuple[int, ...]
    ladders: tuple[str, ...]
    jobs: tuple[Job, ...]
    faults: int = 0
    """Nodes that may be lost; each may come back."""


class State(NamedTuple):
    up: tuple[int, ...]
    down: tuple[int, ...]
    pods: tuple[Pods | None, ...]
    """For each job of the world; None while the job does not exist."""
    faults: int


def world(nodes: tuple[int, ...], *services: str, late: tuple[str, ...] = (), faults: int = 0) -> World:
    """`2P1D > 1P1D: p p d` is a service with three jobs of one pod. `d2` has two pods, `p@1` needs kind 1, and any of
    the kinds if nothing is said. `late` names jobs (`1.d0` = d0 of service 1) that arrive at any time, or never.
    """
    jobs = []
    for number, text in enumerate(services):
        seen: dict[str, int] = {}
        for word in text.partition(":")[2].split():
            what, _, kinds = word.partition("@")
            letter = what[0]
            name = f"{letter}{seen.setdefault(letter, 0)}"
            seen[letter] += 1
            fits = tuple(int(kind) for kind in kinds) if kinds else tuple(range(len(nodes)))
            jobs.append(Job(number, letter, name, int(what[1:] or 1), fits, f"{number}.{name}" in late))
    return World(nodes, tuple(text.partition(":")[0].strip() for text in services), tuple(jobs), faults)


def initial(w: World) -> State:
    pods = tuple(None if job.late else (ABSENT,) * job.pods for job in w.jobs)
    return State(w.nodes, (0,) * len(w.nodes), pods, w.faults)


@lru_cache(maxsize=1 << 12)
def parts(jobs: tuple[Job, ...]) -> tuple[slice, ...]:
    """Where the jobs of each service are."""
    counts = Counter(job.service for job in jobs)
    ends = accumulate(counts[service] for service in range(max(counts, default=-1) + 1))
    return tuple(slice(start, end) for start, end in pairwise((0, *ends)))


def free(w: World, s: State) -> tuple[int, ...]:
    """Free nodes of each kind."""
    left = list(s.up)
    for pods in s.pods:
        for pod in pods or ():
            if pod >= 0:
                left[pod] -= 1
    return tuple(left)


def runs(pods: Pods | None) -> bool:
    """Bound is running here: nothing that the arbiter decides depends on the seconds between."""
    return pods is not None and all(pod >= 0 for pod in pods)


def admit(s: State, job: int) -> State:
    """Also completes: every pod that does not exist is made."""
    pods = s.pods[job]
    assert pods is not None
    return _with(s, job, tuple(UNBOUND if pod == ABSENT else pod for pod in pods))


def revoke(s: State, job: int) -> State:
    pods = s.pods[job]
    assert pods is not None
    assert not any(pod >= 0 for pod in pods), "a bound pod is never deleted"
    return _with(s, job, (ABSENT,) * len(pods))


def evict(s: State, job: int) -> State:
    pods = s.pods[job]
    assert pods is not None
    return _with(s, job, (ABSENT,) * len(pods))


def bindings(w: World, s: State) -> Iterator[State]:
    """Every next step of the scheduler: one instance, whole, on any nodes that it may use."""
    room = free(w, s)
    for number, (job, pods) in enumerate(zip(w.jobs, s.pods, strict=True)):
        waiting = pods.count(UNBOUND) if pods else 0
        if not pods or not waiting:
            continue
        for kinds in combinations_with_replacement(job.kinds, waiting):
            if all(kinds.count(kind) <= room[kind] for kind in kinds):
                chosen = iter(kinds)
                yield _with(s, number, tuple(next(chosen) if pod == UNBOUND else pod for pod in pods))


def events(w: World, s: State) -> Iterator[State]:
    """Everything that comes from outside: a late job, a node lost with what is on it, a node that is back."""
    for number, pods in enumerate(s.pods):
        if pods is None:
            yield _with(s, number, (ABSENT,) * w.jobs[number].pods)
    room = free(w, s)
    for kind in range(len(w.nodes)):
        if s.down[kind]:
            yield s._replace(up=_plus(s.up, kind, 1), down=_plus(s.down, kind, -1))
        if s.faults and s.up[kind]:
            lost = s._replace(up=_plus(s.up, kind, -1), down=_plus(s.down, kind, 1), faults=s.faults - 1)
            if room[kind] > 0:
                yield lost
            for number, pods in enumerate(s.pods):
                if pods and kind in pods:
                    at = pods.index(kind)
                    yield _with(lost, number, (*pods[:at], ABSENT, *pods[at + 1 :]))


def _with(s: State, job: int, pods: Pods) -> State:
    return s._replace(pods=(*s.pods[:job], tuple(sorted(pods)), *s.pods[job + 1 :]))


def _plus(numbers: tuple[int, ...], at: int, change: int) -> tuple[int, ...]:
    return (*numbers[:at], numbers[at] + change, *numbers[at + 1 :])
