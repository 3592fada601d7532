"""Measures many services on a real API server and prints the figures: `python -m
tests.control_plane.bench_contention`.

Scaling up: so many services come at once to room for all of them; from the moment at which a
service runs its minimum to the creation of its second prefill instance. Sharing: twenty services on
forty and on twenty nodes; how many serve. Volcano schedules where VOLCANO_BIN_DIR is set, else
kube-scheduler. Must not: assert anything."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
from contextlib import suppress
from itertools import product
from pathlib import Path

from scaler.kube.api import PODS, KubeApi, Object
from scaler.sim.actors import objects
from tests.control_plane.build import VERSIONS
from tests.control_plane.others import VOLCANO
from tests.control_plane.plane import ControlPlane, PlaneOptions, temporary
from tests.control_plane.scaler_process import ScalerProcess, install, scaler
from tests.control_plane.services import CREATED, CREATED_WITHOUT_GANGS, SharedStage, Way, shared
from tests.control_plane.stage import kinds_definitions, until

_WHOLE = 3
"""Pods of a service that runs all that its rule has."""
_LONG = 600.0
"""Seconds for all of them to come to rest."""


class _Times:
    """When each pod was first seen, and first seen running: loop time, by namespace and name."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self.seen: dict[tuple[str, str], float] = {}
        self.ran: dict[tuple[str, str], float] = {}

    async def follow(self) -> None:
        """Until cancelled; from now on."""
        version = (await self._api.list(PODS)).resource_version
        while True:
            async for event in self._api.watch(PODS, resource_version=version):
                version = event.resource_version
                if event.object is not None:
                    self._note(event.object, asyncio.get_running_loop().time())

    def _note(self, pod: Object, now: float) -> None:
        place = objects.namespace(pod), objects.name(pod)
        self.seen.setdefault(place, now)
        if objects.phase(pod) == "Running":
            self.ran.setdefault(place, now)

    def scale_up(self, namespace: str) -> float | None:
        """Seconds from the minimum to the pod beyond it; None when it has not come to that."""
        prefills = sorted(
            at for (place, name), at in self.seen.items() if place == namespace and "-p" in name
        )
        decode = [
            at for (place, name), at in self.ran.items() if place == namespace and "-d" in name
        ]
        first = [
            at for (place, name), at in self.ran.items() if place == namespace and "-p" in name
        ]
        if len(prefills) < 2 or not decode or not first:
            return None
        return prefills[1] - max(min(decode), min(first))


async def scale_ups(
    plane: ControlPlane, way: Way, folder: Path, services: int, *, arbitration: bool
) -> None:
    """All at once, three nodes for each."""
    kubeconfig = install(plane)
    word = "with" if arbitration else "without"
    flags = (*way.flags, *(() if arbitration else ("--no-arbitration",)))
    async with (
        shared(
            plane, way, _WHOLE * services, services=services, name=f"{word}-arbitration"
        ) as stage,
        scaler(folder, kubeconfig, name=f"scaler-{word}", flags=flags) as process,
    ):
        times = _Times(stage.api)
        following = asyncio.create_task(times.follow())
        await asyncio.sleep(0.5)
        started = asyncio.get_running_loop().time()
        await stage.arrive()
        applied = asyncio.get_running_loop().time() - started
        with suppress(AssertionError):
            await until(lambda: _is(stage, {"2P1D": services}), "all run 2P1D", seconds=_LONG)
        whole = asyncio.get_running_loop().time() - started
        following.cancel()
        found = [
            seconds for name in stage.namespaces if (seconds := times.scale_up(name)) is not None
        ]
        print(
            f"| {services} services, {word} arbitration | {_spread(found)} | {applied:.1f} |"
            f" {whole:.1f} | {stage.tally()} | {_done(process)} |",
            flush=True,
        )


def _spread(found: list[float]) -> str:
    if not found:
        return "- | - | -"
    high = sorted(found)[min(len(found) - 1, int(0.9 * len(found)))]
    return f"{statistics.median(found):.2f} | {high:.2f} | {max(found):.2f}"


async def _is(stage: SharedStage, tally: dict[str, int]) -> bool:
    return stage.tally() == tally


async def sharing(
    plane: ControlPlane, way: Way, folder: Path, run: tuple[int, bool, str], calm: float
) -> None:
    """Twenty services on fewer nodes than they would like."""
    nodes, at_once, preempt = run
    kubeconfig = install(plane)
    how = "at once" if at_once else "one by one"
    name = f"{'once' if at_once else 'turns'}-{nodes}-{preempt}"
    async with (
        shared(plane, way, nodes, name=name) as stage,
        scaler(folder, kubeconfig, name=name, flags=(*way.flags, "--preempt", preempt)) as process,
    ):
        if at_once:
            await stage.arrive()
        else:
            await _arrive_one_by_one(stage)
        seconds = await _at_rest(stage, calm)
        serving = len(stage.serving())
        print(
            f"| {nodes} | {how} | {preempt} | {serving} | {stage.tally()} | {seconds:.0f} |"
            f" {_done(process)} |",
            flush=True,
        )


async def _arrive_one_by_one(stage: SharedStage) -> None:
    """Each finds the cluster at rest after the one before."""
    for namespace in stage.namespaces:
        await stage.join(namespace)
        await _at_rest(stage, 3.0)


async def _at_rest(stage: SharedStage, calm: float) -> float:
    """Wait until nothing has moved for so long; how long it took before that."""
    loop = asyncio.get_running_loop()
    began = changed = loop.time()
    before = (stage.tally(), stage.nodes_by_instance())
    while loop.time() - changed < calm and loop.time() - began < _LONG:
        await asyncio.sleep(0.2)
        now = (stage.tally(), stage.nodes_by_instance())
        if now != before:
            before = now
            changed = loop.time()
    return changed - began


def _done(process: ScalerProcess) -> str:
    """What the scaler did, by its own log."""
    counts = dict.fromkeys(("admit", "revoke", "evict"), 0)
    for line in process.lines("reconciled"):
        for word in counts:
            counts[word] += len(line.get(word, ()))
    return (
        ", ".join(f"{number} {word}" for word, number in counts.items())
        + f", {len(process.errors())} errors"
    )


async def measure(
    plane: ControlPlane, way: Way, folder: Path, arguments: argparse.Namespace
) -> None:
    if arguments.services:
        print(
            "\n| from the minimum to the second prefill (s) | p50 | p90 | max | applied | whole |"
            " comes to | did |"
        )
        print("|---|---|---|---|---|---|---|---|")
        for arbitration in (True, False):
            await scale_ups(plane, way, folder, arguments.services, arbitration=arbitration)
    if arguments.sharing:
        print("\n| nodes | twenty services come | preempt | serve | comes to | after (s) | did |")
        print("|---|---|---|---|---|---|---|")
        for run in product((40, 20), (True, False), ("higher-priority", "equal-or-higher")):
            await sharing(plane, way, folder, run, arguments.calm)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure many services on a real API server.")
    parser.add_argument("--services", type=int, default=80, help="that scale up; 0 leaves this out")
    parser.add_argument("--sharing", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--calm", type=float, default=15.0, help="seconds without a change that count as rest"
    )
    arguments = parser.parse_args()
    way = CREATED if VOLCANO.there else CREATED_WITHOUT_GANGS
    options = PlaneOptions(
        crds=kinds_definitions(), scheduler=not VOLCANO.there, volcano=VOLCANO.there
    )
    with temporary("bench-contention", VERSIONS[0], options) as plane:
        machine = f"Python {platform.python_version()}, {os.cpu_count()} CPUs"
        scheduler = "volcano" if VOLCANO.there else "kube-scheduler"
        print(f"Kubernetes {plane.binaries.version}, {scheduler}, {machine}")
        asyncio.run(measure(plane, way, plane.folder, arguments))


if __name__ == "__main__":
    main()
