"""Twenty services that need two nodes each to serve, on forty and on twenty nodes of a real API server: floors first.

Not before every floor that fits runs does a service get more, whoever makes the pods and whoever binds them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.control_plane.crowd_stage import CREATED, CREATED_WITHOUT_GANGS, GATED, POD_START, SERVICES, Way, crowded
from tests.control_plane.kinds_stage import WATCHED, census_of_pods, kinds_definitions
from tests.control_plane.plane import ControlPlane
from tests.control_plane.scaler_process import install, scaler
from tests.control_plane.witness import witnessed

pytestmark = pytest.mark.plane_options(crds=kinds_definitions(), scheduler=True, pod_start=POD_START)


@pytest.mark.parametrize("way", [CREATED, CREATED_WITHOUT_GANGS], ids=lambda way: way.name)
async def test_all_serve_on_two_nodes_for_each_and_only_then_do_they_climb(
    way: Way, plane: ControlPlane, tmp_path: Path
) -> None:
    await _all_serve(way, plane, tmp_path)


@pytest.mark.parametrize("way", [CREATED, CREATED_WITHOUT_GANGS], ids=lambda way: way.name)
async def test_half_of_them_serve_on_half_the_nodes_and_the_others_hold_none(
    way: Way, plane: ControlPlane, tmp_path: Path
) -> None:
    await _half_serve(way, plane, tmp_path)


@pytest.mark.kubernetes_from(36)
async def test_all_serve_beside_ascend_operator_too(plane: ControlPlane, tmp_path: Path) -> None:
    await _all_serve(GATED, plane, tmp_path)


@pytest.mark.kubernetes_from(36)
async def test_half_of_them_serve_beside_ascend_operator_too(plane: ControlPlane, tmp_path: Path) -> None:
    await _half_serve(GATED, plane, tmp_path)


async def _all_serve(way: Way, plane: ControlPlane, folder: Path) -> None:
    """The nodes of one that leaves go to climbs."""
    await _play(way, plane, folder, 2 * SERVICES, {"1P1D": SERVICES}, {"1P1D": SERVICES - 3, "2P1D": 2})


async def _half_serve(way: Way, plane: ControlPlane, folder: Path) -> None:
    """The nodes of one that leaves go to a service that waits."""
    half = SERVICES // 2
    await _play(way, plane, folder, SERVICES, {"1P1D": half, "0P0D": half}, {"1P1D": half, "0P0D": half - 1})


async def _play(
    way: Way, plane: ControlPlane, folder: Path, nodes: int, first: dict[str, int], then: dict[str, int]
) -> None:
    """They come to `first`, and to `then` when one of those that serve is deleted; who sits stays where it is."""
    kubeconfig = install(plane)
    async with (
        crowded(plane, way, nodes) as stage,
        witnessed(stage.api, WATCHED, census_of_pods),
        scaler(folder, kubeconfig, flags=way.flags) as process,
    ):
        await stage.arrive()
        await stage.comes_to(first)
        before = stage.seats()
        leaving = stage.serving()[0]
        await stage.leave(leaving)
        await stage.comes_to(then)
        stayed = {name: seat for name, seat in before.items() if not name.startswith(f"{leaving}/")}
        assert stayed.items() <= stage.seats().items()
        assert process.errors() == []
