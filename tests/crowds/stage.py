"""Plays a scenario with services of a crowd under a weather, watched from outside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any
from unittest.mock import patch

from scaler.clock import Clock
from scaler.decide.arbiter import Arbitration, arbitrate
from scaler.decide.minimums.invariants import Decided, arbitration_violations
from scaler.decide.nodes import Capacity
from scaler.decide.world import ArbiterMemory, Plan, Snapshot
from scaler.kube.api import KubeApi
from scaler.observe import scope
from scaler.settings import Mode
from scaler.sim import loop
from scaler.sim.actors.flaky import FlakyApi
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import ADMISSION, START, real_controller, silence_logs
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.timeline import Timeline
from scaler.sim.stories.world import Observer, World
from tests.crowds.services import Service
from tests.crowds.weather import CALM, Eyes, Late, Weather, dice
from tests.crowds.witness import Witness


def watched(
    what: Scenario, services: Iterable[Service], *, seed: int = 0, given_up: Set[str] = frozenset(),
    sky: Weather = CALM,
) -> tuple[Timeline, Witness]:  # fmt: skip
    """Play it with the witness watching. `given_up`: keys of services that are never bound, and block nobody."""
    silence_logs()
    timeline = Timeline(None)

    async def main() -> Witness:
        clock = Clock(START)
        cluster = SimCluster(clock, seed=seed, admission=ADMISSION)
        cluster.interceptor = Late(clock, sky.others_lag, dice("late", seed))
        witness = Witness(cluster, clock, services, given_up=given_up, lag=sky.own_lag)
        eyes = Eyes(cluster, witness.sight, clock, sky.own_lag, dice("eyes", seed))
        flaky = FlakyApi(cluster.client("scaler", eyes, latency=sky.latency), seed=seed)
        mode = Mode.GATES if what.ascend_operator else Mode.CREATE
        real = real_controller(seed, mode=mode, arbitration=what.arbitration)

        async def controller(api: KubeApi, clock: Clock, observe: Observer) -> None:
            def both(decisions: Sequence[tuple[Snapshot, Plan]]) -> None:
                witness.observe(decisions)
                observe(decisions)

            await real(api, clock, both)

        world = World(
            cluster, clock, what, controller=controller, timeline=timeline, seed=seed, controller_api=flaky
        )  # fmt: skip
        await world.play()
        witness.check_writes()
        return witness

    return timeline, loop.run(main(), seed=seed)


def watched_closely(what: Scenario, services: Iterable[Service], **more: Any) -> tuple[Timeline, Witness]:
    """The same, and every arbitration is asked for its invariants (S3, S9) and made again from nothing (S5)."""
    wrong: list[str] = []

    def twice(decided: Decided, capacity: Capacity | None, memory: ArbiterMemory, **given: Any) -> Arbitration:
        made = arbitrate(decided, capacity, memory, **given)
        if capacity is not None:
            again = arbitrate(decided, capacity, memory, **{**given, "looks": None})
            wrong.extend(arbitration_violations(decided, made, capacity))
            if (again.plans, again.memory) != (made.plans, made.memory):
                wrong.append("S5: what is remembered of services changes the outcome")
        return made

    with patch.object(scope, "arbitrate", twice):
        timeline, witness = watched(what, services, **more)
    witness.wrong += wrong[:5]
    return timeline, witness
