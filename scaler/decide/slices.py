"""A decision that is too much work for one call is made in several: 3b.10c of the contract.

    under_way = begin(world, cache)
    under_way.go_on()    so much work, then it stops     None: N services wait
    under_way.go_on()    it goes on                      None
    under_way.go_on()    it ends                         the decision

It is about one world, and it is what `decide` says of it, in however many slices. So nothing is
released beside a service that was not weighed, and no order, invariant or clock knows of slices.
What changes meanwhile is for the next decision: changes cannot hold this one up.

Pure, as all of `decide`: work is counted (`work.py`)."""

from __future__ import annotations

from collections.abc import Callable

from scaler.decide.decision import Decision
from scaler.decide.work import Steps, Work

SLICE = 10_000
"""Units of work of one call, about as many microseconds. One step more may be done: the step about
one service that is being weighed."""


class UnderWay:
    """A decision that is not made yet. One that is given up leaves nothing behind."""

    def __init__(
        self, steps: Steps[Decision], work: Work, waiting: Callable[[], int], most: int
    ) -> None:
        """`waiting` counts the services that are not weighed yet; `most`: units of work of one
        call."""
        self._steps = steps
        self._work = work
        self._waiting = waiting
        self._most = most

    @property
    def waiting(self) -> int:
        """The number of services that are not weighed yet; at least 1: one has no plan yet."""
        return max(1, self._waiting())

    def go_on(self) -> Decision | None:
        """Do so much work. The decision, or None where it is not made yet. Errors of a step end
        it."""
        end = self._work.units + self._most
        try:
            while self._work.units < end:
                next(self._steps)
        except StopIteration as last:
            made: Decision = last.value
            return made
        return None
