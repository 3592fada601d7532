"""LeaderWorkerSet: each group of a leader and its workers is an instance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from scaler.kube.api import STATEFUL_SETS, Resource
from scaler.kube.metadata import Metadata, shared
from scaler.names import POD_GROUP
from scaler.rules.finding import Path
from scaler.rules.limits import MAX_INSTANCES, MAX_PODS
from scaler.rules.values import as_count
from scaler.timestamps import seconds_of
from scaler.workloads.kind import (
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
from scaler.workloads.membership import (
    Membership,
    OwnerFacts,
    identity,
    number_in,
    role_templates,
)

LEADER_WORKER_SETS = Resource(
    "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"
)
_LABEL = "leaderworkerset.sigs.k8s.io/"
NAME = _LABEL + "name"
SIZE = _LABEL + "size"
REVISION = _LABEL + "template-revision-hash"


def membership(pod: Metadata) -> Membership | None:
    """The leader is pod <set>-<group> of StatefulSet <set>, StatefulSet <set>-<group> makes its
    workers. Names and owners exist from the start; LeaderWorkerSet's webhook may add its labels
    later."""
    lws = pod.labels.get(NAME, "")
    named = pod.name if pod.owner.name == lws else pod.owner.name
    index = named.removeprefix(lws + "-")
    is_named_so = lws and named.startswith(lws + "-")
    if not is_named_so or not (index.isascii() and index.isdecimal()):
        return None
    revision = pod.labels.get(REVISION, "")
    return Membership(
        instance=identity("LeaderWorkerSet", pod.namespace, lws, index),
        name=f"{lws}-{index}",
        size=number_in(pod.annotations.get(SIZE, "")),
        owner=identity("LeaderWorkerSet", pod.namespace, lws),
        revision=revision,
        described_by=(("LeaderWorkerSet", pod.namespace, lws), ("StatefulSet", pod.namespace, lws)),
        # The PodGroup of LeaderWorkerSet's gang scheduling; without it all leaders share one, all
        # workers another.
        shares_pod_group=pod.annotations.get(POD_GROUP) != f"{lws}-{index}-{revision}",
    )


class _Pair(msgspec.Struct, rename="camel", gc=False):
    size: Any = None
    leader_template: Any = None
    worker_template: Any = None


class _Spec(msgspec.Struct, rename="camel", gc=False):
    replicas: Any = None
    startup_policy: Any = None
    leader_worker_template: _Pair | None = None


class LeaderWorkerSetObject(msgspec.Struct, gc=False):
    """The fields of a LeaderWorkerSet that the scaler reads."""

    metadata: Metadata
    spec: _Spec | None = None


def facts(obj: LeaderWorkerSetObject) -> OwnerFacts:
    """How many instances there should be, of how many pods and with which requests, and whether the
    workers are made only when the leader is ready."""
    meta = obj.metadata
    spec = obj.spec or _Spec()
    pair = spec.leader_worker_template or _Pair()
    size = as_count(pair.size, MAX_PODS)
    return OwnerFacts(
        *meta.identity,
        kind="LeaderWorkerSet",
        created=seconds_of(meta.creation_timestamp),
        size=size,
        wanted=0 if meta.deletion_timestamp else as_count(spec.replicas, MAX_INSTANCES),
        leader_first=spec.startup_policy == "LeaderReady",
        templates=role_templates(pair.leader_template, pair.worker_template, size=size),
    )


def stateful_set_facts(obj: OwnerObject) -> OwnerFacts | None:
    """Of a StatefulSet of a LeaderWorkerSet: it counts groups or workers, not the pods of an
    instance. The label of the leaders' set changes to the newest revision at once, before any pod
    is replaced."""
    meta = obj.metadata
    lws = meta.labels.get(NAME)
    if not lws:
        return None
    of_leaders = lws == meta.name
    return OwnerFacts(
        *meta.identity,
        kind="StatefulSet",
        created=seconds_of(meta.creation_timestamp),
        owner=shared(identity("LeaderWorkerSet", meta.namespace, lws)) if of_leaders else "",
        revision=shared(meta.labels.get(REVISION, "")) if of_leaders else "",
    )


def roles(look: Look) -> Iterator[Role]:
    """A leader without a template of its own has the template of the workers."""
    pair: Path = ("spec", "leaderWorkerTemplate")
    names = [name for name in ("leaderTemplate", "workerTemplate") if look((*pair, name))]
    templates = [template_at((*pair, name), name) for name in names]
    pods_at = (*pair, "size")
    yield Role(tuple(templates), number_at(look, pods_at, 1), pods_at)


def made_names(name: str, look: Look) -> Iterator[MadeName]:
    """A Service has its name; the workers of each group are a StatefulSet `NAME-0`."""
    yield MadeName(f"the Service {name}", len(name), of_service=True)
    last = max(0, (number_at(look, ("spec", "replicas"), 1) or 0) - 1)
    length = len(f"{name}-{last}") + REVISION_LENGTH
    yield MadeName("the label controller-revision-hash of its workers", length)


KIND = Kind(
    name="LeaderWorkerSet",
    written=(Written(LEADER_WORKER_SETS, roles, by_users=True, made_names=made_names),),
    membership=membership,
    pods_of=((STATEFUL_SETS.group, STATEFUL_SETS.kind),),
    owners=(
        OwnerSource(LEADER_WORKER_SETS, facts, decode=LeaderWorkerSetObject, counts_instances=True),
        OwnerSource(STATEFUL_SETS, stateful_set_facts),
    ),
    several=True,
    looked_up=True,
    one_instance=True,
    reviewed=True,
    project="LeaderWorkerSet",
    definitions=(LEADER_WORKER_SETS,),
    tried="its manager 0.8.0",
)
