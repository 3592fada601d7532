"""Scenarios made by the tests, and what they ask of a timeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scaler.sim.stories.census import Condition
from scaler.sim.stories.play import play, silence_logs
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.timeline import MomentKind, Sample, Timeline
from scaler.sim.stories.verdicts import judge

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "manifests" / "examples" / "2p1d"
SCENARIOS = sorted((ROOT / "tests" / "scenarios").glob("*.yaml"))
A2 = {"accelerator": "huawei-Ascend910", "accelerator-type": "module-910b-8"}
A3 = {"accelerator": "huawei-Ascend910", "accelerator-type": "module-a3-16"}


def scenario(nodes: int, manifests: list[Path], *, a3: bool = False, **more: Any) -> Scenario:
    """NPU nodes of one kind and one node for MindIE's own pods."""
    npus = {"name": "npu-{}", "count": nodes, "npu": 16 if a3 else 8, "labels": A3 if a3 else A2}
    cpus = {"name": "cpu-0", "npu": 0, "cpu": 2000, "memory": "8Ti", "pods": 500}
    return Scenario.model_validate({"nodes": [npus, cpus], "manifests": manifests, **more})


def played(what: Scenario, *, seed: int = 0) -> Timeline:
    """Play it; every expectation holds and nothing broke on the way."""
    silence_logs()
    timeline = play(what, seed=seed)
    assert [f"{v.expected}, but {v.found}" for v in judge(what, timeline) if not v.ok] == []
    return timeline


def occupied(sample: Sample) -> dict[str, int]:
    """Instances per group that have pods, in whatever condition."""
    counts: dict[str, int] = {}
    for view in sample.instances:
        counts[view.group] = counts.get(view.group, 0) + (view.condition is not Condition.EMPTY)
    return counts


def failures(timeline: Timeline) -> list[str]:
    return [moment.text for moment in timeline.moments if moment.kind is MomentKind.FAILURE]
