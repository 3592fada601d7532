"""The size of a Volcano Job: what its object says of it, and the patch that writes another one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.kube.api import Object
from scaler.names import FULL_SIZE, SIZE
from scaler.sim.apiserver.patches import json_patch
from scaler.workloads.volcanojob_sizes import SizedTask, size_patch, sized_task
from tests.workloads.test_run_policy import JSON
from tests.workloads.test_volcanojob import task, vcjob


def job(*tasks: Object, **spec: Any) -> Object:
    made = vcjob(*tasks, **spec)
    made["metadata"]["resourceVersion"] = "7"
    return made


def at_size(obj: Object, *sizes: int) -> Object:
    """After these sizes, one after the other."""
    for size in sizes:
        obj = json_patch(obj, size_patch(obj, size))
    return obj


def launcher() -> Object:
    made = task("launcher", 1, minAvailable=1)
    made["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return made


def numbers(obj: Object) -> tuple[Any, list[tuple[Any, Any]]]:
    spec = obj["spec"]
    return spec.get("minAvailable"), [
        (one["replicas"], one.get("minAvailable")) for one in spec["tasks"]
    ]


def test_one_patch_changes_all_numbers_of_the_size_and_keeps_the_full_one() -> None:
    obj = job(task("worker", 8, minAvailable=8), minAvailable=8)
    assert sized_task(obj) == SizedTask(0, "worker", recorded=8, full=8)
    smaller = at_size(obj, 4)
    assert numbers(smaller) == (4, [(4, 4)])
    assert smaller["metadata"]["annotations"] == {
        FULL_SIZE: '{"minAvailable":8,"tasks":{"worker":[8,8]}}',
        SIZE: "4.u1",
    }
    assert sized_task(smaller) == SizedTask(0, "worker", recorded=4, full=8)
    assert numbers(at_size(smaller, 2, 8)) == (8, [(8, 8)])


def test_a_task_without_npus_stays() -> None:
    obj = job(launcher(), task("worker", 8, minAvailable=6), minAvailable=9)
    assert sized_task(obj) == SizedTask(1, "worker", recorded=8, full=8)
    assert numbers(at_size(obj, 4)) == (5, [(1, 1), (4, 4)])
    assert numbers(at_size(obj, 4, 8)) == (9, [(1, 1), (8, 6)])


def test_a_gang_of_fewer_than_all_pods_stays_as_small_as_people_wrote() -> None:
    obj = job(task("worker", 8), minAvailable=3)
    assert numbers(at_size(obj, 4)) == (3, [(4, None)])
    assert numbers(at_size(obj, 2)) == (2, [(2, None)])
    assert numbers(at_size(obj, 2, 8)) == (3, [(8, None)])


def test_a_size_that_stands_there_is_not_written_again() -> None:
    smaller = at_size(job(task("worker", 8), minAvailable=8), 4)
    assert size_patch(smaller, 4) == []


def test_replicas_that_somebody_edits_are_the_new_full_size() -> None:
    """3d.9."""
    edited = at_size(job(task("worker", 8), minAvailable=8), 4)
    edited["spec"]["tasks"][0]["replicas"] = 6
    edited["spec"]["minAvailable"] = 6
    assert sized_task(edited) == SizedTask(0, "worker", recorded=6, full=6)
    assert numbers(at_size(edited, 2, 6)) == (6, [(6, None)])


def test_annotations_that_were_copied_from_another_job_say_nothing() -> None:
    copied = at_size(job(task("worker", 8), minAvailable=8), 4)
    copied["metadata"]["uid"] = "u2"
    assert sized_task(copied) == SizedTask(0, "worker", recorded=4, full=4)


def test_a_patch_is_only_for_the_job_as_it_was_read() -> None:
    patch = size_patch(job(task("worker", 8)), 4)
    tested = {one["path"]: one["value"] for one in patch if one["op"] == "test"}
    assert tested == {
        "/metadata/uid": "u1",
        "/metadata/resourceVersion": "7",
        "/spec/tasks/0/name": "worker",
    }
    assert {one["op"] for one in patch} == {"test", "add"}


@pytest.mark.parametrize("tasks", [[launcher()], [task("a"), task("b")]])
def test_a_job_without_one_task_with_npus_has_one_size(tasks: list[Object]) -> None:
    assert sized_task(job(*tasks)) is None
    assert size_patch(job(*tasks), 1) == []


@given(JSON, JSON, JSON)
def test_any_shape_is_read(metadata: Any, spec: Any, kept: Any) -> None:
    assert sized_task({"metadata": metadata, "spec": spec}) is None
    obj = job(task("worker", 8))
    obj["metadata"]["annotations"] = {FULL_SIZE: kept, SIZE: "8.u1"}
    assert sized_task(obj) == SizedTask(0, "worker", recorded=8, full=8)


@given(st.text())
def test_any_text_about_the_full_size_is_read(text: str) -> None:
    obj = job(task("worker", 8))
    obj["metadata"]["annotations"] = {FULL_SIZE: text, SIZE: "8.u1"}
    assert sized_task(obj) is not None
