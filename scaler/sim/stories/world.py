"""A world to try the controller in: a cluster, the stand-ins, the controller itself, and a scenario that unfolds.

Must not: decide, judge (scaler.tools.simulation.verdicts) or know which implementation of KubeApi it was given.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from scaler.clock import Clock
from scaler.controller import Observer
from scaler.kube.api import QUEUES, KubeApi, Object
from scaler.kube.errors import AlreadyExistsError, KubeError
from scaler.sim.actors.clusterd import ClusterD
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.actors.controller import Actor
from scaler.sim.actors.devices import DevicePlugin
from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.faulty_api import Curses, FaultyApi
from scaler.sim.actors.kubelet import Kubelet
from scaler.sim.actors.mindie import MindIEController
from scaler.sim.actors.nodes import NodeLifecycle, add_node
from scaler.sim.actors.operator import AscendOperator
from scaler.sim.actors.owners import owners
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.load.service import LoadedService
from scaler.sim.stories.events import EventError, Happenings, node_specs
from scaler.sim.stories.manifests import ManifestError, copied, read_manifests
from scaler.sim.stories.recorder import Recorder
from scaler.sim.stories.scenario import ControllerEvent, Copies, Event, Scenario, SchedulerEvent
from scaler.sim.stories.timeline import MomentKind, Timeline

RunController = Callable[[KubeApi, Clock, Observer], Coroutine[Any, Any, None]]
"""Runs the controller until cancelled; raises when it dies."""


_DEFAULT_QUEUE: Object = {
    "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"},
    "spec": {"weight": 1},
}  # fmt: skip


class World:
    """One scenario on one cluster. `seed` decides every duration that a stand-in draws, and what it is free to choose.

    `controller_api` is what the scenario's API faults apply to; by default a view of the `api` of the controller.
    """

    def __init__(
        self, api: KubeApi, clock: Clock, scenario: Scenario, *, controller: RunController, timeline: Timeline,
        seed: int, controller_api: FaultyApi | None = None,
    ) -> None:  # fmt: skip
        self._api = api
        self._clock = clock
        self._scenario = scenario
        self._controller = controller
        self._seed = seed
        self._timeline = timeline
        ungoverned = {load.namespace: load.job_id for load in scenario.load if load.ungoverned}
        self._recorder = Recorder(api, clock, timeline, ungoverned)
        self._curses = Curses(scenario.curse, lambda: self._recorder.elapsed)
        self._faulty = controller_api or FaultyApi(api, self._curses, seed=seed)
        self._scheduler: GangScheduler | None = None
        self._running: asyncio.Task[None] | None = None
        self._event: Event | None = None
        self._happenings = Happenings(
            api, clock, node_specs(scenario.nodes), controller_api=self._faulty, steer=self._steer,
            schedule=self._schedule, announce=self._announce,
        )  # fmt: skip

    async def play(self) -> None:
        """Everything from the empty cluster to the end of the scenario; `timeline` is complete afterwards."""
        await self._while_all_work(self._unfold)
        for curse in self._curses.unmet:
            self._recorder.say(MomentKind.WARNING, f"the curse of {curse.of} (never {curse.never}) met nobody")
        for load in self._scenario.load:
            if load.service not in self._timeline.samples:
                self._recorder.say(
                    MomentKind.WARNING, f"there was no service {load.service}: all its requests are lost"
                )
        self._timeline.end = self._scenario.until

    async def live(self) -> None:
        """Like `play`, but it goes on until cancelled: for a cluster to look at."""
        await self._while_all_work(asyncio.Event().wait)

    async def _while_all_work(self, unfold: Callable[[], Awaitable[object]]) -> None:
        async with asyncio.TaskGroup() as group:
            self._recorder.start()
            actors = [group.create_task(actor.run(), name=type(actor).__name__) for actor in self._actors()]
            try:
                await self.begin()
                await unfold()
            finally:
                await self._steer(ControllerEvent.STOP)
                for task in actors:
                    task.cancel()

    async def begin(self) -> None:
        """Nodes, controller, manifests, in this order. What is refused is said as a failure."""
        for spec in node_specs(self._scenario.nodes).values():
            await add_node(self._api, spec)
        with contextlib.suppress(AlreadyExistsError):
            await self._api.create(QUEUES, None, _DEFAULT_QUEUE)
        await self._start()
        for path in self._scenario.manifests:
            await self._apply([path])
        for at, copies, namespace in self._arrivals():
            if not at:
                await self._apply(copies.manifests, namespace, copies.replace)

    async def _start(self) -> None:
        await self._steer(ControllerEvent.START)

    def _actors(self) -> Sequence[Actor]:
        timing = self._scenario.timing
        api, clock, curses = self._api, self._clock, self._curses
        making = FaultyApi(api, curses, owner=True)
        scheduler = GangScheduler(api, period=timing.schedule_period, seed=self._seed, cursed=curses)
        self._scheduler = scheduler
        return [
            self._recorder,
            scheduler,
            DevicePlugin(api),
            Kubelet(api, clock, timings=timing, seed=self._seed, cursed=curses),
            ClusterD(api),
            FaultActor(api, clock, detection=timing.fault_detection),
            MindIEController(
                api,
                clock,
                patience=timing.mindie_patience,
                beside=self._scenario.ascend_operator,
                say=partial(self._recorder.say, MomentKind.INSTANCE),
            ),
            NodeLifecycle(api, clock, eviction=timing.eviction),
            GarbageCollector(api),
            *owners(making),
            *(LoadedService(api, load, self._timeline, self._recorder) for load in self._scenario.load),
            *([AscendOperator(making, clock, cursed=curses)] if self._scenario.ascend_operator else []),
        ]

    def _arrivals(self) -> list[tuple[float, Copies, str]]:
        """(time, whose copy, namespace) of every copy."""
        return [(at, copies, namespace) for copies in self._scenario.copies for at, namespace in copies.arrivals()]

    async def _leave(self, copies: Copies, namespace: str) -> None:
        """The copy is deleted, all but what is the same for all of them."""
        self._recorder.say(MomentKind.EVENT, f"kubectl delete {namespace}")
        objs = [obj for path in copies.manifests for obj in read_manifests(path, copies.replace)]
        await self._happenings.delete_all([obj for obj in copied(objs, namespace) if "namespace" in obj["metadata"]])

    async def _apply(
        self, paths: Sequence[Path], namespace: str = "", replace: Mapping[str, str] | None = None
    ) -> None:
        """As they are, or as a copy in this namespace."""
        words = namespace or f"-f {paths[0].name}"
        self._recorder.say(MomentKind.EVENT, f"kubectl apply {words}")
        try:
            objs = [obj for path in paths for obj in read_manifests(path, replace)]
            skipped = await self._happenings.apply_all(copied(objs, namespace) if namespace else objs)
        except (ManifestError, KubeError) as error:
            self._recorder.say(MomentKind.FAILURE, f"kubectl apply {words} failed: {error}")
            return
        if skipped:
            self._recorder.say(MomentKind.WARNING, f"left out, not known to the simulation: {', '.join(skipped)}")

    async def _unfold(self) -> None:
        happening: list[tuple[float, Callable[[], Awaitable[None]]]]
        happening = [(event.at, partial(self._perform, event)) for event in self._scenario.events]
        for at, copies, namespace in self._arrivals():
            if at:
                happening.append((at, partial(self._apply, copies.manifests, namespace, copies.replace)))
            if copies.lasting is not None and at + copies.lasting <= self._scenario.until:
                happening.append((at + copies.lasting, partial(self._leave, copies, namespace)))
        for at, happen in sorted(happening, key=lambda pair: pair[0]):
            await self._sleep_until(at)
            await happen()
        await self._sleep_until(self._scenario.until)

    async def _sleep_until(self, moment: float) -> None:
        await asyncio.sleep(max(0.0, moment - self._recorder.elapsed))

    async def _perform(self, event: Event) -> None:
        self._event = event
        try:
            await self._happenings.perform(event)
        except (EventError, ManifestError, KubeError) as error:
            self._recorder.say(MomentKind.FAILURE, f"the event at {event.at:g} s failed: {error}", subject=event.name)

    def _announce(self, words: str) -> None:
        event = self._event
        self._recorder.say(MomentKind.EVENT, (event and event.note) or words, subject=event.name if event else "")

    def _schedule(self, what: SchedulerEvent) -> None:
        if self._scheduler is None:
            raise EventError("the scheduler of this cluster is not ours to stop")
        if what is SchedulerEvent.STOPPED:
            self._scheduler.stop()
        else:
            self._scheduler.resume()

    async def _steer(self, what: ControllerEvent) -> None:
        if what is not ControllerEvent.START and self._running is not None:
            task, self._running = self._running, None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if what is not ControllerEvent.STOP and self._running is None:
            self._running = asyncio.create_task(self._run_controller(), name="controller")

    async def _run_controller(self) -> None:
        try:
            await self._controller(self._faulty, self._clock, self._recorder.observe)
            why = "it returned"
        except Exception as error:  # whatever kills the controller is a finding of the simulation
            why = f"{type(error).__name__}: {error}"
        self._recorder.say(MomentKind.FAILURE, f"the controller died: {why}")
