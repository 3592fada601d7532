"""AscendJobs of MindIE Motor: controller, coordinator and one per instance, each with its further
objects.

Objects that MindIE's deployer makes from its own files (scripts and configurations, `NEEDED`) are
not made here."""

from __future__ import annotations

from typing import Any, NamedTuple

from scaler.kube.api import Object
from scaler.rules.finding import Finding
from scaler.tools.common.short_file.config import File, MotorService, Servers
from scaler.tools.common.short_file.elastic import Elastic, Group
from scaler.tools.common.short_file.parts import npus, part, replaced
from scaler.tools.common.short_file.source import mistake

RULE = "scaling-rule"
"""The name of the rule that MindIE's controller mounts."""
NEEDED = (
    "common-env",
    "boot-bash-script",
    "server-prestop-bash-script",
    "python-script-get-group-id",
    "python-script-update-server-conf",
    "python-script-gen-config-single-container",
    "python-file-utils",
    "global-ranktable",
    "mindie-ms-controller-config",
    "mindie-ms-coordinator-config",
    "mindie-ms-node-manager-config",
    "mindie-http-client-ctl-config",
)
"""ConfigMaps that MindIE's deployer makes from its own files; every pod mounts some of them."""
_NODES = {"800I_A2": (8, "module-910b-8"), "800I_A3": (16, "module-a3-16")}
"""Hardware -> NPUs of a node, and its label accelerator-type."""
_LOGS = "/root/mindie"
_PACKAGE = "/usr/local/lib/python3.11/site-packages/mindie_motor"
_READ = 0o640
_RUN = 0o550
_SCRIPTS = {
    "python-script-get-group-id": ("get_group_id.py", _READ),
    "python-file-utils": ("file_utils.py", _RUN),
    "boot-bash-script": ("boot.sh", _RUN),
}
_SERVER_SCRIPTS = {
    "python-script-update-server-conf": ("update_mindie_server_config.py", _RUN),
    "server-prestop-bash-script": ("server_prestop.sh", _RUN),
    "python-script-gen-config-single-container": ("gen_config_single_container.py", _RUN),
}
_DROPPED = {"capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}


class _Kind(NamedTuple):
    """Prefill or decode, with MindIE's names."""

    letter: str
    group: str
    deploy_server: str
    level: str
    priority: int


_KINDS = {
    "prefill": _Kind("p", "group0", "0", "low", 1),
    "decode": _Kind("d", "group1", "1", "high", 100),
}


def groups(file: File) -> list[Group]:
    """The groups of the rule."""
    service = part(file.motor_service)
    found: list[Group] = []
    for role, kind in _KINDS.items():
        servers: Servers = getattr(service, role)
        found.append(Group(role, kind.group, servers.replicas, servers.pod_num))
    return found


def faults(file: File, elastic: Elastic | None) -> list[Finding]:
    """Combinations that are impossible."""
    service = part(file.motor_service)
    most = _NODES[service.hardware][0]
    found = []
    for role in _KINDS:
        count = getattr(service, role).npu_num
        if count is not None and count > most:
            words = f"a node of {service.hardware} has {most} NPUs, and a pod asks for {count}"
            found.append(mistake(("motor_service", role, "npu_num"), words))
    if not 30_000 <= service.node_port <= 32_767:
        how = "write a number from 30000 to 32767"
        found.append(
            mistake(("motor_service", "node_port"), f"{service.node_port} is no node port", how)
        )
    if elastic is None:
        how = "add ratios: [...], the largest first; MindIE's controller reads the rule as well"
        found.append(mistake((), "ratios is missing", how))
    return found


def objects(file: File, elastic: Elastic | None) -> tuple[Object, ...]:
    """The objects in the order of their writes."""
    service = part(file.motor_service)
    rule = part(elastic)
    made = [_coordinator(file, service), _entrance(file, service), _controller(file, service)]
    for role in _KINDS:
        for number in range(getattr(service, role).replicas):
            made += _instance(file, rule, role, number)
    return tuple(made)


def _instance(file: File, elastic: Elastic, role: str, number: int) -> list[Object]:
    service = part(file.motor_service)
    kind = _KINDS[role]
    servers: Servers = getattr(service, role)
    tail = f"{kind.letter}{number}"
    ours = {
        "grt-group/deploy-server": kind.deploy_server,
        **elastic.labels(role),
        "ring-controller.atlas": "ascend-910b",
    }
    name = f"{file.app_name}-server-{tail}"
    rings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(file, f"rings-config-{name}", {"mx-consumer-cim": "true", **ours}),
        "data": {"hccl.json": '{\n    "status":"initializing"\n}\n'},
    }
    priority: Object = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"{file.app_name}-{kind.level}-priority-{tail}"},
        "value": kind.priority,
        "globalDefault": False,
        "description": "D used for high-priority jobs and P for low-priority jobs",
    }
    labels = {
        "framework": "pytorch",
        "app": "mindie-ms-server",
        "fault-scheduling": "force",
        "fault-retry-times": "10000",
        **servers.labels,
        **ours,
    }
    job = _job(_metadata(file, name, labels), servers.pod_num)
    job["spec"]["runPolicy"]["schedulingPolicy"]["priorityClass"] = priority["metadata"]["name"]
    count, _ = _NODES[service.hardware]
    block = (
        {"sp-block": str(servers.pod_num * (servers.npu_num or count))}
        if service.hardware == "800I_A3"
        else {}
    )
    if block or servers.annotations:
        job["metadata"]["annotations"] = {**block, **servers.annotations}
    job["spec"]["replicaSpecs"] = {
        "Master": _replicas(file, 1, _server(file, role, tail, worker=False)),
        "Worker": _replicas(file, servers.pod_num - 1, _server(file, role, tail, worker=True)),
    }
    return [rings, priority, job]


def _metadata(file: File, name: str, labels: dict[str, str]) -> Object:
    return {
        "name": name,
        "namespace": file.app_namespace,
        "labels": {"jobID": file.app_name, **labels},
    }


def _job(metadata: Object, pods: int) -> Object:
    return {
        "apiVersion": "mindxdl.gitee.com/v1",
        "kind": "AscendJob",
        "metadata": metadata,
        "spec": {
            "schedulerName": "volcano",
            "runPolicy": {"schedulingPolicy": {"minAvailable": pods, "queue": "default"}},
            "successPolicy": "AllWorkers",
        },
    }


def _replicas(file: File, count: int, spec: Object) -> Object:
    labels = {
        "ring-controller.atlas": "ascend-910b",
        "app": "mindie-ms-server",
        "jobID": file.app_name,
    }
    return {
        "replicas": count,
        "restartPolicy": "Never",
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }


def _server(file: File, role: str, tail: str, *, worker: bool) -> Object:
    """The pod of an instance."""
    service = part(file.motor_service)
    kind = _KINDS[role]
    servers: Servers = getattr(service, role)
    count, node = _NODES[service.hardware]
    amount = npus(servers.npu_num or count)
    env = {
        "ROLE": kind.letter,
        "MINDIE_LOG_CONFIG_PATH": _LOGS,
        "GLOBAL_RANK_TABLE_FILE_PATH": (
            "/user/serverid/devindex/config/..data/global_ranktable.json"
        ),
        "CONFIG_FROM_CONFIGMAP_PATH": "/mnt/configmap",
        "INITIAL_DP_SERVER_PORT": "10000",
        **servers.env_vars,
    }
    config = f"{file.app_name}-server-{tail}-config"
    own = {
        config: ("config.json", _READ),
        "mindie-ms-node-manager-config": ("node_manager.json", _READ),
    }
    mounts, volumes = _files({**own, **_COMMON, **_SCRIPTS, **_SERVER_SCRIPTS})
    volumes += [
        *_folders(
            data="/data", home="/home", queue="/var/queue_schedule", weights=service.model_path
        ),
        *_everywhere(service),
        {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
        _map(f"ascend-910-config-{tail}", f"rings-config-{file.app_name}-server-{tail}", _READ),
        {"name": "hccn-conf", "hostPath": {"path": "/etc/hccn.conf", "type": "File"}},
    ]
    mounts += [
        {"name": "data", "mountPath": "/data", "readOnly": True},
        {"name": "home", "mountPath": "/home"},
        {"name": "queue-schedule", "mountPath": "/var/queue_schedule"},
        {"name": "weight-mount-path", "mountPath": service.model_path},
        *_MOUNTED_EVERYWHERE,
        {"name": "dshm", "mountPath": "/dev/shm"},  # noqa: S108 - inside the container
        {"name": f"ascend-910-config-{tail}", "mountPath": "/user/serverid/devindex/config/hccl"},
        {"name": "hccn-conf", "mountPath": "/etc/hccn.conf", "readOnly": True},
    ]
    container = {
        **_container(service, mounts),
        "securityContext": {"privileged": True, **({} if worker else _DROPPED)},
        "env": [
            _field("POD_IP", "status.podIP"),
            _field("POD_UID", "metadata.uid"),
            *replaced(env, {}),
        ],
        "lifecycle": {
            "preStop": {
                "exec": {"command": ["/bin/bash", "-c", "/mnt/configmap/server_prestop.sh;"]}
            }
        },
        "resources": {
            "requests": {"memory": "1000Gi", "cpu": "16", **amount["requests"]},
            "limits": {"memory": "1000Gi", **amount["limits"]},
        },
    }
    selector = {
        "accelerator": "huawei-Ascend910",
        "accelerator-type": node,
        **servers.node_selector,
    }
    return {
        **({"affinity": _APART} if worker else {}),
        "nodeSelector": selector,
        **_pod(60, container, volumes),
    }


def _coordinator(file: File, service: MotorService) -> Object:
    own = {"mindie-ms-coordinator-config": ("ms_coordinator.json", _READ)}
    resources = {
        "requests": {"memory": "12Gi", "cpu": "16"},
        "limits": {"memory": "16Gi", "cpu": "64"},
    }
    return _manager(file, service, "coordinator", own, resources)


def _controller(file: File, service: MotorService) -> Object:
    resources = {"requests": {"memory": "2Gi", "cpu": "4"}, "limits": {"memory": "4Gi", "cpu": "8"}}
    job = _manager(file, service, "controller", {}, resources)
    spec = job["spec"]["replicaSpecs"]["Master"]["template"]["spec"]
    conf = f"{_PACKAGE}/conf/elastic_scaling.json"
    spec["containers"][0]["volumeMounts"] += [
        {"name": RULE, "mountPath": conf, "subPath": "elastic_scaling.json"},
        {"name": "status-data", "mountPath": f"{_PACKAGE}/logs"},
    ]
    status = {"path": "/data/mindie-ms/status", "type": "DirectoryOrCreate"}
    spec["volumes"] += [_map(RULE, RULE, _READ), {"name": "status-data", "hostPath": status}]
    return job


def _manager(
    file: File, service: MotorService, name: str, own: dict[str, tuple[str, int]], resources: Object
) -> Object:
    """MindIE's controller or coordinator: no instance, so it has no labels of the rule."""
    app = f"mindie-ms-{name}"
    other = "controller" if name == "coordinator" else "coordinator"
    conf = {"mindie-ms-controller-config": ("ms_controller.json", _READ), **own}
    mounts, volumes = _files({**conf, **_COMMON, **_SCRIPTS})
    env = {
        "GLOBAL_RANK_TABLE_FILE_PATH": (
            "/user/serverid/devindex/config/..data/global_ranktable.json"
        ),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "MIES_INSTALL_PATH": _PACKAGE,
        "CONFIG_FROM_CONFIGMAP_PATH": "/mnt/configmap",
        f"{name.upper()}_LOG_CONFIG_PATH": _LOGS,
    }
    container = {
        **_container(service, [*mounts, *_MOUNTED_EVERYWHERE]),
        "securityContext": {"privileged": True, **_DROPPED},
        "readinessProbe": _probe("readiness 1 0"),
        "livenessProbe": {**_probe("liveness 4 0"), "timeoutSeconds": 4},
        "startupProbe": {**_probe("startup 1 0"), "failureThreshold": 100},
        "env": [
            _field("POD_IP", "status.podIP"),
            *replaced(env, {}),
            _field("POD_NAMESPACE", "metadata.namespace"),
        ],
        "resources": resources,
    }
    spec = {
        **_pod(0, container, [*volumes, *_everywhere(service)]),
        "affinity": _beside(f"mindie-ms-{other}"),
    }
    labels = {"framework": "pytorch", "app": app, "ring-controller.atlas": "ascend-910b"}
    job = _job(_metadata(file, f"{file.app_name}-{name}", labels), 1)
    template = {"metadata": {"labels": {"app": app, "jobID": file.app_name}}, "spec": spec}
    job["spec"]["replicaSpecs"] = {
        "Master": {"replicas": 1, "restartPolicy": "Always", "template": template}
    }
    return job


def _entrance(file: File, service: MotorService) -> Object:
    labels = {"app": "mindie-ms-coordinator", "jobID": file.app_name}
    port = {
        "name": "infer-http",
        "nodePort": service.node_port,
        "port": 1025,
        "protocol": "TCP",
        "targetPort": 1025,
    }
    name = "mindie-ms-coordinator-infer"
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": file.app_namespace, "labels": labels},
        "spec": {
            "ports": [port],
            "selector": {"app": "mindie-ms-coordinator"},
            "sessionAffinity": "None",
            "type": "NodePort",
        },
    }


# Parts of pods

_COMMON = {"mindie-http-client-ctl-config": ("http_client_ctl.json", _READ)}
_MOUNTED_EVERYWHERE: list[Object] = [
    {"name": "global-ranktable", "mountPath": "/user/serverid/devindex/config"},
    {"name": "localtime", "mountPath": "/etc/localtime"},
    {"name": "mnt", "mountPath": "/mnt"},
    {"name": "mindie-log", "mountPath": _LOGS},
]
_APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {
                    "matchExpressions": [
                        {"key": "deploy-name", "operator": "In", "values": ["mindie-server"]}
                    ]
                },
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}


def _everywhere(service: MotorService) -> list[Object]:
    """The volumes of every pod."""
    return [
        _map("global-ranktable", "global-ranktable", _READ),
        {"name": "localtime", "hostPath": {"path": "/etc/localtime"}},
        {"name": "mnt", "hostPath": {"path": "/mnt"}},
        {"name": "mindie-log", "hostPath": {"path": service.log_path}},
    ]


def _folders(*, data: str, home: str, queue: str, weights: str) -> list[Object]:
    paths = {"data": data, "home": home, "queue-schedule": queue, "weight-mount-path": weights}
    return [{"name": name, "hostPath": {"path": path}} for name, path in paths.items()]


def _files(maps: dict[str, tuple[str, int]]) -> tuple[list[Any], list[Any]]:
    """Mounts and volumes of files from ConfigMaps, each with the mode of its files."""
    mounts = []
    for name, (file, _) in maps.items():
        mounts.append({"name": name, "mountPath": f"/mnt/configmap/{file}", "subPath": file})
    return mounts, [_map(name, name, mode) for name, (_, mode) in maps.items()]


def _map(name: str, config_map: str, mode: int) -> Object:
    return {"name": name, "configMap": {"name": config_map, "defaultMode": mode}}


def _container(service: MotorService, mounts: list[Object]) -> Object:
    return {
        "name": "ascend",
        "image": service.image,
        "imagePullPolicy": "IfNotPresent",
        "envFrom": [{"configMapRef": {"name": "common-env"}}],
        "command": ["/bin/bash", "-c", " /mnt/configmap/boot.sh; \n "],
        "volumeMounts": mounts,
    }


def _pod(grace: int, container: Object, volumes: list[Object]) -> Object:
    return {
        "terminationGracePeriodSeconds": grace,
        "automountServiceAccountToken": False,
        "securityContext": {"fsGroup": 1001},
        "containers": [container],
        "volumes": volumes,
    }


def _field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _probe(arguments: str) -> Object:
    words = f"$MIES_INSTALL_PATH/scripts/http_client_ctl/probe.sh {arguments}"
    return {"exec": {"command": ["bash", "-c", words]}, "periodSeconds": 5}


def _beside(other: str) -> Object:
    """Affinity for nodes without NPUs, if possible not the node of the other component."""
    no_npus = {"key": "accelerator", "operator": "NotIn", "values": ["huawei-Ascend910"]}
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": [other]}]}
    term = {
        "weight": 100,
        "podAffinityTerm": {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"},
    }
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [no_npus]}]
            }
        },
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]},
    }
