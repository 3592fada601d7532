"""Every scenario of tests/scenarios, and the demo's, comes out as it says; in other orders of events too."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.commands.simulation.scenario_file import check_inputs, load_scenario
from tests.simulation.worlds import ROOT, SCENARIOS, played

DEMO = ROOT / "manifests" / "examples" / "demo.yaml"


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("path", [*SCENARIOS, DEMO], ids=lambda path: path.stem)
def test_the_scenario_does_what_it_expects(path: Path, seed: int) -> None:
    scenario = load_scenario(path)
    check_inputs(scenario)
    assert played(scenario, seed=seed).passes > 0
