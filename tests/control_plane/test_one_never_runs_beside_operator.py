"""One of four services has a job that never runs, beside the real Ascend Operator and with the real Volcano.

Left out, with a line at the end, where ASCEND_OPERATOR_BIN_DIR or VOLCANO_BIN_DIR is not set.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.control_plane.crowd_stage import OPERATED_WITH_VOLCANO
from tests.control_plane.kinds_stage import kinds_definitions
from tests.control_plane.plane import ControlPlane
from tests.control_plane.spoilt_stories import FAULTS, Fault, one_never_runs

pytestmark = [
    pytest.mark.kubernetes_from(36),
    pytest.mark.plane_options(crds=kinds_definitions(), volcano=True, ascend_operator=True),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_the_others_are_served_as_if_it_were_not_there(fault: Fault, plane: ControlPlane, tmp_path: Path) -> None:
    await one_never_runs(OPERATED_WITH_VOLCANO, fault, plane, tmp_path)
