"""Rank tables: when a table is complete, what it says, and that nothing wrong in an annotation gets
into one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.kube.api import Object
from scaler.ranktables.table import (
    INITIALIZING,
    Layout,
    RankTable,
    RankTablePod,
    Status,
    layout_of,
    rank_table,
)
from scaler.workloads.ascendjob import read_job
from scaler.workloads.devices import PodDevices, pack
from scaler.workloads.membership import Job
from tests import jobs


def job(
    pods: int = 2,
    *,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
) -> Object:
    obj = jobs.job("p0", pods=pods, uid="u1")
    obj["metadata"]["annotations"] = annotations or {}
    obj["metadata"]["labels"] |= labels or {}
    return obj


def configuration(node: int, chips: int = 2, **changes: Any) -> str:
    devices = [
        {
            "device_id": str(chip),
            "device_ip": f"10.{node}.0.{chip}",
            "super_device_id": str(node * 100 + chip),
        }
        for chip in range(chips)
    ]
    address = f"192.168.0.{node}"
    return json.dumps(
        {"server_id": f"uid-{node}", "host_ip": address, "devices": devices, **changes}
    )


def member(name: str, node: int, text: str | None = None, **devices: Any) -> RankTablePod:
    values: dict[str, Any] = {
        "rank_index": "",
        "packed": pack(
            configuration(node) if text is None else text, devices.pop("ip", f"10.244.0.{node}")
        ),
        **devices,
    }
    return RankTablePod(f"p0-{name}", f"node-{node}", PodDevices(**values))


TWO = (member("master-0", 1), member("worker-0", 2))


def table(members: Any = TWO, obj: Object | None = None) -> RankTable:
    found = obj if obj is not None else job()
    return rank_table(read_job(found), found, members)


def content(made: RankTable) -> Any:
    assert made.problem == ""
    assert made.status is Status.COMPLETED
    return json.loads(made.text)


def test_layout_1_0_is_written_byte_for_byte_as_documented() -> None:
    assert table().text == (
        '{"status":"completed","server_list":['
        '{"device":[{"device_id":"0","device_ip":"10.1.0.0","rank_id":"0"},'
        '{"device_id":"1","device_ip":"10.1.0.1","rank_id":"1"}],'
        '"server_id":"192.168.0.1","host_ip":"192.168.0.1","container_ip":"10.244.0.1"},'
        '{"device":[{"device_id":"0","device_ip":"10.2.0.0","rank_id":"2"},'
        '{"device_id":"1","device_ip":"10.2.0.1","rank_id":"3"}],'
        '"server_id":"192.168.0.2","host_ip":"192.168.0.2","container_ip":"10.244.0.2"}],'
        '"server_count":"2","version":"1.0"}'
    )


def test_the_order_in_which_pods_are_seen_does_not_change_a_byte() -> None:
    assert table(tuple(reversed(TWO))).text == table().text


def test_layout_1_2_adds_super_devices_and_super_pods_in_the_order_of_ranks() -> None:
    members = (
        member("worker-0", 2, super_pod="7"),
        member("master-0", 1, super_pod="9", hardware_type="A3-64G"),
    )
    found = content(table(members, job(annotations={"sp-block": "4"})))
    assert found["version"] == "1.2"
    assert list(found["server_list"][0]) == [
        "device",
        "hardware_type",
        "server_id",
        "host_ip",
        "container_ip",
    ]
    assert found["server_list"][0]["device"][1] == {
        "device_id": "1",
        "device_ip": "10.1.0.1",
        "super_device_id": "101",
        "rank_id": "1",
    }
    assert found["super_pod_list"] == [
        {"super_pod_id": "9", "server_list": [{"server_id": "192.168.0.1"}]},
        {"super_pod_id": "7", "server_list": [{"server_id": "192.168.0.2"}]},
    ]


def level(number: int, kind: str, name: str) -> Object:
    element = {
        "net_layer": number,
        "net_instance_id": name,
        "net_type": "CLOS",
        "net_attr": "",
        "rank_addr_list": [],
    }
    return {"level": number, "info": {kind: element}}


def npu_job(scale_out: str = "") -> Object:
    obj = job(1, labels={"scaleout-type": scale_out} if scale_out else {})
    container = obj["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"huawei.com/npu": "2"}}
    return obj


@pytest.mark.parametrize(
    ("label", "shown"),
    [("", ["L0", "L1", "L3"]), ("roce", ["L0", "L1", "L3"]), ("UBOE", ["L0", "L1", "L2"])],
)
def test_layout_2_0_shows_the_scale_out_network_that_the_service_uses(
    label: str, shown: list[str]
) -> None:
    levels = [
        level(0, "UB", "L0"),
        level(1, "UB", "L1"),
        level(2, "UBOE", "L2"),
        level(3, "ROCE", "L3"),
    ]
    devices = [{"device_id": str(chip), "levelList": levels} for chip in (4, 5)]
    obj = npu_job(label)
    found = content(table((member("master-0", 1, configuration(1, devices=devices)),), obj))
    assert list(found) == ["status", "version", "rank_count", "rank_list"]
    assert [
        (rank["rank_id"], rank["local_id"], rank["device_id"]) for rank in found["rank_list"]
    ] == [
        (0, 4, 4),
        (1, 5, 5),
    ]
    for rank in found["rank_list"]:
        assert [element["net_instance_id"] for element in rank["level_list"]] == shown


def test_layout_2_0_fills_in_a_chip_without_an_address_on_the_scale_out_network() -> None:
    devices = [
        {"device_id": "0", "LevelList": []},
        {"device_id": "1", "levelList": [level(3, "ROCE", "L3")]},
    ]
    found = content(table((member("master-0", 1, configuration(1, devices=devices)),), npu_job()))
    first, second = (rank["level_list"] for rank in found["rank_list"])
    assert (first[0]["net_layer"], first[0]["net_instance_id"]) == (3, "CLUSTER")
    assert second[0]["net_instance_id"] == "L3"


@pytest.mark.parametrize(
    ("annotations", "layout"),
    [
        ({}, Layout.V1_0),
        ({"sp-block": "16"}, Layout.V1_2),
        ({"sp-block": "16", "huawei.com/schedule_policy": "chip2-node16"}, Layout.V1_0),
        ({"huawei.com/schedule_policy": "chip2-node16-sp"}, Layout.V1_2),
        ({"huawei.com/schedule_policy": "multilevel"}, Layout.V1_2),
    ],
)
def test_the_layout_follows_the_annotations(annotations: dict[str, str], layout: Layout) -> None:
    assert layout_of(job(annotations=annotations)) is layout


def test_the_layout_follows_the_accelerator_type_and_the_resource() -> None:
    obj = job()
    obj["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["nodeSelector"] = {
        "accelerator-type": "module-a3-16-super-pod"
    }
    assert layout_of(obj) is Layout.V1_2
    assert layout_of(npu_job()) is Layout.V2_0


@pytest.mark.parametrize(
    "members",
    [
        (),
        TWO[:1],
        (TWO[0], RankTablePod("p0-worker-0", "node-2", TWO[1].devices, lost=True)),
        (TWO[0], member("worker-0", 2, "")),
        (TWO[0], member("worker-0", 2, ip="")),
        (TWO[0], member("worker-1", 2)),
    ],
    ids=["no pods", "one missing", "one lost", "no chips yet", "no address yet", "another pod"],
)
def test_a_table_is_initializing_without_any_list_until_every_pod_has_its_chips(
    members: Any,
) -> None:
    assert table(members) == INITIALIZING
    assert json.loads(INITIALIZING.text) == {"status": "initializing"}


def test_the_table_of_a_job_that_is_being_deleted_is_withdrawn() -> None:
    obj = job()
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert table(TWO, obj) == INITIALIZING


def test_pods_that_share_a_host_are_told_apart_by_their_server_id() -> None:
    text = configuration(
        1, devices=[{"device_id": "4", "device_ip": "a"}, {"device_id": "5", "device_ip": "b"}]
    )
    second = RankTablePod(
        "p0-worker-0", "node-1", PodDevices(packed=pack(text.replace("uid-1", "uid-9"), "1.2.3.4"))
    )
    found = content(table((TWO[0], second)))
    assert [server["server_id"] for server in found["server_list"]] == ["uid-1", "uid-9"]


def test_a_leader_without_chips_is_waited_for_but_not_listed() -> None:
    obj = job()
    del obj["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["resources"]
    leader = RankTablePod("p0-master-0", "node-3", PodDevices())
    assert table((TWO[1],), obj) == INITIALIZING
    found = content(table((leader, TWO[1]), obj))
    assert [server["device"][0]["rank_id"] for server in found["server_list"]] == ["0"]


def _devices(*ids: object, **more: object) -> str:
    return configuration(2, devices=[{"device_id": chip, "device_ip": "x", **more} for chip in ids])


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (member("worker-0", 2, "{"), "not JSON"),
        (member("worker-0", 2, "[]"), "not a JSON object"),
        (member("worker-0", 2, "{}"), "names no devices"),
        (member("worker-0", 2, _devices("a", "b")), 'devices[0]: device_id is "a", not a number'),
        (member("worker-0", 2, _devices("1", "1")), "names a device twice"),
        (member("worker-0", 2, _devices("0", "1", levelList=3)), "levelList is not a list"),
        (member("worker-0", 2, configuration(2, devices=[1])), "devices[0]: not a JSON object"),
        (member("worker-0", 2, _devices(*map(str, range(1025)))), "more than 1024"),
        (member("worker-0", 2, configuration(2, chips=3)), "different numbers of chips (2 and 3)"),
        (member("worker-0", 2, rank_index="one"), "hccl/rankIndex is 'one'"),
        (member("worker-0", 2, rank_index="0"), "ranks of its pods are 0, 0, not 0 to 1"),
        (member("worker-0", 1), "both have chip 0 of node node-1"),
        (
            member("worker-0", 2, configuration(2, host_ip="", server_id=None)),
            "neither host_ip nor server_id",
        ),
        (
            member(
                "worker-0",
                2,
                configuration(
                    2,
                    devices=[
                        {"device_id": "0", "device_ip": "-1"},
                        {"device_id": "1", "device_ip": "1"},
                    ],
                ),
            ),
            "the address -1",
        ),
    ],
)
def test_what_is_wrong_is_said_and_no_table_is_made(second: RankTablePod, words: str) -> None:
    made = table((TWO[0], second))
    assert (made.status, made.text) == (INITIALIZING.status, INITIALIZING.text)
    assert words in made.problem


def test_chips_without_network_are_right_inside_one_super_pod() -> None:
    members = [
        member(name, node, configuration(node).replace(f"10.{node}.0.0", "-1"))
        for name, node in (("master-0", 1), ("worker-0", 2))
    ]
    assert table(members, job(annotations={"sp-block": "4"})).problem == ""
    assert "address -1" in table(members, job(annotations={"sp-block": "2"})).problem


def test_an_unknown_scale_out_type_gives_no_table() -> None:
    made = table((member("master-0", 1),), npu_job("carrier pigeon"))
    assert "scaleout-type" in made.problem


@given(st.integers(1, 6), st.integers(1, 16), st.randoms(use_true_random=False))
def test_every_rank_is_there_once_in_order_and_with_the_data_of_its_pod(
    pods: int, chips: int, random: Any
) -> None:
    names = ["master-0", *(f"worker-{index}" for index in range(pods - 1))]
    members = [
        member(name, node, configuration(node, chips), rank_index=str(node))
        for node, name in enumerate(names)
    ]
    random.shuffle(members)
    by_ip = {found.devices.ip: found for found in members}
    servers = content(table(members, job(pods)))["server_list"]
    ranks = [int(device["rank_id"]) for server in servers for device in server["device"]]
    assert ranks == list(range(pods * chips))
    for server in servers:
        told = json.loads(by_ip[server["container_ip"]].devices.configuration)
        assert server["host_ip"] == told["host_ip"]
        assert [(d["device_id"], d["device_ip"]) for d in server["device"]] == [
            (d["device_id"], d["device_ip"]) for d in told["devices"]
        ]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
_DEVICE = st.dictionaries(
    st.sampled_from(["device_id", "device_ip", "super_device_id", "levelList"]), _JSON
)
_ANNOTATION = st.text(max_size=30) | st.dictionaries(
    st.sampled_from(["devices", "host_ip", "server_id"]), _JSON | st.lists(_DEVICE, max_size=3)
).map(json.dumps)


@given(
    st.lists(_ANNOTATION, min_size=2, max_size=2),
    st.sampled_from(["", "0", "-1", "9" * 9, "x"]),
    st.booleans(),
)
def test_no_annotation_makes_it_raise_and_only_whole_tables_are_complete(
    texts: list[str], rank_index: str, five: bool
) -> None:
    obj = job()
    if five:
        for spec in obj["spec"]["replicaSpecs"].values():
            spec["template"]["spec"]["containers"][0]["resources"] = {
                "requests": {"huawei.com/npu": "8"}
            }
    members = (
        member("master-0", 1, texts[0], rank_index=rank_index),
        member("worker-0", 2, texts[1]),
    )
    made = table(members, obj)
    assert made.text.encode()
    if made.status is Status.INITIALIZING:
        assert made.text == INITIALIZING.text
        assert made.problem or not all(texts)
    else:
        assert made.problem == ""


@given(_JSON)
def test_no_shape_of_a_job_makes_it_raise(spec: Any) -> None:
    obj = {
        "metadata": {"name": "p0", "uid": "u", "annotations": spec, "labels": spec},
        "spec": {"replicaSpecs": spec},
    }
    read: Job = read_job(obj)
    assert rank_table(read, obj, TWO) == INITIALIZING
