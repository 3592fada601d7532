"""Replicas that do not see what they decide on: by refused or silent watches, and because etcd was
restored.

Leaders and standbys are processes of their own; what they did is judged at the API server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from signal import SIGTERM

import pytest

from scaler.kube.api import CONFIG_MAPS, PODS
from scaler.sim.apiserver.crds import definitions
from tests.control_plane.plane import ControlPlane, PlaneOptions
from tests.control_plane.plugin import FreshPlane
from tests.control_plane.programs import answers_ok
from tests.control_plane.proxy import Proxy, proxied, status
from tests.control_plane.scaler_process import (
    ACCOUNT,
    LEASE,
    NAMESPACE,
    ScalerProcess,
    ended,
    install,
    leads,
    scaler,
)
from tests.control_plane.stage import Stage, staged, until

LONG = pytest.mark.long("a minute or two in real time")
MINUTE = 60.0
OUT_OF_TOUCH = ("--out-of-touch", "8")
NEEDED = ("/ascendjobs", "/configmaps", "/podgroups", "/pods")


def _is_read_of_needed(method: str, path: str) -> bool:
    return method == "GET" and path.partition("?")[0].endswith(NEEDED)


def _forbid(proxy: Proxy) -> None:
    answer = status(403, "Forbidden")
    proxy.judge = lambda method, path: answer if _is_read_of_needed(method, path) else None
    proxy.cut()


def _fail(proxy: Proxy) -> None:
    answer = status(500, "InternalError")
    proxy.judge = lambda method, path: answer if _is_read_of_needed(method, path) else None
    proxy.cut()


BLINDNESS: dict[str, Callable[[Proxy], None]] = {"are refused": _forbid, "fail": _fail}


@LONG
@pytest.mark.parametrize("how", BLINDNESS)
async def test_a_leader_makes_room_for_a_replica_that_sees_when_its_watches(
    plane: ControlPlane, tmp_path: Path, how: str
) -> None:
    kubeconfig = install(plane)
    async with proxied(plane.port, plane.authority) as proxy, staged(plane, npu_nodes=3) as stage:
        behind_proxy = plane.grant(NAMESPACE, ACCOUNT, server=proxy.url)
        flags = (*LEASE, *OUT_OF_TOUCH)
        async with scaler(tmp_path, behind_proxy, name="first", flags=flags) as first:
            await until(lambda: leads(stage, "first"), "the first replica leads")
            BLINDNESS[how](proxy)
            await until(
                lambda: _said(first, "out of touch"),
                "the first replica says that it is out of touch",
            )
            assert not answers_ok(first.url("/readyz"))
            assert answers_ok(first.url("/healthz"))
            await stage.apply()
            await asyncio.sleep(10)
            assert await leads(stage, "first")  # nobody else is there
            assert await stage.pods("mindie") == []
            async with scaler(tmp_path, kubeconfig, name="second", flags=flags) as second:
                await until(
                    lambda: leads(stage, "second"), "the second replica leads", seconds=2 * MINUTE
                )
                await stage.runs(group0=2, group1=1)
                await until(lambda: ended(first), "the first replica ends itself")
                assert "second sees" in first.tail()
                assert second.errors() == []
        plane.kubectl("delete", "ascendjobs", "--all", "--all-namespaces")
        await stage.clear()


async def _said(process: ScalerProcess, event: str) -> bool:
    return bool(process.lines(event))


PATIENT = ("--lease-duration", "120", "--renew-deadline", "90")
"""Of a leader that is still one after the API server was away."""


@LONG
@pytest.mark.parametrize("leader", ["dies", "stays"])
async def test_replicas_find_their_way_back_within_a_minute_after_a_restore_of_etcd(
    fresh_plane: FreshPlane, tmp_path: Path, leader: str
) -> None:
    plane = fresh_plane(PlaneOptions(crds=definitions()))
    kubeconfig = install(plane)
    flags = LEASE if leader == "dies" else (*LEASE, *PATIENT)
    async with staged(plane, npu_nodes=3) as stage, scaler(tmp_path, kubeconfig, name="before"):
        await stage.apply()
        await stage.runs(group0=2, group1=1)
        before = await _uids(stage)
    copy = await asyncio.to_thread(plane.back_up)
    async with (
        plane.client() as api,
        scaler(tmp_path, kubeconfig, name="first", flags=flags) as first,
        scaler(tmp_path, kubeconfig, name="second", flags=flags) as second,
    ):
        await until(lambda: leads(Stage(api), "first"), "the first replica leads")
        await until(lambda: _changes_much(plane, Stage(api)), "much has changed since")
        if leader == "dies":  # as one does that cannot renew its Lease for long enough
            await asyncio.to_thread(first.stop)
        await asyncio.to_thread(plane.restore, copy)
        restored = time.monotonic()
        async with staged(plane) as stage:
            leading = second if leader == "dies" else first
            for replica in {leading, second}:
                await until(
                    partial(_sees, replica), f"{replica.name} has seen that the cluster went back"
                )
            await until(lambda: leads(stage, leading.name), f"{leading.name} leads", seconds=MINUTE)
            assert time.monotonic() - restored < MINUTE
            assert await _uids(stage) == before  # nothing was deleted, nothing made twice
            await _loses_an_instance(stage, before)
            if leader == "stays":
                await asyncio.to_thread(first.stop, SIGTERM)
                await _loses_an_instance(stage, before)
        assert leading.errors() == second.errors() == []


async def _loses_an_instance(stage: Stage, before: dict[str, str]) -> None:
    """It comes back, and whoever leads knows of everything that there is again."""
    lost = "mindie-server-d0-master-0"
    others = {name: uid for name, uid in before.items() if name != lost}
    gone = (await _uids(stage))[lost]
    await stage.api.delete(PODS, "mindie", lost, grace_period_seconds=0)
    await until(lambda: _is_made_anew(stage, lost, gone), "the lost instance is back", stage.views)
    assert {name: uid for name, uid in (await _uids(stage)).items() if name != lost} == others
    await until(
        lambda: _tells_of(stage, "mindie-server-p1"),
        "the status tells of what the backup brought back",
    )


async def _tells_of(stage: Stage, job: str) -> bool:
    return job in {instance["name"] for instance in await stage.said("mindie")}


async def _is_made_anew(stage: Stage, pod: str, before: str) -> bool:
    return (await _uids(stage)).get(pod, before) != before and await stage.running() == {
        "group0": 2,
        "group1": 1,
    }


async def _uids(stage: Stage) -> dict[str, str]:
    pods = (await stage.api.list(PODS, "mindie")).items
    return {
        pod["metadata"]["name"]: pod["metadata"]["uid"]
        for pod in pods
        if "-server-" in pod["metadata"]["name"]
    }


async def _changes_much(plane: ControlPlane, stage: Stage) -> bool:
    """What the backup knows nothing of: an instance less, and a few hundred versions."""
    await stage.api.list(PODS, "mindie")
    plane.kubectl(
        "delete", "ascendjob", "mindie-server-p1", "--namespace", "mindie", "--ignore-not-found"
    )
    for number in range(300):
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"generateName": f"noise-{number}-"},
        }
        await stage.api.create(CONFIG_MAPS, "default", body)
    return True


async def _sees(process: ScalerProcess) -> bool:
    return bool(process.lines("the cluster was restored"))
