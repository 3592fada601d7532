"""What goes wrong between the scaler and a real API server, and to the scaler itself: it recovers
and keeps its word.

An independent watch (witness.py) checks the promises all the while; each test ends with a service
that runs whole."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from scaler.kube.api import ASCEND_JOBS, ELASTIC_SERVICES, LEASES, POD_GROUPS, PODS
from scaler.sim.actors.nodes import NodeFate
from scaler.sim.apiserver.crds import definitions
from tests.control_plane import stalling_scaler
from tests.control_plane.plane import ControlPlane, PlaneOptions
from tests.control_plane.plugin import FreshPlane
from tests.control_plane.programs import ControlPlaneError
from tests.control_plane.proxy import BAD_GATEWAY, LOST, Fault, Proxy, proxied, status
from tests.control_plane.scaler_process import (
    ACCOUNT,
    ALONE,
    LEASE,
    NAMESPACE,
    ScalerProcess,
    ended,
    install,
    leads,
    scaler,
)
from tests.control_plane.stage import Stage, staged, until
from tests.control_plane.witness import Witness, watched
from tests.kube.raw_server import reply
from tests.parts import short_and_long

LONG = pytest.mark.long("half a minute to two minutes in real time")


@asynccontextmanager
async def _stage(plane: ControlPlane, *, npu_nodes: int = 3) -> AsyncIterator[Stage]:
    """Three nodes and a witness; afterwards the cluster is as empty as before."""
    async with staged(plane, npu_nodes=npu_nodes) as stage:
        try:
            async with watched(Witness(stage.api)):
                yield stage
        finally:
            await until(lambda: _emptied(plane, stage), "the cluster is empty again")


async def _emptied(plane: ControlPlane, stage: Stage) -> bool:
    """Everything of the last test is deleted, and what it owned is collected."""
    try:
        plane.kubectl(
            "delete", "ascendjobs,pods", "--all", "--all-namespaces", "--force", "--grace-period=0"
        )
        plane.kubectl("delete", "nodes", "--all")
    except ControlPlaneError:
        return False
    return not any([(await stage.api.list(resource)).items for resource in (POD_GROUPS, PODS)])


async def _loses_and_regains_a_node(stage: Stage) -> None:
    """One node of three goes and returns: the service degrades to what two nodes hold, and climbs
    back."""
    node = await stage.node_of("mindie-server-p0")
    await stage.node(node, NodeFate.NOT_READY)
    await stage.runs(group0=1, group1=1)
    await stage.node(node, NodeFate.READY)
    await stage.runs(group0=2, group1=1)


def _half(fault: Fault) -> Callable[[str, str], Fault]:
    """Befalls every second request, by a die that is always the same."""
    die = random.Random(7)
    return lambda _method, _path: fault if die.random() < 0.5 else None


def _delay(proxy: Proxy) -> None:
    proxy.delay = 0.3


def _refuse(proxy: Proxy) -> None:
    proxy.refuse = True
    proxy.cut()


def _silence(proxy: Proxy) -> None:
    proxy.silent = True


def _answering(fault: Fault) -> Callable[[Proxy], None]:
    def inject(proxy: Proxy) -> None:
        proxy.judge = _half(fault)

    return inject


BAD_NETWORKS: dict[str, Callable[[Proxy], None]] = {
    "every request takes 300 ms longer": _delay,
    "connections are refused and reset": _refuse,
    "nothing comes back": _silence,
    "half of the answers get lost": _answering(LOST),
    "half is answered with 429": _answering(status(429, "TooManyRequests", Retry_After="1")),
    "half is answered with 500": _answering(status(500, "InternalError")),
    "half is answered with a page of HTML": _answering(BAD_GATEWAY),
    "half is answered with 200 and HTML": _answering(
        reply(200, b"<html>log in</html>", content_type="text/html")
    ),
}


@LONG
@pytest.mark.parametrize("network", BAD_NETWORKS)
async def test_a_service_starts_and_recovers_over_a_bad_network(
    plane: ControlPlane, tmp_path: Path, network: str
) -> None:
    install(plane)
    async with proxied(plane.port, plane.authority) as proxy, _stage(plane) as stage:
        kubeconfig = plane.grant(NAMESPACE, ACCOUNT, server=proxy.url)
        async with scaler(
            tmp_path, kubeconfig, flags=[*ALONE, "--request-timeout", "2"]
        ) as process:
            BAD_NETWORKS[network](proxy)
            await stage.apply()
            await asyncio.sleep(4)
            proxy.heal()
            await stage.runs(group0=2, group1=1)
            BAD_NETWORKS[network](proxy)
            node = await stage.node_of("mindie-server-d0")
            await stage.node(node, NodeFate.NOT_READY)
            await asyncio.sleep(4)
            proxy.heal()
            await stage.node(node, NodeFate.READY)
            await stage.runs(group0=2, group1=1)
            assert process.errors() == []


@LONG
async def test_connections_that_break_all_the_time_delay_and_nothing_more(
    plane: ControlPlane, tmp_path: Path
) -> None:
    install(plane)
    async with proxied(plane.port, plane.authority) as proxy, _stage(plane) as stage:
        kubeconfig = plane.grant(NAMESPACE, ACCOUNT, server=proxy.url)
        async with scaler(tmp_path, kubeconfig, flags=ALONE) as process:
            cutting = asyncio.create_task(_cut_for_ever(proxy))
            await stage.apply()
            await stage.runs(group0=2, group1=1)
            await _loses_and_regains_a_node(stage)
            cutting.cancel()
            assert process.errors() == []


async def _cut_for_ever(proxy: Proxy) -> None:
    while True:
        await asyncio.sleep(0.3)
        proxy.cut()


@LONG
async def test_half_open_watches_are_given_up(plane: ControlPlane, tmp_path: Path) -> None:
    install(plane)
    async with proxied(plane.port, plane.authority) as proxy, _stage(plane) as stage:
        kubeconfig = plane.grant(NAMESPACE, ACCOUNT, server=proxy.url)
        async with scaler(tmp_path, kubeconfig, flags=ALONE):
            await stage.apply()
            await stage.runs(group0=2, group1=1)
            assert proxy.freeze() > 0
            await stage.node(await stage.node_of("mindie-server-p0"), NodeFate.GONE)
            await stage.add_npu_nodes(1)
            # The scaler hears nothing for 90 s, then takes the watch for dead.
            await until(
                lambda: _whole(stage), "the service runs whole again", stage.views, seconds=150
            )


async def _whole(stage: Stage) -> bool:
    return await stage.running() == {"group0": 2, "group1": 1}


Death = Callable[[ScalerProcess, Proxy], None]


def _kill(leader: ScalerProcess, _: Proxy) -> None:
    leader.stop()


def _freeze(leader: ScalerProcess, _: Proxy) -> None:
    leader.signal(signal.SIGSTOP)


def _partition(_: ScalerProcess, proxy: Proxy) -> None:
    proxy.silent = True


DEATHS: dict[str, Death] = {"killed": _kill, "stopped for a while": _freeze, "cut off": _partition}


@pytest.mark.parametrize("death", short_and_long(DEATHS, short=1, why="other deaths of a leader"))
async def test_another_replica_takes_over_from_a_leader_that_is(
    plane: ControlPlane, tmp_path: Path, death: str
) -> None:
    kubeconfig = install(plane)
    async with proxied(plane.port, plane.authority) as proxy, _stage(plane) as stage:
        behind_proxy = plane.grant(NAMESPACE, ACCOUNT, server=proxy.url)
        async with scaler(tmp_path, behind_proxy, name="first") as first:
            await until(lambda: leads(stage, "first"), "the first replica leads")
            async with scaler(tmp_path, kubeconfig, name="second") as second:
                await stage.apply()
                await stage.runs(group0=2, group1=1)
                DEATHS[death](first, proxy)
                await until(lambda: leads(stage, "second"), "the second replica leads")
                first.signal(signal.SIGCONT)
                proxy.heal()
                await _loses_and_regains_a_node(stage)
                await until(lambda: ended(first), "the first replica ends itself")
                assert first.exit_code != 0
                assert second.errors() == []


QUICK = (*LEASE, "--lease-duration", "3", "--renew-deadline", "2", "--retry-period", "0.3")


@LONG
async def test_a_leader_whose_loop_stands_still_keeps_its_lease_and_then_writes_no_more(
    plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = install(plane)
    async with _stage(plane) as stage:
        stalling = scaler(
            tmp_path,
            kubeconfig,
            name="stalling",
            flags=QUICK,
            module="tests.control_plane.stalling_scaler",
        )
        async with (
            stalling as first,
            scaler(tmp_path, kubeconfig, name="other", flags=QUICK) as second,
        ):
            await until(lambda: leads(stage, "stalling"), "the first replica leads")
            await stage.apply()
            await stage.runs(group0=2, group1=1)
            first.signal(signal.SIGHUP)
            before = await _renewed(stage)
            await asyncio.sleep(stalling_scaler.SHORT - 0.5)
            assert await _renewed(stage) != before
            assert await leads(stage, "stalling")
            await _loses_and_regains_a_node(stage)
            assert await leads(stage, "stalling")

            first.signal(signal.SIGALRM)
            await until(
                lambda: leads(stage, "other"),
                "the second replica leads",
                seconds=stalling_scaler.LONG,
            )
            await _loses_and_regains_a_node(stage)
            await until(lambda: ended(first), "the first replica ends itself")
            assert first.exit_code != 0
            assert await leads(stage, "other")
            assert second.errors() == []


async def _renewed(stage: Stage) -> str:
    return str((await stage.api.get(LEASES, NAMESPACE, "mind-cluster-scaler"))["spec"]["renewTime"])


async def _restart_api_server(plane: ControlPlane) -> None:
    plane.kill("kube-apiserver")
    await asyncio.sleep(2)
    plane.revive("kube-apiserver")


async def _compact(plane: ControlPlane) -> None:
    plane.compact()


HISTORIES: dict[str, Callable[[ControlPlane], Awaitable[None]]] = {
    "the API server is killed and started again": _restart_api_server,
    "the history is compacted": _compact,
}


@LONG
@pytest.mark.parametrize("what", HISTORIES)
async def test_it_goes_on_when(plane: ControlPlane, tmp_path: Path, what: str) -> None:
    kubeconfig = install(plane)
    async with _stage(plane) as stage, scaler(tmp_path, kubeconfig, flags=ALONE) as process:
        await stage.apply()
        await stage.runs(group0=2, group1=1)
        await HISTORIES[what](plane)
        await until(lambda: _answers(stage), "the API server answers")
        await _loses_and_regains_a_node(stage)
        assert process.errors() == []


async def _answers(stage: Stage) -> bool:
    return bool((await stage.api.list(ASCEND_JOBS, "mindie")).items)


@LONG
async def test_definitions_may_come_later_than_the_scaler(
    fresh_plane: FreshPlane, tmp_path: Path
) -> None:
    plane = fresh_plane(PlaneOptions())
    kubeconfig = install(plane)
    process = ScalerProcess("early", tmp_path, kubeconfig, ALONE)
    process.start()
    try:
        await until(lambda: _waits_for_kinds(process), "it says what it waits for")
        assert process.exit_code is None
        plane.install(
            [one for one in definitions() if ELASTIC_SERVICES.full_name != one["metadata"]["name"]]
        )
        await process.ready()
        async with staged(plane, npu_nodes=3) as stage, watched(Witness(stage.api)):
            await stage.apply()
            await stage.runs(group0=2, group1=1)
        assert process.errors() == []
    finally:
        process.stop()


async def _waits_for_kinds(process: ScalerProcess) -> bool:
    return "ascendjobs" in (process.log.read_text() if process.log.exists() else "")


@LONG
async def test_a_token_that_is_replaced_on_disk_is_taken_up(
    plane: ControlPlane, tmp_path: Path
) -> None:
    install(plane)
    token = tmp_path / "token"
    kubeconfig = tmp_path / "kubeconfig"
    document = json.loads(plane.admin.read_text())
    document["users"][0]["user"] = {"tokenFile": str(token)}
    kubeconfig.write_text(json.dumps(document))
    plane.kubectl("create", "secret", "generic", "bound", "--namespace", NAMESPACE)
    bound = ("--bound-object-kind", "Secret", "--bound-object-name", "bound")
    token.write_text(plane.kubectl("create", "token", ACCOUNT, "--namespace", NAMESPACE, *bound))
    async with _stage(plane) as stage, scaler(tmp_path, kubeconfig, flags=ALONE) as process:
        await stage.apply()
        await stage.runs(group0=2, group1=1)
        token.write_text(plane.kubectl("create", "token", ACCOUNT, "--namespace", NAMESPACE))
        # the old token ends with it
        plane.kubectl("delete", "secret", "bound", "--namespace", NAMESPACE)
        await asyncio.sleep(11)  # for so long the API server remembers that a token was good
        await _loses_and_regains_a_node(stage)
        assert process.errors() == []
