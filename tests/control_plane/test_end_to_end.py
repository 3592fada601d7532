"""The scenarios of the simulation and the services of MindIE Motor on a real API server, run by the real binary."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scaler.sim.scenario_file import load_scenario
from scaler.sim.timeline import Timeline
from scaler.sim.verdicts import judge
from tests.control_plane.plugin import FreshPlane
from tests.control_plane.real_world import compressed, plane_options, play_really

_SCENARIOS = sorted((Path(__file__).parents[1] / "scenarios").glob("*.yaml"))
_FACTORS = {"cold-start": 3.0, "crashing-pod": 4.0}
"""How much faster than written. These two have windows of seconds, which a busy machine needs."""


@pytest.mark.parametrize("path", _SCENARIOS, ids=lambda path: path.stem)
def test_the_scenario_does_in_reality_what_it_expects(path: Path, fresh_plane: FreshPlane, tmp_path: Path) -> None:
    factor = _FACTORS.get(path.stem, 8.0)
    scenario = compressed(load_scenario(path), factor)
    timeline = asyncio.run(play_really(fresh_plane(plane_options(scenario)), scenario, tmp_path, factor))
    wrong = [f"{verdict.expected}, but {verdict.found}" for verdict in judge(scenario, timeline) if not verdict.ok]
    assert not wrong, "\n".join([*wrong, *_story(timeline)])


def _story(timeline: Timeline) -> list[str]:
    """What happened, for the one who has to find out why."""
    lines = [(moment.at, f"{moment.service} {moment.text}") for moment in timeline.moments]
    for samples in timeline.samples.values():
        for sample in samples:
            views = " ".join(f"{view.name}={view.condition}@{','.join(view.nodes)}" for view in sample.instances)
            lines.append((sample.at, f"{views} target {sample.target} {sample.reasons}"))
    return [f"{at:7.2f} {text}" for at, text in sorted(lines)]
