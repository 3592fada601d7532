"""A KubeApi with trouble on demand, the one way in which a scenario spoils what somebody sees of the API server.

Requests fail and watches break for a time (`fail`, `cut_watches`): a failed write may or may not have taken effect, as
with a real API server. And pods of cursed instances are not created: `Never` says what never happens to an instance;
those stand-ins whose part it is ask before they do it. Must not: change anything by itself, or know of scenarios.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from enum import StrEnum
from typing import Any

from scaler.kube.api import PODS, KubeApi, Object, Page, Resource, WatchEvent
from scaler.kube.errors import KubeError, NotSentError, UnknownOutcomeError, status_error

LOOK_AGAIN = 1.0
"""Seconds until something that is withheld is asked about again, for a curse that ends."""


class Never(StrEnum):
    """What never happens."""

    BOUND = "bound"
    """The scheduler binds none of its pods."""
    HALF_BOUND = "half-bound"
    """The scheduler binds the first of its pods and no other."""
    ENQUEUED = "enqueued"
    """The scheduler leaves its PodGroup Pending."""
    MADE = "made"
    """Its owner makes no pods, and says nothing about it."""
    CREATED = "created"
    """The API server refuses the creation of its pods, whoever asks."""
    RUNNING = "running"
    """The kubelet starts none of its pods."""
    ENDING = "ending"
    """The kubelet ends none of its pods; only who deletes them by force does."""


Cursed = Callable[[Never, Object], bool]
"""Whether this never happens, at present, to the instance that an object belongs to: a pod, a PodGroup or a job."""


def nobody(_never: Never, _obj: Object) -> bool:
    """No curse at all."""
    return False


class FaultyApi(KubeApi):
    """Passes everything on to `api` until told otherwise.

    `maker`: the view of an owner that makes pods; what is never made does not even reach the API server.
    """

    def __init__(self, api: KubeApi, cursed: Cursed = nobody, *, maker: bool = False, seed: int = 0) -> None:
        self._api = api
        self._cursed = cursed
        self._maker = maker
        self._random = random.Random(seed)  # noqa: S311 - for faults, not for secrets
        self._share = 0.0
        self._failing_until = 0.0
        self._waiting: dict[int, asyncio.Timeout] = {}

    def fail(self, *, share: float, lasting: float) -> None:
        """Let this share of the requests fail with 500 for so many seconds."""
        self._share = share
        self._failing_until = asyncio.get_running_loop().time() + lasting

    def cut_watches(self) -> None:
        """Break every watch that waits for an event now."""
        now = asyncio.get_running_loop().time()
        waiting, self._waiting = self._waiting, {}
        for scope in waiting.values():
            scope.reschedule(now)

    def _fault(self) -> KubeError | None:
        if asyncio.get_running_loop().time() >= self._failing_until or self._random.random() >= self._share:
            return None
        return status_error(500, "InternalError", "injected by the scenario")

    def _refuse(self) -> None:
        fault = self._fault()
        if fault:
            raise fault

    async def _write(self, send: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
        """The fault comes before the request, or after it has taken effect."""
        fault, late = self._fault(), self._random.random() < 0.5
        if fault and not late:
            raise fault
        answer = await send(*args, **options)
        if fault:
            raise fault
        return answer

    async def list(self, *args: Any, **options: Any) -> Page[Any]:
        self._refuse()
        page: Page[Any] = await self._api.list(*args, **options)
        return page

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Any:
        self._refuse()
        return await self._api.get(resource, namespace, name)

    async def create(self, resource: Resource, namespace: str | None, body: Any) -> Any:
        return await self._write(self._create, resource, namespace, body)

    async def replace(self, *args: Any, **options: Any) -> Any:
        return await self._write(self._api.replace, *args, **options)

    async def patch(self, *args: Any, **options: Any) -> Any:
        return await self._write(self._api.patch, *args, **options)

    async def delete(self, *args: Any, **options: Any) -> None:
        await self._write(self._api.delete, *args, **options)

    async def watch(self, *args: Any, **options: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        self._refuse()
        stream = aiter(self._api.watch(*args, **options))
        while True:
            try:
                event = await self._next(stream)
            except StopAsyncIteration:
                return
            yield event

    async def _next(self, stream: AsyncIterator[WatchEvent[Any]]) -> WatchEvent[Any]:
        try:
            async with asyncio.timeout(None) as scope:
                self._waiting[id(scope)] = scope
                try:
                    return await anext(stream)
                finally:
                    self._waiting.pop(id(scope), None)
        except TimeoutError:
            raise UnknownOutcomeError("watch cut by the scenario") from None

    async def _create(self, resource: Resource, namespace: str | None, body: Any) -> Any:
        refusal = self._curse(namespace, body) if resource == PODS else None
        if refusal is not None:
            raise refusal
        return await self._api.create(resource, namespace, body)

    def _curse(self, namespace: str | None, body: Object) -> KubeError | None:
        metadata = body.get("metadata") or {}
        name = str(metadata.get("name") or metadata.get("generateName") or "")
        pod = {**body, "metadata": {**metadata, "name": name, "namespace": namespace or ""}}
        if self._maker and self._cursed(Never.MADE, pod):
            return NotSentError("never made: the scenario's curse")
        if self._cursed(Never.CREATED, pod):
            words = f'pods "{name}" is forbidden: never created, by the scenario\'s curse'
            return status_error(403, "Forbidden", words)
        return None
