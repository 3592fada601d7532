"""Every scenario of tests/scenarios, and the demo's, comes out as it says; in other orders of
events too."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.tools.simulate.scenario_file import check_inputs, load_scenario
from tests.simulation.worlds import ROOT, played

SCENARIOS = sorted((ROOT / "tests" / "scenarios").glob("*.yaml"))
DEMO = ROOT / "manifests" / "examples" / "demo.yaml"
LONGEST = {
    "a-minimum-never-bound-costs-ten-services-nothing",
    "cordoned-for-days-blocks-no-free-node",
    "thirty-services-of-mixed-sizes",
    "scale-ups-that-spoil-nothing-are-never-revoked",
    "thirty-services-of-mixed-sizes-beside-ascend-operator",
    "scale-ups-that-spoil-nothing-are-never-revoked-beside-ascend-operator",
}
LONG = pytest.mark.long(
    "up to half a minute of CPU for each order of events, or another order of the same events"
)
ORDERS = [
    pytest.param(
        path, seed, marks=LONG if seed or path.stem in LONGEST else (), id=f"{path.stem}-{seed}"
    )
    for path in (*SCENARIOS, DEMO)
    for seed in range(2 if path.stem in LONGEST else 3)
]


@pytest.mark.parametrize(("path", "seed"), ORDERS)
def test_the_scenario_does_what_it_expects(path: Path, seed: int) -> None:
    scenario = load_scenario(path)
    check_inputs(scenario)
    assert played(scenario, seed=seed).passes > 0
