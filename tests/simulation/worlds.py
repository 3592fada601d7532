"""Scenarios made by the tests, and what they ask of a timeline."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from scaler.kube.api import Object
from scaler.sim import loop
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import ADMISSION, real_controller, settings_of, silence_logs
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.scenario_run import ScenarioRun
from scaler.sim.stories.timeline import MomentKind, Timeline
from scaler.tools.simulate.verdicts import judge
from tests.rig import Rig, at_work

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "manifests" / "examples" / "2p1d"
A2 = {"accelerator": "huawei-Ascend910", "accelerator-type": "module-910b-8"}
A3 = {"accelerator": "huawei-Ascend910", "accelerator-type": "module-a3-16"}


def scenario(nodes: int, manifests: list[Path], *, a3: bool = False, **more: Any) -> Scenario:
    """NPU nodes of one kind and one node for MindIE's own pods."""
    npus = {"name": "npu-{}", "count": nodes, "npu": 16 if a3 else 8, "labels": A3 if a3 else A2}
    cpus = {"name": "cpu-0", "npu": 0, "cpu": 2000, "memory": "8Ti", "pods": 500}
    return Scenario.model_validate({"nodes": [npus, cpus], "manifests": manifests, **more})


Beside = Callable[[SimCluster], Sequence[Coroutine[Any, Any, None]]]


def played(
    what: Scenario,
    *,
    seed: int = 0,
    before: Sequence[Object] = (),
    beside: Beside = lambda _: (),
    **settings: Any,
) -> Timeline:
    """Play it; every expectation holds and nothing broke on the way. `before`: objects that are
    there first; `beside`: what works on the cluster meanwhile."""
    silence_logs()
    timeline = Timeline()

    async def story() -> None:
        on = Rig(*ADMISSION, seed=seed)
        on.cluster.apply(before)
        controller = real_controller(seed, settings=settings_of(what), **settings)
        async with at_work(*beside(on.cluster)):
            await ScenarioRun(
                on.cluster, on.clock, what, controller=controller, timeline=timeline, seed=seed
            ).play()

    loop.run(story(), seed=seed)
    wrong = [f"{v.expected}, but {v.found}" for v in judge(what, timeline) if not v.ok]
    assert wrong == [], wrong
    return timeline


def failures(timeline: Timeline) -> list[str]:
    return [moment.text for moment in timeline.moments if moment.kind is MomentKind.FAILURE]
