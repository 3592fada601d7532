"""MindCluster's fault reports: what is read of each document, which source counts, and whom a
change concerns."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.informers.faults import (
    FaultData,
    FaultReport,
    NodeFaults,
    Source,
    fault_of,
    read_report,
)
from scaler.kube.api import CONFIG_MAPS, PODS, Object, PatchType
from scaler.kube.errors import status_error
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.loop import run
from tests.jobs import NAMESPACE, job, rule_config_map
from tests.rig import NODE, Rig, rig

RES = "huawei.com/Ascend910"
SICK = {"NodeStatus": "UnHealthy"}


def entry(unhealthy: str = "", **more: Any) -> dict[str, Any]:
    lists = {
        RES: "Ascend910-0",
        f"{RES}-Unhealthy": unhealthy,
        f"{RES}-NetworkUnhealthy": "Ascend910-7",
    }
    return {"DeviceList": lists, "UpdateTime": 1, **more}


def cluster(kind: str, **entries: Any) -> tuple[str, str, dict[str, str]]:
    name = {
        "device": "cluster-info-device-0",
        "node": "cluster-info-node-cm",
        "switch": "cluster-info-switch-0",
    }[kind]
    content = {f"mindx-dl-{kind}info-{node}": value for node, value in entries.items()}
    return "mindx-dl", name, {name: json.dumps(content)}


def agent(unhealthy: str = "", **data: str) -> tuple[str, str, dict[str, str]]:
    document = {"DeviceInfo": entry(unhealthy), "SuperPodID": -2, "CheckCode": "x"}
    return "kube-system", "mindx-dl-deviceinfo-n1", {"DeviceInfoCfg": json.dumps(document), **data}


def noded(status: str) -> tuple[str, str, dict[str, str]]:
    info = {"NodeInfo": {"FaultDevList": [], "NodeStatus": status}, "CheckCode": "x"}
    return "mindx-dl", "mindx-dl-nodeinfo-n1", {"NodeInfo": json.dumps(info)}


def nodes(document: tuple[str, str, dict[str, str]]) -> dict[str, NodeFaults]:
    report = read_report(*document)
    assert report is not None
    assert report.problem == ""
    return dict(report.nodes)


SICK_CHIP = NodeFaults(frozenset({"Ascend910-3"}))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (cluster("device", n1=entry("Ascend910-3"), n2=entry()), {"n1": SICK_CHIP}),
        (cluster("node", n1=SICK, n2={"NodeStatus": "PreSeparate"}), {"n1": NodeFaults(node=True)}),
        (
            cluster("switch", n1=SICK, n2={"NodeStatus": "SubHealthy"}),
            {"n1": NodeFaults(switch=True)},
        ),
        (agent("Ascend910-3"), {"n1": SICK_CHIP}),
        (agent(ManuallySeparateNPU="Ascend910-3"), {"n1": SICK_CHIP}),
        (agent(SwitchInfoCfg='{"NodeStatus":"UnHealthy"}'), {"n1": NodeFaults(switch=True)}),
        (agent(), {}),
        (noded("UnHealthy"), {"n1": NodeFaults(node=True)}),
        (noded("Healthy"), {}),
        (("mindx-dl", "cluster-info-node-cm", {"cluster-info-node-cm": ""}), {}),
        (("mindx-dl", "cluster-info-switch-0", {}), {}),
    ],
)
def test_what_is_unhealthy_is_faulty_and_nothing_else_is(
    document: Any, expected: dict[str, NodeFaults]
) -> None:
    assert nodes(document) == expected


def test_other_config_maps_are_no_reports() -> None:
    for place in (
        ("mindx-dl", "rule"),
        ("mindie", "cluster-info-device-0"),
        ("kube-system", "mindx-dl-nodeinfo-n1"),
    ):
        assert read_report(*place, {"a": "b"}) is None


def test_one_bad_entry_does_not_hide_the_others_and_is_told() -> None:
    name = "cluster-info-device-0"
    content = {
        "mindx-dl-deviceinfo-n1": 7,
        "what": {},
        "mindx-dl-deviceinfo-n2 ": entry("Ascend910-3"),
    }
    report = read_report("mindx-dl", name, {name: json.dumps(content)})
    assert report is not None
    assert dict(report.nodes) == {"n2": SICK_CHIP}
    assert "'mindx-dl-deviceinfo-n1'" in report.problem


_PLACES = st.sampled_from(
    [document[:2] for document in (cluster("device"), cluster("node"), agent(), noded(""))]
)
_KEYS = st.sampled_from(
    ["DeviceInfoCfg", "SwitchInfoCfg", "NodeInfo", "ManuallySeparateNPU", "cluster-info-device-0"]
)
_FIELDS = [
    "DeviceInfo",
    "DeviceList",
    "NodeInfo",
    "NodeStatus",
    f"{RES}-Unhealthy",
    "mindx-dl-nodeinfo-n",
]
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=3) | st.lists(inner, max_size=2)
    ),
    max_leaves=8,
)


@given(_PLACES, st.dictionaries(_KEYS, st.text(max_size=20) | _JSON.map(json.dumps), max_size=3))
def test_no_document_makes_it_raise(place: tuple[str, str], data: dict[str, str]) -> None:
    assert isinstance(read_report(*place, data), FaultReport)


def test_the_documented_reports_are_read(real_data: Path) -> None:
    """Every document of the folder as each kind of report; of some we know what has to come out."""
    folder = real_data / "cluster_state"
    files = [
        *folder.glob("docs_replies/*"),
        *folder.glob("go_test_strings/*"),
        *folder.glob("other/*"),
    ]
    found: set[str] = set()
    for path in files:
        text = path.read_text()
        for name in ("cluster-info-device-0", "cluster-info-node-cm", "cluster-info-switch-0"):
            report = read_report("mindx-dl", name, {name: text})
            assert report is not None
            found |= {
                f"{node}: {chip}" for node, faults in report.nodes.items() for chip in faults.chips
            }
        for key, place in (
            ("DeviceInfoCfg", agent()[:2]),
            ("SwitchInfoCfg", agent()[:2]),
            ("NodeInfo", noded("")[:2]),
        ):
            report = read_report(*place, {key: text})
            assert report is not None
            found |= {
                f"{key} {'sick' if faults.node else sorted(faults.chips)}"
                for faults in report.nodes.values()
            }
    assert "DeviceInfoCfg ['Ascend910-4']" in found
    assert "NodeInfo sick" in found
    assert any(re.fullmatch(r"localhost.localdomain: Ascend910-[0-2]", item) for item in found)


class Seen:
    """Fault data, and the nodes that it called changed."""

    def __init__(self) -> None:
        self.changed: list[str] = []
        self.data = FaultData(self.changed.append)

    def apply(self, document: tuple[str, str, dict[str, str]], *, gone: bool = False) -> list[str]:
        """The nodes that this change concerns."""
        self.changed.clear()
        self.data.apply(*document[:2], None if gone else read_report(*document))
        return list(self.changed)


def test_the_documents_of_clusterd_count_where_they_exist() -> None:
    seen = Seen()
    assert seen.data.source is Source.NONE
    assert seen.apply(agent("Ascend910-3")) == ["n1"]
    assert (seen.data.source, seen.data.of("n1")) == (Source.AGENTS, SICK_CHIP)
    assert seen.apply(cluster("device", n2=entry("Ascend910-3"))) == ["n1", "n2"]
    assert (seen.data.source, seen.data.of("n1"), seen.data.of("n2")) == (
        Source.CLUSTER,
        NodeFaults(),
        SICK_CHIP,
    )
    assert seen.apply(cluster("device"), gone=True) == ["n1", "n2"]
    assert (seen.data.of("n1"), seen.data.of("n2")) == (SICK_CHIP, NodeFaults())
    assert seen.apply(agent(), gone=True) == ["n1"]
    assert seen.data.source is Source.NONE


def test_reports_about_one_node_are_joined_and_only_changes_are_told() -> None:
    seen = Seen()
    seen.apply(cluster("device", n1=entry("Ascend910-3"), n2=entry("Ascend910-3")))
    assert seen.apply(cluster("device", n1=entry("Ascend910-3", UpdateTime=9), n2=entry())) == [
        "n2"
    ]
    assert seen.apply(cluster("node", n1={"NodeStatus": "UnHealthy"})) == ["n1"]
    assert seen.data.of("n1") == NodeFaults(SICK_CHIP.chips, node=True)


def test_only_a_chip_that_the_pod_has_is_its_fault() -> None:
    assert "uses chip Ascend910-3 of node n1" in fault_of(
        SICK_CHIP, "n1", frozenset({"Ascend910-3", "Ascend910-4"})
    )
    assert fault_of(SICK_CHIP, "n1", frozenset({"Ascend910-30"})) == ""
    assert "UnHealthy" in fault_of(NodeFaults(node=True), "n1", frozenset())
    assert "switch" in fault_of(NodeFaults(switch=True), "n1", frozenset())


def config_map(document: tuple[str, str, dict[str, str]]) -> Object:
    namespace, name, data = document
    meta = {"name": name.replace("n1", NODE), "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


async def with_chip(on: Rig, chip: str) -> None:
    (pod,) = on.pods_of("p0")
    patch = {"metadata": {"annotations": {"huawei.com/AscendReal": f"{chip},Ascend910-1"}}}
    await on.cluster.patch(
        PODS, NAMESPACE, pod["metadata"]["name"], patch, patch_type=PatchType.MERGE
    )


def test_an_instance_of_which_a_pod_fails_is_broken_on_the_event() -> None:
    async def story() -> None:
        async with rig(rule_config_map(), job("p0"), job("d0")) as on:
            await on.start("p0", "d0")
            await on.status(on.pods_of("p0")[0], phase="Failed")
            await on.settle(0)
            assert on.reason("p0") == "Broken"

    run(story())


@pytest.mark.parametrize(
    "settings", [{}, {"namespaces": (NAMESPACE,)}], ids=["all namespaces", "one namespace"]
)
@pytest.mark.parametrize(
    ("document", "words"),
    [
        (agent("Ascend910-3"), f"uses chip Ascend910-3 of node {NODE}"),
        (noded("UnHealthy"), f"is on node {NODE}, which MindCluster reports as UnHealthy"),
        (agent(SwitchInfoCfg='{"NodeStatus":"UnHealthy"}'), "whose switch MindCluster reports"),
    ],
    ids=["chip", "node", "switch"],
)
def test_an_instance_on_something_faulty_is_broken_before_anyone_deletes_its_pods(
    document: Any, words: str, settings: dict[str, Any]
) -> None:
    async def story() -> None:
        async with rig(rule_config_map(), job("p0"), job("d0"), **settings) as on:
            await on.start("p0", "d0")
            await with_chip(on, "Ascend910-3")
            on.apply(config_map(document))
            await on.settle(2)
            assert on.reason("p0") == "Broken"
            assert words in on.words("p0")
            await on.cluster.delete(CONFIG_MAPS, *_place(document))
            await on.settle()
            assert on.reason("p0") == "Running"

    run(story())


def _place(document: tuple[str, str, dict[str, str]]) -> tuple[str, str]:
    return document[0], document[1].replace("n1", NODE)


def test_a_pod_that_the_fault_handling_has_given_up_breaks_its_instance() -> None:
    async def story() -> None:
        async with rig(rule_config_map(), job("p0"), job("d0")) as on:
            await on.start("p0", "d0")
            patch = {"metadata": {"labels": {"fault-type": "Separate"}}}
            await on.cluster.patch(
                PODS, NAMESPACE, "p0-master-0", patch, patch_type=PatchType.MERGE
            )
            await on.settle()
            assert on.reason("p0") == "Broken"

    run(story())


class Closed(Interceptor):
    """MindCluster's namespaces may not be read."""

    async def before(self, request: Request) -> None:
        if request.namespace in ("kube-system", "mindx-dl"):
            raise status_error(403, "Forbidden", "configmaps is forbidden")


def test_without_the_right_to_read_reports_only_the_readiness_of_nodes_counts() -> None:
    async def story() -> None:
        objects = (rule_config_map(), job("p0"), job("d0"))
        async with rig(*objects, interceptor=Closed(), namespaces=(NAMESPACE,)) as on:
            await on.settle(6)
            await on.start("p0", "d0")
            assert (on.reason("p0"), on.reason("d0")) == ("Running", "Running")

    run(story())
