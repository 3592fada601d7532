"""The implementations that the suite judges: one list, and how each of them runs one case.

`simulated` is SimCluster in virtual time, `http` the real client against the HTTP facade of a SimCluster over loopback,
`real` the real client against the API server that the kubeconfig in $CONFORMANCE_KUBECONFIG names, if it names one.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

from scaler.clock import Clock
from scaler.kube.api import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, KubeApi
from scaler.kube.client import connect
from scaler.kube.errors import AlreadyExistsError, KubeError
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.apiserver.crds import definitions
from scaler.sim.apiserver.facade import kubeconfig, serve
from scaler.sim.apiserver.list_watch import Watch
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.conformance.harness import Case, Cluster, eventually
from tests.jobs import manifest

_REAL = "CONFORMANCE_KUBECONFIG"
_WALL = 1.7e9
_numbers = itertools.count(1)


def simulated(case: Case, seed: int) -> bool:
    """In virtual time; the seed varies the order of everything that happens at once."""

    async def main() -> bool:
        sim = SimCluster(Clock(_WALL), seed=seed, strict_namespaces=True)
        async with _collected(sim.client("collector")):
            return await _judge(case, sim, sim.compact)

    return run(main(), seed=seed, limit=3600)


def http(case: Case) -> bool:
    """In real time, over sockets, where a minute between bookmarks would be a minute of waiting."""

    async def main() -> bool:
        sim = SimCluster(Clock(_WALL), latency=0, strict_namespaces=True)
        async with serve(sim) as url, _collected(sim.client("collector")):
            with tempfile.NamedTemporaryFile("w", suffix=".kubeconfig") as file:
                file.write(kubeconfig(url))
                file.flush()
                async with connect(kubeconfig=file.name) as kube:
                    return await _judge(case, kube, sim.compact)

    Watch.bookmark_seconds, usual = 0.3, Watch.bookmark_seconds
    try:
        return asyncio.run(main())
    finally:
        Watch.bookmark_seconds = usual


def real(case: Case) -> bool:
    """Against a real API server with its controller manager, whose history cannot be compacted from here."""

    async def main() -> bool:
        async with connect(kubeconfig=os.environ[_REAL]) as kube:
            for definition in definitions():
                with suppress(AlreadyExistsError):
                    await kube.create(CUSTOM_RESOURCE_DEFINITIONS, None, definition)
            return await judge_real(case, kube, None)

    return asyncio.run(main())


IMPLEMENTATIONS: dict[str, Callable[[Case], bool]] = {
    "simulated": partial(simulated, seed=0),
    "shuffled": partial(simulated, seed=7),
    "http": http,
    **({"real": real} if os.environ.get(_REAL) else {}),
}


async def judge_real(case: Case, kube: KubeApi, compact: Callable[[], None] | None, minor: int = 35) -> bool:
    """One case against an API server, of Kubernetes 1.`minor`, that has a controller manager."""

    async def in_quiet(cluster: Cluster) -> None:
        """A real controller manager puts a ConfigMap into every new namespace, which must not come in between."""

        async def arrived() -> bool:
            return bool((await kube.list(CONFIG_MAPS, cluster.namespace)).items)

        await eventually(arrived, "the namespace is furnished")
        await case(cluster)

    return await _judge(in_quiet, kube, compact, minor)


async def _judge(case: Case, kube: KubeApi, compact: Callable[[], None] | None, minor: int = 35) -> bool:
    cluster = Cluster(kube, f"case-{os.getpid()}-{next(_numbers)}", compact, minor)
    await kube.create(NAMESPACES, None, manifest(NAMESPACES, cluster.namespace))
    try:
        await case(cluster)
        return True
    finally:
        for resource, name in (*cluster.made, (NAMESPACES, cluster.namespace)):
            with suppress(KubeError):
                await kube.delete(resource, None, name)


@asynccontextmanager
async def _collected(kube: KubeApi) -> AsyncIterator[None]:
    """With a garbage collector, as every cluster has one."""
    task = asyncio.create_task(GarbageCollector(kube).run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
