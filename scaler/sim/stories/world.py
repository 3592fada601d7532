"""A world to try the controller in: a cluster, the stand-ins, the controller itself, and a scenario that unfolds.

Must not: decide, judge (scaler.tools.simulation.verdicts) or know which implementation of KubeApi it was given.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from scaler.clock import Clock
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
from scaler.sim.stories.events import Happenings, RunController, node_specs
from scaler.sim.stories.manifests import ManifestError, copied, read_manifests
from scaler.sim.stories.recorder import Recorder
from scaler.sim.stories.scenario import Copies, Scenario
from scaler.sim.stories.timeline import MomentKind, Timeline

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
        """Everything from the empty cluster to the end of the scenario; `timeline` is complete afterwards."""
        await self._while_all_work(self._unfold)
        for curse in self._curses.unmet:
            self._recorder.say(MomentKind.WARNING, f"the curse of {curse.of} (never {curse.never}) met no object")
        for load in self._scenario.load:
            if load.service not in self._timeline.samples:
                words = f"there was no service {load.service}: all its requests are lost"
                self._recorder.say(MomentKind.WARNING, words)
        self._timeline.end = self._scenario.until

    async def live(self) -> None:
        """Like `play`, but it goes on until cancelled: for a cluster to look at."""
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
        happening = [(event.at, partial(self._happenings.perform, event)) for event in self._scenario.events]
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
