"""Twenty services that need two nodes each to serve, on forty and on twenty nodes of a real API server: minimums first.

Not before every minimum that fits runs does a service get more, whoever makes the pods and whoever binds them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.control_plane.crowd_stage import CREATED, CREATED_WITHOUT_GANGS, GATED, POD_START, Way
from tests.control_plane.crowd_stories import all_serve, half_serve
from tests.control_plane.kinds_stage import kinds_definitions
from tests.control_plane.plane import ControlPlane

pytestmark = pytest.mark.plane_options(crds=kinds_definitions(), scheduler=True, pod_start=POD_START)


@pytest.mark.parametrize("way", [CREATED, CREATED_WITHOUT_GANGS], ids=lambda way: way.name)
async def test_all_serve_on_two_nodes_for_each_and_only_then_do_they_climb(
    way: Way, plane: ControlPlane, tmp_path: Path
) -> None:
    await all_serve(way, plane, tmp_path)


@pytest.mark.parametrize("way", [CREATED, CREATED_WITHOUT_GANGS], ids=lambda way: way.name)
async def test_half_of_them_serve_on_half_the_nodes_and_the_others_hold_none(
    way: Way, plane: ControlPlane, tmp_path: Path
) -> None:
    await half_serve(way, plane, tmp_path)


@pytest.mark.kubernetes_from(36)
async def test_all_serve_beside_ascend_operator_too(plane: ControlPlane, tmp_path: Path) -> None:
    await all_serve(GATED, plane, tmp_path)


@pytest.mark.kubernetes_from(36)
async def test_half_of_them_serve_beside_ascend_operator_too(plane: ControlPlane, tmp_path: Path) -> None:
    await half_serve(GATED, plane, tmp_path)
