"""The real Volcano, where its binaries are, does with the scaler's pods what the tests' own gang scheduler does.

Left out, with a line at the end, where VOLCANO_BIN_DIR is not set (docs/howto/test-against-a-real-control-plane.md).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.control_plane.crowd_stage import CREATED_WITH_VOLCANO, GATED_WITH_VOLCANO, POD_START
from tests.control_plane.crowd_stories import all_serve, half_serve
from tests.control_plane.kinds_stage import kinds_definitions
from tests.control_plane.plane import ControlPlane

pytestmark = pytest.mark.plane_options(crds=kinds_definitions(), volcano=True, pod_start=POD_START)


async def test_all_serve_on_two_nodes_for_each(plane: ControlPlane, tmp_path: Path) -> None:
    await all_serve(CREATED_WITH_VOLCANO, plane, tmp_path)


async def test_half_of_them_serve_on_half_the_nodes(plane: ControlPlane, tmp_path: Path) -> None:
    await half_serve(CREATED_WITH_VOLCANO, plane, tmp_path)


@pytest.mark.kubernetes_from(36)
async def test_all_serve_beside_ascend_operator_too(plane: ControlPlane, tmp_path: Path) -> None:
    await all_serve(GATED_WITH_VOLCANO, plane, tmp_path)


@pytest.mark.kubernetes_from(36)
async def test_half_of_them_serve_beside_ascend_operator_too(plane: ControlPlane, tmp_path: Path) -> None:
    await half_serve(GATED_WITH_VOLCANO, plane, tmp_path)
