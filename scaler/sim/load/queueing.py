"""Requests through prefill and decode, as amounts that flow: one step of time, values in, values
out.

A request waits for prefill, is prefilled, waits for a place in decode, and is decoded; first come,
first served. Amounts are real numbers; the arrivals of one step are one `Cohort`. Each arrived
request is served, lost, or waits. Must not: know of instances, of clocks or of the cluster
(scaler.sim.load.service)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec


class Cohort(msgspec.Struct, frozen=True):
    """Requests that arrived at the same time (seconds)."""

    since: float
    requests: float


class Capacity(msgspec.Struct, frozen=True):
    """The capacity of a service, and the limits of waiting."""

    prefill: float
    """Prefilled requests per second."""
    places: float
    """Requests that are decoded at the same time."""
    answer: float
    """Seconds from the first token of an answer to its last."""
    patience: float = math.inf
    """Seconds after which a request that is not yet decoded is lost."""
    bound: float = math.inf
    """The longest queue; requests beyond it are lost."""

    @property
    def able(self) -> float:
        """Requests per second that are possible for ever: the slower stage decides."""
        return min(self.prefill, self.places / self.answer)


class Flow(msgspec.Struct, frozen=True):
    """The position of all requests. Totals count from the start."""

    at: float = 0.0
    waiting: tuple[Cohort, ...] = ()
    """Waiting for prefill, the oldest first."""
    prefilled: tuple[Cohort, ...] = ()
    """Prefilled, waiting for a place in decode."""
    decoding: float = 0.0
    arrived: float = 0.0
    served: float = 0.0
    lost: float = 0.0

    @property
    def queue(self) -> float:
        """All waiting requests, in both queues."""
        return total(self.waiting) + total(self.prefilled)

    @property
    def oldest(self) -> float:
        """Waiting time of the oldest request, in seconds."""
        since = self.at
        for cohorts in (self.prefilled, self.waiting):
            if cohorts:
                since = min(since, cohorts[0].since)
        return self.at - since


def step(
    flow: Flow, capacity: Capacity, arriving: float, seconds: float, *, broken: float = 0.0
) -> Flow:
    """The flow `seconds` later. `arriving` requests come first, and the share `broken` of the
    decoding requests is lost.

    `seconds` should be far below `capacity.answer`: the rate of finished requests is that at the
    start of the step."""
    now = flow.at + seconds
    decoding = flow.decoding * (1.0 - broken)
    served = decoding * min(1.0, seconds / capacity.answer)
    decoding -= served
    came = Cohort(flow.at, arriving)
    done, waiting = taken(
        (*flow.waiting, came) if arriving else flow.waiting, capacity.prefill * seconds
    )
    free = max(0.0, capacity.places - decoding)
    placed, prefilled = taken((*flow.prefilled, *done), free)
    oldest = now - capacity.patience
    waiting = _younger(waiting, oldest)
    prefilled = _younger(prefilled, oldest)
    waiting, _ = taken(waiting, max(0.0, capacity.bound - total(prefilled)))
    after = Flow(
        now,
        waiting,
        prefilled,
        decoding + total(placed),
        flow.arrived + arriving,
        flow.served + served,
    )
    gone = flow.decoding * broken + flow.queue + arriving - total(placed) - after.queue
    return msgspec.structs.replace(after, lost=flow.lost + max(0.0, gone))


def _younger(cohorts: Sequence[Cohort], oldest: float) -> tuple[Cohort, ...]:
    return tuple(cohort for cohort in cohorts if cohort.since > oldest)


def total(cohorts: Sequence[Cohort]) -> float:
    """The number of requests."""
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
