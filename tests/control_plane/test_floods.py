"""A leader whose ports are flooded keeps its Lease, decides, and answers probes; bench_flood.py has
the numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.control_plane.bench_flood import flooded, flooding, watched
from tests.control_plane.plane import ControlPlane

pytestmark = pytest.mark.long("half a minute in real time")

FLOODS = {
    "bodies as large as may be": ("bodies", 300),
    "bodies that never end": ("slow", 300),
    "handshakes": ("handshakes", 100),
    "scrapes": ("metrics", 300),
}


async def test_under_every_flood_a_leader_stays_the_leader_decides_and_is_alive(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async with flooded(plane, tmp_path) as (api, process, port):
        for kind, connections in FLOODS.values():
            with flooding(
                kind, process.port if kind == "metrics" else port, connections, addresses=1
            ):
                seen = await watched(api, process.url(""), 12)
            assert seen.holders == {"scaler"}, kind
            assert len(seen.renewals) > 3, kind
            assert seen.releases, kind
            assert sum(probe < 90 for probe in seen.probes) > len(seen.probes) / 2, kind
        assert process.errors() == []
