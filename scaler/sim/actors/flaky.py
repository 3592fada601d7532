"""A KubeApi with faults on demand: watches that break and requests that fail, as the controller may meet them.

A failed write may or may not have taken effect, as with a real API server. Must not: change anything by itself.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

from scaler.kube.api import KubeApi, Page, PatchType, Resource, WatchEvent
from scaler.kube.errors import KubeError, UnknownOutcomeError, status_error


class FlakyApi(KubeApi):
    """Passes everything on to `api` until told otherwise."""

    def __init__(self, api: KubeApi, *, seed: int = 0) -> None:
        self._api = api
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

    async def list(self, resource: Resource, namespace: str | None = None, **options: Any) -> Page[Any]:
        self._refuse()
        page: Page[Any] = await self._api.list(resource, namespace, **options)
        return page

    async def watch(
        self, resource: Resource, namespace: str | None = None, **options: Any
    ) -> AsyncIterator[WatchEvent[Any]]:
        self._refuse()
        stream = aiter(self._api.watch(resource, namespace, **options))
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

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Any:
        self._refuse()
        return await self._api.get(resource, namespace, name)

    async def create(self, resource: Resource, namespace: str | None, body: Any) -> Any:
        async with self._doubtful():
            return await self._api.create(resource, namespace, body)

    async def replace(
        self, resource: Resource, namespace: str | None, name: str, body: Any, *, subresource: str = ""
    ) -> Any:
        async with self._doubtful():
            return await self._api.replace(resource, namespace, name, body, subresource=subresource)

    async def patch(
        self, resource: Resource, namespace: str | None, name: str, patch: Any, *, patch_type: PatchType,
        subresource: str = "",
    ) -> Any:  # fmt: skip
        async with self._doubtful():
            return await self._api.patch(
                resource, namespace, name, patch, patch_type=patch_type, subresource=subresource
            )

    async def delete(self, resource: Resource, namespace: str | None, name: str, **options: Any) -> None:
        async with self._doubtful():
            await self._api.delete(resource, namespace, name, **options)

    def _doubtful(self) -> _Doubt:
        return _Doubt(self._fault(), after=self._random.random() < 0.5)


class _Doubt:
    """Raises the fault before the request, or after it has taken effect."""

    def __init__(self, fault: KubeError | None, *, after: bool) -> None:
        self._fault = fault
        self._after = after

    async def __aenter__(self) -> None:
        if self._fault and not self._after:
            raise self._fault

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._fault and kind is None:
            raise self._fault
