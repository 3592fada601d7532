"""A second opinion on section 3b, from the contract alone: slow, by brute force, no code shared with the arbiter.

It judges one state of a small world in which nothing has lasted long (no timeout, no probe, no trade). What each
service would do alone is given as the uids that its own plan moves: that has an oracle of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from tests.decide.arbitration.world import UNBOUND, Job, Pods, State, World, free, parts, runs

Kinds = tuple[int, ...]


@dataclass
class Minimum:
    service: int
    jobs: list[int]
    incomplete: bool
    pods: list[Kinds]
    """Those that are not bound."""
    touched: bool
    """Some of it is admitted and unbound."""


@dataclass
class Judgement:
    reserved: dict[int, list[Kinds]] = field(default_factory=dict)
    """Service -> the unbound pods of its minimum, all of them (S10), each as the kinds of node that it may use."""
    admit: set[int] = field(default_factory=set)
    """Jobs that get their pods (or their missing pods) now. Of a reserved minimum some may have to wait for others."""
    may_wait: set[int] = field(default_factory=set)
    """Those of `admit` that belong to a minimum and can be spoilt, or spoil, by where the scheduler puts them."""
    hold: dict[int, str] = field(default_factory=dict)
    """Jobs whose admission is taken away, and why."""
    take_back: dict[int, str] = field(default_factory=dict)
    serving: set[int] = field(default_factory=set)
    minimums: dict[int, Minimum] = field(default_factory=dict)
    """By service, in order; of those that do not serve and have a pod to bind."""


@lru_cache
def ladder(text: str) -> list[dict[str, int]]:
    return [{g.lower(): int(n) for n, g in re.findall(r"(\d+)([A-Z])", part)} for part in text.split(">")]


def judge(w: World, s: State, wanted: set[int], leaving: set[int]) -> Judgement:
    """`wanted`: jobs that their services' own plans would admit or complete now; `leaving`: those they take back."""
    return _Judge(w, s, wanted, leaving).judgement


class Service(NamedTuple):
    """One service by itself. Jobs by their place in it."""

    serves: bool
    nearest: tuple[int, ...]
    """Its jobs, those nearest to running first."""
    minimum: tuple[int, ...]
    """The instances of the smallest ratio, those nearest to running; none when it serves."""
    incomplete: bool
    """Jobs of the smallest ratio are missing."""
    kinds: frozenset[int]
    """Of nodes that any of its jobs may use."""


@lru_cache(maxsize=1 << 17)
def service(text: str, jobs: tuple[Job, ...], pods: tuple[Pods | None, ...]) -> Service | None:
    """None while none of its jobs exists: they count from the moment they exist, pods or not."""
    there = [place for place, each in enumerate(pods) if each is not None]
    if not there:
        return None
    nearest = sorted(there, key=lambda place: (_distance(pods[place] or ()), place))
    smallest = [ratio for ratio in ladder(text) if any(ratio.values())][-1]
    groups = {group: [place for place in nearest if jobs[place].group == group] for group in smallest}
    running = {group: sum(runs(pods[place]) for place in places) for group, places in groups.items()}
    serves = all(running[group] >= number for group, number in smallest.items())
    minimum = [place for group, number in smallest.items() for place in groups[group][:number]]
    incomplete = any(len(groups[group]) < number for group, number in smallest.items())
    kinds = frozenset(kind for place in there for kind in jobs[place].kinds)
    return Service(serves, tuple(nearest), () if serves else tuple(minimum), incomplete, kinds)


def _distance(pods: Pods) -> int:
    return 0 if runs(pods) else 1 if any(pod >= 0 for pod in pods) else 2 if UNBOUND in pods else 3


class _Judge:
    """One function for each sentence."""

    def __init__(self, w: World, s: State, wanted: set[int], leaving: set[int]) -> None:
        self.w, self.s, self.wanted, self.leaving = w, s, wanted, leaving
        self.free = free(w, s)
        self.services: dict[int, tuple[Service, int]] = {}
        """Of which any job exists: what they are by themselves, and where their jobs begin. Those stand in front whose
        oldest job is older, and they go first."""
        for number, part in enumerate(parts(w.jobs)):
            one = service(w.ladders[number], w.jobs[part], s.pods[part])
            if one is not None:
                self.services[number] = one, part.start
        self.minimums = {f.service: f for f in map(self.minimum_of, self.services) if f is not None}
        self.judgement = Judgement(serving={number for number, (one, _) in self.services.items() if one.serves})
        self.judgement.minimums = self.minimums
        self.vanishing = [kinds for job in leaving for kinds in self.existing(job)]
        """Unbound pods that this decision takes back: they are still there for a moment."""
        self.room_taken: list[Kinds] = []
        self.judge()

    def judge(self) -> None:
        minimums = list(self.minimums.values())
        touched = [minimum for minimum in minimums if minimum.touched]
        for minimum in touched:
            self.judge_minimum(minimum)
        for job in filter(self.is_unbound, self.climbs()):
            self.judge_unbound_climb(job)
        for minimum in touched:
            self.admit_minimum(minimum)
        for minimum in minimums:
            if not minimum.touched:
                self.judge_minimum(minimum)
                self.admit_minimum(minimum)
        for job in self.climbs():
            if not self.is_unbound(job):
                self.judge_new_climb(job)

    # Words

    def missing(self, job: int) -> list[Kinds]:
        return [self.w.jobs[job].kinds for pod in self.s.pods[job] or () if pod < 0]

    def is_unbound(self, job: int) -> bool:
        return UNBOUND in (self.s.pods[job] or ())

    def can_be_taken_back(self, job: int) -> bool:
        return self.is_unbound(job) and not any(pod >= 0 for pod in self.s.pods[job] or ())

    def minimum_of(self, service: int) -> Minimum | None:
        """None for a service that serves, and when no pod is left to bind."""
        one, start = self.services[service]
        jobs = [start + place for place in one.minimum]
        pods = [kinds for job in jobs for kinds in self.missing(job)]
        if not pods:
            return None
        return Minimum(service, jobs, one.incomplete, pods, any(map(self.is_unbound, jobs)))

    def climbs(self) -> list[int]:
        """All that is wanted or unbound and not of a minimum, in the order of services."""
        of_minimums = {job for minimum in self.minimums.values() for job in minimum.jobs}
        found = [start + place for one, start in self.services.values() for place in one.nearest]
        moving = {job for job in found if self.is_unbound(job)} | self.wanted
        return [job for job in found if job in moving - of_minimums - self.leaving]

    # Nodes

    def nodes(self, kind: int) -> int:
        return self.s.up[kind] + self.s.down[kind]

    def shared(self, service: int, pods: list[Kinds]) -> bool:
        """Another service has a candidate node in common: a static fact, whatever either is doing now."""
        mine = {kind for kinds in pods for kind in kinds if self.nodes(kind)}
        return any(other != service and mine & one.kinds for other, (one, _) in self.services.items())

    def fits_besides(self, pods: list[Kinds]) -> bool:
        """Together with all that is reserved."""
        return placeable((*self.room_taken, *pods), self.free)

    def too_large(self, minimum: Minimum) -> bool:
        """It would not fit even on empty nodes, were nothing else there."""
        pods = [self.w.jobs[job].kinds for job in minimum.jobs for _ in range(self.w.jobs[job].pods)]
        return not placeable(pods, tuple(self.nodes(kind) for kind in range(len(self.free))))

    def could_come_true(self, minimum: Minimum) -> bool:
        """It would fit on what is free, held by unbound climbs, or due back."""
        return placeable(minimum.pods, self.roomy())

    def roomy(self) -> tuple[int, ...]:
        return tuple(room + down for room, down in zip(self.free, self.s.down, strict=True))

    def blocked(self, job: int) -> bool:
        """By a waiting minimum with which it shares a node with room free or due back."""
        return any(
            not minimum.incomplete
            and not self.too_large(minimum)
            and self.could_come_true(minimum)
            and any(self.roomy()[kind] and kind in self.w.jobs[job].kinds for kinds in minimum.pods for kind in kinds)
            for minimum in self.minimums.values()
        )

    # Decisions

    def judge_minimum(self, minimum: Minimum) -> None:
        fits = self.fits_besides(minimum.pods)
        if fits and not minimum.incomplete:  # too large cannot fit
            self.room_taken += minimum.pods
            self.judgement.reserved[minimum.service] = minimum.pods
        elif self.shared(minimum.service, minimum.pods):
            self.give_up(minimum)

    def admit_minimum(self, minimum: Minimum) -> None:
        """What is reserved is admitted, unless that room is still to be given back. Alone: admitted all the same."""
        if not self.shared(minimum.service, minimum.pods):
            self.judgement.admit |= self.wanted.intersection(minimum.jobs)
            return
        if minimum.service not in self.judgement.reserved:
            return
        wanted = {job for job in self.wanted.intersection(minimum.jobs) if not self.is_unbound(job)}
        already = self.wanted.intersection(minimum.jobs) - wanted
        self.judgement.admit |= already
        if self.fits_besides(self.vanishing):
            self.judgement.admit |= wanted
            self.judgement.may_wait |= wanted
        else:
            self.judgement.hold |= dict.fromkeys(wanted, "MinimumDoesNotFit")

    def give_up(self, minimum: Minimum) -> None:
        reason = "MinimumIncomplete" if minimum.incomplete else "MinimumDoesNotFit"
        reason = "MinimumTooLarge" if self.too_large(minimum) and not minimum.incomplete else reason
        for job in minimum.jobs:
            if self.is_unbound(job):
                self.take_back(job, reason)
            elif job in self.wanted:
                self.judgement.hold[job] = reason

    def take_back(self, job: int, reason: str) -> None:
        """Nothing bound is ever taken back: what stays keeps its room."""
        if self.can_be_taken_back(job):
            self.judgement.take_back[job] = reason
            self.vanishing += self.missing(job)
            return
        if job in self.wanted:
            self.judgement.hold[job] = reason
        self.reserve(job)

    def reserve(self, job: int) -> None:
        pods = self.missing(job)
        self.room_taken += pods if self.fits_besides(pods) else []

    def existing(self, job: int) -> list[Kinds]:
        return [self.w.jobs[job].kinds for pod in self.s.pods[job] or () if pod == UNBOUND]

    def judge_unbound_climb(self, job: int) -> None:
        reason = self.against(job)
        if reason is not None:
            self.take_back(job, reason)
            return
        self.reserve(job)
        self.judgement.admit |= self.wanted.intersection({job})

    def judge_new_climb(self, job: int) -> None:
        reason = self.against(job)
        shared = self.shared(self.w.jobs[job].service, self.missing(job))
        if reason is None and shared and not self.fits_besides(self.missing(job) + self.vanishing):
            reason = "WaitingForCapacity"  # what is being given back is still there
        if reason is not None:
            self.judgement.hold[job] = reason
            return
        self.reserve(job)
        self.judgement.admit.add(job)

    def against(self, job: int) -> str | None:
        pods = self.missing(job)
        if not self.shared(self.w.jobs[job].service, pods):
            return None
        if self.blocked(job):
            return "YieldsToMinimum"
        return None if self.fits_besides(pods) else "WaitingForCapacity"


def placeable(pods: Iterable[Kinds], room: tuple[int, ...]) -> bool:
    """Whether there is a node for each: every assignment is tried."""
    return _placeable(tuple(sorted(pods)), room)


@lru_cache(maxsize=1 << 18)
def _placeable(pods: tuple[Kinds, ...], room: tuple[int, ...]) -> bool:
    if not pods:
        return True
    first, rest = pods[0], pods[1:]
    return any(room[kind] > 0 and _placeable(rest, (*room[:kind], room[kind] - 1, *room[kind + 1 :])) for kind in first)
