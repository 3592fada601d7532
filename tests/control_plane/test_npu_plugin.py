"""MindCluster's plugin in Volcano's own scheduler, and the stand-in for both: the same answers in
generated worlds of A2 and A3 nodes.

Refusals are equal, and placements up to nodes that the plugin scores alike. Where
NPU_ANSWERS names a file, the answers of the real one are written there; tests/sim replays them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from scaler.clock import Clock
from scaler.kube.api import CONFIG_MAPS, NAMESPACES, NODES, KubeApi, Object, Resource
from scaler.kube.errors import NotFoundError
from scaler.sim.actors import devices, objects
from tests import npu_worlds
from tests.control_plane.plane import ControlPlane
from tests.control_plane.stage import until
from tests.jobs import manifest
from tests.npu_worlds import NpuWorld, Recorded, Step

WORLDS = 60
PATIENCE = 20.0
"""Seconds until Volcano has bound a job, or said why not."""
SESSION = 0.25
"""Seconds from one session of the scheduler to the next."""
REFRESHED = 1.2
"""Seconds after which the plugin has read the chips of a node anew: it does so once a second."""
SESSIONS = 5
"""In so many a job that is refused is not bound after all."""

pytestmark = [
    pytest.mark.plane_options(volcano=True, ascend_plugin=True, pod_start=0.1, pod_stop=0.0),
    pytest.mark.long("Volcano places 200 jobs in real time"),
]


async def test_the_stand_in_answers_as_the_plugin_in_sixty_worlds(plane: ControlPlane) -> None:
    differences: list[str] = []
    recorded: dict[str, list[Recorded]] = {}
    async with plane.client() as api:
        for world in npu_worlds.worlds(int(os.environ.get("NPU_WORLDS", WORLDS))):
            async with _built(api, world):
                found = await _play(api, world, differences)
                recorded[world.name] = found
    _keep(recorded)
    assert not differences, "\n\n".join(differences)


def _keep(recorded: dict[str, list[Recorded]]) -> None:
    """Write the answers to the file that NPU_ANSWERS names."""
    if target := os.environ.get("NPU_ANSWERS"):
        lines = []
        for name, answers in recorded.items():
            lines.append(f'"{name}":{msgspec.json.encode(answers).decode()}')
        Path(target).write_text("{\n" + ",\n".join(lines) + "\n}\n")


@asynccontextmanager
async def _built(api: KubeApi, world: NpuWorld) -> AsyncIterator[None]:
    """The world on the real control plane, and nothing else; nothing of it stays."""
    await api.create(NAMESPACES, None, manifest(NAMESPACES, world.name))
    try:
        await npu_worlds.build(api, world, Clock())

        async def open_for_all() -> bool:
            nodes = (await npu_worlds.see(api, world)).nodes
            return not any(node["spec"].get("taints") for node in nodes)

        await until(open_for_all, "nodes without taints")
        await asyncio.sleep(2 * SESSION)
        yield
    finally:
        await _take_away(api, world)


async def _take_away(api: KubeApi, world: NpuWorld) -> None:
    """The chips of a world that stayed would count in the next one."""
    for job in {step.job for step in world.steps}:
        await npu_worlds.end_job(api, world.name, job)
    for node in world.nodes:
        await _remove(api, NODES, None, node.name)
        await _remove(api, CONFIG_MAPS, devices.DEVICE_NAMESPACE, devices.DEVICE_PREFIX + node.name)
        await _remove(api, CONFIG_MAPS, devices.NODE_NAMESPACE, devices.NODE_PREFIX + node.name)


async def _remove(api: KubeApi, resource: Resource, namespace: str | None, name: str) -> None:
    with suppress(NotFoundError):
        await api.delete(resource, namespace, name)


async def _play(api: KubeApi, world: NpuWorld, differences: list[str]) -> list[Recorded]:
    """Let every step happen, and compare; what is different is added to `differences`."""
    known: dict[str, Step] = {}
    recorded = []
    for step in world.steps:
        earlier = await npu_worlds.see(api, world)
        await npu_worlds.perform(api, world.name, step, known, pause=REFRESHED)
        if step.pods:
            known[step.job] = step
        if step.goes:
            await asyncio.sleep(REFRESHED)
            recorded.append(Recorded())
            continue
        before = npu_worlds.with_new(earlier, await npu_worlds.see(api, world))
        await _settle(api, world, step)
        after = await npu_worlds.see(api, world)
        real = npu_worlds.answer(before, after, step)
        memory = npu_worlds.remembered(earlier)
        simulated = await asyncio.to_thread(npu_worlds.stand_in_answers, before, step, memory)
        recorded.append(npu_worlds.record(after, step, real))
        if real != simulated:
            said = objects.status(after.group(step.job)).get("conditions") or []
            words = "\n".join(f"{one['reason']}: {one.get('message')}" for one in said)
            differences.append(
                f"{world.name}, {step}\n of {world.reports}\nreal {real}\nours {simulated}\n{words}"
            )
    return recorded


async def _settle(api: KubeApi, world: NpuWorld, step: Step) -> None:
    """Until the job runs, or was refused in several sessions."""

    async def status() -> Object:
        return objects.status((await npu_worlds.see(api, world)).group(step.job))

    async def told() -> bool:
        return bool((await status()).get("conditions"))

    await until(told, f"an answer to {step.job} of {world.name}", seconds=PATIENCE)
    for _ in range(SESSIONS):
        seen = await npu_worlds.see(api, world)
        phase = objects.status(seen.group(step.job)).get("phase")
        if phase == "Running" and all(map(objects.node_of, seen.of_job(step.job))):
            return
        await asyncio.sleep(SESSION)
