"""A stand-in for ClusterD: collects the reports of all nodes, and makes one global rank table per
service.

A global rank table is published only under the conditions of the real one: every rank table of the
service must be readable and have exactly one `grt-*` label, at least one must be completed, and
MindIE's controller and coordinator must have addresses. Only completed tables are included. Must
not: write anything but its own ConfigMaps."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from scaler.kube.api import CONFIG_MAPS, PODS, KubeApi, Object
from scaler.sim.actors import objects
from scaler.sim.actors.devices import (
    DEVICE_NAMESPACE,
    DEVICE_PREFIX,
    NODE_NAMESPACE,
    NODE_PREFIX,
    put,
)
from scaler.sim.actors.stand_in import StandIn
from scaler.workloads.stages import STAGE_LABELS

RINGS_PREFIX = "rings-config-"
LABELS = {"mx-consumer-volcano": "true"}
_ROLES = {"mindie-ms-coordinator": "0", "mindie-ms-controller": "1"}
"""App label of MindIE's own pods -> group id in the global rank table; servers are group 2."""

_GRT_LABELS = set(STAGE_LABELS)

Documents = dict[tuple[str, str], dict[str, str]]
"""(namespace, name) of a ConfigMap -> its data."""


class ClusterD(StandIn):
    """Follows reports, rank tables and pods; publishes on every change."""

    def __init__(self, api: KubeApi) -> None:
        super().__init__(api, CONFIG_MAPS, PODS)
        self._published: Documents = {}

    async def _round(self) -> None:
        config_maps = self.mirror.all(CONFIG_MAPS)
        wanted = {**cluster_info(config_maps), **global_tables(config_maps, self.mirror.all(PODS))}
        for (namespace, name), data in wanted.items():
            labels = LABELS if namespace == NODE_NAMESPACE else {}
            new = self._published.get((namespace, name)) != data
            if new and await self.attempt(put(self.api, namespace, name, data, labels)):
                self._published[namespace, name] = data


def cluster_info(config_maps: list[Object]) -> Documents:
    """The three documents in mindx-dl; none while no node has reported anything."""
    devices: dict[str, Any] = {}
    switches: dict[str, Any] = {}
    nodes: dict[str, Any] = {}
    for cm in config_maps:
        name = objects.name(cm)
        data = cm.get("data") or {}
        if objects.namespace(cm) == DEVICE_NAMESPACE and name.startswith(DEVICE_PREFIX):
            document = json.loads(data["DeviceInfoCfg"])
            devices[name] = {**document["DeviceInfo"], "CmName": name}
            if document.get("SuperPodID", -1) >= 0:
                devices[name]["SuperPodID"] = document["SuperPodID"]
            if "SwitchInfoCfg" in data:
                node = name.removeprefix(DEVICE_PREFIX)
                switches[f"mindx-dl-switchinfo-{node}"] = json.loads(data["SwitchInfoCfg"])
        elif objects.namespace(cm) == NODE_NAMESPACE and name.startswith(NODE_PREFIX):
            nodes[name] = {**json.loads(data["NodeInfo"])["NodeInfo"], "CmName": name}
    found = {
        "cluster-info-device-0": devices,
        "cluster-info-node-cm": nodes,
        "cluster-info-switch-0": switches,
    }
    there = {objects.name(cm) for cm in config_maps if objects.namespace(cm) == NODE_NAMESPACE}
    if not (devices or nodes or there & set(found)):
        return {}
    return {
        (NODE_NAMESPACE, name): {name: json.dumps(value) if value else ""}
        for name, value in found.items()
    }


def global_tables(config_maps: list[Object], pods: list[Object]) -> Documents:
    """The global rank table of each service that meets the conditions now."""
    services: dict[tuple[str, str], list[Object]] = defaultdict(list)
    for cm in config_maps:
        labels = objects.labels_of(cm)
        if (
            objects.name(cm).startswith(RINGS_PREFIX)
            and labels.get("mx-consumer-cim") == "true"
            and "jobID" in labels
        ):
            services[objects.namespace(cm), labels["jobID"]].append(cm)
    published: Documents = {}
    for (namespace, job_id), tables in services.items():
        table = _global_table(namespace, job_id, tables, pods)
        if table is not None:
            name = f"global-ranktable-{job_id}"
            published[namespace, name] = {"global_ranktable": json.dumps(table)}
    return published


def _global_table(
    namespace: str, job_id: str, config_maps: list[Object], pods: list[Object]
) -> Any:
    groups = [_role_group(app, group, namespace, job_id, pods) for app, group in _ROLES.items()]
    servers = []
    for config_map in config_maps:
        table = _content(config_map)
        labels = _GRT_LABELS & objects.labels_of(config_map).keys()
        if table is None or len(labels) != 1:
            return None
        if table.get("status") == "completed":
            job = objects.name(config_map).removeprefix(RINGS_PREFIX)
            servers.append({"group_id": "2", "job": job, "server_list": table["server_list"]})
    if not all(groups) or not servers:
        return None
    return {"version": "1.0", "status": "completed", "server_group_list": [*groups, *servers]}


def _role_group(app: str, group: str, namespace: str, job_id: str, pods: list[Object]) -> Any:
    """MindIE's own pods of one role; None without a pod that has both addresses."""
    for pod in pods:
        labels = objects.labels_of(pod)
        status = objects.status(pod)
        of_service = objects.namespace(pod) == namespace and labels.get("jobID") == job_id
        ours = of_service and labels.get("app") == app
        if ours and status.get("hostIP") and status.get("podIP"):
            return {
                "group_id": group,
                "server_list": [{"server_ip": status["podIP"], "host_ip": status["hostIP"]}],
            }
    return None


def _content(cm: Object) -> Any:
    try:
        content = json.loads((cm.get("data") or {}).get("hccl.json", ""))
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
