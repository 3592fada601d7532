"""What the check of a takeover says where it would not be safe."""

from __future__ import annotations

import asyncio
from typing import Any

from scaler.kube.api import ASCEND_JOBS, DEPLOYMENTS, PODS, PatchType
from scaler.sim.actors import objects
from tests.simulation.test_takeover import (
    DECODE,
    NAMESPACE,
    SCALER,
    WHOLE,
    Moving,
    checked,
    consequences,
    group_of,
    moving,
    run,
    spare,
    to_the_scaler,
)
from tests.simulation.worlds import EXAMPLE


async def edit(on: Moving, job: str, path: str, value: Any) -> None:
    patch = [{"op": "add", "path": path, "value": value}]
    await on.cluster.patch(ASCEND_JOBS, NAMESPACE, job, patch, patch_type=PatchType.JSON)


def test_the_check_foresees_exactly_what_the_scaler_then_writes() -> None:
    async def story() -> None:
        async with moving(4, EXAMPLE) as on:
            on.cluster.apply([spare()])
            await asyncio.sleep(60)
            found = await consequences(on, "does")
            (group,) = group_of(on, "mindie-server-p2")
            assert set(found) == {"mindie-server-p2"}
            assert "without a PodGroup" in found["mindie-server-p2"][0]
            await to_the_scaler(on)
            assert on.writes(SCALER) == [f"delete {group}"]

    run(story())


def test_a_deadline_that_the_operator_never_kept_is_told_before_it_ends_a_running_job() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            await edit(on, DECODE, "/spec/runPolicy", {"activeDeadlineSeconds": 30})
            found = await consequences(on, "blocks")
            assert set(found) == {DECODE}
            assert "would end at once" in found[DECODE][0]

    run(story())


def test_pods_beyond_lowered_replicas_are_told_before_they_are_deleted() -> None:
    async def story() -> None:
        async with moving(4, EXAMPLE) as on:
            pod = next(
                pod for pod in on.cluster.peek(PODS) if objects.name(pod) == f"{DECODE}-master-0"
            )
            extra = {
                key: value
                for key, value in pod["metadata"].items()
                if key in ("labels", "ownerReferences")
            }
            body = {
                **pod,
                "metadata": {**extra, "name": f"{DECODE}-worker-0", "namespace": NAMESPACE},
            }
            on.cluster.apply([{**body, "apiVersion": "v1", "kind": "Pod"}])
            found = await consequences(on, "blocks")
            (told,) = found.pop(DECODE)
            assert (found, told.endswith(f": {DECODE}-worker-0")) == ({}, True)

    run(story())


def test_a_training_job_that_nobody_would_look_after_is_told() -> None:
    async def story() -> None:
        async with moving(4, EXAMPLE) as on:
            training = spare()
            training["metadata"] |= {"name": "training", "labels": {"framework": "pytorch"}}
            on.cluster.apply([training])
            found = await consequences(on, "blocks")
            assert set(found) == {"training"}
            assert "nobody replaces its pods" in found["training"][0]

    run(story())


def test_a_rule_that_cannot_be_read_is_told_for_the_rule_and_for_every_job_that_names_it() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            data = {
                "elastic_scaling.json": '{"version": "1.0", # two\n "elastic_scaling_list": []}'
            }
            on.cluster.apply(
                [
                    {
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "metadata": {"name": "scaling-rule", "namespace": NAMESPACE},
                        "data": data,
                    }
                ]
            )
            found = await consequences(on, "blocks")
            assert "scaling-rule" in found[""][0]
            assert set(found) - {""} <= WHOLE

    run(story())


def test_an_image_that_was_edited_since_the_pods_were_made_differs_and_blocks_nothing() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            path = "/spec/replicaSpecs/Master/template/spec/containers/0/image"
            await edit(on, DECODE, path, "mindie:next")
            assert await consequences(on, "blocks") == {}
            (told,) = (await consequences(on, "differs"))[DECODE]
            assert told.endswith("the scaler writes mindie:next")
            before = on.uids()
            await to_the_scaler(on)
            assert on.uids() == before

    run(story())


def test_a_pod_without_its_owner_is_told_because_nobody_would_adopt_it() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            await on.scale_operator(0)
            patch = [{"op": "remove", "path": "/metadata/ownerReferences"}]
            await on.cluster.patch(
                PODS, NAMESPACE, f"{DECODE}-master-0", patch, patch_type=PatchType.JSON
            )
            found = await consequences(on, "blocks")
            assert any("nobody adopts it" in text for text in found[DECODE])

    run(story())


def test_whether_an_operator_runs_is_told_but_is_no_obstacle() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            assert (await checked(on)).operator == "mindx-dl/ascend-operator-manager"
            await on.scale_operator(0)
            assert (await checked(on)).operator == ""
            await on.cluster.delete(DEPLOYMENTS, "mindx-dl", "ascend-operator-manager")
            assert (await checked(on)).safe

    run(story())


def test_the_check_only_reads() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            await checked(on)
            assert list(on.cluster.writes("check")) == []

    run(story())
