"""One write of the controller goes wrong, in one way: the rest works."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec

from scaler.kube.errors import UnknownOutcomeError, status_error
from scaler.sim.apiserver.client import Interceptor, Request
from tests.chaos.schedule import WRITES

FRESH_LIFE = 2.0
"""Seconds from a crash to the next life."""


class How(StrEnum):
    """What goes wrong with one write."""

    CRASH_BEFORE = "crash before the effect"
    CRASH_AFTER = "crash after the effect, before the answer"
    LOST_REQUEST = "lost request"
    LOST_ANSWER = "lost answer"
    CONFLICT = "409"
    TOO_MANY = "429"


class Plan(msgspec.Struct, frozen=True):
    """The write with this number, counted over all lives from 0, goes wrong like this."""

    number: int
    how: How


class OneFault(Interceptor):
    """Carries a plan out; `crash` ends the life that is writing. `writes` are all that were sent, in order."""

    def __init__(self, plan: Plan | None) -> None:
        self.writes: list[Request] = []
        self.crash: Callable[[float], None] = lambda _pause: None
        self._plan = plan

    async def before(self, request: Request) -> None:
        if request.verb in WRITES:
            self.writes.append(request)
        match self._harm(request):
            case How.CRASH_BEFORE:
                self.crash(FRESH_LIFE)
            case How.LOST_REQUEST:
                raise UnknownOutcomeError("injected: lost request")
            case How.CONFLICT:
                raise status_error(409, "Conflict", "injected")
            case How.TOO_MANY:
                raise status_error(429, "TooManyRequests", "injected")

    async def after(self, request: Request) -> None:
        match self._harm(request):
            case How.CRASH_AFTER:
                self.crash(FRESH_LIFE)
            case How.LOST_ANSWER:
                raise UnknownOutcomeError("injected: lost answer")

    def _harm(self, request: Request) -> How | None:
        """What goes wrong with this request: nothing, unless it is the planned write."""
        if self._plan is None or len(self.writes) <= self._plan.number:
            return None
        return self._plan.how if self.writes[self._plan.number] is request else None
