"""Checks AscendJobs of an inference service in a file: why they could never be served.

Only what the manifest itself shows, and the rule if it is among the linted files. Queues, nodes and
images are not checked, and neither are jobs of other purposes (training)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from scaler.names import JOB_ID_LABEL, MOVED_RULE, RULE_LABEL
from scaler.rules.finding import Finding, Path, shown
from scaler.rules.jobspec import job_findings
from scaler.tools.common.manifest import Object, Value
from scaler.tools.common.slips import app_faults
from scaler.tools.lint.metadata import metadata_findings
from scaler.tools.lint.roles import Pods, Rules, labels_at, names_ours, place_faults, size_faults
from scaler.tools.lint.workloads import labels_are_its_own
from scaler.workloads.npu_rules import (
    ACCELERATOR,
    POLICY,
    SP_BLOCK,
    asks_for_whole_cards,
    is_known_policy,
)
from scaler.workloads.super_pods import valid_blocks, why_no_whole_cards, why_not_placed

API_VERSION = "mindxdl.gitee.com/v1"
NPU_PREFIX = "huawei.com/"
SPECS_PATH = ("spec", "replicaSpecs")

_LABELS: Path = ("metadata", "labels")
_FAULT_SCHEDULING = ("grace", "force", "off")
MOST_PODS_OF_JOB = 10_000
"""Pods of a job that is checked pod by pod."""
_DEPTH = 12
"""Levels of a manifest that are read: no check needs deeper ones."""
_SPEC_FIELDS = ("schedulerName", "runPolicy", "successPolicy", "replicaSpecs")


def is_service_job(found: Object) -> bool:
    """An AscendJob with a rule or group label, or MindIE's controller or coordinator (labels `app`
    and `jobID`)."""
    labels = labels_at(found, _LABELS)
    return labels_are_its_own(found) and (
        names_ours(labels) or bool(_moved(found)) or {"app", JOB_ID_LABEL} <= {*labels}
    )


def rule_name(found: Object) -> str:
    """The rule in the label of a job, "" without one."""
    return found.root.string_at("metadata", "labels", RULE_LABEL) or _moved(found)


def _moved(found: Object) -> str:
    """The rule in the annotation of a job whose label admission has moved, beside Ascend
    Operator."""
    return found.root.string_at("metadata", "annotations", MOVED_RULE)


def job_label_faults(found: Object, rules: Rules) -> list[Finding]:
    """Findings about the labels of a job, and about its size against its rule."""
    job = _Job(found)
    moved = _moved(found)
    faults = list(place_faults(found, _LABELS, "this job", rules, moved=moved))
    return [
        *faults,
        *size_faults(found, _LABELS, Pods(job.pods, SPECS_PATH), rules, moved=moved),
        *_template_apps(job),
    ]


def check_job(found: Object) -> list[Finding]:
    """All other findings about one job."""
    job = _Job(found)
    findings = [*metadata_findings(found), *_shape(job), *_makeable(job), *_scheduling(job)]
    return [
        *findings,
        *_fault_scheduling(job),
        *_retries(job),
        *_containers(job),
        *_super_pod(job),
        *_whole_cards(job),
        *_gates(job),
    ]


class _Job:
    """One job and the values that several checks need."""

    def __init__(self, found: Object) -> None:
        self.object = found
        self.finding = found.finding
        self.root = found.root
        self.labels = found.root.get("metadata", "labels")
        specs = found.root.get("spec", "replicaSpecs")
        self.specs = [(key.text, value) for key, value in specs.members] if specs else []

    @property
    def plain(self) -> dict[str, Any]:
        """The parts of the job that decide whether pods can be made of it."""
        found: dict[str, Any] = {}
        for part in ("metadata", "spec"):
            if value := self.root.get(part):
                found[part] = value.plain(_DEPTH)
        return found

    def label(self, name: str) -> str:
        value = self.labels.get(name) if self.labels else None
        return value.text if value else ""

    @property
    def pods(self) -> int | None:
        """Pods of the instance, None when some number of replicas is unreadable."""
        total = 0
        for _, spec in self.specs:
            replicas = spec.get("replicas")
            count = 1 if replicas is None else replicas.integer
            if count is None or count < 0:
                return None
            total += count
        return total


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"


def _template_apps(job: _Job) -> Iterator[Finding]:
    """MindIE's own label on the pods of a role."""
    for name, _ in job.specs:
        path: Path = (*SPECS_PATH, name, "template", "metadata", "labels")
        labels = {JOB_ID_LABEL: job.label(JOB_ID_LABEL), **labels_at(job.object, path)}
        for fault in app_faults(labels):
            yield msgspec.structs.replace(fault, path=(*path, "app"))


def _gates(job: _Job) -> Iterator[Finding]:
    for name, spec in job.specs:
        if spec.get("template", "spec", "schedulingGates") is not None:
            path = (*SPECS_PATH, name, "template", "spec", "schedulingGates")
            message = "the definition of AscendJob drops gates: they hold nothing"
            hint = "let admission set them, see docs/howto/beside-ascend-operator.md"
            yield job.finding(path, "GateDropped", message, hint, "warning")


def _shape(job: _Job) -> Iterator[Finding]:
    version = job.root.string_at("apiVersion")
    if version != API_VERSION:
        message = f"an AscendJob of {shown(version)}; the API server knows {API_VERSION} only"
        yield job.finding(
            ("apiVersion",), "ApiVersionUnknown", message, f"write apiVersion: {API_VERSION}"
        )
    spec = job.root.get("spec")
    for key, _ in spec.members if spec else []:
        if key.text not in _SPEC_FIELDS:
            message = f"an AscendJob has no field spec.{key.text}; the API server drops it"
            yield job.finding(
                ("spec", key.text), "UnknownField", message, "is it misspelt?", "warning"
            )


def _fault_scheduling(job: _Job) -> Iterator[Finding]:
    value = job.label("fault-scheduling")
    if not value and job.label(RULE_LABEL):
        message = (
            "without the label fault-scheduling MindCluster's scheduler deletes no pod of the job"
            " after a fault of its node or chips: the instance stays Broken until somebody deletes"
            " them"
        )
        hint = "write fault-scheduling: force, or grace, if it is to heal by itself"
        yield job.finding(("metadata", "labels"), "FaultSchedulingMissing", message, hint, "info")
    if value and value not in _FAULT_SCHEDULING:
        path = ("metadata", "labels", "fault-scheduling")
        message = f"fault-scheduling {shown(value)} is not known and counts as off"
        yield job.finding(
            path, "FaultSchedulingUnknown", message, "write grace, force or off", "warning"
        )


def _retries(job: _Job) -> Iterator[Finding]:
    value = job.label("fault-retry-times")
    if value and not (value.isascii() and value.isdigit()):
        path = ("metadata", "labels", "fault-retry-times")
        message = (
            f"fault-retry-times {shown(value)} is no number and counts as 0: a pod that fails ends"
            " the job"
        )
        yield job.finding(
            path, "RetryTimesInvalid", message, "write how many retries, in quotes", "warning"
        )


def _makeable(job: _Job) -> Iterator[Finding]:
    """Why no pods can be made of it: the controller's own checks, each with its place."""
    for fault in job_findings(job.plain):
        yield job.object.placed(fault)


def _scheduling(job: _Job) -> Iterator[Finding]:
    path = ("spec", "runPolicy", "schedulingPolicy", "minAvailable")
    value = job.root.get(*path)
    if value is None:
        return
    if value.integer is None:
        message = (
            f"minAvailable is {shown(value.text)}, not an integer: the API server refuses the job"
        )
        yield job.finding(
            path, "MinAvailableInvalid", message, "write the number of pods, without quotes"
        )
    elif job.pods is not None and value.integer > job.pods:
        message = (
            f"minAvailable {value.integer}, but the job has {_pods(job.pods)}: its PodGroup can"
            " never run"
        )
        yield job.finding(path, "MinAvailableTooBig", message, f"write {job.pods}", "warning")


def _containers(job: _Job) -> Iterator[Finding]:
    for name, spec in job.specs:
        main = _main_container(spec)
        if main is not None:
            yield from _npu_limits(
                job, (*SPECS_PATH, name, "template", "spec", "containers"), name, main
            )


def _main_container(spec: Value) -> Value | None:
    containers = spec.get("template", "spec", "containers")
    return (
        next((one for one in containers.items if one.string_at("name") == "ascend"), None)
        if containers
        else None
    )


def _npu_limits(job: _Job, path: Path, name: str, container: Value) -> Iterator[Finding]:
    requests = container.get("resources", "requests")
    limits = container.get("resources", "limits")
    for key, value in requests.members if requests else []:
        limit = limits.get(key.text) if limits else None
        if key.text.startswith(NPU_PREFIX) and (limit is None or limit.text != value.text):
            allowed = limit.text if limit else "missing"
            message = (
                f"{name} requests {value.text} {key.text}, its limit is {allowed}: its pods will be"
                " refused"
            )
            yield job.finding(
                path, "NpuLimitDiffers", message, "write the same number in requests and limits"
            )


def _super_pod(job: _Job) -> Iterator[Finding]:
    path = ("metadata", "annotations", "sp-block")
    block = job.root.string_at(*path)
    pods = _npus_of_pods(job)
    if not (block.isascii() and block.isdigit() and len(block) < 10) or pods is None:
        return
    valid = ", ".join(map(str, valid_blocks(pods)[:4]))
    hint = f"write {valid}" if valid else "ask for 16 NPUs in each pod"
    why = "; ".join(why_not_placed(int(block), pods))
    if why:
        message = f"{why}: MindCluster's scheduler never starts the job"
        yield job.finding(path, "SpBlockMismatch", message, hint, "warning")


def _whole_cards(job: _Job) -> Iterator[Finding]:
    path = ("metadata", "annotations", POLICY)
    policy = job.root.string_at(*path)
    if policy and not is_known_policy(policy):
        message = f"MindCluster's scheduler knows no {POLICY} {shown(policy)}: it counts as absent"
        yield job.finding(path, "SchedulePolicyUnknown", message, "correct or remove it", "warning")
    pods = _npus_of_pods(job)
    is_of_blocks = bool(job.root.string_at("metadata", "annotations", SP_BLOCK))
    if pods is None or is_of_blocks or not asks_for_whole_cards(policy, _accelerator(job)):
        return
    why = why_no_whole_cards(pods)
    if why:
        message = f"{why}: MindCluster's scheduler never starts the job"
        yield job.finding(
            SPECS_PATH, "NpusNotWholeCards", message, "ask for whole cards", "warning"
        )


def _accelerator(job: _Job) -> str:
    """The `accelerator-type` of the nodes that its pods ask for; "" for none."""
    for _, spec in job.specs:
        found = spec.string_at("template", "spec", "nodeSelector", ACCELERATOR)
        if found:
            return found
    return ""


def _npus_of_pods(job: _Job) -> list[int] | None:
    """The NPUs of each pod of the job; None when some number is unreadable, or too large for a
    job."""
    if job.pods is None or job.pods > MOST_PODS_OF_JOB:
        return None
    found = []
    for _, spec in job.specs:
        container = _main_container(spec)
        replicas = spec.get("replicas")
        count = 1 if replicas is None else replicas.integer or 0
        found += [_npus(container) if container is not None else 0] * count
    return found


def _npus(container: Value) -> int:
    limits = container.get("resources", "limits")
    numbers = (
        [value.integer for key, value in limits.members if key.text.startswith(NPU_PREFIX)]
        if limits
        else []
    )
    return max((number or 0 for number in numbers), default=0)
