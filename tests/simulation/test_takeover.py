"""A live service moves from Ascend Operator to the scaler and back, and no running pod notices."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from scaler.kube.api import ASCEND_JOBS, DEPLOYMENTS, PODS, Object, PatchType
from scaler.settings import Settings
from scaler.sim import loop
from scaler.sim.actors import objects
from scaler.sim.stories.manifests import read_manifests
from scaler.sim.stories.play import silence_logs
from scaler.tools.takeover_check import Report, check
from tests.simulation.moving import SCALER, Moving, moving
from tests.simulation.worlds import EXAMPLE

WHOLE = {"mindie-server-p0", "mindie-server-p1", "mindie-server-d0"}
DECODE = "mindie-server-d0"
NAMESPACE = "mindie"


def run(story: Coroutine[Any, Any, None]) -> None:
    silence_logs()
    loop.run(story)


async def to_the_scaler(on: Moving, **settings: Any) -> None:
    await on.scale_operator(0)
    on.start_scaler(**settings)
    await asyncio.sleep(60)


async def to_the_operator(on: Moving) -> None:
    await on.stop_scaler()
    await on.scale_operator(1)
    await asyncio.sleep(60)


async def lose_and_return(on: Moving, job: str) -> None:
    """Its node goes for long enough to notice, and comes back."""
    node = on.nodes_by_pod()[f"{job}-master-0"]
    await on.node_ready(node, False)
    await asyncio.sleep(200)
    assert job not in on.running()
    await on.node_ready(node, True)
    await asyncio.sleep(200)


def spare() -> Object:
    """A third prefill job, which the rule has no place for."""
    obj = next(obj for obj in read_manifests(EXAMPLE / "20-prefill-p0.yaml") if obj["kind"] == "AscendJob")
    obj["metadata"]["name"] = "mindie-server-p2"
    return obj


def group_of(on: Moving, job: str) -> list[str]:
    return [name for name in on.uids() if name.startswith(f"podgroups {job}-")]


async def checked(on: Moving) -> Report:
    return await check(on.cluster.client("check"), Settings.model_validate({}), on.clock)


def test_a_service_moves_there_and_back_and_keeps_every_pod_pod_group_and_service() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            assert on.running() == WHOLE
            before = on.uids()
            assert (await checked(on)).safe
            await to_the_scaler(on)
            assert on.uids() == before
            await to_the_operator(on)
            assert on.uids() == before
            assert on.writes(SCALER) == []

    run(story())


@pytest.mark.parametrize(
    ("name", "nodes"), [("A2_2P1D_p2pod_d4pod", 8), ("A2_2P1D_p1pod_d1pod", 3), ("A3_2P1D_p2pod_d4pod", 16)]
)
def test_services_of_mindie_motor_move_there_and_back(real_data: Path, name: str, nodes: int) -> None:
    folder = real_data / "motor" / name

    async def story() -> None:
        async with moving(nodes, folder / "configmaps", folder / "deployment", a3=name.startswith("A3")) as on:
            assert on.running() == WHOLE
            before = on.uids()
            tables = on.tables()
            assert {status for status, _ in tables.values()} == {"completed"}
            report = await checked(on)
            assert [remark.text for job in report.jobs for remark in job.remarks if remark.weight != "expected"] == []
            await to_the_scaler(on)
            assert (on.uids(), on.tables()) == (before, tables)
            await to_the_operator(on)
            assert on.uids() == before
            assert {status for status, _ in on.tables().values()} == {"completed"}

    run(story())


def touched(on: Any) -> list[str]:
    """What the scaler wrote besides telling people."""
    told = ("events", "configmaps", "elasticservices")
    return [
        f"{w.verb} {w.resource.plural} {w.name}" for w in on.cluster.writes(SCALER) if w.resource.plural not in told
    ]


def test_beside_an_operator_that_decides_by_its_own_gate_the_scaler_only_tells() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            on.start_scaler()
            await lose_and_return(on, DECODE)
            assert on.running() == WHOLE
            assert touched(on) == []

    run(story())


def test_evictions_are_kept_from_the_minimum_beside_such_an_operator_too() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            on.start_scaler(disruption_budgets=True)
            await asyncio.sleep(60)
            budget, *labels = touched(on)
            assert budget == "create poddisruptionbudgets mind-cluster-scaler-minimum"
            assert labels == ["patch pods mindie-server-d0-master-0", "patch pods mindie-server-p1-master-0"]

    run(story())


def test_in_mode_auto_an_operator_that_leaves_is_not_enough() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            on.start_scaler()
            await asyncio.sleep(10)
            await on.scale_operator(0)
            await asyncio.sleep(60)
            assert touched(on) == []

    run(story())


def test_in_mode_create_the_scaler_takes_over_when_the_operator_leaves() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            on.start_scaler(mode="create")
            await asyncio.sleep(10)
            before = on.uids()
            await on.scale_operator(0)
            await lose_and_return(on, DECODE)
            assert on.running() == WHOLE
            changed = {name for name, uid in on.uids().items() if before.get(name) != uid}
            assert changed == {f"pods {DECODE}-master-0"}

    run(story())


def test_a_fault_after_the_takeover_costs_the_lost_instance_only_and_a_fault_after_the_way_back_too() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            before = on.uids()
            await to_the_scaler(on)
            await lose_and_return(on, DECODE)
            assert on.running() == WHOLE
            assert on.writes(SCALER) == [f"create pods {DECODE}-master-0"]
            between = on.uids()
            assert {name for name in before if between.get(name) != before[name]} == {f"pods {DECODE}-master-0"}
            await to_the_operator(on)
            assert on.uids() == between
            await lose_and_return(on, "mindie-server-p0")
            assert on.running() == WHOLE

    run(story())


def test_a_held_job_loses_its_pod_group_to_the_scaler_and_gets_it_back_from_the_operator() -> None:
    async def story() -> None:
        async with moving(4, EXAMPLE) as on:
            on.cluster.apply([spare()])
            await asyncio.sleep(60)
            assert group_of(on, "mindie-server-p2")
            assert on.last_condition("mindie-server-p2") == "Created PodCreateFailed"
            kept = {name: uid for name, uid in on.uids().items() if "server-p2" not in name}
            await to_the_scaler(on)
            assert group_of(on, "mindie-server-p2") == []
            assert on.last_condition("mindie-server-p2") == "Created NotInRatio"
            assert "services mindie-server-p2-master-0" in on.uids()
            await to_the_operator(on)
            assert len(group_of(on, "mindie-server-p2")) == 1
            assert {name: uid for name, uid in on.uids().items() if "server-p2" not in name} == kept
            assert on.running() == WHOLE

    run(story())


def test_what_the_operator_leaves_untrue_in_a_status_is_true_again_after_the_takeover() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            await lose_and_return(on, DECODE)
            assert on.running() == WHOLE
            assert on.last_condition(DECODE) != "Running JobRunning"
            await to_the_scaler(on)
            assert on.last_condition(DECODE) == "Running JobRunning"

    run(story())


def test_too_many_instances_that_the_operator_let_start_at_once_are_not_touched_when_they_run() -> None:
    """All three prefill jobs ask the gate before any of them runs, and it lets all of them in."""

    async def story() -> None:
        async with moving(4, EXAMPLE, more=[spare()]) as on:
            surplus = on.running() - WHOLE
            assert surplus == {"mindie-server-p2"}
            before = on.uids()
            report = await checked(on)
            assert report.safe
            await to_the_scaler(on)
            assert on.uids() == before

    run(story())


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_between_moves_the_service_comes_back_and_neither_deletes_a_pod_with_a_node(
    seed: int,
) -> None:
    dice = random.Random(seed)

    async def fault(on: Moving) -> None:
        node = f"npu-{dice.randrange(3)}"
        await on.node_ready(node, False)
        await asyncio.sleep(dice.uniform(0, 90))
        await on.node_ready(node, True)
        await asyncio.sleep(dice.uniform(0, 90))

    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            for number in range(6):
                await fault(on)
                await (on.scale_operator(0) if number % 2 == 0 else on.stop_scaler())
                if number % 2 == 0:
                    on.start_scaler()
                else:
                    await on.scale_operator(1)
                await asyncio.sleep(dice.uniform(0, 60))
            await asyncio.sleep(400)
            assert on.running() == WHOLE

    run(story())


def test_an_instance_that_the_operator_made_by_half_is_completed() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            await on.scale_operator(0)
            await on.cluster.delete(PODS, NAMESPACE, f"{DECODE}-master-0", grace_period_seconds=0)
            await asyncio.sleep(10)
            assert (await remarks(on, "does")).keys() == {DECODE}
            await to_the_scaler(on)
            assert on.running() == WHOLE

    run(story())


def test_a_running_job_that_the_operator_called_invalid_for_good_is_kept_and_its_status_mended() -> None:
    """One failed look at its queue is enough there."""

    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            await on.scale_operator(0)
            failed = {"type": "Failed", "status": "True", "reason": "JobValidFailed", "message": "InvalidQueue: ..."}
            patch = {"status": {"conditions": [failed]}}
            await on.cluster.patch(
                ASCEND_JOBS, NAMESPACE, DECODE, patch, patch_type=PatchType.MERGE, subresource="status"
            )
            before = on.uids()
            assert (await checked(on)).safe
            await to_the_scaler(on)
            assert (on.uids(), on.last_condition(DECODE)) == (before, "Running JobRunning")
            await lose_and_return(on, DECODE)
            assert on.running() == WHOLE

    run(story())


# what the check says where the takeover would not be safe


async def remarks(on: Moving, weight: str) -> dict[str, list[str]]:
    """Texts by job, "" for the cluster."""
    report = await checked(on)
    found = {"": [remark.text for remark in report.remarks if remark.weight == weight]}
    for job in report.jobs:
        found[job.name] = [remark.text for remark in job.remarks if remark.weight == weight]
    assert report.safe == (not any(remark.weight == "blocks" for job in report.jobs for remark in job.remarks)
                           and not any(remark.weight == "blocks" for remark in report.remarks))  # fmt: skip
    return {name: texts for name, texts in found.items() if texts}


async def edit(on: Moving, job: str, path: str, value: Any) -> None:
    patch = [{"op": "add", "path": path, "value": value}]
    await on.cluster.patch(ASCEND_JOBS, NAMESPACE, job, patch, patch_type=PatchType.JSON)


def test_the_check_foresees_exactly_what_the_scaler_then_writes() -> None:
    async def story() -> None:
        async with moving(4, EXAMPLE) as on:
            on.cluster.apply([spare()])
            await asyncio.sleep(60)
            found = await remarks(on, "does")
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
            found = await remarks(on, "blocks")
            assert set(found) == {DECODE}
            assert "would end at once" in found[DECODE][0]

    run(story())


def test_pods_beyond_lowered_replicas_which_the_operator_leaves_are_told_before_they_are_deleted() -> None:
    async def story() -> None:
        async with moving(4, EXAMPLE) as on:
            pod = next(pod for pod in on.cluster.peek(PODS) if objects.name(pod) == f"{DECODE}-master-0")
            extra = {key: value for key, value in pod["metadata"].items() if key in ("labels", "ownerReferences")}
            body = {**pod, "metadata": {**extra, "name": f"{DECODE}-worker-0", "namespace": NAMESPACE}}
            on.cluster.apply([{**body, "apiVersion": "v1", "kind": "Pod"}])
            found = await remarks(on, "blocks")
            (told,) = found.pop(DECODE)
            assert (found, told.endswith(f": {DECODE}-worker-0")) == ({}, True)

    run(story())


def test_a_training_job_that_nobody_would_look_after_is_told() -> None:
    async def story() -> None:
        async with moving(4, EXAMPLE) as on:
            training = spare()
            training["metadata"] |= {"name": "training", "labels": {"framework": "pytorch"}}
            on.cluster.apply([training])
            found = await remarks(on, "blocks")
            assert set(found) == {"training"}
            assert "nobody replaces its pods" in found["training"][0]

    run(story())


def test_a_rule_that_cannot_be_read_is_told_for_the_rule_and_for_every_job_that_names_it() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            data = {"elastic_scaling.json": '{"version": "1.0", # two\n "elastic_scaling_list": []}'}
            on.cluster.apply(
                [{"apiVersion": "v1", "kind": "ConfigMap",
                  "metadata": {"name": "scaling-rule", "namespace": NAMESPACE}, "data": data}]
            )  # fmt: skip
            found = await remarks(on, "blocks")
            assert "scaling-rule" in found[""][0]
            assert set(found) - {""} <= WHOLE

    run(story())


def test_an_image_that_was_edited_since_the_pods_were_made_differs_and_blocks_nothing() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            path = "/spec/replicaSpecs/Master/template/spec/containers/0/image"
            await edit(on, DECODE, path, "mindie:next")
            assert await remarks(on, "blocks") == {}
            (told,) = (await remarks(on, "differs"))[DECODE]
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
            await on.cluster.patch(PODS, NAMESPACE, f"{DECODE}-master-0", patch, patch_type=PatchType.JSON)
            found = await remarks(on, "blocks")
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
