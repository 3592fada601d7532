"""Scenarios made by the tests, and what they ask of a timeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scaler.clock import Clock
from scaler.settings import Mode
from scaler.sim import loop
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.instances import Condition
from scaler.sim.stories.play import ADMISSION, START, real_controller, settings_of, silence_logs
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.timeline import MomentKind, Sample, Timeline
from scaler.sim.stories.world import World
from scaler.tools.simulation.verdicts import judge
from tests.deployed_operator import deployment

ROOT = Path(__file__).resolve().parents[2]
BESIDE = ROOT / "tests" / "simulation" / "beside.yaml"
"""The namespace of MindIE Motor, with both labels."""
EXAMPLE = ROOT / "manifests" / "examples" / "2p1d"
SCENARIOS = sorted((ROOT / "tests" / "scenarios").glob("*.yaml"))
A2 = {"accelerator": "huawei-Ascend910", "accelerator-type": "module-910b-8"}
A3 = {"accelerator": "huawei-Ascend910", "accelerator-type": "module-a3-16"}


def scenario(nodes: int, manifests: list[Path], *, a3: bool = False, **more: Any) -> Scenario:
    """NPU nodes of one kind and one node for MindIE's own pods."""
    npus = {"name": "npu-{}", "count": nodes, "npu": 16 if a3 else 8, "labels": A3 if a3 else A2}
    cpus = {"name": "cpu-0", "npu": 0, "cpu": 2000, "memory": "8Ti", "pods": 500}
    return Scenario.model_validate({"nodes": [npus, cpus], "manifests": manifests, **more})


def played(what: Scenario, *, seed: int = 0, operator_deployed: bool = False) -> Timeline:
    """Play it; every expectation holds and nothing broke on the way. Where Ascend Operator is deployed, the scaler
    finds that out by itself (mode auto)."""
    silence_logs()
    timeline, settings = Timeline(None), settings_of(what)

    async def story() -> None:
        clock = Clock(START)
        cluster = SimCluster(clock, seed=seed, admission=ADMISSION)
        cluster.apply([deployment()] if operator_deployed else [])
        mode = Mode.AUTO if operator_deployed else settings.mode
        controller = real_controller(seed, settings=settings, mode=mode)
        await World(cluster, clock, what, controller=controller, timeline=timeline, seed=seed).play()

    loop.run(story(), seed=seed)
    wrong = [f"{v.expected}, but {v.found}" for v in judge(what, timeline) if not v.ok]
    assert wrong == [], wrong
    return timeline


def occupied(sample: Sample) -> dict[str, int]:
    """Instances per group that have pods, in whatever condition."""
    counts: dict[str, int] = {}
    for view in sample.instances:
        counts[view.group] = counts.get(view.group, 0) + (view.condition is not Condition.EMPTY)
    return counts


def failures(timeline: Timeline) -> list[str]:
    return [moment.text for moment in timeline.moments if moment.kind is MomentKind.FAILURE]
