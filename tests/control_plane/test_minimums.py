"""Twenty services that need two nodes each to serve, on forty and on twenty nodes of a real API
server: minimums first.

Not before every minimum that fits runs does a service get more, whoever makes the pods and whoever
binds them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from scaler.sim.stories.instances import InstanceView
from tests.control_plane.plane import ControlPlane
from tests.control_plane.services import (
    CREATED,
    CREATED_WITHOUT_GANGS,
    GATED,
    LONG,
    SERVICES,
    SharedStage,
    Way,
    governed,
    shared,
)
from tests.control_plane.stage import kinds_definitions, until

POD_START = 2.0
"""Seconds from bound to Running: all jobs must be there before the first service could scale up."""

pytestmark = [
    pytest.mark.plane_options(crds=kinds_definitions(), scheduler=True, pod_start=POD_START),
    pytest.mark.long("twenty services in real time"),
]
WITH_VOLCANO = pytest.mark.plane_options(scheduler=False, volcano=True)
"""Left out, with a line at the end, where VOLCANO_BIN_DIR is not set."""


class Course(NamedTuple):
    """How many services run what, by ratio, before and after one of them leaves."""

    nodes: int
    first: dict[str, int]
    then: dict[str, int]


async def all_serve(way: Way, plane: ControlPlane, folder: Path) -> None:
    """The nodes of one that leaves go to scale-ups."""
    course = Course(
        nodes=2 * SERVICES,
        first={"1P1D": SERVICES},
        then={"1P1D": SERVICES - 3, "2P1D": 2},
    )
    await _play(way, plane, folder, course)


async def half_serve(way: Way, plane: ControlPlane, folder: Path) -> None:
    """The nodes of one that leaves go to a service that waits."""
    half = SERVICES // 2
    course = Course(
        nodes=SERVICES,
        first={"1P1D": half, "0P0D": half},
        then={"1P1D": half, "0P0D": half - 1},
    )
    await _play(way, plane, folder, course)


async def comes_to(stage: SharedStage, tally: dict[str, int]) -> None:
    """Wait until they run exactly this, and no other instance holds a node or waits for the
    scheduler."""

    async def now() -> tuple[dict[str, int], Mapping[str, list[InstanceView]]]:
        return stage.tally(), stage.services()

    await until(
        now, f"the services run {tally}", seconds=LONG, fits=lambda found: found[0] == tally
    )


async def _play(way: Way, plane: ControlPlane, folder: Path, course: Course) -> None:
    """They come to `first`, and to `then` when one of those that serve is deleted; who sits stays
    where it is."""
    async with shared(plane, way, course.nodes) as stage, governed(stage, folder):
        await stage.arrive()
        await comes_to(stage, course.first)
        before = stage.nodes_by_instance()
        leaving = stage.serving()[0]
        await stage.leave(leaving)
        await comes_to(stage, course.then)
        stayed = {
            name: nodes for name, nodes in before.items() if not name.startswith(f"{leaving}/")
        }
        assert stayed.items() <= stage.nodes_by_instance().items()


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
async def test_half_of_them_serve_beside_ascend_operator_too(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await half_serve(GATED, plane, tmp_path)


@WITH_VOLCANO
async def test_all_serve_with_the_real_volcano_too(plane: ControlPlane, tmp_path: Path) -> None:
    await all_serve(CREATED, plane, tmp_path)


@WITH_VOLCANO
async def test_half_of_them_serve_with_the_real_volcano_too(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await half_serve(CREATED, plane, tmp_path)


@WITH_VOLCANO
@pytest.mark.kubernetes_from(36)
async def test_all_serve_with_volcano_beside_ascend_operator_too(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await all_serve(GATED, plane, tmp_path)


@WITH_VOLCANO
@pytest.mark.kubernetes_from(36)
async def test_half_of_them_serve_with_volcano_beside_ascend_operator_too(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await half_serve(GATED, plane, tmp_path)
