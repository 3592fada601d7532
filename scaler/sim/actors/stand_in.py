"""The base of all stand-ins: they follow the cluster and act after changes. Controllers also wait
for their own writes.

A mirror is deliberately simple and independent of the scaler's own cache, so that the two cannot
share a mistake. A controller that makes pods for an owner lists the owner's objects (`have`), or
creates and deletes them one by one. The next round repeats what was refused or has failed. Must
not: know what any object means."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeVar

from scaler.kube.api import PODS, EventType, KubeApi, Object, PatchType, Resource
from scaler.kube.errors import ConflictError, KubeError, NotFoundError
from scaler.sim.actors import objects

T = TypeVar("T")
Key = tuple[str, str]
"""(namespace, name); namespace is "" for cluster-scoped objects."""

_NOT_INSTALLED = 5.0  # seconds until a type that is not installed is listed again
RETRY = 1.0
"""Seconds until a request that failed is tried again."""


def key_of(obj: Object) -> Key:
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


class Mirror:
    """Objects of some resource types. `run` keeps them current; `wait` returns after a change."""

    def __init__(self, api: KubeApi, *resources: Resource) -> None:
        self._api = api
        self._objects: dict[Resource, dict[Key, Object]] = {resource: {} for resource in resources}
        self._changed = asyncio.Event()
        self._sorted: dict[Resource, list[Object]] = {}
        self._derived: dict[Resource, dict[Callable[[list[Object]], Any], Any]] = {}
        self._versions: dict[Resource, str] = {}
        """Version of each listed type; "" for a type that is not installed."""
        self.revision = 0
        """Grows with every change."""
        self.on_change: Callable[[Resource, Object | None, Object | None], None] | None = None
        """Called with each object as it was (None: there was none) and as it is (None: it is
        gone)."""
        self.settle = 0.02
        """Seconds in which further changes are collected after one: a burst counts as one
        change."""

    def all(self, resource: Resource) -> list[Object]:
        """Every object of one type, by namespace and name, so that nothing depends on the order of
        events."""
        if resource not in self._sorted:
            found = self._objects[resource]
            self._sorted[resource] = [found[key] for key in sorted(found)]
        return self._sorted[resource]

    def derived(self, resource: Resource, read: Callable[[list[Object]], T]) -> T:
        """`read` of every object of one type: computed anew only after one of them has changed."""
        known = self._derived.setdefault(resource, {})
        if read not in known:
            known[read] = read(self.all(resource))
        found: T = known[read]
        return found

    def owned(self, resource: Resource, owner: Object) -> list[Object]:
        """The objects of this type that the owner controls, in the same order."""
        return self.derived(resource, _by_owner).get(objects.uid(owner), [])

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self._objects[resource].get((namespace, name))

    def version(self, resource: Resource) -> int:
        """The version of the mirror: every change up to this version is in it."""
        version = self._versions.get(resource, "")
        return int(version) if version.isdecimal() else 0

    @property
    def synced(self) -> bool:
        return len(self._versions) == len(self._objects)

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for resource in self._objects:
                group.create_task(self._follow(resource), name=f"mirror {resource.plural}")

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait for a change since the last call (True), or for the timeout (False)."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(self.settle)
        self._changed.clear()
        return True

    async def _follow(self, resource: Resource) -> None:
        while True:
            try:
                page = await self._api.list(resource)
                version = self._versions[resource] = page.resource_version
                self._replace(resource, page.items)
                while True:
                    async for event in self._api.watch(resource, resource_version=version):
                        version = self._versions[resource] = event.resource_version
                        if event.object is not None:
                            self._apply(resource, event.type, event.object)
            except NotFoundError:
                if self._objects[resource] or resource not in self._versions:
                    self._versions[resource] = ""
                    self._replace(resource, ())  # an unknown type has no objects
                await asyncio.sleep(_NOT_INSTALLED)
            except KubeError:
                await asyncio.sleep(RETRY)

    def _replace(self, resource: Resource, items: Iterable[Object]) -> None:
        before = self._objects[resource]
        self._objects[resource] = {key_of(obj): obj for obj in items}
        self._changes(resource)
        for key in sorted({*before, *self._objects[resource]}):
            self._tell(resource, before.get(key), self._objects[resource].get(key))

    def _apply(self, resource: Resource, kind: EventType, obj: Object) -> None:
        before = self._objects[resource].pop(key_of(obj), None)
        if kind is not EventType.DELETED:
            self._objects[resource][key_of(obj)] = obj
        self._changes(resource)
        if kind is EventType.DELETED:
            self._tell(resource, obj, None)  # as it was at its end
        else:
            self._tell(resource, before, obj)

    def _tell(self, resource: Resource, before: Object | None, after: Object | None) -> None:
        """An object of another uid is another object."""
        if self.on_change is None or before is after:
            return
        if before is not None and after is not None and objects.uid(before) != objects.uid(after):
            self.on_change(resource, before, None)
            before = None
        self.on_change(resource, before, after)

    def _changes(self, resource: Resource) -> None:
        self._sorted.pop(resource, None)
        self._derived.pop(resource, None)
        self.revision += 1
        self._changed.set()


def _by_owner(found: list[Object]) -> dict[str, list[Object]]:
    index = defaultdict[str, list[Object]](list)
    for obj in found:
        index[objects.owner_uid(obj)].append(obj)
    return index


async def merge(
    api: KubeApi, resource: Resource, obj: Object, patch: Object, *, subresource: str = ""
) -> Object:
    """A merge patch of exactly this object, and of no later one with the same name."""
    patch = {**patch, "metadata": {**(patch.get("metadata") or {}), "uid": objects.uid(obj)}}
    return await api.patch(
        resource, *key_of(obj), patch, patch_type=PatchType.MERGE, subresource=subresource
    )


class Actor(Protocol):
    """A stand-in: an ordinary client of KubeApi that works until cancelled."""

    async def run(self) -> None: ...


class StandIn(ABC):
    """Base of actors that follow objects of some types and act when these change."""

    def __init__(self, api: KubeApi, *resources: Resource) -> None:
        self.api = api
        self.mirror = Mirror(api, *resources)
        self.failed = False
        """A write of this round failed: the next round comes soon."""

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
            if self.failed:
                self.failed = False
                pause = RETRY if pause is None else min(pause, RETRY)

    @abstractmethod
    async def _round(self) -> float | None:
        """Do what is due; returns seconds until the next due time, None without one."""

    async def attempt(self, write: Awaitable[Any]) -> bool:
        """False when the write failed: the next round comes soon. A missing or replaced object is
        no failure."""
        try:
            await write
        except (NotFoundError, ConflictError):
            return True
        except KubeError:
            self.failed = True
            return False
        return True

    async def end(self, pod: Object, *, grace: int | None = None) -> bool:
        """Deletes exactly this pod, with this grace period if it is shorter than its own; False
        when that failed."""
        options: Any = {"uid": objects.uid(pod), "grace_period_seconds": grace}
        return await self.attempt(self.api.delete(PODS, *key_of(pod), **options))


class StandInController(StandIn):
    """Base of the stand-ins for controllers. `reconcile` runs only when the mirror shows all own
    writes."""

    follows: tuple[Resource, ...]
    """Resource types, that of the owners first."""

    def __init__(self, api: KubeApi) -> None:
        super().__init__(api, *self.follows)
        self._written: dict[Resource, int] = {}
        """The newest version of own writes."""
        self._deleted: dict[str, tuple[Resource, Key]] = {}

    async def reconcile(self) -> None:
        """Bring the cluster one step nearer to the specs of the owners."""
        for owner in self.living(self.follows[0]):
            await self.keep(owner)

    async def keep(self, owner: Object) -> None:
        """The same for one owner."""

    def living(self, resource: Resource) -> list[Object]:
        """All objects of that type that are not terminating."""
        return objects.staying(self.mirror.all(resource))

    async def _round(self) -> float | None:
        self._forget_shown_deletions()
        if self._shows_own_writes():
            await self.reconcile()
        self._forget_shown_deletions()
        return None if self._shows_own_writes() else RETRY

    def _forget_shown_deletions(self) -> None:
        for uid, (resource, key) in list(self._deleted.items()):
            found = self.mirror.get(resource, *key)
            if found is None or objects.uid(found) != uid or objects.terminating(found):
                del self._deleted[uid]

    def _shows_own_writes(self) -> bool:
        for resource, version in self._written.items():
            if self.mirror.version(resource) < version:
                return False
        return not self._deleted

    async def have(
        self, resource: Resource, owner: Object, wanted: Iterable[Object], *, update: bool = False
    ) -> None:
        """Creates the missing ones of these objects, by name, and deletes all other objects of the
        owner.

        `update`: an existing object with another spec is renewed."""
        bodies = {objects.name(body): body for body in wanted}
        for body in bodies.values():
            found = await self.ensure(resource, body)
            if update and found is not None and objects.spec(found) != body["spec"]:
                await self.renew(resource, found, body)
        for found in self.mirror.owned(resource, owner):
            if objects.name(found) not in bodies and not objects.terminating(found):
                await self.delete(resource, found)

    async def ensure(self, resource: Resource, body: Object) -> Object | None:
        """The existing object of this name; if there is none, it is created."""
        found = self.mirror.get(resource, objects.namespace(body), objects.name(body))
        if found is None:
            await self.create(resource, body)
        return found

    async def create(self, resource: Resource, body: Object) -> bool:
        """False when the object exists already or was refused."""
        return await self._write(resource, self.api.create(resource, objects.namespace(body), body))

    async def patch(
        self, resource: Resource, obj: Object, patch: Object, *, subresource: str = ""
    ) -> None:
        """A merge patch of exactly this object."""
        await self._write(resource, merge(self.api, resource, obj, patch, subresource=subresource))

    async def renew(self, resource: Resource, found: Object, body: Object) -> None:
        """A PUT of another spec, labels and annotations, with the version that was read."""
        marks = {part: body["metadata"][part] for part in ("labels", "annotations")}
        after = {**found, "metadata": {**found["metadata"], **marks}, "spec": body["spec"]}
        await self._write(resource, self.api.replace(resource, *key_of(found), after))

    async def status(self, resource: Resource, obj: Object, status: Object) -> None:
        """Writes the status if it differs."""
        before = objects.status(obj)
        if {**before, **status} != before:
            await self.patch(resource, obj, {"status": status}, subresource="status")

    async def delete(self, resource: Resource, obj: Object, **options: str) -> None:
        """Deletes exactly this object, with options of KubeApi.delete."""
        given: Any = {"propagation_policy": "Background", **options}
        try:
            await self.api.delete(resource, *key_of(obj), uid=objects.uid(obj), **given)
        except KubeError:
            self.failed = True
        else:
            self._deleted[objects.uid(obj)] = resource, key_of(obj)

    async def _write(self, resource: Resource, request: Awaitable[Object]) -> bool:
        """False when the write failed or was refused; the next round waits until the mirror shows
        the write."""
        try:
            version = int((await request)["metadata"]["resourceVersion"])
        except KubeError:
            self.failed = True
            return False
        self._written[resource] = max(self._written.get(resource, 0), version)
        return True
