"""Measures releasing on a real API server and prints what docs/reference/performance.md quotes;
`make bench-reaction`.

This process plays the maker of pods, scheduler and kubelet. Must not: assert anything about
speed."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from scaler.kube.api import CONFIG_MAPS, NAMESPACES, PODS, KubeApi, Object
from scaler.names import GATE, INSTANCE, INSTANCE_SIZE, RULE_KEY
from scaler.sim.actors.nodes import NodeSpec, add_node
from scaler.sim.apiserver.crds import definitions
from tests.control_plane.bench_reaction import PARALLEL, PLACE, Climb, Kubelet, row, rule, timed
from tests.control_plane.build import VERSIONS
from tests.control_plane.plane import ControlPlane, PlaneOptions, temporary
from tests.control_plane.scaler_process import install
from tests.control_plane.stage import until
from tests.control_plane.timed_scaler import Note

INSTANCES = 12
SIZES = (4, 8, 16)


async def make(
    api: KubeApi, service: str, name: str, group: str, said: dict[str, str] | None = None
) -> None:
    """A held pod that is an instance by itself, or what the annotations `said` say."""
    labels = {
        "mind-cluster/scaling-rule": service,
        "mind-cluster/group-name": group,
        "jobID": service,
    }
    spec = {"containers": [{"name": "main", "image": "none"}], "schedulingGates": [{"name": GATE}]}
    metadata = {"name": f"{service}-{name}", "labels": labels, "annotations": said or {}}
    await api.create(
        PODS, PLACE, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    )


async def released(api: KubeApi, name: str) -> bool:
    return not (await api.get(PODS, PLACE, name))["spec"].get("schedulingGates")


async def climbs(plane: ControlPlane, api: KubeApi, folder: Path, count: int) -> list[Climb]:
    """A service that loses its decode instance, has its second prefill instance taken back, and
    climbs again.

    Every pod has a name of its own."""
    service = f"gates{time.monotonic_ns() % 10**6}"
    p0 = f"{service}-p0"
    kubelet = Kubelet(api)
    body: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": service},
        **rule(2, 1),
    }
    async with timed(plane, folder) as notes:
        await api.create(CONFIG_MAPS, PLACE, body)
        await make(api, service, "p0", "group0")
        await until(lambda: released(api, p0), "p0 is released")
        await kubelet.run([p0])
        for number in range(1, count + 1):
            await _climb(api, kubelet, service, number)
    await kubelet.lose([p0])
    await api.delete(CONFIG_MAPS, PLACE, service)
    return [found for number in range(1, count + 1) for found in _climbs(notes, service, number)]


async def _climb(api: KubeApi, kubelet: Kubelet, service: str, number: int) -> None:
    prefill = f"{service}-p{number}"
    decode = f"{service}-d{number}"
    await make(api, service, f"d{number}", "group1")
    await make(api, service, f"p{number}", "group0")
    await until(lambda: released(api, decode), f"{decode} is released")
    await kubelet.run([decode])
    await until(lambda: released(api, prefill), f"{prefill} is released")
    await asyncio.sleep(0.05)  # what is written about it is no part of the next climb
    await kubelet.lose([decode])
    await kubelet.vanish([prefill])


def _climbs(notes: Sequence[Note], service: str, number: int) -> list[Climb]:
    """The release of the prefill instance of this number, seen from the last change of the decode
    instance before."""
    found: list[Climb] = []
    event = sent = 0.0
    prefill = f"{service}-p{number}"
    decode = f"{service}-d{number}"
    for note in notes:
        if note.what == "event" and note.name == decode and not sent:
            event = note.at
        elif note.verb == "patch" and note.name == prefill and note.what == "send":
            sent = note.at
        elif note.verb == "patch" and note.name == prefill and sent:
            total = note.at - event
            api = note.at - sent
            found.append(Climb(total * 1e3, api * 1e3, (total - api) * 1e3, 0.0))
            sent = 0.0
    return found


async def at_once(plane: ControlPlane, api: KubeApi, folder: Path, count: int) -> None:
    """All held pods are there before the scaler starts; then all are released."""
    service = "wide"
    entry = {"group_name": "group0", "group_num": str(count), "server_num_per_group": "1"}
    document = json.dumps({"version": "1.0", "elastic_scaling_list": [{"group_list": [entry]}]})
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": service},
        "data": {RULE_KEY: document},
    }
    await api.create(CONFIG_MAPS, PLACE, body)
    slots = asyncio.Semaphore(PARALLEL)

    async def one(number: int) -> None:
        async with slots:
            await make(api, service, f"p{number}", "group0")

    await asyncio.gather(*(one(number) for number in range(count)))

    async def all_released() -> bool:
        found = (await api.list(PODS, PLACE)).items
        return not any(pod["spec"].get("schedulingGates") for pod in found)

    async with timed(plane, folder) as notes:
        await until(all_released, f"{count} pods are released", seconds=300)
    mine = [note for note in notes if note.verb == "patch" and note.resource == "pods"]
    lasted = max(note.at for note in mine) - min(note.at for note in mine)
    trips = sorted(
        b.at - a.at
        for a in mine
        if a.what == "send"
        for b in mine
        if b.number == a.number and b is not a
    )
    print(
        f"\n{count} pods released at once: {lasted:.2f} s = {count / lasted:.0f} pods/s; "
        f"one request, with {PARALLEL} under way: median {trips[len(trips) // 2] * 1e3:.1f} ms"
    )


async def bursts(plane: ControlPlane, api: KubeApi, folder: Path, pods: int) -> list[float]:
    """Instances of so many pods, which are all released when the scaler starts: how far apart the
    API server accepts the first and the last release of each, in ms."""
    entry = {"group_name": "group0", "group_num": "1", "server_num_per_group": str(pods)}
    document = json.dumps({"version": "1.0", "elastic_scaling_list": [{"group_list": [entry]}]})
    slots = asyncio.Semaphore(PARALLEL)

    async def one(service: str, number: int) -> None:
        said = {INSTANCE: service, INSTANCE_SIZE: str(pods)}
        async with slots:
            await make(api, service, f"p{number}", "group0", said)

    services = [f"burst{pods}-{number}" for number in range(INSTANCES)]
    for service in services:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": service},
            "data": {RULE_KEY: document},
        }
        await api.create(CONFIG_MAPS, PLACE, body)
        await asyncio.gather(*(one(service, number) for number in range(pods)))
    names = [f"{service}-p{number}" for service in services for number in range(pods)]

    async def all_released() -> bool:
        found = (await api.list(PODS, PLACE)).items
        gated = {pod["metadata"]["name"] for pod in found if pod["spec"].get("schedulingGates")}
        return gated.isdisjoint(names)

    async with timed(plane, folder) as notes:
        await until(all_released, f"{len(names)} pods are released", seconds=300)
    spreads = []
    for service in services:
        mine = [note.at for note in notes if _is_answer(note) and _instance_of(note) == service]
        assert len(mine) == pods
        spreads.append((max(mine) - min(mine)) * 1e3)
    for service in services:
        await api.delete(CONFIG_MAPS, PLACE, service)
    for name in names:
        await api.delete(PODS, PLACE, name, grace_period_seconds=0)
    return spreads


def _is_answer(note: Note) -> bool:
    return note.verb == "patch" and note.resource == "pods" and note.what != "send"


def _instance_of(note: Note) -> str:
    return note.name.rpartition("-")[0]


async def measure(plane: ControlPlane, folder: Path, arguments: argparse.Namespace) -> None:
    install(plane)
    async with plane.client() as api:
        await api.create(
            NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE}}
        )
        await add_node(api, NodeSpec("bench", cpu=10_000, memory="100Ti", pods=10_000))
        found = await climbs(plane, api, folder, arguments.climbs)
        shares: dict[str, Callable[[Climb], float]] = {
            "event to release accepted": lambda climb: climb.total,
            "... of it API server": lambda climb: climb.api,
            "... own": lambda climb: climb.own,
        }
        print("\n| release of one pod (ms) | p50 | p99 | max |\n|---|---|---|---|")
        for name, share in shares.items():
            print(row(f"{len(found)} climbs: {name}", [share(climb) for climb in found]))
        await at_once(plane, api, folder, arguments.pods)
        print(
            f"\n| {INSTANCES} instances at once, first to last gate of one (ms) | p50 | p99 | max |"
        )
        print("|---|---|---|---|")
        for pods in SIZES:
            print(row(f"{pods} pods", await bursts(plane, api, folder, pods)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Measure releasing held pods on a real API server."
    )
    parser.add_argument("--climbs", type=int, default=200)
    parser.add_argument("--pods", type=int, default=1000)
    arguments = parser.parse_args()
    with temporary(
        "bench-gates", VERSIONS[0], PlaneOptions(crds=definitions(), audit=True)
    ) as plane:
        print(
            f"Kubernetes {plane.binaries.version}, Python {platform.python_version()},"
            f" {os.cpu_count()} CPUs"
        )
        asyncio.run(measure(plane, plane.folder, arguments))


if __name__ == "__main__":
    main()
