"""The ConfigMap of a rank table: what stands in the way of a write, and what a write says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.informers.config_maps import RankTableMap, content_of
from scaler.kube.api import Object
from scaler.ranktables.table import INITIALIZING, RankTable, Status
from scaler.ranktables.tables import is_current, merge_patch, next_version, obstacle
from scaler.reasons.warnings import Warning
from scaler.tools.takeover.first_pass import status_of
from scaler.workloads.ascendjob import read_job
from tests import jobs

DONE = RankTable.of(Status.COMPLETED, '{"status":"completed","server_list":[]}')


def rings(text: str | None = INITIALIZING.text, **changes: Any) -> RankTableMap:
    return RankTableMap(
        "mindie", "rings-config-p0", "u9", "17", text, **content_of(text), **changes
    )


def job(*, mounts: bool = True) -> Object:
    obj = jobs.job("p0", uid="u1")
    if mounts:
        spec = obj["spec"]["replicaSpecs"]["Master"]["template"]["spec"]
        spec["volumes"] = [{"name": "config", "configMap": {"name": "rings-config-p0"}}]
    return obj


@pytest.mark.parametrize(
    ("there", "warning", "words"),
    [
        (
            None,
            Warning.RANK_TABLE_MISSING,
            "ConfigMap rings-config-p0, which its pods mount, does not exist",
        ),
        (
            rings(controller="Job x", controller_uid="other"),
            Warning.RANK_TABLE_NOT_OURS,
            "belongs to Job x",
        ),
        (rings(immutable=True), Warning.RANK_TABLE_IMMUTABLE, "is immutable"),
        (rings(None, binary=True), Warning.RANK_TABLE_WRONG_SHAPE, "binaryData"),
        (rings(other_bytes=1_000_000), Warning.RANK_TABLE_TOO_LARGE, "more than 1000000"),
    ],
)
def test_what_stands_in_the_way_has_one_name_and_says_what_to_do(
    there: RankTableMap | None, warning: Warning, words: str
) -> None:
    found = obstacle(there, read_job(job()), True, DONE)
    assert found is not None
    assert found.warning is warning
    assert words in found.message


def test_nothing_is_said_where_no_table_was_asked_for_or_all_is_well() -> None:
    without = job(mounts=False)
    assert obstacle(None, read_job(without), False, DONE) is None
    assert obstacle(rings(), read_job(job()), True, DONE) is None
    assert (
        obstacle(rings(controller="AscendJob p0", controller_uid="u1"), read_job(job()), True, DONE)
        is None
    )


def test_what_is_wrong_with_the_chips_is_said_where_a_table_was_asked_for() -> None:
    table = RankTable.of(Status.INITIALIZING, INITIALIZING.text, "pod p0-master-0 names no devices")
    found = obstacle(rings(), read_job(job()), True, table)
    assert found is not None
    assert (found.warning, "names no devices" in found.message) == (
        Warning.DEVICE_DATA_INVALID,
        True,
    )


@pytest.mark.parametrize("text", [INITIALIZING.text, '{ "status": "initializing" }\n'])
def test_a_document_that_says_it_already_needs_no_write(text: str) -> None:
    assert is_current(rings(text), INITIALIZING)


@pytest.mark.parametrize(
    "text", [None, "", "nonsense", "[" * 5000, '{"status":"initializing","server_list":[1]}', "[]"]
)
def test_any_other_document_is_written_anew(text: str | None) -> None:
    assert not is_current(rings(text), INITIALIZING)


def test_a_write_names_the_object_that_was_looked_at_and_only_two_keys() -> None:
    assert merge_patch(rings(version="5"), DONE, now=1_700_000_000.9) == {
        "metadata": {"uid": "u9", "resourceVersion": "17"},
        "data": {"hccl.json": DONE.text, "version": "1700000000"},
    }


@given(st.text(max_size=20) | st.integers(0, 10**20).map(str), st.floats(0, 4e9))
def test_the_version_only_ever_grows(previous: str, now: float) -> None:
    after = int(next_version(previous, now))
    assert after >= int(now)
    if previous.isascii() and previous.isdecimal() and len(previous) <= 18:
        assert after > int(previous)


@given(st.text(max_size=50))
def test_the_status_of_any_text_is_a_word_or_nothing(text: str) -> None:
    assert status_of(text) == ""
    assert status_of(DONE.text) == "completed"
