"""A simulated cluster in real time that kubectl can talk to, with the real controller at work, until Ctrl-C.

Must not: outlive its caller, or listen anywhere but on loopback.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from pathlib import Path
from typing import TextIO

from scaler.clock import Clock
from scaler.sim.apiserver.facade import kubeconfig, serve
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import ADMISSION, real_controller, silence_logs
from scaler.sim.stories.scenario import Scenario, Timing
from scaler.sim.stories.timeline import Timeline
from scaler.sim.stories.world import World
from scaler.tools.simulation.screen import Screen

_QUICK = {
    "start": (2, 4), "ready": (2, 4), "stop": (1, 2), "fault_detection": 3, "mindie_patience": 20, "eviction": 60,
}  # fmt: skip
"""Nobody wants to watch weights being loaded. Seconds."""


def _hints(path: Path, example: Path) -> str:
    ready = """'{"status":{"conditions":[{"type":"Ready","status":"%s"}]}}'"""
    patch = "kubectl patch node npu-0 --subresource=status --type=merge -p"
    return f"""
The cluster is up; in another terminal:

  export KUBECONFIG={path}
  kubectl get acjob,pods -o wide
  kubectl edit configmap scaling-rule        # a smaller ratio, a larger one, a typo
  kubectl get esvc -o wide
  kubectl describe esvc
  {patch} {ready % "False"}
  {patch} {ready % "True"}
  kubectl delete acjob mindie-server-p1
  kubectl apply -f {example}

Ctrl-C ends it.

"""


def keep_up(scenario: Scenario, *, port: int, seed: int, out: TextIO) -> None:
    """Run until Ctrl-C or SIGTERM. Raises OSError when the port cannot be had."""
    silence_logs()
    with tempfile.TemporaryDirectory(prefix="scaler-demo-") as folder:
        try:
            asyncio.run(_keep_up(scenario, port, seed, out, Path(folder) / "kubeconfig"))
        except asyncio.CancelledError:
            out.write("\nThe cluster is gone.\n")


async def _keep_up(scenario: Scenario, port: int, seed: int, out: TextIO, path: Path) -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
    clock = Clock(time.time() - loop.time())  # the one place where this process reads the wall clock
    cluster = SimCluster(clock, seed=seed, admission=ADMISSION)
    timeline = Timeline()
    timeline.listener = Screen(out, timeline, live=out.isatty(), paced=False).tell
    quick = scenario.model_copy(update={"timing": Timing.model_validate(_QUICK), "events": []})
    world = World(
        cluster,
        clock,
        quick,
        controller=real_controller(seed, leader_election=True, identity="scaler-demo"),
        timeline=timeline,
        seed=seed,
    )
    async with serve(cluster, port=port) as url:
        path.write_text(kubeconfig(url, "mindie"), encoding="utf-8")  # noqa: ASYNC240 - once, before anything runs
        out.write(_hints(path, _shown(scenario.manifests[0])))
        out.flush()
        await world.live()


def _shown(path: Path) -> Path:
    """The path as a user in the current folder would write it."""
    try:
        return path.resolve().relative_to(Path.cwd())
    except ValueError:
        return path.resolve()
