"""A scenario in real time: the same file, a real API server, and the scaler as a process of its own.

Time is compressed: every duration of the scenario, of the stand-ins and of the scaler's own patience is divided by one
factor. kwok is the kubelet, the controller manager looks after nodes and garbage; scheduler, fault actor and MindIE
Controller are the simulation's. Must not: judge (scaler.tools.simulation.verdicts).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from scaler.clock import Clock
from scaler.controller import Observer
from scaler.kube.api import ELASTIC_SERVICES, KubeApi
from scaler.settings import Settings
from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.faulty_api import FaultyApi
from scaler.sim.actors.mindie import MindIEController
from scaler.sim.actors.stand_in import StandIn
from scaler.sim.apiserver.crds import definitions
from scaler.sim.stories.recorder import Recorder
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.timeline import Timeline
from scaler.sim.stories.world import World
from tests.control_plane.plane import ControlPlane, PlaneOptions
from tests.control_plane.proxy import Fault, Proxy, proxied, status
from tests.control_plane.scaler_process import ACCOUNT, ALONE, LEASE, NAMESPACE, ScalerProcess, install
from tests.control_plane.stage import wall_clock
from tests.control_plane.witness import Witness, watched

_TIMES = ("at", "until", "within", "never_for", "lasting", "every")
DIVIDED = (
    "broken_grace", "stable_after", "start_timeout", "minimum_timeout", "backoff", "backoff_max",
    "due_back", "fit_patience", "trade_after",
)  # fmt: skip
"""Settings that are divided as the times of a scenario are."""


def compressed(scenario: Scenario, factor: float) -> Scenario:
    """The same story, faster."""
    document = scenario.model_dump(mode="json", exclude_unset=True)
    timing = scenario.timing.model_dump(mode="json")
    faster = {"timing": {key: _divided(value, factor) for key, value in timing.items()}, "until": scenario.until}
    return Scenario.model_validate(_hurried({**document, **faster}, factor) | {"timing": faster["timing"]})


def _hurried(value: Any, factor: float) -> Any:
    if isinstance(value, dict):
        return {
            key: _divided(item, factor) if key in _TIMES and item is not None else _hurried(item, factor)
            for key, item in value.items()
        }
    return [_hurried(item, factor) for item in value] if isinstance(value, list) else value


def _divided(value: Any, factor: float) -> Any:
    return [item / factor for item in value] if isinstance(value, list | tuple) else value / factor


def plane_options(scenario: Scenario) -> PlaneOptions:
    """For an already compressed scenario."""
    start, stop = scenario.timing.start, scenario.timing.stop
    return PlaneOptions(crds=definitions(), pod_start=sum(start) / 2, pod_stop=sum(stop) / 2)


def flags(settings: Settings, factor: float) -> list[str]:
    """The scaler's settings that are about the service's time, not the API server's, and those that the scenario
    gives."""
    given = {name: getattr(settings, name) for name in sorted(settings.model_fields_set)}
    shorter = {name: round(getattr(settings, name) / factor, 3) for name in DIVIDED}
    return [
        word for name, value in (given | shorter).items() for word in (f"--{name.replace('_', '-')}", str(value))
    ]  # fmt: skip


async def play_really(plane: ControlPlane, scenario: Scenario, folder: Path, factor: float) -> Timeline:
    """Run a compressed scenario to its end; AssertionError when the outside witness saw a promise broken."""
    install(plane)
    timeline = Timeline(None)
    async with plane.client() as api, proxied(plane.port, plane.authority) as proxy, watched(Witness(api)):
        kubeconfig = plane.grant(NAMESPACE, ACCOUNT, server=proxy.url)
        runner = _Runner(folder, kubeconfig, [*ALONE, *LEASE, *flags(scenario.settings, factor)])
        world = _RealWorld(
            api, wall_clock(), scenario, controller=runner, timeline=timeline, seed=scenario.seed,
            controller_api=_ProxyFaults(api, proxy),
        )  # fmt: skip
        world.runner = runner
        await world.play()
    return timeline


class _Runner:
    """The controller of the world: a process that is killed when it is to stop."""

    def __init__(self, folder: Path, kubeconfig: Path, words: Sequence[str]) -> None:
        self._arguments = folder, kubeconfig, words
        self._count = 0
        self._started = asyncio.Event()
        self._process: ScalerProcess

    async def ready(self) -> None:
        """Until the process that was started has synced its caches."""
        await self._started.wait()
        await self._process.ready()

    async def __call__(self, _api: KubeApi, _clock: Clock, _observer: Observer) -> None:
        self._count += 1
        folder, kubeconfig, words = self._arguments
        process = ScalerProcess(f"scaler-{self._count}", folder, kubeconfig, words)
        self._started.set()
        self._process = process
        process.start()
        try:
            while process.exit_code is None:  # noqa: ASYNC110 - a process does not say when it ends
                await asyncio.sleep(0.1)
            raise RuntimeError(process.tail())
        finally:
            process.stop()


class _RealWorld(World):
    runner: _Runner

    async def _start(self) -> None:
        """Time zero is when the scaler is ready: how long Python takes to start is not the scenario's matter."""
        await super()._start()
        await self.runner.ready()
        self._recorder.start()

    def _actors(self) -> Any:
        timing, api, clock = self._scenario.timing, self._api, self._clock
        return [
            self._recorder,
            _StatusReader(api, self._recorder, self._timeline),
            self._gangs,
            FaultActor(api, clock, detection=timing.fault_detection),
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
            failing = asyncio.get_running_loop().time() < until and self._random_faults.random() < share
            return status(500, "InternalError") if failing else None

        self._proxy.judge = judge

    def cut_watches(self) -> None:
        self._proxy.cut()


class _StatusReader(StandIn):
    """What the scaler says about itself, from the ElasticServices: target, completeness and reasons."""

    def __init__(self, api: KubeApi, recorder: Recorder, timeline: Timeline) -> None:
        super().__init__(api, ELASTIC_SERVICES)
        self._recorder = recorder
        self._timeline = timeline

    async def _round(self) -> None:
        for found in self.mirror.all(ELASTIC_SERVICES):
            if "status" in found:
                spec, said = found["spec"], found["status"]
                name = f"{found['metadata']['namespace']}/{spec['rule']}/{spec['jobID']}"
                last = self._timeline.last(name)
                sample = replace(
                    last,
                    target=said.get("targetRatio", {"counts": {}})["counts"],
                    complete=said["reason"] == "Complete",
                    reasons={instance["name"]: instance["reason"] for instance in said["instances"]},
                )
                if sample != last:
                    self._timeline.passes += 1
                    self._timeline.add(name, replace(sample, at=self._recorder.elapsed))
