"""Plays a month on the simulated API server with the stand-ins of the simulation: for the product,
for a bound in its place, or for Ascend Operator's gate. A day of 40 services takes 20 s of CPU;
`lean.py` plays the same in a tenth of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from unittest import mock

import scaler.controller
from scaler.clock import Clock
from scaler.decide.decision import Decision
from scaler.decide.world import World
from scaler.kube.api import ASCEND_JOBS, POD_GROUPS, PODS, Object
from scaler.kube.errors import KubeError
from scaler.sim import loop
from scaler.sim.actors import objects
from scaler.sim.actors.clusterd import ClusterD
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.actors.devices import DevicePlugin, report_chips
from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.nodes import (
    Kubelet,
    NodeFate,
    NodeLifecycle,
    add_node,
    change_node,
    exit_pod,
)
from scaler.sim.actors.operator import AscendOperator
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.actors.stand_in import Actor
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import ADMISSION, real_controller, silence_logs
from tests import jobs
from tests.bench.availability.arms import PRODUCT, Arm, Played, decider_of, settings_of
from tests.bench.availability.minutes import Numbers, Reasons, Witness
from tests.bench.availability.month import TRAINING, Happening, Month, What, priority_classes
from tests.steps import in_one_slice

START = 1_790_000_000.0


def play(month: Month, arm: Arm, *, seed: int = 0) -> Played:
    """The whole month."""
    silence_logs()
    began = time.process_time()
    reasons = Reasons(heard=arm in PRODUCT)

    async def main() -> Numbers:
        clock = Clock(START)
        cluster = SimCluster(clock, seed=seed, admission=ADMISSION)
        witness = Witness(month, START, reasons.of)
        cluster.observe(witness.saw)

        def observe(world: World, decision: Decision) -> None:
            witness.catch_up(world.now)
            reasons(world, decision)

        stage = _Stage(cluster, clock, month, witness)
        await stage.prepare()
        actors: list[Actor] = [
            GangScheduler(cluster, seed=seed),
            DevicePlugin(cluster),
            Kubelet(cluster, clock, seed=seed),
            ClusterD(cluster),
            FaultActor(cluster, clock),
            NodeLifecycle(cluster, clock),
            GarbageCollector(cluster),
        ]
        if arm is Arm.GATE:
            actors.append(AscendOperator(cluster, clock))
        running = [asyncio.create_task(actor.run()) for actor in actors]
        if arm is not Arm.GATE:
            api = cluster.client("scaler")
            controller = real_controller(seed, settings=settings_of(arm))
            running.append(asyncio.create_task(controller(api, clock, observe)))
        unfolding = asyncio.create_task(stage.unfold())
        await asyncio.wait([unfolding, *running], return_when=asyncio.FIRST_COMPLETED)
        for task in running:
            if task.done():
                task.result()
        await unfolding
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        return witness.end(START + month.seconds)

    with mock.patch.object(scaler.controller, "begin", in_one_slice(decider_of(arm))):
        numbers = loop.run(main(), seed=seed)
    return Played(arm.name, numbers, reasons.passes, time.process_time() - began)


class _Stage:
    """The cluster, and what happens to it."""

    def __init__(self, cluster: SimCluster, clock: Clock, month: Month, witness: Witness) -> None:
        self._cluster = cluster
        self._clock = clock
        self._month = month
        self._witness = witness
        self._specs = {node.name: node for node in month.nodes}

    async def prepare(self) -> None:
        for spec in self._month.nodes:
            await add_node(self._cluster, spec)
        self._cluster.apply([jobs.QUEUE, *priority_classes()])

    async def unfold(self) -> None:
        for one in self._month.happenings:
            await asyncio.sleep(max(0.0, START + one.at - self._clock.now()))
            with contextlib.suppress(KubeError):
                await self._happen(one)
        await asyncio.sleep(max(0.0, START + self._month.seconds - self._clock.now()))

    async def _happen(self, one: Happening) -> None:
        now = self._clock.now()
        match one.what:
            case What.APPLY | What.TRAINING_BEGINS:
                self._cluster.apply(one.things)
            case What.DELETE_JOB:
                service = one.name.rpartition("-")[0]
                await self._cluster.delete(ASCEND_JOBS, service, one.name)
            case What.NODE_SILENT:
                self._witness.node_silent(one.name, now)
            case What.NODE_NOT_READY:
                await change_node(self._cluster, self._specs[one.name], NodeFate.NOT_READY)
            case What.NODE_BACK:
                self._witness.node_back(one.name, now)
                await change_node(self._cluster, self._specs[one.name], NodeFate.READY)
            case What.CHIP_FAULTY | What.CHIP_HEALED:
                healthy = one.what is What.CHIP_HEALED
                self._witness.chip(one.name, one.number, now, healthy=healthy)
                await report_chips(
                    self._cluster, self._clock, one.name, [one.number], healthy=healthy
                )
            case What.EXIT:
                await self._exit(one.name)
            case What.TRAINING_ENDS:
                await self._end_training(one)

    async def _exit(self, job: str) -> None:
        """A container of its first pod exits, if that runs."""
        service = job.rpartition("-")[0]
        pod: Object = await self._cluster.get(PODS, service, f"{job}-master-0")
        if objects.phase(pod) == "Running" and not objects.terminating(pod):
            await exit_pod(self._cluster, pod, now=self._clock.now(), code=1)

    async def _end_training(self, one: Happening) -> None:
        for index in range(one.number):
            with contextlib.suppress(KubeError):
                await self._cluster.delete(
                    PODS, TRAINING, f"{one.name}-{index}", grace_period_seconds=0
                )
        await self._cluster.delete(POD_GROUPS, TRAINING, one.name)
