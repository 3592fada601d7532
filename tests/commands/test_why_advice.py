"""What `scaler why` says to do fits the case, and its commands work as they are printed."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, ELASTIC_SERVICES, NODES, PODS, PatchType
from scaler.reasons.checks import NONE_COMPLETED
from scaler.reasons.steps import MORE_RIGHTS
from scaler.sim.loop import run
from scaler.tools.common.access import Access
from scaler.tools.common.check_result import CheckResult, Level
from scaler.tools.why.answer import RANKS, Answer, Section, causes_first
from scaler.tools.why.inquiry import ask_why
from tests.commands.test_cluster import RULE, Forbidden, scale
from tests.commands.test_why import answered, asked, failures, on_nodes, text
from tests.jobs import NAMESPACE, job, rule_config_map, rule_document, template
from tests.ranktables.test_reconciler import rings, server
from tests.rig import Rig, rig

LADDER = rule_document({"group0": 2, "group1": 1}, {"group0": 1, "group1": 1})
ONE_EACH = rule_document({"group0": 1, "group1": 1})


def chat(name: str, job_id: str, rule: str) -> Any:
    """A job that takes a whole node."""
    pod = template(nodeSelector={"accelerator-type": "a"})
    made = job(name, rule=rule, pod=pod)
    made["metadata"]["labels"]["jobID"] = job_id
    return made


async def obey(on: Rig, command: str) -> None:
    """What kubectl does with this command."""
    words = shlex.split(command)
    assert words[:3] == ["kubectl", "-n", NAMESPACE]
    match words[3:]:
        case ["label", "--overwrite", "ascendjob", name, *changes]:
            await _annotate(on, ASCEND_JOBS, name, "labels", changes)
        case ["annotate", "--overwrite", "configmap", name, *changes]:
            await _annotate(on, CONFIG_MAPS, name, "annotations", changes)
        case ["annotate", "configmap", name, *changes]:
            await _annotate(on, CONFIG_MAPS, name, "annotations", changes)
        case ["scale", kind_and_name, number]:
            patch = {"spec": {"replicas": int(number.removeprefix("--replicas="))}}
            name = kind_and_name.removeprefix("esvc/")
            await on.cluster.patch(
                ELASTIC_SERVICES, NAMESPACE, name, patch, patch_type=PatchType.MERGE
            )
        case _:
            raise AssertionError(command)


async def _annotate(on: Rig, resource: Any, name: str, where: str, changes: list[str]) -> None:
    written: dict[str, str | None] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        written[key if equals else key.removesuffix("-")] = value if equals else None
    patch = {"metadata": {where: written}}
    await on.cluster.patch(resource, NAMESPACE, name, patch, patch_type=PatchType.MERGE)


def commands(answer: Answer) -> list[str]:
    return [line for line in answer.next if line.startswith("kubectl")]


async def neighbours(on: Rig, of_new: str = "new", **options: str) -> None:
    """A service that runs one instance beyond its minimum, and another one, `of_new` its rule,
    without room."""
    on.apply(rule_config_map(LADDER, name="big", **options), rule_config_map(ONE_EACH, name="new"))
    on.apply(chat("p0", "big", "big"), chat("p1", "big", "big"), chat("d0", "big", "big"))
    await on.settle(2)
    await on.start("p0", node_name="a-0")
    await on.start("d0", node_name="a-1")
    await on.settle(2)
    await on.start("p1", node_name="a-2")
    on.apply(chat("p8", "new", of_new), chat("d8", "new", of_new))
    await on.settle(5)


def test_who_holds_the_room_is_named_and_scaling_it_down_makes_room() -> None:
    async def story() -> tuple[Answer, Answer]:
        async with rig(*on_nodes("a", 4)) as on:
            await neighbours(on)
            before = await asked(on, "new")
            await obey(on, commands(before)[0])
            await on.settle(30)
            return before, await asked(on, "new")

    before, after = run(story())
    assert any("3 used by mindie/big-big" in words for words in failures(before))
    assert before.next[0].startswith("another service runs more than its smallest ratio")
    assert commands(before)[0] == f"kubectl -n {NAMESPACE} scale esvc/big-big --replicas=2"
    assert not any("lower the smallest ratio" in line for line in before.next), "1P1D"
    assert "room on a-2 is expected: pods end there" in " ".join(after.head)


def test_as_many_nodes_are_needed_as_the_target_lacks() -> None:
    """The second prefill instance is no part of 1P1D, which the service works towards."""

    async def story() -> Answer:
        async with rig(*on_nodes("a", 1)) as on:
            on.apply(rule_config_map(LADDER, name="big"))
            on.apply(chat("p0", "big", "big"), chat("p1", "big", "big"), chat("d0", "big", "big"))
            await on.settle(2)
            await on.start("p0", node_name="a-0")
            await on.settle(5)
            return await asked(on, "big")

    answer = run(story())
    words = " ".join(failures(answer))
    assert "Needs 2 nodes, 1 in all" in answer.head[0], "the minimum, and all nodes"
    assert "nodes: needs 2 nodes, 1 in all" in words
    assert "needs 3 nodes" not in words


def test_the_answer_has_the_words_of_the_headline_about_what_is_missing() -> None:
    async def story() -> Answer:
        async with rig(*on_nodes("a", 2)) as on:
            on.apply(rule_config_map(LADDER, name="big"))
            on.apply(chat("p0", "big", "big"), chat("d0", "big", "big"))
            await on.settle(2)
            await on.start("p0", node_name="a-0")
            other = rule_config_map(rule_document({"group0": 1}), name="new")
            on.apply(other, chat("p8", "new", "new"))
            await on.start("d0", node_name="a-1")
            await on.settle(5)
            return await asked(on, "new")

    answer = run(story())
    lacks = "needs 1 node, 0 free; with 8 free huawei.com/Ascend910 (accelerator-type=a)"
    assert lacks in answer.head[0]
    assert f"nodes: {lacks}; of 2 such nodes: 2 used by mindie/big-big" in failures(answer)


def test_equal_priorities_are_said_and_the_command_lets_the_waiting_one_go_first() -> None:
    async def story() -> tuple[Answer, Answer]:
        async with rig(*on_nodes("a", 4)) as on:
            await neighbours(on)
            before = await asked(on, "new")
            await obey(on, commands(before)[1])
            await on.settle(30)
            return before, await asked(on, "new")

    before, after = run(story())
    assert any("same or a higher priority" in line for line in before.next)
    assert commands(before)[1].endswith("configmap big mind-cluster/service-priority=-1")
    assert "MinimumDoesNotFit" not in " ".join(after.head)


def test_a_priority_is_no_advice_where_both_services_have_the_same_rule() -> None:
    """Its annotation would count for both."""

    async def story() -> Answer:
        async with rig(*on_nodes("a", 4)) as on:
            await neighbours(on, of_new="big")
            return await asked(on, "new")

    answer = run(story())
    assert commands(answer)[0].endswith("scale esvc/big-big --replicas=2")
    assert not any("service-priority" in line for line in answer.next)


def test_a_rule_that_protects_its_service_from_eviction_is_said() -> None:
    async def story() -> Answer:
        async with rig(*on_nodes("a", 4)) as on:
            await neighbours(on, preemptable="false")
            return await asked(on, "new")

    answer = run(story())
    assert f"kubectl -n {NAMESPACE} annotate configmap big mind-cluster/preemptable-" in answer.next


def test_a_scale_up_without_room_is_not_urgent_and_lowers_nothing() -> None:
    async def story() -> Answer:
        async with rig(*on_nodes("a", 2)) as on:
            on.apply(rule_config_map(LADDER, name="big"))
            on.apply(chat("p0", "big", "big"), chat("p1", "big", "big"), chat("d0", "big", "big"))
            await on.settle(2)
            await on.start("p0", node_name="a-0")
            await on.start("d0", node_name="a-1")
            await on.settle(5)
            return await asked(on, "big")

    answer = run(story())
    assert answer.next == (
        "nothing is urgent: the smallest ratio runs, and more instances start when there is room",
        "wait for room, or add nodes; scaler plan --nodes says how many it needs",
    )


def test_a_minimum_of_several_may_be_lowered_and_a_lost_node_repaired() -> None:
    async def story() -> Answer:
        rule = rule_config_map(rule_document({"group0": 2, "group1": 1}), name="big")
        async with rig(rule, *on_nodes("a", 3)) as on:
            status = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
            await on.cluster.patch(
                NODES, None, "a-1", status, patch_type=PatchType.MERGE, subresource="status"
            )
            on.apply(chat("p0", "big", "big"), chat("p1", "big", "big"), chat("d0", "big", "big"))
            await on.settle(5)
            return await asked(on, "big")

    answer = run(story())
    assert "kubectl describe node a-1" in answer.next
    assert "or lower the smallest ratio of the rule, if the service can work with less" in (
        answer.next
    )


@pytest.mark.parametrize(
    ("labels", "asked_about"),
    [
        ({"mind-cluster/group-name": "gruop0"}, "p1"),
        ({"mind-cluster/group-name": "gruop0"}, "mindie"),
        ({"mind-cluster/scaling-rule": "scaling-rul"}, "p1"),
        ({"mind-cluster/scaling-rule": "scaling-rul"}, "mindie"),
        ({"jobID": "minide"}, "p1"),
        ({"jobID": "minide"}, "mindie"),
        ({"mind-cluster/group-name": None, "mind-cluster/group_name": "group0"}, "p1"),
    ],
)
def test_a_mistyped_label_comes_with_the_command_that_corrects_it(
    labels: dict[str, str | None], asked_about: str
) -> None:
    async def story() -> tuple[Answer, Any]:
        rule = rule_config_map(LADDER, name="scaling-rule")
        wrong = job("p1", rule="scaling-rule")
        for name, value in labels.items():
            wrong["metadata"]["labels"].pop(name, None)
            wrong["metadata"]["labels"] |= {} if value is None else {name: value}
        right = [job(name, rule="scaling-rule") for name in ("p0", "d0")]
        async with rig(rule, *right, wrong) as on:
            await on.start("p0", "d0")
            await on.settle(5)
            answer = await asked(on, asked_about)
            await obey(on, commands(answer)[0])
            return answer, await on.cluster.get(ASCEND_JOBS, NAMESPACE, "p1")

    answer, mended = run(story())
    assert not any(" lint " in line or "create" in line for line in answer.next), answer.next
    found = mended["metadata"]["labels"]
    wanted = job("p1", rule="scaling-rule")["metadata"]["labels"]
    assert found == wanted


def test_a_rule_that_is_like_no_other_is_created_or_another_one_named() -> None:
    answer = answered(rule_config_map(name="abc"), job("p0", rule="xyz"), name="p0")
    assert commands(answer) == [f"kubectl -n {NAMESPACE} get configmap"]


def test_rank_tables_of_a_service_that_rests_are_no_fault() -> None:
    async def story() -> Answer:
        async with rig(RULE, server(), rings(), job("d0")) as on:
            await on.settle(2)
            await scale(on, 0)
            return await asked(on, "mindie")

    answer = run(story())
    assert (answer.well, failures(answer)) == (True, [])


@pytest.mark.parametrize(
    ("serves", "whole", "level"),
    [
        (True, False, Level.NOTE),
        (False, False, Level.ERROR),
        (True, True, Level.ERROR),  # where the question is about rank tables
    ],
)
def test_rank_tables_that_are_not_completed_are_no_fault_of_a_service_that_serves(
    serves: bool, whole: bool, level: Level
) -> None:
    check = CheckResult(Level.ERROR, NONE_COMPLETED.en, about="service mindie")
    (section,) = causes_first([Section(RANKS, (check,), whole=whole)], serves=serves)
    assert [one.level for one in section.checks] == [level]


def test_without_room_nothing_is_said_of_rank_tables_or_volcano_first() -> None:
    async def story() -> Answer:
        made = server()
        async with rig(rule_config_map(rule_document({"group0": 1})), made, rings()) as on:
            on.nodes("small", npu=0)
            await on.settle(5)
            return await asked(on, "mindie")

    answer = run(story())
    assert [line for line in failures(answer) if "rank table" in line] == []
    assert not any("rings" in line or "service mindie" in line for line in answer.next)
    assert answer.sections[0].title == "minimum and room"
    assert "does Volcano run" not in text(answer)


CRASHED = {"state": {"terminated": {"exitCode": 1}}}
RESTARTED = {
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"exitCode": 1}},
}
NEVER = {"state": {"waiting": {"reason": "ImagePullBackOff"}}}


@pytest.mark.parametrize(
    ("kind", "state", "logs"),
    [
        ("containerStatuses", RESTARTED, "logs p0-master-0 -c x --previous"),
        ("containerStatuses", NEVER, ""),
        ("initContainerStatuses", RESTARTED, "logs p0-master-0 -c x --previous"),
        ("initContainerStatuses", CRASHED, "logs p0-master-0 -c x"),
    ],
)
def test_logs_are_asked_only_of_a_container_that_ran(
    kind: str, state: dict[str, Any], logs: str
) -> None:
    async def story() -> Answer:
        async with rig(rule_config_map(rule_document({"group0": 1})), job("p0")) as on:
            await on.start("p0")
            unready = {"type": "Ready", "status": "False"}
            status = {"phase": "Pending", "conditions": [unready], kind: [{"name": "x", **state}]}
            await on.cluster.patch(
                PODS,
                NAMESPACE,
                "p0-master-0",
                {"status": status},
                patch_type=PatchType.MERGE,
                subresource="status",
            )
            await on.settle(5)
            return await asked(on, "p0")

    answer = run(story())
    wanted = [f"kubectl -n {NAMESPACE} {logs}"] if logs else []
    assert commands(answer) == [*wanted, f"kubectl -n {NAMESPACE} describe pod p0-master-0"]


NOT_OF_A_VIEWER = ("ascendjobs", "jobs", "podgroups", "nodes", "leases", "namespaces", "queues")


@pytest.mark.parametrize(
    ("name", "about", "head"),
    [
        ("mindie", "service mindie/mindie", "NOT AVAILABLE: d0: "),
        ("rule-mindie", "service mindie/rule-mindie", "NOT AVAILABLE: d0: "),
        ("p1", "AscendJob mindie/p1", "p1 is Held, WaitingForRatio: "),
    ],
)
def test_with_fewer_rights_the_answer_is_what_the_elastic_service_says(
    name: str, about: str, head: str
) -> None:
    async def story() -> Answer:
        async with rig(RULE, job("p0"), job("d0"), job("p1")) as on:
            await on.start("p0")
            await on.settle(5)
            return await asked(on, name, Forbidden(*NOT_OF_A_VIEWER))

    answer = run(story())
    assert answer.about.startswith(about.partition("/")[0])
    assert answer.head[0].startswith(head)
    assert any("you may not read ascendjobs" in note for note in answer.notes)
    assert answer.next == (MORE_RIGHTS.en,)


def test_with_fewer_rights_nobody_says_that_there_is_no_job(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story() -> Answer | None:
        async with rig(RULE, job("p0")) as on:
            await on.settle(2)
            blind = Forbidden("elasticservices", *NOT_OF_A_VIEWER)
            access = Access(on.cluster.client("caller", blind), on.clock, (NAMESPACE,))
            return await ask_why(access, "mindie", always_ranks=False)

    assert run(story()) is None
    said = capsys.readouterr().err
    assert "there is no job" not in said
    assert "no job, pod or service 'mindie' is seen" in said
    assert "you may not read elasticservices" in said
