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
        staying = set[str]().union(*(look.staying for look in looks))
        if all(look.owners <= staying and not look.terminating for look in looks):
            return
        found = [(resource, obj) for resource in WATCHED for obj in self.mirror.all(resource)]
        due = [
            (resource, obj)
            for resource, obj in found
            if objects.terminating(obj)
            or any(owner["uid"] not in staying for owner in _owners(obj))
        ]
        self._entries = {objects.uid(obj): (resource, obj) for resource, obj in found}
        self._dependents = defaultdict(list)
        for resource, obj in found:
            for owner in _owners(obj):
                self._dependents[owner["uid"]].append((resource, obj))
        for resource, obj in due:
            if objects.terminating(obj):
                await self._finish(resource, obj)
            else:
                await self._collect(resource, obj)

    async def _collect(self, resource: Resource, obj: Object) -> None:
        absent = [owner["uid"] for owner in _owners(obj) if not await self._stays(obj, owner)]
        if len(absent) == len(_owners(obj)):
            owners = [
                self._entries[owner["uid"]][1]
                for owner in _owners(obj)
                if owner["uid"] in self._entries
            ]
            awaited = any(_FOREGROUND in _finalizers(owner) for owner in owners)
            # an owner waits for this object, so this object waits for its own dependents
            policy = (
                "Foreground" if awaited and objects.uid(obj) in self._dependents else "Background"
            )
            version = obj["metadata"]["resourceVersion"]
            await self.delete(resource, obj, propagation_policy=policy, resource_version=version)
        elif absent:
            await self._cut(resource, obj, absent)

    async def _stays(self, obj: Object, owner: Object) -> bool:
        """Whether an owner exists and stays; an owner in foreground deletion only waits for this
        object."""
        if owner["uid"] in self._entries:
            known = self._entries[owner["uid"]][1]
            return not (_FOREGROUND in _finalizers(known) and objects.terminating(known))
        about = (owner["apiVersion"], owner["kind"])
        resource = next(
            (found for found in WATCHED if (found.api_version, found.kind) == about), None
        )
        if resource is None:
            return True  # dependents of kinds that are not watched are never deleted
        try:
            namespace = objects.namespace(obj) if resource.namespaced else None
            return objects.uid(await self.api.get(resource, namespace, owner["name"])) == str(
                owner["uid"]
            )
        except NotFoundError:
            return False
        except KubeError:
            self.failed = True
            return True

    async def _finish(self, resource: Resource, obj: Object) -> None:
        """Carries out the two finalizers that belong to the collector."""
        uid = objects.uid(obj)
        finalizers = _finalizers(obj)
        refs = [
            ref
            for _, dependent in self._dependents[uid]
            for ref in _owners(dependent)
            if ref["uid"] == uid
        ]
        done = ""
        if _ORPHAN in finalizers:
            for kind, dependent in self._dependents[uid]:
                await self._cut(kind, dependent, [uid])
            done = _ORPHAN if not self.failed else ""
        elif _FOREGROUND in finalizers and not any(ref.get("blockOwnerDeletion") for ref in refs):
            done = _FOREGROUND
        if done:
            await self._change(
                resource, obj, {"finalizers": [name for name in finalizers if name != done] or None}
            )

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
    staying = {objects.uid(obj) for obj in found if not objects.terminating(obj)}
    return _Look(
        staying,
        len(staying) < len(found),
        {owner["uid"] for obj in found for owner in _owners(obj)},
    )


def _owners(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []


def _finalizers(obj: Object) -> list[str]:
    return obj["metadata"].get("finalizers") or []
