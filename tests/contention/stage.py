"""Plays one story with one seed, or any scenario with services that compete for nodes, and judges
every pass."""

from __future__ import annotations

import asyncio
import hashlib
import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Set
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from scaler.clock import Clock
from scaler.controller import Observer
from scaler.decide.decide import decide
from scaler.decide.decision import Decision
from scaler.decide.world import World
from scaler.kube.api import EventType, KubeApi
from scaler.sim import loop
from scaler.sim.actors.faulty_api import Curses, FaultyApi
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.apiserver.list_watch import Seen as SeenEvent
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import ADMISSION, real_controller, settings_of, silence_logs
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.scenario_run import ScenarioRun
from scaler.sim.stories.timeline import Timeline
from tests.chaos.decisions import Decisions
from tests.chaos.replica import Life
from tests.chaos.view import View
from tests.chaos.witness import Played, Witness
from tests.chaos.writes import Writes
from tests.contention.passes import Passes, unkept
from tests.contention.services import Service, serving
from tests.contention.stories import PATIENCE, STORIES, StoryMaker, dice
from tests.repeat import played
from tests.rig import START, Rig
from tests.simulation.worlds import failures

AFTERWARDS = 1500.0
"""Seconds from the last event to the end: probes and pauses are over by then."""


class Delays(msgspec.Struct, frozen=True):
    """Seconds. `lag` is by how much events may be late, `own` for the controller, `others` for the
    stand-ins."""

    latency: float = 0.002
    own_lag: float = 0.0
    others_lag: float = 0.0
    timing: dict[str, Any] = {}
    """Of the scenario: how long the stand-ins take."""


CALM = Delays()


def delays_of(seed: int) -> Delays:
    """Of one seed; 0 is calm, and everything takes what it takes by default."""
    if not seed:
        return CALM
    rng = dice("weather", seed)
    start = rng.choice([4.0, 8.0, 20.0])
    stop = rng.choice([0.5, 1.0, 5.0])
    timing = {
        "start": (start, start * rng.uniform(1.0, 4.0)),
        "stop": (stop, stop * rng.uniform(1.0, 6.0)),
        "schedule_period": round(rng.uniform(0.1, 2.0), 2),
        "fault_detection": round(rng.uniform(0.5, 15.0), 1),
    }
    latency = rng.choice([0.001, 0.002, 0.005, 0.02])
    own, others = (rng.choice([0.0, 0.01, 0.1, 0.4]) for _ in range(2))
    return Delays(latency, own, others, timing)


class Late(Interceptor):
    """Events of watches come up to `lag` seconds after they happened, in their order, and go into
    `view` then."""

    def __init__(
        self, cluster: SimCluster, lag: float, rng: random.Random, view: View | None = None
    ) -> None:
        self._cluster = cluster
        self._lag = lag
        self._rng = rng
        self._view = view

    async def after(self, request: Request) -> None:
        if request.verb == "list" and self._view is not None:
            records = self._cluster.server.store.table(request.resource).records.values()
            self._view.take_all(request.resource, [record.object for record in records])

    async def deliver(self, request: Request, event: SeenEvent) -> bool:
        if event.record is not None and self._lag:
            late = (
                event.moment + self._rng.uniform(0.0, self._lag) - self._cluster.server.clock.now()
            )
            await asyncio.sleep(max(0.0, late))
        if event.record is not None and self._view is not None:
            self._view.take(
                request.resource, event.record.object, gone=event.type is EventType.DELETED
            )
        return True


class Judging(NamedTuple):
    """How strictly it is judged."""

    given_up: Set[str] = frozenset()
    """Keys of services that make no progress, and may be held up themselves."""
    patience: float = PATIENCE
    """Seconds for which these may hold up others."""
    twice: bool = False
    """Each decision is made a second time, from nothing."""


def watched(
    what: Scenario,
    services: Iterable[Service],
    *,
    seed: int = 0,
    delays: Delays = CALM,
    judging: Judging | None = None,
) -> tuple[Timeline, Passes]:
    """Play it, every pass and every write judged."""
    how = judging or Judging()
    silence_logs()
    timeline = Timeline(None)

    async def main() -> Passes:
        on = Rig(*ADMISSION, seed=seed)
        cluster = on.cluster
        clock = on.clock
        cluster.interceptor = Late(cluster, delays.others_lag, dice("late", seed))
        witness = Witness(clock, most=5)
        writes = Writes(cluster, witness)
        decisions = Decisions(witness, writes)
        passes = Passes(
            writes,
            services,
            given_up=how.given_up,
            lag=delays.own_lag,
            patience=how.patience,
        )
        eyes = Late(cluster, delays.own_lag, dice("eyes", seed), passes.view)
        life = Life(cluster, "scaler", writes, faults=eyes, seed=seed, latency=delays.latency)
        api = FaultyApi(life, Curses(what.curse, lambda: clock.now() - START), seed=seed)
        real = real_controller(seed, settings=settings_of(what))

        async def controller(api: KubeApi, clock: Clock, observe: Observer) -> None:
            def both(world: World, decision: Decision) -> None:
                decisions.judge("scaler", world, decision)
                passes.judge(decision)
                if how.twice and decide(world) != decision:
                    witness.fail("S5: made from nothing, the decision is another one")
                observe(world, decision)

            await real(api, clock, both)

        await ScenarioRun(
            cluster,
            clock,
            what,
            controller=controller,
            timeline=timeline,
            seed=seed,
            controller_api=api,
        ).play()
        passes.check_who_is_held_up()
        return passes

    return timeline, loop.run(main(), seed=seed)


def play(name: str, seed: int, *, beside: bool = False, arbitration: bool = True) -> Played:
    """One story. Where the scaler makes the pods, every decision is made twice."""
    played(f"tests.chaos --story {name} --seed {seed} --mode {'beside' if beside else 'create'}")
    with tempfile.TemporaryDirectory() as folder:
        story = STORIES[name](StoryMaker(dice(name, seed), Path(folder), beside))
        delays = delays_of(seed)
        story.events.sort(key=lambda event: float(event["at"]))
        what = Scenario.model_validate(
            {
                "nodes": story.nodes,
                "events": story.events,
                "until": round(story.last_event + AFTERWARDS),
                "timing": delays.timing,
                "arbitration": arbitration,
                "ascend_operator": beside,
                "settings": story.settings,
                "curse": story.curses,
            }
        )
        timeline, passes = watched(
            what,
            story.services,
            seed=seed,
            delays=delays,
            judging=Judging(story.given_up, story.patience, twice=not beside),
        )
    wrong = [*failures(timeline), *passes.witness.failures, *unkept(story, timeline, passes)]
    serve = len(serving(timeline))
    evictions = sum(map(len, passes.evictions.values()))
    text = "\n".join(f"{one.at:.6f} {one.service} {one.text}" for one in timeline.moments)
    return Played(
        seed,
        wrong,
        counts={f"end with {serve} serving": 1, "evictions": evictions},
        admissions=max(Counter(uid for _, uid in passes.admitted).values(), default=0),
        digest=hashlib.blake2b(text.encode(), digest_size=8).hexdigest(),
    )
