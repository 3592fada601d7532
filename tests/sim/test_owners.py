"""Stand-ins that make pods: they start when they are needed, and come to the right numbers over a
bad connection."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from scaler.kube.api import DEPLOYMENTS, PODS, Object
from scaler.sim.actors import objects
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.actors.leader_worker_sets import label_member
from scaler.sim.actors.owners import WhenUsed, owners
from scaler.sim.actors.stand_in import Mirror
from scaler.sim.actors.volcano import PodGroups
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from scaler.sim.stories.instances import instance_of
from tests.faults import Fault, Faults, Rule
from tests.rig import Rig
from tests.sim.manifests import (
    deployment,
    infer_service_set,
    leader_worker_set,
    stateful_set,
    storm_service,
    template,
    volcano_job,
)

PARALLEL: Object = {"podManagementPolicy": "Parallel"}
EVERYTHING = [
    deployment("web", 3),
    stateful_set("db", 3, **PARALLEL),
    leader_worker_set("vllm", 2, 3),
    storm_service("storm", prefill={"replicas": 2}, decode={"replicas": 1, "podGroupSize": 2}),
    infer_service_set("qwen", prefill={"replicas": 2}),
]


def test_an_owner_that_no_object_needs_watches_no_pods() -> None:
    async def main() -> None:
        on = Rig()
        made: list[str] = []

        class Maker:
            async def run(self) -> None:
                made.append("started")
                await asyncio.Event().wait()

        waiting = WhenUsed(on.cluster, Maker(), DEPLOYMENTS)
        await on.play(5, waiting)
        assert made == []
        on.cluster.apply([deployment()])
        await on.play(5, waiting)
        assert made == ["started"]

    run(main())


def test_a_type_that_is_not_installed_counts_as_empty() -> None:
    async def main() -> None:
        on = Rig()
        bare = SimCluster(on.clock, crds=False)
        bare.apply([deployment(pod=template(schedulerName="volcano"))])
        await on.play(10, *owners(bare))
        assert len(bare.peek(PODS)) == 3

    run(main())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "fault", [Fault.REFUSED, Fault.LOST_REQUEST, Fault.LOST_ANSWER, Fault.LAG, Fault.CUT]
)
def test_over_a_bad_connection_the_numbers_come_out_right_in_the_end(
    fault: Fault, seed: int
) -> None:
    async def main() -> None:
        on = Rig(label_member)
        on.cluster.apply(EVERYTHING)
        end = on.clock.now() + 60
        trouble = Rule(fault=fault, probability=0.3, end=end, seconds=2.0)
        unreliable = on.cluster.client("makers", Faults(on.clock, trouble, seed=seed))
        await on.play(180, *owners(unreliable), GarbageCollector(on.cluster))
        living = Counter(
            objects.owner_kind(pod) for pod in on.cluster.peek(PODS) if not objects.terminating(pod)
        )
        assert living == {"ReplicaSet": 3, "StatefulSet": 3 + 6 + 2, "RoleSet": 2, "PodSet": 2}

    run(main())


def test_the_census_knows_instances_of_every_kind_by_their_pods() -> None:
    async def main() -> None:
        on = Rig(label_member)
        on.cluster.apply(EVERYTHING)
        on.nodes("n0")
        on.cluster.apply([volcano_job()])
        await on.play(20, *owners(on.cluster))
        found = {instance_of(pod, {}) for pod in on.cluster.peek(PODS)}
        assert {("vllm-0", 3), ("vllm-1", 3), ("qwen-0-prefill-1", 1)} <= found
        assert sum(name.startswith("storm-") and size > 1 for name, size in found) == 1
        assert sum(name.startswith("web-") and size == 1 for name, size in found) == 3

    run(main())


def test_annotations_of_ours_override_what_the_owner_says() -> None:
    annotations = {"mind-cluster/instance": "mine", "mind-cluster/instance-size": "4"}
    pod: Object = {"metadata": {"name": "p", "annotations": annotations}, "spec": {}}
    assert instance_of(pod, {}) == ("mine", 4)


def test_a_mirror_tells_how_far_it_has_come() -> None:
    async def main() -> None:
        on = Rig()
        mirror = Mirror(on.cluster, PODS)
        task = asyncio.create_task(mirror.run())
        await asyncio.sleep(1)
        before = mirror.version(PODS)
        await on.pod("p")
        await asyncio.sleep(1)
        task.cancel()
        assert (
            mirror.version(PODS) == int(on.pod_object("p")["metadata"]["resourceVersion"]) > before
        )

    run(main())


def test_pod_groups_are_left_to_those_who_know_volcano() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([deployment()])
        await on.play(10, *owners(on.cluster), PodGroups(on.cluster))
        assert {
            objects.GROUP_NAME in objects.annotations_of(pod) for pod in on.cluster.peek(PODS)
        } == {False}

    run(main())
