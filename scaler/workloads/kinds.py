"""All kinds of workload, and what follows from the list as a whole.

This is the only place where the kinds are listed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from scaler.decide.world import ServiceKey
from scaler.kube.api import Resource
from scaler.kube.metadata import LONGEST_NAME, NO_OWNER, Metadata, Owner
from scaler.names import GROUP_LABEL, INSTANCE, INSTANCE_SIZE, JOB_ID_LABEL, RULE_LABEL
from scaler.timestamps import seconds_of
from scaler.workloads import (
    ascendjob,
    deployment,
    inferenceservice,
    inferserviceset,
    leaderworkerset,
    pod,
    replicaset,
    rolebasedgroup,
    statefulset,
    stormservice,
    volcanojob,
)
from scaler.workloads.kind import Kind, OwnerSource, OwnerType, Written
from scaler.workloads.membership import Labels, Membership, OwnerFacts, identity, number_in

KINDS: tuple[Kind, ...] = (
    ascendjob.KIND,
    volcanojob.KIND,
    leaderworkerset.KIND,
    stormservice.KIND,
    inferserviceset.KIND,
    inferenceservice.KIND,
    rolebasedgroup.KIND,
    deployment.KIND,
    replicaset.KIND,
    statefulset.KIND,
    pod.KIND,
)
"""The special before the general: an InstanceSet makes StatefulSets. The first kind counts that
knows a pod; the last knows all."""
PLAIN = pod.KIND.name
JOBS = {kind.job.kind: kind.job for kind in KINDS if kind.job is not None}
"""Jobs that are instances by themselves, by their Kubernetes kind."""


def membership_of(pod: Metadata) -> Membership | None:
    """The instance of a pod; None for a pod that names no rule. Annotations of the pod override its
    kind."""
    if RULE_LABEL not in pod.labels:
        return None
    labels = Labels(
        pod.labels.get(RULE_LABEL, ""),
        pod.labels.get(GROUP_LABEL, ""),
        pod.labels.get(JOB_ID_LABEL, ""),
    )
    kind, found = _by_kind(pod)
    return msgspec.structs.replace(
        _as_annotated(pod, found, labels),
        kind=kind,
        key=ServiceKey(pod.namespace, labels.rule, labels.job_id),
        group=labels.group or None,
        label_problem=labels.problem,
    )


class _OfPods(NamedTuple):
    """A kind whose instances are known from pods."""

    kind: str
    membership: Callable[[Metadata], Membership | None]


def _kinds_that_may_own(owner: OwnerType) -> list[_OfPods]:
    """The kinds that are asked about a pod of such an owner, the special before the general."""
    found = []
    for kind in KINDS:
        if kind.membership is not None and (not kind.pods_of or owner in kind.pods_of):
            found.append(_OfPods(kind.name, kind.membership))
    return found


_OF_OTHER_OWNERS = _kinds_that_may_own(NO_OWNER.type)
_BY_OWNER = {owner: _kinds_that_may_own(owner) for kind in KINDS for owner in kind.pods_of}


def _by_kind(pod: Metadata) -> tuple[str, Membership]:
    for kind, membership in _BY_OWNER.get(pod.owner.type, _OF_OTHER_OWNERS):
        found = membership(pod)
        if found is not None:
            return kind, found
    raise AssertionError("the last kind knows every pod")


def _as_annotated(pod: Metadata, found: Membership, labels: Labels) -> Membership:
    size = number_in(pod.annotations.get(INSTANCE_SIZE, ""))
    named = pod.annotations.get(INSTANCE, "")
    if 0 < len(named) <= LONGEST_NAME:  # name of an instance within its service and group
        return msgspec.structs.replace(
            found,
            instance=identity("pods", pod.namespace, labels.job_id, labels.group, named),
            name=named,
            size=size or 1,
            mortal=False,
            shares_pod_group=True,
        )
    if size and found.size != 1:  # a size alone does not join a pod with others
        return msgspec.structs.replace(found, size=size)
    return found


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


def job_uid(owner: Owner) -> str:
    """The uid of a controller that is a job of a known kind, else ""."""
    job = JOBS.get(owner.kind)
    return owner.uid if job is not None and owner.type == (job.group, job.kind) else ""


def _owner_sources() -> dict[Resource, tuple[OwnerSource, ...]]:
    found: defaultdict[Resource, list[OwnerSource]] = defaultdict(list)
    for kind in KINDS:
        for source in kind.owners:
            found[source.resource].append(source)
    return {resource: tuple(sources) for resource, sources in found.items()}


OWNER_SOURCES = _owner_sources()
"""By the type of object that says something of instances: the sources of the kinds that read it,
the special before the general."""
WATCHED = (*(kind.job for kind in KINDS if kind.job is not None), *OWNER_SOURCES)
"""The types of objects, other than pods, that instances are known from."""


def owner_facts(resource: Resource) -> Callable[[Any], OwnerFacts]:
    """From an object of this type to what it says of instances; of an object that no kind knows,
    only that it exists."""
    sources = OWNER_SOURCES[resource]

    def facts(obj: Any) -> OwnerFacts:
        for source in sources:
            found = source.facts(obj)
            if found is not None:
                return found
        meta: Metadata = obj.metadata
        created = seconds_of(meta.creation_timestamp)
        return OwnerFacts(*meta.identity, kind=resource.kind, created=created)

    return facts


def written_as(group: str, kind: str) -> tuple[Kind, Written] | None:
    """The kind of workload that objects of this API group ("" for Kubernetes' core) and kind are
    written for; None for others."""
    return _WRITTEN.get((group, kind))


def _written() -> dict[tuple[str, str], tuple[Kind, Written]]:
    found = {}
    for kind in KINDS:
        for written in kind.written:
            found[written.resource.group, written.resource.kind] = (kind, written)
    return found


_WRITTEN = _written()
