"""What the scheduler says of an instance and left out on its pods, from the objects it writes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scaler.informers.pods import read_pod
from scaler.informers.records import OwnedObject, OwnedRecord, owned_record
from scaler.reasons.warnings import Warning
from scaler.state.scheduler import as_scheduled, without_rank
from scaler.timestamps import rfc3339
from scaler.workloads.npu_rules import NO_JOB, NpuJob
from tests.builders import NOW, instance

REFUSAL = ("JobValidateFailed", "InvalidArgument: sp-block(8) is not mutiple of node npu (16)")
NO_BLOCK = ("BatchOrderFailed", "not enough virtual super-pod to schedule")


def group(*said: tuple[str, str], at: float = NOW, phase: str = "Inqueue") -> OwnedRecord:
    """The record of a PodGroup of which the last session said this."""
    conditions = []
    for reason, message in said:
        condition = {
            "type": "Unschedulable",
            "status": "True",
            "reason": reason,
            "message": message,
            "transitionID": "9",
            "lastTransitionTime": rfc3339(at),
        }
        conditions.append(condition)
    return read({"phase": phase, "conditions": conditions})


def read(status: Any) -> OwnedRecord:
    raw = {"metadata": {"name": "p0-1", "namespace": "default"}, "status": status}
    return owned_record(msgspec.json.decode(msgspec.json.encode(raw), type=OwnedObject))


def test_a_podgroup_that_waits_says_why_in_words_that_stay() -> None:
    first = group(("JobEnqueueFailed", "require npu num is 32, but cluster npu num is 31"))
    other = group(("JobEnqueueFailed", "require npu num is 32, but cluster npu num is 30"))
    assert first.said == other.said
    assert first.said.startswith("JobEnqueueFailed: its PodGroup is not in the queue")
    assert "free some" in first.said
    assert group(NO_BLOCK, phase="Running").said == ""


@pytest.mark.parametrize("status", [{"phase": "Inqueue", "conditions": "?"}, None, [], "x", {}])
def test_a_status_that_cannot_be_read_says_nothing(status: Any) -> None:
    assert (read(status).said, read(status).is_refused) == ("", False)


def test_what_waits_says_what_the_scheduler_says() -> None:
    waits = instance("p0", "Admitted", newest=NOW - 60)
    found = as_scheduled(waits, group(NO_BLOCK), NO_JOB)
    assert found.scheduler_says.startswith("BatchOrderFailed: ")
    assert found.never_placed == ""
    for state in ("Held", "Running"):
        assert as_scheduled(instance("p0", state), group(NO_BLOCK), NO_JOB).scheduler_says == ""


def test_a_job_that_is_refused_whole_is_never_placed() -> None:
    waits = instance("p0", "Admitted", newest=NOW - 60)
    asks = NpuJob(block="8")
    found = as_scheduled(waits, group(REFUSAL), asks)
    assert found.never_placed == ": ".join(REFUSAL)
    assert found.asks != as_scheduled(waits, group(REFUSAL), NpuJob(block="16")).asks


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"newest": NOW - 60, "expected": 3}, REFUSAL),
        ({"newest": NOW - 60, "terminating": 1}, REFUSAL),
        ({"newest": NOW - 60}, ("JobValidateFailed", "NotEnoughPod: task num 1 less than 2")),
        ({"newest": NOW - 60}, NO_BLOCK),
    ],
)
def test_what_was_said_of_a_part_of_the_pods_is_not_final(
    changes: dict[str, Any], said: tuple[str, str]
) -> None:
    waits = instance("p0", "Admitted", **changes)
    assert as_scheduled(waits, group(said), NO_JOB).never_placed == ""


def pod(name: str, node: str = "a3-0", **annotations: str) -> Any:
    named = {key.replace("_", "-"): value for key, value in annotations.items()}
    owner = {
        "apiVersion": "mindxdl.gitee.com/v1",
        "kind": "AscendJob",
        "name": "d0",
        "uid": "u",
        "controller": True,
    }
    meta = {
        "name": name,
        "namespace": "default",
        "annotations": named,
        "ownerReferences": [owner],
    }
    return read_pod({"metadata": meta, "spec": {"nodeName": node}})


def test_a_bound_pod_without_a_rank_in_its_super_pod_is_said() -> None:
    """The scheduler writes an empty rank where one of its sessions saw a part of the pods."""
    bad = [pod(f"d0-{n}", super_pod_id="3", super_pod_rank="") for n in range(6)]
    good = pod("d0-6", super_pod_id="3", super_pod_rank="0")
    ((warning, words),) = without_rank([*bad, good])
    assert warning is Warning.SUPER_POD_RANK_MISSING
    assert words.startswith("d0-0, d0-1, d0-2, d0-3 and 2 more: bound without super-pod-rank")


def test_a_pod_that_has_no_rank_by_right_is_not_said() -> None:
    flat = pod("p0-0", AscendReal="Ascend910-0")
    unbound = pod("p0-1", node="", super_pod_id="3")
    assert without_rank([flat, unbound, pod("p0-2", super_pod_id="3", super_pod_rank="1")]) == ()
