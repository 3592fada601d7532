"""A scenario in a browser: the real controller on a simulated cluster, some times faster than real time, on the page of
`scaler ui`. It goes on after the last event, until Ctrl-C.

Must not: listen anywhere but on loopback.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable

from scaler.clock import Clock
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import ADMISSION, real_controller, settings_of, silence_logs
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.timeline import Timeline
from scaler.sim.stories.world import World
from scaler.tools.cluster.reading import Cluster
from scaler.tools.page import server
from scaler.tools.page.guard import new_token
from scaler.tools.ui import end_on_signals

FOR_EVER = 1e9
"""Seconds."""


class PacedLoop(asyncio.SelectorEventLoop):
    """An event loop on which so many seconds pass in one: timers and everything that waits come earlier."""

    def __init__(self, speed: float) -> None:
        self._speed, self._began = speed, time.monotonic()
        super().__init__(_Hurried(speed))

    def time(self) -> float:
        """Seconds, of which `speed` pass in one."""
        return self._began + (time.monotonic() - self._began) * self._speed


class _Hurried(selectors.DefaultSelector):
    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout / self._speed if timeout else timeout)


def show(scenario: Scenario, *, speed: float, seed: int, port: int, tell: Callable[[str], None]) -> None:
    """Play it until Ctrl-C; `tell` is given the page's address. Raises OSError when the port cannot be had."""
    silence_logs()
    with asyncio.Runner(loop_factory=lambda: PacedLoop(speed)) as runner:
        try:
            runner.run(_show(scenario, speed, seed, port, tell))
        except asyncio.CancelledError:
            return


async def _show(scenario: Scenario, speed: float, seed: int, port: int, tell: Callable[[str], None]) -> None:
    end_on_signals()
    clock = Clock(time.time() - asyncio.get_running_loop().time())
    simulated = SimCluster(clock, seed=seed, admission=ADMISSION)
    endless = scenario.model_copy(update={"until": FOR_EVER})
    controller = real_controller(seed, settings=settings_of(scenario))
    world = World(simulated, clock, endless, controller=controller, timeline=Timeline(), seed=seed)
    cluster = Cluster(simulated.client("page"), clock)
    about = {"cluster": scenario.title, "namespaces": [], "speed": speed}
    page = server.Page(cluster, about, pause=server.PAUSE * speed)
    async with server.served(page, new_token(), port) as address, asyncio.TaskGroup() as group:
        tell(address)
        group.create_task(world.play())
        await server.keep_up(page, cluster)
