"""Stand-ins for MindCluster's Infer Operator and for OME, which make workloads whose pods others
make.

Infer Operator: InferServiceSet -> InferService -> InstanceSet (one per role) -> a StatefulSet or
Deployment `<service>-<role>-<index>` per instance, made and deleted, but never changed. OME: the
Deployments and LeaderWorkerSets of InferenceServices, named `<service>-engine` and
`<service>-decoder` (with `lws-` before a LeaderWorkerSet), with the component's labels and
annotations, rolled without a gap (maxSurge 1) unless the component says otherwise. Not modelled:
priorities, services, workloads that are rebuilt whole, runtimes and models, routers, and
autoscaling: replicas follow minReplicas. Must not: make pods, or know of rules, gates or
instances."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from scaler.kube.api import DEPLOYMENTS, POD_GROUPS, STATEFUL_SETS, KubeApi, Object, Resource
from scaler.sim.actors import making, objects
from scaler.sim.actors.stand_in import StandInController
from scaler.workloads.inferenceservice import INFERENCE_SERVICES
from scaler.workloads.inferserviceset import INFER_SERVICE_SETS, INFER_SERVICES, INSTANCE_SETS
from scaler.workloads.leaderworkerset import LEADER_WORKER_SETS

_PREFIX = "infer.huawei.com/"
SET_NAME = _PREFIX + "inferserviceset-name"
SERVICE_INDEX = _PREFIX + "inferservice-index"
SERVICE = _PREFIX + "inferservice-name"
ROLE = _PREFIX + "instanceset-name"
INDEX = _PREFIX + "instanceset-index"
MANAGED = _PREFIX + "ascend-infer-operator"
GANG = _PREFIX + "gang-schedule"
_FAULTS = "fault-scheduling"


class InferOperator(StandInController):
    follows = (
        INFER_SERVICE_SETS,
        INFER_SERVICES,
        INSTANCE_SETS,
        STATEFUL_SETS,
        DEPLOYMENTS,
        POD_GROUPS,
    )

    async def reconcile(self) -> None:
        """A new spec is passed on only between kinds of Infer Operator."""
        for service_set in self.living(INFER_SERVICE_SETS):
            await self.have(INFER_SERVICES, service_set, _services(service_set), update=True)
        for service in self.living(INFER_SERVICES):
            await self.have(INSTANCE_SETS, service, _instance_sets(service), update=True)
        for instance_set in self.living(INSTANCE_SETS):
            indices = range(making.number(instance_set))
            if objects.labels_of(instance_set).get(GANG) == "true":
                groups = [_pod_group(instance_set, index) for index in indices]
                await self.have(POD_GROUPS, instance_set, groups)
            workload = objects.spec(instance_set).get("workload") or {}
            of_deployments = workload.get("kind") == DEPLOYMENTS.kind
            resource = DEPLOYMENTS if of_deployments else STATEFUL_SETS
            workloads = [_workload(instance_set, resource, index) for index in indices]
            await self.have(resource, instance_set, workloads)


def _services(service_set: Object) -> Iterator[Object]:
    name = objects.name(service_set)
    for index in range(making.number(service_set)):
        yield making.body_of(
            INFER_SERVICES,
            f"{name}-{index}",
            making.Owner(service_set, INFER_SERVICE_SETS),
            labels={SET_NAME: name, SERVICE_INDEX: str(index)},
            spec=copy.deepcopy(objects.spec(service_set).get("template") or {}),
        )


def _instance_sets(service: Object) -> Iterator[Object]:
    name = objects.name(service)
    inherited = making.with_prefix(objects.labels_of(service), _PREFIX)
    for role in objects.spec(service).get("roles") or []:
        given = role.get("metadata") or {}
        yield making.body_of(
            INSTANCE_SETS,
            f"{name}-{role.get('name')}",
            making.Owner(service, INFER_SERVICES),
            labels={
                **(given.get("labels") or {}),
                **inherited,
                SERVICE: name,
                ROLE: str(role.get("name")),
            },
            annotations=given.get("annotations"),
            spec=copy.deepcopy(role),
        )


def _marks(instance_set: Object, index: int) -> dict[str, str]:
    """The labels that identify the pods of one instance."""
    labels = objects.labels_of(instance_set)
    return {
        SERVICE: labels.get(SERVICE, ""),
        ROLE: labels.get(ROLE, ""),
        INDEX: str(index),
        MANAGED: "true",
    }


def _pod_group(instance_set: Object, index: int) -> Object:
    spec = objects.spec(instance_set).get("spec") or {}
    return making.pod_group(
        f"pg-{objects.name(instance_set)}-{index}",
        making.Owner(instance_set, INSTANCE_SETS),
        [spec.get("template") or {}] * int(spec.get("replicas", 1)),
        labels={**objects.labels_of(instance_set), **_marks(instance_set, index)},
        annotations=objects.annotations_of(instance_set),
    )


def _workload(instance_set: Object, resource: Resource, index: int) -> Object:
    spec = copy.deepcopy(objects.spec(instance_set).get("spec") or {})
    name = f"{objects.name(instance_set)}-{index}"
    labels = objects.labels_of(instance_set)
    marks = _marks(instance_set, index)
    group = {objects.GROUP_NAME: f"pg-{name}"} if labels.get(GANG) == "true" else {}
    template = spec["template"] = making.marked(spec.get("template") or {}, marks, group)
    variables = {
        "INSTANCE_INDEX": str(index),
        "INSTANCE_ROLE": labels.get(ROLE, ""),
        "INFER_SERVICE_INDEX": labels.get(SERVICE_INDEX, "0"),
        "INFER_SERVICE_NAME": labels.get(SERVICE, ""),
    }
    making.add_environment(template.get("spec") or {}, variables)
    given = template["metadata"]["labels"]
    if resource == STATEFUL_SETS:
        spec["serviceName"] = f"service-{name}"
    return making.body_of(
        resource,
        name,
        making.Owner(instance_set, INSTANCE_SETS),
        annotations=objects.annotations_of(instance_set),
        spec=spec,
        labels={**labels, **marks, **({_FAULTS: given[_FAULTS]} if _FAULTS in given else {})},
    )


_SERVICE = "ome.io/inferenceservice"
_NO_POD_SPEC = frozenset(
    {
        "minReplicas",
        "maxReplicas",
        "deploymentStrategy",
        "labels",
        "annotations",
        "runner",
        "leader",
        "worker",
        "size",
    }
)


class Ome(StandInController):
    follows = (INFERENCE_SERVICES, DEPLOYMENTS, LEADER_WORKER_SETS)

    def __init__(self, api: KubeApi) -> None:
        super().__init__(api)
        self._made: dict[str, Object] = {}
        """Child, by uid of its service and name -> the last written object."""

    async def keep(self, owner: Object) -> None:
        for component in ("engine", "decoder"):
            if component not in objects.spec(owner):
                continue
            resource, wanted = child(owner, component)
            key = f"{objects.uid(owner)}/{objects.name(wanted)}"
            present = await self.ensure(resource, wanted)
            if present is not None and self._made.get(key) != wanted:
                await self.patch(resource, present, {"spec": wanted["spec"]})
            self._made[key] = wanted


def child(service: Object, component: str) -> tuple[Resource, Object]:
    """The object that OME makes for one component."""
    spec = objects.spec(service)[component]
    name = f"{objects.name(service)}-{component}"
    labels = {
        _SERVICE: objects.name(service),
        "component": component,
        "app": name,
        **(spec.get("labels") or {}),
    }
    marks = {"labels": labels, "annotations": dict(spec.get("annotations") or {})}
    if "leader" not in spec:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
        deployment = {
            "replicas": spec["minReplicas"],
            "selector": {"matchLabels": {"app": name}},
            "strategy": spec.get("deploymentStrategy") or rolling,
            "template": {"metadata": marks, "spec": _pod_spec(spec)},
        }
        return DEPLOYMENTS, making.body_of(
            DEPLOYMENTS, name, making.Owner(service, INFERENCE_SERVICES), **marks, spec=deployment
        )
    group = {
        "size": spec["worker"]["size"] + 1,
        "restartPolicy": "RecreateGroupOnPodRestart",
        "leaderTemplate": {"metadata": marks, "spec": _pod_spec(spec["leader"])},
        "workerTemplate": {"metadata": marks, "spec": _pod_spec(spec["worker"])},
    }
    rolling = {
        "type": "RollingUpdate",
        "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 1},
    }
    whole = {
        "replicas": spec["minReplicas"],
        "startupPolicy": "LeaderCreated",
        "rolloutStrategy": rolling,
        "networkConfig": {"subdomainPolicy": "Shared"},
        "leaderWorkerTemplate": group,
    }
    short = f"lws-{name}"[-50:]
    body = making.body_of(
        LEADER_WORKER_SETS, short, making.Owner(service, INFERENCE_SERVICES), **marks, spec=whole
    )
    return LEADER_WORKER_SETS, body


def _pod_spec(component: Object) -> Object:
    """The inline pod spec, with the runner as its container."""
    inline: dict[str, Any] = {
        key: value for key, value in component.items() if key not in _NO_POD_SPEC
    }
    return {
        **copy.deepcopy(inline),
        "containers": [*inline.get("containers", ()), copy.deepcopy(component["runner"])],
    }
