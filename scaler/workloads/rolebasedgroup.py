"""RoleBasedGroup (RBG, v1alpha2): each RoleInstance is an instance. RBG before v1alpha2 makes
Deployments, StatefulSets and LeaderWorkerSets, which are found as such.

RBG's gang scheduling starts every pod of every role at once or none: no instance can be held, which
`kinds.holding_impossible` reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from scaler.kube.api import Resource
from scaler.kube.metadata import Metadata
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
    RoleTemplate,
    identity,
    later_role,
    number_in,
    role_templates,
)

RBG = "workloads.x-k8s.io"
ROLE_BASED_GROUPS = Resource(RBG, "v1alpha2", "rolebasedgroups", "RoleBasedGroup")
_LABEL = f"rbg.{RBG}/"


def membership(pod: Metadata) -> Membership:
    """The RoleInstance of the pod."""
    group = pod.labels.get(_LABEL + "group-name", "")
    role = pod.labels.get(_LABEL + "role-name", "")
    component = pod.labels.get(_LABEL + "component-name", "")
    # Leaders, workers and single pods have the size of the whole instance; other components only
    # their own size.
    knows = component in ("leader", "worker", role)
    return Membership(
        instance=identity("RoleInstance", pod.namespace, pod.owner.name),
        name=pod.owner.name,
        size=number_in(pod.labels.get(_LABEL + "component-size", "")) if knows else 0,
        owner=identity("RoleBasedGroup", pod.namespace, group, role) if group and role else "",
        described_by=(("RoleBasedGroup", pod.namespace, group),) if group else (),
        revision=pod.labels.get("controller-revision-hash", ""),
    )


class RoleBasedGroupObject(msgspec.Struct, gc=False):
    """The fields of a RoleBasedGroup that the scaler reads."""

    metadata: Metadata
    spec: Any = None


def facts(obj: RoleBasedGroupObject) -> OwnerFacts:
    """What instances of each role request, and the roles of which instances are made only when
    those of other roles are ready."""
    meta = obj.metadata
    later = []
    templates: list[RoleTemplate] = []
    for each in as_list(at(obj.spec).get("roles")):
        role = at(each)
        pair = at(role, "leaderWorkerPattern")
        pattern = pair or at(role, "standalonePattern") or role
        template = at(pattern, "template")
        size = as_count(pair.get("size"))
        name = as_text(role.get("name"))
        is_patched = "leaderTemplatePatch" in pair or "workerTemplatePatch" in pair
        if not is_patched:
            templates += role_templates(template, template, size=size, role=name)
        found = later_role(role, template, size)
        if found is not None:
            later.append(found)
    return OwnerFacts(
        *meta.identity,
        kind="RoleBasedGroup",
        created=seconds_of(meta.creation_timestamp),
        later=tuple(later),
        templates=tuple(templates),
    )


def roles(look: Look) -> Iterator[Role]:
    """A role has one of three patterns."""
    for item, name in named_at(look, ("spec", "roles")):
        words = f"of role {name}"
        pair = (*item, "leaderWorkerPattern")
        alone = (*item, "standalonePattern")
        if look(pair) is not None:
            size = (*pair, "size")
            template = template_at((*pair, "template"), words)
            yield Role((template,), number_at(look, size, 1), size)
        elif look(alone) is not None:
            yield Role((template_at((*alone, "template"), words),))
        else:
            yield Role((template_at((*item, "template"), words),))


KIND = Kind(
    name="RoleBasedGroup",
    written=(Written(ROLE_BASED_GROUPS, roles, by_users=True),),
    membership=membership,
    pods_of=((RBG, "RoleInstance"),),
    owners=(OwnerSource(ROLE_BASED_GROUPS, facts, decode=RoleBasedGroupObject),),
    several=True,
    project="RoleBasedGroup",
    definitions=(ROLE_BASED_GROUPS,),
)
