"""What a job says about HyperNodes, and which nodes each HyperNode has."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scaler.decide.nodes import HyperNode, PodRequest, PodRequests, Where
from scaler.informers.hyper_nodes import HyperNodeObject, HyperNodes, hyper_node_record
from scaler.informers.records import NodeObject, NodeRecord, node_record
from scaler.workloads.hyper_nodes import HIGHEST_TIER, MODE, tier_of, together, topology_in

NPUS = PodRequest((("x/npu", 8), ("pods", 1)))
MORE = PodRequest((("x/npu", 16), ("pods", 1)))
LEADER = PodRequest((("cpu", 1), ("pods", 1)))


@pytest.mark.parametrize(
    ("topology", "tier"),
    [
        ({}, ""),
        ({"mode": "hard", "highestTierAllowed": 2}, "2"),
        ({"highestTierAllowed": 0}, "0"),
        ({"mode": "soft", "highestTierAllowed": 2}, ""),
        ({"mode": "hard"}, ""),
        ({"mode": "hard", "highestTierName": "zone"}, "=zone"),
        ({"mode": "hard", "highestTierAllowed": True}, ""),
        ({"mode": "hard", "highestTierAllowed": -1}, ""),
        ({"mode": "hard", "highestTierAllowed": 10**12}, ""),
        ({"mode": "hard", "highestTierName": "z" * 300}, ""),
        ({"mode": ["hard"], "highestTierAllowed": "2"}, ""),
    ],
)
def test_the_tier_of_a_job(topology: dict[str, Any], tier: str) -> None:
    assert tier_of(topology) == tier


@pytest.mark.parametrize(
    ("annotations", "topology"),
    [
        ({}, {}),
        ({MODE: "hard", HIGHEST_TIER: "1"}, {"mode": "hard", "highestTierAllowed": 1}),
        ({HIGHEST_TIER: "2"}, {"mode": "hard", "highestTierAllowed": 2}),
        ({MODE: "Soft"}, {"mode": "soft"}),
        ({MODE: "harsh", HIGHEST_TIER: "-1"}, {"mode": "hard"}),
        ({HIGHEST_TIER: "9" * 5_000}, {"mode": "hard"}),
    ],
)
def test_the_topology_of_a_pod(annotations: dict[str, str], topology: dict[str, Any]) -> None:
    """As Volcano makes it for a pod without a PodGroup."""
    assert topology_in(annotations) == topology


def test_all_pods_that_are_alike_are_one_block() -> None:
    pods: PodRequests = ((NPUS, 3), (MORE, 1), (LEADER, 1))
    found = together(pods, "1")
    assert found[NPUS] == found[MORE]
    assert (found[NPUS].block, found[NPUS].tier, found[NPUS].rounded) == (4, "1", True)
    assert dict(found[NPUS].requests)["x/npu"] == 16
    assert (found[LEADER].block, found[LEADER].rounded) == (1, False)


def test_pods_for_other_nodes_are_a_block_of_their_own() -> None:
    elsewhere = PodRequest(NPUS.requests, Where(selector=(("pool", "a"),)))
    found = together(((NPUS, 2), (elsewhere, 3)), "1")
    assert [found[NPUS].block, found[elsewhere].block] == [2, 3]


def test_blocks_of_a_super_pod_go_before() -> None:
    block = PodRequest(NPUS.requests, block=4)
    assert together(((block, 4),), "1") == {}


# which nodes


def node(name: str, **labels: str) -> NodeRecord:
    text = {"metadata": {"name": name, "labels": labels, "resourceVersion": "1"}}
    return node_record(msgspec.json.decode(msgspec.json.encode(text), type=NodeObject))


def of_nodes(**selector: Any) -> dict[str, Any]:
    return {"type": "Node", "selector": selector}


def of_hyper(name: str) -> dict[str, Any]:
    return {"type": "HyperNode", "selector": {"exactMatch": {"name": name}}}


class Tree:
    """HyperNodes as they come and go."""

    def __init__(self) -> None:
        self.told: list[frozenset[str] | None] = []
        self.index = HyperNodes(self.told.append)
        self.version = 0

    def set(self, name: str, tier: Any, members: Any, **spec: Any) -> None:
        self.version += 1
        meta = {"name": name, "uid": name, "resourceVersion": str(self.version)}
        text = {"metadata": meta, "spec": {"tier": tier, "members": members, **spec}}
        found = msgspec.json.decode(msgspec.json.encode(text), type=HyperNodeObject)
        self.index.store.apply(hyper_node_record(found))

    def of(self, name: str, **labels: str) -> list[str]:
        return [one.name for one in self.index.of(node(name, **labels))]


def test_a_node_is_in_its_hyper_nodes_and_all_above() -> None:
    tree = Tree()
    tree.set("row", 2, [of_hyper("rack-0"), of_hyper("rack-1")], tierName="zone")
    tree.set("rack-0", 1, [of_nodes(exactMatch={"name": "n0"})])
    tree.set("rack-1", 1, [of_nodes(regexMatch={"pattern": r"^n[12]\+?$"})])
    tree.set("rack-2", 1, [of_nodes(labelMatch={"matchLabels": {"rack": "2"}})])
    assert tree.of("n0") == ["rack-0", "row"]
    assert tree.of("n2") == ["rack-1", "row"]
    assert tree.of("n22") == []
    assert tree.of("n9", rack="2") == ["rack-2"]
    assert tree.index.of(node("n0"))[1] == HyperNode(2, "row", "zone")


def test_only_the_nodes_that_it_names_are_told() -> None:
    tree = Tree()
    tree.set("rack", 1, [of_nodes(exactMatch={"name": "n0"})])
    tree.set("row", 2, [of_hyper("rack")])
    tree.set("rack", 1, [of_nodes(exactMatch={"name": "n1"})])
    tree.set("hall", 3, [of_nodes(regexMatch={"pattern": "n"})])
    assert tree.told == [frozenset({"n0"}), frozenset({"n0"}), frozenset({"n0", "n1"}), None]
    assert tree.of("n0") == ["hall"]
    assert tree.of("n1") == ["rack", "row", "hall"]


@pytest.mark.parametrize(
    "members",
    [
        None,
        "all",
        [None, 1, {}],
        [of_nodes(regexMatch={"pattern": "("})],
        [of_nodes(regexMatch={"pattern": "n" * 1_000})],
        [of_nodes(regexMatch={"pattern": "(n|n|0)*"})],  # seconds for a long name
        [of_nodes(regexMatch={"pattern": "n*.*.*.*"})],
        [of_nodes(labelMatch={"matchExpressions": [{"key": 1}]})],
        [of_nodes(labelMatch={})],
        [of_hyper("odd")],
    ],
)
def test_an_odd_hyper_node_has_no_nodes_and_stops_nothing(members: Any) -> None:
    tree = Tree()
    tree.set("odd", "two", members)
    assert tree.of("n0", rack="1") == []
