"""The scenarios of the simulation and the services of MindIE Motor on a real API server, run by the
real binary.

Time is compressed: every duration of the scenario, of the stand-ins and of the scaler's own
patience is divided by one factor. The controller manager looks after nodes and garbage; kubelets,
scheduler, fault actor and MindIE Controller are the simulation's."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from scaler.clock import Clock
from scaler.controller import Observer
from scaler.kube.api import ELASTIC_SERVICES, KubeApi
from scaler.report.service_status import runs_all
from scaler.settings import Settings
from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.faulty_api import FaultyApi
from scaler.sim.actors.mindie import MindIEController
from scaler.sim.actors.nodes import NodeFate, NodeSpec, add_node
from scaler.sim.actors.stand_in import StandIn
from scaler.sim.apiserver.crds import definitions
from scaler.sim.stories.recorder import Recorder
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.scenario_run import ScenarioRun
from scaler.sim.stories.timeline import Timeline
from scaler.tools.simulate.scenario_file import load_scenario
from scaler.tools.simulate.verdicts import judge
from tests.control_plane.plane import ControlPlane, PlaneOptions
from tests.control_plane.plugin import FreshPlane
from tests.control_plane.proxy import Fault, Proxy, proxied, status
from tests.control_plane.scaler_process import (
    ACCOUNT,
    ALONE,
    LEASE,
    NAMESPACE,
    ScalerProcess,
    install,
    scaler,
)
from tests.control_plane.stage import staged
from tests.control_plane.witness import Witness, watched
from tests.simulation.test_motor import SERVICES

LONG = pytest.mark.long("stories in real time, a minute each", first=True)
_OTHERS = {
    "aibrix",
    "beside-ascend-operator",
    "deployment-and-leaderworkerset",
    "infer-operator",
    "ome-deployment",
    "ome-leaderworkerset",
    "rollout-out-of-a-bad-image",
    "scaled-down-and-up-beside-ascend-operator",
    "scaled-down-and-up-deployment-and-leaderworkerset",
    "volcano-job-whose-worker-waits-for-its-master",
    "volcano-jobs",
}
"""Whose pods others make: test_kinds.py and test_beside.py tell those stories with the real
makers."""
_CROWDS = {"no-preemption-among-equals", "preemption-among-equals", "preemption-by-priority"}
"""Those of several services that are told here; test_minimums.py and test_one_never_runs.py tell
others."""
_SIMULATED = {
    # the pauses of pods that a kubelet refused are no settings, so time cannot be compressed
    "a-kubelet-refuses-every-pod",
    # a StatefulSet, and a status that a kubelet of the control plane would write over
    "an-init-container-crash-loops",
    # half a second between two moments, which no faster time leaves
    "scaled-down-and-up-before-the-pods-have-ended",
}
"""What only the simulation can tell."""
_TIMES = ("at", "until", "within", "never_for", "lasting", "every")
DIVIDED = (
    "broken_grace",
    "stable_after",
    "start_timeout",
    "minimum_timeout",
    "backoff",
    "backoff_max",
    "due_back",
    "gather",
    "fit_patience",
    "trade_after",
    "eviction_pause",
    "flap_patience",
    "restart_after",
    "spare_patience",
    "grow_interval",
    "grow_patience",
)
"""Settings that are divided as the times of a scenario are."""


def _is_told_here(path: Path) -> bool:
    if path.stem in _OTHERS | _SIMULATED:
        return False
    if path.stem in _CROWDS:
        return True
    scenario = load_scenario(path)
    # What a curse withholds is the simulation's to withhold.
    return not scenario.copies and not scenario.curse


_SCENARIOS = sorted(filter(_is_told_here, (Path(__file__).parents[1] / "scenarios").glob("*.yaml")))
_FIRST = [path for path in _SCENARIOS if path.stem == "smaller-rule"]
_LONG = [pytest.param(path, marks=LONG) for path in _SCENARIOS if path not in _FIRST]
_FACTORS = {"cold-start": 3.0, "crashing-pod": 4.0}
"""How much faster than written. These two have windows of seconds, which a busy machine needs."""


def compressed(scenario: Scenario, factor: float) -> Scenario:
    """The same story, faster."""
    document = scenario.model_dump(mode="json", exclude_unset=True)
    timing = scenario.timing.model_dump(mode="json")
    timing["fault_detection"] = scenario.fault_detection
    faster = {
        "timing": {key: _divided(value, factor) for key, value in timing.items()},
        "until": scenario.until,
    }
    return Scenario.model_validate(
        _hurried({**document, **faster}, factor) | {"timing": faster["timing"]}
    )


def _hurried(value: Any, factor: float) -> Any:
    if isinstance(value, dict):
        return {
            key: _divided(item, factor)
            if key in _TIMES and item is not None
            else _hurried(item, factor)
            for key, item in value.items()
        }
    return [_hurried(item, factor) for item in value] if isinstance(value, list) else value


def _divided(value: Any, factor: float) -> Any:
    return [item / factor for item in value] if isinstance(value, list | tuple) else value / factor


def plane_options(scenario: Scenario) -> PlaneOptions:
    """For an already compressed scenario."""
    start = scenario.timing.start
    stop = scenario.timing.stop
    return PlaneOptions(crds=definitions(), pod_start=sum(start) / 2, pod_stop=sum(stop) / 2)


def flags(settings: Settings, factor: float) -> list[str]:
    """The scaler's settings that are about the service's time, not the API server's, and those of
    the scenario."""
    given = {name: getattr(settings, name) for name in sorted(settings.model_fields_set)}
    shorter = {name: round(getattr(settings, name) / factor, 3) for name in DIVIDED}
    return [f"--{name.replace('_', '-')}={value}" for name, value in (given | shorter).items()]


async def play_really(
    plane: ControlPlane, scenario: Scenario, folder: Path, factor: float
) -> Timeline:
    """Run a compressed scenario to its end; AssertionError when the outside witness saw a promise
    broken."""
    install(plane)
    timeline = Timeline(None)
    async with (
        plane.client() as api,
        proxied(plane.port, plane.authority) as proxy,
        watched(Witness(api)),
    ):
        kubeconfig = plane.grant(NAMESPACE, ACCOUNT, server=proxy.url)
        runner = _Runner(folder, kubeconfig, [*ALONE, *LEASE, *flags(scenario.settings, factor)])
        world = _RealWorld(
            api,
            Clock(),
            scenario,
            controller=runner,
            timeline=timeline,
            seed=scenario.seed,
            controller_api=_ProxyFaults(api, proxy),
        )
        world.runner = runner
        await world.play()
    return timeline


class _Runner:
    """The controller of the world: a process that is killed when it is to stop."""

    def __init__(self, folder: Path, kubeconfig: Path, words: Sequence[str]) -> None:
        self._new = partial(ScalerProcess, folder=folder, kubeconfig=kubeconfig, flags=words)
        self._names = (f"scaler-{number}" for number in itertools.count(1))
        self.first = asyncio.get_running_loop().create_future()
        """The process that is started first."""

    async def __call__(self, _api: KubeApi, _clock: Clock, _observer: Observer) -> None:
        process = self._new(next(self._names))
        process.start()
        if not self.first.done():
            self.first.set_result(process)
        try:
            while process.exit_code is None:  # noqa: ASYNC110 - a process does not say when it ends
                await asyncio.sleep(0.1)
            raise RuntimeError(process.tail())
        finally:
            process.stop()


class _RealWorld(ScenarioRun):
    runner: _Runner

    async def _start(self) -> None:
        """Time zero is when the scaler is ready: how long Python takes to start is not the
        scenario's matter."""
        await super()._start()
        await (await self.runner.first).ready()
        self._recorder.start()

    def _actors(self) -> Any:
        timing = self._scenario.timing
        api = self._api
        clock = self._clock
        return [
            self._recorder,
            _StatusReader(api, self._recorder, self._timeline),
            self._gangs,
            FaultActor(api, clock, detection=self._scenario.fault_detection),
            MindIEController(api, clock, patience=timing.mindie_patience),
        ]


class _ProxyFaults(FaultyApi):
    """The scenario's faults, done to the wire."""

    def __init__(self, api: KubeApi, proxy: Proxy) -> None:
        super().__init__(api)
        self._proxy = proxy
        self._random_faults = random.Random(0)

    def fail(self, *, share: float, lasting: float) -> None:
        until = asyncio.get_running_loop().time() + lasting

        def judge(_method: str, _path: str) -> Fault:
            failing = (
                asyncio.get_running_loop().time() < until and self._random_faults.random() < share
            )
            return status(500, "InternalError") if failing else None

        self._proxy.judge = judge

    def cut_watches(self) -> None:
        self._proxy.cut()


class _StatusReader(StandIn):
    """What the scaler says about itself, from the ElasticServices: target, completeness and
    reasons."""

    def __init__(self, api: KubeApi, recorder: Recorder, timeline: Timeline) -> None:
        super().__init__(api, ELASTIC_SERVICES)
        self._recorder = recorder
        self._timeline = timeline

    async def _round(self) -> None:
        for found in self.mirror.all(ELASTIC_SERVICES):
            if "status" in found:
                spec = found["spec"]
                said = found["status"]
                name = f"{found['metadata']['namespace']}/{spec['rule']}/{spec['jobID']}"
                last = self._timeline.last(name)
                sample = replace(
                    last,
                    target=said.get("targetRatio", {"counts": {}})["counts"],
                    complete=runs_all(said),
                    reasons={
                        instance["name"]: instance["reason"] for instance in said["instances"]
                    },
                )
                if sample != last:
                    self._timeline.passes += 1
                    self._timeline.add(name, replace(sample, at=self._recorder.elapsed))


@pytest.mark.parametrize("path", [*_FIRST, *_LONG], ids=lambda path: path.stem)
def test_the_scenario_does_in_reality_what_it_expects(
    path: Path, fresh_plane: FreshPlane, tmp_path: Path
) -> None:
    factor = _FACTORS.get(path.stem, 8.0)
    scenario = compressed(load_scenario(path), factor)
    timeline = asyncio.run(
        play_really(fresh_plane(plane_options(scenario)), scenario, tmp_path, factor)
    )
    wrong = [
        f"{verdict.expected}, but {verdict.found}"
        for verdict in judge(scenario, timeline)
        if not verdict.ok
    ]
    assert not wrong, "\n".join([*wrong, *_story(timeline)])


@LONG
@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_of_mindie_motor_starts_loses_a_node_degrades_and_climbs(
    real_data: Path, fresh_plane: FreshPlane, tmp_path: Path, name: str
) -> None:
    nodes, prefills, decodes = SERVICES[name]
    plane = fresh_plane(PlaneOptions(crds=definitions()))
    asyncio.run(
        _lose_and_regain(plane, tmp_path, real_data / "motor" / name, nodes, (prefills, decodes))
    )


async def _lose_and_regain(
    plane: ControlPlane, folder: Path, manifests: Path, nodes: int, whole: tuple[int, int]
) -> None:
    kubeconfig = install(plane)
    a3 = manifests.name.startswith("A3")
    async with (
        staged(plane) as stage,
        watched(Witness(stage.api)),
        scaler(folder, kubeconfig) as process,
    ):
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
    plane.kubectl(
        "wait", "--for=condition=Running", "--timeout=30s", "--namespace", "mindie", *servers
    )


def _story(timeline: Timeline) -> list[str]:
    """What happened, for the one who has to find out why."""
    lines = [(moment.at, f"{moment.service} {moment.text}") for moment in timeline.moments]
    for samples in timeline.samples.values():
        for sample in samples:
            views = " ".join(
                f"{view.name}={view.condition}@{','.join(view.nodes)}" for view in sample.instances
            )
            lines.append((sample.at, f"{views} target {sample.target} {sample.reasons}"))
    return [f"{at:7.2f} {text}" for at, text in sorted(lines)]
