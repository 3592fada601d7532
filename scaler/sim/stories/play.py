"""Plays a scenario in virtual time: its world on a simulated cluster, with the real controller, on
one loop.

One seed gives one history. Must not: decide, or import an HTTP or Kubernetes client."""

from __future__ import annotations

import logging

import structlog

from scaler.app import App
from scaler.clock import Clock
from scaler.controller import Observer
from scaler.decide.decision import Decision
from scaler.decide.world import World
from scaler.defaults import Mode
from scaler.kube.api import KubeApi
from scaler.settings import Settings
from scaler.sim import loop
from scaler.sim.actors.leader_worker_sets import label_member
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.scenario_run import RunController, ScenarioRun
from scaler.sim.stories.timeline import Timeline
from scaler.sim.webhooks import webhooks

START = 1_790_000_000.0
"""Seconds since the epoch at the start of every simulation: a day in September 2026."""

ADMISSION = (label_member, *webhooks())
"""The webhooks of every simulated cluster: LeaderWorkerSet's, and our own for namespaces that opted
in."""

SIMULATED = Settings.model_validate({"leader_election": False, "http_port": 0, "mode": Mode.CREATE})
"""One process without servers; all other settings have their defaults."""


def play(
    what: Scenario, *, seed: int, timeline: Timeline | None = None, record: Observer | None = None
) -> Timeline:
    """Run the scenario to its end; the timeline grows meanwhile. `record` is called with every
    decision."""
    grown = timeline or Timeline()

    async def unfold() -> None:
        clock = Clock(START)
        cluster = SimCluster(clock, seed=seed, admission=ADMISSION)
        controller = real_controller(seed, record, settings=settings_of(what))
        await ScenarioRun(
            cluster, clock, what, controller=controller, timeline=grown, seed=seed
        ).play()

    loop.run(unfold(), seed=seed)
    return grown


def settings_of(scenario: Scenario) -> Settings:
    """The settings of the scenario's controller: those of the scenario, else of every simulation,
    else the defaults."""
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
        def observer(world: World, decision: Decision) -> None:
            observe(world, decision)
            if record is not None:
                record(world, decision)

        await App(api, settings, clock, observer=observer, seed=seed).run()

    return controller


def silence_logs() -> None:
    """Switch the controller's log off: the timeline shows what happens."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
