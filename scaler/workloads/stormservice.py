"""StormService of AIBrix: each replica of a role is an instance: a PodSet if podGroupSize is above
1, else one pod of a RoleSet.

In pool mode (one RoleSet) as in replica mode (many), a rule counts the instances of all RoleSets
together, because one template gives all of them its labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from scaler.kube.api import Object, Resource
from scaler.kube.metadata import Metadata, shared
from scaler.names import POD_GROUP
from scaler.rules.finding import Path
from scaler.rules.limits import MAX_INSTANCES, MAX_PODS
from scaler.rules.values import as_count, as_list, as_text, at
from scaler.timestamps import seconds_of
from scaler.workloads.kind import (
    Kind,
    Look,
    OwnerSource,
    Role,
    Written,
    named_at,
    number_at,
    template_at,
)
from scaler.workloads.membership import (
    Membership,
    OwnerFacts,
    OwnerName,
    RoleTemplate,
    identity,
    later_role,
    role_templates,
)

AIBRIX = "orchestration.aibrix.ai"
STORM_SERVICES = Resource(AIBRIX, "v1alpha1", "stormservices", "StormService")
ROLE_SETS = Resource(AIBRIX, "v1alpha1", "rolesets", "RoleSet")
POD_SETS = Resource(AIBRIX, "v1alpha1", "podsets", "PodSet")
STORM = "storm-service-name"
ROLE = "role-name"
ROLE_SET = "roleset-name"
ROLE_HASH = "role-template-hash"
ROLE_INDEX = "stormservice.orchestration.aibrix.ai/role-replica-index"


def membership(pod: Metadata) -> Membership:
    """The PodSet of the pod, or the pod."""
    return _in_pod_set(pod) if pod.owner.kind == "PodSet" else _of_role_set(pod)


def _in_pod_set(pod: Metadata) -> Membership:
    """Names of PodSets are unique; in a stateful role a PodSet that is made again has the same
    name."""
    return Membership(
        instance=identity("PodSet", pod.namespace, pod.owner.name),
        name=pod.owner.name,
        owner=_owner(pod),
        revision=pod.labels.get(ROLE_HASH, ""),
        described_by=(("PodSet", pod.namespace, pod.owner.name), *_storm(pod)),
        # AIBrix's gang scheduling makes one PodGroup for a whole RoleSet; Volcano alone makes one
        # for each PodSet.
        shares_pod_group=pod.annotations.get(POD_GROUP, "") == pod.labels.get(ROLE_SET),
    )


def _of_role_set(pod: Metadata) -> Membership:
    """In a stateful role a pod has an index, which is reused; a pod of a new revision may exist
    beside the old one. Volcano puts all pods of a RoleSet into one PodGroup."""
    index = pod.labels.get(ROLE_INDEX, pod.annotations.get(ROLE_INDEX, ""))
    revision = pod.labels.get(ROLE_HASH, "")
    instance = pod.uid
    if index:
        role = pod.labels.get(ROLE, "")
        instance = identity("RoleSet", pod.namespace, pod.owner.name, role, revision, index)
    return Membership(
        instance=instance,
        name=pod.name,
        size=1,
        mortal=not index,
        owner=_owner(pod),
        revision=revision,
        described_by=_storm(pod),
        shares_pod_group=True,
    )


def _storm(pod: Metadata) -> tuple[OwnerName, ...]:
    """The StormService of a pod, where its labels say it."""
    storm = pod.labels.get(STORM, "")
    return (("StormService", pod.namespace, storm),) if storm else ()


def _owner(made: Metadata) -> str:
    """The role of the StormService that a pod or PodSet is of; "" where labels do not say it."""
    storm = made.labels.get(STORM, "")
    role = made.labels.get(ROLE, "")
    return identity("StormService", made.namespace, storm, role) if storm and role else ""


class _Spec(msgspec.Struct, rename="camel", gc=False):
    pod_group_size: Any = None


class PodSetObject(msgspec.Struct, gc=False):
    """The fields of a PodSet that the scaler reads."""

    metadata: Metadata
    spec: _Spec | None = None


def facts(obj: PodSetObject) -> OwnerFacts:
    """The pods of an instance, and the revision of its role. Templates of a role have no numbers:
    the newest PodSet has the newest template."""
    meta = obj.metadata
    created = seconds_of(meta.creation_timestamp)
    owner = _owner(meta)
    return OwnerFacts(
        *meta.identity,
        kind="PodSet",
        created=created,
        owner=shared(owner),
        revision=shared(meta.labels.get(ROLE_HASH, "")) if owner else "",
        rank=int(created) if owner else 0,
        size=as_count(obj.spec.pod_group_size if obj.spec is not None else None, MAX_PODS),
    )


class StormServiceObject(msgspec.Struct, gc=False):
    """The fields of a StormService that the scaler reads."""

    metadata: Metadata
    spec: Any = None


def storm_service_facts(obj: StormServiceObject) -> OwnerFacts:
    """What instances of each role request, and the roles of which instances are made only when
    those of other roles are ready."""
    meta = obj.metadata
    spec = at(obj.spec)
    later = []
    templates: list[RoleTemplate] = []
    for each in as_list(at(spec, "template", "spec").get("roles")):
        role = at(each)
        template = at(role, "template")
        size = as_count(role.get("podGroupSize"))
        name = as_text(role.get("name"))
        templates += role_templates(template, template, size=size, role=name)
        found = later_role(role, template, size)
        if found is not None:
            instances = min(found.instances * _replicas(spec), MAX_INSTANCES)
            later.append(msgspec.structs.replace(found, instances=instances))
    return OwnerFacts(
        *meta.identity,
        kind="StormService",
        created=seconds_of(meta.creation_timestamp),
        later=tuple(later),
        templates=tuple(templates),
    )


def storm_service_roles(look: Look) -> Iterator[Role]:
    """The labels of the template of its RoleSets."""
    yield from _roles(look, ("spec", "template", "spec", "roles"))


def role_set_roles(look: Look) -> Iterator[Role]:
    """Its own."""
    yield from _roles(look, ("spec", "roles"))


def pod_set_roles(look: Look) -> Iterator[Role]:
    """All its pods are one instance."""
    pods_at: Path = ("spec", "podGroupSize")
    yield Role((template_at(("spec", "template")),), number_at(look, pods_at, 1), pods_at)


def _roles(look: Look, path: Path) -> Iterator[Role]:
    for item, name in named_at(look, path):
        pods_at = (*item, "podGroupSize")
        template = template_at((*item, "template"), f"of role {name}")
        yield Role((template,), number_at(look, pods_at, 1), pods_at)


def pods_wanted(storm: Object) -> int:
    """The pods of all roles, in all RoleSets."""
    spec = at(storm, "spec")
    pods = 0
    for role in as_list(at(spec, "template", "spec").get("roles")):
        pods += _replicas(at(role)) * max(1, as_count(at(role).get("podGroupSize")))
    return _replicas(spec) * pods


def _replicas(part: Mapping[str, Any]) -> int:
    return as_count(part["replicas"]) if "replicas" in part else 1


KIND = Kind(
    name="StormService",
    written=(
        Written(STORM_SERVICES, storm_service_roles, by_users=True),
        Written(ROLE_SETS, role_set_roles),
        Written(POD_SETS, pod_set_roles),
    ),
    membership=membership,
    pods_of=((AIBRIX, "PodSet"), (AIBRIX, "RoleSet")),
    owners=(
        OwnerSource(POD_SETS, facts, decode=PodSetObject),
        OwnerSource(STORM_SERVICES, storm_service_facts, decode=StormServiceObject),
    ),
    several=True,
    reviewed=True,
    project="AIBrix",
    definitions=(STORM_SERVICES, POD_SETS),
    pods_made_by="AIBrix",
    pods_label=STORM,
    pods_wanted=pods_wanted,
)
