"""The scenarios of the simulation and the services of MindIE Motor on a real API server, run by the real binary."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scaler.sim.actors.nodes import NodeFate, NodeSpec, add_node
from scaler.sim.apiserver.crds import definitions
from scaler.sim.stories.timeline import Timeline
from scaler.tools.simulation.scenario_file import load_scenario
from scaler.tools.simulation.verdicts import judge
from tests.control_plane.plane import ControlPlane, PlaneOptions
from tests.control_plane.plugin import FreshPlane
from tests.control_plane.real_world import compressed, plane_options, play_really
from tests.control_plane.scaler_process import install, scaler
from tests.control_plane.stage import staged
from tests.control_plane.witness import Witness, watched
from tests.simulation.test_motor import SERVICES

LONG = pytest.mark.long("stories in real time, a minute each")
_OTHERS = {
    "aibrix", "beside-ascend-operator", "deployment-and-leaderworkerset", "infer-operator", "ome-deployment",
    "ome-leaderworkerset", "scaled-down-and-up-beside-ascend-operator",
    "scaled-down-and-up-deployment-and-leaderworkerset", "volcano-jobs",
}  # fmt: skip
"""Whose pods others make: test_kinds.py and test_beside.py tell those stories with the real makers."""
_CROWDS = {"no-preemption-among-equals", "preemption-among-equals", "preemption-by-priority"}
"""Those of several services that are told here; test_minimums.py and test_one_never_runs.py tell others. What a curse
withholds is the simulation's to withhold."""


def _is_told_here(path: Path) -> bool:
    return path.stem not in _OTHERS and (path.stem in _CROWDS or not load_scenario(path).copies)


_SCENARIOS = sorted(filter(_is_told_here, (Path(__file__).parents[1] / "scenarios").glob("*.yaml")))
_FIRST = [path for path in _SCENARIOS if path.stem == "smaller-rule"]
_LONG = [pytest.param(path, marks=LONG) for path in _SCENARIOS if path not in _FIRST]
_FACTORS = {"cold-start": 3.0, "crashing-pod": 4.0}
"""How much faster than written. These two have windows of seconds, which a busy machine needs."""


@pytest.mark.parametrize("path", [*_FIRST, *_LONG], ids=lambda path: path.stem)
def test_the_scenario_does_in_reality_what_it_expects(path: Path, fresh_plane: FreshPlane, tmp_path: Path) -> None:
    factor = _FACTORS.get(path.stem, 8.0)
    scenario = compressed(load_scenario(path), factor)
    timeline = asyncio.run(play_really(fresh_plane(plane_options(scenario)), scenario, tmp_path, factor))
    wrong = [f"{verdict.expected}, but {verdict.found}" for verdict in judge(scenario, timeline) if not verdict.ok]
    assert not wrong, "\n".join([*wrong, *_story(timeline)])


@LONG
@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_of_mindie_motor_starts_loses_a_node_degrades_and_climbs(
    real_data: Path, fresh_plane: FreshPlane, tmp_path: Path, name: str
) -> None:
    nodes, prefills, decodes = SERVICES[name]
    plane = fresh_plane(PlaneOptions(crds=definitions()))
    asyncio.run(_lose_and_regain(plane, tmp_path, real_data / "motor" / name, nodes, (prefills, decodes)))


async def _lose_and_regain(
    plane: ControlPlane, folder: Path, manifests: Path, nodes: int, whole: tuple[int, int]
) -> None:
    kubeconfig = install(plane)
    a3 = manifests.name.startswith("A3")
    async with staged(plane) as stage, watched(Witness(stage.api)), scaler(folder, kubeconfig) as process:
        await stage.add_npu_nodes(nodes, a3=a3)
        await add_node(stage.api, NodeSpec("cpu-0", npu=0, cpu=2000, memory="8Ti", pods=500))
        for part in ("configmaps", "deployment"):
            await stage.apply(manifests / part)
        await stage.runs(group0=whole[0], group1=whole[1])
        lost = await stage.node_of("mindie-server-p0")
        await stage.node(lost, NodeFate.NOT_READY)
        await stage.runs(group0=whole[0] - 1, group1=whole[1])
        await stage.node(lost, NodeFate.READY)
        await stage.runs(group0=whole[0], group1=whole[1])
        await asyncio.to_thread(_say_that_they_run, plane, sum(whole))
        assert process.errors() == []


def _say_that_they_run(plane: ControlPlane, count: int) -> None:
    """Every server job has the condition that users wait for."""
    jobs = plane.kubectl("get", "ascendjobs", "--namespace", "mindie", "--output", "name").split()
    servers = [job for job in jobs if "mindie-server-" in job]
    assert len(servers) == count
    plane.kubectl("wait", "--for=condition=Running", "--timeout=30s", "--namespace", "mindie", *servers)


def _story(timeline: Timeline) -> list[str]:
    """What happened, for the one who has to find out why."""
    lines = [(moment.at, f"{moment.service} {moment.text}") for moment in timeline.moments]
    for samples in timeline.samples.values():
        for sample in samples:
            views = " ".join(f"{view.name}={view.condition}@{','.join(view.nodes)}" for view in sample.instances)
            lines.append((sample.at, f"{views} target {sample.target} {sample.reasons}"))
    return [f"{at:7.2f} {text}" for at, text in sorted(lines)]
