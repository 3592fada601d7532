"""What never happens to an instance, as the stand-ins meet it: they ask before they do their part.

Which instances, and when, is told by whoever asks with a `Cursed` (scaler.sim.stories.curses).
Must not: know of scenarios or rules.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from enum import StrEnum
from typing import Any

from scaler.kube.api import PODS, KubeApi, Object, Page, PatchType, Resource, WatchEvent
from scaler.kube.errors import KubeError, NotSentError, status_error

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


class CursedApi(KubeApi):
    """Passes everything on to `api` but the creation of pods that are never made or created.

    `maker`: the view of an owner that makes pods; what is never made does not even reach the API server.
    """

    def __init__(self, api: KubeApi, cursed: Cursed, *, maker: bool = False) -> None:
        self._api = api
        self._cursed = cursed
        self._maker = maker

    async def create(self, resource: Resource, namespace: str | None, body: Any) -> Any:
        if resource == PODS and (refusal := self._refusal(namespace, body)) is not None:
            raise refusal
        return await self._api.create(resource, namespace, body)

    def _refusal(self, namespace: str | None, body: Object) -> KubeError | None:
        metadata = body.get("metadata") or {}
        name = str(metadata.get("name") or metadata.get("generateName") or "")
        pod = {**body, "metadata": {**metadata, "name": name, "namespace": namespace or ""}}
        if self._maker and self._cursed(Never.MADE, pod):
            return NotSentError("never made: the scenario's curse")
        if self._cursed(Never.CREATED, pod):
            return status_error(
                403, "Forbidden", f'pods "{name}" is forbidden: never created, by the scenario\'s curse'
            )
        return None

    async def list(self, resource: Resource, namespace: str | None = None, **options: Any) -> Page[Any]:
        page: Page[Any] = await self._api.list(resource, namespace, **options)
        return page

    def watch(self, resource: Resource, namespace: str | None = None, **options: Any) -> AsyncIterator[WatchEvent[Any]]:
        return self._api.watch(resource, namespace, **options)

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Any:
        return await self._api.get(resource, namespace, name)

    async def replace(self, resource: Resource, namespace: str | None, name: str, body: Any, **options: Any) -> Any:
        return await self._api.replace(resource, namespace, name, body, **options)

    async def patch(
        self, resource: Resource, namespace: str | None, name: str, patch: Any, *, patch_type: PatchType,
        subresource: str = "",
    ) -> Any:  # fmt: skip
        return await self._api.patch(resource, namespace, name, patch, patch_type=patch_type, subresource=subresource)

    async def delete(self, resource: Resource, namespace: str | None, name: str, **options: Any) -> None:
        await self._api.delete(resource, namespace, name, **options)
