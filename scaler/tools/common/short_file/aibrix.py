"""A StormService of AIBrix, and a Service for each of its pods that answers requests."""

from __future__ import annotations

from scaler.kube.api import Object
from scaler.rules.finding import Finding
from scaler.tools.common.short_file.config import File, Role, Routing, StormService
from scaler.tools.common.short_file.elastic import MIN_AVAILABLE, Elastic, Group
from scaler.tools.common.short_file.parts import given, node_faults, npus, part, replaced
from scaler.tools.common.short_file.source import mistake

PORT = 8080
"""Port of the first data parallel rank of a pod; each further rank has the next port."""
MAX_PODS = 10_000
"""Limit of pods: each gets a Service."""
_POD_IP = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def groups(file: File) -> list[Group]:
    """The groups of the rule."""
    service = part(file.storm_service)
    return [Group(name, name, role.replicas, role.pod_group_size) for name, role in _roles(service)]


def faults(file: File, elastic: Elastic | None) -> list[Finding]:
    """Combinations that are impossible."""
    service = part(file.storm_service)
    found: list[Finding] = []
    for name, role in _roles(service):
        at = ("storm_service", name)
        found += node_faults((*at, "npu_num"), role.npu_num, role.node_selector)
        pods = role.pod_group_size
        each = role.npu_num
        if role.tp_size > pods * each > 0:
            words = (
                f"{role.tp_size} ranks, and an instance of {pods} x {each} NPUs has {pods * each}"
            )
            found.append(mistake((*at, "tp_size"), words))
        if role.replicas * pods > MAX_PODS:
            found.append(
                mistake(
                    (*at, "replicas"), f"{role.replicas} x {pods} pods are more than {MAX_PODS:,}"
                )
            )
        if service.distributed_dp is not False and role.dp_size % pods:
            words = (
                f"{role.dp_size} ranks cannot be shared out evenly over the {pods} pods of an"
                " instance"
            )
            found.append(
                mistake(
                    (*at, "dp_size"),
                    words,
                    f"write a multiple of {pods}, or distributed_dp: 'false'",
                )
            )
        wanted = role.annotations.get(MIN_AVAILABLE, str(pods))
        if elastic is not None and wanted != str(pods):
            words = (
                f"{wanted} pods would wait for each other, and with ratios an instance has {pods}"
            )
            found.append(mistake((*at, "annotations", MIN_AVAILABLE), words, "leave it out"))
    if service.distributed_dp and service.routing is None:
        how = "add routing: with its image, or write distributed_dp: 'false'"
        found.append(mistake(("storm_service", "distributed_dp"), "this needs routing", how))
    return found


def objects(file: File, elastic: Elastic | None) -> tuple[Object, ...]:
    """The objects in the order of their writes."""
    service = part(file.storm_service)
    roles = [_role(name, service, elastic) for name, _ in _roles(service)]
    if service.routing is not None:
        roles.append(_routing(service, service.routing))
    labels = {"app": file.app_name}
    made: Object = {
        "apiVersion": "orchestration.aibrix.ai/v1alpha1",
        "kind": "StormService",
        "metadata": {"name": file.app_name, "namespace": file.app_namespace},
        "spec": {
            "replicas": 1,
            "updateStrategy": {"type": "InPlaceUpdate"},
            "stateful": True,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"roles": roles}},
        },
    }
    objects = [made]
    for name, role in _roles(service):
        objects.extend(_services(file, name, role))
    return tuple(objects)


def _roles(service: StormService) -> list[tuple[str, Role]]:
    return [("prefill", service.prefill), ("decode", service.decode)]


def _distributed(service: StormService) -> str:
    return "false" if service.distributed_dp is False else "true"


def _role(name: str, service: StormService, elastic: Elastic | None) -> Object:
    role: Role = getattr(service, name)
    alone = role.pod_group_size == 1
    labels = {
        "model.aibrix.ai/name": service.model_name,
        "model.aibrix.ai/port": str(PORT),
        "model.aibrix.ai/engine": "vllm",
        "fault-scheduling": "force",
        **({"pod-rescheduling": "on"} if alone else {}),
        **role.labels,
        **(elastic.labels(name) if elastic else {}),
    }
    annotations = {
        MIN_AVAILABLE: str(role.pod_group_size if elastic else _together(name, service)),
        **({"huawei.com/recover_policy_path": "pod"} if alone else {}),
        **role.annotations,
    }
    spec = {
        "schedulerName": "volcano",
        **({"schedulingGates": elastic.gates} if elastic else {}),
        **given(nodeSelector=role.node_selector),
        "containers": [_container(name, role, service)],
        "volumes": [
            {"name": "model", "hostPath": {"path": service.models_mount, "type": "Directory"}},
            {"name": "shared-mem", "emptyDir": {"medium": "Memory"}},
            _scripts(service),
            {"name": "hccn", "hostPath": {"path": "/etc/hccn.conf"}},
        ],
    }
    return {
        "name": name,
        "replicas": role.replicas,
        "podGroupSize": role.pod_group_size,
        "stateful": True,
        "template": {"metadata": {"annotations": annotations, "labels": labels}, "spec": spec},
    }


def _scripts(service: StormService) -> Object:
    return {"name": "scripts", "hostPath": {"path": service.scripts_mount}}


def _mounted_scripts(service: StormService) -> Object:
    return {"name": "scripts", "mountPath": service.scripts_mount}


def _together(name: str, service: StormService) -> int:
    """How many pods start together, as in the deployer."""
    role: Role = getattr(service, name)
    other = service.decode if name == "prefill" else service.prefill
    if role.pod_group_size > 1:
        return role.pod_group_size
    return role.replicas if other.pod_group_size > 1 else role.replicas + other.replicas


def _container(name: str, role: Role, service: StormService) -> Object:
    env = {
        "DISTRIBUTED_DP": _distributed(service),
        "PREFILL_DP_SIZE": str(service.prefill.dp_size),
        "PREFILL_TP_SIZE": str(service.prefill.tp_size),
        "DECODE_DP_SIZE": str(service.decode.dp_size),
        "DECODE_TP_SIZE": str(service.decode.tp_size),
        "PREFILL_NUM": str(service.prefill.replicas),
        "DECODE_NUM": str(service.decode.replicas),
        "MODEL_NAME": service.model_name,
        "MODEL_PATH": service.model_path,
    }
    return {
        "name": name,
        "image": role.image,
        "workingDir": service.scripts_mount,
        "command": ["/bin/bash", "-c"],
        "args": ["bash start_server.sh"],
        "env": [_POD_IP, *replaced(env, {})],
        "volumeMounts": [
            {"name": "model", "mountPath": service.models_mount},
            {"name": "shared-mem", "mountPath": "/dev/shm"},  # noqa: S108 - inside the container
            _mounted_scripts(service),
            {"name": "hccn", "mountPath": "/etc/hccn.conf"},
        ],
        "resources": npus(role.npu_num if name == "prefill" else str(role.npu_num)),
    }


def _routing(service: StormService, routing: Routing) -> Object:
    env = {
        "DISTRIBUTED_DP": _distributed(service),
        "PREFILL_NUM": str(service.prefill.replicas),
        "PREFILL_POD": str(service.prefill.pod_group_size),
        "PREFILL_DP_SIZE": str(service.prefill.dp_size),
        "DECODE_NUM": str(service.decode.replicas),
        "DECODE_POD": str(service.decode.pod_group_size),
        "DECODE_DP_SIZE": str(service.decode.dp_size),
    }
    container = {
        "name": "router",
        "image": routing.image,
        "workingDir": service.scripts_mount,
        "command": ["/bin/bash", "-c"],
        "args": ["bash start_proxy.sh"],
        "env": [_POD_IP, *replaced(env, {})],
        "volumeMounts": [_mounted_scripts(service)],
    }
    return {
        "name": "routing",
        "replicas": routing.replicas,
        "stateful": True,
        "template": {
            "metadata": given(annotations=routing.annotations, labels=routing.labels),
            "spec": {
                **given(nodeSelector=routing.node_selector),
                "containers": [container],
                "volumes": [_scripts(service)],
            },
        },
    }


def _services(file: File, name: str, role: Role) -> list[Object]:
    """One Service per pod; if the ranks of an instance share one port, one for its first pod."""
    together = part(file.storm_service).distributed_dp is False
    pods = 1 if together else role.pod_group_size
    ports = 1 if together else role.dp_size // role.pod_group_size
    names = ["http"] if together else [f"http-{rank}" for rank in range(ports)]
    made = []
    for replica in range(role.replicas):
        for pod in range(pods):
            labels = {
                "storm-service-name": file.app_name,
                "role-name": name,
                "stormservice.orchestration.aibrix.ai/role-replica-index": str(replica),
            }
            behind = ""
            if role.pod_group_size > 1:
                labels["stormservice.orchestration.aibrix.ai/pod-group-index"] = str(pod)
                behind = f"-{pod}"
            made.append(_service(file, f"{file.app_name}-{name}-{replica}{behind}", labels, names))
    return made


def _service(file: File, name: str, labels: dict[str, str], names: list[str]) -> Object:
    ports = []
    for number, one in enumerate(names):
        ports.append(
            {"port": PORT + number, "targetPort": PORT + number, "protocol": "TCP", "name": one}
        )
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": file.app_namespace, "labels": labels},
        "spec": {"type": "ClusterIP", "selector": labels, "ports": ports},
    }
