"""The results of a load, in numbers for people. Pure: samples in, figures out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from scaler.sim.stories.loads import Load
from scaler.sim.stories.timeline import LoadSample, MomentKind, Timeline

_HOUR = 3600.0


class Figures(msgspec.Struct, frozen=True):
    """Of one service, over the whole time. Counts of requests are rounded."""

    service: str
    requests: int
    lost: int
    queue_p95: int
    """The largest queue during 95 % of the time."""
    queue_max: int
    longest_wait: int
    """Seconds."""
    npu_hours: float
    unworkable_hours: float
    """Hours with a combination of prefill and decode instances that is not in `works` of the
    load."""
    moves: int
    """How often an autoscaler wrote another number."""

    @property
    def lost_percent(self) -> float:
        return 100.0 * self.lost / max(1, self.requests)


_COLUMNS = {
    "requests": "requests",
    "lost": "lost",
    "lost_percent": "lost %",
    "queue_p95": "queue p95",
    "queue_max": "most",
    "longest_wait": "longest wait s",
    "npu_hours": "NPU-hours",
    "unworkable_hours": "hours at no ratio",
    "moves": "autoscaler moves",
}


def figures(loads: Iterable[Load], timeline: Timeline) -> list[Figures]:
    """One for each load, in their order; none for a load that never began."""
    found: list[Figures] = []
    for load in loads:
        if load.service in timeline.loads:
            found.append(_of(load, timeline.loads[load.service], timeline))
    return found


def _of(load: Load, samples: Sequence[LoadSample], timeline: Timeline) -> Figures:
    last = samples[-1]
    works = set(load.works)
    queues = []
    npu_seconds = 0.0
    unworkable = 0.0
    for one in samples:
        seconds = one.end - one.at
        queues.append((one.queue, seconds))
        npu_seconds += one.npus * seconds
        if works and (one.prefill, one.decode) not in works:
            unworkable += seconds
    return Figures(
        service=load.service,
        requests=round(last.arrived),
        lost=round(last.lost),
        queue_p95=round(share(queues, 0.95)),
        queue_max=round(max(one.queue for one in samples)),
        longest_wait=round(max(one.wait for one in samples)),
        npu_hours=round(npu_seconds / _HOUR, 1),
        unworkable_hours=round(unworkable / _HOUR, 2),
        moves=_moves(load.service, timeline),
    )


def _moves(service: str, timeline: Timeline) -> int:
    """How often an autoscaler wrote another number of this service."""
    moves = 0
    for moment in timeline.moments:
        of_autoscaler = moment.text.startswith("autoscaler:")
        if moment.service == service and of_autoscaler and moment.kind is MomentKind.TARGET:
            moves += 1
    return moves


def share(weighted: Iterable[tuple[float, float]], part: float) -> float:
    """The least value that at least this part of the weight does not exceed."""
    ordered = sorted(weighted)
    left = part * sum(weight for _, weight in ordered)
    for value, weight in ordered:
        left -= weight
        if left <= 0:
            return value
    return ordered[-1][0] if ordered else 0.0


def table(found: Sequence[Figures]) -> list[str]:
    """Lines of a table: a head, and one line per service."""
    rows = [["load", *_COLUMNS.values()]]
    for one in found:
        rows.append([one.service, *(_cell(getattr(one, name)) for name in _COLUMNS)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    result: list[str] = []
    for row in rows:
        result.append("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]))
    return result


def _cell(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if value < 10 else f"{value:,.1f}"
