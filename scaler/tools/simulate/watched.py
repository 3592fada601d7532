"""A scenario in a browser: the real controller on a simulated cluster, faster than real time, on
the page of `scaler ui`. It runs on after the last event, until Ctrl-C.

Must not: listen anywhere but on loopback."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable

from scaler.clock import Clock
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import ADMISSION, real_controller, settings_of, silence_logs
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.scenario_run import ScenarioRun
from scaler.sim.stories.timeline import Timeline
from scaler.tools.common.serving import end_on_signals, print_address
from scaler.tools.common.view import Cluster
from scaler.tools.ui import server
from scaler.tools.ui.guard import new_token

FOR_EVER = 1e9
"""Seconds."""
LEAP = 0.5
"""The largest step of time, in seconds."""
_Ready = list[tuple[selectors.SelectorKey, int]]


class PacedLoop(asyncio.SelectorEventLoop):
    """An event loop on which `speed` seconds pass in one: timers and timeouts come earlier.

    On a machine that is too slow, time runs more slowly instead of jumping: no component counts as
    dead for that reason."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._now = 0.0
        self._seen = time.monotonic()
        super().__init__(_Paced(self))

    def time(self) -> float:
        """Seconds, of which at most `speed` pass in one."""
        return self._now

    def wait(self, select: Callable[[float | None], _Ready], timeout: float | None) -> _Ready:
        """The selector's result, after time was advanced."""
        ready = select(timeout / self._speed if timeout else timeout)
        now = time.monotonic()
        self._now += min((now - self._seen) * self._speed, LEAP)
        self._seen = now
        return ready


class _Paced(selectors.DefaultSelector):
    def __init__(self, loop: PacedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> _Ready:
        return self._loop.wait(super().select, timeout)


class NotServedError(Exception):
    """The page cannot be served at the given port; the message is for people."""


def show(scenario: Scenario, *, speed: float, seed: int, port: int) -> None:
    """Play it until Ctrl-C, on a page whose address is printed. Raises NotServedError."""
    silence_logs()
    with asyncio.Runner(loop_factory=lambda: PacedLoop(speed)) as runner:
        try:
            runner.run(_show(scenario, speed, seed, port))
        except asyncio.CancelledError:
            return
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", "") or error
            raise NotServedError(f"port {port}: {why}") from error


async def _show(scenario: Scenario, speed: float, seed: int, port: int) -> None:
    end_on_signals()
    clock = Clock()
    simulated = SimCluster(clock, seed=seed, admission=ADMISSION)
    endless = scenario.model_copy(update={"until": FOR_EVER})
    settings = settings_of(scenario)
    controller = real_controller(seed, settings=settings)
    world = ScenarioRun(
        simulated, clock, endless, controller=controller, timeline=Timeline(), seed=seed
    )
    api = simulated.client("page")
    cluster = Cluster(api, clock, home=settings.lease_namespace)
    about = {"cluster": scenario.title, "namespaces": [], "speed": speed}
    page = server.Page(cluster, api, about, pause=server.PAUSE * speed)
    async with server.served(page, new_token(), port) as address, asyncio.TaskGroup() as group:
        print_address(address)
        group.create_task(world.play())
        await server.keep_up(page, cluster)
