"""The garbage collector: removes what its owners left behind, as an ordinary client of KubeApi.

Works like Kubernetes' own: an object all of whose owners are gone is deleted; foreground deletion waits for the
dependents that block it; orphaning cuts the references. Owners are known by uid, and an owner that nobody has heard of
is asked for by name before anything is deleted.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from scaler.kube import api
from scaler.kube.api import EventType, KubeApi, PatchType, Resource
from scaler.kube.errors import KubeError, NotFoundError
from scaler.sim.apiserver.kinds import WORKLOADS

WATCHED: tuple[Resource, ...] = (
    api.ASCEND_JOBS, api.POD_GROUPS, api.PODS, api.SERVICES, api.CONFIG_MAPS, api.LEASES, api.DEPLOYMENTS,
    api.REPLICA_SETS, api.STATEFUL_SETS, *WORKLOADS,
)  # fmt: skip
"""What is collected by default, owners as well as dependents."""

_RETRY_SECONDS = 1.0
_NOT_INSTALLED_SECONDS = 30.0
_FOREGROUND = "foregroundDeletion"
_ORPHAN = "orphan"


class _Owner(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    namespace: str = ""
    resource_version: str = ""
    deletion_timestamp: str = ""
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[_Owner, ...] = ()


class _Item(msgspec.Struct, frozen=True):
    metadata: _Metadata


class GarbageCollector:
    """Run `run()` as a task; it ends only by cancellation. Errors of the API are retried after a second."""

    def __init__(self, kube: KubeApi, resources: Sequence[Resource] = WATCHED) -> None:
        self._kube = kube
        self._resources = tuple(resources)
        self._items: dict[str, tuple[Resource, _Metadata]] = {}
        self._dependents: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._dirty: dict[str, None] = {}
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Watches everything and collects; nothing is deleted before all resources have been listed once."""
        listed = [asyncio.Event() for _ in self._resources]
        async with asyncio.TaskGroup() as group:
            for resource, event in zip(self._resources, listed, strict=True):
                group.create_task(self._follow(resource, event))
            for event in listed:
                await event.wait()
            await self._collect()

    async def _follow(self, resource: Resource, listed: asyncio.Event) -> None:
        while True:
            try:
                page = await self._kube.list(resource, decode=_Item)
                self._replace(resource, [item.metadata for item in page.items])
                listed.set()
                await self._watch(resource, page.resource_version)
            except NotFoundError:
                self._replace(resource, [])
                listed.set()
                await asyncio.sleep(_NOT_INSTALLED_SECONDS)
            except KubeError:
                await asyncio.sleep(_RETRY_SECONDS)

    async def _watch(self, resource: Resource, version: str) -> None:
        """Until an error makes a new list necessary."""
        while True:
            async for event in self._kube.watch(resource, resource_version=version, decode=_Item):
                version = event.resource_version
                if event.object is not None:
                    self._see(resource, event.object.metadata, gone=event.type is EventType.DELETED)

    def _replace(self, resource: Resource, found: Iterable[_Metadata]) -> None:
        present = {item.uid: item for item in found}
        for uid, (kind, item) in tuple(self._items.items()):
            if kind == resource and uid not in present:
                self._see(resource, item, gone=True)
        for item in present.values():
            self._see(resource, item, gone=False)

    def _see(self, resource: Resource, item: _Metadata, *, gone: bool) -> None:
        """Notes one object and marks what it concerns: itself, its owners, and its dependents when it is gone."""
        if gone:
            self._items.pop(item.uid, None)
            for dependent in self._dependents.get(item.uid, ()):
                self._mark(dependent)
        else:
            self._items[item.uid] = (resource, item)
            self._mark(item.uid)
        for owner in item.owner_references:
            if gone:
                self._dependents[owner.uid].pop(item.uid, None)
            else:
                self._dependents[owner.uid][item.uid] = None
            self._mark(owner.uid)

    def _mark(self, uid: str) -> None:
        self._dirty[uid] = None
        self._wake.set()

    async def _collect(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            dirty, self._dirty = self._dirty, {}
            for uid in dirty:
                try:
                    await self._judge(uid)
                except KubeError:
                    self._dirty[uid] = None
            if self._dirty:
                await asyncio.sleep(_RETRY_SECONDS)
                self._wake.set()

    async def _judge(self, uid: str) -> None:
        entry = self._items.get(uid)
        if entry is None:
            return
        resource, item = entry
        if item.deletion_timestamp:
            await self._finish(resource, item)
        elif item.owner_references:
            absent = [owner.uid for owner in item.owner_references if not await self._is_solid(item, owner)]
            if len(absent) == len(item.owner_references):
                await self._delete(resource, item, "Foreground" if self._in_foreground(item) else "Background")
            elif absent:
                await self._set_owners(resource, item, without=absent)

    def _in_foreground(self, item: _Metadata) -> bool:
        """An owner waits for this object, so that the object waits for what it owns in turn."""
        owners = [self._items[owner.uid][1] for owner in item.owner_references if owner.uid in self._items]
        return bool(self._dependents.get(item.uid)) and any(_FOREGROUND in owner.finalizers for owner in owners)

    async def _is_solid(self, item: _Metadata, owner: _Owner) -> bool:
        """Whether an owner is there to stay; one being deleted in the foreground only waits for this object."""
        known = self._items.get(owner.uid)
        if known is None:
            return await self._exists(item, owner)
        return not (_FOREGROUND in known[1].finalizers and known[1].deletion_timestamp)

    async def _exists(self, item: _Metadata, owner: _Owner) -> bool:
        """Asks for an owner that no watch has shown; of kinds that are not watched nothing is ever deleted."""
        for resource in self._resources:
            if (resource.api_version, resource.kind) == (owner.api_version, owner.kind):
                namespace = item.namespace if resource.namespaced else None
                try:
                    found = await self._kube.get(resource, namespace, owner.name)
                except NotFoundError:
                    return False
                return bool(found["metadata"]["uid"] == owner.uid)
        return True

    async def _finish(self, resource: Resource, item: _Metadata) -> None:
        """Carries out the two finalizers that belong to the collector."""
        dependents = [self._items[uid] for uid in self._dependents.get(item.uid, ()) if uid in self._items]
        if _ORPHAN in item.finalizers:
            for kind, dependent in dependents:
                await self._set_owners(kind, dependent, without=[item.uid])
            await self._set_finalizers(resource, item, without=_ORPHAN)
        elif _FOREGROUND in item.finalizers:
            blocking = [entry for entry in dependents if _blocks(entry[1], item.uid)]
            if not blocking:
                await self._set_finalizers(resource, item, without=_FOREGROUND)
            for _, dependent in dependents:
                if not dependent.deletion_timestamp:
                    self._mark(dependent.uid)

    async def _delete(self, resource: Resource, item: _Metadata, propagation: str) -> None:
        try:
            await self._kube.delete(
                resource, item.namespace or None, item.name, uid=item.uid, resource_version=item.resource_version,
                propagation_policy=propagation,
            )  # fmt: skip
        except NotFoundError:
            return

    async def _set_finalizers(self, resource: Resource, item: _Metadata, *, without: str) -> None:
        left = [name for name in item.finalizers if name != without]
        await self._patch(resource, item, {"finalizers": left or None})

    async def _set_owners(self, resource: Resource, item: _Metadata, *, without: Sequence[str]) -> None:
        left = [msgspec.to_builtins(owner) for owner in item.owner_references if owner.uid not in without]
        await self._patch(resource, item, {"ownerReferences": left or None})

    async def _patch(self, resource: Resource, item: _Metadata, metadata: dict[str, object]) -> None:
        body = {"metadata": {**metadata, "uid": item.uid, "resourceVersion": item.resource_version}}
        try:
            await self._kube.patch(resource, item.namespace or None, item.name, body, patch_type=PatchType.MERGE)
        except NotFoundError:
            return


def _blocks(dependent: _Metadata, owner: str) -> bool:
    return any(ref.uid == owner and ref.block_owner_deletion for ref in dependent.owner_references)
