"""A simulated cluster in real time for kubectl, with the real controller, until Ctrl-C.

Must not: outlive its caller, or listen anywhere but on loopback."""

from __future__ import annotations

import asyncio
import math
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, Object
from scaler.names import GROUP_LABEL, RULE_KEY
from scaler.sim.apiserver.facade import kubeconfig, serve
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.manifests import read_manifests
from scaler.sim.stories.play import ADMISSION, real_controller, silence_logs
from scaler.sim.stories.scenario import Scenario, Timing
from scaler.sim.stories.scenario_run import ScenarioRun
from scaler.sim.stories.timeline import Timeline
from scaler.tools.demo.screen import Screen

_QUICK = {
    "start": (2, 4),
    "ready": (2, 4),
    "stop": (1, 2),
    "fault_detection": 3,
    "mindie_patience": 20,
    "eviction": 60,
}
"""Seconds. Short, because loading weights is not interesting here."""

SHORT_FILE = "service.yaml"
"""The short file in a folder of `scaler new`, which `kubectl apply` does not accept."""


def hints(path: Path, example: Path, objects: Sequence[Object]) -> str:
    """Commands to try, with names that exist."""
    ready = """'{"status":{"conditions":[{"type":"Ready","status":"%s"}]}}'"""
    patch = "kubectl patch node npu-0 --subresource=status --type=merge -p"
    rule = "scaling-rule"
    for one in objects:
        if RULE_KEY in one.get("data", {}):
            rule = one["metadata"]["name"]
            break
    jobs = []
    for obj in objects:
        if obj["kind"] == ASCEND_JOBS.kind:
            jobs.append(obj["metadata"])
    job = ""
    for one in reversed(jobs):
        if one.get("labels", {}).get(GROUP_LABEL) == "group0":
            job = one["name"]
            break
    apply = "" if example.name == SHORT_FILE else f"\n  kubectl apply -f {example}"
    return f"""
The cluster is up; in another terminal:

  export KUBECONFIG={path}
  kubectl get {"acjob," if job else ""}pods -o wide
  kubectl edit configmap {rule}        # a smaller ratio, a larger one, a typo
  kubectl get esvc -o wide
  kubectl describe esvc
  {patch} {ready % "False"}
  {patch} {ready % "True"}
  kubectl delete {f"acjob {job}" if job else "pod NAME"}{apply}

Ctrl-C ends it.

"""


def keep_up(scenario: Scenario, *, port: int, seed: int, out: TextIO) -> None:
    """Run until Ctrl-C or SIGTERM. Raises OSError when the port is not available."""
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
    clock = Clock()
    cluster = SimCluster(clock, seed=seed, admission=ADMISSION)
    timeline = Timeline()
    timeline.listener = Screen(out, timeline, live=out.isatty(), paced=False).tell
    quick = scenario.model_copy(
        update={"timing": Timing.model_validate(_QUICK), "events": [], "until": math.inf}
    )
    controller = real_controller(seed, leader_election=True, identity="scaler-demo")
    world = ScenarioRun(cluster, clock, quick, controller=controller, timeline=timeline, seed=seed)
    async with serve(cluster, port=port) as url:
        objects = []
        for manifests in scenario.manifests:
            objects.extend(read_manifests(manifests))
        namespaces = []
        for obj in objects:
            if obj["metadata"].get("namespace"):
                namespaces.append(obj["metadata"]["namespace"])
        # Once, before anything runs.
        config = kubeconfig(url, next(iter(namespaces), "default"))
        path.write_text(config, encoding="utf-8")  # noqa: ASYNC240
        out.write(hints(path, _shown(scenario.manifests[0]), objects))
        out.flush()
        await world.play()


def _shown(path: Path) -> Path:
    """The path as a user in the current folder would write it."""
    try:
        return path.resolve().relative_to(Path.cwd())
    except ValueError:
        return path.resolve()
