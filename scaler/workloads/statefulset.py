"""StatefulSet: each pod is an instance that returns under its name, unless annotations say that
several pods form one."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.kube.api import STATEFUL_SETS
from scaler.kube.metadata import Metadata
from scaler.rules.finding import Path
from scaler.rules.limits import MAX_PODS
from scaler.rules.values import as_count
from scaler.timestamps import seconds_of
from scaler.workloads.inferserviceset import INFER_OPERATOR
from scaler.workloads.kind import (
    LABELS,
    REVISION_LENGTH,
    Kind,
    Look,
    MadeName,
    OwnerObject,
    OwnerSource,
    Role,
    Written,
    number_at,
    template_at,
)
from scaler.workloads.membership import Membership, OwnerFacts, identity, role_templates

REVISION = "controller-revision-hash"


def membership(pod: Metadata) -> Membership:
    """The pod as an instance. Volcano puts all pods of the set into one PodGroup."""
    return Membership(
        instance=identity("StatefulSet", pod.namespace, pod.owner.name, pod.name),
        name=pod.name,
        size=1,
        revision=pod.labels.get(REVISION, ""),
        described_by=(("StatefulSet", pod.namespace, pod.owner.name),),
        shares_pod_group=True,
    )


def facts(obj: OwnerObject) -> OwnerFacts:
    """Its age, its template, and the pods of an instance where all of them are one. Unless it says
    `Parallel`, each of them is created when those before it are ready."""
    meta = obj.metadata
    return OwnerFacts(
        *meta.identity,
        kind="StatefulSet",
        created=seconds_of(meta.creation_timestamp),
        size=as_count(obj.replicas, MAX_PODS),
        one_by_one=obj.spec is not None and obj.spec.pod_management_policy != "Parallel",
        templates=role_templates(obj.template, obj.template),
    )


def roles(look: Look) -> Iterator[Role]:
    """One that Infer Operator made is one instance with all its pods, as a label of the pods
    shows."""
    template: Path = ("spec", "template")
    if look((*template, *LABELS, INFER_OPERATOR)) == "true":
        pods_at: Path = ("spec", "replicas")
        yield Role((template_at(template),), number_at(look, pods_at, 1), pods_at)
    else:
        yield Role((template_at(template),), pods=1, pods_at=template)


def made_names(name: str, _: Look) -> Iterator[MadeName]:
    """Its pods have a label with its name and the hash of its revision."""
    yield MadeName(f"the label {REVISION} of its pods", len(name) + REVISION_LENGTH)


KIND = Kind(
    name="StatefulSet",
    written=(Written(STATEFUL_SETS, roles, by_users=True, made_names=made_names),),
    membership=membership,
    pods_of=((STATEFUL_SETS.group, STATEFUL_SETS.kind),),
    owners=(OwnerSource(STATEFUL_SETS, facts),),
    several=True,
    looked_up=True,
    tried="kube-controller-manager 1.35.3",
)
