"""Instances that only pods name and whose pods are all gone: they stay until their owner has made
another, 3b.1b and 3b.1c of the contract."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.decide.world import Instance
from scaler.informers import pods
from scaler.informers.cache import GONE_FOR
from scaler.workloads.membership import OwnerFacts, RoleTemplate
from scaler.workloads.pod_requests import pod_request_of
from tests.jobs import NAMESPACE
from tests.state.test_instances import KEY, Seen

NPU = "huawei.com/Ascend910"
LABELS = {
    "mind-cluster/scaling-rule": "rule",
    "jobID": "mindie",
    "mind-cluster/group-name": "group0",
}


def _asks(npus: int) -> dict[str, Any]:
    """The spec of a pod that requests so many NPUs."""
    return {"containers": [{"resources": {"requests": {NPU: str(npus)}}}]}


def template(first: int, others: int, *, size: int = 0, role: str = "") -> RoleTemplate:
    """A template whose first pod requests so many NPUs, and each other pod so many."""
    return RoleTemplate(pod_request_of(_asks(first)), pod_request_of(_asks(others)), size, role)


def npus_of(instance: Instance) -> dict[int, int]:
    """NPUs of a pod that holds no node -> the number of such pods."""
    return {dict(need.requests).get(NPU, 0): number for need, number in instance.unbound}


class Fleet:
    """Pods of one owner, which come and go."""

    def __init__(self, kind: str) -> None:
        self.seen = Seen()
        self.kind = kind
        self.seen.node("node", ready=True)

    def wants(
        self, number: int | None, *, size: int = 0, templates: tuple[RoleTemplate, ...] = ()
    ) -> None:
        """`spec.replicas` of the owner; None = it is gone. `templates`: what it makes now."""
        store = self.seen.cache.owners.stores[self.kind]
        if number is None:
            store.remove(NAMESPACE, "own", "u")
            return
        head = (NAMESPACE, "own", "u", self.seen.version())
        store.apply(
            OwnerFacts(*head, self.kind, 1.0, size=size, wanted=number, templates=templates)
        )

    def pod(self, name: str, *, npus: int = 8, created: str = "00:00", where: str = "node") -> None:
        """A pod of the fleet: it runs on a node, is `unbound`, or `ends` on the node."""
        meta: dict[str, Any] = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}-{created}",
            "resourceVersion": self.seen.version(),
            "creationTimestamp": f"2026-01-01T00:{created}Z",
            "labels": {**LABELS, **self._labels()},
            "ownerReferences": [self._owner(name)],
        }
        if where == "ends":
            meta["deletionTimestamp"] = "2026-01-01T01:00:00Z"
        node = "" if where == "unbound" else "node"
        spec = {"nodeName": node, **_asks(npus)}
        status = {"phase": "Running" if node else "Pending"}
        self.seen.cache.pods.apply(
            pods.read_pod({"metadata": meta, "spec": spec, "status": status})
        )

    def gone(self, name: str) -> None:
        self.seen.cache.pods.remove(NAMESPACE, name, f"uid-{name}-00:00")

    def _labels(self) -> dict[str, str]:
        return {
            "Deployment": {"pod-template-hash": "7f"},
            "LeaderWorkerSet": {"leaderworkerset.sigs.k8s.io/name": "own"},
            "StormService": {"storm-service-name": "own", "role-name": "prefill"},
        }[self.kind]

    def _owner(self, name: str) -> dict[str, Any]:
        found = {
            "Deployment": ("apps/v1", "ReplicaSet", "own-7f"),
            "LeaderWorkerSet": ("apps/v1", "StatefulSet", name.rpartition("-")[0]),
            "StormService": ("orchestration.aibrix.ai/v1alpha1", "RoleSet", "own-roles"),
        }
        version, kind, owner = found[self.kind]
        return {
            "apiVersion": version,
            "kind": kind,
            "name": owner,
            "uid": f"u-{owner}",
            "controller": True,
        }

    @property
    def instances(self) -> list[Instance]:
        return list(self.seen.service().instances) if self.seen.state.has_instances(KEY) else []

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.instances]


@pytest.mark.parametrize("kind", ["Deployment", "StormService"])
def test_an_instance_stays_without_pods_until_its_owner_has_made_another(kind: str) -> None:
    """3b.1b: what it has lost is missing, and asked for, until its owner makes another."""
    fleet = Fleet(kind)
    if kind == "Deployment":
        fleet.wants(1)
    fleet.pod("own-a")
    requests = fleet.instances[0].requests
    fleet.pod("own-a", where="ends")
    assert [(one.terminating, one.owner_deleting) for one in fleet.instances] == [(1, False)]
    fleet.gone("own-a")
    lost = fleet.instances[0]
    assert (lost.name, lost.pods, lost.expected, lost.group) == ("own-a", 0, 1, "group0")
    assert lost.unbound == lost.requests == requests != ()
    fleet.pod("own-b", created="01:00", where="unbound")
    assert fleet.names == ["own-b"]


def test_a_group_of_a_leader_worker_set_returns_under_its_name() -> None:
    """3b.1b, 3b.1c: with what each of its last pods asked for."""
    fleet = Fleet("LeaderWorkerSet")
    fleet.wants(1, size=2)
    fleet.pod("own-0")
    fleet.pod("own-0-1", npus=4)
    requests = fleet.instances[0].requests
    fleet.pod("own-0", where="ends")
    fleet.pod("own-0-1", npus=4, where="ends")
    assert (fleet.instances[0].requests, fleet.instances[0].unbound) == (requests, requests)
    fleet.gone("own-0")
    fleet.gone("own-0-1")
    assert (fleet.instances[0].requests, fleet.instances[0].pods) == (requests, 0)
    fleet.pod("own-0", created="02:00", where="unbound")
    assert [(one.name, one.pods, one.expected) for one in fleet.instances] == [("own-0", 1, 2)]


@pytest.mark.parametrize("left", [0, None])
def test_a_group_of_a_leader_worker_set_that_is_gone_is_over(left: int | None) -> None:
    """3b.1b: nothing is asked for it, and nobody is evicted for it."""
    fleet = Fleet("LeaderWorkerSet")
    fleet.wants(1, size=2)
    fleet.pod("own-0")
    fleet.pod("own-0-1")
    fleet.wants(left)
    fleet.pod("own-0", where="ends")
    fleet.pod("own-0-1", where="ends")
    assert fleet.instances[0].owner_deleting
    fleet.gone("own-0")
    fleet.gone("own-0-1")
    assert fleet.names == []


def test_one_that_its_owner_does_not_want_any_more_is_over() -> None:
    """3b.1b: its owner makes none in its place."""
    fleet = Fleet("Deployment")
    fleet.wants(2)
    fleet.pod("own-a")
    fleet.pod("own-b")
    fleet.wants(1)
    fleet.pod("own-b", where="ends")
    assert [one.owner_deleting for one in fleet.instances] == [False, True]
    fleet.gone("own-b")
    assert fleet.names == ["own-a"]


@pytest.mark.parametrize("left", [0, None])
def test_it_is_forgotten_when_its_owner_asks_for_fewer_or_is_gone(left: int | None) -> None:
    """3b.1b: then there is nothing to wait for."""
    fleet = Fleet("Deployment")
    fleet.wants(1)
    fleet.pod("own-a")
    fleet.gone("own-a")
    assert fleet.names == ["own-a"]
    fleet.wants(left)
    assert fleet.names == []


def test_one_whose_successor_is_there_already_is_over() -> None:
    """3b.1b: an owner that does not say how many it makes has made another."""
    fleet = Fleet("StormService")
    fleet.pod("own-a")
    fleet.pod("own-b", created="01:00", where="unbound")
    fleet.gone("own-a")
    assert fleet.names == ["own-b"]


def test_one_that_was_never_bound_has_lost_nothing() -> None:
    """3b.1b: only a pod that was bound leaves room."""
    fleet = Fleet("Deployment")
    fleet.wants(1)
    fleet.pod("own-a", where="unbound")
    fleet.gone("own-a")
    assert fleet.names == []


def test_it_is_forgotten_after_a_while() -> None:
    """L5: what is never made holds up nobody for ever, and is not shown for ever."""
    fleet = Fleet("StormService")
    fleet.pod("own-a")
    fleet.gone("own-a")
    assert fleet.seen.cache.gone_for(KEY) == GONE_FOR
    fleet.seen.now = GONE_FOR - 1
    fleet.seen.cache.forget_gone(KEY)
    assert (fleet.names, fleet.seen.cache.gone_for(KEY)) == (["own-a"], 1)
    fleet.seen.now = GONE_FOR
    fleet.seen.cache.forget_gone(KEY)
    assert (fleet.names, fleet.seen.cache.gone_for(KEY)) == ([], 0)


@pytest.mark.parametrize(
    ("kind", "role", "where"),
    [
        ("Deployment", "", "gone"),
        ("Deployment", "", "ends"),
        ("LeaderWorkerSet", "", "gone"),
        ("LeaderWorkerSet", "", "ends"),
        ("StormService", "prefill", "gone"),
        ("StormService", "prefill", "ends"),
    ],
)
def test_where_no_pod_lives_the_template_says_what_is_needed(
    kind: str, role: str, where: str
) -> None:
    """3b.1c: a template that was edited meanwhile counts, also after the pods were gone."""
    fleet = Fleet(kind)
    fleet.wants(1, size=1, templates=(template(8, 8, role="another"), template(8, 8, role=role)))
    fleet.pod("own-0")
    if where == "gone":
        fleet.gone("own-0")
    else:
        fleet.pod("own-0", where="ends")
    assert npus_of(fleet.instances[0]) == {8: 1}
    fleet.seen.dirty.clear()
    fleet.wants(1, size=2, templates=(template(4, 2, size=2, role=role),))
    assert fleet.seen.dirty == [KEY]
    assert (npus_of(fleet.instances[0]), fleet.instances[0].expected) == ({4: 1, 2: 1}, 2)


def test_a_template_counts_for_no_pod_that_lives() -> None:
    """3b.1c: only where no living pod says it."""
    fleet = Fleet("Deployment")
    fleet.wants(1, templates=(template(4, 4),))
    fleet.pod("own-a", where="unbound")
    assert npus_of(fleet.instances[0]) == {8: 1}


@pytest.mark.parametrize(("lives", "missing"), [("own-0", {8: 2}), ("own-0-1", {1: 1, 8: 1})])
def test_of_a_leader_and_its_workers_the_template_says_what_is_missing(
    lives: str, missing: dict[int, int]
) -> None:
    """3b.1c: workers request something else than the leader that lives, and the other way round."""
    fleet = Fleet("LeaderWorkerSet")
    fleet.wants(1, size=3, templates=(template(1, 8, size=3),))
    fleet.pod(lives, npus=1 if lives == "own-0" else 8)
    assert npus_of(fleet.instances[0]) == missing
