"""Waits until a service is available: prints a line for every change of what it waits for. Reads
only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from scaler.kube.errors import KubeError, StatusError
from scaler.tools.common.access import Access
from scaler.tools.deploy.standing import Standing, standing

EVERY = 2.0
"""Seconds between two reads."""


async def until_available(
    access: Access, name: str, namespace: str, tell: Callable[[str], None], seconds: float
) -> Standing:
    """The state when the service is available, or after so many seconds. Until then requests
    without an answer are repeated; KubeError for a refusal, or if there never was an answer."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    said: list[str] | None = None
    last: Standing | None = None
    while True:
        try:
            last, _ = await standing(access, name, namespace)
            now = list(last.waits())
            lines = [
                *(last.notes if said is None else ()),
                *(f"waits: {one}" for one in now if one not in (said or ())),
            ]
        except StatusError:
            raise
        except KubeError as error:
            if loop.time() >= deadline and last is None:
                raise
            now = [str(error)]
            lines = [f"waits: no answer of the API server: {error}"]
        if last is not None and last.available:
            return last
        if now != said:
            for line in lines:
                tell(line)
        said = now
        if loop.time() >= deadline and last is not None:
            return last
        await asyncio.sleep(EVERY)
