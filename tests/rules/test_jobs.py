from __future__ import annotations

import pytest

from scaler.tools.lint.files import lint
from scaler.tools.lint.source import Source
from tests.rules.documents import SLOTS, config_map, job, text

RULE = config_map(text({"group0": (2, 2), "group1": (1, 4)}))


def findings_of(manifest: str, rule: str = RULE) -> list[tuple[str, str, str]]:
    report = lint([Source("job.yaml", manifest.encode()), Source("rule.yaml", rule.encode())])
    return [(finding.level, finding.code, finding.pointer) for finding in report.findings]


MASTER = SLOTS["master"]
WORKERS_0 = "      replicas: 0\n"
LABELS = "/metadata/labels"
RULE_AT = f"{LABELS}/mind-cluster~1scaling-rule"
GROUP_AT = f"{LABELS}/mind-cluster~1group-name"
RETRIES = f"{LABELS}/fault-retry-times"
FAULT = f"{LABELS}/fault-scheduling"
BLOCK = "/metadata/annotations/sp-block"
SPECS = "/spec/replicaSpecs"
MASTERS = f"{SPECS}/Master/replicas"
WORKERS = f"{SPECS}/Worker/replicas"
CONTAINERS = f"{SPECS}/Worker/template/spec/containers"
MIN_AT = "/spec/runPolicy/schedulingPolicy/minAvailable"

NO_MASTER = [
    ("error", "InvalidReplicaType", f"{SPECS}/Chief"),
    ("error", "InvalidReplicaType", SPECS),
]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"rule": "    mind-cluster/scaling-rule: ''\n"}, [("error", "RuleLabelEmpty", RULE_AT)]),
        ({"rule": ""}, [("warning", "RuleLabelMissing", GROUP_AT)]),
        ({"group": ""}, [("error", "GroupLabelMissing", GROUP_AT)]),
        (
            {"group": "    mind-cluster/group-name: ''\n"},
            [("error", "GroupLabelMissing", GROUP_AT)],
        ),
        ({"group": "    mind-cluster/group-name: group9\n"}, [("error", "GroupUnknown", GROUP_AT)]),
        ({"job_id": ""}, [("error", "JobIdMissing", f"{LABELS}/jobID")]),
        ({"job_id": "    jobID: 7\n"}, [("error", "LabelNotAString", f"{LABELS}/jobID")]),
        ({"job_id": "    jobID: a b\n"}, [("error", "LabelInvalid", f"{LABELS}/jobID")]),
        ({"framework": ""}, [("error", "InvalidFramework", f"{LABELS}/framework")]),
        (
            {"fault": "    fault-scheduling: Force\n"},
            [("warning", "FaultSchedulingUnknown", FAULT)],
        ),
        (
            {"fault": "    fault-retry-times: 'many'\n"},
            [
                ("info", "FaultSchedulingMissing", "/metadata/labels"),
                ("warning", "RetryTimesInvalid", RETRIES),
            ],
        ),
        (
            {"fault": "    fault-retry-times: '10'\n"},
            [("info", "FaultSchedulingMissing", "/metadata/labels")],
        ),
        (
            {"version": "mindxdl.gitee.com/v1alpha1"},
            [("error", "ApiVersionUnknown", "/apiVersion")],
        ),
        ({"namespace": "namespace: other"}, [("warning", "RuleNotFound", RULE_AT)]),
        (
            {"workers": "      replicas: 2\n", "min": "minAvailable: 3"},
            [("warning", "InstanceSizeMismatch", SPECS)],
        ),
        ({"workers": "      replicas: -1\n"}, [("error", "InvalidReplicaSpec", WORKERS)]),
        ({"workers": "      replicas: '1'\n"}, [("error", "InvalidReplicaSpec", WORKERS)]),
        (
            {"workers": "      replicas: 1001\n", "rule": "", "group": ""},
            [("error", "InvalidReplicaSpec", WORKERS)],
        ),
        (
            {"master": MASTER.replace("1", "2"), "workers": WORKERS_0},
            [("error", "InvalidReplicaSpec", MASTERS)],
        ),
        ({"master": "    Chief:\n      replicas: 1\n"}, NO_MASTER),
        ({"min": "minAvailable: 3"}, [("warning", "MinAvailableTooBig", MIN_AT)]),
        ({"min": "minAvailable: x"}, [("error", "MinAvailableInvalid", MIN_AT)]),
        ({"container": "- name: main"}, [("error", "InvalidContainer", CONTAINERS)]),
        (
            {"limits": "limits: {huawei.com/Ascend910: 4}"},
            [("error", "NpuLimitDiffers", CONTAINERS)],
        ),
        ({"limits": "limits: {}"}, [("error", "NpuLimitDiffers", CONTAINERS)]),
        (
            {"annotations": "  annotations: {sp-block: '12'}\n"},
            [("warning", "SpBlockMismatch", BLOCK)],
        ),
        ({"success": "  scalingPolicy: x\n"}, [("warning", "UnknownField", "/spec/scalingPolicy")]),
    ],
)
def test_each_fault_of_a_job_is_found_where_it_stands(
    changes: dict[str, str], expected: list[tuple[str, str, str]]
) -> None:
    assert sorted(findings_of(job(**changes))) == sorted(expected)


@pytest.mark.parametrize(
    ("block", "npus", "words"),
    [
        ("16", "16", ""),
        ("32", "16", ""),
        ("48", "16", "its 32 NPUs are no multiple of sp-block 48: MindCluster's scheduler never"),
        ("16", "8", "a pod of it asks for 8 NPUs: of several pods each asks for 16"),
    ],
)
def test_an_sp_block_is_judged_as_the_scheduler_judges_it(
    block: str, npus: str, words: str
) -> None:
    manifest = job(annotations=f"  annotations: {{sp-block: '{block}'}}\n")
    manifest = manifest.replace("Ascend910: 8", f"Ascend910: {npus}")
    report = lint([Source("job.yaml", manifest.encode()), Source("rule.yaml", RULE.encode())])
    said = [one.message for one in report.findings if one.code == "SpBlockMismatch"]
    assert [words in message for message in said] == ([True] if words else [])


@pytest.mark.parametrize(
    ("annotation", "npus", "codes"),
    [
        ("huawei.com/schedule_policy: chip2-node16", "8", []),
        ("huawei.com/schedule_policy: chip2-node16", "7", ["NpusNotWholeCards"]),
        ("huawei.com/schedule_policy: chip2-node16", "1", ["NpusNotWholeCards"]),
        ("huawei.com/schedule_policy: chip2-node17", "7", ["SchedulePolicyUnknown"]),
        ("huawei.com/schedule_policy: chip8-node8", "7", []),
        ("other: x", "7", []),
    ],
)
def test_npus_are_judged_by_the_policy_of_the_job(
    annotation: str, npus: str, codes: list[str]
) -> None:
    manifest = job(annotations=f"  annotations: {{{annotation}}}\n")
    manifest = manifest.replace("Ascend910: 8", f"Ascend910: {npus}")
    assert [code for _, code, _ in findings_of(manifest)] == codes


def test_a_job_is_not_checked_against_a_broken_rule_but_the_rule_is_reported() -> None:
    broken = config_map(text({"group7": 1}, {"group7": 2}))
    assert [code for _, code, _ in findings_of(job(), broken)] == ["GroupNumRising"]


def test_two_rules_of_one_name_decide_nothing_about_a_job() -> None:
    other = config_map(text({"group9": 1}))
    assert findings_of(job(), RULE + "---\n" + other) == []


def test_training_jobs_are_not_looked_at() -> None:
    training = (
        "apiVersion: mindxdl.gitee.com/v1\nkind: AscendJob\nmetadata: {name: t, labels: {framework:"
        " x}}\n"
    )
    assert findings_of(training) == []


def test_a_controller_job_without_rule_label_is_checked_but_needs_no_rule() -> None:
    assert findings_of(job(rule="", group="")) == []


def test_a_job_of_odd_shape_gives_findings_and_no_exception() -> None:
    for manifest in (
        "metadata: {labels: [mind-cluster/scaling-rule]}",
        "metadata: {labels: {app: [], jobID: {}}}\nspec: 3",
        "metadata: {labels: {app: a, jobID: b}}\nspec: {replicaSpecs: [1], runPolicy: []}",
    ):
        report = lint([Source("f", f"kind: AscendJob\n{manifest}\n".encode())])
        assert report.jobs == len(
            [code for code in report.findings if code.code == "ApiVersionUnknown"]
        )
