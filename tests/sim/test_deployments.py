"""The stand-ins for Deployments and ReplicaSets: numbers, victims, and updates that stay within
their fence posts."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from scaler.kube.api import DEPLOYMENTS, PODS, REPLICA_SETS, Object, PatchType
from scaler.sim.actors import objects
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.actors.deployments import Deployments, ReplicaSets, Rollout, scale, victims
from scaler.sim.actors.making import fence_posts, ready
from scaler.sim.actors.nodes import Kubelet, KubeletTimings
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.loop import run
from tests.rig import Rig
from tests.sim.manifests import deployment, template

QUICK = KubeletTimings(start=(1.0, 1.0), ready=(1.0, 1.0), stop=(1.0, 1.0))


def controllers(on: Rig) -> list[Any]:
    return [Deployments(on.cluster), ReplicaSets(on.cluster), GarbageCollector(on.cluster)]


def everybody(on: Rig) -> list[Any]:
    api = on.cluster
    return [*controllers(on), GangScheduler(api), Kubelet(api, on.clock, timings=QUICK)]


def images(on: Rig) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in on.cluster.peek(PODS))


async def update(on: Rig, **spec: Any) -> None:
    await on.cluster.patch(
        DEPLOYMENTS, "default", "web", {"spec": spec}, patch_type=PatchType.MERGE
    )


def new_image() -> Object:
    return {"spec": {"containers": [{"name": "server", "image": "server:2"}]}}


def test_pods_carry_the_hash_of_their_template_and_belong_to_its_replica_set() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([deployment(pod=template(labels={"role": "prefill"}))])
        await on.play(5, *controllers(on))
        (made,) = on.cluster.peek(REPLICA_SETS)
        mark = objects.labels_of(made)["pod-template-hash"]
        assert objects.name(made) == f"web-{mark}"
        pods = on.cluster.peek(PODS)
        assert [objects.owner_uid(pod) for pod in pods] == [objects.uid(made)] * 3
        assert all(
            objects.labels_of(p) == {"app": "web", "role": "prefill", "pod-template-hash": mark}
            for p in pods
        )
        assert all(objects.name(pod).startswith(f"web-{mark}-") for pod in pods)

    run(main())


def test_a_pod_that_is_deleted_or_failed_is_replaced_under_a_new_name() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([deployment(replicas=2)])
        lost: list[str] = []

        async def lose() -> None:
            await asyncio.sleep(3)
            first, second = sorted(on.phases())
            lost.extend((first, second))
            await on.cluster.delete(PODS, "default", first)
            failed = {"status": {"phase": "Failed"}}
            await on.cluster.patch(
                PODS, "default", second, failed, patch_type=PatchType.MERGE, subresource="status"
            )

        await on.play(8, *controllers(on), script=lose())
        living = {name for name, phase in on.phases().items() if phase == "Pending"}
        assert len(living) == 2
        assert not living & set(lost)

    run(main())


def test_an_update_keeps_three_quarters_available_and_ends_with_the_new_template_alone() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0")
        on.cluster.apply([deployment(replicas=4)])
        seen: list[tuple[int, int]] = []

        async def watch() -> None:
            await asyncio.sleep(20)
            await update(on, template=new_image())
            for _ in range(400):
                await asyncio.sleep(0.1)
                pods = on.cluster.peek(PODS)
                alive = [pod for pod in pods if not objects.terminating(pod)]
                seen.append((len(alive), sum(map(ready, alive))))

        await on.play(65, *everybody(on), script=watch())
        assert images(on) == ["server:2"] * 4
        assert (max(total for total, _ in seen), min(serving for _, serving in seen)) == (5, 3)

    run(main())


@pytest.mark.parametrize(
    ("held_again", "expected"), [(False, {"server:2": 4}), (True, {"server:1": 3, "server:2": 2})]
)
def test_held_pods_of_the_old_template_make_way_as_far_as_the_new_ones_come_up(
    held_again: bool, expected: dict[str, int]
) -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0")
        on.cluster.apply([deployment(replicas=4, pod=template(schedulingGates=[{"name": "hold"}]))])

        async def change() -> None:
            await asyncio.sleep(5)
            gates = [{"name": "hold"}] if held_again else None
            await update(on, template={"spec": {**new_image()["spec"], "schedulingGates": gates}})

        await on.play(40, *everybody(on), script=change())
        assert Counter(images(on)) == expected

    run(main())


def test_a_recreate_starts_nothing_before_the_old_pods_are_gone() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0")
        on.cluster.apply([deployment(replicas=2, strategy={"type": "Recreate"})])
        mixed: list[bool] = []

        async def watch() -> None:
            await asyncio.sleep(10)
            await update(on, template=new_image())
            for _ in range(100):
                await asyncio.sleep(0.1)
                mixed.append(len(set(images(on))) > 1)

        await on.play(30, *everybody(on), script=watch())
        assert (images(on), any(mixed)) == (["server:2"] * 2, False)

    run(main())


def test_scaling_down_takes_held_pods_first_and_the_update_goes_on_when_scaled_during_it() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0")
        on.cluster.apply([deployment(replicas=3)])
        kept: set[str] = set()

        async def scale() -> None:
            await asyncio.sleep(10)
            kept.update(on.nodes_by_pod())
            await update(on, replicas=5)
            await asyncio.sleep(0.5)
            await update(on, replicas=3)
            await asyncio.sleep(2)
            assert set(on.nodes_by_pod()) == kept
            await update(on, template=new_image())
            await asyncio.sleep(1)
            await update(on, replicas=6)

        await on.play(60, *everybody(on), script=scale())
        assert images(on) == ["server:2"] * 6

    run(main())


def test_a_rollout_that_is_resized_shares_the_difference_out_by_size() -> None:
    def of(name: str, size: int, **status: int) -> Object:
        marks = {"deployment.kubernetes.io/max-replicas": "13"}
        return {
            "metadata": {"name": name, "annotations": marks},
            "spec": {"replicas": size},
            "status": status,
        }

    rollout = Rollout(deployment(replicas=15), of("new", 5), (of("old", 8),))
    assert scale(rollout) == {"old": 12, "new": 7}
    assert scale(Rollout(deployment(replicas=5), of("new", 5), (of("old", 8),))) == {
        "old": 4,
        "new": 3,
    }


def test_what_belongs_to_a_deleted_deployment_goes_with_it() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([deployment()])

        async def delete() -> None:
            await asyncio.sleep(3)
            await on.cluster.delete(DEPLOYMENTS, "default", "web")

        await on.play(8, *controllers(on), script=delete())
        assert on.cluster.peek(REPLICA_SETS) == on.cluster.peek(PODS) == []

    run(main())


def pod(
    name: str, *, node: str = "", phase: str = "Pending", cost: str = "", made: str = ""
) -> Object:
    return {
        "metadata": {
            "name": name,
            "annotations": {"controller.kubernetes.io/pod-deletion-cost": cost} if cost else {},
            "creationTimestamp": made or "2026-01-01T00:00:00Z",
        },
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": []},
    }


def ready_pod(name: str, since: str, *, node: str, cost: str = "", made: str = "") -> Object:
    """One that runs and is Ready since then."""
    running = pod(name, node=node, phase="Running", cost=cost, made=made)
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    running["status"]["conditions"].append(condition)
    return running


def test_victims_are_chosen_in_the_order_of_the_real_controller() -> None:
    early = "2026-01-01T00:00:00Z"
    late = "2026-01-02T00:00:00Z"
    ordered = [
        pod("held", cost="-1000000000"),
        pod("unassigned"),
        pod("pending", node="a", phase="Pending"),
        pod("unready", node="a", phase="Running"),
        ready_pod("cheap", early, node="a", cost="-1"),
        ready_pod("crowded", early, node="a"),
        ready_pod("ready for a shorter time", late, node="b"),
        ready_pod("newer", early, node="c", made=late),
        ready_pod("oldest", early, node="d"),
    ]
    found = [objects.name(victim) for victim in victims(list(reversed(ordered)), len(ordered))]
    assert found == [objects.name(victim) for victim in ordered]


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "expected"),
    [
        ("25%", "25%", 3, (1, 0)),
        ("25%", "25%", 4, (1, 1)),
        (0, "25%", 1, (0, 1)),
        (0, 0, 5, (0, 1)),
        (2, 1, 5, (2, 1)),
    ],
)
def test_fence_posts_round_surge_up_and_unavailable_down(
    surge: int | str, unavailable: int | str, replicas: int, expected: tuple[int, int]
) -> None:
    assert fence_posts(surge, unavailable, replicas) == expected
