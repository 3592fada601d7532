"""Judges AscendJobs of an inference service where they stand in a file: what keeps them from ever being served.

Only what the manifest itself shows, plus the rule where it is among the linted files. Queues, nodes and images are
the cluster's business. Jobs that are no part of such a service (training) are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from scaler.names import GROUP_LABEL, JOB_ID_LABEL, RULE_LABEL
from scaler.rules.finding import Fault, Finding, Path, shown
from scaler.rules.jobspec import job_faults
from scaler.rules.labels import group_fault, label_faults
from scaler.rules.rule import Rule
from scaler.tools.linting.manifest import Object, Value
from scaler.tools.linting.metadata import metadata_findings

API_VERSION = "mindxdl.gitee.com/v1"
NPU_PREFIX = "huawei.com/"
SPECS_PATH = ("spec", "replicaSpecs")

_FAULT_SCHEDULING = ("grace", "force", "off")
_DEPTH = 12
"""Levels of a manifest down to all that is checked; deeper ones need not be read."""
_SPEC_FIELDS = ("schedulerName", "runPolicy", "successPolicy", "replicaSpecs")


def is_service_job(found: Object) -> bool:
    """An AscendJob with a rule or group label, or MindIE's controller or coordinator (labels `app` and `jobID`)."""
    labels = found.root.get("metadata", "labels")
    if found.kind != "AscendJob" or labels is None:
        return False
    names = {key.text for key, _ in labels.members}
    return bool(names & {RULE_LABEL, GROUP_LABEL}) or {"app", JOB_ID_LABEL} <= names


def rule_name(found: Object) -> str:
    """The rule that a job names, "" when it names none."""
    return found.root.string_at("metadata", "labels", RULE_LABEL)


def check_job(found: Object, find_rule: Callable[[Object], tuple[bool, Rule | None]]) -> list[Finding]:
    """All findings on one job. `find_rule` says whether its rule is among the files, and gives it if it is valid."""
    job = _Job(found)
    findings = [*metadata_findings(found), *_belonging(job), *_shape(job), *_makeable(job), *_scheduling(job)]
    findings += [*_fault_scheduling(job), *_retries(job), *_containers(job), *_super_pod(job)]
    if rule_name(found):
        findings += _against_rule(job, *find_rule(found))
    return findings


class _Job:
    """One job and its handful of values that several checks need."""

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
        return {part: value.plain(_DEPTH) for part in ("metadata", "spec") if (value := self.root.get(part))}

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


def _belonging(job: _Job) -> Iterator[Finding]:
    """The three labels that say which service, and which group of it, an instance belongs to."""
    members = job.labels.members if job.labels else []
    for fault in label_faults({key.text: value.text for key, value in members}, "this job"):
        yield _placed(job, fault)


def _placed(job: _Job, fault: Fault) -> Finding:
    return job.finding(fault.path, fault.code, fault.message, fault.hint, fault.level)


def _shape(job: _Job) -> Iterator[Finding]:
    version = job.root.string_at("apiVersion")
    if version != API_VERSION:
        message = f"an AscendJob of {shown(version)}; the API server knows {API_VERSION} only"
        yield job.finding(("apiVersion",), "ApiVersionUnknown", message, f"write apiVersion: {API_VERSION}")
    spec = job.root.get("spec")
    for key, _ in spec.members if spec else []:
        if key.text not in _SPEC_FIELDS:
            message = f"an AscendJob has no field spec.{key.text}; the API server drops it"
            yield job.finding(("spec", key.text), "UnknownField", message, "is it misspelt?", "warning")


def _fault_scheduling(job: _Job) -> Iterator[Finding]:
    value = job.label("fault-scheduling")
    if value and value not in _FAULT_SCHEDULING:
        path = ("metadata", "labels", "fault-scheduling")
        message = f"fault-scheduling {shown(value)} is not known and counts as off"
        yield job.finding(path, "FaultSchedulingUnknown", message, "write grace, force or off", "warning")


def _retries(job: _Job) -> Iterator[Finding]:
    value = job.label("fault-retry-times")
    if value and not (value.isascii() and value.isdigit()):
        path = ("metadata", "labels", "fault-retry-times")
        message = f"fault-retry-times {shown(value)} is no number and counts as 0: a pod that fails ends the job"
        yield job.finding(path, "RetryTimesInvalid", message, "write how many retries, in quotes", "warning")


def _makeable(job: _Job) -> Iterator[Finding]:
    """What keeps pods from being made of it: the controller's own checks, each shown where it stands."""
    for fault in job_faults(job.plain):
        yield _placed(job, fault)


def _scheduling(job: _Job) -> Iterator[Finding]:
    path = ("spec", "runPolicy", "schedulingPolicy", "minAvailable")
    value = job.root.get(*path)
    if value is None:
        return
    if value.integer is None:
        message = f"minAvailable is {shown(value.text)}, not an integer: the API server refuses the job"
        yield job.finding(path, "MinAvailableInvalid", message, "write the number of pods, without quotes")
    elif job.pods is not None and value.integer > job.pods:
        message = f"minAvailable {value.integer}, but the job has {_pods(job.pods)}: its PodGroup can never run"
        yield job.finding(path, "MinAvailableTooBig", message, f"write {job.pods}", "warning")


def _containers(job: _Job) -> Iterator[Finding]:
    for name, spec in job.specs:
        main = _main_container(spec)
        if main is not None:
            yield from _npu_limits(job, (*SPECS_PATH, name, "template", "spec", "containers"), name, main)


def _main_container(spec: Value) -> Value | None:
    containers = spec.get("template", "spec", "containers")
    return next((one for one in containers.items if one.string_at("name") == "ascend"), None) if containers else None


def _npu_limits(job: _Job, path: Path, name: str, container: Value) -> Iterator[Finding]:
    requests, limits = container.get("resources", "requests"), container.get("resources", "limits")
    for key, value in requests.members if requests else []:
        limit = limits.get(key.text) if limits else None
        if key.text.startswith(NPU_PREFIX) and (limit is None or limit.text != value.text):
            allowed = limit.text if limit else "missing"
            message = f"{name} requests {value.text} {key.text}, its limit is {allowed}: its pods will be refused"
            yield job.finding(path, "NpuLimitDiffers", message, "write the same number in requests and limits")


def _super_pod(job: _Job) -> Iterator[Finding]:
    path = ("metadata", "annotations", "sp-block")
    block = job.root.string_at(*path)
    if not (block.isascii() and block.isdigit() and len(block) < 10):
        return
    npus = max((_npus(container) for _, spec in job.specs if (container := _main_container(spec))), default=0)
    if npus and int(block) % npus:
        message = f"sp-block {block} is no multiple of the {npus} NPUs of a pod: the job cannot be placed"
        yield job.finding(path, "SpBlockMismatch", message, f"write a multiple of {npus}", "warning")


def _npus(container: Value) -> int:
    limits = container.get("resources", "limits")
    numbers = [value.integer for key, value in limits.members if key.text.startswith(NPU_PREFIX)] if limits else []
    return max((number or 0 for number in numbers), default=0)


def _against_rule(job: _Job, present: bool, rule: Rule | None) -> Iterator[Finding]:
    if not present:
        where = f"{job.object.namespace}/" if job.object.namespace else ""
        message = f"rule {where}{rule_name(job.object)} is not among the linted files; nothing was checked against it"
        hint = "lint the rule's file together with the jobs; it must be in the jobs' namespace"
        yield job.finding(("metadata", "labels", RULE_LABEL), "RuleNotFound", message, hint, "warning")
        return
    group = job.label(GROUP_LABEL)
    if rule is None or not group:
        return
    unknown = group_fault(group, rule.groups)
    if unknown is not None:
        yield _placed(job, unknown)
        return
    size = next(ratio.sizes[group] for ratio in rule.ratios if group in ratio.sizes)
    if job.pods is not None and job.pods != size:
        message = f"the job has {_pods(job.pods)}, but the rule says server_num_per_group {size} for {shown(group)}"
        hint = "make them equal; the job's own number is what counts"
        yield job.finding(SPECS_PATH, "InstanceSizeMismatch", message, hint, "warning")
