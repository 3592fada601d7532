"""The garbage collector: deletes objects whose owners are gone, as an ordinary client of KubeApi.

Like Kubernetes' own: an object whose owners are all gone is deleted; foreground deletion waits for
the dependents that block it; orphaning removes the references. Owners are identified by uid; an
owner that no watch has shown is read by name before anything is deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from scaler.kube import api
from scaler.kube.api import KubeApi, Object, Resource
from scaler.kube.errors import KubeError, NotFoundError
from scaler.sim.actors import objects
from scaler.sim.actors.stand_in import StandInController
from scaler.sim.apiserver.kinds import WORKLOADS

WATCHED: tuple[Resource, ...] = (
    api.ASCEND_JOBS,
    api.POD_GROUPS,
    api.PODS,
    api.SERVICES,
    api.CONFIG_MAPS,
    api.LEASES,
    api.DEPLOYMENTS,
    api.REPLICA_SETS,
    api.STATEFUL_SETS,
    *WORKLOADS,
)
"""Resources that are collected, as owners and as dependents."""

_BY_KIND = {(resource.api_version, resource.kind): resource for resource in WATCHED}
_FOREGROUND = "foregroundDeletion"
_ORPHAN = "orphan"

Entry = tuple[Resource, Object]


class GarbageCollector(StandInController):
    """Deletes nothing before all resources have been listed once."""

    follows = WATCHED

    def __init__(self, kube: KubeApi) -> None:
        super().__init__(kube)
        self.mirror.settle = 0.0  # its deletions must not come after new objects of controllers
        self._entries: dict[str, Entry] = {}
        self._dependents: defaultdict[str, list[Entry]] = defaultdict(list)

    async def reconcile(self) -> None:
        looks = [self.mirror.derived(resource, _look) for resource in WATCHED]
        staying: set[str] = set()
        for look in looks:
            staying |= look.staying
        if all(look.owners <= staying and not look.terminating for look in looks):
            return
        due: list[Entry] = []
        self._entries = {}
        self._dependents = defaultdict(list)
        for resource in WATCHED:
            for obj in self.mirror.all(resource):
                self._entries[objects.uid(obj)] = (resource, obj)
                owners = _owner_uids(obj)
                for uid in owners:
                    self._dependents[uid].append((resource, obj))
                if objects.terminating(obj) or not staying.issuperset(owners):
                    due.append((resource, obj))
        for resource, obj in due:
            if objects.terminating(obj):
                await self._finish(resource, obj)
            else:
                await self._collect(resource, obj)

    async def _collect(self, resource: Resource, obj: Object) -> None:
        absent = [owner["uid"] for owner in _owners(obj) if not await self._stays(obj, owner)]
        if len(absent) == len(_owners(obj)):
            # an owner waits for this object, so this object waits for its own dependents
            waits = objects.uid(obj) in self._dependents and self._is_awaited(obj)
            policy = "Foreground" if waits else "Background"
            version = obj["metadata"]["resourceVersion"]
            await self.delete(resource, obj, propagation_policy=policy, resource_version=version)
        elif absent:
            await self._cut(resource, obj, absent)

    def _is_awaited(self, obj: Object) -> bool:
        """Whether an owner of the object is in foreground deletion."""
        for uid in _owner_uids(obj):
            if uid in self._entries and _FOREGROUND in _finalizers(self._entries[uid][1]):
                return True
        return False

    async def _stays(self, obj: Object, owner: Object) -> bool:
        """Whether an owner exists and stays; an owner in foreground deletion only waits for this
        object."""
        if owner["uid"] in self._entries:
            known = self._entries[owner["uid"]][1]
            return not (_FOREGROUND in _finalizers(known) and objects.terminating(known))
        resource = _BY_KIND.get((owner["apiVersion"], owner["kind"]))
        if resource is None:
            return True  # dependents of kinds that are not watched are never deleted
        try:
            namespace = objects.namespace(obj) if resource.namespaced else None
            found = await self.api.get(resource, namespace, owner["name"])
            return objects.uid(found) == str(owner["uid"])
        except NotFoundError:
            return False
        except KubeError:
            self.failed = True
            return True

    async def _finish(self, resource: Resource, obj: Object) -> None:
        """Carries out the two finalizers that belong to the collector."""
        uid = objects.uid(obj)
        finalizers = _finalizers(obj)
        done = ""
        if _ORPHAN in finalizers:
            for kind, dependent in self._dependents[uid]:
                await self._cut(kind, dependent, [uid])
            done = _ORPHAN if not self.failed else ""
        elif _FOREGROUND in finalizers and not self._is_blocked(uid):
            done = _FOREGROUND
        if done:
            left = [name for name in finalizers if name != done]
            await self._change(resource, obj, {"finalizers": left or None})

    def _is_blocked(self, uid: str) -> bool:
        """Whether a dependent blocks the deletion of the owner with this uid."""
        for _, dependent in self._dependents[uid]:
            for owner in _owners(dependent):
                if owner["uid"] == uid and owner.get("blockOwnerDeletion"):
                    return True
        return False

    async def _cut(self, resource: Resource, obj: Object, uids: Sequence[str]) -> None:
        left = [owner for owner in _owners(obj) if owner["uid"] not in uids]
        await self._change(resource, obj, {"ownerReferences": left or None})

    async def _change(self, resource: Resource, obj: Object, metadata: Object) -> None:
        version = obj["metadata"]["resourceVersion"]
        await self.patch(resource, obj, {"metadata": {**metadata, "resourceVersion": version}})


class _Look(NamedTuple):
    """The objects of one type."""

    staying: set[str]
    """Uids of those that are not terminating."""
    terminating: bool
    """There is one."""
    owners: set[str]
    """Uids of all their owners."""


def _look(found: list[Object]) -> _Look:
    staying = set(map(objects.uid, objects.staying(found)))
    owners: set[str] = set()
    for obj in found:
        owners.update(_owner_uids(obj))
    return _Look(staying, len(staying) < len(found), owners)


def _owners(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []


def _owner_uids(obj: Object) -> list[str]:
    return [owner["uid"] for owner in _owners(obj)]


def _finalizers(obj: Object) -> list[str]:
    return obj["metadata"].get("finalizers") or []
