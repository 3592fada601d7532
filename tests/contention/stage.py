"""Plays a scenario with services that compete for nodes with delays that a seed draws, watched from outside."""

from __future__ import annotations

from collections.abc import Iterable, Set

from scaler.clock import Clock
from scaler.controller import Observer
from scaler.decide.decide import decide
from scaler.decide.world import Decision
from scaler.decide.world import World as Seen
from scaler.kube.api import KubeApi
from scaler.sim import loop
from scaler.sim.actors.faulty_api import Curses, FaultyApi
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import ADMISSION, START, real_controller, settings_of, silence_logs
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.timeline import Timeline
from scaler.sim.stories.world import World
from tests.contention.delays import CALM, Delays, Eyes, Late, dice
from tests.contention.services import Service
from tests.contention.witness import PATIENCE, Witness


def watched(
    what: Scenario, services: Iterable[Service], *, seed: int = 0, given_up: Set[str] = frozenset(),
    delays: Delays = CALM, patience: float = PATIENCE, closely: bool = False,
) -> tuple[Timeline, Witness]:  # fmt: skip
    """Play it with the witness watching. `given_up`: keys of services that make no progress, and may be held up
    themselves; `patience`: seconds for which they may hold up others; `closely`: every decision is made twice."""
    silence_logs()
    timeline = Timeline(None)

    async def main() -> Witness:
        clock = Clock(START)
        cluster = SimCluster(clock, seed=seed, admission=ADMISSION)
        cluster.interceptor = Late(clock, delays.others_lag, dice("late", seed))
        settings = settings_of(what)
        witness = Witness(
            cluster, clock, services, given_up=given_up, lag=delays.own_lag, preempt=settings.preempt,
            patience=patience, honour=settings.honour_preemptable,
        )  # fmt: skip
        eyes = Eyes(cluster, witness.sight, clock, delays.own_lag, dice("eyes", seed))
        curses = Curses(what.curse, lambda: clock.now() - START)
        api = FaultyApi(cluster.client("scaler", eyes, latency=delays.latency), curses, seed=seed)
        real = real_controller(seed, settings=settings)

        async def controller(api: KubeApi, clock: Clock, observe: Observer) -> None:
            def both(world: Seen, decision: Decision) -> None:
                witness.observe(decision)
                if closely:
                    _decide_again(witness, world, decision)
                observe(world, decision)

            await real(api, clock, both)

        await World(
            cluster, clock, what, controller=controller, timeline=timeline, seed=seed, controller_api=api
        ).play()
        witness.finish()
        return witness

    return timeline, loop.run(main(), seed=seed)


def _decide_again(witness: Witness, world: Seen, decision: Decision) -> None:
    """S5: what is remembered of earlier decisions to save time changes nothing."""
    if decide(world) != decision:
        witness.say("S5: made from nothing, the decision is another one")
