"""Plays one schedule to its end: the storm, the mending, the rest, and a fresh life that should find nothing to do."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import structlog

from scaler.app import run_controller
from scaler.clock import Clock
from scaler.decide.world import Decision, World
from scaler.kube.api import PODS
from scaler.kube.writer import JITTER
from scaler.settings import Settings
from scaler.sim import loop
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.kubelet import Kubelet, KubeletTimings
from scaler.sim.actors.mindie import MindIEController
from scaler.sim.actors.nodes import NodeLifecycle, node_object
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.apiserver.admission import Hook
from scaler.sim.cluster import SimCluster
from tests.campaign import things
from tests.campaign.client import LATENCY, Life
from tests.campaign.deeds import Deeds
from tests.campaign.judge import Judge
from tests.campaign.lives import EARLIER, Replica
from tests.campaign.onlooker import HEALTHY, Onlooker
from tests.campaign.schedule import Schedule
from tests.campaign.skew import EarlierLife
from tests.campaign.surgeon import Surgeon
from tests.campaign.witness import Witness
from tests.faults import Faults
from tests.repeat import played

START = 1_790_000_000.0
REST = 600.0
"""Seconds without a write after which the world counts as being at rest."""
PATIENCE = 3600.0
"""Seconds after the storm within which that must happen."""
FRESH = 20.0
"""Seconds in which a fresh life has looked at everything."""
SERVED_BY = 60.0
"""Seconds from the start, or from the end of a random storm, in which the healthy service has started (`served_by`)."""
LONGEST_TURN = 0.8
"""Seconds of CPU. What is promised is an eighth of it; a busy machine is slower, and the stand-ins take their share."""
STORM_WRITES = (100, 45)
"""Write attempts in a minute that nobody needs whatever goes wrong: so many, and so many more per instance. Where all
pods are refused, each instance is tried six times in a minute, with about seven writes. What users order comes on top
(tests.campaign.witness.ORDERED)."""
TIMINGS = KubeletTimings(start=(1.0, 3.0), ready=(1.0, 4.0), stop=(0.5, 2.0), crash_backoff=2.0)
QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"},
         "spec": {"weight": 1}}  # fmt: skip


class Result(msgspec.Struct):
    """What became of one schedule. `failures` name broken promises, `gaps` what is known not to be promised."""

    seed: int
    failures: list[str]
    gaps: list[str]
    counts: Counter[str]
    digest: str
    trace: list[str]
    busiest: int
    rest_after: float
    """Seconds from the end of the storm to the last write."""
    longest: float
    """Seconds of CPU that one turn of the loop took at most."""
    said: dict[str, dict[str, str]]
    """Service -> instance -> reason, as the status says at rest."""


def play(
    made: Schedule, *, keep_trace: bool = False, surgeon: Surgeon | None = None, option: str = ""
) -> Result:  # fmt: skip
    """Everything in virtual time; the same schedule gives the same result, trace and digest.

    `surgeon` stands in for the weather; its `crash` ends the life of the first replica. `option`: of `python -m
    tests.campaign`, so that a failed test can name what repeats it.
    """
    played(f"tests.campaign {option} --seed {made.seed} -v".replace("  ", " "))
    return loop.run(Stage(made, keep_trace=keep_trace, surgeon=surgeon).play(), seed=made.seed)


class Stage:
    """One schedule under way."""

    mode = "create"
    admission: tuple[Hook, ...] = ()

    def __init__(self, made: Schedule, *, keep_trace: bool, surgeon: Surgeon | None) -> None:
        self._made = made
        self._surgeon = surgeon
        self._keep_trace = keep_trace

    async def play(self) -> Result:
        self._raise()
        turns = Turns(self.witness.fail)
        with _errors_to(self.witness.fail):
            actors = [asyncio.create_task(run()) for run in self._actors()]
            await self._storm()
            await self._mend()
            rest_after = await self._rest()
            self._ask_after_patience()
            gaps = self.judge.at_rest(self.deeds.ladders)
            self.judge.read_status()
            for replica in self.replicas:
                await replica.close()
            gaps += await self._fresh_life()
            await _end(actors, self.witness)
        return Result(
            self._made.seed, self.witness.failures, gaps, self._counts(), self.witness.digest,
            self.witness.trace or [], self.witness.busiest, rest_after, turns.longest,
            self.judge.said,
        )  # fmt: skip

    def _raise(self) -> None:
        """Set the stage; needs the running loop."""
        made = self._made
        self.clock = Clock(START)
        sizes = self.sizes()
        bound = STORM_WRITES[0] + STORM_WRITES[1] * sum(sizes.values())
        self.witness = Witness(self.clock, storm_bound=bound, sizes=sizes, keep_trace=self._keep_trace)
        self.cluster = SimCluster(self.clock, seed=made.seed, latency=LATENCY, admission=self.admission)
        self.cluster.observe(self.witness.see)
        self.witness.pods = lambda namespace: self.cluster.peek(PODS, namespace)
        self.weather: list[Faults] = []
        elect = made.election
        self.replicas = [
            Replica(slot, self._born, self.clock, self.witness, election=elect, seed=made.seed, mode=self.mode)
            for slot in range(made.replicas)
        ]
        for replica in self.replicas:
            replica.earlier = made.earlier
        if self._surgeon is not None:
            self._surgeon.crash = self.replicas[0].crash
        self._furnish()

    def sizes(self) -> dict[str, int]:
        """How many instances there are of each service at the beginning."""
        return {service.name: len(service.job_names()) for service in self._made.world.services}

    def _furnish(self) -> None:
        made = self._made
        self.deeds = Deeds(self.cluster, self.clock, made.world, self.replicas)
        self.judge = Judge(self.cluster, made.world, self.witness)
        self.cluster.apply([QUEUE, *(node_object(spec) for spec in made.world.nodes), things.training_job()])
        if HEALTHY in made.world.services:
            self.deeds.onlooker = Onlooker(self.cluster, self.clock, self.witness, by=served_by(made))
        for service in made.world.services:
            jobs = [things.server_job(service, name) for name in service.job_names()]
            self.cluster.apply([things.foreign_config_map(service.namespace), things.rule(service), *jobs])
            self.cluster.apply([things.mindie_job(service)] if service.mindie else [])

    def _born(self, name: str) -> Life:
        made = self._made
        rules = [
            weather.rule(START)
            for weather in (*made.weather, *made.outages())
            if weather.replica < 0 or name.startswith(f"scaler-{weather.replica}.")
        ]
        weather = Faults(self.clock, *rules, seed=made.seed + len(self.weather))
        self.weather.append(weather)
        raging = self.clock.now() < START + made.storm
        return (EarlierLife if name.endswith(EARLIER) else Life)(
            self.cluster, name, self.witness, weather=self._surgeon or weather, seed=made.seed,
            linger=made.linger if raging else 0.0, stale=made.stale_lists if raging else 0.0,
        )  # fmt: skip

    def _actors(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        def api(name: str) -> Any:
            return self.cluster.client(name)

        return [
            GangScheduler(api("scheduler"), self.clock, gangs=self._made.gangs).run,
            Kubelet(api("kubelet"), self.clock, timings=TIMINGS, seed=self._made.seed).run,
            FaultActor(api("fault-actor"), self.clock, detection=2.0, grace_over_time=60.0).run,
            MindIEController(api("mindie"), self.clock, patience=15.0).run,
            NodeLifecycle(api("nodes"), self.clock, eviction=30.0, orphan=20.0).run,
            GarbageCollector(api("collector")).run,
        ]

    async def _storm(self) -> None:
        for replica in self.replicas:
            replica.start()
        for event in self._made.events:
            await asyncio.sleep(max(0.0, START + event.at - self.clock.now()))
            done = await self.deeds.do(event)
            self.witness.note(f"{event.what} {event.subject} {event.amount:g}{'' if done else ': not possible'}")
            self.witness.counts[f"event: {event.what}"] += done
        await asyncio.sleep(max(0.0, START + self._made.storm - self.clock.now()))

    async def _mend(self) -> None:
        self.witness.note("the storm is over")
        await self.deeds.heal(self._made.lost_nodes)
        for replica in self.replicas:
            replica.start()
            if replica.life is not None:
                replica.life.calm_down()

    async def _rest(self) -> float:
        """Wait until nothing was written for a while; seconds from the storm to the last write."""
        over = self.clock.now()
        while self.clock.now() < over + PATIENCE:
            quiet = self.clock.now() - max(self.witness.last_write, over)
            if quiet >= REST:
                break
            await asyncio.sleep(REST - quiet)
        else:
            self.witness.fail(f"L2: no rest within {PATIENCE:g} s")
        return max(0.0, self.witness.last_write - over)

    def _ask_after_patience(self) -> None:
        """What has been told to come again later does."""
        for faults in self.weather:
            self.witness.counts["asked before its Retry-After"] += faults.impatient.total()
            if faults.impatient and self._made.attacked:
                self.witness.fail(f"Retry-After: asked again before it had passed: {dict(faults.impatient)}")

    async def _fresh_life(self) -> list[str]:
        """Path independence: whoever comes newly to these objects has nothing to do, and agrees with the status.

        Words may differ: what was revoked, and since when something is broken, is forgotten with the process. Where
        what is broken has its grace again in place of what waits, that is a known gap.
        """
        seen: list[Decision] = []

        def see(_world: World, decision: Decision) -> None:
            seen.append(decision)

        before = self.witness.last_action
        life = self._born("fresh")
        settings = Settings.model_validate({"leader_election": False, "http_port": 0, "mode": self.mode})
        running = asyncio.create_task(run_controller(life, settings, self.clock, observer=see, seed=0))
        await asyncio.sleep(FRESH)
        await _end([running], self.witness)
        plans = [plan for decision in seen for plan in decision.plans]
        again = {plan.key for plan in plans if self.judge.has_its_grace_again(plan)}
        for plan in plans:
            if plan.actions and plan.key not in again:
                self.witness.fail(f"path: a fresh life would {[type(a).__name__ for a in plan.actions]} {plan.key}")
        if not self.judge.half_made:
            if self.witness.last_action != before and not again:
                self.witness.fail("path: a fresh life made or removed something")
            self.judge.status_agrees([plan for plan in plans if plan.key not in again])
        return [f"what is broken of {key} has its grace again in a fresh life" for key in sorted(map(str, again))]

    def _counts(self) -> Counter[str]:
        counts = Counter(self.witness.counts)
        for faults in self.weather:
            for fault, number in faults.counts.items():
                counts[f"weather: {fault.value}"] += number
        return counts


def served_by(made: Schedule) -> float:
    """Seconds from the start in which the healthy service has started. Who was told by the last refusal of a random
    storm to come again later does so when that has passed."""
    if made.attacked:
        return SERVED_BY
    told = [one.start + one.lasting + one.retry_after * JITTER for one in made.weather if one.retry_after]
    return max([made.storm, *told]) + SERVED_BY


class Turns:
    """Measures every turn of the running loop, in CPU time: nothing else shows in virtual time that the loop stands."""

    def __init__(self, fail: Callable[[str], None]) -> None:
        self.longest = 0.0
        self._fail = fail
        self._began = time.process_time()
        loop: Any = asyncio.get_running_loop()
        self._select = loop.select
        loop.select = self._turn

    def _turn(self, timeout: float | None) -> list[Any]:
        took = time.process_time() - self._began
        if took > self.longest:
            self.longest = took
            if took > LONGEST_TURN:
                self._fail(f"stall: the loop stood for {took:.1f} s")
        found: list[Any] = self._select(timeout)
        self._began = time.process_time()
        return found


async def _end(tasks: Sequence[asyncio.Task[None]], witness: Witness) -> None:
    """Cancel and wait; a task that had ended by itself is a finding."""
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            witness.fail(f"process: died of {result!r}")


@contextmanager
def _errors_to(fail: Callable[[str], None]) -> Iterator[None]:
    """What the controller logs as an error is a finding: decisions that failed, reports that failed, missed events."""
    before = structlog.get_config()

    def hear(_logger: Any, _method: str, event: Any) -> Any:
        words = {key: event[key] for key in event if key not in ("event", "exc_info", "snapshot")}
        fail(f"log: {event['event']} {words} {event.get('exc_info') or ''}")
        raise structlog.DropEvent

    structlog.configure(processors=[hear], wrapper_class=structlog.make_filtering_bound_logger(40))
    try:
        yield
    finally:
        structlog.configure(**before)
