"""A wrong label on something that runs: it is said, nothing else starts in its place, and nothing
has to be deleted."""

from __future__ import annotations

import pytest

from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, EVENTS, POD_GROUPS, PODS, Object, PatchType
from scaler.sim.loop import run
from tests.jobs import NAMESPACE, held, job, node, rule_config_map, rule_document
from tests.rig import Rig, controller, rig

GROUP = "mind-cluster/group-name"
JOB_ID = "jobID"
RULE = "mind-cluster/scaling-rule"
ONE_EACH = rule_config_map(rule_document({"group0": 1, "group1": 1}))
SERVICE = (node("roomy", roomy=True), ONE_EACH, job("p0"), job("p1"), job("d0"))
TYPOS = [
    (GROUP, "gruop0", "GroupUnknown", "write mind-cluster/group-name=group0"),
    (GROUP, None, "GroupLabelMissing", "write mind-cluster/group-name=group0"),
    (GROUP, "", "GroupLabelMissing", "write mind-cluster/group-name=group0"),
    (JOB_ID, None, "JobIdMissing", "write jobID=mindie"),
    (RULE, None, "RuleMissing", "write mind-cluster/scaling-rule=rule"),
    (RULE, "", "RuleMissing", "write mind-cluster/scaling-rule=rule"),
    (RULE, "rul", "RuleMissing", "write mind-cluster/scaling-rule=rule"),
]


async def label(on: Rig, name: str, value: str | None, what: str = "p0") -> None:
    patch = {"metadata": {"labels": {name: value}}}
    await on.cluster.patch(ASCEND_JOBS, NAMESPACE, what, patch, patch_type=PatchType.MERGE)
    await on.settle(2.0)


def warnings(on: Rig, what: str) -> list[str]:
    found = [one for one in on.cluster.peek(EVENTS) if one["involvedObject"]["name"] == what]
    return [
        f"{one['reason']}: {one.get('message') or one.get('note')}"
        for one in found
        if one["type"] == "Warning"
    ]


def said(on: Rig, what: str) -> str:
    """All that any plan ever said of it in words, reasons included."""
    return "\n".join([on.words(what), *warnings(on, what)])


@pytest.mark.parametrize(("name", "value", "reason", "cure"), TYPOS)
def test_it_is_a_warning_that_names_the_label_and_what_to_write_and_no_spare_starts(
    name: str, value: str | None, reason: str, cure: str
) -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await label(on, name, value)
            assert on.reason("p0") == reason
            assert any(
                one.startswith(reason) and name in one and cure in one for one in warnings(on, "p0")
            )
            assert "delete" not in said(on, "p0")
            await on.settle(300.0)
            assert on.with_pods() == {"p0", "d0"}
            assert not any("p1" in one for one in on.writes() if one.startswith("create pods"))

    run(story())


@pytest.mark.parametrize(("name", "value", "reason", "cure"), TYPOS)
def test_a_restart_of_the_scaler_changes_nothing_of_that(
    name: str, value: str | None, reason: str, cure: str
) -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
        await label(on, name, value)
        async with controller(on):
            await on.settle(120.0)
            assert on.reason("p0") == reason
            assert on.with_pods() == {"p0", "d0"}
            assert cure in said(on, "p0")

    run(story())


@pytest.mark.parametrize(("name", "value", "reason", "cure"), TYPOS)
def test_a_mended_label_takes_effect_at_once(
    name: str, value: str | None, reason: str, cure: str
) -> None:
    right = {GROUP: "group0", JOB_ID: "mindie", RULE: "rule"}

    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await label(on, name, value)
            assert on.reason("p0") == reason
            await label(on, name, right[name])
            assert on.reason("p0") == "Running"
            assert on.with_pods() == {"p0", "d0"}

    run(story())


@pytest.mark.parametrize(("name", "value", "reason", "cure"), TYPOS[:4])
def test_one_that_is_lost_later_is_held_by_its_label_and_a_spare_takes_over(
    name: str, value: str | None, reason: str, cure: str
) -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await label(on, name, value)
            await on.kill("p0")
            await on.settle(5.0)
            assert on.with_pods() == {"p1", "d0"}
            assert on.reason("p0") == reason

    run(story())


def test_labels_that_name_another_group_of_the_rule_are_taken_at_their_word() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await label(on, GROUP, "group1")
            assert on.reason("p0") in ("Running", "SurplusRunning")
            assert "p1" in on.with_pods()

    run(story())


def test_a_group_that_an_edited_rule_names_no_more_is_no_typo_and_nothing_to_delete() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            on.apply(rule_config_map(rule_document({"group0": 1})))
            await on.settle(2.0)
            assert on.reason("d0") == "GroupUnknown"
            assert "counts for nothing" in said(on, "d0")
            assert "delete" not in said(on, "d0")
            assert on.with_pods() == {"p0", "d0"}

    run(story())


@pytest.mark.parametrize(
    ("name", "value", "reason", "words"),
    [
        (
            JOB_ID,
            None,
            "JobIdMissing",
            "label jobID is missing or empty, so it counts for no service",
        ),
        (GROUP, None, "GroupLabelMissing", "label mind-cluster/group-name is missing or empty"),
        (GROUP, "gruop0", "GroupUnknown", "did you mean group0?"),
        (RULE, "rul", "RuleMissing", "it counts for nothing: ConfigMap mindie/rul does not exist"),
    ],
)
def test_one_that_was_admitted_before_anybody_kept_its_labels_never_says_that_it_just_runs(
    name: str, value: str | None, reason: str, words: str
) -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            for group in on.cluster.peek(POD_GROUPS, NAMESPACE):
                bare = {"metadata": {"labels": dict.fromkeys((GROUP, JOB_ID, RULE))}}
                which = group["metadata"]["name"]
                await on.cluster.patch(
                    POD_GROUPS, NAMESPACE, which, bare, patch_type=PatchType.MERGE
                )
            await label(on, name, value)
            assert on.reason("p0") == reason
            assert any(words in one for one in warnings(on, "p0"))
            assert "delete" not in said(on, "p0")

    run(story())


def test_both_labels_taken_off_is_no_typo() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            patch = {"metadata": {"labels": {RULE: None, GROUP: None}}}
            await on.cluster.patch(ASCEND_JOBS, NAMESPACE, "p0", patch, patch_type=PatchType.MERGE)
            await on.settle(2.0)
            assert on.reason("p0") == "Running"
            assert "p1" in on.with_pods()

    run(story())


def test_a_lost_pod_of_it_is_made_again() -> None:
    async def story() -> None:
        rule = rule_config_map(rule_document({"group0": 1, "group1": 1}, pods=2))
        async with rig(rule, job("p0", pods=2), job("p1", pods=2), job("d0", pods=2)) as on:
            await on.start("p0", "d0")
            await label(on, GROUP, "gruop0")
            await on.cluster.delete(PODS, NAMESPACE, "p0-worker-0", grace_period_seconds=0)
            await on.settle(5.0)
            assert {pod["metadata"]["name"] for pod in on.pods_of("p0")} == {
                "p0-master-0",
                "p0-worker-0",
            }
            assert on.with_pods() == {"p0", "d0"}

    run(story())


@pytest.mark.parametrize(("name", "value", "reason", "cure"), TYPOS[:4])
def test_a_pod_of_others_counts_as_it_did_when_it_came(
    name: str, value: str | None, reason: str, cure: str
) -> None:
    async def story() -> None:
        pods = [
            held("d0", "group1", owner="decoder-5d8"),
            held("p0", "group0"),
            held("p1", "group0"),
        ]
        async with rig(ONE_EACH, *pods, mode="gates") as on:
            for pod in on.cluster.peek(PODS, NAMESPACE):
                if pod["metadata"]["name"] != "p1":
                    await on.bind(pod)
                    await on.status(
                        pod, phase="Running", conditions=[{"type": "Ready", "status": "True"}]
                    )
            await on.settle()
            patch = {"metadata": {"labels": {name: value}}}
            await on.cluster.patch(PODS, NAMESPACE, "p0", patch, patch_type=PatchType.MERGE)
            await on.settle(60.0)
            assert on.reason("p0") == reason
            assert any(cure in one for one in warnings(on, "p0"))
            assert not on.decisions[-1][1].actions
            (spare,) = [
                pod for pod in on.cluster.peek(PODS, NAMESPACE) if pod["metadata"]["name"] == "p1"
            ]
            assert spare["spec"]["schedulingGates"]

    run(story())


@pytest.mark.parametrize("wrong", [("p-0",), ("p-0-1",), ("p-0", "p-0-1")], ids=" and ".join)
@pytest.mark.parametrize(("name", "value", "reason", "cure"), TYPOS[:4])
def test_a_group_of_a_leader_worker_set_counts_as_it_did_when_its_pods_came(
    name: str, value: str | None, reason: str, cure: str, wrong: tuple[str, ...]
) -> None:
    async def story() -> None:
        pods = [held("d0", "group1", owner="decoder-5d8"), *of_a_set(0), *of_a_set(1)]
        rule = rule_config_map(
            rule_document({"group0": 1, "group1": 1}, pods={"group0": 2, "group1": 1})
        )
        async with rig(rule, *pods, mode="gates") as on:
            for pod in on.cluster.peek(PODS, NAMESPACE):
                if not pod["metadata"]["name"].startswith("p-1"):
                    await on.bind(pod)
                    await on.status(
                        pod, phase="Running", conditions=[{"type": "Ready", "status": "True"}]
                    )
            await on.settle()
            assert on.reason("p-0") == "Running"
            for pod_name in wrong:
                patch = {"metadata": {"labels": {name: value}}}
                await on.cluster.patch(PODS, NAMESPACE, pod_name, patch, patch_type=PatchType.MERGE)
            await on.settle(60.0)
            assert not on.decisions[-1][1].actions
            spares = [
                pod
                for pod in on.cluster.peek(PODS, NAMESPACE)
                if pod["metadata"]["name"].startswith("p-1")
            ]
            assert all(pod["spec"]["schedulingGates"] for pod in spares)
            if len(wrong) == 2:  # of one alone the other pod tells the same as before
                assert on.reason("p-0") == reason
                said = [text for pod_name in wrong for text in warnings(on, pod_name)]
                assert any(text.startswith(reason) and cure in text for text in said)

    run(story())


def of_a_set(number: int) -> list[Object]:
    """The two held pods of a group of LeaderWorkerSet p."""
    made = []
    for name, owner in ((f"p-{number}", "p"), (f"p-{number}-1", f"p-{number}")):
        size = {"leaderworkerset.sigs.k8s.io/size": "2"}
        pod = held(name, "group0", annotations=size)
        pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/name"] = "p"
        pod["metadata"]["ownerReferences"][0] |= {
            "kind": "StatefulSet",
            "name": owner,
            "uid": f"uid-{owner}",
        }
        made.append(pod)
    return made


def test_a_label_with_a_rule_that_comes_later_takes_effect_when_it_comes() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await label(on, RULE, "other")
            assert on.reason("p0") == "RuleMissing"
            assert on.with_pods() == {"p0", "d0"}
            on.apply(rule_config_map(rule_document({"group0": 1}), name="other"))
            await on.settle(2.0)
            assert on.reason("p0") == "Running"
            assert "p1" in on.with_pods()
            await on.cluster.delete(CONFIG_MAPS, NAMESPACE, "other")
            await label(on, "more", "words")
            assert on.decisions[-1][0].key.rule in ("other", "rule")
            (mine,) = [plan for service, plan in on.decisions[-4:] if service.key.rule == "other"][
                -1:
            ]
            assert [verdict.name for verdict in mine.verdicts] == ["p0"]

    run(story())


def test_jobs_that_were_moved_to_a_rule_stay_there_when_it_is_gone_and_the_scaler_starts_anew() -> (
    None
):
    async def story() -> None:
        async with rig(*SERVICE, rule_config_map(name="other")) as on:
            await on.start("p0", "d0")
            await label(on, RULE, "other")
            assert on.reason("p0") == "Running"
            await on.cluster.delete(CONFIG_MAPS, NAMESPACE, "other")
            await on.settle(2.0)
        async with controller(on):
            await on.settle(2.0)
            (mine,) = [plan for service, plan in on.decisions if service.key.rule == "other"][-1:]
            assert [(verdict.name, str(verdict.reason)) for verdict in mine.verdicts] == [
                ("p0", "Running")
            ]

    run(story())


@pytest.mark.parametrize(("name", "value", "reason", "cure"), TYPOS)
def test_while_its_pods_wait_for_the_scheduler_no_spare_gets_pods_beside_it(
    name: str, value: str | None, reason: str, cure: str
) -> None:
    async def story() -> None:
        async with rig(*SERVICE[1:]) as on:
            await on.settle(5.0)
            assert on.with_pods() == {"p0", "d0"}
            await label(on, name, value)
            assert on.reason("p0") == reason
            assert on.with_pods() == {"p0", "d0"}
            await on.settle(300.0)
            assert len(on.with_pods() & {"p0", "p1"}) == 1

    run(story())


@pytest.mark.parametrize(("name", "value", "reason", "cure"), TYPOS[:4])
def test_one_that_is_never_bound_gives_its_place_to_a_spare_when_its_turn_has_ended(
    name: str, value: str | None, reason: str, cure: str
) -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("d0")
            await label(on, name, value)
            await on.settle(60.0)
            assert on.with_pods() == {"p1", "d0"}
            assert on.reason("p0") == reason

    run(story())
