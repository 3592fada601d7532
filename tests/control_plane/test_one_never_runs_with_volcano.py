"""One of four services has a job that never runs, with the real Volcano: its queue must not make the others wait.

Left out, with a line at the end, where VOLCANO_BIN_DIR is not set.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.control_plane.crowd_stage import CREATED_WITH_VOLCANO, GATED_WITH_VOLCANO
from tests.control_plane.kinds_stage import kinds_definitions
from tests.control_plane.plane import ControlPlane
from tests.control_plane.spoilt_stories import FAULTS, Fault, keeps_room_for_a_turn_only, one_never_runs

pytestmark = pytest.mark.plane_options(crds=kinds_definitions(), volcano=True)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_the_others_are_served_as_if_it_were_not_there(fault: Fault, plane: ControlPlane, tmp_path: Path) -> None:
    await one_never_runs(CREATED_WITH_VOLCANO, fault, plane, tmp_path)


async def test_it_keeps_the_room_that_others_wait_for_no_longer_than_a_turn(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await keeps_room_for_a_turn_only(CREATED_WITH_VOLCANO, plane, tmp_path)


@pytest.mark.kubernetes_from(36)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_the_others_are_served_beside_ascend_operator_too(
    fault: Fault, plane: ControlPlane, tmp_path: Path
) -> None:
    await one_never_runs(GATED_WITH_VOLCANO, fault, plane, tmp_path)
