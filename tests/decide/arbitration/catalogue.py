"""All small services and all orders in which their jobs can arrive, each once: what the census goes through.

Two are one where the contract can see no difference: services of which the same jobs exist and whose ladders differ
only in ratios that need more jobs, or in how many more jobs than there are the smallest ratio wants. The order of jobs
of different services matters only as far as it orders the services.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations, pairwise, product
from typing import NamedTuple

from tests.decide.arbitration.world import World, world

Counts = tuple[int, int]
"""Prefill, decode."""


class Make(NamedTuple):
    """How all instances of one group are made."""

    pods: int = 1
    kinds: str = ""
    """Of nodes, as in `p@01`; "" = any."""


class Form(NamedTuple):
    """One service and its jobs in the order of their arrival, as a string of `p` and `d`."""

    ratios: tuple[Counts, ...]
    makes: tuple[Make | None, Make | None]
    """None for a group without jobs."""
    jobs: str

    @property
    def pods(self) -> int:
        return sum(self.make(letter).pods for letter in self.jobs)

    @property
    def has(self) -> Counts:
        return self.jobs.count("p"), self.jobs.count("d")

    def make(self, letter: str) -> Make:
        return self.makes[letter == "d"] or Make()

    def __str__(self) -> str:
        ladder = " > ".join("".join(f"{n}{g}" for n, g in zip(ratio, "PD", strict=True) if n) for ratio in self.ratios)
        return f"{ladder}: {' '.join(map(self._word, self.jobs))}"

    def _word(self, letter: str) -> str:
        pods, kinds = self.make(letter)
        return f"{letter}{pods if pods > 1 else ''}{f'@{kinds}' if kinds else ''}"


Stratum = tuple[Form, ...]
"""All services with all jobs that exist, the service whose first job came first in front."""


class Bound(NamedTuple):
    """Which services there may be. Pods are those of all jobs that exist."""

    pods: int
    counts: int = 2
    """The most instances of one group in a ratio."""
    sizes: tuple[int, ...] = (1, 2)
    """Pods of an instance; the same for all of one group."""
    kinds: int = 1
    services: int = 4
    ratios: int = 3
    spare: int = 1
    """Jobs of a group beyond its largest ratio."""
    faults: int = 1
    either_way: bool = False
    """Of a service and the one with prefill and decode exchanged only one is looked at."""
    timed: bool = False
    """With timers, trades, and every choice of services that the scheduler never binds."""
    blurred: bool = False
    """With time: nothing ever fits as far as the controller can see, so all minimums but those alone need a probe."""


def ladders(counts: int, ratios: int) -> Iterator[tuple[Counts, ...]]:
    """Every ladder of two groups: from ratio to ratio no group rises, and some group falls."""
    every = [(p, d) for p, d in product(range(counts, -1, -1), repeat=2) if p or d]
    for number in range(1, ratios + 1):
        for chosen in combinations(every, number):
            if all(upper[1] >= lower[1] for upper, lower in pairwise(chosen)):
                yield chosen


def plain(form: Form) -> Form:
    """The one form that stands for all that are like it."""
    has = form.has
    makes = form.makes[0] if has[0] else None, form.makes[1] if has[1] else None
    within = [n for n, ratio in enumerate(form.ratios) if ratio[0] <= has[0] and ratio[1] <= has[1]]
    ratios = form.ratios[within[0] :] if within else (_lacking(form.ratios[-1], has),)
    return Form(ratios, makes, form.jobs)


def _lacking(minimum: Counts, has: Counts) -> Counts:
    """It asks for one more than there is, in the first group of which nothing is left over."""
    if minimum[0] >= has[0]:
        return has[0] + 1, min(minimum[1], has[1])
    return minimum[0], has[1] + 1


def mirrored(form: Form) -> Form:
    """Prefill and decode exchanged."""
    ratios = tuple((d, p) for p, d in form.ratios)
    return Form(ratios, (form.makes[1], form.makes[0]), form.jobs.translate(str.maketrans("pd", "dp")))


def standard(form: Form, bound: Bound) -> Form:
    form = plain(form)
    return min(form, plain(mirrored(form)), key=repr) if bound.either_way else form


@cache
def forms(bound: Bound) -> dict[int, tuple[Form, ...]]:
    """By number of pods."""
    found: dict[int, set[Form]] = {}
    for ratios in ladders(bound.counts, bound.ratios):
        for makes in product(_makes(bound), _makes(bound)):
            for jobs in _orders(ratios[0], makes, bound):
                form = standard(Form(ratios, makes, jobs), bound)
                found.setdefault(form.pods, set()).add(form)
    return {pods: tuple(sorted(those, key=repr)) for pods, those in sorted(found.items())}


def _makes(bound: Bound) -> list[Make]:
    where = [""] if bound.kinds == 1 else ["", *map(str, range(bound.kinds))]
    return [Make(pods, kinds) for pods, kinds in product(bound.sizes, where)]


def _orders(top: Counts, makes: tuple[Make, Make], bound: Bound) -> Iterator[str]:
    most = [(number + bound.spare if number else 0) for number in top]
    for p, d in product(range(most[0] + 1), range(most[1] + 1)):
        if 0 < p * makes[0].pods + d * makes[1].pods <= bound.pods:
            for places in combinations(range(p + d), p):
                yield "".join("p" if place in places else "d" for place in range(p + d))


def strata(bound: Bound, pods: int) -> Iterator[Stratum]:
    """All with exactly so many pods."""
    return _sequences(forms(bound), pods, bound.services)


def _sequences(those: dict[int, tuple[Form, ...]], pods: int, services: int) -> Iterator[Stratum]:
    if not pods:
        yield ()
    elif services:
        for first, found in those.items():
            if first <= pods:
                for rest in _sequences(those, pods - first, services - 1):
                    for form in found:
                        yield (form, *rest)


def before(stratum: Stratum, bound: Bound) -> Iterator[tuple[int, Stratum]]:
    """What was there before the last job came: of which service it is, and the stratum without it."""
    for service, form in enumerate(stratum):
        if len(form.jobs) > 1:
            less = standard(form._replace(jobs=form.jobs[:-1]), bound)
            yield service, (*stratum[:service], less, *stratum[service + 1 :])
        elif service == len(stratum) - 1:
            yield service, stratum[:-1]


def world_of(stratum: Stratum, nodes: tuple[int, ...], faults: int) -> World:
    return world(nodes, *map(str, stratum), faults=faults)
