"""Restarts, failures and endings of jobs by the real controller on a simulated cluster. Virtual
time only."""

from __future__ import annotations

import json
from typing import Any

from scaler.kube.api import ASCEND_JOBS, EVENTS, NODES, POD_GROUPS, Object, PatchType
from scaler.sim.loop import run
from tests.jobs import NAMESPACE, job, node, rule_config_map, rule_document
from tests.rig import Rig, controller, rig

ONE_AND_ONE = rule_config_map(rule_document({"group0": 1, "group1": 1}))


def with_policy(name: str, pods: int = 1, *, retries: bool = True, **policy: Any) -> Object:
    made = job(name, pods=pods)
    made["spec"]["runPolicy"] = policy
    if not retries:
        del made["metadata"]["labels"]["fault-retry-times"]
    return made


def versions(on: Rig, name: str) -> set[str]:
    return {pod["metadata"]["labels"]["version"] for pod in on.pods_of(name)}


def last(on: Rig, name: str) -> tuple[str, str] | None:
    """Type and reason of the job's last condition; None when the job is gone."""
    found = [one for one in on.cluster.peek(ASCEND_JOBS) if one["metadata"]["name"] == name]
    condition = found[0]["status"]["conditions"][-1] if found else None
    return (condition["type"], condition["reason"]) if condition else None


async def fail(on: Rig, pod: Object, code: int, **status: Any) -> None:
    ended = {"name": "ascend", "restartCount": 0, "state": {"terminated": {"exitCode": code}}}
    await on.status(pod, phase="Failed", containerStatuses=[ended], conditions=[], **status)


def test_each_loss_of_a_whole_instance_is_a_round_also_across_a_restart_of_the_scaler() -> None:
    async def story() -> None:
        async with rig(ONE_AND_ONE, job("p0", pods=2), job("d0")) as on:
            await on.start("p0", "d0")
            assert versions(on, "p0") == {"0"}
            await on.kill("p0")
            await on.settle()
            assert versions(on, "p0") == {"1"}
            await on.start("p0")
        await on.kill("p0")
        async with controller(on):
            await on.settle()
            assert versions(on, "p0") == {"2"}
            assert versions(on, "d0") == {"0"}

    run(story())


def test_a_round_ends_only_when_the_instance_is_whole_again() -> None:
    async def story() -> None:
        async with rig(ONE_AND_ONE, job("p0", pods=2), job("d0")) as on:
            await on.start("p0", "d0")
            for _ in range(3):
                await on.kill("p0")
                await on.settle()
            assert versions(on, "p0") == {"1"}

    run(story())


def test_our_own_revokes_are_no_rounds() -> None:
    async def story() -> None:
        rule = rule_config_map(
            rule_document({"group0": 2, "group1": 1}, {"group0": 1, "group1": 1})
        )
        async with rig(rule, job("p0"), job("p1"), job("d0")) as on:
            await on.start("p0", "d0")
            await on.kill("d0")
            await on.settle()
            assert on.reason("p1") == "Revoked"
            await on.start("d0")
            assert versions(on, "p1") == {"0"}

    run(story())


def test_the_restart_after_the_last_allowed_one_fails_the_job() -> None:
    async def story() -> None:
        async with rig(ONE_AND_ONE, with_policy("p0", backoffLimit=1), job("d0")) as on:
            await on.start("p0", "d0")
            await on.kill("p0")
            await on.settle()
            await on.settle(2)
            assert last(on, "p0") == ("Restarting", "WaitingForScheduler")
            await on.start("p0")
            await on.settle(2)
            assert last(on, "p0") == ("Running", "JobRunning")
            await on.kill("p0")
            await on.settle(2)
            assert last(on, "p0") == ("Failed", "BackoffLimitExceeded")
            assert on.with_pods() == {"d0"}
            (told,) = [event for event in on.cluster.peek(EVENTS) if event["reason"] == "Finished"]
            assert (told["type"], "used up its 1 restarts" in told["message"]) == ("Warning", True)

    run(story())


def test_a_failed_pod_without_retries_ends_the_job_and_frees_its_npus_for_a_spare() -> None:
    async def story() -> None:
        async with rig(
            ONE_AND_ONE, with_policy("p0", pods=2, retries=False), job("p1", pods=2), job("d0")
        ) as on:
            await on.start("p0", "d0")
            leader = on.pods_of("p0")[0]
            await fail(on, leader, 3)
            await on.settle(2)
            assert last(on, "p0") == ("Failed", "PodFailed")
            assert "exited with code 3" in on.words("p0")
            left = {
                pod["metadata"]["name"]: pod["metadata"].get("deletionTimestamp")
                for pod in on.pods_of("p0")
            }
            assert left.pop(leader["metadata"]["name"]) is None
            assert None not in left.values()
            assert on.with_pod_group() == {"p1", "d0"}
            assert len(on.pods_of("p1")) == 2

    run(story())


def test_volcano_says_when_the_retries_are_used_up() -> None:
    async def story() -> None:
        async with rig(ONE_AND_ONE, job("p0"), job("d0")) as on:
            await on.start("p0", "d0")
            await fail(on, on.pods_of("p0")[0], 3)
            await on.settle(2)
            assert last(on, "p0") == ("Restarting", "Broken")
            (group,) = [
                one
                for one in on.cluster.peek(POD_GROUPS)
                if one["metadata"]["name"].startswith("p0-")
            ]
            entry = {
                f"{NAMESPACE}/{group['metadata']['name']}": {"UUID": "u", "Times": 0},
                "odd": 7,
            }
            counts = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "vcjob-fault-npu-cm", "namespace": "volcano-system"},
                "data": {"remain-retry-times": json.dumps(entry)},
            }
            on.apply(counts)
            await on.settle(2)
            assert last(on, "p0") == ("Failed", "PodFailed")

    run(story())


def test_a_pod_that_a_signal_ended_is_made_anew_where_exit_codes_decide() -> None:
    async def story() -> None:
        made = with_policy("p0", retries=False)
        made["spec"]["replicaSpecs"]["Master"]["restartPolicy"] = "ExitCode"
        async with rig(ONE_AND_ONE, made, job("d0")) as on:
            await on.start("p0", "d0")
            await fail(on, on.pods_of("p0")[0], 137)
            await on.settle(40)
            assert versions(on, "p0") == {"1"}
            await on.start("p0")
            await fail(on, on.pods_of("p0")[0], 1)
            await on.settle(2)
            assert last(on, "p0") == ("Failed", "PodFailed")

    run(story())


def test_an_evicted_pod_is_the_clusters_doing_and_made_anew() -> None:
    async def story() -> None:
        async with rig(ONE_AND_ONE, with_policy("p0", retries=False), job("d0")) as on:
            await on.start("p0", "d0")
            await fail(on, on.pods_of("p0")[0], 143, reason="Evicted")
            await on.settle(40)
            assert versions(on, "p0") == {"1"}
            assert ("p0", "Finished") not in on.events()

    run(story())


def test_a_pod_that_died_of_its_node_is_made_anew() -> None:
    async def story() -> None:
        async with rig(
            ONE_AND_ONE, with_policy("p0", retries=False), job("d0"), node("other")
        ) as on:
            await on.start("d0")
            await on.start("p0", node_name="other")
            gone = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
            await on.cluster.patch(
                NODES, None, "other", gone, patch_type=PatchType.MERGE, subresource="status"
            )
            await on.settle()
            await fail(on, on.pods_of("p0")[0], 1)
            await on.settle(40)
            assert versions(on, "p0") == {"1"}

    run(story())


def test_a_job_past_its_deadline_fails_and_goes_when_its_time_is_over() -> None:
    async def story() -> None:
        late = with_policy("p0", activeDeadlineSeconds=60, ttlSecondsAfterFinished=30)
        async with rig(ONE_AND_ONE, late, job("d0")) as on:
            await on.start("p0", "d0")
            await on.settle(55)
            assert last(on, "p0") == ("Running", "JobRunning")
            await on.settle(10)
            assert last(on, "p0") == ("Failed", "DeadlineExceeded")
            assert on.with_pod_group() == {"d0"}
            await on.settle(35)
            assert last(on, "p0") is None

    run(story())


def test_a_job_whose_pods_have_all_succeeded_has_succeeded() -> None:
    async def story() -> None:
        async with rig(ONE_AND_ONE, with_policy("p0", cleanPodPolicy="All"), job("d0")) as on:
            await on.start("p0", "d0")
            await on.status(on.pods_of("p0")[0], phase="Succeeded")
            await on.settle(2)
            assert last(on, "p0") == ("Succeeded", "JobSucceeded")
            assert on.with_pods() <= {"d0", "p0"}
            assert all("deletionTimestamp" in pod["metadata"] for pod in on.pods_of("p0"))

    run(story())


def test_a_job_that_has_ended_counts_its_pods_as_they_were_then() -> None:
    async def story() -> None:
        ends = with_policy("p0", pods=2)
        fails = with_policy("d0", pods=2, retries=False)
        async with rig(ONE_AND_ONE, ends, fails) as on:
            await on.start("p0", "d0")
            await on.settle(2)
            for pod in on.pods_of("p0"):
                await on.status(pod, phase="Succeeded")
            await fail(on, on.pods_of("d0")[0], 3)
            await on.settle(5)
            assert (last(on, "p0"), last(on, "d0")) == (
                ("Succeeded", "JobSucceeded"),
                ("Failed", "PodFailed"),
            )
            found = {one["metadata"]["name"]: one["status"] for one in on.cluster.peek(ASCEND_JOBS)}
            assert found["p0"]["replicaStatuses"] == {
                "Master": {"succeeded": 1},
                "Worker": {"succeeded": 1},
            }
            assert found["d0"]["replicaStatuses"] == {
                "Master": {"failed": 1},
                "Worker": {"active": 1},
            }

    run(story())


def test_lowered_replicas_remove_the_last_workers_and_only_those() -> None:
    async def story() -> None:
        async with rig(ONE_AND_ONE, job("p0", pods=4), job("d0")) as on:
            await on.start("p0", "d0")
            await on.edit("p0", "/spec/replicaSpecs/Worker/replicas", 1)
            await on.settle(2)
            deletes = [write for write in on.writes() if write.startswith("delete pods")]
            assert deletes == ["delete pods p0-worker-2", "delete pods p0-worker-1"]
            (group,) = [
                one
                for one in on.cluster.peek(POD_GROUPS)
                if one["metadata"]["name"].startswith("p0-")
            ]
            assert (group["spec"]["minMember"], group["spec"]["minTaskMember"]) == (
                2,
                {"master": 1, "worker": 1},
            )

    run(story())


def test_a_number_of_rounds_that_was_copied_to_another_job_means_nothing() -> None:
    async def story() -> None:
        copied = job("p0", annotations={"mind-cluster/scaler-rounds": "7.another-uid"})
        async with rig(ONE_AND_ONE, copied, job("d0")) as on:
            assert versions(on, "p0") == {"0"}

    run(story())
