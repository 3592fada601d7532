"""The stand-in for LeaderWorkerSet: what its pods carry, how groups start, restart as one, and are
updated."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.kube.api import POD_GROUPS, PODS, Object, PatchType
from scaler.sim.actors import objects
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.actors.leader_worker_sets import (
    GroupCondition,
    Leaders,
    LeaderWorkerSets,
    label_member,
    label_without_gang,
    next_leaders,
    restarts_group,
    revision_of,
)
from scaler.sim.actors.making import ready
from scaler.sim.actors.nodes import Kubelet, KubeletTimings, exit_pod
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.actors.stateful_sets import StatefulSets
from scaler.sim.loop import run
from scaler.workloads.leaderworkerset import LEADER_WORKER_SETS
from tests.rig import Rig
from tests.sim.manifests import leader_worker_set, template

QUICK = KubeletTimings(start=(1.0, 1.0), ready=(1.0, 1.0), stop=(1.0, 1.0))
PREFIX = "leaderworkerset.sigs.k8s.io/"
HELD: Object = {"schedulingGates": [{"name": "hold"}]}


def controllers(on: Rig, *, gang: bool = True) -> list[Any]:
    api = on.cluster
    return [LeaderWorkerSets(api, gang=gang), StatefulSets(api), GarbageCollector(api)]


def everybody(on: Rig) -> list[Any]:
    api = on.cluster
    return [*controllers(on), GangScheduler(api), Kubelet(api, on.clock, timings=QUICK)]


async def staged(lws: Object, *, nodes: int = 4) -> Rig:
    on = Rig(label_member)
    on.nodes(*(f"n{number}" for number in range(nodes)))
    on.cluster.apply([lws])
    return on


def uids(on: Rig) -> dict[str, str]:
    return {objects.name(pod): objects.uid(pod) for pod in on.cluster.peek(PODS)}


def images(on: Rig) -> dict[str, str]:
    return {
        objects.name(pod): pod["spec"]["containers"][0]["image"] for pod in on.cluster.peek(PODS)
    }


def marks(pod: Object) -> Object:
    """Its labels and annotations of LeaderWorkerSet, without their prefix."""
    both = {**objects.labels_of(pod), **objects.annotations_of(pod)}
    return {
        key.removeprefix(PREFIX): value for key, value in both.items() if key.startswith(PREFIX)
    }


@pytest.mark.parametrize("gang", [True, False])
def test_members_are_named_labelled_and_owned_as_the_reference_says(gang: bool) -> None:
    lws = leader_worker_set(
        leader=template(labels={"role": "leader"}), worker=template(labels={"role": "worker"})
    )

    async def main() -> None:
        on = Rig(label_member if gang else label_without_gang)
        on.cluster.apply([lws])
        await on.play(10, *controllers(on, gang=gang))
        leader = on.pod_object("vllm-1")
        worker = on.pod_object("vllm-1-1")
        revision = revision_of(lws)
        key = hashlib.sha1(b"default/vllm-1", usedforsecurity=False).hexdigest()
        same = {
            "name": "vllm",
            "group-index": "1",
            "group-key": key,
            "template-revision-hash": revision,
            "size": "2",
        }
        assert marks(leader) == {**same, "worker-index": "0"}
        assert marks(worker) == {**same, "worker-index": "1", "leader-name": "vllm-1"}
        assert (objects.labels_of(leader)["role"], objects.labels_of(worker)["role"]) == (
            "leader",
            "worker",
        )
        assert set(uids(on)) == {"vllm-0", "vllm-0-1", "vllm-1", "vllm-1-1"}
        groups = {
            objects.name(group): objects.owner_uid(group) for group in on.cluster.peek(POD_GROUPS)
        }
        assert objects.annotations_of(worker).get(objects.GROUP_NAME) == (
            f"vllm-1-{revision}" if gang else None
        )
        assert groups.get(f"vllm-1-{revision}") == (objects.uid(leader) if gang else None)

    run(main())


@pytest.mark.parametrize(
    ("policy", "while_held"),
    [("LeaderCreated", {"vllm-0", "vllm-0-1"}), ("LeaderReady", {"vllm-0"})],
)
def test_workers_come_with_their_leader_or_once_it_is_ready(
    policy: str, while_held: set[str]
) -> None:
    async def main() -> None:
        on = await staged(
            leader_worker_set(replicas=1, startupPolicy=policy, worker=template(**HELD))
        )
        seen: list[set[str]] = []

        async def release() -> None:
            await asyncio.sleep(10)
            seen.append(set(uids(on)))
            gone = {"spec": {"schedulingGates": None}}
            for name in sorted(uids(on)):
                await on.cluster.patch(PODS, "default", name, gone, patch_type=PatchType.MERGE)

        await on.play(30, *everybody(on), script=release())
        assert [*seen, set(uids(on))] == [while_held, {"vllm-0", "vllm-0-1"}]
        (group,) = on.cluster.peek(POD_GROUPS)
        assert group["spec"]["minMember"] == (1 if policy == "LeaderReady" else 2)

    run(main())


@pytest.mark.parametrize(("restart", "renewed"), [("RecreateGroupOnPodRestart", 2), ("None", 1)])
def test_a_worker_that_is_deleted_takes_its_group_along_unless_told_otherwise(
    restart: str, renewed: int
) -> None:
    async def main() -> None:
        on = await staged(leader_worker_set(restart=restart))
        before: dict[str, str] = {}

        async def lose() -> None:
            await asyncio.sleep(15)
            before.update(uids(on))
            await on.cluster.delete(PODS, "default", "vllm-1-1")

        await on.play(45, *everybody(on), script=lose())
        after = uids(on)
        assert set(after) == set(before)
        assert sum(after[name] != before[name] for name in after) == renewed
        assert all(ready(pod) for pod in on.cluster.peek(PODS))

    run(main())


def test_a_worker_that_vanishes_at_once_comes_back_alone() -> None:
    async def main() -> None:
        on = await staged(leader_worker_set(worker=template(**HELD)))
        before: dict[str, str] = {}

        async def lose() -> None:
            await asyncio.sleep(10)
            before.update(uids(on))
            await on.cluster.delete(PODS, "default", "vllm-1-1")

        await on.play(20, *everybody(on), script=lose())
        changed = {name for name, uid in uids(on).items() if before[name] != uid}
        assert changed == {"vllm-1-1"}

    run(main())


def test_a_container_that_restarts_restarts_the_group() -> None:
    async def main() -> None:
        on = await staged(leader_worker_set(replicas=1))
        before: dict[str, str] = {}

        async def crash() -> None:
            await asyncio.sleep(15)
            before.update(uids(on))
            await exit_pod(on.cluster, on.pod_object("vllm-0-1"), now=on.clock.now(), code=1)

        await on.play(45, *everybody(on), script=crash())
        after = uids(on)
        assert {name for name in after if after[name] != before[name]} == {"vllm-0", "vllm-0-1"}

    run(main())


def test_with_exclusive_topology_workers_wait_until_their_leader_has_a_node() -> None:
    topology = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "zone"}

    async def main() -> None:
        on = Rig(label_without_gang)
        lws = leader_worker_set(replicas=1)
        lws["metadata"]["annotations"] = topology
        on.cluster.apply([lws])
        scheduler = GangScheduler(on.cluster, gangs=False)

        async def add_a_node() -> None:
            await asyncio.sleep(5)
            assert set(uids(on)) == {"vllm-0"}
            on.nodes("n0")

        await on.play(15, *controllers(on, gang=False), scheduler, script=add_a_node())
        assert set(uids(on)) == {"vllm-0", "vllm-0-1"}

    run(main())


@pytest.mark.parametrize(("phase", "restarts"), [("Pending", False), ("Running", True)])
def test_a_group_that_recreates_after_start_overlooks_what_happens_before(
    phase: str, restarts: bool
) -> None:
    lws = leader_worker_set(size=2, restart="RecreateGroupAfterStart")
    labels = {f"{PREFIX}group-index": "0"}
    lost: Object = {
        "metadata": {"labels": labels, "deletionTimestamp": "x"},
        "status": {"phase": "Running"},
    }
    other: Object = {"metadata": {"labels": labels}, "status": {"phase": phase}}
    assert restarts_group(lws, lost, [lost, other]) is restarts


def test_an_update_goes_group_by_group_from_the_highest() -> None:
    async def main() -> None:
        on = await staged(leader_worker_set(replicas=3))
        order: list[str] = []

        async def change() -> None:
            await asyncio.sleep(15)
            newer = {
                "workerTemplate": {
                    "spec": {"containers": [{"name": "server", "image": "server:2"}]}
                }
            }
            patch = {"spec": {"leaderWorkerTemplate": newer}}
            await on.cluster.patch(
                LEADER_WORKER_SETS, "default", "vllm", patch, patch_type=PatchType.MERGE
            )
            for _ in range(600):
                await asyncio.sleep(0.1)
                order.extend(
                    n for n, image in images(on).items() if image == "server:2" and n not in order
                )

        await on.play(80, *everybody(on), script=change())
        assert set(images(on).values()) == {"server:2"}
        assert [name for name in order if name.count("-") == 1] == ["vllm-2", "vllm-1", "vllm-0"]

    run(main())


def test_scaling_removes_the_highest_group_and_its_pod_group() -> None:
    async def main() -> None:
        on = await staged(leader_worker_set(replicas=3))

        async def shrink() -> None:
            await asyncio.sleep(15)
            patch = {"spec": {"replicas": 1}}
            await on.cluster.patch(
                LEADER_WORKER_SETS, "default", "vllm", patch, patch_type=PatchType.MERGE
            )

        await on.play(30, *everybody(on), script=shrink())
        assert set(uids(on)) == {"vllm-0", "vllm-0-1"}
        assert len(on.cluster.peek(POD_GROUPS)) == 1

    run(main())


CONDITIONS = st.builds(GroupCondition, st.booleans(), st.booleans())


@given(
    st.lists(CONDITIONS, min_size=1, max_size=6),
    st.integers(0, 6),
    st.integers(0, 2),
    st.integers(1, 3),
)
def test_a_rollout_moves_down_only_and_never_beyond_its_surge(
    groups: list[GroupCondition], partition: int, surge: int, unavailable: int
) -> None:
    replicas = max(1, len(groups) - surge)
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    lws = leader_worker_set(
        replicas=replicas, rolloutStrategy={"rollingUpdateConfiguration": rolling}
    )
    now = Leaders(partition, len(groups))
    wanted = next_leaders(lws, now, groups, new_revision=False, resized=False)
    assert 0 <= wanted.partition <= partition
    assert replicas <= wanted.replicas <= replicas + surge


def test_a_rollout_waits_for_new_groups_that_a_larger_number_asks_for() -> None:
    wanted = next_leaders(
        leader_worker_set(replicas=5), Leaders(2, 3), [], new_revision=False, resized=True
    )
    assert wanted == Leaders(2, 5)


def test_a_rollout_ends_with_partition_zero_and_no_surge() -> None:
    rolling = {"maxSurge": 1, "maxUnavailable": 1}
    lws = leader_worker_set(replicas=3, rolloutStrategy={"rollingUpdateConfiguration": rolling})
    done = [GroupCondition(True, True)] * 4
    assert next_leaders(lws, Leaders(1, 4), done, new_revision=False, resized=False) == Leaders(
        0, 3
    )
