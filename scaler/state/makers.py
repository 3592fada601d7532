"""Who makes the pods of an AscendJob and writes its status: the one answer that the instance, the
executor, the reporter and the rank tables go by.

The mode in force says it for all AscendJobs alike. Against the mode, a job is another's while that
other makes pods of it or writes its status: an Ascend Operator in another namespace, under another
name, or outside the cluster. Only this job is left to the other, because whoever may write it may
cause that."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from scaler.clock import Skew
from scaler.informers.cache import Cache
from scaler.informers.jobs import JobRecord
from scaler.informers.managers import Writing
from scaler.kube.api import ASCEND_JOBS
from scaler.state.situation import Situation
from scaler.timestamps import rfc3339

OTHERS_FOR = 300.0
"""Seconds after the last write of another for which a job is left to it. So a status that another
operator wrote long ago means nothing, and a job that its operator has left is served again."""
REMEDY = (
    "Stop the other operator, or let it make the pods and say where it is: setting"
    " ascend_operator_namespace"
)
_PRECISION = 1.0
"""Seconds: times in managedFields are whole seconds, rounded down."""


class Maker(msgspec.Struct, frozen=True, gc=False):
    """The answer about one job."""

    ours: bool
    """The scaler makes its pods and writes its status."""
    other: str = ""
    """Who makes them against the mode in force, and what was seen of that, in words; "" for nobody.
    A job of which this is said is not ours."""
    until: float = 0.0
    """When the other is forgotten, in the time of `Clock.now`; 0.0 without one."""


class Makers:
    """`now` gives seconds since the epoch."""

    def __init__(self, cache: Cache, now: Callable[[], float]) -> None:
        self._cache = cache
        self._now = now
        self._since = 0.0

    def begin(self) -> None:
        """The scaler makes the pods from now on. What others wrote before is how it was taken
        over."""
        self._since = self._now()

    def of(self, record: JobRecord, situation: Situation, skew: Skew) -> Maker:
        """Who makes the pods of this job now."""
        if record.kind != ASCEND_JOBS.kind or not situation.makes_pods:
            return Maker(ours=False)
        if situation.shadow:  # beside an operator, as if there were none
            return Maker(ours=True)
        newest = max(self._of_others(record), key=lambda one: one[0].at, default=None)
        if newest is None:
            return Maker(ours=True)
        writing, what = newest
        at = skew.latest(writing.at)
        until = at + OTHERS_FOR
        was_after = at + _PRECISION > self._since
        if until <= self._now() or not (was_after or self._operator_elsewhere()):
            return Maker(ours=True)
        return Maker(ours=False, other=_in_words(writing, what), until=until)

    def _of_others(self, record: JobRecord) -> Iterator[tuple[Writing, str]]:
        """What others wrote of the job: the write, and what it was."""
        if record.others_wrote is not None:
            yield record.others_wrote, "wrote its status"
        for pod in self._cache.pods_of(record.uid).values():
            if pod.made_by:
                yield Writing(pod.made_by, pod.created), f"made its pod {pod.name}"

    def _operator_elsewhere(self) -> bool:
        """Whether an operator runs in another namespace: it may have been there before us."""
        return bool(self._cache.ascend_operators_elsewhere())


def _in_words(writing: Writing, what: str) -> str:
    return (
        f"{writing.manager} {what} at {rfc3339(writing.at)}: no pods are made of this job, and its"
        f" status is not written, until nobody else has done either for {OTHERS_FOR:g} s"
    )
