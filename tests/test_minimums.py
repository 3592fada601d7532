"""Several services on the same nodes, under the whole controller: minimums first, and nobody waits
without need."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from scaler import app
from scaler.kube.api import CONFIG_MAPS, NODES, PODS, PRIORITY_CLASSES, Object, PatchType
from scaler.kube.errors import ForbiddenError
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.loop import run
from tests.jobs import NAMESPACE, TWO_P_ONE_D, held, job, node, rule_config_map
from tests.rig import Rig, controller, rig

NPUS = {"huawei.com/Ascend910": "8", "pods": "110"}


def nodes(number: int) -> list[Object]:
    """`n1`, `n2`, ...: one instance fits on each."""
    made = [node(f"n{index}") for index in range(1, number + 1)]
    for one in made:
        one["status"] |= {"allocatable": NPUS, "capacity": NPUS}
    return made


def service(name: str, *, prefill: int = 2, **annotations: str) -> list[Object]:
    """2P1D > 1P1D with jobs `a-p0`, `a-p1`, `a-d0`."""
    jobs = [(f"p{index}", "group0") for index in range(prefill)] + [("d0", "group1")]
    return [
        rule_config_map(TWO_P_ONE_D, name=name, **annotations),
        *(job(f"{name}-{role}", group, rule=name) for role, group in jobs),
    ]


def foreign(name: str, node_name: str) -> Object:
    """A pod of somebody else that takes a whole node."""
    container = {
        "name": "train",
        "image": "train:1",
        "resources": {"requests": {"huawei.com/Ascend910": "8"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"containers": [container], "nodeName": node_name},
        "status": {"phase": "Running"},
    }


async def serve(on: Rig, name: str, *node_names: str) -> None:
    """Bind the minimum of a service, and then as much more as there are nodes given."""
    for role, node_name in zip(("p0", "d0", "p1"), node_names, strict=False):
        await on.start(f"{name}-{role}", node_name=node_name)


async def remove(on: Rig, pod: str) -> None:
    await on.cluster.delete(PODS, NAMESPACE, pod, grace_period_seconds=0)
    await on.settle()


async def not_ready(on: Rig, name: str) -> None:
    gone = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    await on.cluster.patch(
        NODES, None, name, gone, patch_type=PatchType.MERGE, subresource="status"
    )
    await on.settle()


def decided_since(on: Rig, count: int) -> set[str]:
    return {plan.key.rule for _, plan in on.decisions[count:]}


def test_both_minimums_come_before_any_scale_up() -> None:
    async def story() -> None:
        async with rig(*nodes(4), *service("a"), *service("b")) as on:
            assert on.with_pods() == {"a-p0", "a-d0", "b-p0", "b-d0"}
            await serve(on, "a", "n1", "n2")
            assert (on.reason("a-p1"), "a-p1" in on.with_pods()) == ("WaitingForCapacity", False)
            await serve(on, "b", "n3", "n4")
            assert on.reason("a-p1") == "WaitingForCapacity"

    run(story())


def test_a_minimum_that_does_not_fit_is_held_whole_and_says_what_is_missing() -> None:
    async def story() -> None:
        async with rig(*nodes(3), *service("a"), *service("b")) as on:
            assert on.with_pods() == {"a-p0", "a-d0"}
            assert (on.reason("b-p0"), on.reason("b-d0")) == (
                "MinimumDoesNotFit",
                "MinimumDoesNotFit",
            )
            assert "needs 2 nodes, 1 free; each with 8 free huawei.com/Ascend910" in on.words(
                "b-p0"
            )
            await on.settle(2)
            assert ("b-p0", "MinimumDoesNotFit") in on.events()
            assert ("alone" in on.said("a"), "currentRatio" in on.said("b")) == (False, False)

    run(story())


def test_an_unbound_scale_up_makes_way_for_a_service_that_comes_later() -> None:
    async def story() -> None:
        async with rig(*nodes(4), *service("a")) as on:
            await serve(on, "a", "n1", "n2")
            assert "a-p1" in on.with_pods()
            on.apply(*service("b"))
            await on.settle()
            assert on.with_pods() == {"a-p0", "a-d0", "b-p0", "b-d0"}
            assert on.reason("a-p1") == "WaitingForCapacity"

    run(story())


def test_room_that_a_foreign_pod_gives_back_wakes_the_waiting_service_and_no_other() -> None:
    async def story() -> None:
        trains = [foreign("train-0", "n4"), foreign("train-1", "n5")]
        async with rig(*nodes(5), *trains, *service("a"), *service("b")) as on:
            await serve(on, "a", "n1", "n2", "n3")
            assert on.reason("b-p0") == "MinimumDoesNotFit"
            await on.settle(10)
            before = len(on.decisions)
            passes = on.passes
            await on.settle(10)
            assert on.passes == passes
            await remove(on, "train-0")
            assert "b-p0" not in on.with_pods()
            await remove(on, "train-1")
            assert {"b-p0", "b-d0"} <= on.with_pods()
            assert decided_since(on, before) == {"b"}

    run(story())


def test_pods_that_come_and_go_cause_no_pass_while_nobody_waits() -> None:
    async def story() -> None:
        async with rig(*nodes(9), *service("a"), *service("b")) as on:
            await serve(on, "a", "n1", "n2", "n3")
            await serve(on, "b", "n4", "n5", "n6")
            await on.settle(5)
            passes = on.passes
            for number in range(50):
                on.apply(foreign(f"train-{number}", "n7"))
                await on.settle(0.01)
                await remove(on, f"train-{number}")
            assert on.passes == passes

    run(story())


def test_words_that_change_with_every_event_do_not_keep_the_scaler_busy() -> None:
    async def story() -> None:
        trains = [foreign(f"train-{number}", f"n{number}") for number in range(3, 6)]
        async with rig(*nodes(5), *trains, *service("a", prefill=1), *service("b")) as on:
            await serve(on, "a", "n1", "n2")
            await on.settle(60)
            writes = len(on.writes())
            for _ in range(100):
                await remove(on, "train-5")
                on.apply(foreign("train-5", "n5"))
                await on.settle(0.2)
            assert on.reason("b-p0") == "MinimumDoesNotFit"
            assert len(on.writes()) - writes <= 20
            await remove(on, "train-5")
            await on.settle(12)
            assert "1 free" in on.words("b-p0")

    run(story())


@pytest.mark.parametrize("switch", ["setting", "annotation", "namespaces"])
def test_without_arbitration_each_service_decides_alone_and_says_why(switch: str) -> None:
    settings: dict[str, Any] = {
        "setting": {"arbitration": False},
        "namespaces": {"namespaces": (NAMESPACE,)},
    }
    annotations: dict[str, Any] = {"arbitration": "off"} if switch == "annotation" else {}
    why = {
        "setting": "setting arbitration",
        "annotation": "mind-cluster/arbitration",
        "namespaces": "namespaces",
    }

    async def story() -> None:
        objects = (*nodes(3), *service("a", **annotations), *service("b", **annotations))
        with capture_logs() as logs:
            async with rig(*objects, **settings.get(switch, {})) as on:
                assert on.with_pods() == {"a-p0", "a-d0", "b-p0", "b-d0"}
                await on.settle(2)
                for rule in ("a", "b"):
                    assert why[switch] in on.said(rule)["alone"]
        said = [line["why"] for line in logs if line["event"].startswith("no arbitration")]
        assert len(said) == (switch != "annotation")

    run(story())


class NoNodes(Interceptor):
    """The nodes may not be read as long as `forbidden`."""

    def __init__(self) -> None:
        self.forbidden = True

    async def before(self, request: Request) -> None:
        if self.forbidden and request.resource == NODES:
            raise ForbiddenError(403, "Forbidden", "nodes may not be listed")


def test_where_nodes_may_not_be_read_the_scaler_works_and_breaks_nothing() -> None:
    async def story() -> None:
        with capture_logs() as logs:
            async with rig(*nodes(3), *service("a"), *service("b"), interceptor=NoNodes()) as on:
                await on.settle(10)
                await serve(on, "a", "n1", "n2", "n3")
                await on.settle(120)
                assert {on.reason(f"a-{role}") for role in ("p0", "p1", "d0")} == {"Running"}
                assert {"b-p0", "b-d0"} <= on.with_pods()
                assert on.said("a")["alone"] == "the nodes may not be read"
        assert [line["why"] for line in logs if line["event"].startswith("no arbitration")] == [
            "the nodes may not be read"
        ]

    run(story())


def test_a_right_to_the_nodes_that_comes_late_is_used() -> None:
    async def story() -> None:
        guard = NoNodes()
        async with rig(*nodes(3), *service("a"), *service("b"), interceptor=guard) as on:
            await on.settle(10)
            await serve(on, "a", "n1", "n2")
            await not_ready(on, "n2")
            assert on.reason("a-d0") == "Running"
            guard.forbidden = False
            await on.settle(60)
            assert on.reason("a-d0") == "Broken"
            assert on.reason("b-p0") == "MinimumDoesNotFit"

    run(story())


class SwapsPod(Interceptor):
    """Just before the controller's first deletion of a pod arrives, that pod is another one under
    the same name."""

    def __init__(self) -> None:
        self.waiting: list[Rig] = []

    async def before(self, request: Request) -> None:
        if self.waiting and request.verb == "delete" and request.resource == PODS:
            on = self.waiting.pop()
            await on.cluster.delete(PODS, NAMESPACE, request.name, grace_period_seconds=0)
            on.apply(foreign(request.name, "n1"))


async def two_prefill_and_no_decode(on: Rig) -> None:
    await serve(on, "a", "n1", "n2", "n3")
    await not_ready(on, "n2")
    await on.kill("a-d0")
    await on.settle()


def test_a_trade_evicts_one_surplus_instance_gracefully_when_nobody_is_served() -> None:
    async def story() -> None:
        async with rig(*nodes(3), *service("a")) as on:
            await two_prefill_and_no_decode(on)
            await on.settle(80)
            assert all("deletionTimestamp" not in pod["metadata"] for pod in on.pods_of("a-p1"))
            await on.settle(20)
            (evicted,) = on.pods_of("a-p1")
            assert evicted["metadata"]["deletionGracePeriodSeconds"] == 30
            assert on.reason("a-p1") == "Preempted"
            await on.kill("a-p1")
            await on.settle()
            await on.start("a-d0", node_name="n3")
            assert (on.reason("a-p0"), on.reason("a-d0")) == ("Running", "Running")

    run(story())


def test_a_trade_deletes_only_the_very_pods_that_it_means() -> None:
    async def story() -> None:
        swaps = SwapsPod()
        async with rig(*nodes(3), *service("a"), interceptor=swaps) as on:
            await two_prefill_and_no_decode(on)
            swaps.waiting.append(on)
            await on.settle(100)
            assert swaps.waiting == []
            (other,) = [
                pod
                for pod in on.cluster.peek(PODS, NAMESPACE)
                if pod["metadata"]["name"] == "a-p1-master-0"
            ]
            assert (other["spec"]["nodeName"], "deletionTimestamp" in other["metadata"]) == (
                "n1",
                False,
            )

    run(story())


def test_waiting_minimums_are_no_missed_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "FULL_PASS", 10.0)

    async def story() -> None:
        with capture_logs() as logs:
            async with rig(*nodes(3), *service("a"), *service("b")) as on:
                await serve(on, "a", "n1", "n2")
                await on.settle(600)
                assert on.reason("b-p0") == "MinimumDoesNotFit"
        assert [line for line in logs if line["event"] == "missed event"] == []

    run(story())


def test_at_rest_nothing_is_written_and_nothing_is_polled_while_a_minimum_waits() -> None:
    async def story() -> None:
        async with rig(*nodes(4), foreign("train", "n4"), *service("a"), *service("b")) as on:
            await serve(on, "a", "n1", "n2", "n3")
            await on.settle(60)
            before = len(on.writes())
            passes = on.passes
            await on.settle(3600)
            assert (len(on.writes()), on.passes - passes < 10) == (before, True)

    run(story())


ROLES = (("p0", "group0"), ("p1", "group0"), ("d0", "group1"))


def gated(name: str, group: str, rule: str) -> Object:
    """A pod that somebody else made and our gate holds; it takes a node."""
    pod = held(f"{rule}-{name}", group, owner=f"{rule}-{group}", rule=rule, job_id=rule)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"huawei.com/Ascend910": "8"}}
    return pod


def test_pods_that_others_make_are_released_minimums_first() -> None:
    async def story() -> None:
        async with rig(*nodes(4), *pods_of_others("a"), *pods_of_others("b")) as on:
            assert released(on) == {"a-p0", "a-d0", "b-p0", "b-d0"}
            await serve_released(on)
            assert on.reason("a-p1") == "WaitingForCapacity"

    run(story())


def test_a_service_that_lost_all_its_pods_keeps_no_room_from_others() -> None:
    async def story() -> None:
        async with rig(*nodes(4), *pods_of_others("a"), *pods_of_others("b")) as on:
            await serve_released(on)
            names = [f"b-{name}" for name, _ in ROLES]
            deletions = [
                on.cluster.delete(PODS, NAMESPACE, name, grace_period_seconds=0) for name in names
            ]
            await asyncio.gather(*deletions)
            await on.settle(1)
            assert "a-p1" in released(on)

    run(story())


def pods_of_others(rule: str) -> list[Object]:
    return [
        rule_config_map(TWO_P_ONE_D, name=rule),
        *(gated(name, group, rule) for name, group in ROLES),
    ]


async def serve_released(on: Rig) -> None:
    for name, node_name in (("a-p0", "n1"), ("a-d0", "n2")):
        (found,) = [
            one for one in on.cluster.peek(PODS, NAMESPACE) if one["metadata"]["name"] == name
        ]
        await on.bind(found, node_name)
        await on.status(found, phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    await on.settle()


def released(on: Rig) -> set[str]:
    pods = on.cluster.peek(PODS, NAMESPACE)
    return {pod["metadata"]["name"] for pod in pods if not pod["spec"].get("schedulingGates")}


def test_the_next_leader_leaves_everything_as_it_is() -> None:
    async def story() -> None:
        on = Rig()
        on.apply(*nodes(3), *service("a"), *service("b"))
        async with controller(on):
            await on.settle()
            await serve(on, "a", "n1", "n2")
            await on.settle(62)
        pods = on.with_pods()
        writes = len(on.writes())
        async with controller(on):
            await on.settle(25)
            assert (on.with_pods(), on.writes()[writes:]) == (pods, [])

    run(story())


def test_the_rule_of_a_service_decides_whether_it_goes_first() -> None:
    async def story() -> None:
        objects = (*nodes(2), *service("a"), *service("b", service_priority="7"))
        async with rig(*objects, max_service_priority=10) as on:
            assert on.with_pods() == {"b-p0", "b-d0"}
            patch = {"metadata": {"annotations": {"mind-cluster/service-priority": "-7"}}}
            await on.cluster.patch(CONFIG_MAPS, NAMESPACE, "b", patch, patch_type=PatchType.MERGE)
            await on.settle()
            assert (on.with_pods(), on.reason("b-p0")) == ({"a-p0", "a-d0"}, "MinimumDoesNotFit")

    run(story())


def priority_class(name: str, namespaces: str | None) -> Object:
    """For the jobs of these namespaces."""
    notes = (
        {"annotations": {"mind-cluster/namespaces": namespaces}} if namespaces is not None else {}
    )
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name, **notes}, "value": 100}


@pytest.mark.parametrize(
    ("name", "namespaces", "first"),
    [
        ("gold", None, "b"),
        ("gold", f"other, {NAMESPACE}", "b"),
        ("gold", "other", "a"),
        ("gold", "", "a"),
        ("system-node-critical", None, "a"),
        ("system-node-critical", NAMESPACE, "b"),
    ],
)
def test_a_priority_class_is_worth_something_for_the_namespaces_that_it_names_itself(
    name: str, namespaces: str | None, first: str
) -> None:
    async def story() -> None:
        named = service("b")
        for one in named[1:]:
            one["spec"]["runPolicy"] = {"schedulingPolicy": {"priorityClass": name}}
        async with rig(*nodes(2), *service("a"), *named, priority_class(name, namespaces)) as on:
            assert on.with_pods() == {f"{first}-p0", f"{first}-d0"}
            patch = {"metadata": {"annotations": {"mind-cluster/namespaces": NAMESPACE}}}
            await on.cluster.patch(PRIORITY_CLASSES, None, name, patch, patch_type=PatchType.MERGE)
            await on.settle()
            assert on.with_pods() == {"b-p0", "b-d0"}

    run(story())


@pytest.mark.parametrize(
    ("trade", "evicted"), [("when-not-serving", {"b-p1-worker-0"}), ("off", set())]
)
def test_what_is_left_of_a_surplus_instance_is_evicted_at_once_unless_trade_is_off(
    trade: str, evicted: set[str]
) -> None:
    async def story() -> None:
        rule = rule_config_map(TWO_P_ONE_D, name="b", trade=trade)
        jobs = [
            job("b-p0", rule="b", group="group0", pods=2),
            job("b-p1", rule="b", group="group0", pods=2),
        ]
        async with rig(*nodes(5), rule, *jobs, job("b-d0", rule="b", group="group1")) as on:
            for name, free in (("b-p0", ["n1", "n2"]), ("b-d0", ["n3"]), ("b-p1", ["n4", "n5"])):
                for pod, node_name in zip(on.pods_of(name), free, strict=True):
                    await on.bind(pod, node_name)
                await on.start(name)
            await not_ready(on, "n3")
            await remove(on, "b-d0-master-0")
            await remove(on, "b-p1-master-0")
            await on.settle(35)  # until then n3 is away for a moment (flap_patience)
            pods = on.cluster.peek(PODS, NAMESPACE)
            assert {
                p["metadata"]["name"] for p in pods if "deletionTimestamp" in p["metadata"]
            } == evicted

    run(story())
