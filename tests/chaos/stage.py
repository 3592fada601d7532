"""Plays one schedule to its end: the storm, the fixing, the rest, and a fresh life that should
find nothing to do."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import structlog

from scaler.decide.decision import Decision, Plan
from scaler.decide.world import World
from scaler.defaults import Mode
from scaler.kube.api import NAMESPACES
from scaler.kube.writer import JITTER
from scaler.sim import loop
from scaler.sim.actors.mindie import MindIEController
from scaler.sim.actors.nodes import node_object
from scaler.sim.actors.stand_in import Actor
from scaler.sim.stories.play import ADMISSION, real_controller
from tests import jobs
from tests.chaos import inventory
from tests.chaos.decisions import Decisions
from tests.chaos.inventory import HEALTHY
from tests.chaos.judge import Judge
from tests.chaos.operations import Operations
from tests.chaos.replica import EARLIER, EarlierLife, Life, Replica
from tests.chaos.schedule import Schedule
from tests.chaos.witness import HealthyTenant, Played, Witness
from tests.chaos.writes import Writes
from tests.faults import Faults
from tests.repeat import played
from tests.rig import START, Rig
from tests.simulation import kinds
from tests.stand_ins import QUOTA, Quota, deployment, hold_for_quota, machines, owners

REST = 600.0
"""Seconds without a write after which the world counts as being at rest."""
PATIENCE = 3600.0
"""Seconds after the storm within which that must happen."""
FRESH_LIFE = 2.0
"""Seconds from the one crash of a fault sweep to the next process."""
FRESH = 20.0
"""Seconds in which a fresh life has looked at everything."""
SERVED_BY = 60.0
"""Seconds from the start, or from the end of a random storm, in which the healthy service has
started (`served_by`)."""
LONGEST_TURN = 0.8
"""Seconds of CPU. What is promised is an eighth of it; a busy machine is slower, and the stand-ins
take their share."""
STORM_WRITES = (100, 45)
"""Write attempts in a minute that are never needed: so many, and so many more per instance, which
is tried six times with about seven writes where all pods are refused. What users order comes on top
(tests.chaos.writes.ORDERED)."""


def play(made: Schedule, *, keep_trace: bool = False, family: str = "random") -> Played:
    """In virtual time: the same schedule gives the same result, trace and digest. `family`, of
    tests.chaos.aimed.HISTORIES, is for the command that repeats it."""
    played(shlex.join(["tests.chaos", "--aimed", family, "--seed", str(made.seed), "-v"]))

    async def main() -> Played:
        return await Stage(made, keep_trace=keep_trace).play()

    return loop.run(main(), seed=made.seed)


class Stage:
    """One schedule under way, in a running loop. Where others make the pods there are their owners,
    admission and an Ascend Operator too, and the scaler runs in mode auto."""

    def __init__(self, made: Schedule, *, keep_trace: bool) -> None:
        gated = made.inventory.gated
        services = made.inventory.services
        self._made = made
        self._mode = Mode.AUTO if gated else Mode.CREATE
        on = Rig(*((hold_for_quota, *ADMISSION) if gated else ()), seed=made.seed)
        self.cluster = on.cluster
        self.clock = on.clock
        self.witness = Witness(self.clock, keep_trace=keep_trace)
        # How many instances there are at the beginning; of gated pods, each is released by itself.
        sizes = {
            one.name: sum(one.jobs) if one.kind is None else one.nodes_for(one.jobs)
            for one in services
        }
        bound = STORM_WRITES[0] + STORM_WRITES[1] * sum(sizes.values())
        self.writes = Writes(self.cluster, self.witness, storm_bound=bound, sizes=sizes)
        self.decisions = Decisions(self.witness, self.writes)
        self.faults: list[Faults] = []
        self.replicas = [
            Replica(slot, self._born, self.decisions, self.witness, made, self._mode)
            for slot in range(made.replicas)
        ]
        if made.one_fault is not None:
            crash = partial(self.replicas[0].crash, FRESH_LIFE)
            self.faults.append(Faults(self.clock, made.one_fault, origin=START, crash=crash))
        self.operations = Operations(self.cluster, self.clock, made.inventory, self.replicas)
        self.judge = Judge(self.cluster, made.inventory, self.witness, self.operations)
        self._furnish()

    async def play(self) -> Played:
        _watch_turns(self.witness.fail)
        with _errors_to(self.witness.fail):
            actors = [asyncio.create_task(actor.run()) for actor in self._actors()]
            await self._storm()
            await self._mend()
            await self._rest()
            for faults in self.faults:
                if faults.impatient and self._made.attacked:
                    self.witness.fail(
                        f"Retry-After: sent again before it had passed: {dict(faults.impatient)}"
                    )
            gaps = self.judge.at_rest()
            for replica in self.replicas:
                await replica.close()
            gaps += await self._fresh_life()
            await _end(actors, self.witness)
        counts = self.witness.counts
        for faults in self.faults:
            counts["sent before its Retry-After"] += faults.impatient.total()
            counts.update(
                {f"api fault: {fault.value}": number for fault, number in faults.counts.items()}
            )
        return Played(
            self._made.seed,
            self.witness.failures,
            gaps,
            counts,
            digest=self.witness.digest,
            trace=self.witness.trace or [],
            said=self.judge.said,
        )

    def _furnish(self) -> None:
        made = self._made
        self.cluster.apply(
            [
                jobs.QUEUE,
                *(node_object(spec) for spec in made.inventory.nodes),
                inventory.training_job(),
            ]
        )
        if HEALTHY in made.inventory.services:
            self.operations.healthy = HealthyTenant(self.cluster, self.witness, by=served_by(made))
        if any(service.kind is kinds.ASCEND_JOBS for service in made.inventory.services):
            self.cluster.apply([deployment()])
        for service in made.inventory.services:
            notes = jobs.rule_config_map("not a rule of anybody", "notes", service.namespace)
            if service.kind is not None:
                labels = inventory.OPTED_IN | ({QUOTA: "held"} if service.quota else {})
                self.cluster.apply([jobs.manifest(NAMESPACES, service.namespace, labels=labels)])
            self.cluster.apply([notes, inventory.rule(service)])
            names = service.job_names() if service.kind is None else ()
            self.cluster.apply([inventory.server_job(service, name) for name in names])
            self.cluster.apply([inventory.mindie_job(service)] if service.mindie else [])

    def _born(self, name: str) -> Life:
        made = self._made
        every = (*made.api_faults, *made.outages())
        rules = [
            rule for rule in every if rule.replica < 0 or name.startswith(f"scaler-{rule.replica}.")
        ]
        if made.one_fault is None:
            self.faults.append(
                Faults(self.clock, *rules, seed=made.seed + len(self.faults), origin=START)
            )
        raging = self.clock.now() < START + made.storm
        return (EarlierLife if name.endswith(EARLIER) else Life)(
            self.cluster,
            name,
            self.writes,
            faults=self.faults[-1],
            seed=made.seed,
            linger=made.linger if raging else 0.0,
            stale=made.stale_lists if raging else 0.0,
        )

    def _actors(self) -> list[Actor]:
        api = self.cluster.client
        clock = self.clock
        made = self._made
        common = machines(api("machines"), clock, made.seed, gangs=made.gangs)
        if made.inventory.gated:
            return [Quota(api("quota"), clock), *owners(api("makers"), clock), *common]
        return [*common, MindIEController(api("mindie"), clock, patience=15.0)]

    async def _storm(self) -> None:
        for service in self._made.inventory.services:
            if service.kind is not None:
                await self.operations.apply(service)
        for replica in self.replicas:
            replica.start()
        for event in self._made.events:
            await asyncio.sleep(max(0.0, START + event.at - self.clock.now()))
            done = await self.operations.do(event)
            self.witness.note(
                f"{event.what} {event.subject} {event.amount:g}{'' if done else ': not possible'}"
            )
            self.witness.counts[f"event: {event.what}"] += done
        await asyncio.sleep(max(0.0, START + self._made.storm - self.clock.now()))

    async def _mend(self) -> None:
        self.witness.note("the storm is over")
        await self.operations.heal(self._made.lost_nodes)
        for replica in self.replicas:
            replica.start()
            if replica.life is not None:
                replica.life.linger = replica.life.stale = 0.0

    async def _rest(self) -> None:
        """Wait until nothing was written for a while."""
        over = self.clock.now()
        while self.clock.now() < over + PATIENCE:
            quiet = self.clock.now() - max(self.writes.last_write, over)
            if quiet >= REST:
                break
            await asyncio.sleep(REST - quiet)
        else:
            self.witness.fail(f"L2: no rest within {PATIENCE:g} s")

    async def _fresh_life(self) -> list[str]:
        """Path independence: a process that begins with these objects has nothing to do, and agrees
        with the status but for what a process forgets: what was revoked, and since when something
        is broken. Where that has its grace again in place of what waits, it is a known gap."""
        plans: list[Plan] = []

        def see(_world: World, decision: Decision) -> None:
            plans.extend(decision.plans)

        before = self.writes.last_action
        life = self._born("fresh")
        running = asyncio.create_task(real_controller(0, mode=self._mode)(life, self.clock, see))
        await asyncio.sleep(FRESH)
        await _end([running], self.witness)
        again = {plan.key for plan in plans if self.judge.has_its_grace_again(plan)}
        for plan in plans:
            if plan.actions and plan.key not in again:
                self.witness.fail(
                    f"path: a fresh life would {[type(a).__name__ for a in plan.actions]}"
                    f" {plan.key}"
                )
        if not self.judge.half_made:
            if self.writes.last_action != before and not again:
                self.witness.fail("path: a fresh life made or removed something")
            self.judge.status_agrees(
                [plan for plan in plans if plan.key not in again], self.decisions.had_turn
            )
        return [
            f"what is broken of {key} has its grace again in a fresh life"
            for key in sorted(map(str, again))
        ]


def served_by(made: Schedule) -> float:
    """Seconds from the start in which the healthy service has started. Who was told by the last
    refusal of a random storm to come again later does so when that has passed."""
    if made.attacked:
        return SERVED_BY
    retries = [one.end + one.retry_after * JITTER for one in made.api_faults if one.retry_after]
    return max([made.storm, *retries]) + SERVED_BY


def _watch_turns(fail: Callable[[str], None]) -> None:
    """Fails for a turn of the running loop that takes too long, in CPU time: virtual time does not
    show that."""
    loop: Any = asyncio.get_running_loop()
    began = time.thread_time()
    select = loop.select

    def turn(timeout: float | None) -> Any:
        nonlocal began
        took = time.thread_time() - began
        if took > LONGEST_TURN:
            fail(f"stall: the loop stood for {took:.1f} s")
        found = select(timeout)
        began = time.thread_time()
        return found

    loop.select = turn


async def _end(tasks: Sequence[asyncio.Task[None]], witness: Witness) -> None:
    """Cancel and wait; a task that had ended by itself is a finding."""
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            witness.fail(f"process: died of {result!r}")


@contextmanager
def _errors_to(fail: Callable[[str], None]) -> Iterator[None]:
    """What the controller logs as an error is a finding: decisions that failed, reports that
    failed, missed events."""
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
