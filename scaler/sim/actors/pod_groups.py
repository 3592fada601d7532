"""A stand-in for Volcano's podgroup controller: pods that name no PodGroup get one per owner, and the annotation.

So all pods of a ReplicaSet, a StatefulSet or a RoleSet share one, with minMember 1 unless the owner says otherwise.
What a ReplicaSet or StatefulSet has is written anew with each new pod, as since Volcano 1.12.2.
Must not: look at nodes, phases or rules.
"""

from __future__ import annotations

from scaler.kube.api import POD_GROUPS, PODS, REPLICA_SETS, STATEFUL_SETS, KubeApi, Object, Resource
from scaler.sim.actors import making, objects
from scaler.sim.actors.controller import Controller

_MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
_QUEUE = "scheduling.volcano.sh/queue-name"
_INHERITED = "volcano.sh/"
_WITH_REPLICAS: dict[str, Resource] = {resource.kind: resource for resource in (REPLICA_SETS, STATEFUL_SETS)}


class PodGroups(Controller):
    """Follows the pods that Volcano schedules."""

    def __init__(self, api: KubeApi) -> None:
        super().__init__(api, PODS, POD_GROUPS, REPLICA_SETS, STATEFUL_SETS)

    async def reconcile(self) -> None:
        for pod in self.mirror.all(PODS):
            named = objects.GROUP_NAME in objects.annotations_of(pod)
            if not named and objects.spec(pod).get("schedulerName") == "volcano":
                await self._group(pod)
        await self._drop_unused()

    async def _group(self, pod: Object) -> None:
        name = f"podgroup-{objects.owner_uid(pod) or objects.uid(pod)}"
        resource = _WITH_REPLICAS.get(objects.owner_kind(pod))  # only of these the annotations are read
        owners = self.mirror.all(resource) if resource is not None else []
        owner = next((owner for owner in owners if objects.uid(owner) == objects.owner_uid(pod)), None)
        body, found = _pod_group(pod, owner, name), self.mirror.get(POD_GROUPS, objects.namespace(pod), name)
        if found is None:
            await self.create(POD_GROUPS, body)
        elif owner is not None and objects.spec(found) != body["spec"]:
            await self.patch(POD_GROUPS, found, {"spec": body["spec"]})
        await self.patch(PODS, pod, {"metadata": {"annotations": {objects.GROUP_NAME: name}}})

    async def _drop_unused(self) -> None:
        """The PodGroup of an owner that was scaled to nothing goes."""
        owners = [owner for resource in _WITH_REPLICAS.values() for owner in self.mirror.all(resource)]
        idle = {objects.uid(owner) for owner in owners if objects.spec(owner).get("replicas") == 0}
        for group in self.mirror.all(POD_GROUPS):
            if objects.owner_uid(group) in idle and objects.name(group) == f"podgroup-{objects.owner_uid(group)}":
                await self.delete(POD_GROUPS, group)


def _pod_group(pod: Object, owner: Object | None, name: str) -> Object:
    inherited = objects.annotations_of(owner or {})
    least = inherited.get(_MIN_MEMBER, "1")
    body = making.pod_group(
        name, pod, PODS, [pod], annotations={k: v for k, v in inherited.items() if k.startswith(_INHERITED)},
        minMember=int(least) if least.isdecimal() else 1,
        queue=objects.annotations_of(pod).get(_QUEUE, "default"),
        priorityClassName=objects.spec(pod).get("priorityClassName") or None,
    )  # fmt: skip
    body["metadata"]["ownerReferences"] = pod["metadata"].get("ownerReferences") or [making.reference(pod, PODS)]
    return body
