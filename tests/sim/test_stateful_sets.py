"""The stand-in for StatefulSets: names that last, order, and updates from the highest ordinal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scaler.kube.api import PODS, STATEFUL_SETS, Object, PatchType
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import Kubelet, KubeletTimings
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.actors.stateful_sets import StatefulSets
from scaler.sim.loop import run
from tests.rig import Rig
from tests.sim.manifests import stateful_set, template

QUICK = KubeletTimings(start=(1.0, 1.0), ready=(1.0, 1.0), stop=(1.0, 1.0))
HELD: Object = {"schedulingGates": [{"name": "hold"}]}
PARALLEL: Object = {"podManagementPolicy": "Parallel"}
NEW_IMAGE: Object = {
    "template": {"spec": {"containers": [{"name": "server", "image": "server:2"}]}}
}


def everybody(on: Rig) -> list[Any]:
    api = on.cluster
    return [StatefulSets(api), GangScheduler(api), Kubelet(api, on.clock, timings=QUICK)]


async def update(on: Rig, spec: Object) -> None:
    await on.cluster.patch(
        STATEFUL_SETS, "default", "db", {"spec": spec}, patch_type=PatchType.MERGE
    )


def images(on: Rig) -> dict[str, str]:
    return {
        objects.name(pod): pod["spec"]["containers"][0]["image"] for pod in on.cluster.peek(PODS)
    }


def test_pods_are_named_and_labelled_by_ordinal() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([stateful_set(replicas=2, ordinals={"start": 1}, **PARALLEL)])
        await on.play(5, StatefulSets(on.cluster))
        (owner,) = on.cluster.peek(STATEFUL_SETS)
        first, second = on.cluster.peek(PODS)
        assert (objects.name(first), objects.name(second)) == ("db-1", "db-2")
        revision = objects.status(owner)["updateRevision"]
        assert objects.labels_of(first) == {
            "app": "db",
            "statefulset.kubernetes.io/pod-name": "db-1",
            "apps.kubernetes.io/pod-index": "1",
            "controller-revision-hash": revision,
        }
        assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("db-1", "db")
        assert objects.owner_uid(first) == objects.uid(owner)

    run(main())


def test_in_order_a_held_pod_keeps_the_next_ones_from_being_made() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([stateful_set(pod=template(**HELD))])
        await on.play(30, *everybody(on))
        assert set(on.nodes_by_pod()) == {"db-0"}

    run(main())


def test_in_order_pods_start_one_after_the_other_and_go_from_the_top() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0")
        on.cluster.apply([stateful_set()])

        async def shrink() -> None:
            await asyncio.sleep(30)
            assert set(on.phases().values()) == {"Running"}
            await update(on, {"replicas": 1})
            await asyncio.sleep(0.5)
            terminating = [
                objects.name(pod) for pod in on.cluster.peek(PODS) if objects.terminating(pod)
            ]
            assert terminating == ["db-2"]

        await on.play(45, *everybody(on), script=shrink())
        assert set(on.nodes_by_pod()) == {"db-0"}
        started = on.cluster.writes("cluster")
        assert [
            write.name for write in started if write.verb == "create" and write.resource == PODS
        ] == [
            "db-0",
            "db-1",
            "db-2",
        ]

    run(main())


def test_parallel_makes_all_at_once_and_gives_a_lost_pod_its_name_again() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([stateful_set(pod=template(**HELD), **PARALLEL)])

        async def lose() -> None:
            await asyncio.sleep(3)
            before = objects.uid(on.pod_object("db-1"))
            await on.cluster.delete(PODS, "default", "db-1")
            await asyncio.sleep(1)
            assert objects.uid(on.pod_object("db-1")) != before

        await on.play(8, *everybody(on), script=lose())
        assert set(on.nodes_by_pod()) == {"db-0", "db-1", "db-2"}

    run(main())


def test_an_update_goes_down_to_the_partition_and_a_pod_below_it_comes_back_as_it_was() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0")
        on.cluster.apply([stateful_set(**PARALLEL)])

        async def change() -> None:
            await asyncio.sleep(10)
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
            await update(on, {**NEW_IMAGE, "updateStrategy": strategy})
            await asyncio.sleep(20)
            await on.cluster.delete(PODS, "default", "db-0")

        await on.play(45, *everybody(on), script=change())
        assert images(on) == {"db-0": "server:1", "db-1": "server:2", "db-2": "server:2"}

    run(main())


@pytest.mark.parametrize(
    ("allowed", "image"), [(1, "server:1"), ("100%", "server:1"), (4, "server:2")]
)
def test_held_pods_count_as_unavailable_so_that_an_update_waits_for_them(
    allowed: int | str, image: str
) -> None:
    async def main() -> None:
        on = Rig()
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": allowed}}
        on.cluster.apply([stateful_set(pod=template(**HELD), updateStrategy=strategy, **PARALLEL)])

        async def change() -> None:
            await asyncio.sleep(5)
            await update(on, NEW_IMAGE)

        await on.play(20, StatefulSets(on.cluster, counts_unavailable=True), script=change())
        assert set(images(on).values()) == {image}

    run(main())


def test_older_ones_replace_a_held_pod_at_once_and_wait_for_what_comes_instead() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([stateful_set(pod=template(**HELD), **PARALLEL)])

        async def change() -> None:
            await asyncio.sleep(5)
            await update(on, NEW_IMAGE)

        await on.play(20, StatefulSets(on.cluster), script=change())
        assert images(on) == {"db-0": "server:1", "db-1": "server:1", "db-2": "server:2"}

    run(main())


def test_a_failed_pod_is_replaced_and_on_delete_an_update_waits_for_somebody_else() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0")
        on.cluster.apply([stateful_set(updateStrategy={"type": "OnDelete"}, **PARALLEL)])

        async def script() -> None:
            await asyncio.sleep(10)
            await update(on, NEW_IMAGE)
            failed = {"status": {"phase": "Failed"}}
            await on.cluster.patch(
                PODS, "default", "db-1", failed, patch_type=PatchType.MERGE, subresource="status"
            )

        await on.play(30, *everybody(on), script=script())
        assert images(on) == {"db-0": "server:1", "db-1": "server:2", "db-2": "server:1"}

    run(main())
