"""The workload kinds: for each a function from a pod to its instance, None for a pod of another
kind. Never raises.

A function reads only the pod: what the objects that made it say arrives as OwnerFacts. A number or
text of an unexpected shape counts as absent. AscendJobs and Volcano Jobs are not here: they exist
before their pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from scaler.clock import seconds_of
from scaler.decide.world import ServiceKey
from scaler.kube.metadata import LONGEST_NAME, Metadata, shared
from scaler.names import GROUP_LABEL, INSTANCE, INSTANCE_SIZE, JOB_ID_LABEL, POD_GROUP, RULE_LABEL
from scaler.rules.limits import MAX_INSTANCES, MAX_PODS
from scaler.rules.values import as_count
from scaler.workloads.membership import (
    Labels,
    Membership,
    OwnerFacts,
    OwnerName,
    identity,
    number_in,
)

APPS = "apps"
AIBRIX = "orchestration.aibrix.ai"
RBG = "workloads.x-k8s.io"
"""API groups of the objects that make pods."""
MAKERS = ("Deployment", "LeaderWorkerSet")
"""Kinds whose replicas are instances."""
LWS = "leaderworkerset.sigs.k8s.io/"
STORM = "storm-service-name"
ROLE = "role-name"
ROLE_HASH = "role-template-hash"
TEMPLATE_HASH = "pod-template-hash"
_RBG_LABELS = ("group-name", "role-name", "component-name", "component-size")
ROLE_INDEX = "stormservice.orchestration.aibrix.ai/role-replica-index"


def instance_set(pod: Metadata) -> Membership | None:
    """Infer Operator of MindCluster: each StatefulSet or Deployment of an InstanceSet is one
    instance. Volcano makes one PodGroup for each of them, so instances never share a PodGroup."""
    if pod.labels.get("infer.huawei.com/ascend-infer-operator") != "true":
        return None
    workload = pod.owner.name if pod.owner.is_a("StatefulSet", APPS) else _deployment_of(pod)
    if not workload:
        return None
    owner = (shared(pod.owner.kind), pod.namespace, pod.owner.name)
    return Membership(
        identity("InstanceSet", pod.namespace, workload), workload, described_by=(owner,)
    )


def leader_worker_set(pod: Metadata) -> Membership | None:
    """Each group is an instance. Its leader is pod <set>-<group> of StatefulSet <set>, StatefulSet
    <set>-<group> makes its workers. Names and owners exist from the start; LeaderWorkerSet's
    webhook may add its labels later."""
    lws = pod.labels.get(LWS + "name", "")
    named = pod.name if pod.owner.name == lws else pod.owner.name
    index = named.removeprefix(lws + "-")
    ours = lws and pod.owner.is_a("StatefulSet", APPS) and named.startswith(lws + "-")
    if not ours or not (index.isascii() and index.isdecimal()):
        return None
    revision = pod.labels.get(LWS + "template-revision-hash", "")
    return Membership(
        instance=identity("LeaderWorkerSet", pod.namespace, lws, index),
        name=f"{lws}-{index}",
        size=number_in(pod.annotations.get(LWS + "size", "")),
        maker=identity("LeaderWorkerSet", pod.namespace, lws),
        revision=revision,
        described_by=(("LeaderWorkerSet", pod.namespace, lws), ("StatefulSet", pod.namespace, lws)),
        # The PodGroup of LeaderWorkerSet's gang scheduling; without it all leaders share one, all
        # workers another.
        shares_pod_group=pod.annotations.get(POD_GROUP) != f"{lws}-{index}-{revision}",
    )


def storm_service(pod: Metadata) -> Membership | None:
    """AIBrix: each replica of a role is an instance: a PodSet if podGroupSize is above 1, else one
    pod of a RoleSet. In pool mode (one RoleSet) as in replica mode (many), a rule counts the
    instances of all RoleSets together, because one template gives all of them its labels."""
    storm, role, revision = (pod.labels.get(name, "") for name in (STORM, ROLE, ROLE_HASH))
    maker = identity("StormService", pod.namespace, storm, role) if storm and role else ""
    owner = pod.owner.name
    if pod.owner.is_a("PodSet", AIBRIX):
        return Membership(
            # Names of PodSets are unique; in a stateful role a PodSet that is made again has the
            # same name.
            instance=identity("PodSet", pod.namespace, owner),
            name=owner,
            maker=maker,
            revision=revision,
            described_by=(("PodSet", pod.namespace, owner),),
            # AIBrix's gang scheduling makes one PodGroup for a whole RoleSet; Volcano alone makes
            # one for each PodSet.
            shares_pod_group=pod.annotations.get(POD_GROUP, "") == pod.labels.get("roleset-name"),
        )
    if not pod.owner.is_a("RoleSet", AIBRIX):
        return None
    # In a stateful role a pod has an index, which is reused; a pod of a new revision may exist
    # beside the old one.
    index = pod.labels.get(ROLE_INDEX, pod.annotations.get(ROLE_INDEX, ""))
    instance = (
        identity("RoleSet", pod.namespace, owner, role, revision, index) if index else pod.uid
    )
    return _single(pod, instance, mortal=not index, maker=maker, revision=revision)


def role_based_group(pod: Metadata) -> Membership | None:
    """RoleBasedGroup (RBG, v1alpha2): each RoleInstance is an instance. RBG before v1alpha2 makes
    Deployments, StatefulSets and LeaderWorkerSets, which are found as such. RBG's gang scheduling
    starts every pod of every role at once or none: no instance can be held, which
    `holding_impossible` reports."""
    if not pod.owner.is_a("RoleInstance", RBG):
        return None
    group, role, component, size = (pod.labels.get(f"rbg.{RBG}/{name}", "") for name in _RBG_LABELS)
    # Leaders, workers and single pods have the size of the whole instance; other components only
    # their own size.
    knows = component in ("leader", "worker", role)
    return Membership(
        instance=identity("RoleInstance", pod.namespace, pod.owner.name),
        name=pod.owner.name,
        size=number_in(size) if knows else 0,
        maker=identity("RoleBasedGroup", pod.namespace, group, role) if group and role else "",
        revision=pod.labels.get("controller-revision-hash", ""),
    )


def deployment(pod: Metadata) -> Membership | None:
    """Each pod is an instance, and mortal: the pod that replaces it has another name and is another
    instance."""
    name = _deployment_of(pod)
    if not name:
        return None
    maker = identity("Deployment", pod.namespace, name)
    revision = pod.labels[TEMPLATE_HASH]
    return _single(
        pod,
        maker=maker,
        revision=revision,
        described_by=(("ReplicaSet", pod.namespace, pod.owner.name),),
    )


def replica_set(pod: Metadata) -> Membership | None:
    """As `deployment`: a ReplicaSet without a Deployment."""
    return _single(pod) if pod.owner.is_a("ReplicaSet", APPS) else None


def stateful_set(pod: Metadata) -> Membership | None:
    """Each pod is an instance that returns under its name, unless annotations say that several pods
    form one."""
    if not pod.owner.is_a("StatefulSet", APPS):
        return None
    instance = identity("StatefulSet", pod.namespace, pod.owner.name, pod.name)
    return _single(
        pod, instance, mortal=False, described_by=(("StatefulSet", pod.namespace, pod.owner.name),)
    )


KINDS: Mapping[str, Callable[[Metadata], Membership | None]] = {
    "InstanceSet": instance_set,
    "LeaderWorkerSet": leader_worker_set,
    "StormService": storm_service,
    "RoleBasedGroup": role_based_group,
    "Deployment": deployment,
    "ReplicaSet": replica_set,
    "StatefulSet": stateful_set,
}
"""By the kind that status, logs and docs name. Tried in this order, the special before the general:
an InstanceSet makes StatefulSets. The first that matches counts."""
PLAIN = "Pod"
"""The kind of a pod of no other kind: the pod is an instance, which ends with the pod."""


def membership_of(pod: Metadata) -> Membership | None:
    """The instance of a pod; None for a pod that names no rule. Annotations of the pod override its
    kind."""
    if RULE_LABEL not in pod.labels:
        return None
    labels = Labels(*(pod.labels.get(name, "") for name in (RULE_LABEL, GROUP_LABEL, JOB_ID_LABEL)))
    known = (
        (kind, found) for kind, of_kind in KINDS.items() if (found := of_kind(pod)) is not None
    )
    kind, found = next(known, (PLAIN, _single(pod)))
    size = number_in(pod.annotations.get(INSTANCE_SIZE, ""))
    named = pod.annotations.get(INSTANCE, "")
    noted: dict[str, Any] = {}
    if 0 < len(named) <= LONGEST_NAME:  # name of an instance within its service and group
        instance = identity("pods", pod.namespace, labels.job_id, labels.group, named)
        noted = {
            "instance": instance,
            "name": named,
            "size": size or 1,
            "mortal": False,
            "shares_pod_group": True,
        }
    elif size and found.size != 1:  # a size alone does not join a pod with others
        noted = {"size": size}
    key = ServiceKey(pod.namespace, labels.rule, labels.job_id)
    group = labels.group or None
    return msgspec.structs.replace(
        found, kind=kind, key=key, group=group, label_problem=labels.problem, **noted
    )


def unknown_owner(pod: Metadata, membership: Membership) -> str:
    """A sentence about a pod that is an instance by itself although it has an owner, or other
    annotations; else ""."""
    if (length := len(pod.annotations.get(INSTANCE, ""))) > LONGEST_NAME:
        most = f"{length} characters, more than {LONGEST_NAME}"
        return f"annotation {INSTANCE} of pod {pod.name} has {most}: it does not count"
    if membership.kind != PLAIN or not pod.owner.kind or not membership.mortal:
        return ""
    return (
        f"{pod.owner.kind} {pod.owner.name} ({pod.owner.api_version}) is no kind that is known"
        f" here, so pod {pod.name} counts as an instance of its own; annotations"
        " mind-cluster/instance and mind-cluster/instance-size say which pods belong together"
    )


def holding_impossible(found: Membership, pod_group: str, min_member: int, size: int) -> str:
    """A sentence about why no instance can be held near a pod of an instance of `size` pods, whose
    PodGroup needs `min_member`; "" when it can. A PodGroup of several instances starts none of them
    while any is held."""
    if found.shares_pod_group or not 0 < size < min_member:
        return ""
    return (
        f"PodGroup {pod_group} wants {min_member} pods before any of them starts, and {found.name}"
        f" has {size}: while one instance in it is held, none can start; switch the gang scheduling"
        " of the whole group off"
    )


def _single(
    pod: Metadata,
    instance: str = "",
    *,
    mortal: bool = True,
    maker: str = "",
    revision: str = "",
    described_by: tuple[OwnerName, ...] = (),
) -> Membership:
    """A pod that is the whole instance. Volcano puts all pods of one owner into one PodGroup."""
    return Membership(
        instance or pod.uid,
        pod.name,
        1,
        mortal,
        maker,
        revision,
        described_by,
        shares_pod_group=True,
    )


def _deployment_of(pod: Metadata) -> str:
    """From the name that Deployments give to their ReplicaSets; "" if it has no Deployment."""
    ending = "-" + pod.labels.get(TEMPLATE_HASH, "")
    named = (
        pod.owner.is_a("ReplicaSet", APPS) and len(ending) > 1 and pod.owner.name.endswith(ending)
    )
    return pod.owner.name.removesuffix(ending) if named else ""


class _WorkerTemplate(msgspec.Struct, gc=False):
    size: Any = None


class _OwnerSpec(msgspec.Struct, rename="camel", gc=False):
    replicas: Any = None
    pod_group_size: Any = None
    startup_policy: Any = None
    leader_worker_template: _WorkerTemplate | None = None


class OwnerObject(msgspec.Struct, gc=False):
    """The fields that the scaler reads of an object that makes pods."""

    metadata: Metadata
    spec: _OwnerSpec | None = None


def owner_facts(kind: str, obj: OwnerObject) -> OwnerFacts:
    """The facts of `obj`, an object of this Kubernetes kind; of an unknown kind only its
    existence."""
    meta = obj.metadata
    spec = obj.spec or _OwnerSpec()
    created = seconds_of(meta.creation_timestamp)
    maker, revision, rank = _revision(kind, meta, created)
    return OwnerFacts(
        *meta.identity,
        kind=kind,
        created=created,
        maker=shared(maker),
        revision=shared(revision),
        rank=rank,
        size=as_count(_size(kind, meta.labels, spec), MAX_PODS),
        wanted=as_count(spec.replicas, MAX_INSTANCES) if kind in MAKERS else 0,
        leader_first=kind == "LeaderWorkerSet" and spec.startup_policy == "LeaderReady",
    )


def _revision(kind: str, meta: Metadata, created: float) -> tuple[str, str, int]:
    """Maker, revision and rank; empty when the object has no revisions."""
    namespace = meta.namespace
    name = meta.name
    labels = meta.labels
    owner = meta.owner
    if kind == "ReplicaSet" and owner.kind == "Deployment" and owner.name:
        rank = number_in(
            meta.annotations.get("deployment.kubernetes.io/revision", ""), largest=10**9
        )
        return identity("Deployment", namespace, owner.name), labels.get(TEMPLATE_HASH, ""), rank
    # The label of the leaders' StatefulSet changes to the newest revision at once, before any pod
    # is replaced.
    if kind == "StatefulSet" and name and labels.get(LWS + "name") == name:
        return (
            identity("LeaderWorkerSet", namespace, name),
            labels.get(LWS + "template-revision-hash", ""),
            0,
        )
    # Templates of a role have no numbers: the newest PodSet has the newest template.
    if kind == "PodSet" and labels.get(STORM) and labels.get(ROLE):
        maker = identity("StormService", namespace, labels[STORM], labels[ROLE])
        return maker, labels.get(ROLE_HASH, ""), int(created)
    return "", "", 0


def _size(kind: str, labels: Mapping[str, str], spec: _OwnerSpec) -> Any:
    """The pods per instance in the spec of this kind; None where the spec has no such number."""
    if kind == "LeaderWorkerSet":
        return spec.leader_worker_template and spec.leader_worker_template.size
    if kind == "PodSet":
        return spec.pod_group_size
    # The StatefulSets of a LeaderWorkerSet count groups or workers, not the pods of an instance.
    of_lws = kind == "StatefulSet" and labels.get(LWS + "name")
    return (
        spec.replicas
        if kind in ("Deployment", "ReplicaSet", "StatefulSet") and not of_lws
        else None
    )
