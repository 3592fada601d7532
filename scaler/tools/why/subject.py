"""The subject of `scaler why NAME`: an instance, a pod, a service, or an object that is not
governed by the scaler."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scaler.decide.decision import Plan, State, Verdict
from scaler.decide.explain import words
from scaler.decide.world import Instance, Service, ServiceKey
from scaler.informers.indexes import instance_of
from scaler.informers.pods import PodRecord
from scaler.kube.api import KubeApi, Object, Resource
from scaler.kube.errors import ForbiddenError, NotFoundError, StatusError
from scaler.rules.values import as_list, as_text, at
from scaler.tools.common.view import Cluster, ServiceView
from scaler.workloads.kinds import KINDS
from scaler.workloads.membership import identity

LOOKED_UP = tuple(kind.main.resource for kind in KINDS if kind.looked_up)
"""Types of objects that may have labels, in the order in which a name is looked up."""
OF_INSTANCES = tuple(kind.name for kind in KINDS if kind.several)
"""Kinds whose name is part of the owner or of the uid of their instances."""


class InstanceStanding(msgspec.Struct, frozen=True):
    """State and reason of one instance. `by_leader`: as the scaler wrote them; else as decided
    here."""

    state: str
    reason: str
    message: str
    by_leader: bool


class Subject(msgspec.Struct, frozen=True):
    """The result of a look-up. `instances`: those in question; `pod`: if the question is about one
    of their pods; `object`: the object with the labels, as the API server returns it, {} when there
    is not just one."""

    namespace: str
    name: str
    kind: str
    view: ServiceView | None = None
    service: Service | None = None
    plan: Plan | None = None
    instances: tuple[Instance, ...] = ()
    standings: dict[str, InstanceStanding] = {}
    """By uid of the instance."""
    written: tuple[Mapping[str, Any], ...] = ()
    """What the ElasticService says of the instances in question, where they are not seen."""
    pod: PodRecord | None = None
    resource: Resource | None = None
    object: Object = {}

    @property
    def key(self) -> ServiceKey:
        if self.service is not None:
            return self.service.key
        return self.view.key if self.view is not None else ServiceKey(self.namespace, "", "")

    @property
    def shown(self) -> str:
        """Namespace and name for people; a service has one name, whatever it was asked by."""
        if self.whole and self.view is not None and self.view.name:
            return f"{self.namespace}/{self.view.name}"
        if self.whole and self.service is not None:
            return self.key.shown
        return f"{self.namespace}/{self.name}"

    @property
    def whole(self) -> bool:
        """Whether the question is about a whole service."""
        return self.kind == "service"


async def find(
    cluster: Cluster, api: KubeApi, namespace: str, name: str, *, stale: bool
) -> Subject | None:
    """The first match of: an instance or its job, a pod, an object that makes instances, a service,
    any object that could have labels of ours. None when nothing has this name. `stale`: no scaler
    is at work, so the status of ElasticServices does not count. Raises KubeError."""
    world, decision = cluster.decision()
    views = {view.key: view for view in cluster.views()}
    known = []
    for service, plan in zip(world.services, decision.plans, strict=True):
        if service.key.namespace == namespace:
            known.append(
                Subject(
                    namespace, name, "", view=views.get(service.key), service=service, plan=plan
                )
            )
    found = (
        _instance(known, name)
        or _pod(cluster, known, namespace, name)
        or _made_by(known, namespace, name)
        or _service(known, name)
    )
    first = found.instances[0] if found and found.instances else None
    resource, obj = await _object(api, namespace, first, name)
    if found is None:
        written = _written(views.values(), namespace, name)
        if written is not None or not obj:
            return written
        return Subject(namespace, name, obj["kind"], resource=resource, object=obj)
    return msgspec.structs.replace(
        found, resource=resource, object=obj, standings=_standings(found, stale=stale)
    )


def _chosen(
    subject: Subject, kind: str, instances: Iterable[Instance], pod: PodRecord | None = None
) -> Subject:
    return msgspec.structs.replace(subject, kind=kind, instances=tuple(instances), pod=pod)


def _instances_of(one: Subject) -> tuple[Instance, ...]:
    return one.service.instances if one.service is not None else ()


def _instance(known: list[Subject], name: str) -> Subject | None:
    for one in known:
        for instance in _instances_of(one):
            if instance.name == name:
                return _chosen(one, instance.kind, (instance,))
    return None


def _pod(cluster: Cluster, known: list[Subject], namespace: str, name: str) -> Subject | None:
    pod = cluster.cache.pods.get(namespace, name)
    if pod is None:
        return None
    uid = pod.owner_uid or instance_of(pod)
    if not uid:
        return None
    for one in known:
        for instance in _instances_of(one):
            if instance.uid == uid:
                return _chosen(one, "Pod", (instance,), pod)
    return None


def _made_by(known: list[Subject], namespace: str, name: str) -> Subject | None:
    for kind in OF_INSTANCES:
        within = identity(kind, namespace, name, "")
        for one in known:
            made = []
            for instance in _instances_of(one):
                owned = f"{instance.owner}/".startswith(within)
                if owned or instance.uid.startswith(within):
                    made.append(instance)
            if made:
                return _chosen(one, kind, made)
    return None


def _service(known: list[Subject], name: str) -> Subject | None:
    """The service whose name this most certainly is. A rule may have several services: then the one
    in the worst state."""
    if not name:
        return None
    found: list[tuple[int, bool, bool, Subject]] = []
    for one in known:
        names = _names(one)
        if name in names:
            found.append((names.index(name), *_how_well(one), one))
    if not found:
        return None
    *_, chosen = min(found, key=lambda entry: entry[:3])
    return _chosen(chosen, "service", _instances_of(chosen))


def _written(views: Iterable[ServiceView], namespace: str, name: str) -> Subject | None:
    """What the ElasticServices say of a service or an instance of this name, for callers who may
    not read the jobs."""
    for view in views:
        if view.key.namespace != namespace or not view.name:
            continue
        said = tuple(map(at, as_list(view.status.get("instances"))))
        if name in _names(Subject(namespace, name, "", view=view)):
            return _as_written(namespace, name, view, said, kind="service")
        for one in said:
            if one.get("name") == name:
                kind = as_text(one.get("kind")) or "instance"
                return _as_written(namespace, name, view, (one,), kind=kind)
    return None


def _as_written(
    namespace: str,
    name: str,
    view: ServiceView,
    said: tuple[Mapping[str, Any], ...],
    *,
    kind: str,
) -> Subject:
    standings = {}
    for one in said:
        standings[as_text(one.get("uid"))] = _standing(one, None, None)
    return Subject(namespace, name, kind, view=view, written=said, standings=standings)


def _how_well(one: Subject) -> tuple[bool, bool]:
    """Larger for a service in a better state."""
    if one.plan is None:
        return False, False
    return bool(one.plan.serves), bool(one.plan.complete)


def _names(one: Subject) -> tuple[str, ...]:
    """Possible names of a service, the most certain first."""
    key = one.key
    usual = (
        key.job_id if key.rule else "",
        f"{key.rule}-{key.job_id}",
        f"{key.rule}/{key.job_id}",
        key.rule,
    )
    return (one.view.name if one.view else "", *usual, key.job_id)


def _standings(subject: Subject, *, stale: bool) -> dict[str, InstanceStanding]:
    """State and reason of each instance: as the scaler wrote them, else as decided here."""
    said = {}
    if subject.view is not None and subject.view.name and not stale:
        for one in as_list(subject.view.status.get("instances")):
            said[as_text(at(one).get("uid"))] = at(one)
    verdicts = {verdict.uid: verdict for verdict in subject.plan.verdicts} if subject.plan else {}
    found: dict[str, InstanceStanding] = {}
    for instance in subject.instances:
        found[instance.uid] = _standing(
            said.get(instance.uid), verdicts.get(instance.uid), subject.plan
        )
    return found


def _standing(said: object, verdict: Verdict | None, plan: Plan | None) -> InstanceStanding:
    if said:
        written = at(said)
        return InstanceStanding(
            as_text(written.get("state")),
            as_text(written.get("reason")),
            as_text(written.get("message")),
            by_leader=True,
        )
    if verdict is None or plan is None:
        return InstanceStanding(State.HELD.value, "", "not decided about", by_leader=False)
    return InstanceStanding(
        verdict.state.value, verdict.reason.value, words(verdict, plan), by_leader=False
    )


async def _object(
    api: KubeApi, namespace: str, instance: Instance | None, name: str
) -> tuple[Resource | None, Object]:
    """The object with the labels: the job of the instance, or the object of this name. Forbidden
    counts as missing."""
    names = (instance.name, name) if instance is not None else (name,)
    for called in dict.fromkeys(names):
        for resource in LOOKED_UP:
            try:
                found = await api.get(resource, namespace, called)
            except (NotFoundError, ForbiddenError):
                continue
            except StatusError as error:
                if error.status in (400, 405):
                    continue
                raise
            return resource, {**found, "kind": resource.kind}
    return None, {}


def near_names(cluster: Cluster, namespace: str, name: str) -> list[str]:
    """Similar names that the caller may have meant."""
    world, _ = cluster.decision()
    known = []
    for one in world.services:
        if one.key.namespace == namespace:
            for instance in one.instances:
                known.append(instance.name)
    for one in world.services:
        if one.key.namespace == namespace:
            known.append(one.key.job_id)
    for pod in cluster.cache.pods.values():
        if pod.namespace == namespace:
            known.append(pod.name)
    return difflib.get_close_matches(name, dict.fromkeys(known), n=3, cutoff=0.6)
