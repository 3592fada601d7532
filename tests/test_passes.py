"""The loop around the decision: when it turns, and what it does with what was decided. The decision
itself is given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from scaler import app, controller
from scaler.clock import Slices
from scaler.decide.decide import decide
from scaler.decide.decision import Admit, Complete, Decision
from scaler.decide.world import World
from scaler.informers.cache import Cache
from scaler.kube.api import NODES, PODS, PatchType
from scaler.kube.errors import NotSentError
from scaler.report import reporter
from scaler.report.job_status import already_says
from scaler.report.metrics import Metrics
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.loop import run
from tests.jobs import NAMESPACE, held, job, node, rule_config_map
from tests.rig import NODE, rig
from tests.steps import in_one_slice

SERVICE = (rule_config_map(), job("p0"), job("p1"), job("d0"))
Decider = Callable[[World], Decision]


def given(monkeypatch: pytest.MonkeyPatch, change: Decider) -> list[World]:
    """Let the controller decide by this; gives the list of what was decided on."""
    seen: list[World] = []

    def instead(world: World, _known: object = None) -> Decision:
        seen.append(world)
        return change(world)

    monkeypatch.setattr(controller, "begin", in_one_slice(instead))
    return seen


def with_actions(made: Decision, *actions: Any) -> Decision:
    """The decision with these actions in place of those of the first service."""
    groups = {
        name: msgspec.structs.replace(group, admit=0)
        for name, group in made.plans[0].groups.items()
    }
    first = msgspec.structs.replace(made.plans[0], actions=actions, groups=groups)
    return msgspec.structs.replace(made, plans=(first, *made.plans[1:]))


def test_a_decision_that_fails_is_tried_again_with_growing_pauses_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = [True]

    def change(world: World) -> Decision:
        if broken[0]:
            raise RuntimeError("a bug")
        return decide(world)

    seen = given(monkeypatch, change)

    async def story() -> None:
        with capture_logs() as logs:
            async with rig(*SERVICE) as on:
                await on.settle(120)
                assert 10 < len(seen) < 30
                assert on.with_pods() == set()
                broken[0] = False
                await on.settle(40)
                assert on.with_pods() == {"p0", "d0"}
        failed = [line for line in logs if line["event"] == "decision failed"]
        assert (failed[0]["services"], failed[0]["nodes"], "a bug" in failed[0]["traceback"]) == (
            1,
            1,
            True,
        )

    run(story())


def test_a_report_that_fails_is_tried_again_with_growing_pauses_until_it_is_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[float] = []

    def fails(*given: Any) -> bool:
        tries.append(asyncio.get_running_loop().time())
        if len(tries) <= 10:
            raise RuntimeError("a bug")
        return already_says(*given)

    monkeypatch.setattr(reporter, "already_says", fails)

    async def story() -> None:
        with capture_logs() as lines:
            async with rig(*SERVICE) as on:
                await on.settle(60)
                assert "" not in {on.reason(name) for name in ("p0", "p1", "d0")}
        failures = [line for line in lines if line["event"] == "service cannot be reported"]
        assert len(failures) == 10
        pauses = [later - earlier for earlier, later in pairwise(tries[:11])]
        assert pauses == sorted(pauses)
        assert pauses[-1] > 100 * pauses[0]

    run(story())


def test_room_that_changes_while_a_decision_is_carried_out_is_decided_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = asyncio.Event()
    acts = asyncio.Event()

    class Long(Slices):
        async def end(self) -> None:
            if seen and waits.is_set() and not acts.is_set():
                acts.set()
                await asyncio.sleep(1)

    def change(world: World) -> Decision:
        return msgspec.structs.replace(with_actions(decide(world)), heeds_room=waits.is_set())

    seen = given(monkeypatch, change)

    async def story() -> None:
        async with rig(
            rule_config_map(), held("p0", "group0"), held("d0", "group1"), mode="gates"
        ) as on:
            await on.settle(60)
            seen.clear()
            waits.set()
            monkeypatch.setattr(controller, "Slices", Long)
            again = {"metadata": {"labels": {"version": "2"}}}
            await on.cluster.patch(PODS, NAMESPACE, "p0", again, patch_type=PatchType.MERGE)
            await acts.wait()
            cordon = {"spec": {"unschedulable": True}}
            await on.cluster.patch(NODES, None, NODE, cordon, patch_type=PatchType.MERGE)
            await on.settle(5)
            assert [world.nodes.nodes[0].cordoned for world in seen if world.nodes] == [False, True]

    run(story())


def test_all_services_are_decided_about_in_one_pass_and_memory_goes_from_one_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = given(monkeypatch, decide)

    async def story() -> None:
        other = job("x0", rule="another", group="group0")
        async with rig(*SERVICE, other, rule_config_map(name="another")):
            assert [service.key.rule for service in seen[-1].services] == ["another", "rule"]

    run(story())
    assert seen[0].memory.services == {}
    assert seen[-1].memory.services != {}


class Slow(Interceptor):
    """The API server takes its time over pods."""

    async def before(self, request: Request) -> None:
        if request.verb == "create" and request.resource == PODS:
            await asyncio.sleep(1)


def test_while_writes_are_under_way_the_service_is_taken_for_what_it_will_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = given(monkeypatch, decide)

    async def story() -> None:
        async with rig(*SERVICE, node("roomy", roomy=True), interceptor=Slow()) as on:
            on.apply(job("x0", rule="another", group="group0"), rule_config_map(name="another"))
            await on.settle(0.5)
            (service,) = [service for service in seen[-1].services if service.key.rule == "rule"]
            assert on.with_pods() == set()
            assert (service.assumed, [one.pods for one in service.instances]) == (True, [1, 1, 0])
            await on.settle(5)
            assert on.with_pods() == {"p0", "d0"}

    run(story())
    assert [service.assumed for service in seen[-1].services] == [False, False]


class Refusing(Interceptor):
    """No pod can be created, for a cause that may go away."""

    async def before(self, request: Request) -> None:
        if request.verb == "create" and request.resource == PODS:
            raise NotSentError("not now")


def test_what_failed_is_tried_again_with_growing_pauses_whatever_happens_to_others() -> None:
    async def story() -> list[Any]:
        with capture_logs() as logs:
            async with rig(*SERVICE, interceptor=Refusing()) as on:
                for number in range(100):
                    on.apply(node(f"new-{number}"))
                    await on.settle(0.5)
        return [line for line in logs if line["event"] == "reconciled" and "failed" in line]

    assert 5 < len(run(story())) < 40


def test_what_has_no_effect_is_not_done_over_and_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that asks for what is so already: nothing is written, so nothing comes back."""

    def change(world: World) -> Decision:
        made = decide(world)
        (service,) = world.services
        p0 = next(one for one in service.instances if one.name == "p0")
        return with_actions(made, Complete(p0.uid)) if p0.running and not service.assumed else made

    seen = given(monkeypatch, change)

    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            before = len(seen)
            await on.settle(60)
            assert len(seen) - before < 40

    run(story())


def test_the_moment_at_which_time_alone_changes_something_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moment = [0.0]

    def change(world: World) -> Decision:
        moment[0] = moment[0] or world.now + 100
        return msgspec.structs.replace(
            decide(world), recheck_at=moment[0] if world.now < moment[0] else 0.0
        )

    seen = given(monkeypatch, change)

    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await on.settle(300)

    run(story())
    assert any(abs(world.now - moment[0]) < 0.01 for world in seen)
    assert max(world.now for world in seen) < moment[0] + 1


def test_a_refusal_is_remembered_of_the_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = given(monkeypatch, decide)
    bad = job("p0", pods=2)
    bad["spec"]["replicaSpecs"]["Worker"]["template"]["metadata"] = {
        "labels": {"a": "no label value!"}
    }

    async def story() -> None:
        async with rig(rule_config_map(), bad, job("d0")) as on:
            await on.settle(0.5)
            (service,) = seen[-1].memory.services.values()
            refused = [one for one in service.instances.values() if one.refused]
            assert ["no label value!" in one.refused for one in refused] == [True]
            assert on.reason("p0") == "CreateRefused"

    run(story())


def test_an_event_that_was_lost_is_found_by_reading_all_records_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cache is not told of a change of readiness; the records have it."""
    monkeypatch.setattr(Cache, "_mark_on", lambda _cache, _node: None)
    monkeypatch.setattr(app, "FULL_PASS", 100.0)

    async def story() -> list[Any]:
        with capture_logs() as logs:
            async with rig(*SERVICE) as on:
                await on.start("p0", "d0")
                await on.settle(150)
                assert [line for line in logs if line["event"] == "missed event"] == []
                gone = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
                await on.cluster.patch(
                    NODES, None, NODE, gone, patch_type=PatchType.MERGE, subresource="status"
                )
                await on.settle(10)
                assert on.reason("p0") == "Running"
                await on.settle(100)
                assert on.reason("p0") == "Broken"
        return [line for line in logs if line["event"] == "missed event"]

    assert len(run(story())) == 1


def test_nothing_is_admitted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    admitted: list[str] = []

    def change(world: World) -> Decision:
        made = decide(world)
        for plan in made.plans:
            admitted.extend(action.uid for action in plan.actions if isinstance(action, Admit))
        return made

    given(monkeypatch, change)

    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await on.settle(5)

    run(story())
    assert len(admitted) == len(set(admitted)) == 3


def test_while_a_decision_is_made_in_slices_everything_else_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """3b.10c: other tasks run between two slices; nothing is done before the last one, and then all
    is. It is counted, and said once a minute."""
    others: list[None] = []
    waiting: list[tuple[int, int]] = []

    def noted(_self: Metrics, services: int) -> None:
        waiting.append((services, len(others)))
        asyncio.get_running_loop().call_soon(others.append, None)

    monkeypatch.setattr(controller, "begin", lambda world, cache: cache.begin(world, 1))
    monkeypatch.setattr(Metrics, "not_weighed_yet", noted)

    async def story() -> None:
        with capture_logs() as logs:
            async with rig(*SERVICE) as on:
                await on.settle(20)
                assert on.with_pods() == {"p0", "d0"}
        said = [line for line in logs if line["event"] == "services not weighed yet"]
        assert len(said) == 1

    run(story())
    assert waiting[-1][0] == 0
    slices = [pair for pair in pairwise(waiting) if pair[0][0]]
    assert len(slices) > 10
    assert all(before[1] < after[1] for before, after in slices)
