"""A stand-in for Volcano's podgroup controller: pods that name no PodGroup get one per owner, and the annotation.

So all pods of a ReplicaSet, a StatefulSet or a RoleSet share one, with minMember 1 unless the owner says otherwise.
What a ReplicaSet or StatefulSet has is written anew with each new pod, as since Volcano 1.12.2.
Must not: look at nodes, phases or rules.
"""

from __future__ import annotations

from scaler.kube.api import POD_GROUPS, PODS, REPLICA_SETS, STATEFUL_SETS, KubeApi, Object, Resource
from scaler.sim.actors import making, objects
from scaler.sim.actors.making import Hands
from scaler.sim.actors.mirror import Mirror

_MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
_QUEUE = "scheduling.volcano.sh/queue-name"
_INHERITED = "volcano.sh/"
_WITH_REPLICAS: dict[str, Resource] = {resource.kind: resource for resource in (REPLICA_SETS, STATEFUL_SETS)}


class PodGroups:
    """Follows the pods that Volcano schedules."""

    def __init__(self, api: KubeApi, *, schedulers: frozenset[str] = frozenset({"volcano"})) -> None:
        self._schedulers = schedulers
        self._mirror = Mirror(api, PODS, POD_GROUPS, REPLICA_SETS, STATEFUL_SETS)
        self._hands = Hands(api, self._mirror)

    async def run(self) -> None:
        """Keep PodGroups until cancelled."""
        await self._mirror.drive(self._round, "pod groups")

    async def _round(self) -> float | None:
        if self._hands.settled:
            for pod in self._mirror.all(PODS):
                if self._lacks_one(pod):
                    await self._group(pod)
            await self._drop_unused()
        return self._hands.pause

    def _lacks_one(self, pod: Object) -> bool:
        named = objects.GROUP_NAME in objects.annotations_of(pod)
        return not named and str(objects.spec(pod).get("schedulerName")) in self._schedulers

    async def _group(self, pod: Object) -> None:
        name = f"podgroup-{objects.owner_uid(pod) or objects.uid(pod)}"
        body, found = self._body(pod, name), self._mirror.get(POD_GROUPS, objects.namespace(pod), name)
        if found is None:
            await self._hands.create(POD_GROUPS, body)
        elif self._owner(pod) is not None and objects.spec(found) != body["spec"]:
            await self._hands.patch(POD_GROUPS, found, {"spec": body["spec"]})
        await self._hands.patch(PODS, pod, {"metadata": {"annotations": {objects.GROUP_NAME: name}}})

    def _body(self, pod: Object, name: str) -> Object:
        inherited = objects.annotations_of(self._owner(pod) or {"metadata": {}})
        annotations = {key: value for key, value in inherited.items() if key.startswith(_INHERITED)}
        least = inherited.get(_MIN_MEMBER, "1")
        spec: Object = {
            "minMember": int(least) if least.isdecimal() else 1,
            "minResources": making.resources_of([pod]),
            "queue": objects.annotations_of(pod).get(_QUEUE, "default"),
        }
        if objects.spec(pod).get("priorityClassName"):
            spec["priorityClassName"] = objects.spec(pod)["priorityClassName"]
        body = making.body_of(POD_GROUPS, name, pod, PODS, annotations=annotations, spec=spec)
        body["metadata"]["ownerReferences"] = pod["metadata"].get("ownerReferences") or [making.reference(pod, PODS)]
        return body

    def _owner(self, pod: Object) -> Object | None:
        """Only of kinds whose annotations are read."""
        resource = _WITH_REPLICAS.get(objects.owner_kind(pod))
        owners = self._mirror.all(resource) if resource is not None else []
        return next((owner for owner in owners if objects.uid(owner) == objects.owner_uid(pod)), None)

    async def _drop_unused(self) -> None:
        """The PodGroup of an owner that was scaled to nothing goes."""
        idle = {
            objects.uid(owner)
            for resource in _WITH_REPLICAS.values()
            for owner in self._mirror.all(resource)
            if objects.spec(owner).get("replicas") == 0
        }
        for group in self._mirror.all(POD_GROUPS):
            if objects.owner_uid(group) in idle and objects.name(group) == f"podgroup-{objects.owner_uid(group)}":
                await self._hands.delete(POD_GROUPS, group)
