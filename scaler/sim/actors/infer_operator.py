"""A stand-in for MindCluster's Infer Operator: one StatefulSet or Deployment per instance of a role.

InferServiceSet -> InferService -> InstanceSet (one per role) -> workloads `<service>-<role>-<index>`, which are made
and deleted, but never changed. Not modelled: priorities, autoscaling, services, and workloads that are rebuilt whole.
Must not: make pods itself, or know of rules.
"""

from __future__ import annotations

import copy

from scaler.kube.api import DEPLOYMENTS, POD_GROUPS, STATEFUL_SETS, KubeApi, Object, Resource
from scaler.sim.actors import making, objects
from scaler.sim.actors.making import Hands, add_environment
from scaler.sim.actors.mirror import Mirror
from scaler.sim.apiserver.kinds import INFER_SERVICE_SETS, INFER_SERVICES, INSTANCE_SETS

_PREFIX = "infer.huawei.com/"
SET_NAME = _PREFIX + "inferserviceset-name"
SERVICE_INDEX = _PREFIX + "inferservice-index"
SERVICE = _PREFIX + "inferservice-name"
ROLE = _PREFIX + "instanceset-name"
INDEX = _PREFIX + "instanceset-index"
MANAGED = _PREFIX + "ascend-infer-operator"
GANG = _PREFIX + "gang-schedule"
_FAULTS = "fault-scheduling"


class InferOperator:
    """Follows everything from InferServiceSets down to workloads."""

    def __init__(self, api: KubeApi) -> None:
        self._mirror = Mirror(
            api, INFER_SERVICE_SETS, INFER_SERVICES, INSTANCE_SETS, STATEFUL_SETS, DEPLOYMENTS, POD_GROUPS
        )
        self._hands = Hands(api, self._mirror)

    async def run(self) -> None:
        """Keep the instances until cancelled."""
        await self._mirror.drive(self._round, "infer operator")

    async def _round(self) -> float | None:
        if self._hands.settled:
            for service_set in self._living(INFER_SERVICE_SETS):
                await self._have(INFER_SERVICES, service_set, _services(service_set))
            for service in self._living(INFER_SERVICES):
                await self._have(INSTANCE_SETS, service, _instance_sets(service))
            for instance_set in self._living(INSTANCE_SETS):
                await self._keep(instance_set)
        return self._hands.pause

    def _living(self, resource: Resource) -> list[Object]:
        return [obj for obj in self._mirror.all(resource) if not objects.terminating(obj)]

    async def _keep(self, instance_set: Object) -> None:
        indices = range(making.number(instance_set, "replicas"))
        if objects.labels_of(instance_set).get(GANG) == "true":
            await self._have(POD_GROUPS, instance_set, [_pod_group(instance_set, index) for index in indices])
        kind = (objects.spec(instance_set).get("workload") or {}).get("kind", STATEFUL_SETS.kind)
        resource = DEPLOYMENTS if kind == DEPLOYMENTS.kind else STATEFUL_SETS
        await self._have(resource, instance_set, [_workload(instance_set, resource, index) for index in indices])

    async def _have(self, resource: Resource, owner: Object, wanted: list[Object]) -> None:
        """Creates what is missing and deletes what is too many; a new spec is passed on between its own kinds only."""
        names = {objects.name(body): body for body in wanted}
        for body in wanted:
            found = self._mirror.get(resource, objects.namespace(body), objects.name(body))
            if found is None:
                await self._hands.create(resource, body)
            elif resource in (INFER_SERVICES, INSTANCE_SETS) and objects.spec(found) != body["spec"]:
                await self._hands.replace(resource, {**found, "spec": body["spec"]})
        for found in self._living(resource):
            if objects.owner_uid(found) == objects.uid(owner) and objects.name(found) not in names:
                await self._hands.delete(resource, found)


def _services(service_set: Object) -> list[Object]:
    name, spec = objects.name(service_set), objects.spec(service_set)
    return [
        making.body_of(
            INFER_SERVICES, f"{name}-{index}", service_set, INFER_SERVICE_SETS,
            labels={SET_NAME: name, SERVICE_INDEX: str(index)}, spec=copy.deepcopy(spec.get("template") or {}),
        )
        for index in range(making.number(service_set, "replicas"))
    ]  # fmt: skip


def _instance_sets(service: Object) -> list[Object]:
    name = objects.name(service)
    roles = objects.spec(service).get("roles") or []
    inherited = {key: value for key, value in objects.labels_of(service).items() if key.startswith(_PREFIX)}
    return [
        making.body_of(
            INSTANCE_SETS, f"{name}-{role.get('name')}", service, INFER_SERVICES,
            labels={**_metadata(role, "labels"), **inherited, SERVICE: name, ROLE: str(role.get("name"))},
            annotations=_metadata(role, "annotations"), spec=copy.deepcopy(role),
        )
        for role in roles
    ]  # fmt: skip


def _metadata(role: Object, part: str) -> dict[str, str]:
    return {**((role.get("metadata") or {}).get(part) or {})}


def _marks(instance_set: Object, index: int) -> dict[str, str]:
    """The labels by which the pods of one instance are known."""
    labels = objects.labels_of(instance_set)
    return {SERVICE: labels.get(SERVICE, ""), ROLE: labels.get(ROLE, ""), INDEX: str(index), MANAGED: "true"}


def _pod_group(instance_set: Object, index: int) -> Object:
    spec = objects.spec(instance_set).get("spec") or {}
    size = int(spec.get("replicas", 1))
    return making.body_of(
        POD_GROUPS, _group_name(instance_set, index), instance_set, INSTANCE_SETS,
        labels={**objects.labels_of(instance_set), **_marks(instance_set, index)},
        annotations=objects.annotations_of(instance_set),
        spec={"minMember": size, "minResources": making.resources_of([spec.get("template") or {}] * size)},
    )  # fmt: skip


def _group_name(instance_set: Object, index: int) -> str:
    return f"pg-{objects.name(instance_set)}-{index}"


def _workload(instance_set: Object, resource: Resource, index: int) -> Object:
    spec = copy.deepcopy(objects.spec(instance_set).get("spec") or {})
    template = spec.setdefault("template", {})
    metadata = template.setdefault("metadata", {})
    marks, labels = _marks(instance_set, index), objects.labels_of(instance_set)
    metadata["labels"] = {**(metadata.get("labels") or {}), **marks}
    if labels.get(GANG) == "true":
        group = {objects.GROUP_NAME: _group_name(instance_set, index)}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **group}
    variables = {
        "INSTANCE_INDEX": str(index), "INSTANCE_ROLE": labels.get(ROLE, ""),
        "INFER_SERVICE_INDEX": labels.get(SERVICE_INDEX, "0"), "INFER_SERVICE_NAME": labels.get(SERVICE, ""),
    }  # fmt: skip
    add_environment(template.get("spec") or {}, variables)
    faults = {_FAULTS: metadata["labels"][_FAULTS]} if _FAULTS in metadata["labels"] else {}
    name = f"{objects.name(instance_set)}-{index}"
    if resource == STATEFUL_SETS:
        spec["serviceName"] = f"service-{name}"
    return making.body_of(
        resource, name, instance_set, INSTANCE_SETS,
        labels={**labels, **marks, **faults}, annotations=objects.annotations_of(instance_set), spec=spec,
    )  # fmt: skip
