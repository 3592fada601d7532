"""kube-controller-manager's own HorizontalPodAutoscaler moves a service along its ladder, while nodes fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.sim.actors.nodes import NodeFate
from tests.control_plane.autoscaler import OPTIONS
from tests.control_plane.plane import ControlPlane
from tests.control_plane.stage import kinds_definitions
from tests.control_plane.waves import LADDER, PLATFORMS, followed, play

pytestmark = [
    pytest.mark.plane_options(crds=kinds_definitions(), **OPTIONS),
    pytest.mark.long("loads in real time, half a minute to two minutes each"),
]
SECONDS = 60.0


async def test_a_service_follows_down_to_nothing_and_up_again_while_a_node_fails(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async with followed(plane, tmp_path, PLATFORMS["ascend-jobs"]) as (stage, autoscaler, orders):
        autoscaler.load = 2
        await stage.runs_both(1, 1)
        lost = await stage.lose("group1")
        await stage.runs_both(1, 1)
        autoscaler.load = 2.5  # needs three
        await stage.runs_both(2, 1)
        await stage.node(lost, NodeFate.READY)
        autoscaler.load = 0
        await stage.runs_both(0, 0)
        autoscaler.load = 1  # the smallest ratio has two
        await stage.runs_both(1, 1)
        autoscaler.load = 9
        await stage.runs_both(*LADDER[0])
        assert orders.counts["orders"] == 5


@pytest.mark.parametrize("shape", ["square", "sawtooth", "noise"])
async def test_a_service_follows_a_wave(shape: str, plane: ControlPlane, tmp_path: Path) -> None:
    orders = await play(plane, tmp_path, PLATFORMS["ascend-jobs"], shape=shape, seconds=SECONDS, seed=1)
    assert orders.counts["orders"] >= 3


@pytest.mark.kubernetes_from(36)
async def test_beside_ascend_operator_it_does_too(plane: ControlPlane, tmp_path: Path) -> None:
    platform = PLATFORMS["beside-ascend-operator"]
    orders = await play(plane, tmp_path, platform, shape="noise", seconds=SECONDS, seed=2)
    assert orders.counts["orders"] >= 3


@pytest.mark.plane_options(lws=True)
@pytest.mark.parametrize("name", ["ome-deployment", "ome-leaderworkerset"])
async def test_a_service_of_deployments_or_leader_worker_sets_does_too(
    name: str, plane: ControlPlane, tmp_path: Path
) -> None:
    orders = await play(plane, tmp_path, PLATFORMS[name], shape="noise", seconds=SECONDS, seed=3)
    assert orders.counts["orders"] >= 3


@pytest.mark.plane_options(volcano=True)
async def test_with_the_real_volcano_it_does_too(plane: ControlPlane, tmp_path: Path) -> None:
    orders = await play(plane, tmp_path, PLATFORMS["ascend-jobs"], shape="noise", seconds=SECONDS, seed=5)
    assert orders.counts["orders"] >= 3


@pytest.mark.kubernetes_from(36)
@pytest.mark.plane_options(volcano=True, ascend_operator=True)
async def test_beside_the_real_ascend_operator_it_does_too(plane: ControlPlane, tmp_path: Path) -> None:
    platform = PLATFORMS["beside-ascend-operator"]
    orders = await play(plane, tmp_path, platform, shape="square", seconds=SECONDS, seed=7)
    assert orders.counts["orders"] >= 3
