"""Faults between a client and the API server: what has an effect, what the client sees, and that a
seed repeats it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from scaler.clock import Clock
from scaler.kube.api import CONFIG_MAPS, PODS
from scaler.kube.errors import (
    ConflictError,
    NotFoundError,
    NotSentError,
    TooManyRequestsError,
    UnknownOutcomeError,
)
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.faults import Fault, Faults, Rule

_BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
_CLOCK = Clock(1.7e9)


def _with(rule: Rule, act: Callable[[SimCluster, Any, Faults], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        sim = SimCluster(_CLOCK)
        faults = Faults(_CLOCK, rule)
        return await act(sim, sim.client("victim", faults), faults)

    return run(main())


@pytest.mark.parametrize(
    ("rule", "error", "effect"),
    [
        (Rule(fault=Fault.NOT_SENT), NotSentError, False),
        (Rule(fault=Fault.LOST_REQUEST), UnknownOutcomeError, False),
        (Rule(fault=Fault.LOST_ANSWER), UnknownOutcomeError, True),
        (Rule(fault=Fault.REFUSED, status=409), ConflictError, False),
        (Rule(fault=Fault.REFUSED, status=429, retry_after=3.0), TooManyRequestsError, False),
        (Rule(fault=Fault.REFUSED, status=500), UnknownOutcomeError, False),
    ],
)
def test_fault_has_its_effect_and_its_error(
    rule: Rule, error: type[Exception], effect: bool
) -> None:
    async def act(sim: SimCluster, kube: Any, faults: Faults) -> tuple[float | None, bool, int]:
        with pytest.raises(error) as caught:
            await kube.create(CONFIG_MAPS, "ns", _BODY)
        error_seen: Any = caught.value
        return error_seen.retry_after, bool(sim.peek(CONFIG_MAPS, "ns")), faults.counts[rule.fault]

    assert _with(rule, act) == (rule.retry_after, effect, 1)


def test_slow_answer_comes_after_the_effect() -> None:
    async def act(sim: SimCluster, kube: Any, _: Faults) -> tuple[bool, float]:
        creating = asyncio.create_task(kube.create(CONFIG_MAPS, "ns", _BODY))
        await asyncio.sleep(1)
        there = bool(sim.peek(CONFIG_MAPS, "ns"))
        await creating
        return there, asyncio.get_running_loop().time()

    assert _with(Rule(fault=Fault.SLOW_ANSWER, seconds=30), act) == (
        True,
        pytest.approx(30, abs=0.1),
    )


def test_rule_chooses_by_verb_kind_name_and_count() -> None:
    rule = Rule(
        fault=Fault.NOT_SENT,
        verbs=frozenset({"get"}),
        kinds=frozenset({"ConfigMap"}),
        name="a.*",
        skip=1,
        times=1,
    )

    async def act(_: SimCluster, kube: Any, faults: Faults) -> list[str]:
        seen = []
        for resource, name in ((PODS, "a"), (CONFIG_MAPS, "b"), *[(CONFIG_MAPS, "ab")] * 3):
            try:
                await kube.get(resource, "ns", name)
            except (NotFoundError, NotSentError) as error:
                seen.append(type(error).__name__)
        return seen

    assert _with(rule, act) == ["NotFoundError"] * 3 + ["NotSentError", "NotFoundError"]


def test_lagging_watch_shows_events_late_and_in_order() -> None:
    async def act(sim: SimCluster, kube: Any, _: Faults) -> list[tuple[str, float]]:
        async def write() -> None:
            for name in "abc":
                await sim.create(CONFIG_MAPS, "ns", {**_BODY, "metadata": {"name": name}})
                await asyncio.sleep(1)

        writing = asyncio.create_task(write())
        seen = []
        async with aclosing(
            kube.watch(CONFIG_MAPS, "ns", resource_version="1", timeout_seconds=60)
        ) as stream:
            async for event in stream:
                seen.append(
                    (event.object["metadata"]["name"], round(asyncio.get_running_loop().time(), 1))
                )
                if len(seen) == 3:
                    break
        await writing
        return seen

    assert _with(Rule(fault=Fault.LAG, seconds=10), act) == [("a", 10.0), ("b", 11.0), ("c", 12.0)]


def test_watch_is_cut_or_reset() -> None:
    async def act(sim: SimCluster, kube: Any, _: Faults) -> int:
        await sim.create(CONFIG_MAPS, "ns", _BODY)
        return len([event async for event in kube.watch(CONFIG_MAPS, "ns", resource_version="1")])

    assert _with(Rule(fault=Fault.CUT), act) == 0
    with pytest.raises(UnknownOutcomeError):
        _with(Rule(fault=Fault.RESET), act)


def test_a_watch_that_is_cut_loses_what_it_held_back() -> None:
    """The next one goes on from the last version that was told; after a restore of etcd there is
    none like it."""

    async def act(sim: SimCluster, kube: Any, _: Faults) -> list[str]:
        await sim.create(CONFIG_MAPS, "ns", _BODY)
        asyncio.get_running_loop().call_later(5, sim.cut_all_watches)
        asyncio.get_running_loop().call_later(5, kube.cut_watches)
        return [
            event.object["metadata"]["name"]
            async for event in kube.watch(CONFIG_MAPS, "ns", resource_version="1")
        ]

    assert _with(Rule(fault=Fault.LAG, seconds=4), act) == ["a"]
    assert _with(Rule(fault=Fault.LAG, seconds=10), act) == []


def test_all_watches_can_be_cut_at_once() -> None:
    async def main() -> tuple[int, float]:
        sim = SimCluster(_CLOCK)

        async def follow(kube: Any) -> None:
            async for _ in kube.watch(CONFIG_MAPS, "ns", resource_version="1"):
                pass

        watching = [asyncio.create_task(follow(kube)) for kube in (sim, sim.client("other"))]
        await asyncio.sleep(5)
        cut = sim.cut_all_watches(CONFIG_MAPS)
        await asyncio.gather(*watching)
        return cut, asyncio.get_running_loop().time()

    assert run(main()) == (2, 5.0)


def test_seed_repeats_a_history_and_another_gives_another() -> None:
    async def main(seed: int) -> list[tuple[str, str, str]]:
        sim = SimCluster(_CLOCK, seed=seed)
        faults = [
            Faults(_CLOCK, Rule(fault=Fault.LOST_ANSWER, probability=0.3), seed=seed + n)
            for n in range(4)
        ]

        async def write(kube: Any, name: str) -> None:
            for turn in range(5):
                body = {**_BODY, "metadata": {"name": f"{name}{turn}"}}
                await asyncio.gather(kube.create(CONFIG_MAPS, "ns", body), return_exceptions=True)

        await asyncio.gather(
            *(write(sim.client(f"client{n}", fault), f"n{n}-") for n, fault in enumerate(faults))
        )
        uids = [item["metadata"]["uid"] for item in sim.peek(CONFIG_MAPS, "ns")]
        return [(write.client, write.name, write.version) for write in sim.writes()] + [
            (uid, "", "") for uid in uids
        ]

    assert run(main(1), seed=1) == run(main(1), seed=1)
    assert run(main(1), seed=1) != run(main(2), seed=2)


def test_audit_tells_who_wrote_what() -> None:
    async def main() -> list[tuple[str, str, str, bool]]:
        sim = SimCluster(_CLOCK)
        one = sim.client("one")
        made = await one.create(CONFIG_MAPS, "ns", _BODY)
        await sim.delete(CONFIG_MAPS, "ns", "a", uid=made["metadata"]["uid"])
        with pytest.raises(NotFoundError):
            await one.delete(CONFIG_MAPS, "ns", "a")
        return [(write.client, write.verb, write.name, bool(write.error)) for write in sim.writes()]

    assert run(main()) == [
        ("one", "create", "a", False),
        ("cluster", "delete", "a", False),
        ("one", "delete", "a", True),
    ]


def test_what_a_client_gets_or_gave_is_its_own() -> None:
    async def main() -> list[Any]:
        sim = SimCluster(_CLOCK)
        body: dict[str, Any] = {**_BODY, "data": {"key": "value"}}
        made = await sim.create(CONFIG_MAPS, "ns", body)
        page = await sim.list(CONFIG_MAPS, "ns")
        for theirs in (
            body,
            made,
            page.items[0],
            await sim.get(CONFIG_MAPS, "ns", "a"),
            sim.peek(CONFIG_MAPS, "ns")[0],
        ):
            theirs["data"]["key"] = "changed"
        return [item["data"] for item in sim.peek(CONFIG_MAPS, "ns")]

    assert run(main()) == [{"key": "value"}]


def test_stage_is_set_at_once_and_set_again() -> None:
    async def main() -> tuple[list[Any], float]:
        sim = SimCluster(_CLOCK)
        sim.apply([{**_BODY, "data": {"key": "1"}}])
        sim.apply([{**_BODY, "data": {"key": "2"}}])
        return [
            item["data"] for item in sim.peek(CONFIG_MAPS, "default")
        ], asyncio.get_running_loop().time()

    assert run(main()) == ([{"key": "2"}], 0.0)
