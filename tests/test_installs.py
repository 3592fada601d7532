"""Two installs never govern the same namespace: the second one ends with a sentence, and a tenant
cannot play one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from structlog.testing import capture_logs

from scaler.app import App
from scaler.clock import Clock
from scaler.installs import Installs, OverlapError, marks
from scaler.kube.api import LEASES, Object
from scaler.kube.errors import ForbiddenError
from scaler.names import INSTALL_LABEL
from scaler.settings import Settings
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.jobs import job, rule_config_map
from tests.rig import START, Rig

MOMENT = 20.0
"""Seconds in which one that is alone leads: whoever finds no Lease waits for one."""
LONG = 60.0


class Install(NamedTuple):
    """One process of an install."""

    task: asyncio.Task[None]

    async def ended(self) -> str:
        """Why it ended by itself; "" = it runs."""
        await asyncio.sleep(0)
        if not self.task.done():
            return ""
        error = self.task.exception()
        while isinstance(error, ExceptionGroup):
            (error,) = error.exceptions
        assert isinstance(error, OverlapError), error
        return str(error)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


def start(cluster: SimCluster, home: str, *namespaces: str, seed: int = 0) -> Install:
    settings = Settings(
        lease_namespace=home, namespaces=namespaces, http_port=0, identity=f"{home}-{seed}"
    )
    api = cluster.client(home)
    return Install(asyncio.create_task(App(api, settings, Clock(START), seed=seed).run()))


def lease(
    home: str, namespaces: Sequence[str], *, name: str = "mind-cluster-scaler", renewed: str = ""
) -> Object:
    """What an install, or somebody who plays one, writes."""
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 8}
    if renewed:
        spec["renewTime"] = renewed
    metadata = {"name": name, "namespace": home, **marks(namespaces)}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": spec,
    }


def installed(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {INSTALL_LABEL: "true"}},
    }


class Poor(Interceptor):
    """May read nothing, but for so many requests."""

    def __init__(self, after: int = 0) -> None:
        self._left = after

    async def before(self, request: Request) -> None:
        self._left -= 1
        if self._left < 0:
            raise ForbiddenError(403, "Forbidden", f"may not {request.verb}")


async def renew(cluster: SimCluster, home: str, count: int = 40) -> None:
    """Play a living holder of a Lease."""
    for number in range(count):
        found = await cluster.get(LEASES, home, "mind-cluster-scaler")
        found["spec"]["renewTime"] = f"2026-01-01T00:00:{number:02}.000000Z"
        await cluster.replace(LEASES, home, "mind-cluster-scaler", found)
        await asyncio.sleep(1)


OVERLAPS = [((), ()), ((), ("mindie",)), (("mindie",), ()), (("mindie", "other"), ("mindie",))]


@pytest.mark.parametrize("labelled", [("zone", "alpha"), ("zone",), ()])
@pytest.mark.parametrize(("first", "second"), OVERLAPS)
def test_a_second_install_over_the_same_namespaces_ends_with_a_sentence_and_the_first_goes_on(
    first: tuple[str, ...], second: tuple[str, ...], labelled: tuple[str, ...]
) -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        cluster.apply(map(installed, labelled))
        one = start(cluster, "zone", *first)
        await asyncio.sleep(MOMENT)
        Rig(cluster=cluster).apply(rule_config_map(), job("p0"), job("d0"))
        two = start(cluster, "alpha", *second)
        await asyncio.sleep(LONG)
        words = await two.ended()
        assert words.startswith("another install governs ")
        assert (
            "Lease zone/mind-cluster-scaler, held by zone-0; give each install namespaces of"
            " its own" in words
        )
        assert not [w for w in cluster.audit if w.client == "alpha" and w.resource != LEASES]
        assert await one.ended() == ""
        await one.stop()

    run(story())


def test_one_that_comes_back_gives_way_although_its_lease_is_older() -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        cluster.apply([installed("old"), installed("new")])
        for name in ("old", "new"):
            last = start(cluster, name)
            await asyncio.sleep(MOMENT)
            if name == "old":
                await last.stop()
        back = start(cluster, "old", seed=1)
        await asyncio.sleep(LONG)
        assert "Lease new/mind-cluster-scaler, held by new-0" in await back.ended()
        assert await last.ended() == ""
        await last.stop()

    run(story())


@pytest.mark.parametrize("back", ["never", "later"])
def test_one_without_the_label_gives_way_to_one_with_it_and_to_one_that_was_there_before(
    back: str,
) -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        cluster.apply([installed("labelled")] if back == "never" else [])
        first = "old" if back == "later" else "labelled"
        if back == "later":
            old = start(cluster, first)
            await asyncio.sleep(MOMENT)
            await old.stop()
        one = start(cluster, "new", "mindie")
        await asyncio.sleep(MOMENT)
        assert await one.ended() == ""
        two = start(cluster, first, seed=1)
        await asyncio.sleep(LONG)
        assert (
            f"governs mindie as well: Lease {first}/mind-cluster-scaler, held by {first}-1"
            in await one.ended()
        )
        assert await two.ended() == ""
        await two.stop()

    run(story())


@pytest.mark.parametrize(("labelled", "home"), [(("home",), "laptop"), ((), "home")])
def test_one_without_a_lease_gives_way_to_whoever_holds_one(
    labelled: tuple[str, ...], home: str
) -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        cluster.apply(map(installed, labelled))
        one = start(cluster, "home")
        await asyncio.sleep(MOMENT)
        alone = Settings(leader_election=False, lease_namespace=home, http_port=0)
        two = Install(
            asyncio.create_task(App(cluster.client("two"), alone, Clock(START), seed=1).run())
        )
        await asyncio.sleep(LONG)
        assert "held by home-0" in await two.ended()
        assert await one.ended() == ""
        await one.stop()

    run(story())


def test_installs_over_disjoint_namespaces_run_side_by_side() -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        cluster.apply([installed("home-a"), installed("home-b")])
        installs = [start(cluster, "home-a", "mindie"), start(cluster, "home-b", "other", "third")]
        await asyncio.sleep(LONG)
        assert [await install.ended() for install in installs] == ["", ""]
        for install in installs:
            await install.stop()

    run(story())


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.01, 0.05, 0.3, 1.0])
def test_of_two_that_start_together_at_most_one_ever_writes_and_one_stays(delay: float) -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        cluster.apply([installed("home-a"), installed("home-b")])
        Rig(cluster=cluster).apply(rule_config_map(), job("p0"), job("d0"))
        one = start(cluster, "home-b")
        await asyncio.sleep(delay)
        two = start(cluster, "home-a")
        await asyncio.sleep(LONG)
        running = [install for install in (one, two) if not await install.ended()]
        assert len(running) == 1
        assert (
            len(
                {
                    w.client
                    for w in cluster.audit
                    if w.resource != LEASES and w.client.startswith("home")
                }
            )
            == 1
        )
        await running[0].stop()

    run(story())


@pytest.mark.parametrize("how", ["gave its Lease back", "died"])
def test_an_install_that_is_not_there_any_more_is_in_nobodys_way(how: str) -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        cluster.apply([installed("old-home"), installed("home")])
        if how == "died":
            cluster.apply([lease("old-home", (), renewed="2026-01-01T00:00:00.000000Z")])
        else:
            one = start(cluster, "old-home")
            await asyncio.sleep(MOMENT)
            await one.stop()
        two = start(cluster, "home")
        await asyncio.sleep(LONG)
        assert await two.ended() == ""
        await two.stop()

    run(story())


@pytest.mark.parametrize("labelled", [("home",), ()])
def test_a_tenant_cannot_play_an_install(labelled: tuple[str, ...]) -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        cluster.apply(map(installed, labelled))
        with capture_logs() as lines:
            one = start(cluster, "home")
            await asyncio.sleep(MOMENT)
            cluster.apply([lease("tenant", ())])
            playing = asyncio.create_task(renew(cluster, "tenant", 150))
            await asyncio.sleep(LONG)
        unknown = [line["why"] for line in lines if line["event"] == "not known as an install"]
        assert [why[:37] for why in unknown] == (
            [] if labelled else ["namespace home has no label mind-clus"]
        )
        assert await one.ended() == ""
        await one.stop()
        two = start(cluster, "home", seed=1)
        await asyncio.sleep(LONG)
        assert await two.ended() == ""
        await two.stop()
        playing.cancel()

    run(story())


def test_another_replica_of_the_same_install_takes_over_without_asking_itself() -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        cluster.apply([installed("home")])
        one = start(cluster, "home", seed=1)
        two = start(cluster, "home", seed=2)
        await asyncio.sleep(MOMENT)
        await one.stop()
        await asyncio.sleep(LONG)
        assert await two.ended() == ""
        await two.stop()

    run(story())


def test_without_the_right_to_look_it_says_so_and_goes_on() -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        api = cluster.client("poor", Poor())
        with capture_logs() as lines:
            await Installs(api, Settings(lease_namespace="home", lease_name="x")).look()
        assert [line["event"] for line in lines] == ["other installs are not looked for"]

    run(story())


def test_one_that_has_seen_another_and_sees_nothing_any_more_gives_way() -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        cluster.apply([installed("home"), installed("zone"), lease("zone", ())])
        api = cluster.client("poor", Poor(after=3))
        with pytest.raises(OverlapError, match="Lease zone/mind-cluster-scaler, held by somebody"):
            await Installs(api, Settings(lease_namespace="home", lease_name="x")).look()

    run(story())


def test_every_lease_of_an_install_says_what_it_governs() -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        one = start(cluster, "home", "b", "a")
        await asyncio.sleep(MOMENT)
        (found,) = cluster.peek(LEASES)
        assert found["metadata"]["annotations"]["mind-cluster/governs"] == "a,b"
        await one.stop()

    run(story())
