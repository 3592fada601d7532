"""A deadline for one request, for whoever cannot wait for that of its client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from scaler.kube.errors import UnknownOutcomeError

T = TypeVar("T")


async def within(seconds: float, call: Awaitable[T]) -> T:
    """The result of `call`; UnknownOutcomeError after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError:
        raise UnknownOutcomeError("no answer in time") from None
