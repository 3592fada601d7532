"""What a stand-in has seen of the cluster: plain objects kept current by list and watch.

Deliberately simple and independent of the controller's own cache, so that the two cannot share a mistake.
Must not: know what the objects mean, or talk to anything but KubeApi.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable

from scaler.kube.api import EventType, KubeApi, Object, Resource
from scaler.kube.errors import KubeError, NotFoundError
from scaler.sim.actors.objects import owner_uid, uid

Key = tuple[str, str]
"""(namespace, name); namespace is "" for cluster-scoped objects."""

_RETRY = 1.0  # seconds after a failed list or watch
_NOT_INSTALLED = 5.0  # seconds until a type that is not installed is asked for again
_SETTLE = 0.02  # seconds


def key_of(obj: Object) -> Key:
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


class Mirror:
    """Objects of some resource types. `run` keeps them current; `wait` returns when something has changed."""

    def __init__(self, api: KubeApi, *resources: Resource) -> None:
        self._api = api
        self._objects: dict[Resource, dict[Key, Object]] = {resource: {} for resource in resources}
        self._synced = dict.fromkeys(resources, False)
        self._changed = asyncio.Event()
        self._sorted: dict[Resource, list[Object]] = {}
        self._by_owner: dict[Resource, dict[str, list[Object]]] = {}
        self._versions: dict[Resource, str] = {}
        self.revision = 0
        """Grows with every change."""

    def all(self, resource: Resource) -> list[Object]:
        """Every object of one type, by namespace and name, so that nothing depends on the order of events."""
        if resource not in self._sorted:
            objects = self._objects[resource]
            self._sorted[resource] = [objects[key] for key in sorted(objects)]
        return self._sorted[resource]

    def owned(self, resource: Resource, owner: Object) -> list[Object]:
        """Those that this object controls, in the same order."""
        if resource not in self._by_owner:
            index = self._by_owner[resource] = defaultdict[str, list[Object]](list)
            for obj in self.all(resource):
                index[owner_uid(obj)].append(obj)
        return self._by_owner[resource].get(uid(owner), [])

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self._objects[resource].get((namespace, name))

    def __contains__(self, resource: Resource) -> bool:
        return resource in self._objects

    def version(self, resource: Resource) -> int:
        """How far it has come: every change up to this version is in it."""
        version = self._versions.get(resource, "")
        return int(version) if version.isdecimal() else 0

    @property
    def synced(self) -> bool:
        return all(self._synced.values())

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for resource in self._objects:
                group.create_task(self._follow(resource), name=f"mirror {resource.plural}")

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        """Until something changed since the last call (True), or the timeout passed (False)."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(_SETTLE)  # a burst is seen as one change
        self._changed.clear()
        return True

    async def _follow(self, resource: Resource) -> None:
        while True:
            try:
                version = await self._list(resource)
                while True:
                    version = await self._watch(resource, version)
            except NotFoundError:
                if self._objects[resource] or not self._synced[resource]:
                    self._replace(resource, ())  # of a type that the cluster does not know there are no objects
                await asyncio.sleep(_NOT_INSTALLED)
            except KubeError:
                await asyncio.sleep(_RETRY)

    async def _list(self, resource: Resource) -> str:
        page = await self._api.list(resource)
        self._versions[resource] = page.resource_version
        self._replace(resource, page.items)
        return page.resource_version

    def _replace(self, resource: Resource, items: Iterable[Object]) -> None:
        self._objects[resource] = {key_of(obj): obj for obj in items}
        self._synced[resource] = True
        self._note(resource)

    async def _watch(self, resource: Resource, version: str) -> str:
        async for event in self._api.watch(resource, resource_version=version):
            version = self._versions[resource] = event.resource_version
            if event.object is not None:
                self._apply(resource, event.type, event.object)
        return version

    def _apply(self, resource: Resource, kind: EventType, obj: Object) -> None:
        if kind is EventType.DELETED:
            self._objects[resource].pop(key_of(obj), None)
        else:
            self._objects[resource][key_of(obj)] = obj
        self._note(resource)

    def _note(self, resource: Resource) -> None:
        self._sorted.pop(resource, None)
        self._by_owner.pop(resource, None)
        self.revision += 1
        self._changed.set()
