"""Why no pods can be made of an AscendJob: the checks that need only its spec and labels. Pure.

`scaler lint` and the controller call the same function, so the controller accepts the shape of
every job that lints clean. Codes are Ascend Operator's reasons. Must not raise on any shape, and
must not look at rules, queues or nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from scaler.rules.finding import Finding, Path, shown
from scaler.rules.limits import MAX_PODS
from scaler.rules.values import at

LEADER = "Master"
WORKER = "Worker"
CONTAINER = "ascend"
FRAMEWORKS = ("pytorch", "mindspore", "tensorflow")
SERVED_FRAMEWORK = "pytorch"
_SCALE_OUT = ("ROCE", "UBOE")
_SPECS: Path = ("spec", "replicaSpecs")
_LABELS: Path = ("metadata", "labels")


def job_findings(job: Mapping[str, Any]) -> tuple[Finding, ...]:
    """All errors, in the order of the object; empty when pods can be made of the job."""
    return (*_head_findings(job), *_replica_findings(at(job, "spec", "replicaSpecs")))


def read_replicas(job: Mapping[str, Any]) -> dict[str, int]:
    """Replicas per type (`Master`, `Worker`), leader first; empty if any number is invalid."""
    specs = at(job, "spec", "replicaSpecs")
    known: dict[str, int] = {}
    for name in (LEADER, WORKER):
        if name in specs:
            count = _replicas(at(specs[name]))
            if count is None:
                return {}
            known[name] = count
    return known if known.get(LEADER) == 1 else {}


def _replicas(spec: Mapping[str, Any]) -> int | None:
    value = spec.get("replicas")
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_PODS:
        return value
    return 1 if value is None else None


def _head_findings(job: Mapping[str, Any]) -> Iterator[Finding]:
    labels = at(job, "metadata", "labels")
    policy = at(job, "spec").get("successPolicy")
    framework = labels.get("framework")
    scale_out = labels.get("scaleout-type")
    if framework != SERVED_FRAMEWORK:
        message = f"label framework is {shown(framework)}, which is none of {', '.join(FRAMEWORKS)}"
        if not framework:
            message = "label framework is missing"
        elif framework in FRAMEWORKS:
            message = (
                f"label framework is {shown(framework)}; inference servers are {SERVED_FRAMEWORK}"
                " jobs"
            )
        yield Finding(
            "InvalidFramework",
            (*_LABELS, "framework"),
            message,
            f"write framework: {SERVED_FRAMEWORK}",
        )
    if isinstance(scale_out, str) and scale_out.strip() and scale_out.upper() not in _SCALE_OUT:
        message = f"label scaleout-type is {shown(scale_out)}"
        yield Finding(
            "InvalidScaleOutConfig",
            (*_LABELS, "scaleout-type"),
            message,
            "write ROCE or UBOE, or drop it",
        )
    if policy is not None and policy not in ("", "AllWorkers"):
        message = f"spec.successPolicy is {shown(policy)}"
        yield Finding(
            "InvalidSuccessPolicy",
            ("spec", "successPolicy"),
            message,
            "write AllWorkers, or drop it",
        )


def _replica_findings(specs: Mapping[str, Any]) -> Iterator[Finding]:
    if not specs:
        yield Finding(
            "InvalidSpecs", _SPECS, "spec.replicaSpecs is not set", f"add {LEADER} with replicas 1"
        )
        return
    for name, spec in specs.items():
        if name in (LEADER, WORKER):
            yield from _role_findings(name, at(spec))
        else:
            message = f"spec.replicaSpecs has {shown(name)}, which is no replica type"
            path = (*_SPECS, str(name))
            hint = f"use {LEADER} and {WORKER}"
            yield Finding("InvalidReplicaType", path, message, hint, on_key=True)
    if LEADER not in specs:
        message = f"spec.replicaSpecs has no {LEADER}: one leader replica is needed"
        yield Finding("InvalidReplicaType", _SPECS, message, f"add {LEADER} with replicas 1")


def _role_findings(name: str, spec: Mapping[str, Any]) -> Iterator[Finding]:
    path = (*_SPECS, name, "replicas")
    count = _replicas(spec)
    written = f"{name} has replicas {shown(spec.get('replicas', 1))}"
    if count is None:
        message = f"{written}, not an integer from 0 to {MAX_PODS}"
        yield Finding("InvalidReplicaSpec", path, message, "write how many pods, without quotes")
    elif name == LEADER and count != 1:
        message = f"{written}, there must be exactly 1 leader"
        yield Finding(
            "InvalidReplicaSpec", path, message, f"write 1 and put the others under {WORKER}"
        )
    path = (*_SPECS, name, "template", "spec", "containers")
    containers = at(spec, "template", "spec").get("containers")
    if (
        not isinstance(containers, list)
        or not containers
        or not all(isinstance(one, dict) for one in containers)
    ):
        yield Finding(
            "InvalidReplicaSpec",
            path,
            f"{name} has no list of containers",
            f"add one named {CONTAINER}",
        )
        return
    ours = next((one for one in containers if one.get("name") == CONTAINER), None)
    if ours is None:
        message = f"{name} has no container named {CONTAINER}"
        yield Finding(
            "InvalidContainer", path, message, f"give the main container the name {CONTAINER}"
        )
    elif not ours.get("image"):
        message = f"the container {CONTAINER} of {name} has no image"
        yield Finding("InvalidContainer", path, message, "write its image")
