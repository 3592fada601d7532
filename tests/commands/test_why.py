"""`scaler why`: for each thing that may be in the way, the answer names it, says what to do, and
exits with 1."""

from __future__ import annotations

import asyncio
import io
import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scaler.decide.world import ServiceKey
from scaler.kube.api import (
    ASCEND_JOBS,
    DEPLOYMENTS,
    ELASTIC_SERVICES,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PatchType,
    Resource,
)
from scaler.kube.errors import status_error
from scaler.names import GATE, NAMESPACE_LABEL, RULE_LABEL
from scaler.rules.rule import ALL
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.loop import run
from scaler.tools.common.access import Access
from scaler.tools.common.check_result import Level
from scaler.tools.common.console import console, show
from scaler.tools.common.view import ServiceView
from scaler.tools.why.answer import Answer, rendered
from scaler.tools.why.inquiry import ask_why
from scaler.tools.why.labels import key_checks
from scaler.tools.why.scale import look, scale_checks
from scaler.tools.why.subject import OF_INSTANCES, Subject
from tests import jobs
from tests.commands.test_cluster import RULE, Forbidden, elastic_service, idle, lease, scale, write
from tests.jobs import NAMESPACE, job, manifest, node, rule_config_map, rule_document
from tests.ranktables.test_reconciler import rings, server
from tests.rig import Rig, rig
from tests.sim.manifests import deployment, template
from tests.workloads.pods import SAMPLES, Sample

GOOD = {"mind-cluster/scaling-rule": "r", "jobID": "m"}
LABELS = {
    "mind-cluster/scaling-rule": "rule",
    "mind-cluster/group-name": "group0",
    "jobID": "mindie",
}


async def asked(
    on: Rig, name: str, interceptor: Interceptor | None = None, *, always: bool = False
) -> Answer:
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


def in_chinese(answer: Answer) -> str:
    out = io.StringIO()
    screen = console(out)
    screen.width = 500
    show(screen, rendered(answer, "zh"))
    return out.getvalue()


def failures(answer: Answer, title: str = "") -> list[str]:
    return [
        f"{check.about}: {check.text}"
        for section in answer.sections
        if title in ("", section.title)
        for check in section.checks
        if check.level is Level.ERROR
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
    "sample", [one for one in SAMPLES if one.kind in OF_INSTANCES], ids=lambda one: one.name
)
def test_an_object_that_makes_instances_is_answered_about_all_of_them(sample: Sample) -> None:
    made = sample.make(sample.object)
    for pod in itertools.chain(*made):
        pod["spec"] = {**pod["spec"], "schedulingGates": [{"name": GATE}]}
    answer = answered(RULE, *itertools.chain(*made), name=sample.object["metadata"]["name"])
    assert answer.about == f"{sample.kind} {NAMESPACE}/{sample.object['metadata']['name']}"
    assert len(answer.head) == min(len(made), 7)  # six of them, and how many more there are


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({}, "no label mind-cluster/scaling-rule"),
        ({**LABELS, "mind-cluster/group-name": ""}, "label mind-cluster/group-name is empty"),
        ({**GOOD, "mind-cluster/group_name": "g"}, "did you mean mind-cluster/group-name?"),
        (
            {"mind-cluster/scaling-rule": "r", "mind-cluster/group-name": "g", "jobId": "m"},
            "did you mean jobID?",
        ),
        (
            {"mind-cluster/scaling_rule": "r", "mind-cluster/group-name": "g", "jobID": "m"},
            "scaling_rule means",
        ),
        (
            {"scaling-rule": "r", "mind-cluster/group-name": "g", "jobID": "m"},
            "label scaling-rule means nothing",
        ),
    ],
)
def test_a_label_that_is_missing_is_named_with_what_it_was_spelt_as(
    labels: dict[str, str], words: str
) -> None:
    (failed,) = [check for check in key_checks(labels, "job") if check.level is Level.ERROR]
    assert words in failed.text


def test_a_label_that_our_admission_moved_is_not_missing() -> None:
    moved = job("p0")
    labels = moved["metadata"]["labels"]
    rule = labels.pop("mind-cluster/scaling-rule")
    moved["metadata"]["annotations"] = {"mind-cluster/moved-scaling-rule": rule}
    answer = answered(RULE, moved, job("d0"), name="p0")
    assert "without mind-cluster/scaling-rule" not in text(answer)


def test_labels_that_are_right_have_nothing_to_say_against_them() -> None:
    assert [check.level for check in key_checks(LABELS, "job")] == [Level.OK]


def test_a_group_that_the_rule_does_not_have_comes_with_the_near_one() -> None:
    answer = answered(RULE, job("p0", "gruop0"), job("d0"), name="p0")
    assert any(
        "gruop0" in words and "group0" in words for words in failures(answer, "labels and rule")
    )
    assert answer.well is False


def test_a_rule_that_does_not_exist_comes_with_the_near_one() -> None:
    answer = answered(
        rule_config_map(name="scaling-rule"), job("p0", rule="scaling-rul"), name="p0"
    )
    assert any("did you mean scaling-rule?" in words for words in failures(answer))
    assert answer.next == (
        "fix what is marked FAIL above, first rule scaling-rul",
        "correct what is mistyped:",
        f"kubectl -n {NAMESPACE} label --overwrite ascendjob p0 {RULE_LABEL}=scaling-rule",
    )


def test_the_app_label_as_the_documentation_prints_it_is_found() -> None:
    answer = answered(RULE, job("p0", app="mindeie-ms-server"), job("d0"), name="mindie")
    assert any('label app is "mindeie-ms-server"' in words for words in failures(answer))


def test_a_job_of_another_tenant_is_told_that_it_is_no_part_of_any_service() -> None:
    answer = answered(RULE, deployment("web"), job("d0"), name="web")
    (words,) = failures(answer)
    assert words.startswith(
        "Deployment web: no label mind-cluster/scaling-rule: it is no part of any service"
    )
    assert words.endswith("labels stand in the template of the pods)")


def test_a_job_id_with_a_typo_is_noted_and_numbers_are_not_typos() -> None:
    def labelled(name: str, job_id: str) -> Any:
        made = job(name)
        made["metadata"]["labels"]["jobID"] = job_id
        return made

    typo = answered(RULE, job("p0"), job("d0"), labelled("p1", "mindei"), name="p1")
    assert "mindei has 1 and mindie has 2 instances of the same rule: a typo?" in text(typo)
    meant = answered(
        RULE,
        labelled("p0", "chat-7"),
        labelled("d0", "chat-7"),
        labelled("p1", "chat-8"),
        name="p1",
    )
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


SET_BY_HPA = {
    "manager": "kube-controller-manager",
    "time": "2023-11-14T22:00:00Z",
    "subresource": "scale",
    "fieldsV1": {"f:spec": {"f:replicas": {}}},
}
OF_THE_SCALER = {
    "manager": "mind-cluster-scaler",
    "fieldsV1": {"f:spec": {"f:rule": {}, "f:jobID": {}}},
}


def autoscaler(name: str, target: str, **status: Any) -> Any:
    ref = {
        "apiVersion": "scaler.mind-cluster.io/v1alpha1",
        "kind": "ElasticService",
        "name": target,
    }
    owner = {"kind": "ScaledObject", "name": "chat"}
    return {
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"minReplicas": 2, "maxReplicas": 6, "scaleTargetRef": ref},
        "status": {"desiredReplicas": 2, **status},
    }


async def scaled(on: Rig, replicas: int) -> None:
    await on.start("p0", "d0")
    await scale(on, replicas)


def test_a_job_that_is_not_wanted_is_well_and_the_answer_says_who_set_the_number() -> None:
    async def story() -> Answer:
        async with rig(RULE, job("p0"), job("p1"), job("d0")) as on:
            await scaled(on, 2)
            return await asked(on, "p1")

    answer = run(story())
    assert (answer.well, failures(answer)) == (True, [])
    assert answer.head[0].startswith(
        "p1 is Held, ScaledDown: Not needed now: 2 instances are to run"
    )
    shown = text(answer)
    assert "2 instances are wanted; works up to 1 group0 + 1 group1" in " ".join(shown.split())
    assert answer.next == (
        "nothing, if no more is wanted; to have all instances again:",
        f"kubectl -n {NAMESPACE} scale esvc/rule-mindie --replicas=1000000",
    )


def test_a_job_of_a_paused_rule_waits_for_a_person_and_the_command_ends_the_pause() -> None:
    answer = answered(rule_config_map(paused="true"), job("p0"), job("d0"), name="p0")
    assert answer.head[0].startswith("p0 is Held, Paused")
    assert answer.next == (
        "nothing, if the pause is meant; to end it:",
        f"kubectl -n {NAMESPACE} annotate configmap rule mind-cluster/paused-",
    )


def test_a_service_that_rests_is_well_and_said_to_rest() -> None:
    async def story() -> Answer:
        async with rig(RULE, job("p0"), job("d0")) as on:
            await on.settle(2)
            await scale(on, 0)
            return await asked(on, "mindie")

    answer = run(story())
    assert answer.well
    assert answer.head[0] == "rests: nothing is to run: spec.replicas is 0"
    assert "the service rests" in text(answer)


def test_nothing_is_said_of_the_number_where_all_instances_are_wanted() -> None:
    answer = answered(RULE, job("p0"), job("d0"), name="mindie", start=("p0", "d0"))
    assert "scale" not in [section.title for section in answer.sections]


def limited(replicas: int) -> Subject:
    status = {"conditions": [{"type": "ScalingLimited", "message": "what follows"}]}
    view = ServiceView(ServiceKey("mindie", "rule", "m"), "rule-m", status, replicas=replicas)
    return Subject("mindie", "m", "service", view=view)


class Api:
    """An API server with one ElasticService and these autoscalers."""

    def __init__(
        self, managed: list[Any], autoscalers: list[Any], error: Exception | None = None
    ) -> None:
        self.managed = managed
        self.autoscalers = autoscalers
        self.error = error

    async def get(self, resource: Resource, namespace: str, name: str) -> Any:
        assert (resource, namespace, name) == (ELASTIC_SERVICES, "mindie", "rule-m")
        return {"metadata": {"managedFields": self.managed}}

    async def list(self, resource: Resource, namespace: str) -> Any:
        assert (resource.full_name, namespace) == ("horizontalpodautoscalers.autoscaling", "mindie")
        if self.error is not None:
            raise self.error
        return SimpleNamespace(items=self.autoscalers)


def scale_words(api: Any, replicas: int = 1) -> list[str]:
    subject = limited(replicas)
    found = asyncio.run(look(api, subject))
    return [f"{check.about}: {check.text}" for check in scale_checks(subject, found)]


def test_who_set_the_number_and_the_autoscaler_that_will_set_it_again_are_named() -> None:
    inactive = {"type": "ScalingActive", "status": "False", "message": "no metrics"}
    there = [
        autoscaler("keda-hpa-chat", "rule-m", conditions=[inactive]),
        autoscaler("other", "rule-n"),
    ]
    assert scale_words(Api([OF_THE_SCALER, SET_BY_HPA], there)) == [
        (
            "esvc/rule-m: spec.replicas is 1: what follows; "
            "set by an autoscaler (kube-controller-manager) (2023-11-14T22:00:00Z)"
        ),
        (
            "HorizontalPodAutoscaler keda-hpa-chat: scales it, made for ScaledObject chat: 2 to 6"
            " instances, 2 now; it sets the number again: change its bounds, or delete it first;"
            " ScalingActive is False: no metrics"
        ),
    ]


def test_a_number_that_nobody_has_set_and_autoscalers_that_may_not_be_read_spoil_nothing() -> None:
    forbidden = status_error(403, "Forbidden", "no")
    assert scale_words(Api([], [], forbidden), 0) == [
        "esvc/rule-m: spec.replicas is 0: what follows; the API server has not kept who set it"
    ]
    assert asyncio.run(look(cast("Any", Api([], [], forbidden)), limited(0))).unread == (
        "horizontalpodautoscalers.autoscaling",
    )
    assert scale_words(None, ALL) == []


def test_room_is_counted_and_who_has_it_or_will_have_it_is_named() -> None:
    async def story() -> Answer:
        rule = rule_config_map(rule_document({"group0": 1, "group1": 1}))
        async with rig(rule, *on_nodes("a", 4)) as on:
            on.apply(chat("p0", "chat-7"), chat("d0", "chat-7"))
            await on.settle(2)
            await on.start("p0", node_name="a-0")
            await on.cluster.patch(
                NODES, None, "a-3", {"spec": {"unschedulable": True}}, patch_type=PatchType.MERGE
            )
            on.apply(chat("p8", "chat-8"), chat("d8", "chat-8"))
            await on.settle(5)
            return await asked(on, "chat-8")

    answer = run(story())
    (words,) = [
        words for words in failures(answer, "minimum and room") if words.startswith("nodes")
    ]
    lacks = (
        "needs 2 nodes, 1 free; a-3 cordoned; each with 8 free huawei.com/Ascend910"
        " (accelerator-type=a)"
    )
    assert lacks in words
    assert (
        "of 4 such nodes: 1 reserved for mindie/rule-chat-7, 1 used by mindie/rule-chat-7" in words
    )
    assert answer.next == (
        "a node that it could use is cordoned; when the work on the node is done:",
        "kubectl uncordon a-3",
        "wait for room, or add nodes; scaler plan --nodes says how many it needs",
    )


def test_pods_that_no_node_takes_at_all_are_said_so() -> None:
    rule = rule_config_map(rule_document({"group0": 1}))
    answer = answered(rule, *on_nodes("b", 2), chat("p0", "chat"), name="chat")
    assert any("no node takes such pods at all" in words for words in failures(answer))


def test_a_gang_that_has_its_nodes_does_not_wait_for_the_scheduler() -> None:
    """A container that crashes is the fault, and not the scheduler, whatever phase it wrote."""

    async def story() -> Answer:
        rule = rule_config_map(rule_document({"group0": 1}))
        async with rig(rule, *on_nodes("a", 1), chat("p0", "chat")) as on:
            await on.settle(2)
            await on.start("p0", node_name="a-0")
            waiting = {"reason": "CrashLoopBackOff", "message": "back-off 40s"}
            crashes = {"name": "ascend", "state": {"waiting": waiting}, "restartCount": 3}
            status = {
                "conditions": [{"type": "Ready", "status": "False"}],
                "containerStatuses": [crashes],
            }
            await on.cluster.patch(
                PODS,
                NAMESPACE,
                "p0-master-0",
                {"status": status},
                patch_type=PatchType.MERGE,
                subresource="status",
            )
            await on.settle(120)
            return await asked(on, "chat")

    (fault,) = failures(run(story()), "scheduler")
    assert fault.startswith("pod p0-master-0: container ascend: CrashLoopBackOff")


def said_of_a_gang(phase: str, *conditions: dict[str, str]) -> list[str]:
    """What `why` finds wrong with the scheduler when the PodGroup of p0 has these conditions."""

    async def story() -> Answer:
        async with rig(RULE, job("p0"), job("d0")) as on:
            groups = on.cluster.peek(POD_GROUPS, NAMESPACE)
            name = groups[0]["metadata"]["name"]
            unschedulable = {"type": "Unschedulable", "status": "True"}
            said = [unschedulable | one for one in conditions]
            patch = {"status": {"phase": phase, "conditions": said}}
            await on.cluster.patch(POD_GROUPS, NAMESPACE, name, patch, patch_type=PatchType.MERGE)
            return await asked(on, "mindie")

    return failures(run(story()), "scheduler")


def test_what_the_scheduler_says_of_a_gang_is_repeated() -> None:
    said = said_of_a_gang("Pending", {"reason": "NotEnoughResources", "message": "0/3 nodes"})
    assert any("phase Pending: NotEnoughResources: 0/3 nodes" in words for words in said)


def test_of_several_conditions_of_a_gang_those_of_the_last_session_are_said_with_a_cure() -> None:
    early = {"transitionID": "7", "lastTransitionTime": "2026-11-28T10:00:00Z"}
    late = {"transitionID": "9", "lastTransitionTime": "2026-11-28T10:05:00Z"}
    said = said_of_a_gang(
        "Inqueue",
        early | {"reason": "JobEnqueueFailed", "message": "require npu num is 32"},
        late | {"reason": "BatchOrderFailed", "message": "not enough virtual super-pod"},
        late | {"reason": "NodePredicateFailed", "message": ""},
    )
    (words,) = [words for words in said if "phase Inqueue" in words]
    assert "phase Inqueue: BatchOrderFailed: not enough virtual super-pod. Enough" in words
    assert "wholly free nodes of one super-pod" in words


def test_a_container_that_cannot_start_and_a_node_that_is_away_are_named() -> None:
    async def story() -> Answer:
        async with rig(RULE, job("p0"), job("d0")) as on:
            await on.start("p0", "d0")
            waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
            (pod,) = on.pods_of("d0")
            await on.status(
                pod, phase="Pending", containerStatuses=[{"name": "ascend", "state": waiting}]
            )
            away = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
            await on.cluster.patch(
                NODES, None, "node-0", away, patch_type=PatchType.MERGE, subresource="status"
            )
            await on.settle(5)
            return await asked(on, "d0-master-0")

    words = "; ".join(failures(run(story()), "scheduler"))
    assert "container ascend: ImagePullBackOff: no such image; node node-0: NotReady" in words


@pytest.mark.parametrize("handled", [False, True])
def test_a_pod_that_mindclusters_scheduler_leaves_on_a_lost_node_is_said_so(handled: bool) -> None:
    async def story() -> Answer:
        decode = job("d0")
        if not handled:
            del decode["metadata"]["labels"]["fault-scheduling"]
        async with rig(RULE, job("p0"), decode) as on:
            await on.start("p0", "d0")
            away = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
            await on.cluster.patch(
                NODES, None, "node-0", away, patch_type=PatchType.MERGE, subresource="status"
            )
            await on.settle(5)
            return await asked(on, "d0-master-0")

    words = "; ".join(failures(run(story()), "scheduler"))
    assert "node node-0: NotReady" in words
    assert ("no label fault-scheduling" in words) is not handled


def test_a_gate_of_somebody_else_is_named() -> None:
    async def story() -> Answer:
        async with rig(RULE, job("p0"), job("d0")) as on:
            pod = template(labels=LABELS)
            made = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "alone", **pod["metadata"]},
            }
            gates = [{"name": "example.com/quota"}]
            await on.cluster.create(
                PODS, NAMESPACE, {**made, "spec": {**pod["spec"], "schedulingGates": gates}}
            )
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


async def with_a_second_install(on: Rig, name: str, account: str) -> None:
    """A webhook of that name, and the Deployment and the Lease of an install with this service
    account."""
    home = "team-a-system"
    labels = {"app.kubernetes.io/name": "mind-cluster-scaler"}
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"serviceAccountName": account}},
    }
    await on.cluster.create(LEASES, home, lease("mind-cluster-scaler", home))
    await on.cluster.create(
        DEPLOYMENTS, home, manifest(DEPLOYMENTS, account, home, labels=labels, spec=spec)
    )
    webhook = {"webhooks": [{"name": "pods.mind-cluster-scaler.svc"}]}
    await on.cluster.create(
        MUTATING_WEBHOOKS, None, manifest(MUTATING_WEBHOOKS, name, "") | webhook
    )
    opted_in = {"metadata": {"labels": {NAMESPACE_LABEL: "enabled"}}}
    await on.cluster.patch(NAMESPACES, None, NAMESPACE, opted_in, patch_type=PatchType.MERGE)


def about_the_gate(webhook: str, account: str, *forbidden: str) -> list[str]:
    """What is said about the sources of the gate to a service whose pods others make."""

    async def story() -> Answer:
        sample = next(one for one in SAMPLES if one.kind == "Deployment")
        pods = list(itertools.chain(*sample.make(sample.object)))
        for pod in pods:
            pod["spec"] = {**pod["spec"], "schedulingGates": [{"name": GATE}]}
        async with rig(RULE, *pods) as on:
            await with_a_second_install(on, webhook, account)
            await on.settle(2)
            return await asked(on, sample.object["metadata"]["name"], Forbidden(*forbidden))

    answer = run(story())
    (section,) = [one for one in answer.sections if one.title == "admission"]
    return [check.text for check in section.checks if check.about == "gate"]


def test_the_webhook_of_an_install_with_a_name_of_its_own_is_found() -> None:
    own = "mind-cluster-scaler-team-a"
    assert about_the_gate(own, own) == ["set up by webhook"]


def test_the_webhook_of_the_usual_install_counts_for_the_services_of_every_other_one() -> None:
    found = about_the_gate("mind-cluster-scaler", "mind-cluster-scaler-team-a")
    assert found == ["set up by webhook"]


def test_a_webhook_that_is_of_no_install_is_no_source_of_the_gate() -> None:
    (said,) = about_the_gate("somebody-else", "mind-cluster-scaler-team-a")
    assert said.startswith("neither the admission policy nor the webhook is installed")


def test_where_the_name_of_the_install_may_not_be_read_no_webhook_is_said_to_be_missing() -> None:
    own = "mind-cluster-scaler-team-a"
    assert about_the_gate(own, own, "deployments") == []


def test_rank_tables_are_looked_at_with_the_rest_and_jobs_are_not_left_out_in_silence() -> None:
    stranger = job("p9", app="web")
    answer = answered(RULE, server(), rings(), stranger, name="mindie")
    assert any("rings-config-p0: " in words for words in failures(answer, "rank table"))
    assert any(
        "job p9: no rank table is made for it: its label app is web" in words
        for words in failures(answer)
    )


def test_what_may_not_be_read_is_said_and_the_rest_is_answered() -> None:
    async def story() -> Answer:
        async with rig(RULE, job("p0"), job("d0")) as on:
            await on.settle(2)
            return await asked(
                on, "mindie", Forbidden("podgroups", "nodes", "configmaps", "events", "namespaces")
            )

    answer = run(story())
    assert "configmaps" in " ".join(answer.notes)
    assert answer.sections[0].title == "labels and rule"


@pytest.mark.parametrize("width", [80, 120])
def test_an_answer_fits_the_screen(width: int) -> None:
    shown = text(answered(RULE, job("p0", "gruop0"), job("d0"), name="mindie"), width)
    assert max(len(line) for line in shown.splitlines()) <= width


def test_what_is_not_there_is_none_and_comes_with_near_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story() -> Answer | None:
        async with rig(RULE, job("prefill-0", "group0"), job("d0")) as on:
            await asyncio.sleep(1)
            return await ask_why(
                Access(on.cluster, on.clock, (NAMESPACE,)), "prefil-0", always_ranks=False
            )

    assert run(story()) is None
    assert (
        "there is no job, pod or service 'prefil-0' in namespace mindie; did you mean prefill-0"
        in capsys.readouterr().err
    )


def test_what_a_scaler_wrote_that_is_not_at_work_any_more_does_not_count() -> None:
    async def story() -> Answer:
        on = idle(RULE, job("p0"), job("d0"))
        (p0,) = [one for one in on.cluster.peek(ASCEND_JOBS) if one["metadata"]["name"] == "p0"]
        old = {
            "name": "p0",
            "uid": p0["metadata"]["uid"],
            "state": "Running",
            "reason": "Running",
            "message": "Runs.",
        }
        await write(on, elastic_service(instances=[old]))
        await on.cluster.create(LEASES, "default", lease("mind-cluster-scaler", "default"))
        assert (await asked(on, "p0")).head == ("p0 is Running: Runs.",)
        await asyncio.sleep(600)
        return await asked(on, "p0")

    answer = run(story())
    assert "NO SCALER IS AT WORK" in answer.notes[0]
    assert answer.head[0].startswith("p0 is Admitted")
    assert answer.head[0].endswith("(as decided here, not by a scaler)")
