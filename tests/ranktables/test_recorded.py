"""Our rank tables beside those that Ascend Operator wrote for six services on a real API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scaler.informers.pods import read_pod
from scaler.names import RANK_TABLE_KEY, RANK_TABLE_PREFIX
from scaler.ranktables.table import Status, rank_table
from scaler.ranktables.tables import member_of
from scaler.workloads.ascendjob import read_job

CASES = (
    "A2_1P1D_p1pod_d1pod",
    "A2_2P1D_p1pod_d1pod",
    "A2_2P1D_p2pod_d4pod",
    "A2_shipped_default_user_config",
    "A3_1P1D_p1pod_d1pod",
    "A3_2P1D_p2pod_d4pod",
)

WANTED_DIFFERENCES: dict[str, str] = {}
"""JSON path -> reason. The text of a completed table differs in nothing: order of keys, servers and
devices included.

What differs is outside of it, and listed in docs/reference/ranktable.md: `version` (theirs is the
time of the write before, and 0 after a restart), the list that theirs keeps when pods are lost, and
the order of `super_pod_list`, which is random there; the recorded tables have one super pod
each."""


def items(path: Path) -> list[Any]:
    found = json.loads(path.read_text())
    listed: list[Any] = found["items"] if isinstance(found, dict) else found
    return listed


@pytest.mark.parametrize("case", CASES)
def test_the_recorded_tables_are_reproduced_byte_for_byte(real_data: Path, case: str) -> None:
    folder = real_data / "ao_objects" / case
    pods = items(folder / "pods.json")
    recorded = {cm["metadata"]["name"]: cm["data"] for cm in items(folder / "configmaps.json")}
    compared = 0
    for obj in items(folder / "ascendjobs.json"):
        job = read_job(obj)
        members = [
            member_of(record) for pod in pods if (record := read_pod(pod)).owner_uid == job.uid
        ]
        theirs = recorded.get(RANK_TABLE_PREFIX + job.name)
        if theirs is None:
            continue
        ours = rank_table(job, obj, members)
        assert ours.problem == ""
        assert ours.status is Status.COMPLETED
        assert ours.text == theirs[RANK_TABLE_KEY]
        compared += 1
    assert compared >= 2
    assert WANTED_DIFFERENCES == {}
