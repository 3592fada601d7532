"""From the cache to a job's table: whose tables are made, and when anew."""

from __future__ import annotations

from typing import Any

from scaler.informers import pods
from scaler.informers.cache import Cache
from scaler.informers.changes import Changes, JobChanged
from scaler.informers.jobs import JobRecord, read_job_record
from scaler.ranktables.table import Status
from scaler.ranktables.tables import Tables
from tests.jobs import NAMESPACE, job
from tests.ranktables.test_table import configuration


class Seen:
    """A cache with one job of two pods that have their chips."""

    def __init__(self) -> None:
        self.version = 0
        self.followed: list[str] = []
        changes = Changes()
        self.cache = Cache(changes, lambda: 0.0)
        self.tables = Tables(self.cache)
        changes.subscribe(JobChanged, self.on_job)
        self.job()
        for number, name in enumerate(("p0-master-0", "p0-worker-0")):
            self.pod(name, number)

    def on_job(self, change: JobChanged) -> None:
        self.tables.forget(change.uid)
        self.followed.append(change.uid)

    def next_version(self) -> str:
        self.version += 1
        return str(self.version)

    def job(self, **changes: Any) -> None:
        record = read_job_record(
            job("p0", pods=2, uid="u1", resourceVersion=self.next_version(), **changes)
        )
        assert record is not None
        self.cache.jobs.apply(record)

    def pod(self, name: str, number: int, *, text: str = "", phase: str = "Running") -> None:
        key = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
        owner = {
            "apiVersion": "mindxdl.gitee.com/v1",
            "kind": "AscendJob",
            "uid": "u1",
            "name": "p0",
            "controller": True,
        }
        meta = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": name,
            "resourceVersion": self.next_version(),
            "ownerReferences": [owner],
            "annotations": {key: text or configuration(number)},
        }
        status = {"phase": phase, "podIP": f"10.0.0.{number}"}
        raw = {"metadata": meta, "spec": {"nodeName": f"n{number}"}, "status": status}
        self.cache.pods.apply(pods.read_pod(raw))

    @property
    def record(self) -> JobRecord:
        record = self.cache.jobs.get(NAMESPACE, "p0")
        assert record is not None
        return record


def test_a_table_is_made_anew_only_when_something_in_it_can_differ() -> None:
    seen = Seen()
    first = seen.tables.of(seen.record)
    assert first is not None
    assert first.table.status is Status.COMPLETED
    seen.pod("p0-worker-0", 1, phase="Pending")
    again = seen.tables.of(seen.record)
    assert again is not first
    assert again is not None
    assert again.table is first.table
    seen.job(annotations={"sp-block": "2"})
    other = seen.tables.of(seen.record)
    assert other is not None
    assert '"version":"1.2"' in other.table.text
    seen.pod("p0-worker-0", 1, phase="Failed")
    ended = seen.tables.of(seen.record)
    assert ended is not None
    assert ended.table.status is Status.INITIALIZING


def test_nothing_is_kept_of_a_job_that_is_gone() -> None:
    seen = Seen()
    seen.tables.of(seen.record)
    seen.cache.jobs.remove(NAMESPACE, "p0", "u1")
    assert seen.tables._made == {}
    assert seen.followed[-1] == "u1"


def test_jobs_that_are_not_ours_have_no_table() -> None:
    seen = Seen()
    seen.job(labels={"framework": "pytorch"})
    assert seen.tables.of(seen.record) is None


def test_pods_of_others_carry_no_device_data() -> None:
    raw = {"metadata": {"name": "x", "annotations": {"huawei.com/AscendReal": "Ascend910-1"}}}
    assert pods.read_pod(raw).devices is None
