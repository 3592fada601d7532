"""The label that keeps evictions from a minimum, on the simulated cluster."""

from __future__ import annotations

import pytest

from scaler import app
from scaler.clock import Clock
from scaler.decide.world import ServiceKey
from scaler.informers.cache import Cache
from scaler.kube.api import (
    ASCEND_JOBS,
    DISRUPTION_BUDGETS,
    NODES,
    PODS,
    Object,
    PatchType,
    Resource,
)
from scaler.kube.errors import ForbiddenError, NotFoundError
from scaler.names import KEEP_LABEL
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.jobs import NAMESPACE, held, job, manifest, node, rule_config_map, rule_document
from tests.rig import NODE, START, Rig, rig

OTHER = "node-1"
SETTLED = 3.0
"""Seconds in which labels have moved."""
FULL_PASS = app.FULL_PASS + 2 * SETTLED + 15.0
"""Seconds until the next look at everything is over."""


def kept(on: Rig) -> set[str]:
    """The names of pods that no eviction may take."""
    return {
        pod["metadata"]["name"]
        for pod in on.cluster.peek(PODS, NAMESPACE)
        if pod["metadata"].get("labels", {}).get(KEEP_LABEL) == "true"
    }


def budgets(on: Rig) -> list[str]:
    return [one["metadata"]["name"] for one in on.cluster.peek(DISRUPTION_BUDGETS)]


def writes(on: Rig) -> list[str]:
    """Of labels and budgets."""
    return [
        each
        for each in on.writes()
        if each.startswith(("patch pods", "create poddis", "delete poddis"))
    ]


def reads(on: Rig) -> int:
    """How many pods were read, one by one."""
    return sum(
        each.client == "scaler" and (each.verb, each.resource) == ("get", PODS)
        for each in on.cluster.audit
    )


def foreign(selector: Object | None) -> Object:
    spec = {"minAvailable": 1} if selector is None else {"minAvailable": 1, "selector": selector}
    return manifest(DISRUPTION_BUDGETS, "theirs", NAMESPACE, spec=spec)


async def cordon(on: Rig, name: str, *, unschedulable: bool = True) -> None:
    patch = {"spec": {"unschedulable": unschedulable}}
    await on.cluster.patch(NODES, None, name, patch, patch_type=PatchType.MERGE)
    await on.settle(SETTLED)


async def started(on: Rig, *jobs: str) -> None:
    """A scale-up starts once the minimum runs."""
    for _ in range(2):
        await on.start(*jobs)
        await on.settle(SETTLED)


SERVICE = (job("p0"), job("p1"), job("d0"), rule_config_map())


def test_as_much_is_kept_as_the_smallest_ratio_needs_and_the_surplus_is_not() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await started(on, "p0", "p1", "d0")
            assert (kept(on), budgets(on)) == (
                {"p0-master-0", "d0-master-0"},
                ["mind-cluster-scaler-minimum"],
            )
            (budget,) = on.cluster.peek(DISRUPTION_BUDGETS)
            wanted = {"minAvailable": 2**31 - 1, "selector": {"matchLabels": {KEEP_LABEL: "true"}}}
            assert budget["spec"] == wanted
            before = writes(on)
            await on.settle(3600)
            assert writes(on) == before

    run(story())


def test_a_service_that_does_not_serve_keeps_nothing() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await started(on, "p0", "p1")
            assert (kept(on), budgets(on)) == (set(), [])

    run(story())


def test_an_instance_is_kept_whole() -> None:
    async def story() -> None:
        document = rule_document({"group0": 1, "group1": 1}, pods=2)
        async with rig(job("p0", pods=2), job("d0", pods=2), rule_config_map(document)) as on:
            await started(on, "p0", "d0")
            assert kept(on) == {"p0-master-0", "p0-worker-0", "d0-master-0", "d0-worker-0"}

    run(story())


def test_the_label_moves_away_from_a_cordoned_node_and_does_not_come_back() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            on.cluster.apply([node(OTHER)])
            await on.start("p0")
            await on.start("d0", node_name=OTHER)
            await on.settle(SETTLED)
            await on.start("p1", node_name=OTHER)
            await on.settle(SETTLED)
            assert kept(on) == {"p0-master-0", "d0-master-0"}
            await cordon(on, NODE)
            assert kept(on) == {"p1-master-0", "d0-master-0"}
            before = writes(on)
            await cordon(on, NODE, unschedulable=False)
            assert writes(on) == before

    run(story())


def test_a_group_at_its_minimum_keeps_its_label_on_a_cordoned_node() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await started(on, "p0", "p1", "d0")
            await cordon(on, NODE)
            assert kept(on) == {"p0-master-0", "d0-master-0"}

    run(story())


EVERY: Object = {}
OF_D0: Object = {"matchLabels": {"training.kubeflow.org/job-name": "d0"}}
OF_OTHERS: Object = {
    "matchExpressions": [
        {"key": "training.kubeflow.org/job-name", "operator": "NotIn", "values": ["d0"]}
    ]
}
UNREADABLE: Object = {"matchExpressions": [{"operator": 7}]}
LARGE: Object = {"matchLabels": {f"of-nobody-{n}": "x" for n in range(400)}}


@pytest.mark.parametrize(
    ("selector", "ours"),
    [
        ({"matchLabels": {"app": "router"}}, {"p0-master-0", "d0-master-0"}),
        (None, {"p0-master-0", "d0-master-0"}),
        (OF_D0, {"p0-master-0"}),
        (OF_OTHERS, {"d0-master-0"}),
        (EVERY, set()),
        (UNREADABLE, set()),
        (LARGE, set()),
    ],
    ids=["another's", "nobody's", "one", "the others", "every pod's", "unreadable", "large"],
)
def test_only_pods_that_a_budget_of_somebody_else_is_about_are_left_to_it(
    selector: Object, ours: set[str]
) -> None:
    async def story() -> None:
        async with rig(*SERVICE, foreign(selector)) as on:
            await started(on, "p0", "p1", "d0")
            assert kept(on) == ours
            before = (writes(on), reads(on))
            await on.settle(3600)
            assert (writes(on), reads(on)) == before
            await on.cluster.delete(DISRUPTION_BUDGETS, NAMESPACE, "theirs")
            await on.settle(SETTLED)
            assert len(kept(on)) == 2
            on.apply(foreign(selector))
            await on.settle(SETTLED)
            assert len(kept(on)) == len(ours)

    run(story())


def test_what_becomes_of_the_status_of_a_budget_is_nothing_to_look_at() -> None:
    async def story() -> None:
        async with rig(*SERVICE, foreign(OF_D0)) as on:
            await started(on, "p0", "p1", "d0")
            before = reads(on)
            for allowed in range(5):
                status = {"status": {"disruptionsAllowed": allowed}}
                await on.cluster.patch(
                    DISRUPTION_BUDGETS,
                    NAMESPACE,
                    "theirs",
                    status,
                    patch_type=PatchType.MERGE,
                    subresource="status",
                )
                await on.settle(SETTLED)
            assert reads(on) == before

    run(story())


class Lacks(Interceptor):
    """Refuses these verbs on this resource, to the controller alone."""

    def __init__(self, resource: Resource, *verbs: str) -> None:
        self.refuses = (resource, verbs)
        self.lacking = True
        self.asked = 0

    async def before(self, request: Request) -> None:
        resource, verbs = self.refuses
        meant = request.resource == resource and request.verb in verbs
        if (
            self.lacking
            and meant
            and (resource != PODS or KEEP_LABEL in request.body["metadata"].get("labels", {}))
        ):
            self.asked += 1
            raise ForbiddenError(403, "Forbidden", "no such right")


LACKING = (
    (DISRUPTION_BUDGETS, "list", "watch"),
    (DISRUPTION_BUDGETS, "create"),
    (PODS, "patch"),
)


@pytest.mark.parametrize("lacking", LACKING, ids=lambda found: f"{found[1]} {found[0].plural}")
def test_without_a_right_nothing_is_kept_and_all_else_goes_on(
    lacking: tuple[Resource, str],
) -> None:
    async def story() -> None:
        lacks = Lacks(*lacking)
        async with rig(*SERVICE, interceptor=lacks) as on:
            await started(on, "p0", "p1", "d0")
            await on.kill("p1")
            await on.settle(SETTLED)
            await started(on, "p1")
            assert (kept(on), on.with_pods()) == (set(), {"p0", "p1", "d0"})
            assert on.said()["conditions"][0]["status"] == "True"
            await on.settle(600)
            assert lacks.asked < 30
            lacks.lacking = False
            await on.settle(1200)
            assert len(kept(on)) == 2

    run(story())


def test_a_right_to_budgets_that_goes_puts_the_controller_out_of_touch_with_nothing() -> None:
    async def story() -> None:
        lacks = Lacks(DISRUPTION_BUDGETS, "list", "watch")
        lacks.lacking = False
        async with rig(*SERVICE, interceptor=lacks) as on:
            await started(on, "p0", "d0")
            lacks.lacking = True
            await on.settle(1200)
            await on.kill("d0")
            await on.settle(60)
            assert on.with_pods() == {"p0", "d0"}

    run(story())


class Vanishes(Interceptor):
    """The first pod to get the label is gone when it is about to, and nobody is told so far."""

    def __init__(self) -> None:
        self.gone = ""

    async def before(self, request: Request) -> None:
        wanted = (request.body or {}).get("metadata", {}).get("labels", {}).get(KEEP_LABEL)
        if (
            request.resource == PODS
            and request.verb == "patch"
            and wanted
            and request.name == self.gone
        ):
            raise NotFoundError(404, "NotFound", "gone")


def test_no_label_is_taken_away_before_another_pod_has_it() -> None:
    async def story() -> None:
        vanishes = Vanishes()
        async with rig(*SERVICE, interceptor=vanishes) as on:
            on.cluster.apply([node(OTHER)])
            await on.start("p0")
            await on.start("d0", node_name=OTHER)
            await on.settle(SETTLED)
            await on.start("p1", node_name=OTHER)
            await on.settle(SETTLED)
            assert kept(on) == {"p0-master-0", "d0-master-0"}
            vanishes.gone = "p1-master-0"
            await cordon(on, NODE)
            assert kept(on) == {"p0-master-0", "d0-master-0"}
            await on.kill("p1")
            await on.settle(SETTLED)
            assert kept(on) == {"p0-master-0", "d0-master-0"}

    run(story())


def test_the_budget_is_made_again_and_goes_with_the_last_service() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await started(on, "p0", "p1", "d0")
            await on.cluster.delete(DISRUPTION_BUDGETS, NAMESPACE, "mind-cluster-scaler-minimum")
            await on.settle(SETTLED)
            assert budgets(on) == ["mind-cluster-scaler-minimum"]
            for name in ("p0", "p1", "d0"):
                await on.cluster.delete(ASCEND_JOBS, NAMESPACE, name)
            await on.settle(SETTLED)
            assert budgets(on) == []

    run(story())


def test_a_budget_that_outlived_its_services_goes_when_a_leader_begins() -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        async with rig(*SERVICE, cluster=cluster) as on:
            await started(on, "p0", "p1", "d0")
        for name in ("p0", "p1", "d0"):
            await on.cluster.delete(ASCEND_JOBS, NAMESPACE, name)
        async with rig(cluster=cluster) as after:
            await after.settle(SETTLED)
            assert budgets(after) == []

    run(story())


def test_a_budget_elsewhere_costs_no_look_at_all_services(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def services_within(_: Cache, namespace: str) -> list[ServiceKey]:
        asked.append(namespace)
        return []

    async def story() -> None:
        async with rig(*SERVICE) as on:
            await started(on, "p0", "p1", "d0")
            with monkeypatch.context() as patched:
                patched.delattr(Cache, "service_keys")
                patched.setattr(Cache, "services_within", services_within)
                on.cluster.apply(
                    [{**foreign(EVERY), "metadata": {"name": "theirs", "namespace": "elsewhere"}}]
                )
                await on.settle(SETTLED)

    run(story())
    assert asked == ["elsewhere"]


def test_namespaces_are_looked_at_in_one_order_whatever_the_hashes_of_their_names() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await started(on, "p0", "p1", "d0")
            (ours,) = on.cluster.peek(DISRUPTION_BUDGETS)
            names = [f"space-{number}" for number in (7, 3, 9, 1, 8, 2, 6, 4)]
            for name in names:
                on.cluster.apply(
                    [{**ours, "metadata": {"name": ours["metadata"]["name"], "namespace": name}}]
                )
            await on.settle(FULL_PASS)
            deleted = [each.namespace for each in on.cluster.audit if each.verb == "delete"]
            assert deleted == sorted(names)

    run(story())


def test_pods_of_others_are_kept_too() -> None:
    async def story() -> None:
        pods = (held("e0", "group0", owner=""), held("e1", "group1", owner=""))
        async with rig(*pods, rule_config_map(), mode="gates") as on:
            for pod in on.cluster.peek(PODS, NAMESPACE):
                await on.bind(pod)
                await on.status(
                    pod, phase="Running", conditions=[{"type": "Ready", "status": "True"}]
                )
            await on.settle(SETTLED)
            assert kept(on) == {"e0", "e1"}

    run(story())


def test_nothing_is_made_where_it_is_switched_off() -> None:
    async def story() -> None:
        async with rig(*SERVICE, disruption_budgets=False) as on:
            await started(on, "p0", "p1", "d0")
            assert (kept(on), budgets(on)) == (set(), [])

    run(story())
