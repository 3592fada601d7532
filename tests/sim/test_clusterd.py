"""The stand-in for ClusterD: under which conditions it publishes a global rank table, and what it
gathers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scaler.kube.api import Object
from scaler.sim.actors.clusterd import cluster_info, global_tables

DONE = {"status": "completed", "server_list": [{"container_ip": "10.0.0.1"}]}


def rings(name: str, table: Any = DONE, **labels: str) -> Object:
    text = table if isinstance(table, str) else json.dumps(table)
    given = {"mx-consumer-cim": "true", "jobID": "mindie", "grt-group/deploy-server": "0", **labels}
    meta = {"name": f"rings-config-{name}", "namespace": "mindie", "labels": given}
    return {"metadata": meta, "data": {"hccl.json": text}}


def mindie_pod(role: str, **status: str) -> Object:
    labels = {"app": f"mindie-ms-{role}", "jobID": "mindie"}
    meta = {"name": role, "namespace": "mindie", "labels": labels}
    return {"metadata": meta, "status": {"hostIP": "172.0.0.1", "podIP": "10.9.9.9", **status}}


PODS = [mindie_pod("controller"), mindie_pod("coordinator")]


def published(config_maps: list[Object], pods: list[Object]) -> list[str] | None:
    """The jobs in the global table, None when there is none."""
    found = global_tables(config_maps, pods)
    if not found:
        return None
    (data,) = found.values()
    return [
        g["job"]
        for g in json.loads(data["global_ranktable"])["server_group_list"]
        if g["group_id"] == "2"
    ]


def test_only_completed_tables_are_published() -> None:
    assert published([rings("p0"), rings("d0", {"status": "initializing"})], PODS) == ["p0"]


@pytest.mark.parametrize(
    ("config_maps", "pods"),
    [
        ([rings("p0", {"status": "initializing"})], PODS),
        ([rings("p0"), rings("d0", "not JSON")], PODS),
        ([rings("p0"), rings("d0", **{"grt-server/deploy-server": "1"})], PODS),
        ([rings("p0", **{"mx-consumer-cim": "no"})], PODS),
        ([rings("p0")], PODS[:1]),
        ([rings("p0")], [PODS[0], mindie_pod("coordinator", podIP="")]),
    ],
    ids=[
        "none completed",
        "unreadable",
        "two labels",
        "not labelled",
        "no coordinator",
        "no address",
    ],
)
def test_nothing_is_published_while_a_condition_is_not_met(
    config_maps: list[Object], pods: list[Object]
) -> None:
    assert published(config_maps, pods) is None


def test_what_nodes_report_is_gathered_and_stays_there_empty_when_all_is_well() -> None:
    info = {"NodeInfo": {"FaultDevList": [], "NodeStatus": "UnHealthy"}}
    node = {
        "metadata": {"name": "mindx-dl-nodeinfo-n1", "namespace": "mindx-dl"},
        "data": {"NodeInfo": json.dumps(info)},
    }
    assert cluster_info([]) == {}
    first = cluster_info([node])
    assert json.loads(first["mindx-dl", "cluster-info-node-cm"]["cluster-info-node-cm"]) == {
        "mindx-dl-nodeinfo-n1": {
            "FaultDevList": [],
            "NodeStatus": "UnHealthy",
            "CmName": "mindx-dl-nodeinfo-n1",
        }
    }
    ours = {"metadata": {"name": "cluster-info-node-cm", "namespace": "mindx-dl"}, "data": {}}
    assert cluster_info([ours])["mindx-dl", "cluster-info-node-cm"] == {"cluster-info-node-cm": ""}
