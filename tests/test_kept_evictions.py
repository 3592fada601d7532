"""Evictions are counted outside of the process, before they are sent: 3b.4e of the contract, under
the whole controller. A service of 2P1D has lost its decode instance; its second prefill instance
goes for it."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from scaler.decide.memory import Evictions
from scaler.decide.world import ServiceKey
from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, Object
from scaler.sim.loop import run
from scaler.state import kept_evictions
from tests.faults import Fault, Faults, Rule
from tests.jobs import NAMESPACE
from tests.rig import MOMENT, Rig, controller, rig
from tests.test_minimums import nodes, not_ready, serve, service, two_prefill_and_no_decode

KEY = ServiceKey(NAMESPACE, "a", "mindie")
HOME = "scaler-home"
PLACE = kept_evictions.place_of(KEY, HOME)
TRADES_AFTER = 91


def kept(on: Rig) -> Object | None:
    for found in on.cluster.peek(CONFIG_MAPS, HOME):
        if found["metadata"]["name"] == PLACE.name:
            return found
    return None


def is_evicted(on: Rig) -> bool:
    return any("deletionTimestamp" in pod["metadata"] for pod in on.pods_of("a-p1"))


async def evicted(on: Rig) -> None:
    await two_prefill_and_no_decode(on)
    await on.settle(TRADES_AFTER)


def test_the_count_is_kept_before_the_eviction_is_sent_and_goes_when_the_service_serves() -> None:
    async def story() -> None:
        async with rig(*nodes(3), *service("a"), lease_namespace=HOME) as on:
            await evicted(on)
            assert is_evicted(on)
            writes = on.writes()
            first = writes.index(f"create configmaps {PLACE.name}")
            assert first < writes.index("delete pods a-p1-master-0")
            there = kept(on)
            assert there is not None
            counted = kept_evictions.decode(there, KEY)
            assert counted is not None
            assert counted.number == 1
            assert abs(counted.at - on.clock.now()) < 5
            await on.kill("a-p1")
            await on.settle()
            await on.start("a-d0", node_name="n3")
            await on.settle(28)
            assert kept(on) is not None, "it has not served for stable_after"
            await on.settle(5)
            assert kept(on) is None
            before = len(on.writes())
            await on.settle(600)
            assert [one for one in on.writes()[before:] if "configmaps" in one] == []

    run(story())


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.LOST_REQUEST])
def test_without_the_count_nobody_is_evicted_and_it_is_tried_again(fault: Fault) -> None:
    async def story() -> None:
        on = Rig()
        faults = Faults(
            on.clock,
            Rule(
                fault=fault,
                status=500,
                verbs=("create", "patch"),
                kinds=("ConfigMap",),
                name=PLACE.name,
                end=160.0,
            ),
            origin=on.clock.now(),
        )
        on.apply(*nodes(3), *service("a"))
        with capture_logs() as logs:
            async with controller(on, interceptor=faults, lease_namespace=HOME):
                await on.settle()
                await evicted(on)
                assert not is_evicted(on)
                await on.settle(120)
                assert is_evicted(on)
        counted = kept_evictions.decode(kept(on) or {}, KEY)
        assert counted is not None
        assert counted.number == 1, "it counts once, however often it was tried"
        failed = [line for line in logs if line["event"] == "reconciled" and "failed" in line]
        assert failed

    run(story())


def test_an_answer_that_is_lost_evicts_once() -> None:
    async def story() -> None:
        on = Rig()
        lost = Rule(
            fault=Fault.LOST_ANSWER, verbs=("create",), kinds=("ConfigMap",), name=PLACE.name
        )
        on.apply(*nodes(3), *service("a"))
        async with controller(
            on, interceptor=Faults(on.clock, lost, origin=on.clock.now()), lease_namespace=HOME
        ):
            await on.settle()
            await evicted(on)
            assert is_evicted(on)

    run(story())


def test_a_leader_that_dies_between_the_count_and_the_eviction_costs_a_pause() -> None:
    """The next one does not evict once more before the pause is over, and does then."""

    async def story() -> None:
        on = Rig()
        on.apply(*nodes(3), *service("a"))
        stuck = Rule(
            fault=Fault.DELAY, verbs=("delete",), kinds=("Pod",), name="a-p1.*", seconds=1e6
        )
        async with controller(
            on, interceptor=Faults(on.clock, stuck, origin=on.clock.now()), lease_namespace=HOME
        ):
            await on.settle()
            await evicted(on)
            assert kept(on) is not None
            assert not is_evicted(on)
        async with controller(on, name="next", lease_namespace=HOME):
            await on.settle(590)
            assert not is_evicted(on)
            await on.settle(120)
            assert is_evicted(on)
            counted = kept_evictions.decode(kept(on) or {}, KEY)
            assert counted is not None
            assert counted.number == 2

    run(story())


def test_what_cannot_be_read_counts_as_one_eviction_made_now() -> None:
    async def story() -> None:
        on = Rig()
        on.apply(*nodes(3), *service("a"))
        async with controller(on, lease_namespace=HOME):
            await on.settle()
            await serve(on, "a", "n1", "n2", "n3")
        broken = kept_evictions.encode(PLACE, KEY, Evictions(1, 5.0))
        broken["data"]["evictions"] = "?"
        on.cluster.apply([broken], HOME)
        async with controller(on, name="next", lease_namespace=HOME):
            await on.settle()
            await not_ready(on, "n2")
            await on.kill("a-d0")
            await on.settle(500)
            assert not is_evicted(on)
            await on.settle(200)
            assert is_evicted(on)

    run(story())


def test_of_a_service_that_is_gone_nothing_is_kept() -> None:
    async def story() -> None:
        gone = ServiceKey(NAMESPACE, "gone", "mindie")
        place = kept_evictions.place_of(gone, HOME)
        left = kept_evictions.encode(place, gone, Evictions(3, 5.0))
        async with rig(*nodes(3), *service("a"), left, lease_namespace=HOME) as on:
            await on.settle(5)
            names = {found["metadata"]["name"] for found in on.cluster.peek(CONFIG_MAPS, HOME)}
            assert place.name not in names
            await evicted(on)
            assert kept(on) is not None
            for job in ("a-p0", "a-p1", "a-d0"):
                await on.cluster.delete(ASCEND_JOBS, NAMESPACE, job)
                await on.kill(job)
            await on.settle(MOMENT + 5)
            assert kept(on) is None

    run(story())
