"""Every kind of workload that the scaler governs: what lint finds in it, and that it says what it
looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.tools.lint.files import Report, lint
from scaler.tools.lint.repair import repair
from scaler.tools.lint.source import Source
from scaler.tools.lint.workloads import KINDS
from tests.rules.documents import config_map, job, text

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
RULE = config_map(
    text({"prefill": 2, "decode": (1, 2)}, {"prefill": 1, "decode": (1, 2)}), namespace="ns"
)
LABELS = {
    "mind-cluster/scaling-rule": "scaling-rule",
    "mind-cluster/group-name": "prefill",
    "jobID": "qwen",
}
GATES = [{"name": "mind-cluster/hold"}]


def template(**labels: str | None) -> dict[str, Any]:
    """A pod template with the three labels; None takes one off."""
    names = {
        "rule": "mind-cluster/scaling-rule",
        "group": "mind-cluster/group-name",
        "job_id": "jobID",
    }
    changed = {names.get(name, name): value for name, value in labels.items()}
    found = {name: value for name, value in {**LABELS, **changed}.items() if value is not None}
    return {
        "metadata": {"labels": found},
        "spec": {"schedulingGates": GATES, "containers": [{"name": "server"}]},
    }


def component(of: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The same as OME has it."""
    return {
        "labels": of["metadata"]["labels"],
        "schedulingGates": of["spec"]["schedulingGates"],
        **more,
    }


def pair(of: dict[str, Any], size: int) -> dict[str, Any]:
    """A component of OME with a leader and workers."""
    gates = {"schedulingGates": of["spec"]["schedulingGates"]}
    return {"labels": of["metadata"]["labels"], "leader": gates, "worker": {"size": size, **gates}}


def deployment(of: dict[str, Any], pods: int) -> dict[str, Any]:
    return thing("apps/v1", "Deployment", replicas=2, template=of)


def leader_worker_set(of: dict[str, Any], pods: int) -> dict[str, Any]:
    both = {"size": pods, "leaderTemplate": of, "workerTemplate": of}
    return thing(
        "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", replicas=1, leaderWorkerTemplate=both
    )


def storm_service(of: dict[str, Any], pods: int) -> dict[str, Any]:
    roles = [
        {"name": "one", "replicas": 2, "podGroupSize": pods, "template": of},
        {"name": "routing", "template": {}},
    ]
    return thing(
        "orchestration.aibrix.ai/v1alpha1", "StormService", template={"spec": {"roles": roles}}
    )


def infer_service_set(of: dict[str, Any], pods: int) -> dict[str, Any]:
    roles = [{"name": "one", "replicas": 2, "spec": {"replicas": pods, "template": of}}]
    return thing(
        "mindcluster.huawei.com/v1", "InferServiceSet", replicas=1, template={"roles": roles}
    )


def volcano_job(of: dict[str, Any], pods: int) -> dict[str, Any]:
    tasks = [{"name": "one", "replicas": 1, "template": of}]
    tasks += [{"name": "more", "replicas": pods - 1, "template": of}] if pods > 1 else []
    return thing("batch.volcano.sh/v1alpha1", "Job", tasks=tasks)


def inference_service(of: dict[str, Any], pods: int) -> dict[str, Any]:
    return thing(
        "ome.io/v1beta1",
        "InferenceService",
        engine=component(of) if pods == 1 else pair(of, pods - 1),
    )


def runtime(of: dict[str, Any], pods: int) -> dict[str, Any]:
    made = component(of) if pods == 1 else pair(of, pods - 1)
    return thing("ome.io/v1beta1", "ClusterServingRuntime", decoderConfig=made)


def role_based_group(of: dict[str, Any], pods: int) -> dict[str, Any]:
    roles = [{"name": "one", "leaderWorkerPattern": {"size": pods, "template": of}}]
    return thing("workloads.x-k8s.io/v1alpha2", "RoleBasedGroup", roles=roles)


def thing(version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "qwen", "namespace": "ns"},
        "spec": spec,
    }


MANY = [
    leader_worker_set,
    storm_service,
    infer_service_set,
    volcano_job,
    inference_service,
    runtime,
    role_based_group,
]
ALL = [deployment, *MANY]


def linted(*objects: dict[str, Any] | str, rule: str = RULE) -> Report:
    texts = [
        one if isinstance(one, str) else yaml.safe_dump(one, sort_keys=False) for one in objects
    ]
    return lint(
        [
            Source(f"f{at}", each.encode())
            for at, each in enumerate([*texts, rule] if rule else texts)
        ]
    )


def codes(*objects: dict[str, Any] | str, rule: str = RULE) -> list[str]:
    return [finding.code for finding in linted(*objects, rule=rule).findings]


@pytest.mark.parametrize("make", ALL)
def test_what_is_right_is_counted_and_has_no_findings(make: Any) -> None:
    report = linted(make(template(), 1))
    assert (report.findings, report.left_out) == ([], {})
    assert report.checked == {"rule": 1, make(template(), 1)["kind"]: 1}


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize(
    ("labels", "code", "hint"),
    [
        ({"group": "perfill"}, "GroupUnknown", "did you mean prefill?"),
        ({"group": "nothing-like-it"}, "GroupUnknown", "write one of prefill, decode"),
        ({"group": None}, "GroupLabelMissing", "mind-cluster/group-name"),
        ({"job_id": None}, "JobIdMissing", "jobID"),
        ({"job_id": ""}, "JobIdMissing", "jobID"),
        ({"rule": ""}, "RuleLabelEmpty", "mind-cluster/scaling-rule"),
        ({"rule": None}, "RuleLabelMissing", "add mind-cluster/scaling-rule"),
        ({"rule": "scalin-rule"}, "RuleNotFound", "did you mean scaling-rule?"),
        (
            {"rule": None, "mind-cluster/scaling_rule": "scaling-rule"},
            "LabelMisspelt",
            "mind-cluster/scaling-rule",
        ),
        (
            {"group": None, "mind-cluster/groupname": "prefill"},
            "LabelMisspelt",
            "mind-cluster/group-name: prefill",
        ),
        ({"job_id": None, "jobId": "qwen"}, "LabelMisspelt", "write jobID: qwen"),
        ({"app": "mindeie-ms-server"}, "AppUnknown", "write app: mindie-ms-server"),
    ],
)
def test_labels_are_judged_where_the_kind_has_them(
    make: Any, labels: dict[str, Any], code: str, hint: str
) -> None:
    found = linted(make(template(**labels), 1)).findings
    assert [one.code for one in found] == [code]
    assert hint in found[0].hint
    assert found[0].line > 1


@pytest.mark.parametrize("make", MANY)
def test_the_size_of_an_instance_is_compared_with_the_rule(make: Any) -> None:
    assert codes(make(template(group="decode"), 2)) == []
    assert set(codes(make(template(group="decode"), 3))) == {"InstanceSizeMismatch"}
    assert set(codes(make(template(group="prefill"), 2))) == {"InstanceSizeMismatch"}


def test_each_pod_of_a_deployment_is_an_instance() -> None:
    assert codes(deployment(template(group="decode"), 1)) == ["InstanceSizeMismatch"]


@pytest.mark.parametrize("make", ALL)
def test_a_misspelt_gate_that_nobody_would_take_off_is_an_error(make: Any) -> None:
    broken = template()
    broken["spec"]["schedulingGates"] = [{"name": "other/gate"}, {"name": "mind-cluster/hodl"}]
    assert set(codes(make(broken, 1))) == {"GateUnknown"}
    broken["spec"]["schedulingGates"] = [{"name": "other/gate"}]
    assert codes(make(broken, 1)) == []


def test_gates_and_labels_belong_into_both_templates_of_an_instance() -> None:
    bare: dict[str, Any] = {"metadata": {}, "spec": {}}
    ungated = template(group="decode")
    other = template(job_id="chat", group="decode")
    ungated["spec"] = {}
    for worker, code in (
        (bare, "LabelsNotOnAll"),
        (ungated, "GateNotOnAll"),
        (other, "LabelsDisagree"),
    ):
        made = leader_worker_set(template(group="decode"), 2)
        made["spec"]["leaderWorkerTemplate"]["workerTemplate"] = worker
        assert code in codes(made)
        tasks = volcano_job(template(group="decode"), 2)
        tasks["spec"]["tasks"][1]["template"] = worker
        assert code in codes(tasks)


def test_labels_where_no_pod_gets_them_are_an_error_that_says_where_they_belong() -> None:
    made = inference_service({"metadata": {"labels": {}}, "spec": {"schedulingGates": []}}, 1)
    made["metadata"]["labels"] = LABELS
    (found,) = linted(made).findings
    assert (found.code, found.hint) == ("LabelsReachNoPod", "write them at spec.engine.labels")


def test_a_router_is_no_instance() -> None:
    made = thing(
        "ome.io/v1beta1",
        "InferenceService",
        engine=component(template()),
        router=component(template()),
    )
    assert codes(made) == ["NotAnInstance"]


def test_what_waits_for_the_pods_of_all_instances_is_found() -> None:
    of = template()
    of["metadata"]["annotations"] = {"huawei.com/schedule_minAvailable": "4"}
    (found,) = linted(deployment(of, 1)).findings
    assert (found.code, found.level) == ("MinAvailableTooBig", "warning")


def test_a_number_as_a_label_is_refused_by_the_api_server_in_every_kind() -> None:
    assert "LabelNotAString" in codes(deployment(template(job_id=12), 1))  # type: ignore[arg-type]


def test_a_kind_that_nobody_knows_is_found_by_its_labels() -> None:
    made = thing("example.com/v1", "Thing", parts=[{"template": template(group="prefil")}])
    assert codes(made) == ["KindUnknown", "GroupUnknown"]


@pytest.mark.parametrize("key", ["entryTemplate", "workerTemplate", "leaderPodTemplate", "pod"])
def test_a_pod_template_of_an_unknown_kind_may_have_any_name(key: str) -> None:
    """Whatever it is called: it has labels and containers, or a name that says so."""
    made = thing("example.com/v1", "Thing", roles=[{key: template(job_id=None)}])
    assert codes(made) == ["KindUnknown", "JobIdMissing"]
    in_a_list = thing("example.com/v1", "Thing", pods=[template(job_id=None)])
    assert codes(in_a_list) == ["KindUnknown", "JobIdMissing"]


def test_each_pod_template_of_an_unknown_kind_is_looked_at() -> None:
    both = {"entryTemplate": template(group="prefil"), "workerTemplate": template(job_id=None)}
    made = thing("workload.serving.volcano.sh/v1alpha1", "ModelServing", roles=[both])
    assert codes(made) == ["KindUnknown", "GroupUnknown", "JobIdMissing"]


def test_labels_of_an_unknown_kind_that_are_in_no_pod_template_are_not_taken_for_some() -> None:
    made = thing("example.com/v1", "Thing", parts=[{"metadata": {"labels": LABELS}, "spec": {}}])
    assert codes(made) == []


def test_a_daemon_set_is_no_service() -> None:
    made = thing("apps/v1", "DaemonSet", template=template())
    assert codes(made) == ["PodOnEveryNode"]
    bare = thing("apps/v1", "DaemonSet", template={"metadata": {"labels": {}}})
    assert "PodOnEveryNode" not in codes(bare)


@pytest.mark.parametrize(
    ("version", "kind", "name", "code"),
    [
        ("apps/v1", "Deployment", "Qwen", "NameInvalid"),
        ("apps/v1", "Deployment", "qwen_1", "NameInvalid"),
        ("apps/v1", "Deployment", "q" * 254, "NameInvalid"),
        ("apps/v1", "Deployment", "7b", ""),
        ("apps/v1", "StatefulSet", "q" * 52, ""),
        ("apps/v1", "StatefulSet", "q" * 53, "NameTooLong"),
        ("batch/v1", "Job", "q" * 64, "NameTooLong"),
        ("batch/v1", "CronJob", "q" * 53, "NameTooLong"),
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "7b", "NameInvalid"),
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "q" * 51, "NameTooLong"),
        ("batch.volcano.sh/v1alpha1", "Job", "q" * 55, "NameTooLong"),
        ("batch.volcano.sh/v1alpha1", "Job", "q" * 54, ""),
    ],
)
def test_a_name_of_which_no_other_can_be_made_is_an_error(
    version: str, kind: str, name: str, code: str
) -> None:
    of = template()
    parts: dict[str, Any] = {"template": of}
    if kind == "CronJob":
        parts = {"jobTemplate": {"spec": {"template": of}}}
    elif kind == "LeaderWorkerSet":
        parts = {"replicas": 1, "leaderWorkerTemplate": {"size": 1, "workerTemplate": of}}
    elif version.startswith("batch.volcano"):
        parts = {"tasks": [{"name": "server", "replicas": 1, "template": of}]}
    made = thing(version, kind, **parts)
    made["metadata"]["name"] = name
    assert [one for one in codes(made) if one.startswith("Name")] == ([code] if code else [])


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("7b-p0", "NameInvalid"),
        ("qwen.p0", "NameInvalid"),
        ("Qwen-p0", "NameInvalid"),
        ("d" * 55, "NameTooLong"),
        ("d" * 54, ""),
    ],
)
def test_the_service_of_an_ascend_job_needs_a_name(name: str, code: str) -> None:
    found = codes(job().replace("name: server-p0", f"name: {name}"))
    assert [one for one in found if one.startswith("Name")] == ([code] if code else [])


@pytest.mark.parametrize("make", ALL)
def test_a_workload_without_our_labels_is_not_called_checked(make: Any) -> None:
    bare = make({"metadata": {"labels": {}}, "spec": {"schedulingGates": []}}, 1)
    kind = bare["kind"]
    alone = linted(bare, rule="")
    assert [one.code for one in alone.findings] == ["NothingToCheck"]
    assert f"1 {kind} without a rule" in alone.findings[0].message
    assert "labels" in alone.findings[0].hint
    assert (alone.checked, alone.left_out) == ({}, {f"{kind} without a rule": 1})
    assert codes(bare) == ["NamesNoRule"]


def test_what_is_made_by_another_object_in_the_files_is_judged_there() -> None:
    made = deployment(template(), 1)
    pod = thing("v1", "Pod")
    replicas = thing("apps/v1", "ReplicaSet", template=template(group="an-older-one"))
    replicas["metadata"]["ownerReferences"] = [
        {"kind": "Deployment", "name": "qwen", "controller": True}
    ]
    pod["metadata"] |= {
        "labels": {**LABELS, "mind-cluster/group-name": "gruop"},
        "ownerReferences": [{"kind": "X"}],
    }
    report = linted(made, replicas, pod)
    assert [(one.code, one.file) for one in report.findings] == [("GroupUnknown", "f2")]
    assert report.checked == {"rule": 1, "Deployment": 1, "Pod": 1}


def test_a_job_that_admission_has_moved_is_judged_by_the_rule_it_named() -> None:
    moved = job(
        rule="",
        namespace="namespace: ns",
        group="    mind-cluster/group-name: decod\n",
        annotations="  annotations: {mind-cluster/moved-scaling-rule: scaling-rule}\n",
    )
    assert codes(moved) == ["GroupUnknown"]


def test_a_gate_in_the_template_of_an_ascend_job_holds_nothing() -> None:
    gated = job(namespace="namespace: ns", group="    mind-cluster/group-name: decode\n").replace(
        "        spec:\n",
        "        spec:\n          schedulingGates: [{name: mind-cluster/hold}]\n",
        1,
    )
    assert codes(gated) == ["GateDropped"]


@pytest.mark.parametrize("name", ["mindeie-ms-server", "mindie-ms-sever", "mindie-ms-contoller"])
def test_a_misspelt_app_of_a_job_is_found_and_corrected_on_the_job_and_on_its_pods(
    name: str,
) -> None:
    right = "mindie-ms-controller" if "cont" in name else "mindie-ms-server"
    broken = job().replace("app: mindie-ms-server", f"app: {name}")
    labelled = f"      template:\n        metadata: {{labels: {{app: {name}}}}}\n"
    pods = broken.replace("      template:\n", labelled, 1)
    assert [one for one in codes(pods, rule="") if one == "AppUnknown"] == ["AppUnknown"] * 2
    result = repair(Source("f", pods.encode()))
    assert f"app: {right}" in result.text


@pytest.mark.parametrize("make", ALL)
def test_fix_mends_labels_of_every_kind(make: Any) -> None:
    wrong = template(
        rule=None,
        group="prefil",
        job_id=None,
        jobid="qwen",
        **{"mind-cluster/scaling-rules": "scaling-rule"},
    )
    wrong["spec"]["schedulingGates"] = [{"name": "mind-cluster/hodl"}]
    whole = yaml.safe_dump(make(wrong, 1), sort_keys=False) + "---\n" + RULE
    result = repair(Source("f", whole.encode()))
    assert result.remaining == []
    assert codes(result.text, rule="") == []


@pytest.mark.parametrize(
    ("wrong", "group"), [("group-b", "group-a"), ("group2", "group1"), ("prefill2", "prefill1")]
)
def test_what_may_be_another_word_is_not_mended(wrong: str, group: str) -> None:
    rule = config_map(text({group: 1}), namespace="ns")
    whole = yaml.safe_dump(deployment(template(group=wrong), 1), sort_keys=False) + "---\n" + rule
    result = repair(Source("f", whole.encode()))
    assert (result.changed, [one.code for one in result.remaining]) == (0, ["GroupUnknown"])


@pytest.mark.parametrize("folder", sorted(one.name for one in EXAMPLES.iterdir() if one.is_dir()))
def test_the_examples_are_checked_and_clean(folder: str) -> None:
    report = lint(
        [
            Source(str(file), file.read_bytes())
            for file in sorted((EXAMPLES / folder).glob("*.yaml"))
        ]
    )
    assert report.findings == []
    assert report.rules == 1
    assert report.jobs >= 1


def test_a_misspelt_kind_is_asked_about() -> None:
    (found,) = linted({"apiVersion": "x/v1", "kind": "StormServce", "spec": {}}, rule="").findings
    assert (found.code, found.hint) == ("NothingToCheck", "did you mean kind: StormService?")
    assert "StormService" in KINDS


def test_samples_of_every_kind_are_looked_at_and_none_is_called_checked(real_data: Path) -> None:
    files = [
        *real_data.glob("workload_samples/*/*.yaml"),
        *real_data.glob("deploy_tool/*/objects.yaml"),
    ]
    assert len(files) > 50
    for file in files:
        report = lint([Source(file.name, file.read_bytes())])
        assert report.checked == {}, file
        assert {one.code for one in report.findings} <= {"NothingToCheck", "NotARule"}, file
        assert report.findings, file


def test_labelled_samples_of_every_kind_are_judged(real_data: Path) -> None:
    judged = set()
    for file in [
        *real_data.glob("workload_samples/*/*.yaml"),
        *real_data.glob("deploy_tool/*/objects.yaml"),
    ]:
        for found in yaml.safe_load_all(file.read_text()):
            if (
                isinstance(found, dict)
                and found.get("kind") in KINDS
                and found["kind"] not in ("AscendJob", "Pod")
            ):
                label_all(found)
                report = linted(found, rule="")
                judged |= set(report.checked)
                assert "RuleNotFound" in {one.code for one in report.findings}, file
    assert judged >= {
        "Deployment",
        "Job",
        "LeaderWorkerSet",
        "StormService",
        "InferServiceSet",
        "InferenceService",
    }
    assert "ClusterServingRuntime" in judged


def label_all(value: Any) -> None:
    """Write the three labels into every pod template and every component of OME."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in list(inner):
        label_all(one)
    if isinstance(value, dict):
        for name in ("template", "leaderTemplate", "workerTemplate"):
            if isinstance(value.get(name), dict) and "containers" in (
                value[name].get("spec") or {}
            ):
                value[name].setdefault("metadata", {}).setdefault("labels", {}).update(LABELS)
        for name in ("engine", "decoder", "engineConfig", "decoderConfig"):
            if isinstance(value.get(name), dict):
                value[name].setdefault("labels", {}).update(LABELS)


def test_a_role_whose_labels_were_forgotten_is_named_and_a_router_is_not() -> None:
    made = storm_service(template(), 1)
    bare = {"name": "decode", "podGroupSize": 2, "template": {"spec": {"containers": []}}}
    made["spec"]["template"]["spec"]["roles"].append(bare)
    (found,) = linted(made).findings
    assert (found.code, found.level) == ("RoleWithoutLabels", "warning")
    assert "role decode" in found.message
    made = inference_service(template(), 1)
    made["spec"] |= {"decoder": {"minReplicas": 1}, "router": {"minReplicas": 1}}
    assert codes(made) == ["RoleWithoutLabels"]


def test_aliases_that_unfold_to_millions_cost_little() -> None:
    wide = "[" + ", ".join(["*a"] * 900) + "]"
    text = f"kind: Thing\na: &a {{x: {{y: 1}}}}\nb: &b {wide}\nc: &c {wide.replace('*a', '*b')}\n"
    text += f"d: {wide.replace('*a', '*c')}\n"
    assert [one.code for one in linted(text, rule="").findings] == ["NothingToCheck"]
