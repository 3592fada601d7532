"""From objects in the cache to instances in a snapshot, and which services a change concerns."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scaler.decide.world import Instance, Memory, Policy, ServiceKey, Snapshot
from scaler.observe import objects, pods
from scaler.observe.cache import Cache
from scaler.observe.snapshot import take_snapshot
from tests.jobs import NAMESPACE, job

KEY = ServiceKey(NAMESPACE, "rule", "mindie")


class Seen:
    """A cache, filled by hand, and the services that it called dirty."""

    def __init__(self) -> None:
        self.dirty: list[ServiceKey] = []
        self.cache = Cache(self.dirty.append)
        self._version = 0

    def version(self) -> str:
        self._version += 1
        return str(self._version)

    def job(self, name: str, **options: Any) -> None:
        made = job(name, uid=f"uid-{name}", resourceVersion=self.version(), **options)
        record = objects.job_record(made)
        assert record is not None
        self.cache.jobs.apply(record)

    def pod(self, name: str, owner: str = "p0", *, node: str = "", deleted: bool = False, **status: Any) -> None:
        reference = {
            "apiVersion": "mindxdl.gitee.com/v1",
            "kind": "AscendJob",
            "uid": f"uid-{owner}",
            "name": owner,
            "controller": True,
        }
        meta = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "ownerReferences": [reference],
                "resourceVersion": self.version(), "creationTimestamp": "2026-01-01T00:00:00Z"}  # fmt: skip
        if deleted:
            meta["deletionTimestamp"] = "2026-01-01T00:01:00Z"
        raw = {"metadata": meta, "spec": {"nodeName": node}, "status": status}
        self.cache.pods.apply(pods.read_pod(raw))

    def node(self, name: str, *, ready: bool) -> None:
        self.cache.nodes.apply(objects.NodeRecord(name, name, self.version(), ready))

    def snapshot(self) -> Snapshot:
        return take_snapshot(self.cache, KEY, now=0.0, memory=Memory(), policy=Policy())

    def instance(self) -> Instance:
        return self.snapshot().instances[0]


@pytest.fixture
def seen() -> Seen:
    made = Seen()
    made.job("p0", pods=2)
    made.node("node", ready=True)
    return made


def test_a_job_without_pods_is_an_instance_with_none(seen: Seen) -> None:
    found = seen.instance()
    assert (found.name, found.group, found.expected, found.pods) == ("p0", "group0", 2, 0)


def test_pods_are_counted_by_what_they_do(seen: Seen) -> None:
    seen.pod("p0-master-0", node="node", phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    seen.pod("p0-worker-0", node="node", phase="Failed")
    found = seen.instance()
    assert (found.pods, found.bound, found.running, found.ready, found.ended) == (2, 2, 1, 1, 1)


def test_a_terminating_pod_counts_as_nothing_else(seen: Seen) -> None:
    seen.pod("p0-master-0", node="node", phase="Running", deleted=True)
    found = seen.instance()
    assert (found.pods, found.bound, found.running, found.terminating) == (0, 0, 0, 1)


def test_pods_belong_to_their_owner_by_uid_not_by_name(seen: Seen) -> None:
    seen.pod("p0-master-0", owner="an-earlier-p0", node="node", phase="Running")
    found = seen.instance()
    assert (found.pods, found.name_taken) == (0, "Pod p0-master-0")


def test_an_owned_pod_of_another_name_is_not_counted(seen: Seen) -> None:
    seen.pod("p0-worker-7", node="node", phase="Running")
    assert seen.instance().pods == 0


@pytest.mark.parametrize("there", [True, False])
def test_a_node_that_is_missing_or_not_ready_makes_its_pods_faulty(seen: Seen, there: bool) -> None:
    seen.pod("p0-master-0", node="far", phase="Running")
    if there:
        seen.node("far", ready=False)
    found = seen.instance()
    assert (found.faulty, "far" in found.trouble) == (1, True)


def test_a_crash_loop_and_restarts_are_seen(seen: Seen) -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    seen.pod("p0-master-0", node="node", phase="Running", containerStatuses=[{"restartCount": 3, "state": waiting}])
    found = seen.instance()
    assert (found.crashing, found.restarts) == (1, 3)


def test_a_change_of_a_pod_concerns_only_its_service(seen: Seen) -> None:
    seen.job("other", rule="another")
    seen.dirty.clear()
    seen.pod("p0-master-0")
    assert set(seen.dirty) == {KEY}


def test_a_node_concerns_the_services_on_it_and_only_when_readiness_changes(seen: Seen) -> None:
    seen.pod("p0-master-0", node="node")
    seen.dirty.clear()
    seen.node("node", ready=True)
    assert seen.dirty == []
    seen.node("node", ready=False)
    assert seen.dirty == [KEY]


def test_a_foreign_pod_under_a_needed_name_concerns_the_service_when_it_goes(seen: Seen) -> None:
    seen.pod("p0-master-0", owner="stranger")
    seen.dirty.clear()
    seen.cache.pods.remove(NAMESPACE, "p0-master-0", "uid-p0-master-0")
    assert seen.dirty == [KEY]
    assert seen.instance().name_taken == ""


def test_a_job_whose_labels_move_it_concerns_both_services(seen: Seen) -> None:
    seen.dirty.clear()
    seen.job("p0", pods=2, rule="another")
    assert set(seen.dirty) == {KEY, ServiceKey(NAMESPACE, "another", "mindie")}
    assert seen.snapshot().instances == ()


def test_an_instance_is_built_anew_only_after_a_change(seen: Seen) -> None:
    first = seen.instance()
    assert seen.instance() is first
    seen.pod("p0-master-0")
    assert seen.instance() is not first


def test_a_snapshot_survives_its_own_serialisation(seen: Seen) -> None:
    seen.pod("p0-master-0", node="node", phase="Running")
    taken = seen.snapshot()
    assert msgspec.json.decode(msgspec.json.encode(taken), type=Snapshot) == taken
