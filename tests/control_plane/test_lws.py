"""LeaderWorkerSet's own manager on the real control plane: what its pods look like, gates and
all."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import AsyncIterator

import pytest

from scaler.kube.api import NAMESPACES, POD_GROUPS, PODS, KubeApi, Object
from scaler.names import GATE, POD_GROUP
from scaler.sim.actors import objects
from scaler.workloads.leaderworkerset import LEADER_WORKER_SETS
from tests.control_plane.others import LWS_NAME
from tests.control_plane.plane import ControlPlane
from tests.control_plane.stage import until

pytestmark = [
    pytest.mark.plane_options(lws=True),
    pytest.mark.shares_plane("leader worker sets"),
    pytest.mark.long("LeaderWorkerSet's manager has to be built"),
]

PREFIX = "leaderworkerset.sigs.k8s.io"
_TEMPLATE: Object = {
    "metadata": {"labels": {"app": "decode"}},
    "spec": {
        "schedulerName": "volcano",
        "terminationGracePeriodSeconds": 0,
        "schedulingGates": [{"name": GATE}],
        "containers": [{"name": "main", "image": "none"}],
    },
}
_SET: Object = {
    "apiVersion": LEADER_WORKER_SETS.api_version,
    "kind": LEADER_WORKER_SETS.kind,
    "metadata": {"name": "decode"},
    "spec": {
        "replicas": 2,
        "leaderWorkerTemplate": {
            "size": 2,
            "leaderTemplate": _TEMPLATE,
            "workerTemplate": _TEMPLATE,
        },
    },
}
_NAMES = ["decode-0", "decode-0-1", "decode-1", "decode-1-1"]


class Groups:
    """One LeaderWorkerSet in a namespace of its own: two groups of two gated pods."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self.api = api
        self.namespace = namespace

    async def make(self) -> None:
        await self.api.create(NAMESPACES, None, {"metadata": {"name": self.namespace}})
        await self.api.create(LEADER_WORKER_SETS, self.namespace, copy.deepcopy(_SET))
        await until(self._there, "two groups of two pods", self.pods)

    async def pods(self) -> dict[str, Object]:
        found = (
            await self.api.list(PODS, self.namespace, label_selector=f"{LWS_NAME}=decode")
        ).items
        return {objects.name(pod): pod for pod in found}

    async def uids(self) -> dict[str, str]:
        return {name: objects.uid(pod) for name, pod in (await self.pods()).items()}

    async def delete(self, pod: str, *, replaced: list[set[str]]) -> None:
        """Delete a pod; the pods of one of these sets become other ones, and no others."""
        before = await self.uids()

        async def anew() -> bool:
            now = await self.uids()
            return (
                now.keys() == before.keys()
                and {name for name in now if now[name] != before[name]} in replaced
            )

        await self.api.delete(PODS, self.namespace, pod)
        await until(anew, f"one of {replaced} is made anew", self.uids)

    async def _there(self) -> bool:
        return sorted(await self.pods()) == _NAMES


@pytest.fixture
async def groups(plane: ControlPlane, request: pytest.FixtureRequest) -> AsyncIterator[Groups]:
    async with plane.client() as admin:
        made = Groups(
            admin, f"lws-{len(plane.kubectl('get', 'namespaces', '--output=name').split())}"
        )
        await made.make()
        yield made


async def test_groups_are_made_with_the_labels_by_which_instances_are_told(groups: Groups) -> None:
    pods = await groups.pods()
    for group, (leader, worker) in enumerate(
        [("decode-0", "decode-0-1"), ("decode-1", "decode-1-1")]
    ):
        for index, name in enumerate([leader, worker]):
            labels = objects.labels_of(pods[name])
            expected = {
                "name": "decode",
                "group-index": str(group),
                "worker-index": str(index),
                "group-key": _key(f"{groups.namespace}/{leader}"),
            }
            assert {key: labels[f"{PREFIX}/{key}"] for key in expected} == expected
            assert labels[f"{PREFIX}/template-revision-hash"]
            assert objects.annotations_of(pods[name])[f"{PREFIX}/size"] == "2"
        assert objects.annotations_of(pods[worker])[f"{PREFIX}/leader-name"] == leader


async def test_pods_are_owned_by_statefulsets_the_workers_one_by_the_leader(groups: Groups) -> None:
    pods = await groups.pods()
    owners = [
        (owner["kind"], owner["name"])
        for name in _NAMES
        for owner in pods[name]["metadata"]["ownerReferences"]
    ]
    sets = ["decode", "decode-0", "decode", "decode-1"]
    assert owners == [("StatefulSet", name) for name in sets]


async def test_the_gates_of_its_templates_reach_leaders_and_workers(groups: Groups) -> None:
    gates = {
        name: objects.spec(pod)["schedulingGates"] for name, pod in (await groups.pods()).items()
    }
    assert gates == {name: [{"name": GATE}] for name in _NAMES}


async def test_each_group_has_a_pod_group_of_its_own(groups: Groups) -> None:
    made = (await groups.api.list(POD_GROUPS, groups.namespace)).items
    named = {
        name: objects.annotations_of(pod)[POD_GROUP] for name, pod in (await groups.pods()).items()
    }
    assert named["decode-0"] == named["decode-0-1"] != named["decode-1"] == named["decode-1-1"]
    assert {
        objects.name(group): objects.spec(group)["minMember"] for group in made
    } == dict.fromkeys(named.values(), 2)


async def test_a_gated_leader_that_is_deleted_takes_its_group_with_it(groups: Groups) -> None:
    await groups.delete("decode-0", replaced=[{"decode-0", "decode-0-1"}])


async def test_a_gated_worker_that_is_deleted_comes_back_alone_or_with_its_group(
    groups: Groups,
) -> None:
    """It is marked as going and gone within a moment; whether the manager sees the mark is
    chance."""
    await groups.delete("decode-0-1", replaced=[{"decode-0-1"}, {"decode-0", "decode-0-1"}])


def _key(leader: str) -> str:
    return hashlib.sha1(leader.encode(), usedforsecurity=False).hexdigest()
