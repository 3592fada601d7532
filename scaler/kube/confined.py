"""A cluster that is read only, but for what an install keeps in its own namespace. What is refused is never sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from scaler.kube.api import CONFIG_MAPS, LEASES, KubeApi, Object, Page, Resource, WatchEvent
from scaler.kube.errors import status_error

OWN = frozenset({CONFIG_MAPS, LEASES})


class Confined(KubeApi):
    """Sends every read, and writes of ConfigMaps and Leases in `home`; any other write is a ForbiddenError."""

    def __init__(self, api: KubeApi, home: str) -> None:
        self._api = api
        self._home = home

    def _own(self, verb: str, resource: Resource, namespace: str | None) -> KubeApi:
        if namespace != self._home or resource not in OWN:
            where = f"{resource.full_name} in {namespace or 'the cluster'}"
            raise status_error(403, "Forbidden", f"not sent: {verb} {where}; only {self._home} is written to")
        return self._api

    async def list(self, resource: Resource, namespace: str | None = None, **options: Any) -> Page[Any]:
        page: Page[Any] = await self._api.list(resource, namespace, **options)
        return page

    def watch(self, resource: Resource, namespace: str | None = None, **options: Any) -> AsyncIterator[WatchEvent[Any]]:
        events: AsyncIterator[WatchEvent[Any]] = self._api.watch(resource, namespace, **options)
        return events

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        return await self._api.get(resource, namespace, name)

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        return await self._own("create", resource, namespace).create(resource, namespace, body)

    async def replace(
        self, resource: Resource, namespace: str | None, name: str, body: Object, **options: Any
    ) -> Object:
        return await self._own("replace", resource, namespace).replace(resource, namespace, name, body, **options)

    async def patch(self, resource: Resource, namespace: str | None, name: str, patch: Any, **options: Any) -> Object:
        return await self._own("patch", resource, namespace).patch(resource, namespace, name, patch, **options)

    async def delete(self, resource: Resource, namespace: str | None, name: str, **options: Any) -> None:
        await self._own("delete", resource, namespace).delete(resource, namespace, name, **options)


def confined(
    connect: Callable[[], AbstractAsyncContextManager[KubeApi]], home: str
) -> Callable[[], AbstractAsyncContextManager[KubeApi]]:
    """The same connection, confined."""

    @asynccontextmanager
    async def connected() -> AsyncIterator[KubeApi]:
        async with connect() as api:
            yield Confined(api, home)

    return connected
