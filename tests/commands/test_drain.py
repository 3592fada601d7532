"""`scaler drain NODE`: what it foresees, against what the controller then does, and what it says of
budgets."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scaler.cli import main
from scaler.kube.api import (
    DISRUPTION_BUDGETS,
    NODES,
    PODS,
    VALIDATING_POLICIES,
    VALIDATING_POLICY_BINDINGS,
    VALIDATING_WEBHOOKS,
    Object,
    PatchType,
    Resource,
)
from scaler.kube.errors import ForbiddenError, NotFoundError
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.loop import run
from scaler.tools.common.access import Access
from scaler.tools.drain import command as drain
from scaler.tools.drain.admission import asked_about_evictions
from scaler.tools.drain.command import Forecast, UnknownNodeError, forecast, text
from scaler.tools.drain.evictions import Evictions, judged
from tests.jobs import NAMESPACE, manifest
from tests.rig import Rig, rig
from tests.test_minimums import nodes, serve, service

SERVICE = "a/mindie"


async def asked(on: Rig, *names: str, interceptor: Interceptor | None = None) -> Forecast:
    return await forecast(Access(on.cluster.client("caller", interceptor), on.clock, ()), names)


async def drained(on: Rig, name: str) -> None:
    """As `kubectl drain`, whole instances at once: a gang does not run without one of its pods."""
    await on.cluster.patch(
        NODES, None, name, {"spec": {"unschedulable": True}}, patch_type=PatchType.MERGE
    )
    for pod in on.cluster.peek(PODS, NAMESPACE):
        if pod["spec"].get("nodeName") == name:
            await on.cluster.delete(
                PODS, NAMESPACE, pod["metadata"]["name"], grace_period_seconds=0
            )
    await on.settle()


def test_surplus_that_has_no_other_node_ends_and_the_minimum_is_kept() -> None:
    async def story() -> None:
        async with rig(*nodes(3), *service("a")) as on:
            await serve(on, "a", "n1", "n2", "n3")
            found = await asked(on, "n3")
            (fate,) = found.services
            assert (fate.ends, fate.starts, fate.loses_minimum) == (("a-p1",), {}, False)
            assert (fate.now.ratio, fate.then.ratio, fate.later.ratio) == (0, 1, 1)
            assert fate.held[0].startswith("a-p1: ")
            assert found.loses_minimum == ()

    run(story())


def test_what_it_foresees_is_what_the_controller_does() -> None:
    async def story() -> None:
        async with rig(*nodes(4), *service("a")) as on:
            await serve(on, "a", "n1", "n2", "n3")
            (fate,) = (await asked(on, "n2")).services
            assert (fate.ends, fate.starts) == (("a-d0",), {"a-d0": ("n4",)})
            assert (fate.then.ratio, fate.later.ratio, fate.loses_minimum) == (-1, 0, True)
            await drained(on, "n2")
            (pod,) = on.pods_of("a-d0")
            assert "nodeName" not in pod["spec"]
            await on.start("a-d0", node_name="n4")
            await on.settle(5)
            assert on.said("a")["running"] == "2+1"

    run(story())


def test_without_another_node_a_lost_decode_is_made_from_a_surplus_prefill() -> None:
    async def story() -> None:
        async with rig(*nodes(3), *service("a")) as on:
            await serve(on, "a", "n1", "n2", "n3")
            (fate,) = (await asked(on, "n2")).services
            assert fate.loses_minimum
            assert fate.later.serves is False or fate.evicted != ()

    run(story())


def test_a_node_without_instances_touches_no_service() -> None:
    async def story() -> None:
        async with rig(*nodes(4), *service("a")) as on:
            await serve(on, "a", "n1", "n2", "n3")
            found = await asked(on, "n4")
            assert (found.services, found.loses_minimum, found.evictions.pods) == ((), (), ())

    run(story())


def test_several_nodes_are_drained_together() -> None:
    async def story() -> None:
        async with rig(*nodes(5), *service("a"), *service("b", prefill=1)) as on:
            await serve(on, "a", "n1", "n2", "n3")
            await serve(on, "b", "n4", "n5")
            found = await asked(on, "n1", "n3")
            (fate,) = found.services
            assert (fate.ends, fate.loses_minimum) == (("a-p0", "a-p1"), True)
            assert fate.service in found.loses_minimum

    run(story())


def test_it_changes_nothing() -> None:
    async def story() -> None:
        async with rig(*nodes(4), *service("a")) as on:
            await serve(on, "a", "n1", "n2", "n3")
            await asked(on, "n1")
            assert on.cluster.writes("caller") == []

    run(story())


def test_a_node_that_is_not_there_is_said() -> None:
    async def story() -> None:
        async with rig(*nodes(1)) as on:
            with pytest.raises(UnknownNodeError, match="there is no node n9"):
                await asked(on, "n9")

    run(story())


def test_who_may_not_read_budgets_is_told_so() -> None:
    class Poor(Interceptor):
        async def before(self, request: Request) -> None:
            if request.resource == DISRUPTION_BUDGETS:
                raise ForbiddenError(403, "Forbidden", "no")

    async def story() -> None:
        async with rig(*nodes(3), *service("a")) as on:
            await serve(on, "a", "n1", "n2")
            found = await asked(on, "n1", interceptor=Poor())
            assert found.evictions.refused == (
                "you may not read PodDisruptionBudgets: whether one refuses something is not known",
            )

    run(story())


def rules(resource: str, *operations: str, group: str = "") -> list[Object]:
    versions = ["v1"]
    return [
        {
            "apiGroups": [group],
            "apiVersions": versions,
            "operations": list(operations),
            "resources": [resource],
        }
    ]


class Admission:
    """An API server that has these objects; a kind that it has no object of is not known."""

    def __init__(self, *objects: Object, forbidden: Resource | None = None) -> None:
        self.objects = objects
        self.forbidden = forbidden

    async def list(self, resource: Resource) -> Any:
        if resource == self.forbidden:
            raise ForbiddenError(403, "Forbidden", "no")
        items = [one for one in self.objects if one["kind"] == resource.kind]
        if not items:
            raise NotFoundError(404, "NotFound", "no such kind")
        return SimpleNamespace(items=items)


def webhook(name: str, rules: list[Object], **more: Any) -> Object:
    return {"name": name, "rules": rules, **more}


@pytest.mark.parametrize(
    ("resource", "operations", "group", "is_asked"),
    [
        ("pods/eviction", ("CREATE",), "", True),
        ("pods/*", ("CREATE", "UPDATE"), "", True),
        ("*/*", ("*",), "*", True),
        ("pods", ("CREATE", "DELETE"), "", False),
        ("pods/eviction", ("DELETE",), "", False),
        ("pods/*", ("CREATE",), "apps", False),
    ],
)
def test_a_webhook_that_is_asked_about_evictions_is_named(
    resource: str, operations: tuple[str, ...], group: str, *, is_asked: bool
) -> None:
    asks = webhook("drain.example.com", rules(resource, *operations, group=group))
    other = webhook("other.example.com", rules("pods", "CREATE"), failurePolicy="Ignore")
    made = manifest(VALIDATING_WEBHOOKS, "guard") | {"webhooks": [asks, other]}
    policy = manifest(VALIDATING_POLICIES, "keep")
    policy["spec"] = {"matchConstraints": {"resourceRules": asks["rules"]}}
    binding = manifest(VALIDATING_POLICY_BINDINGS, "keep")
    binding["spec"] = {"policyName": "keep", "validationActions": ["Deny"]}

    found = run(asked_about_evictions(cast("Any", Admission(made, policy, binding))))
    webhooks = (
        "webhook drain.example.com of ValidatingWebhookConfiguration guard is asked about each"
        " eviction and may refuse it; what it answers is not known before; while it does not"
        " answer, every eviction is refused"
    )
    policies = (
        "ValidatingAdmissionPolicy keep is asked about each eviction and may refuse it; what it"
        " answers is not known before"
    )
    assert found == ((webhooks, policies) if is_asked else ())
    shown = list(text(Forecast(("n1",), (), Evictions((), 0, 0, (), (), found), ())))
    said = [line for line in shown if line.startswith("not known: ")]
    assert said == [f"not known: {words}" for words in found]


def test_who_may_not_read_webhooks_is_told_so() -> None:
    found = run(asked_about_evictions(cast("Any", Admission(forbidden=VALIDATING_WEBHOOKS))))
    name = "validatingwebhookconfigurations.admissionregistration.k8s.io"
    unread = f"you may not read {name}: whether one of them refuses evictions is not known"
    assert found == (unread,)


# what would be evicted, and what refuses it


def pod(
    name: str, *, owner: str = "AscendJob", labels: dict[str, str] | None = None, **more: Any
) -> Object:
    made = manifest(
        PODS, name, NAMESPACE, labels=labels or {"app": "a"}, spec={"containers": [], **more}
    )
    if owner:
        made["metadata"]["ownerReferences"] = [
            {"kind": owner, "name": "x", "uid": "u", "controller": True}
        ]
    return made


def budget(name: str, allowed: int, **selector: Any) -> Object:
    made = manifest(DISRUPTION_BUDGETS, name, NAMESPACE, spec={"selector": selector})
    return made | {"status": {"disruptionsAllowed": allowed}}


def test_a_budget_that_allows_too_few_is_named() -> None:
    found = judged([pod("a"), pod("b")], [budget("one", 1, matchLabels={"app": "a"})])
    (words,) = found.refused
    assert words.startswith(f"PodDisruptionBudget {NAMESPACE}/one allows 1 of 2 evictions now; ")


def test_what_the_scaler_keeps_for_a_minimum_is_named() -> None:
    (words,) = judged(
        [pod("a")], [budget("mind-cluster-scaler-minimum", 0, matchLabels={"app": "a"})]
    ).refused
    assert words.startswith(
        f"PodDisruptionBudget {NAMESPACE}/mind-cluster-scaler-minimum keeps 1 for a minimum until"
    )
    assert "Cannot evict pod as it would violate the pod's disruption budget" in words


def test_a_pod_under_two_budgets_cannot_be_evicted_at_all() -> None:
    both = [budget("one", 1, matchLabels={"app": "a"}), budget("two", 1)]
    (words,) = judged([pod("a")], both).refused
    assert words.startswith(f"pod {NAMESPACE}/a: 2 budgets are about it")


@pytest.mark.parametrize(
    ("expression", "covered"),
    [
        ({"key": "app", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "app", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "app", "operator": "Exists"}, True),
        ({"key": "app", "operator": "DoesNotExist"}, False),
    ],
)
def test_expressions_of_a_selector_are_understood(expression: Object, covered: bool) -> None:
    found = judged([pod("a")], [budget("one", 0, matchExpressions=[expression])])
    assert bool(found.refused) is covered


def test_pods_of_daemon_sets_stay_and_those_that_nothing_makes_again_are_named() -> None:
    made = [
        pod("a", volumes=[{"name": "v", "emptyDir": {}}]),
        pod("b", owner="DaemonSet"),
        pod("c", owner=""),
    ]
    found = judged(made, [])
    assert found == Evictions((f"{NAMESPACE}/a", f"{NAMESPACE}/c"), 1, 1, (f"{NAMESPACE}/c",), ())


# the command


def answering(monkeypatch: pytest.MonkeyPatch, found: Forecast | None) -> None:
    async def answer(*_: object) -> Forecast | None:
        await asyncio.sleep(0)
        return found

    monkeypatch.setattr(drain, "_asked", answer)


NOBODY = Forecast(
    ("n1",), (), Evictions(("mindie/a",), 2, 1, (), ("PodDisruptionBudget x allows 0",)), ()
)


@pytest.mark.parametrize(
    ("found", "code"),
    [(NOBODY, 0), (Forecast(("n1",), ("a",), NOBODY.evictions, ()), 1), (None, 1)],
)
def test_the_exit_code_says_whether_a_minimum_is_lost(
    monkeypatch: pytest.MonkeyPatch, found: Forecast | None, code: int
) -> None:
    answering(monkeypatch, found)
    assert main(["drain", "n1"]) == code


def test_the_last_line_is_the_command_with_the_flags_that_it_needs() -> None:
    lines = list(text(NOBODY))
    assert lines[0] == "n1: 1 pods would be evicted, 2 of DaemonSets stay"
    assert "refused: PodDisruptionBudget x allows 0" in lines
    assert lines[-1] == "  kubectl drain n1 --ignore-daemonsets --delete-emptydir-data"


def test_a_lost_minimum_stands_in_capitals() -> None:
    async def story() -> list[str]:
        async with rig(*nodes(4), *service("a")) as on:
            await serve(on, "a", "n1", "n2", "n3")
            return list(text(await asked(on, "n2")))

    shown = run(story())
    assert not any("kubectl drain n2" in line for line in shown)
    assert shown[-2:] == ["  kubectl cordon n2", "  scaler drain n2"]
    assert "  ends: a-d0" in shown
    assert "  then: does not serve (runs 2 group0), THE MINIMUM IS LOST" in shown
    assert "  starts: a-d0 on n4" in shown
    assert "  later: runs 2 group0 + 1 group1" in shown


def test_a_node_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drain"]) == 2
    assert "NODE" in capsys.readouterr().err
