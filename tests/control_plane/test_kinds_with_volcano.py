"""The stories of one service with the real Volcano, where its binaries are, and on just enough nodes for it.

Volcano's scheduler binds the pods, its controller manager makes PodGroups for those that name none, and the pods of
Volcano Jobs. Left out, with a line at the end, where VOLCANO_BIN_DIR is not set.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.control_plane.beside_stage import ascend_jobs, beside
from tests.control_plane.kinds_stage import (
    WATCHED,
    Platform,
    census_of_pods,
    climb_degrade_and_recover,
    kinds_definitions,
    kinds_staged,
)
from tests.control_plane.plane import ControlPlane
from tests.control_plane.scaler_process import ALONE, install, scaler
from tests.control_plane.stage import EXAMPLE
from tests.control_plane.test_kinds import PLATFORMS
from tests.control_plane.witness import witnessed

pytestmark = pytest.mark.plane_options(lws=True, volcano=True, crds=kinds_definitions())

_SERVICES: dict[str, Platform] = {
    **PLATFORMS,
    "volcano-jobs": replace(PLATFORMS["volcano-jobs"], actors=()),
    "ascend-jobs": ascend_jobs(2, EXAMPLE, by_operator=False),
}


@pytest.mark.parametrize("name", _SERVICES)
async def test_a_service_climbs_degrades_and_recovers(name: str, plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = install(plane)
    async with (
        kinds_staged(plane, _SERVICES[name]) as stage,
        witnessed(stage.api, WATCHED, census_of_pods),
        scaler(tmp_path, kubeconfig, flags=ALONE) as process,
    ):
        stage.kubectl("apply")
        await stage.runs_both(1, 1)
        await climb_degrade_and_recover(stage)
        assert process.errors() == []


@pytest.mark.kubernetes_from(36)
async def test_a_service_beside_ascend_operator_does_too(plane: ControlPlane, tmp_path: Path) -> None:
    async with beside(plane, ascend_jobs(2, EXAMPLE), tmp_path) as stage:
        stage.kubectl("apply")
        await stage.runs_both(1, 1)
        await climb_degrade_and_recover(stage)
