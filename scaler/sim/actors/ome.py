"""A stand-in for OME: makes the Deployments and LeaderWorkerSets of InferenceServices, as a client of KubeApi.

As the original it names them `<service>-engine` and `<service>-decoder` (with `lws-` before a LeaderWorkerSet), puts
the component's labels and annotations on them and on their pods, and rolls without a gap (maxSurge 1) unless it
is told otherwise.
Not modelled: runtimes and models, routers, and autoscaling: replicas follow minReplicas.
Must not: know of rules, gates or instances.
"""

from __future__ import annotations

import copy
from typing import Any

from scaler.kube.api import DEPLOYMENTS, LEADER_WORKER_SETS, KubeApi, Object, Resource
from scaler.sim.actors import making, objects
from scaler.sim.actors.controller import Controller
from scaler.sim.apiserver.kinds import INFERENCE_SERVICES

_SERVICE = "ome.io/inferenceservice"
_NO_POD_SPEC = frozenset(
    {"minReplicas", "maxReplicas", "deploymentStrategy", "labels", "annotations", "runner", "leader", "worker", "size"}
)
_ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}


class Ome(Controller):
    """Follows all InferenceServices."""

    def __init__(self, api: KubeApi) -> None:
        super().__init__(api, INFERENCE_SERVICES, DEPLOYMENTS, LEADER_WORKER_SETS)
        self._made: dict[str, Object] = {}
        """Of each child by uid of its service and name: what was last written."""

    async def reconcile(self) -> None:
        for service in self.living(INFERENCE_SERVICES):
            for component in ("engine", "decoder"):
                if component in objects.spec(service):
                    await self._keep(service, component)

    async def _keep(self, service: Object, component: str) -> None:
        resource, wanted = child(service, component)
        key = f"{objects.uid(service)}/{objects.name(wanted)}"
        present = self.mirror.get(resource, objects.namespace(service), objects.name(wanted))
        if present is None:
            await self.create(resource, wanted)
        elif self._made.get(key) != wanted:
            await self.patch(resource, present, {"spec": wanted["spec"]})
        self._made[key] = wanted


def child(service: Object, component: str) -> tuple[Resource, Object]:
    """What OME makes of one component."""
    spec = objects.spec(service)[component]
    name = f"{objects.name(service)}-{component}"
    labels = {_SERVICE: objects.name(service), "component": component, "app": name, **(spec.get("labels") or {})}
    marks = {"labels": labels, "annotations": dict(spec.get("annotations") or {})}
    if "leader" not in spec:
        deployment = {
            "replicas": spec["minReplicas"], "selector": {"matchLabels": {"app": name}},
            "strategy": spec.get("deploymentStrategy") or _ROLLING,
            "template": {"metadata": marks, "spec": _pod_spec(spec)},
        }  # fmt: skip
        return DEPLOYMENTS, making.body_of(DEPLOYMENTS, name, service, INFERENCE_SERVICES, **marks, spec=deployment)
    group = {
        "size": spec["worker"]["size"] + 1,
        "restartPolicy": "RecreateGroupOnPodRestart",
        "leaderTemplate": {"metadata": marks, "spec": _pod_spec(spec["leader"])},
        "workerTemplate": {"metadata": marks, "spec": _pod_spec(spec["worker"])},
    }
    rolling = {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 1}}
    whole = {
        "replicas": spec["minReplicas"], "startupPolicy": "LeaderCreated", "rolloutStrategy": rolling,
        "networkConfig": {"subdomainPolicy": "Shared"}, "leaderWorkerTemplate": group,
    }  # fmt: skip
    short = f"lws-{name}"[-50:]
    body = making.body_of(LEADER_WORKER_SETS, short, service, INFERENCE_SERVICES, **marks, spec=whole)
    return LEADER_WORKER_SETS, body


def _pod_spec(component: Object) -> Object:
    """The pod spec that stands inline, with the runner as its container."""
    inline: dict[str, Any] = {key: value for key, value in component.items() if key not in _NO_POD_SPEC}
    return {**copy.deepcopy(inline), "containers": [*inline.get("containers", ()), copy.deepcopy(component["runner"])]}
