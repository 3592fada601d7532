"""An InferenceService of OME, and the MemFabric store that prefill and decode share."""

from __future__ import annotations

from typing import Any

from scaler.kube.api import Object
from scaler.rules.finding import Finding, Path
from scaler.tools.common.short_file.config import Component, File, MfStore, Probe, Router
from scaler.tools.common.short_file.elastic import MIN_AVAILABLE, Elastic, Group
from scaler.tools.common.short_file.parts import given, node_faults, npus, part, replaced
from scaler.tools.common.short_file.source import mistake

_START = (
    "source /usr/local/Ascend/ascend-toolkit/set_env.sh; source"
    " /usr/local/Ascend/nnal/atb/set_env.sh; python -m memfabric_hybrid.launch_ascend_mf_store"
)
_RESOURCES = {
    "requests": {"memory": "64Mi", "cpu": "50m"},
    "limits": {"memory": "256Mi", "cpu": "500m"},
}
_PROBES = {
    "liveness": ("/health", 30, 10, 3),
    "readiness": ("/ready", 5, 5, 3),
    "startup": ("/startup", 10, 5, 10),
}
_ROLLOUT = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
"""With OME's default, maxUnavailable 0, no rollout ends while an instance is held."""


def groups(file: File) -> list[Group]:
    """The groups of the rule."""
    service = part(file.inference_service)
    named = (
        [("prefill", service.engine), ("decode", service.decoder)]
        if service.decoder
        else [("engine", service.engine)]
    )
    found: list[Group] = []
    for name, one in named:
        if one:
            found.append(Group(name, name, one.max_replicas or one.min_replicas, one.pod_num))
    return found


def faults(file: File, elastic: Elastic | None) -> list[Finding]:
    """Combinations that are impossible."""
    service = part(file.inference_service)
    found: list[Finding] = []
    for name, one in (
        ("engine", service.engine),
        ("decoder", service.decoder),
        ("router", service.router),
    ):
        at = ("inference_service", name)
        if one is not None and one.max_replicas is not None and one.max_replicas < one.min_replicas:
            words = f"{one.max_replicas} is less than min_replicas, {one.min_replicas}"
            found.append(mistake((*at, "max_replicas"), words))
        if isinstance(one, Component):
            found += _component_faults(at, one, elastic)
    if service.decoder is not None and file.mf_store is None:
        found.append(
            mistake(
                (),
                "mf_store is missing",
                "prefill and decode need it: add mf_store: with its image",
            )
        )
    return found


def _component_faults(at: Path, one: Component, elastic: Elastic | None) -> list[Finding]:
    found = node_faults((*at, "npu_num"), one.npu_num, one.node_selector)
    ranks = one.tp_size * one.pp_size
    there = one.npu_num * one.pod_num
    if ranks > there > 0:
        words = (
            f"{ranks} ranks (tp_size x pp_size), and an instance of {one.pod_num} x {one.npu_num}"
            f" NPUs has {there}"
        )
        found.append(mistake((*at, "tp_size"), words))
    wanted = one.annotations.get(MIN_AVAILABLE, "1")
    if elastic is not None and wanted != "1":
        words = (
            f"{wanted} pods would wait for each other, and with ratios each instance starts by"
            " itself"
        )
        found.append(mistake((*at, "annotations", MIN_AVAILABLE), words, "leave it out"))
    return found


def objects(file: File, elastic: Elastic | None) -> tuple[Object, ...]:
    """The objects in the order of their writes."""
    service = part(file.inference_service)
    labels = [elastic.labels(group.role) if elastic else {} for group in groups(file)]
    spec: Object = {"model": {"name": service.model_name}}
    if service.runtime_name is not None:
        spec["runtime"] = {"name": service.runtime_name}
    spec["engine"] = _component(file, service.engine, labels[0], elastic)
    if service.decoder is not None:
        spec["decoder"] = _component(file, service.decoder, labels[1], elastic)
    if service.router is not None:
        spec["router"] = _router(service.router)
    made = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": file.app_name, "namespace": file.app_namespace},
        "spec": spec,
    }
    if service.decoder is None or file.mf_store is None:
        return (made,)
    return made, _store(file, file.mf_store), _store_service(file, file.mf_store)


def _component(
    file: File, one: Component, labels: dict[str, str], elastic: Elastic | None
) -> Object:
    """A component with the labels of its group; in an elastic service each instance starts by
    itself."""
    pod = {
        "schedulerName": "volcano",
        **({"schedulingGates": elastic.gates} if elastic else {}),
        **given(nodeSelector=one.node_selector),
        "runner": _runner(file, one),
    }
    alone = one.pod_num == 1
    together = (
        {} if elastic and not alone else {MIN_AVAILABLE: "1" if elastic else str(one.min_replicas)}
    )
    common: Object = {
        "minReplicas": one.min_replicas,
        "maxReplicas": one.max_replicas or one.min_replicas,
        "labels": {"fault-scheduling": "force", "pod-rescheduling": "on", **one.labels, **labels},
        **given(annotations={**together, **one.annotations}),
    }
    if alone:
        return {**common, **({"deploymentStrategy": _ROLLOUT} if elastic else {}), **pod}
    return {**common, "leader": pod, "worker": {**pod, "size": one.pod_num - 1}}


def _runner(file: File, part: Component) -> Object:
    env = {
        "DP_SIZE": str(part.dp_size),
        "TP_SIZE": str(part.tp_size),
        "PP_SIZE": str(part.pp_size),
        "ASCEND_MF_STORE_ADDRESS": f"{file.app_name}-mf-store",
    }
    return {
        "name": "ome-container",
        **given(image=part.image),
        "env": replaced(env, part.env_vars),
        "resources": npus(part.npu_num),
    }


def _router(router: Router) -> Object:
    runner = {
        "name": "sglang-router",
        **given(image=router.image, env=replaced({}, router.env_vars)),
    }
    return {
        **given(
            labels=router.labels, annotations=router.annotations, nodeSelector=router.node_selector
        ),
        "minReplicas": router.min_replicas,
        "maxReplicas": router.max_replicas or router.min_replicas,
        "runner": runner,
    }


def _store(file: File, store: MfStore) -> Object:
    labels = {"memfabric.ascend.com/name": file.app_name, "ome.io/inferenceservice": file.app_name}
    own: list[Any] = [
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "MF_STORE_PORT", "value": str(store.container_port)},
        {"name": "ASCEND_MF_STORE_URL", "value": "tcp://$(POD_IP):$(MF_STORE_PORT)"},
    ]
    ordered = dict(sorted(store.env_vars.items(), key=lambda item: item[0].lower()))
    container: Object = {
        "name": "ms-store",
        "image": store.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/bash", "-c", _START],
        "ports": [{"containerPort": store.container_port, "protocol": "TCP", "name": "http"}],
        "env": [*(one for one in own if one["name"] not in ordered), *replaced({}, ordered)],
        **given(resources=_resources(store)),
    }
    for name, usual in _PROBES.items():
        probe = getattr(store, f"{name}_probe")
        if probe is not None:
            container[f"{name}Probe"] = _probe(probe, usual, store.container_port)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": f"{file.app_name}-mf-store",
            "namespace": file.app_namespace,
            "labels": labels,
        },
        "spec": {
            "replicas": store.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": {**labels, "component": "mf-store"}},
                "spec": {"containers": [container], **given(nodeSelector=store.node_selector)},
            },
        },
    }


def _resources(store: MfStore) -> Object | None:
    if store.resources is None:
        return None
    found = {}
    for name, usual in _RESOURCES.items():
        found[name] = {**usual, **getattr(store.resources, name).model_dump(exclude_none=True)}
    return found


def _probe(probe: Probe, usual: tuple[str, int, int, int], port: int) -> Object:
    path, delay, period, failures = usual
    wait = probe.initial_delay_seconds
    return {
        "httpGet": {"path": probe.path or path, "port": probe.port or port},
        "initialDelaySeconds": delay if wait is None else wait,
        "periodSeconds": probe.period_seconds or period,
        "failureThreshold": probe.failure_threshold or failures,
    }


def _store_service(file: File, store: MfStore) -> Object:
    labels = {"memfabric.ascend.com/name": file.app_name}
    port = {"port": 9000, "targetPort": store.container_port, "protocol": "TCP", "name": "http"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": f"{file.app_name}-mf-store",
            "namespace": file.app_namespace,
            "labels": labels,
        },
        "spec": {"type": "ClusterIP", "selector": labels, "ports": [port]},
    }
