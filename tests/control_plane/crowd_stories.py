"""What twenty services come to on forty and on twenty nodes, and after one of them has left: on a real API server.

The scaler runs as users run it, and the witness watches. Must not: know who makes the pods or who binds them.
"""

from __future__ import annotations

from pathlib import Path

from tests.control_plane.crowd_stage import SERVICES, Way, crowded
from tests.control_plane.kinds_stage import WATCHED, census_of_pods
from tests.control_plane.plane import ControlPlane
from tests.control_plane.scaler_process import install, scaler
from tests.control_plane.witness import witnessed


async def all_serve(way: Way, plane: ControlPlane, folder: Path) -> None:
    """The nodes of one that leaves go to scale-ups."""
    await _play(way, plane, folder, 2 * SERVICES, {"1P1D": SERVICES}, {"1P1D": SERVICES - 3, "2P1D": 2})


async def half_serve(way: Way, plane: ControlPlane, folder: Path) -> None:
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
