"""One of four services has a job that never runs: the other three come to 2P1D as if it were not there.

A typo that makes its operator refuse it, nodes that do not exist, or a wish that only the scheduler can judge.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.control_plane.crowd_stage import CREATED_WITHOUT_GANGS, GATED, GATED_WITHOUT_GANGS, Way
from tests.control_plane.kinds_stage import kinds_definitions
from tests.control_plane.plane import ControlPlane
from tests.control_plane.spoilt_stories import FAULTS, MISTYPED, Fault, keeps_room_for_a_turn_only, one_never_runs

pytestmark = pytest.mark.plane_options(crds=kinds_definitions(), scheduler=True)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_the_others_are_served_as_if_it_were_not_there(fault: Fault, plane: ControlPlane, tmp_path: Path) -> None:
    await one_never_runs(CREATED_WITHOUT_GANGS, fault, plane, tmp_path)


async def test_it_keeps_the_room_that_others_wait_for_no_longer_than_a_turn(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await keeps_room_for_a_turn_only(CREATED_WITHOUT_GANGS, plane, tmp_path)


@pytest.mark.kubernetes_from(36)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_the_others_are_served_beside_ascend_operator_too(
    fault: Fault, plane: ControlPlane, tmp_path: Path
) -> None:
    await one_never_runs(GATED_WITHOUT_GANGS, fault, plane, tmp_path)


@pytest.mark.kubernetes_from(36)
@pytest.mark.parametrize("way", [GATED], ids=lambda way: way.name)
async def test_the_operator_s_words_are_said_where_gangs_are_bound_too(
    way: Way, plane: ControlPlane, tmp_path: Path
) -> None:
    await one_never_runs(way, MISTYPED, plane, tmp_path)
