"""A cluster to which only some writes are sent: a refused write never leaves the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scaler.kube.api import CONFIG_MAPS, LEASES, KubeApi, Object, Resource
from scaler.kube.errors import status_error

Check = Callable[[str, Resource, str | None], None]
"""Called with verb, resource and namespace before a write; an error that it raises replaces the write."""


class Guarded:
    """Sends every read, and the writes that `check` allows."""

    def __init__(self, api: KubeApi, check: Check) -> None:
        self.list, self.watch, self.get = api.list, api.watch, api.get
        self._api, self._check = api, check

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


def confined(api: KubeApi, home: str) -> KubeApi:
    """A cluster that is read only, except for ConfigMaps and Leases in `home`: other writes raise ForbiddenError."""

    def refuse_others(verb: str, resource: Resource, namespace: str | None) -> None:
        if namespace != home or resource not in (CONFIG_MAPS, LEASES):
            where = f"{resource.full_name} in {namespace or 'the cluster'}"
            raise status_error(403, "Forbidden", f"not sent: {verb} {where}; only {home} is written to")

    return Guarded(api, refuse_others)
