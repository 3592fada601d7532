"""The stand-in of Volcano's Jobs does what Volcano itself does: the cases of `tests.volcano_cases`
with the programs in VOLCANO_BIN_DIR, left out with a line at the end where that is not set.

The stand-in is judged by the same cases in tests/sim/test_volcano_jobs.py."""

from __future__ import annotations

import pytest

from scaler.clock import Clock
from scaler.kube.api import NODES
from scaler.sim.actors.nodes import Kubelet, KubeletTimings, NodeSpec, node_object
from scaler.sim.actors.volcano_jobs import Version
from tests.control_plane.others import VOLCANO
from tests.control_plane.plane import ControlPlane
from tests.control_plane.stage import kinds_definitions, playing
from tests.volcano_cases import CASES, PODS_OF_JOB, play

pytestmark = [
    pytest.mark.plane_options(volcano=True, crds=kinds_definitions()),
    pytest.mark.long("twenty seconds for each case"),
]
QUICK = KubeletTimings(start=(0.5, 0.5), ready=(0.0, 0.0), stop=(2.0, 2.0))


def version() -> Version:
    """Of the programs: the definition of Jobs has `partitionPolicy` since 1.14."""
    text = (VOLCANO.path("crds") / "batch.volcano.sh_jobs.yaml").read_text()
    return Version.V1_16 if "partitionPolicy" in text else Version.V1_12


@pytest.mark.parametrize("name", CASES)
async def test_volcano_does_what_the_stand_in_does(name: str, plane: ControlPlane) -> None:
    case = CASES[name]
    async with plane.client() as api:
        kubelet = Kubelet(api, Clock(), timings=QUICK, exit_code=case.exit_code)
        specs = [NodeSpec(f"volcano-{index}") for index in range(PODS_OF_JOB)]
        for spec in specs:
            await api.create(NODES, None, node_object(spec))
        plane.kill("kubelets")  # their containers have no exit codes
        try:
            async with playing(api, [kubelet]):
                assert await play(api, case) == case.expected(version())
        finally:
            for spec in specs:
                await api.delete(NODES, None, spec.name)
            plane.revive("kubelets")
