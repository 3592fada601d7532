"""What all stand-ins do: follow the cluster and act after changes. Controllers also wait for their own writes.

A controller that makes pods for an owner says which objects the owner shall have (`have`) or makes and deletes them one
by one. Refusals and failures are left to the next round. Must not: know what any object means.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable
from typing import Any, Protocol

from scaler.kube.api import KubeApi, Object, PatchType, Resource
from scaler.kube.errors import ConflictError, KubeError, NotFoundError
from scaler.sim.actors import objects
from scaler.sim.actors.mirror import Key, Mirror, key_of

RETRY = 1.0
"""Seconds until a write that failed is tried again."""


async def attempt(write: Awaitable[Any]) -> bool:
    """False when the write failed and is to be tried again; not when the object is gone, or another has its name."""
    try:
        await write
    except (NotFoundError, ConflictError):
        return True
    except KubeError:
        return False
    return True


async def merge(api: KubeApi, resource: Resource, obj: Object, patch: Object, *, subresource: str = "") -> Object:
    """A merge patch of exactly this object, and of none that came after it under the same name."""
    patch = {**patch, "metadata": {**(patch.get("metadata") or {}), "uid": objects.uid(obj)}}
    return await api.patch(resource, *key_of(obj), patch, patch_type=PatchType.MERGE, subresource=subresource)


class Actor(Protocol):
    """A stand-in: an ordinary client of KubeApi that works until cancelled."""

    async def run(self) -> None: ...


class StandIn(ABC):
    """Base of actors who follow objects of some types and act when these change."""

    def __init__(self, api: KubeApi, *resources: Resource) -> None:
        self.api = api
        self.mirror = Mirror(api, *resources)

    async def run(self) -> None:
        """Follow the cluster and do what is due after changes, until cancelled."""
        name = type(self).__name__
        async with asyncio.TaskGroup() as group:
            group.create_task(self.mirror.run(), name=f"{name} mirror")
            group.create_task(self._work(), name=name)

    async def _work(self) -> None:
        pause: float | None = None
        while True:
            if pause is None or pause > 0:
                await self.mirror.wait(pause)
            pause = await self._round() if self.mirror.synced else None

    @abstractmethod
    async def _round(self) -> float | None:
        """Do what is due; seconds until something else will be, None when nothing is waiting for time."""


class Controller(StandIn):
    """Base of the controllers. `reconcile` is called only when the mirror shows everything that was written."""

    def __init__(self, api: KubeApi, *resources: Resource) -> None:
        super().__init__(api, *resources)
        self._written: dict[Resource, int] = {}
        """The newest version of own writes."""
        self._deleted: dict[str, tuple[Resource, Key]] = {}
        self.failed = False
        """A request of this round failed: there is another round soon."""

    @abstractmethod
    async def reconcile(self) -> None:
        """Bring the cluster one step nearer to what the owners want."""

    def living(self, resource: Resource) -> list[Object]:
        """All objects of that type but those on their way out."""
        return [obj for obj in self.mirror.all(resource) if not objects.terminating(obj)]

    async def _round(self) -> float | None:
        if self._settled():
            await self.reconcile()
        failed, self.failed = self.failed, False
        return RETRY if failed or not self._settled() else None

    def _settled(self) -> bool:
        self._deleted = {uid: where for uid, where in self._deleted.items() if self._still_there(uid, *where)}
        shown = {resource: self.mirror.version(resource) for resource in self._written if resource in self.mirror}
        return not self._deleted and all(version >= self._written[resource] for resource, version in shown.items())

    def _still_there(self, uid: str, resource: Resource, key: Key) -> bool:
        found = self.mirror.get(resource, *key)
        return found is not None and objects.uid(found) == uid and not objects.terminating(found)

    async def have(self, resource: Resource, owner: Object, wanted: Iterable[Object], *, update: bool = False) -> None:
        """Creates what is missing of these, by name, and deletes what the owner has besides.

        `update`: what is there gets the new spec as well.
        """
        bodies = {objects.name(body): body for body in wanted}
        for name, body in bodies.items():
            found = self.mirror.get(resource, objects.namespace(owner), name)
            if found is None:
                await self.create(resource, body)
            elif update and objects.spec(found) != body["spec"]:
                await self.replace(resource, {**found, "spec": body["spec"]})
        for found in self.mirror.owned(resource, owner):
            if objects.name(found) not in bodies and not objects.terminating(found):
                await self.delete(resource, found)

    async def create(self, resource: Resource, body: Object) -> bool:
        """False when it exists already or was refused."""
        try:
            made = await self.api.create(resource, objects.namespace(body), body)
        except KubeError:
            self.failed = True
            return False
        self._note(resource, made)
        return True

    async def patch(self, resource: Resource, obj: Object, patch: Object, *, subresource: str = "") -> None:
        """A merge patch of exactly this object; nothing where it is gone."""
        try:
            changed = await merge(self.api, resource, obj, patch, subresource=subresource)
        except (NotFoundError, ConflictError):
            return
        except KubeError:
            self.failed = True
            return
        self._note(resource, changed)

    async def replace(self, resource: Resource, obj: Object) -> None:
        """A PUT with the version that was read."""
        try:
            self._note(resource, await self.api.replace(resource, *key_of(obj), obj))
        except KubeError:
            self.failed = True

    async def status(self, resource: Resource, obj: Object, status: Object) -> None:
        """Written where it differs."""
        before = objects.status(obj)
        if {**before, **status} != before:
            await self.patch(resource, obj, {"status": status}, subresource="status")

    async def delete(self, resource: Resource, obj: Object, **options: str) -> None:
        """Of exactly this object, with options of KubeApi.delete; nothing where it is gone."""
        given: Any = {"propagation_policy": "Background", **options}
        try:
            await self.api.delete(resource, *key_of(obj), uid=objects.uid(obj), **given)
        except (NotFoundError, ConflictError):
            return
        except KubeError:
            self.failed = True
            return
        self._deleted[objects.uid(obj)] = resource, key_of(obj)

    def _note(self, resource: Resource, obj: Object) -> None:
        version = str(obj["metadata"].get("resourceVersion", ""))
        if version.isdecimal():
            self._written[resource] = max(self._written.get(resource, 0), int(version))
