"""Plays a scenario in virtual time: the simulated cluster, the stand-ins and the real controller on one loop.

One seed gives one history. Must not: decide, judge (scaler.tools.simulation.verdicts), touch files but manifests, or
import an HTTP or Kubernetes client.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import structlog

from scaler.app import run_controller
from scaler.clock import Clock
from scaler.controller import Observer
from scaler.decide.world import Decision
from scaler.decide.world import World as Seen
from scaler.kube.api import QUEUES, KubeApi
from scaler.kube.errors import AlreadyExistsError, KubeError
from scaler.settings import Mode, Settings
from scaler.sim import loop
from scaler.sim.actors import objects
from scaler.sim.actors.clusterd import ClusterD
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.actors.devices import DevicePlugin
from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.faulty_api import Curses, FaultyApi
from scaler.sim.actors.kubelet import Kubelet
from scaler.sim.actors.leader_worker_sets import label_member
from scaler.sim.actors.mindie import MindIEController
from scaler.sim.actors.nodes import NodeLifecycle, add_node
from scaler.sim.actors.operator import AscendOperator
from scaler.sim.actors.owners import owners
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.actors.stand_in import Actor
from scaler.sim.cluster import SimCluster
from scaler.sim.load.service import LoadedService
from scaler.sim.stories.events import Happenings, RunController, node_specs
from scaler.sim.stories.manifests import ManifestError, apply, copied, delete, read_manifests
from scaler.sim.stories.recorder import Recorder
from scaler.sim.stories.scenario import Copies, Scenario
from scaler.sim.stories.timeline import MomentKind, Timeline
from scaler.sim.webhooks import webhooks

START = 1_790_000_000.0
"""Seconds since the epoch at the start of every simulation: a day in September 2026."""

ADMISSION = (label_member, *webhooks())
"""The webhooks of every simulated cluster: LeaderWorkerSet's, and our own for namespaces that opted in."""

SIMULATED = Settings.model_validate({"leader_election": False, "http_port": 0, "mode": Mode.CREATE})
"""One process without servers; all other settings have their defaults."""


class World:
    """One scenario on one cluster. `seed` decides every random duration and every free choice of a stand-in.

    `controller_api` has the API faults of the scenario; by default a view of the `api` of the controller.
    """

    def __init__(
        self, api: KubeApi, clock: Clock, scenario: Scenario, *, controller: RunController, timeline: Timeline,
        seed: int, controller_api: FaultyApi | None = None,
    ) -> None:  # fmt: skip
        self._api = api
        self._clock = clock
        self._scenario = scenario
        self._seed = seed
        self._timeline = timeline
        ungoverned = {load.namespace: load.job_id for load in scenario.load if load.ungoverned}
        self._recorder = Recorder(api, clock, timeline, ungoverned)
        self._curses = Curses(scenario.curse, lambda: self._recorder.elapsed)
        self._happenings = Happenings(
            api, clock, node_specs(scenario.nodes), recorder=self._recorder, controller=controller,
            controller_api=controller_api or FaultyApi(api, self._curses, seed=seed),
        )  # fmt: skip

    async def play(self) -> None:
        """Run from the empty cluster to the end of the scenario; `timeline` is complete afterwards."""
        await self._while_all_work(self._unfold)
        for curse in self._curses.unmet:
            self._recorder.say(MomentKind.WARNING, f"the curse of {curse.of} (never {curse.never}) met no object")
        for load in self._scenario.load:
            if load.service not in self._timeline.samples:
                words = f"there was no service {load.service}: all its requests are lost"
                self._recorder.say(MomentKind.WARNING, words)
        self._timeline.end = self._scenario.until

    async def live(self) -> None:
        """Like `play`, but without an end until cancelled: for a cluster to look at."""
        await self._while_all_work(asyncio.Event().wait)

    async def _while_all_work(self, unfold: Callable[[], Awaitable[object]]) -> None:
        async with asyncio.TaskGroup() as group:
            self._recorder.start()
            actors = self._actors()
            self._happenings.scheduler = next(actor for actor in actors if isinstance(actor, GangScheduler))
            tasks = [group.create_task(actor.run(), name=type(actor).__name__) for actor in actors]
            try:
                await self._begin()
                await unfold()
            finally:
                await self._happenings.steer("stop")
                for task in tasks:
                    task.cancel()

    async def _begin(self) -> None:
        """Start nodes, controller, manifests, in this order. A refusal is recorded as a failure."""
        for spec in node_specs(self._scenario.nodes).values():
            await add_node(self._api, spec)
        about = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": "default"}}
        with contextlib.suppress(AlreadyExistsError):
            await self._api.create(QUEUES, None, {**about, "spec": {"weight": 1}})
        await self._start()
        for path in self._scenario.manifests:
            await self._apply([path])
        for at, copies, namespace in self._arrivals():
            if not at:
                await self._apply(copies.manifests, namespace, copies.replace)

    async def _start(self) -> None:
        await self._happenings.steer("start")

    def _actors(self) -> Sequence[Actor]:
        timing = self._scenario.timing
        api, clock, curses = self._api, self._clock, self._curses
        making = FaultyApi(api, curses, owner=True)
        return [
            self._recorder,
            GangScheduler(api, period=timing.schedule_period, seed=self._seed, cursed=curses),
            DevicePlugin(api),
            Kubelet(api, clock, timings=timing, seed=self._seed, cursed=curses),
            ClusterD(api),
            FaultActor(api, clock, detection=timing.fault_detection),
            MindIEController(
                api, clock, patience=timing.mindie_patience, beside=self._scenario.ascend_operator,
                say=partial(self._recorder.say, MomentKind.INSTANCE),
            ),
            NodeLifecycle(api, clock, eviction=timing.eviction),
            GarbageCollector(api),
            *owners(making),
            *(LoadedService(api, load, self._timeline, self._recorder) for load in self._scenario.load),
            *([AscendOperator(making, clock, cursed=curses)] if self._scenario.ascend_operator else []),
        ]  # fmt: skip

    def _arrivals(self) -> list[tuple[float, Copies, str]]:
        return [(at, copies, namespace) for copies in self._scenario.copies for at, namespace in copies.arrivals()]

    async def _leave(self, copies: Copies, namespace: str) -> None:
        """Delete the copy, except for cluster-scoped objects, which all copies share."""
        self._recorder.say(MomentKind.EVENT, f"kubectl delete {namespace}")
        for obj in copied(
            [obj for path in copies.manifests for obj in read_manifests(path, copies.replace)], namespace
        ):
            if "namespace" in obj["metadata"]:
                await delete(self._api, obj)

    async def _apply(
        self, paths: Sequence[Path], namespace: str = "", replace: Mapping[str, str] | None = None
    ) -> None:
        """Apply the manifests, unchanged or as a copy in this namespace."""
        words = namespace or f"-f {paths[0].name}"
        self._recorder.say(MomentKind.EVENT, f"kubectl apply {words}")
        try:
            objs = [obj for path in paths for obj in read_manifests(path, replace)]
            objs = copied(objs, namespace) if namespace else objs
            skipped = [f"{obj['kind']} {objects.name(obj)}" for obj in objs if not await apply(self._api, obj)]
        except (ManifestError, KubeError) as error:
            self._recorder.say(MomentKind.FAILURE, f"kubectl apply {words} failed: {error}")
            return
        if skipped:
            self._recorder.say(MomentKind.WARNING, f"left out, not known to the simulation: {', '.join(skipped)}")

    async def _unfold(self) -> None:
        happening: list[tuple[float, Callable[[], Awaitable[None]]]]
        happening = [(event.at, partial(self._happenings.perform, event)) for event in self._scenario.events]
        for at, copies, namespace in self._arrivals():
            if at:
                happening.append((at, partial(self._apply, copies.manifests, namespace, copies.replace)))
            if copies.lasting is not None and at + copies.lasting <= self._scenario.until:
                happening.append((at + copies.lasting, partial(self._leave, copies, namespace)))
        for at, happen in sorted(happening, key=lambda pair: pair[0]):
            await asyncio.sleep(max(0.0, at - self._recorder.elapsed))
            await happen()
        await asyncio.sleep(max(0.0, self._scenario.until - self._recorder.elapsed))


def play(
    scenario: Scenario, *, seed: int, timeline: Timeline | None = None, record: Observer | None = None
) -> Timeline:
    """Run the scenario to its end; the timeline grows meanwhile. `record` is called with every decision."""
    grown = timeline or Timeline()

    async def unfold() -> None:
        clock = Clock(START)
        cluster = SimCluster(clock, seed=seed, admission=ADMISSION)
        controller = real_controller(seed, record, settings=settings_of(scenario))
        await World(cluster, clock, scenario, controller=controller, timeline=grown, seed=seed).play()

    loop.run(unfold(), seed=seed)
    return grown


def settings_of(scenario: Scenario) -> Settings:
    """The settings of the scenario's controller: those of the scenario, else of every simulation, else the defaults."""
    given = {name: getattr(scenario.settings, name) for name in scenario.settings.model_fields_set}
    mode = Mode.GATES if scenario.ascend_operator else Mode.CREATE
    both = scenario.arbitration and scenario.settings.arbitration
    return SIMULATED.model_copy(update={"mode": mode, **given, "arbitration": both})


def real_controller(
    seed: int, record: Observer | None = None, *, settings: Settings = SIMULATED, **more: object
) -> RunController:
    """The controller as `scaler run` builds it; `more` overrides settings."""
    settings = settings.model_copy(update=more)

    async def controller(api: KubeApi, clock: Clock, observe: Observer) -> None:
        def observer(world: Seen, decision: Decision) -> None:
            observe(world, decision)
            if record is not None:
                record(world, decision)

        await run_controller(api, settings, clock, observer=observer, seed=seed)

    return controller


def silence_logs() -> None:
    """Switch the controller's log off: the timeline shows what happens."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
