"""From objects in the cache to instances and services, and which services a change concerns."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scaler.decide.world import Instance, Service, ServiceKey
from scaler.informers import pods
from scaler.informers.changes import Changes, ModeChanged, PodChanged, ServiceChanged
from scaler.informers.jobs import read_job_record
from scaler.informers.records import NodeFacts, NodeRecord
from scaler.names import DELETION_COST, GROUP_LABEL, JOB_ID_LABEL, RULE_LABEL
from scaler.state.cluster import ClusterState
from scaler.state.jobs import awaited_of, may_begin
from scaler.timestamps import seconds_of
from scaler.workloads.membership import LaterPods, Membership, OwnerFacts
from scaler.workloads.volcanojob import read_volcano_job
from tests.jobs import NAMESPACE, job

KEY = ServiceKey(NAMESPACE, "rule", "mindie")


class Seen:
    """A cache, filled by hand, and the services that it called dirty."""

    def __init__(self) -> None:
        self.dirty: list[ServiceKey] = []
        self.now = 0.0
        self.changes = changes = Changes()
        self.state = ClusterState(changes, lambda: self.now)
        self.cache = self.state.cache
        changes.subscribe(PodChanged, self.state.on_pod)
        changes.subscribe(ServiceChanged, self.state.on_instance)
        changes.subscribe(ModeChanged, self.state.on_mode)
        changes.subscribe(ServiceChanged, self._on_service)
        self.scheduler = ""
        """Of the pods that come."""
        self._version = 0

    def _on_service(self, change: ServiceChanged) -> None:
        self.dirty.append(change.service)

    def version(self) -> str:
        self._version += 1
        return str(self._version)

    def job(self, name: str, *, status: dict[str, Any] | None = None, **options: Any) -> None:
        made = job(name, uid=f"uid-{name}", resourceVersion=self.version(), **options)
        made |= {"status": status} if status else {}
        record = read_job_record(made)
        assert record is not None
        self.cache.jobs.apply(record)

    def pod(
        self,
        name: str,
        owner: str = "p0",
        *,
        node: str = "",
        deleted: bool = False,
        more: dict[str, Any] | None = None,
        **status: Any,
    ) -> None:
        """`more` are fields of its metadata. `grace` among the others: its grace period in
        seconds."""
        grace = status.pop("grace", None)
        reference = {
            "apiVersion": "mindxdl.gitee.com/v1",
            "kind": "AscendJob",
            "uid": f"uid-{owner}",
            "name": owner,
            "controller": True,
        }
        meta = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "ownerReferences": [reference],
            "resourceVersion": self.version(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        if deleted:
            meta["deletionTimestamp"] = "2026-01-01T00:01:00Z"
        meta |= more or {}
        spec: dict[str, Any] = {"nodeName": node, "schedulerName": self.scheduler}
        if grace is not None:
            spec["terminationGracePeriodSeconds"] = grace
        raw = {"metadata": meta, "spec": spec, "status": status}
        self.cache.pods.apply(pods.read_pod(raw))

    def node(self, name: str, *, ready: bool, unschedulable: bool = False) -> None:
        facts = NodeFacts(name, ready=ready, unschedulable=unschedulable)
        self.cache.nodes.apply(NodeRecord("", name, name, self.version(), facts))

    def service(self) -> Service:
        return self.state.service(KEY)

    def instance(self) -> Instance:
        return self.service().instances[0]


@pytest.fixture
def seen() -> Seen:
    made = Seen()
    made.job("p0", pods=2)
    made.node("node", ready=True)
    return made


def test_a_job_without_pods_is_an_instance_with_none(seen: Seen) -> None:
    found = seen.instance()
    assert (found.name, found.group, found.expected, found.pods) == ("p0", "group0", 2, 0)


def test_the_scheduler_of_an_instance_is_that_of_its_pods(seen: Seen) -> None:
    assert seen.instance().scheduler == ""
    seen.scheduler = "volcano"
    seen.pod("p0-master-0")
    assert seen.instance().scheduler == "volcano"


def test_pods_are_counted_by_what_they_do(seen: Seen) -> None:
    seen.pod(
        "p0-master-0",
        node="node",
        phase="Running",
        conditions=[{"type": "Ready", "status": "True"}],
    )
    seen.pod("p0-worker-0", node="node", phase="Failed")
    found = seen.instance()
    assert (found.pods, found.bound, found.running, found.ready, found.ended) == (2, 2, 1, 1, 1)


def test_a_pod_that_follows_another_of_its_name_arrives_like_any_other(seen: Seen) -> None:
    arrived: list[int] = []
    seen.cache.pods.add_scope(None)
    seen.cache.pods.advance(None, 1)
    for uid in ("first", "second", "second"):
        seen.pod("p0-master-0", more={"uid": uid, "labels": {RULE_LABEL: "rule"}})
        arrived.append(seen.cache.arrived_ungated)
    assert arrived == [1, 2, 2]
    assert seen.cache.pod_instances.ungated == {"second": "p0-master-0"}
    seen.pod("p0-master-0", more={"uid": "second"})
    assert seen.cache.pod_instances.ungated == {}


def test_deleting_an_instance_costs_what_deleting_all_its_pods_does(seen: Seen) -> None:
    seen.pod("p0-master-0", more={"annotations": {DELETION_COST: "7"}})
    seen.pod("p0-worker-0", more={"annotations": {DELETION_COST: "-10"}})
    assert seen.instance().deletion_cost == -3


@pytest.mark.parametrize(("seconds", "grace"), [(None, 30.0), (0, 0.0), (600, 600.0)])
def test_the_grace_of_an_instance_is_the_longest_of_its_bound_pods(
    seen: Seen, seconds: int | None, grace: float
) -> None:
    seen.pod("p0-master-0", node="node", grace=seconds)
    seen.pod("p0-worker-0", grace=900)
    assert seen.instance().grace == grace


@pytest.mark.parametrize(
    "text", ["", "+5", "05", "1_0", "1e3", "five", "2147483648", "-2147483649", "９"]
)
def test_a_deletion_cost_that_kubernetes_does_not_read_counts_as_nothing(
    seen: Seen, text: str
) -> None:
    seen.pod("p0-master-0", more={"annotations": {DELETION_COST: text}})
    assert seen.instance().deletion_cost == 0


@pytest.mark.parametrize(("owners", "irreplaceable"), [([], True), (None, False)])
def test_pods_without_an_owner_are_not_made_again(
    seen: Seen, owners: Any, irreplaceable: bool
) -> None:
    labels = {RULE_LABEL: "rule", "mind-cluster/group-name": "group0", "jobID": "mindie"}
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "uid": "uid-rs",
        "name": "rs",
        "controller": True,
    }
    seen.pod(
        "bare",
        more={"labels": labels, "ownerReferences": [reference] if owners is None else owners},
    )
    (found,) = [one for one in seen.service().instances if one.name == "bare"]
    assert found.irreplaceable is irreplaceable


@pytest.mark.parametrize(
    ("phase", "nodes"), [("Running", ["node"]), ("Failed", []), ("Succeeded", [])]
)
def test_a_pod_that_has_ended_takes_nothing_of_its_node(
    seen: Seen, phase: str, nodes: list[str]
) -> None:
    seen.pod("p0-master-0", node="node", phase=phase)
    assert [node for node, _ in seen.instance().bound_pods] == nodes


def test_a_terminating_pod_counts_as_nothing_else(seen: Seen) -> None:
    seen.pod("p0-master-0", node="node", phase="Running", deleted=True)
    found = seen.instance()
    assert (found.pods, found.bound, found.running, found.terminating) == (0, 0, 0, 1)


def test_pods_belong_to_their_owner_by_uid_not_by_name(seen: Seen) -> None:
    seen.pod("p0-master-0", owner="an-earlier-p0", node="node", phase="Running")
    found = seen.instance()
    assert (found.pods, found.name_taken) == (0, "Pod p0-master-0")


def test_a_name_whose_pod_is_ending_is_not_taken(seen: Seen) -> None:
    """5, NameTaken: a pod of another owner that is ending counts as an old pod of its own (3b.1e):
    the instance waits for its room."""
    seen.pod("p0-master-0", owner="an-earlier-p0", node="node", phase="Running", deleted=True)
    found = seen.instance()
    assert (found.pods, found.terminating, found.name_taken) == (0, 1, "")
    assert found.ends_by > 0
    assert found.trouble == "pod p0-master-0 on node node is terminating"


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
    seen.pod(
        "p0-master-0",
        node="node",
        phase="Running",
        containerStatuses=[{"restartCount": 3, "state": waiting}],
    )
    found = seen.instance()
    assert (found.crashing, found.restarts) == (1, 3)


@pytest.mark.parametrize(
    ("statuses", "crashing", "restarts"),
    [
        ("initContainerStatuses", 1, 3),  # an init container, or a sidecar, which restarts
        ("containerStatuses", 1, 3),
        ("ephemeralContainerStatuses", 0, 0),  # for debugging; it never restarts
    ],
)
def test_any_container_that_belongs_to_the_pod_may_crash_loop(
    seen: Seen, statuses: str, crashing: int, restarts: int
) -> None:
    """Contract section 2: crash-loops, any container: init and sidecar containers too."""
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    status: dict[str, Any] = {statuses: [{"name": "fetch", "restartCount": 3, "state": waiting}]}
    seen.pod("p0-master-0", node="node", **status)
    found = seen.instance()
    assert (found.crashing, found.restarts) == (crashing, restarts)


def test_the_restarts_of_all_containers_add_up(seen: Seen) -> None:
    one = [{"name": "a", "restartCount": 2}]
    two = [{"name": "b", "restartCount": 3}, {"name": "c", "restartCount": 1}]
    seen.pod("p0-master-0", node="node", initContainerStatuses=one, containerStatuses=two)
    assert seen.instance().restarts == 6


def test_a_change_of_a_pod_concerns_only_its_service(seen: Seen) -> None:
    seen.job("other", rule="another")
    seen.dirty.clear()
    seen.pod("p0-master-0")
    assert set(seen.dirty) == {KEY}


def test_a_node_concerns_the_services_on_it_only_when_it_becomes_ready_cordoned_or_neither(
    seen: Seen,
) -> None:
    seen.pod("p0-master-0", node="node")
    seen.dirty.clear()
    seen.node("node", ready=True)
    assert seen.dirty == []
    seen.node("node", ready=False)
    assert seen.dirty == [KEY]
    seen.dirty.clear()
    seen.node("node", ready=False, unschedulable=True)
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
    assert seen.service().instances == ()


def test_a_namespace_has_the_services_that_name_a_rule_in_it_until_they_are_gone(
    seen: Seen,
) -> None:
    other = ServiceKey(NAMESPACE, "another", "mindie")
    seen.job("p1", rule="another")
    assert (seen.cache.services_within(NAMESPACE), seen.cache.services_within("elsewhere")) == (
        [other, KEY],
        [],
    )
    seen.cache.jobs.remove(NAMESPACE, "p1", "uid-p1")
    assert seen.cache.services_within(NAMESPACE) == [KEY]
    seen.cache.jobs.remove(NAMESPACE, "p0", "uid-p0")
    assert seen.cache.services_within(NAMESPACE) == []


def test_whatever_a_pod_says_of_its_service_the_one_that_counts_it_hears_of_its_end(
    seen: Seen,
) -> None:
    owner = "leaderworkerset.sigs.k8s.io/name"
    labels = {RULE_LABEL: "rule", GROUP_LABEL: "group0"}
    for name, made_by, said in (
        ("lws-0", "lws", "first"),
        ("lws-0-1", "lws-0", "newest"),
        ("lws-0-2", "lws-0", "first"),
    ):
        reference = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "uid": "s",
            "name": made_by,
            "controller": True,
        }
        more = {
            "labels": {**labels, owner: "lws", JOB_ID_LABEL: said},
            "ownerReferences": [reference],
        }
        seen.pod(name, more=more)
    counts = ServiceKey(NAMESPACE, "rule", "first")
    assert counts in seen.state.service_keys()
    for name in ("lws-0-1", "lws-0-2", "lws-0"):
        seen.dirty.clear()
        seen.cache.pods.remove(NAMESPACE, name, f"uid-{name}")
        assert counts in seen.dirty


def test_an_instance_is_built_anew_only_after_a_change(seen: Seen) -> None:
    first = seen.instance()
    assert seen.instance() is first
    seen.pod("p0-master-0")
    assert seen.instance() is not first


def test_a_service_survives_its_own_serialisation(seen: Seen) -> None:
    seen.pod("p0-master-0", node="node", phase="Running")
    taken = seen.service()
    assert msgspec.json.decode(msgspec.json.encode(taken), type=Service) == taken


CREATED = seconds_of("2026-01-01T00:00:00Z")
DELETED = seconds_of("2026-01-01T00:01:00Z")


def test_the_newest_pod_says_how_long_the_owner_has_been_making_them(seen: Seen) -> None:
    assert seen.instance().newest == 0.0
    seen.pod("p0-master-0")
    seen.pod("p0-worker-0", more={"creationTimestamp": "2026-01-01T00:00:09Z"})
    assert (seen.instance().admitted_at, seen.instance().newest) == (CREATED, CREATED + 9)


def test_what_terminates_is_gone_by_its_deletion_timestamp_unless_its_node_is_lost(
    seen: Seen,
) -> None:
    assert seen.instance().ends_by == 0.0
    seen.pod("p0-master-0", node="node", deleted=True)
    seen.pod(
        "p0-worker-0", node="node", deleted=True, more={"deletionTimestamp": "2026-01-01T00:01:30Z"}
    )
    assert seen.instance().ends_by == DELETED + 30
    seen.node("node", ready=False)
    assert seen.instance().ends_by == -1.0


REFUSED = {
    "conditions": [
        {"type": "Failed", "status": "True", "reason": "JobValidFailed", "message": "InvalidX: no."}
    ]
}


def test_a_job_that_its_operator_has_refused_says_so_in_the_words_of_the_operator(
    seen: Seen,
) -> None:
    seen.job("p0", pods=2, status=REFUSED)
    assert seen.instance().faults == ()
    seen.changes.publish(ModeChanged(makes_pods=False, shadow=False))
    (fault,) = seen.instance().faults
    assert "(InvalidX: no)" in fault
    assert not seen.instance().owner_finished


def test_what_an_operator_will_refuse_is_known_as_long_as_there_are_no_pods(seen: Seen) -> None:
    seen.changes.publish(ModeChanged(makes_pods=False, shadow=False))
    seen.job("p0", labels={**job("p0")["metadata"]["labels"], "framework": "abacus"})
    assert "InvalidFramework" in seen.instance().faults[0]
    seen.pod("p0-master-0")
    assert seen.instance().faults == ()


def group_pod(seen: Seen, name: str, **status: Any) -> None:
    """A pod of group 0 of LeaderWorkerSet `lws`, of two pods."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": "lws" if name == "lws-0" else "lws-0",
        "uid": "u",
    }
    labels = {
        "leaderworkerset.sigs.k8s.io/name": "lws",
        "mind-cluster/scaling-rule": "rule",
        "jobID": "mindie",
        "mind-cluster/group-name": "group0",
    }
    seen.pod(
        name, more={"ownerReferences": [{**owner, "controller": True}], "labels": labels}, **status
    )


@pytest.mark.parametrize("first", [True, False])
def test_the_rest_is_still_to_come_until_the_leader_is_ready_where_the_owner_waits_for_it(
    first: bool,
) -> None:
    seen = Seen()
    facts = OwnerFacts(
        NAMESPACE, "lws", "u", "1", "LeaderWorkerSet", created=1.0, size=2, leader_first=first
    )
    seen.cache.owners.stores["LeaderWorkerSet"].apply(facts)
    group_pod(seen, "lws-0")
    assert (seen.instance().more_to_come, seen.instance().expected) == (first, 2)
    assert not seen.instance().first_are_ready
    group_pod(seen, "lws-0", conditions=[{"type": "Ready", "status": "True"}])
    assert (seen.instance().more_to_come, seen.instance().first_are_ready) == (first, first)
    group_pod(seen, "lws-0")
    group_pod(seen, "lws-0-1")
    assert not seen.instance().more_to_come


def set_pod(seen: Seen, number: int, *, ready: bool) -> None:
    """Pod of this number of a StatefulSet of Infer Operator."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "svc-0", "uid": "u"}
    labels = {
        "infer.huawei.com/ascend-infer-operator": "true",
        "mind-cluster/scaling-rule": "rule",
        "jobID": "mindie",
        "mind-cluster/group-name": "group0",
    }
    seen.pod(
        f"svc-0-{number}",
        more={"ownerReferences": [{**owner, "controller": True}], "labels": labels},
        conditions=[{"type": "Ready", "status": str(ready)}],
    )


@pytest.mark.parametrize("one_by_one", [True, False])
def test_the_rest_of_a_set_is_still_to_come_where_its_pods_are_made_one_by_one(
    one_by_one: bool,
) -> None:
    seen = Seen()
    facts = OwnerFacts(
        NAMESPACE, "svc-0", "u", "1", "StatefulSet", created=1.0, size=3, one_by_one=one_by_one
    )
    seen.cache.owners.stores["StatefulSet"].apply(facts)
    set_pod(seen, 0, ready=True)
    set_pod(seen, 1, ready=False)
    assert (seen.instance().more_to_come, seen.instance().first_are_ready) == (one_by_one, False)
    set_pod(seen, 1, ready=True)
    assert seen.instance().first_are_ready is one_by_one


def test_a_set_that_lost_its_first_pod_waits_for_nothing() -> None:
    seen = Seen()
    facts = OwnerFacts(
        NAMESPACE, "svc-0", "u", "1", "StatefulSet", created=1.0, size=2, one_by_one=True
    )
    seen.cache.owners.stores["StatefulSet"].apply(facts)
    set_pod(seen, 1, ready=False)
    assert not seen.instance().more_to_come


LATER = LaterPods("d0-worker-", (("d0-master-", 2), ("d0-router-", 1)))


@pytest.mark.parametrize(
    ("present", "later", "waits", "ready"),
    [
        ({"d0-master-0": 1, "d0-master-1": 1, "d0-router-0": 0}, LATER, True, False),
        ({"d0-master-0": 1, "d0-master-1": 1, "d0-router-0": 1}, LATER, True, True),
        (
            {"d0-master-0": 0, "d0-master-1": 0, "d0-router-0": 1},
            msgspec.structs.replace(LATER, after_any=True),
            True,
            True,
        ),
        ({"d0-master-0": 1, "d0-router-0": 1}, LATER, False, False),
        ({"d0-master-0": 1, "d0-master-1": 1, "d0-router-0": 1, "d0-worker-0": 0}, LATER, 0, 0),
    ],
)
def test_pods_of_a_volcano_job_that_are_made_later(
    present: dict[str, int], later: LaterPods, waits: bool, ready: bool
) -> None:
    """A pod that is missing and waits for nobody is lost."""
    replicas = (("d0-master-", 2), ("d0-router-", 1), ("d0-worker-", 1))
    spec = msgspec.structs.replace(read_volcano_job({}), replicas=replicas, later=(later,))
    found = []
    for name, is_ready in present.items():
        conditions = [{"type": "Ready", "status": str(bool(is_ready))}]
        meta = {"name": name, "namespace": NAMESPACE, "uid": name}
        found.append(pods.read_pod({"metadata": meta, "status": {"conditions": conditions}}))
    awaited = awaited_of(spec, found)
    assert bool(awaited) == waits
    assert all(may_begin(one, found) for one in awaited) == (ready or not waits)


def test_a_pod_of_another_namespace_that_names_the_job_as_its_owner_is_not_its_pod(
    seen: Seen,
) -> None:
    seen.pod("p0-master-0", node="node", phase="Running")
    before = seen.service()
    seen.pod(
        "p0-master-0",
        node="elsewhere",
        phase="Failed",
        more={"namespace": "stranger", "uid": "forged"},
    )
    assert seen.service() == before
    seen.cache.pods.remove("stranger", "p0-master-0", "forged")
    assert (seen.service(), seen.instance().running) == (before, 1)


def test_a_pod_that_could_not_be_taken_in_can_go(seen: Seen) -> None:
    class OnceError(Exception):
        pass

    def fail_once(change: PodChanged) -> None:
        if change.old is None:
            raise OnceError

    seen.changes.subscribe(PodChanged, fail_once)
    membership = Membership("mine", "mine", size=1, key=KEY, group="prefill")
    governed = pods.Governed(membership=membership, pod_group="", volcano=False)
    pod = pods.PodRecord(
        NAMESPACE,
        "p",
        "u",
        "1",
        "",
        "",
        "Running",
        0.0,
        False,
        False,
        True,
        False,
        0,
        governed=governed,
    )
    with pytest.raises(OnceError):
        seen.cache.pods.apply(pod)
    seen.cache.pods.remove(NAMESPACE, "p", "u")
    assert "mine" not in seen.cache.pod_instances.membership
