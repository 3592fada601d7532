"""`scaler why`: for each thing that may be in the way, the answer names it, says what to do, and exits with 1."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest

from scaler.kube.api import ASCEND_JOBS, LEASES, NODES, POD_GROUPS, PODS, PatchType
from scaler.kube.errors import status_error
from scaler.sim.apiserver.interceptor import Interceptor, Request
from scaler.sim.loop import run
from scaler.tools.answers.answer import Answer, rendered
from scaler.tools.answers.inquiry import ask_why
from scaler.tools.answers.labels import key_checks
from scaler.tools.cluster.access import Access
from scaler.tools.console import console, show
from scaler.tools.diagnosis import Standing
from tests import jobs
from tests.actuate.test_ranktables import rings, server
from tests.commands.test_cluster import RULE, Forbidden, elastic_service, idle, lease, write
from tests.jobs import NAMESPACE, job, node, rule_config_map, rule_document
from tests.rig import Rig, rig
from tests.sim.manifests import deployment, template

GOOD = {"mind-cluster/scaling-rule": "r", "jobID": "m"}
LABELS = {"mind-cluster/scaling-rule": "rule", "mind-cluster/group-name": "group0", "jobID": "mindie"}


async def asked(on: Rig, name: str, interceptor: Interceptor | None = None, *, always: bool = False) -> Answer:
    access = Access(on.cluster.client("caller", interceptor), on.clock, (NAMESPACE,))
    found = await ask_why(access, name, always_ranks=always)
    assert found is not None, name
    return found


def text(answer: Answer, width: int = 120) -> str:
    out = io.StringIO()
    screen = console(out)
    screen.width = width
    show(screen, rendered(answer))
    return out.getvalue()


def failures(answer: Answer, title: str = "") -> list[str]:
    return [
        f"{check.about}: {check.words}"
        for section in answer.sections
        if title in ("", section.title)
        for check in section.checks
        if check.standing is Standing.FAIL
    ]


def answered(*objects: Any, name: str, start: tuple[str, ...] = (), settle: float = 5) -> Answer:
    """What is said after the scaler has had its time with these objects."""

    async def story() -> Answer:
        async with rig(*objects) as on:
            await on.start(*start)
            await on.settle(settle)
            return await asked(on, name)

    return run(story())


def test_a_service_that_runs_is_well_on_one_screen() -> None:
    answer = answered(RULE, job("p0"), job("d0"), name="mindie", start=("p0", "d0"))
    assert (answer.well, failures(answer)) == (True, [])
    shown = text(answer)
    assert "nothing: this is as it should be" in shown
    assert len(shown.splitlines()) < 24


@pytest.mark.parametrize("name", ["p1", "p1-master-0"])
def test_a_job_and_its_pod_have_the_same_answer(name: str) -> None:
    answer = answered(RULE, job("p0"), job("p1"), job("d0"), name=name, start=("p0", "d0"))
    assert answer.head[0].startswith("p1 is Admitted, WaitingForScheduler")


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({}, "no label mind-cluster/scaling-rule"),
        ({**LABELS, "mind-cluster/group-name": ""}, "label mind-cluster/group-name is empty"),
        ({**GOOD, "mind-cluster/group_name": "g"}, "did you mean mind-cluster/group-name?"),
        ({"mind-cluster/scaling-rule": "r", "mind-cluster/group-name": "g", "jobId": "m"}, "did you mean jobID?"),
        ({"mind-cluster/scaling_rule": "r", "mind-cluster/group-name": "g", "jobID": "m"}, "scaling_rule means"),
        ({"scaling-rule": "r", "mind-cluster/group-name": "g", "jobID": "m"}, "label scaling-rule means nothing"),
    ],
)  # fmt: skip
def test_a_label_that_is_missing_is_named_with_what_it_was_spelt_as(labels: dict[str, str], words: str) -> None:
    (failed,) = [check for check in key_checks(labels, "job") if check.standing is Standing.FAIL]
    assert words in failed.words


def test_labels_that_are_right_have_nothing_to_say_against_them() -> None:
    assert [check.standing for check in key_checks(LABELS, "job")] == [Standing.OK]


def test_a_group_that_the_rule_does_not_have_comes_with_the_near_one() -> None:
    answer = answered(RULE, job("p0", "gruop0"), job("d0"), name="p0")
    assert any("gruop0" in words and "group0" in words for words in failures(answer, "labels and rule"))
    assert answer.well is False


def test_a_rule_that_does_not_exist_comes_with_the_near_one() -> None:
    answer = answered(rule_config_map(name="scaling-rule"), job("p0", rule="scaling-rul"), name="p0")
    assert any("did you mean scaling-rule?" in words for words in failures(answer))
    assert any("get configmap scaling-rul " in line for line in answer.next)


def test_the_app_label_as_the_documentation_prints_it_is_found() -> None:
    answer = answered(RULE, job("p0", app="mindeie-ms-server"), job("d0"), name="mindie")
    assert any('label app is "mindeie-ms-server"' in words for words in failures(answer))


def test_a_job_of_another_tenant_is_told_that_it_is_no_part_of_any_service() -> None:
    answer = answered(RULE, deployment("web"), job("d0"), name="web")
    (words,) = failures(answer)
    assert words.startswith("Deployment web: no label mind-cluster/scaling-rule: it is no part of any service")
    assert words.endswith("labels stand in the template of the pods)")


def test_a_job_id_with_a_typo_is_noted_and_numbers_are_not_typos() -> None:
    def labelled(name: str, job_id: str) -> Any:
        made = job(name)
        made["metadata"]["labels"]["jobID"] = job_id
        return made

    typo = answered(RULE, job("p0"), job("d0"), labelled("p1", "mindei"), name="p1")
    assert "mindei has 1 and mindie has 2 instances of the same rule: a typo?" in text(typo)
    meant = answered(RULE, labelled("p0", "chat-7"), labelled("d0", "chat-7"), labelled("p1", "chat-8"), name="p1")
    assert "a typo?" not in text(meant)


def on_nodes(name: str, number: int) -> list[Any]:
    made = []
    for index in range(number):
        one = node(f"{name}-{index}")
        room = {"cpu": "100", "memory": "1Ti", "pods": "100", "huawei.com/Ascend910": "8"}
        one["metadata"]["labels"] = {"accelerator-type": name}
        one["status"] |= {"allocatable": room, "capacity": room}
        made.append(one)
    return made


def chat(name: str, job_id: str) -> Any:
    """A job that takes a whole node of type a."""
    pod = jobs.template(nodeSelector={"accelerator-type": "a"})
    made = job(name, pod=pod)
    made["metadata"]["labels"]["jobID"] = job_id
    return made


def test_room_is_counted_and_who_has_it_or_will_have_it_is_named() -> None:
    async def story() -> Answer:
        rule = rule_config_map(rule_document({"group0": 1, "group1": 1}))
        async with rig(rule, *on_nodes("a", 4)) as on:
            on.apply(chat("p0", "chat-7"), chat("d0", "chat-7"))
            await on.settle(2)
            await on.start("p0", node_name="a-0")
            await on.cluster.patch(NODES, None, "a-3", {"spec": {"unschedulable": True}}, patch_type=PatchType.MERGE)
            on.apply(chat("p8", "chat-8"), chat("d8", "chat-8"))
            await on.settle(5)
            return await asked(on, "chat-8")

    answer = run(story())
    (words,) = [words for words in failures(answer, "minimum and room") if words.startswith("nodes")]
    assert "needs 2 nodes with 8 free huawei.com/Ascend910 (accelerator-type=a), 2 there, 1 reserved by chat-7" in words
    assert "of 4 such nodes: 1 used by chat-7, 1 away: a-3 (cordoned)" in words
    assert any("add or mend nodes" in line for line in answer.next)


def test_pods_that_no_node_takes_at_all_are_said_so() -> None:
    rule = rule_config_map(rule_document({"group0": 1}))
    answer = answered(rule, *on_nodes("b", 2), chat("p0", "chat"), name="chat")
    assert any("no node takes such pods at all" in words for words in failures(answer))


def test_what_the_scheduler_says_of_a_gang_is_repeated() -> None:
    async def story() -> Answer:
        async with rig(RULE, job("p0"), job("d0")) as on:
            (name,) = [group["metadata"]["name"] for group in on.cluster.peek(POD_GROUPS, NAMESPACE)][:1]
            said = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "0/3 nodes"}
            patch = {"status": {"phase": "Pending", "conditions": [said]}}
            await on.cluster.patch(POD_GROUPS, NAMESPACE, name, patch, patch_type=PatchType.MERGE)
            return await asked(on, "mindie")

    assert any("phase Pending: NotEnoughResources: 0/3 nodes" in words for words in failures(run(story()), "scheduler"))


def test_a_container_that_cannot_start_and_a_node_that_is_away_are_named() -> None:
    async def story() -> Answer:
        async with rig(RULE, job("p0"), job("d0")) as on:
            await on.start("p0", "d0")
            waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
            (pod,) = on.pods_of("d0")
            await on.status(pod, phase="Pending", containerStatuses=[{"name": "ascend", "state": waiting}])
            away = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
            await on.cluster.patch(NODES, None, "node-0", away, patch_type=PatchType.MERGE, subresource="status")
            await on.settle(5)
            return await asked(on, "d0-master-0")

    words = "; ".join(failures(run(story()), "scheduler"))
    assert "container ascend: ImagePullBackOff: no such image; node node-0: NotReady" in words


def test_a_gate_of_somebody_else_is_named() -> None:
    async def story() -> Answer:
        async with rig(RULE, job("p0"), job("d0")) as on:
            pod = template(labels=LABELS)
            made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", **pod["metadata"]}}
            gates = [{"name": "example.com/quota"}]
            await on.cluster.create(PODS, NAMESPACE, {**made, "spec": {**pod["spec"], "schedulingGates": gates}})
            await on.settle(2)
            return await asked(on, "alone")

    answer = run(story())
    assert any("somebody else's gate: example.com/quota" in words for words in failures(answer))


def test_a_creation_that_the_api_server_refuses_is_told_in_its_words() -> None:
    class Quota(Interceptor):
        async def before(self, request: Request) -> None:
            if request.verb == "create" and request.resource == PODS:
                raise status_error(403, "Forbidden", "exceeded quota: npu")

    async def story() -> Answer:
        async with rig(RULE, job("p0"), job("d0"), interceptor=Quota()) as on:
            await on.settle(5)
            return await asked(on, "mindie")

    assert any("exceeded quota: npu" in words for words in failures(run(story()), "admission"))


def test_rank_tables_are_looked_at_with_the_rest_and_jobs_are_not_left_out_in_silence() -> None:
    stranger = job("p9", app="web")
    answer = answered(RULE, server(), rings(), stranger, name="mindie")
    assert any("rings-config-p0: " in words for words in failures(answer, "rank table"))
    assert any("job p9: no rank table is made for it: its label app is web" in words for words in failures(answer))


def test_what_may_not_be_read_is_said_and_the_rest_is_answered() -> None:
    async def story() -> Answer:
        async with rig(RULE, job("p0"), job("d0")) as on:
            await on.settle(2)
            return await asked(on, "mindie", Forbidden("podgroups", "nodes", "configmaps", "events", "namespaces"))

    answer = run(story())
    assert "configmaps" in " ".join(answer.notes)
    assert answer.sections[0].title == "labels and rule"


@pytest.mark.parametrize("width", [80, 120])
def test_an_answer_fits_the_screen(width: int) -> None:
    shown = text(answered(RULE, job("p0", "gruop0"), job("d0"), name="mindie"), width)
    assert max(len(line) for line in shown.splitlines()) <= width


def test_what_is_not_there_is_none_and_comes_with_near_names(capsys: pytest.CaptureFixture[str]) -> None:
    async def story() -> Answer | None:
        async with rig(RULE, job("prefill-0", "group0"), job("d0")) as on:
            await asyncio.sleep(1)
            return await ask_why(Access(on.cluster, on.clock, (NAMESPACE,)), "prefil-0", always_ranks=False)

    assert run(story()) is None
    assert (
        "there is no job, pod or service 'prefil-0' in namespace mindie; did you mean prefill-0"
        in capsys.readouterr().err
    )


def test_what_a_scaler_wrote_that_is_not_at_work_any_more_does_not_count() -> None:
    async def story() -> Answer:
        on = idle(RULE, job("p0"), job("d0"))
        (p0,) = [one for one in on.cluster.peek(ASCEND_JOBS) if one["metadata"]["name"] == "p0"]
        old = {"name": "p0", "uid": p0["metadata"]["uid"], "state": "Running", "reason": "Running", "message": "Runs."}
        await write(on, elastic_service(instances=[old]))
        await on.cluster.create(LEASES, "default", lease("mind-cluster-scaler", "default"))
        assert (await asked(on, "p0")).head == ("p0 is Running: Runs.",)
        await asyncio.sleep(600)
        return await asked(on, "p0")

    answer = run(story())
    assert "NO SCALER IS AT WORK" in answer.notes[0]
    assert answer.head[0].startswith("p0 is Admitted")
    assert answer.head[0].endswith("(as decided here, not by a scaler)")
