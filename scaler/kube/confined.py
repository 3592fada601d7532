"""A cluster to which only some writes are sent: what is refused never leaves the process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from scaler.kube.api import CONFIG_MAPS, LEASES, KubeApi, Object, Page, Resource, WatchEvent
from scaler.kube.errors import status_error

OWN = frozenset({CONFIG_MAPS, LEASES})

Check = Callable[[str, Resource, str | None], None]
"""Called with verb, resource and namespace before a write; what it raises is raised instead."""


class Guarded(KubeApi):
    """Sends every read, and the writes that `check` lets through."""

    def __init__(self, api: KubeApi, check: Check) -> None:
        self._api = api
        self._check = check

    async def list(self, resource: Resource, namespace: str | None = None, **options: Any) -> Page[Any]:
        page: Page[Any] = await self._api.list(resource, namespace, **options)
        return page

    def watch(
        self, resource: Resource, namespace: str | None = None, **options: Any
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        events: AsyncGenerator[WatchEvent[Any], None] = self._api.watch(resource, namespace, **options)
        return events

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        return await self._api.get(resource, namespace, name)

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        self._check("create", resource, namespace)
        return await self._api.create(resource, namespace, body)

    async def replace(
        self, resource: Resource, namespace: str | None, name: str, body: Object, **options: Any
    ) -> Object:
        self._check("replace", resource, namespace)
        return await self._api.replace(resource, namespace, name, body, **options)

    async def patch(self, resource: Resource, namespace: str | None, name: str, patch: Any, **options: Any) -> Object:
        self._check("patch", resource, namespace)
        return await self._api.patch(resource, namespace, name, patch, **options)

    async def delete(self, resource: Resource, namespace: str | None, name: str, **options: Any) -> None:
        self._check("delete", resource, namespace)
        await self._api.delete(resource, namespace, name, **options)


class Confined(Guarded):
    """A cluster that is read only, but for ConfigMaps and Leases in `home`: any other write is a ForbiddenError."""

    def __init__(self, api: KubeApi, home: str) -> None:
        super().__init__(api, self._refuse_others)
        self._home = home

    def _refuse_others(self, verb: str, resource: Resource, namespace: str | None) -> None:
        if namespace != self._home or resource not in OWN:
            where = f"{resource.full_name} in {namespace or 'the cluster'}"
            raise status_error(403, "Forbidden", f"not sent: {verb} {where}; only {self._home} is written to")


def confined(
    connect: Callable[[], AbstractAsyncContextManager[KubeApi]], home: str
) -> Callable[[], AbstractAsyncContextManager[KubeApi]]:
    """The same connection, confined."""

    @asynccontextmanager
    async def connected() -> AsyncIterator[KubeApi]:
        async with connect() as api:
            yield Confined(api, home)

    return connected
