"""Deployment: each pod is an instance, and mortal: the pod that replaces it has another name and is
another instance."""

from __future__ import annotations

from scaler.kube.api import DEPLOYMENTS, REPLICA_SETS, Object
from scaler.kube.metadata import Metadata, shared
from scaler.names import RULE_LABEL
from scaler.rules.limits import MAX_INSTANCES, MAX_PODS
from scaler.rules.values import as_count, at
from scaler.timestamps import seconds_of
from scaler.workloads.kind import Kind, OwnerObject, OwnerSource, Written, each_pod
from scaler.workloads.membership import (
    Membership,
    OwnerFacts,
    identity,
    number_in,
    role_templates,
)

TEMPLATE_HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"


def name_of_deployment(pod: Metadata) -> str:
    """The Deployment of a pod of a ReplicaSet, by the name that Deployments give to these; ""
    without one."""
    ending = "-" + pod.labels.get(TEMPLATE_HASH, "")
    is_named_so = len(ending) > 1 and pod.owner.name.endswith(ending)
    return pod.owner.name.removesuffix(ending) if is_named_so else ""


def membership(pod: Metadata) -> Membership | None:
    """The pod as an instance of its Deployment. Volcano puts all pods of a ReplicaSet into one
    PodGroup."""
    name = name_of_deployment(pod)
    if not name:
        return None
    return Membership(
        instance=pod.uid,
        name=pod.name,
        size=1,
        mortal=True,
        owner=identity("Deployment", pod.namespace, name),
        revision=pod.labels[TEMPLATE_HASH],
        described_by=(("ReplicaSet", pod.namespace, pod.owner.name),),
        shares_pod_group=True,
    )


def deployment_facts(obj: OwnerObject) -> OwnerFacts:
    """The number of instances that the Deployment asks for, and what each requests."""
    meta = obj.metadata
    return OwnerFacts(
        *meta.identity,
        kind="Deployment",
        created=seconds_of(meta.creation_timestamp),
        size=as_count(obj.replicas, MAX_PODS),
        wanted=0 if meta.deletion_timestamp else as_count(obj.replicas, MAX_INSTANCES),
        templates=role_templates(obj.template, obj.template),
    )


def replica_set_facts(obj: OwnerObject) -> OwnerFacts:
    """The revision that it stands for, and the pods of an instance where all of them are one."""
    meta = obj.metadata
    owner = ""
    revision = ""
    rank = 0
    if meta.owner.kind == "Deployment" and meta.owner.name:
        owner = identity("Deployment", meta.namespace, meta.owner.name)
        revision = meta.labels.get(TEMPLATE_HASH, "")
        rank = number_in(meta.annotations.get(REVISION, ""), largest=10**9)
    return OwnerFacts(
        *meta.identity,
        kind="ReplicaSet",
        created=seconds_of(meta.creation_timestamp),
        owner=shared(owner),
        revision=shared(revision),
        rank=rank,
        size=as_count(obj.replicas, MAX_PODS),
    )


def pods_wanted(deployment: Object) -> int:
    """`spec.replicas`, which is 1 where it is left out."""
    spec = at(deployment, "spec")
    return as_count(spec["replicas"]) if "replicas" in spec else 1


KIND = Kind(
    name="Deployment",
    written=(Written(DEPLOYMENTS, each_pod, by_users=True),),
    membership=membership,
    pods_of=((REPLICA_SETS.group, REPLICA_SETS.kind),),
    owners=(
        OwnerSource(DEPLOYMENTS, deployment_facts, counts_instances=True),
        OwnerSource(REPLICA_SETS, replica_set_facts, label_selector=RULE_LABEL),
    ),
    several=True,
    reviewed=True,
    looked_up=True,
    tried="kube-controller-manager 1.35.3",
    pods_made_by="kube-controller-manager",
    pods_wanted=pods_wanted,
)
