"""AIBrix StormService: each replica of a role is an instance, of one pod, or of a PodSet where podGroupSize is above 1.

In pool mode (one RoleSet, many replicas of a role) and in replica mode (many RoleSets) alike: a rule counts the
instances of all RoleSets together, because all carry the labels of one template.
"""

from __future__ import annotations

from scaler.kube.metadata import LabelledMetadata
from scaler.names import POD_GROUP
from scaler.workloads.kind import Ask, Place, identity

GROUP = "orchestration.aibrix.ai"
STORM, ROLE, ROLE_HASH = "storm-service-name", "role-name", "role-template-hash"
ROLE_INDEX = "stormservice.orchestration.aibrix.ai/role-replica-index"


class StormService:
    """A pod whose owner is a PodSet, or the RoleSet itself."""

    name = "StormService"

    def place(self, pod: LabelledMetadata) -> Place | None:
        if pod.owner.is_a("PodSet", GROUP):
            return _of_pod_set(pod)
        return _of_role_set(pod) if pod.owner.is_a("RoleSet", GROUP) else None


def _of_pod_set(pod: LabelledMetadata) -> Place:
    """Names of PodSets are unique, and in a stateful role the same when they are made anew."""
    pod_set = pod.owner.name
    return Place(
        instance=identity("PodSet", pod.namespace, pod_set),
        name=pod_set,
        maker=_maker(pod),
        revision=pod.labels.get(ROLE_HASH, ""),
        asks=(Ask("PodSet", pod_set),),
        # AIBrix's own gang scheduling puts a whole RoleSet into one; Volcano by itself makes one for each PodSet.
        shares_pod_group=pod.annotations.get(POD_GROUP, "") == pod.labels.get("roleset-name"),
    )


def _of_role_set(pod: LabelledMetadata) -> Place:
    """One pod. In a stateful role it has an index, which comes again; a new revision's pod may stand beside the old."""
    role, revision = pod.labels.get(ROLE, ""), pod.labels.get(ROLE_HASH, "")
    index = pod.labels.get(ROLE_INDEX, pod.annotations.get(ROLE_INDEX, ""))
    stateful = identity("RoleSet", pod.namespace, pod.owner.name, role, revision, index)
    return Place(
        instance=stateful if index else pod.uid,
        name=pod.name,
        size=1,
        mortal=not index,
        maker=_maker(pod),
        revision=revision,
        shares_pod_group=True,
    )


def _maker(pod: LabelledMetadata) -> str:
    storm, role = pod.labels.get(STORM, ""), pod.labels.get(ROLE, "")
    return identity("StormService", pod.namespace, storm, role) if storm and role else ""
