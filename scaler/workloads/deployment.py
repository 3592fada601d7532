"""Deployments: each pod is an instance. So is each pod of a ReplicaSet or StatefulSet that people made themselves.

A pod of a Deployment is mortal: what comes in its place has another name and is another instance. A StatefulSet's pod
comes again under its name. Without own PodGroups Volcano puts all of one ReplicaSet or StatefulSet into one.
"""

from __future__ import annotations

from scaler.kube.metadata import LabelledMetadata
from scaler.workloads.kind import Ask, Place, identity

APPS = "apps"
TEMPLATE_HASH = "pod-template-hash"


class Deployment:
    """A pod of a ReplicaSet that a Deployment made."""

    name = "Deployment"

    def place(self, pod: LabelledMetadata) -> Place | None:
        deployment = deployment_of(pod)
        if not deployment:
            return None
        return Place(
            instance=pod.uid,
            name=pod.name,
            size=1,
            mortal=True,
            maker=identity("Deployment", pod.namespace, deployment),
            revision=pod.labels[TEMPLATE_HASH],
            asks=(Ask("ReplicaSet", pod.owner.name),),
            shares_pod_group=True,
        )


class ReplicaSet:
    """A pod of a ReplicaSet that somebody made without a Deployment."""

    name = "ReplicaSet"

    def place(self, pod: LabelledMetadata) -> Place | None:
        if not pod.owner.is_a("ReplicaSet", APPS):
            return None
        return Place(pod.uid, pod.name, size=1, mortal=True, shares_pod_group=True)


class StatefulSet:
    """A pod of a StatefulSet: an instance that keeps its name, unless its annotations say that several form one."""

    name = "StatefulSet"

    def place(self, pod: LabelledMetadata) -> Place | None:
        if not pod.owner.is_a("StatefulSet", APPS):
            return None
        instance = identity("StatefulSet", pod.namespace, pod.owner.name, pod.name)
        return Place(instance, pod.name, size=1, asks=(Ask("StatefulSet", pod.owner.name),), shares_pod_group=True)


def deployment_of(pod: LabelledMetadata) -> str:
    """The name of its Deployment, by the way Deployments name their ReplicaSets; "" when it has none."""
    ending = "-" + pod.labels.get(TEMPLATE_HASH, "")
    named = pod.owner.is_a("ReplicaSet", APPS) and len(ending) > 1 and pod.owner.name.endswith(ending)
    return pod.owner.name.removesuffix(ending) if named else ""
