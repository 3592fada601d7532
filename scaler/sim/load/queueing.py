"""Requests on their way through prefill and decode, as amounts that flow: a step of time, values in, values out.

A request waits for prefill, is prefilled, waits for a place in decode, and is decoded; first come, first served.
Amounts are real numbers, and what came in one step is one `Cohort`. What arrived is served, lost, or still there.
Must not: know of instances, of clocks or of the cluster (scaler.sim.load.service).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec


class Cohort(msgspec.Struct, frozen=True):
    """Requests that came at the same time (seconds)."""

    since: float
    requests: float


class Capacity(msgspec.Struct, frozen=True):
    """What can be done, and what is put up with."""

    prefill: float
    """Requests per second that are prefilled."""
    places: float
    """Requests that are decoded at the same time."""
    answer: float
    """Seconds from the first token of an answer to its last."""
    patience: float = math.inf
    """Seconds after which a request that is not yet decoded is lost."""
    bound: float = math.inf
    """So many requests wait at most; what comes then is lost."""

    @property
    def able(self) -> float:
        """Requests per second that can go on for good: the slower stage decides."""
        return min(self.prefill, self.places / self.answer)


class Flow(msgspec.Struct, frozen=True):
    """Where the requests are. Totals count from the start."""

    at: float = 0.0
    waiting: tuple[Cohort, ...] = ()
    """For prefill, the oldest first."""
    handed: tuple[Cohort, ...] = ()
    """Prefilled, for a place in decode."""
    decoding: float = 0.0
    arrived: float = 0.0
    served: float = 0.0
    lost: float = 0.0

    @property
    def queue(self) -> float:
        """Requests that wait, wherever."""
        return total(self.waiting) + total(self.handed)

    @property
    def oldest(self) -> float:
        """Seconds that the request has waited that came first."""
        return self.at - min((cohorts[0].since for cohorts in (self.handed, self.waiting) if cohorts), default=self.at)


def step(flow: Flow, capacity: Capacity, arriving: float, seconds: float, *, broken: float = 0.0) -> Flow:
    """The flow `seconds` later. `arriving` requests come first, and the share `broken` of what is decoded breaks off.

    `seconds` should be well below `capacity.answer`: what is decoded leaves at a rate that counts from the beginning.
    """
    now = flow.at + seconds
    decoding = flow.decoding * (1.0 - broken)
    served = decoding * min(1.0, seconds / capacity.answer)
    decoding -= served
    came = Cohort(flow.at, arriving)
    prefilled, waiting = taken((*flow.waiting, came) if arriving else flow.waiting, capacity.prefill * seconds)
    placed, handed = taken((*flow.handed, *prefilled), max(0.0, capacity.places - decoding))
    waiting, handed = (
        tuple(cohort for cohort in cohorts if cohort.since > now - capacity.patience) for cohorts in (waiting, handed)
    )
    waiting, _ = taken(waiting, max(0.0, capacity.bound - total(handed)))
    after = Flow(now, waiting, handed, decoding + total(placed), flow.arrived + arriving, flow.served + served)
    gone = flow.decoding * broken + flow.queue + arriving - total(placed) - after.queue
    return msgspec.structs.replace(after, lost=flow.lost + max(0.0, gone))


def total(cohorts: Sequence[Cohort]) -> float:
    """Requests."""
    return math.fsum(cohort.requests for cohort in cohorts)


def taken(cohorts: Sequence[Cohort], most: float) -> tuple[tuple[Cohort, ...], tuple[Cohort, ...]]:
    """(the first requests, `most` at most; the others)."""
    for index, cohort in enumerate(cohorts):
        if cohort.requests > most:
            first = (*cohorts[:index], Cohort(cohort.since, most)) if most > 0 else cohorts[:index]
            rest = (Cohort(cohort.since, cohort.requests - most), *cohorts[index + 1 :])
            return tuple(first), rest
        most -= cohort.requests
    return tuple(cohorts), ()
