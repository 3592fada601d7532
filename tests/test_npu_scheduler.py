"""Chips by the rules of MindCluster's scheduler: under the whole controller, from the objects that
it reads too."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from scaler.decide.nodes import Node
from scaler.kube.api import CONFIG_MAPS, Object, PatchType
from scaler.sim.loop import run
from tests.jobs import job, rule_config_map, rule_document, template
from tests.rig import Rig, rig
from tests.super_pods import NPU, PLUGIN, device_data, node_status, npu_node

NEIGHBOUR = [
    rule_config_map(rule_document({"group0": 1}), name="large"),
    job("large", "group0", rule="large", pod=template(npus=1000)),
]
"""A service that fits nowhere: one that is alone is admitted whether it fits or not."""


def service(npus: int, *, pods: int = 1, **selector: str) -> list[Object]:
    """A prefill that asks for so much, and a decode that asks for no NPU."""
    asked = template(npus=npus)
    asked["spec"]["nodeSelector"] = selector
    document = rule_document({"group0": 1, "group1": 1}, pods={"group0": pods, "group1": 1})
    small = job("d0", pod=template(npus=0))
    made = [rule_config_map(document), job("p0", pods=pods, pod=asked), small]
    return [*made, *NEIGHBOUR]


A3 = {"accelerator-type": "module-a3-16"}


def is_admitted(*objects: Object) -> bool:
    found = list[str]()

    async def story() -> None:
        async with rig(*objects) as on:
            await on.settle()
            found.append(on.reason("p0"))

    run(story())
    assert found[0] in ("WaitingForScheduler", "MinimumDoesNotFit", "WaitingForRoom")
    return found[0] == "WaitingForScheduler"


def labelled(made: Object) -> Object:
    made["metadata"]["labels"] |= A3
    return made


@pytest.mark.parametrize(
    ("npus", "pods", "selector", "said", "expected"),
    [
        pytest.param(14, 1, A3, {"Unhealthy": (2, 5)}, False, id="two cards are not whole"),
        pytest.param(12, 1, A3, {"Unhealthy": (2, 5)}, True, id="six whole cards"),
        pytest.param(14, 1, A3, {"Unhealthy": (2, 3)}, True, id="one card is away"),
        pytest.param(14, 1, {}, {"Unhealthy": (2, 5)}, True, id="A2 gives single chips"),
        pytest.param(16, 1, {}, {"Recovering": (0,)}, False, id="a chip is recovering"),
        pytest.param(
            16, 1, {}, {"NetworkUnhealthy": (0,)}, True, id="a job of one pod needs no network"
        ),
        pytest.param(8, 2, {}, {"NetworkUnhealthy": (0,)}, False, id="a distributed job does"),
        pytest.param(16, 1, {}, {"fault": "SubHealthFault"}, True, id="sub-health is ignored"),
    ],
)
def test_a_pod_is_admitted_where_the_scheduler_gives_it_its_chips(
    npus: int, pods: int, selector: dict[str, str], said: dict[str, Any], expected: bool
) -> None:
    objects = [labelled(npu_node("n1")), device_data("n1", **said), PLUGIN]
    assert is_admitted(*objects, *service(npus, pods=pods, **selector)) is expected


def test_a_job_that_does_not_ignore_sub_health_is_held_where_a_chip_is_sub_healthy() -> None:
    objects = service(16)
    objects[1]["metadata"]["labels"]["subHealthyStrategy"] = "graceExit"
    data = device_data("n1", fault="SubHealthFault")
    assert not is_admitted(npu_node("n1"), data, PLUGIN, *objects)
    assert is_admitted(npu_node("n1"), device_data("n1"), PLUGIN, *objects)


@pytest.mark.parametrize(
    "reported",
    [
        pytest.param([npu_node("n1")], id="no device data"),
        pytest.param(
            [npu_node("n1"), device_data("n1"), node_status("n1", "PreSeparate")], id="PreSeparate"
        ),
        pytest.param([npu_node("n1", allocatable=14), device_data("n1")], id="not stable"),
    ],
)
def test_a_node_of_which_the_scheduler_takes_nothing_has_no_room_for_npus(
    reported: list[Object],
) -> None:
    assert not is_admitted(PLUGIN, *reported, *service(2))
    assert is_admitted(npu_node("n2"), device_data("n2"), PLUGIN, *reported, *service(2))


def test_a_node_that_has_no_device_data_is_none_where_the_plugin_is_not_at_work() -> None:
    without = {**PLUGIN, "data": {"volcano-scheduler.conf": "tiers: [{plugins: [{name: gang}]}]"}}
    assert is_admitted(npu_node("n1"), *service(16))
    assert is_admitted(npu_node("n1"), npu_node("n2"), device_data("n2"), without, *service(16))


def test_where_the_configuration_cannot_be_read_device_data_tell_of_the_plugin() -> None:
    here = [npu_node("n1"), npu_node("n2"), device_data("n2", Unhealthy=(1,))]
    assert not is_admitted(*here, *service(16))


def nodes_in_world(on: Rig) -> dict[str, Node]:
    nodes = on.world.nodes
    assert nodes is not None
    return {node.name: node for node in nodes.nodes}


def test_a_node_says_its_super_pod_and_why_it_is_barred() -> None:
    async def story() -> None:
        before = [npu_node("n1"), npu_node("n2"), npu_node("n3"), PLUGIN]
        data = [device_data("n1", 0), device_data("n2", 7)]
        async with rig(*before, *data, *service(16, pods=2)) as on:
            await on.settle()
            nodes = nodes_in_world(on)
            assert nodes["n1"].super_pod == 0
            assert nodes["n2"].super_pod == 7
            assert nodes["n3"].barred == "it has no device data"
            assert on.reason("p0") == "WaitingForScheduler"

    run(story())


def test_chips_that_are_well_again_end_the_wait() -> None:
    async def story() -> None:
        objects = [npu_node("n1"), device_data("n1", Unhealthy=(2, 5)), PLUGIN]
        async with rig(*objects, *service(16)) as on:
            await on.settle()
            assert on.reason("p0") != "WaitingForScheduler"
            on.apply(device_data("n1"))
            await on.settle()
            assert on.reason("p0") == "WaitingForScheduler"

    run(story())


def test_the_plugin_is_taken_in_while_the_scaler_runs() -> None:
    async def story() -> None:
        async with rig(npu_node("n1"), *service(16)) as on:
            await on.settle()
            assert on.reason("p0") == "WaitingForScheduler"
            on.apply(PLUGIN)
            await on.settle()
            assert nodes_in_world(on)["n1"].barred == "it has no device data"
            assert on.world.nodes is not None
            assert f"{NPU}#chips" in on.world.nodes.resources

    run(story())


def in_blocks(block: str) -> list[Object]:
    """A cluster of two super-pods of two nodes, and a service with a decode of four nodes."""
    names = [f"s{number}n{index}" for number in range(2) for index in range(2)]
    data = [device_data(name, int(name[1])) for name in names]
    decode = job("d0", pods=4, pod=template(npus=16), annotations={"sp-block": block})
    document = rule_document({"group0": 1, "group1": 1}, pods={"group0": 1, "group1": 4})
    prefill = job("p0", pod=template(npus=0))
    return [*map(npu_node, names), *data, rule_config_map(document), prefill, decode]


def test_what_the_scheduler_never_starts_is_invalid_before_it_is_tried() -> None:
    """5, JobInvalid: no candidate, so nothing is reserved and nobody is evicted for it; nothing is
    made that the scheduler would refuse."""

    async def story(block: str, *plugin: Object) -> tuple[str, str]:
        async with rig(*plugin, *in_blocks(block)) as on:
            await on.settle()
            return on.reason("d0"), on.words("d0")

    reason, words = run(story("48", PLUGIN))
    assert reason == "JobInvalid"
    assert "JobValidateFailed: its 64 NPUs are no multiple of sp-block 48" in words
    assert run(story("32", PLUGIN))[0] == "WaitingForScheduler"
    without = {**PLUGIN, "data": {"volcano-scheduler.conf": "tiers: [{plugins: [{name: gang}]}]"}}
    assert run(story("48", without))[0] == "WaitingForScheduler"


def test_the_largest_block_is_that_of_the_configuration_of_the_scheduler() -> None:
    async def story() -> None:
        small = copy.deepcopy(PLUGIN)
        small["data"]["volcano-scheduler.conf"] += '\narguments: {"super-pod-size": "1"}'
        async with rig(small, *in_blocks("32")) as on:
            await on.settle()
            assert "sp-block 32 is more than a super-pod of 1 nodes has" in on.words("d0")
            place = ("volcano-system", PLUGIN["metadata"]["name"], {"data": PLUGIN["data"]})
            await on.cluster.patch(CONFIG_MAPS, *place, patch_type=PatchType.MERGE)
            await on.settle()
            assert on.reason("d0") == "WaitingForRoom", "p0 is with the scheduler, and goes first"

    run(story())
