"""A stand-in for Volcano's controller of PodGroups: pods that name none get one per owner, and the
annotation.

So all pods of a ReplicaSet, a StatefulSet or a RoleSet share one, with minMember 1 unless the owner
says otherwise; that of a ReplicaSet or StatefulSet is written again with each new pod, as since
Volcano 1.12.2. Must not: bind pods, look at nodes, write PodGroup phases, or know of rules."""

from __future__ import annotations

from scaler.kube.api import POD_GROUPS, PODS, REPLICA_SETS, STATEFUL_SETS, Object, Resource
from scaler.sim.actors import making, objects
from scaler.sim.actors.stand_in import StandInController

_WITH_REPLICAS: dict[str, Resource] = {
    resource.kind: resource for resource in (REPLICA_SETS, STATEFUL_SETS)
}


class PodGroups(StandInController):
    """Follows the pods that Volcano schedules. The PodGroup of an owner that was scaled to zero is
    deleted."""

    follows = (PODS, POD_GROUPS, REPLICA_SETS, STATEFUL_SETS)

    async def reconcile(self) -> None:
        for pod in self.mirror.all(PODS):
            named = objects.GROUP_NAME in objects.annotations_of(pod)
            if not named and objects.spec(pod).get("schedulerName") == "volcano":
                await self._group(pod)
        scaled_to_zero = set()
        for resource in _WITH_REPLICAS.values():
            for owner in self.mirror.all(resource):
                if objects.spec(owner).get("replicas") == 0:
                    scaled_to_zero.add(objects.uid(owner))
        for group in self.mirror.all(POD_GROUPS):
            uid = objects.owner_uid(group)
            if uid in scaled_to_zero and objects.name(group) == f"podgroup-{uid}":
                await self.delete(POD_GROUPS, group)

    async def _group(self, pod: Object) -> None:
        name = f"podgroup-{objects.owner_uid(pod) or objects.uid(pod)}"
        owner = self._owner_with_replicas(pod)
        body = _group_of_pod(pod, owner, name)
        found = self.mirror.get(POD_GROUPS, objects.namespace(pod), name)
        if found is None:
            await self.create(POD_GROUPS, body)
        elif owner is not None and objects.spec(found) != body["spec"]:
            await self.patch(POD_GROUPS, found, {"spec": body["spec"]})
        await self.patch(PODS, pod, {"metadata": {"annotations": {objects.GROUP_NAME: name}}})

    def _owner_with_replicas(self, pod: Object) -> Object | None:
        """The ReplicaSet or StatefulSet of the pod: only of these the annotations are read."""
        resource = _WITH_REPLICAS.get(objects.owner_kind(pod))
        for owner in self.mirror.all(resource) if resource is not None else ():
            if objects.uid(owner) == objects.owner_uid(pod):
                return owner
        return None


def _group_of_pod(pod: Object, owner: Object | None, name: str) -> Object:
    inherited = objects.annotations_of(owner or {})
    least = inherited.get("scheduling.volcano.sh/group-min-member", "1")
    body = making.pod_group(
        name,
        making.Owner(pod, PODS),
        [pod],
        annotations=making.with_prefix(inherited, "volcano.sh/"),
        minMember=int(least) if least.isdecimal() else 1,
        queue=objects.annotations_of(pod).get("scheduling.volcano.sh/queue-name", "default"),
        priorityClassName=objects.spec(pod).get("priorityClassName") or None,
    )
    body["metadata"]["ownerReferences"] = pod["metadata"].get("ownerReferences") or [
        making.Owner(pod, PODS).reference
    ]
    return body
