"""The whole controller on a simulated cluster: what it does, and what it never does."""

from __future__ import annotations

import pytest

from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    ELASTIC_SERVICES,
    NODES,
    PODS,
    Object,
    PatchType,
)
from scaler.kube.errors import NotSentError
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.loop import run
from tests.commands.test_cluster import scale
from tests.jobs import NAMESPACE, job, node, rule_config_map, rule_document, template
from tests.rig import Rig, rig

SERVICE = (rule_config_map(), job("p0"), job("p1"), job("d0"))


class StopAfter(Interceptor):
    """The process dies after so many writes to the objects of instances: nothing is sent any
    more."""

    def __init__(self, writes: int) -> None:
        self.left = writes

    async def before(self, request: Request) -> None:
        if self.left == 0:
            raise NotSentError("dead")
        if request.verb == "create" and request.resource.plural in (
            "pods",
            "podgroups",
            "services",
        ):
            self.left -= 1


async def running(on: Rig) -> None:
    """Bring a 2P1D service up."""
    await on.start("p0", "d0")
    await on.start("p1")


def test_a_cold_start_admits_the_smallest_ratio_and_then_climbs() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            assert on.with_pods() == {"p0", "d0"}
            assert on.reason("p1") == "WaitingForRatio"
            await on.start("p0")
            assert on.with_pods() == {"p0", "d0"}
            await on.start("d0")
            assert on.with_pods() == {"p0", "p1", "d0"}

    run(story())


def test_an_instance_gets_pod_group_service_and_all_pods_at_once() -> None:
    async def story() -> None:
        async with rig(rule_config_map(), job("p0", pods=3), job("d0")) as on:
            assert len(on.pods_of("p0")) == 3
            assert on.with_pod_group() == {"p0", "d0"}
            assert on.services() == {"p0-master-0", "d0-master-0"}

    run(story())


def test_who_is_drained_goes_whole_and_keeps_its_own_grace_period() -> None:
    slow = template(terminationGracePeriodSeconds=45)

    async def story() -> None:
        async with rig(rule_config_map(), job("p0"), job("p1", pods=2, pod=slow), job("d0")) as on:
            await on.start("p0", "d0")
            await on.start("p1")
            await scale(on, 2)
            await on.settle(1)
            left = [pod["metadata"] for pod in on.pods_of("p1")]
            assert [meta.get("deletionGracePeriodSeconds") for meta in left] == [45, 45]
            assert on.reason("p1") == "ScaledDown"

    run(story())


def test_a_held_instance_has_no_pod_group() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            assert "p1" not in on.with_pod_group()

    run(story())


def test_a_lost_decode_is_replaced_before_a_second_prefill_starts() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await running(on)
            await on.kill("d0", "p1")
            await on.settle()
            assert on.with_pods() == {"p0", "d0"}
            assert (on.reason("p1"), on.with_pod_group()) == ("WaitingForRatio", {"p0", "d0"})
            await on.start("d0")
            assert on.with_pods() == {"p0", "p1", "d0"}

    run(story())


def test_an_unbound_surplus_is_taken_back_when_another_group_misses_an_instance() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await on.kill("d0")
            await on.settle()
            assert on.with_pods() == {"p0", "d0"}
            assert on.reason("p1") == "Revoked"

    run(story())


def test_a_bound_pod_is_never_deleted() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await on.bind(on.pods_of("p1")[0])
            await on.kill("d0")
            await on.settle()
            assert "p1" in on.with_pods()

    run(story())


def test_an_instance_on_a_node_that_is_not_ready_does_not_count() -> None:
    async def story() -> None:
        async with rig(*SERVICE, node("other")) as on:
            await on.start("p0", "d0")
            await on.start("p1", node_name="other")
            gone = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
            await on.cluster.patch(
                NODES, None, "other", gone, patch_type=PatchType.MERGE, subresource="status"
            )
            await on.settle(2)
            assert on.reason("p1") == "Broken"
            assert "other" in on.words("p1")

    run(story())


def test_a_spare_takes_over_when_an_instance_stays_broken() -> None:
    async def story() -> None:
        async with rig(*SERVICE, job("p2")) as on:
            await running(on)
            loops = [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
            await on.status(on.pods_of("p1")[0], containerStatuses=loops)
            await on.settle(30)
            assert "p2" not in on.with_pods()
            await on.settle(40)
            assert "p2" in on.with_pods()

    run(story())


def test_a_missing_member_is_created_again() -> None:
    async def story() -> None:
        async with rig(rule_config_map(), job("p0", pods=2), job("d0")) as on:
            await on.start("p0", "d0")
            await on.cluster.delete(PODS, NAMESPACE, "p0-worker-0", grace_period_seconds=0)
            await on.settle()
            assert len(on.pods_of("p0")) == 2

    run(story())


def test_an_edited_rule_takes_effect_at_once() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await running(on)
            on.apply(
                job("p2"),
                rule_config_map(
                    rule_document({"group0": 3, "group1": 1}, {"group0": 1, "group1": 1})
                ),
            )
            await on.settle()
            assert "p2" in on.with_pods()

    run(story())


def test_a_smaller_rule_touches_nothing_that_runs_and_says_so() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await running(on)
            on.apply(rule_config_map(rule_document({"group0": 1, "group1": 1})))
            await on.settle()
            assert on.with_pods() == {"p0", "p1", "d0"}
            assert on.reason("p1") == "SurplusRunning"
            assert not any(write.startswith("delete") for write in on.writes())

    run(story())


@pytest.mark.parametrize("document", ["{", "", '{"elastic_scaling_list": []}', "# nothing"])
def test_a_broken_rule_leaves_the_last_valid_one_in_force(document: str) -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            on.apply(rule_config_map(document))
            await on.settle()
            await on.kill("p0")
            await on.settle()
            assert on.with_pods() == {"p1", "d0"}
            assert ("rule", "RuleInvalid") in on.events()

    run(story())


def test_no_valid_rule_ever_means_no_admission() -> None:
    async def story() -> None:
        async with rig(job("p0"), job("d0")) as on:
            assert (on.with_pods(), on.reason("p0")) == (set(), "RuleMissing")
            on.apply(rule_config_map("{"))
            await on.settle()
            assert (on.with_pods(), on.reason("p0")) == (set(), "RuleInvalid")
            on.apply(rule_config_map())
            await on.settle()
            assert on.with_pods() == {"p0", "d0"}

    run(story())


def test_the_last_valid_rule_survives_a_restart_and_the_loss_of_the_rule() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
        await on.cluster.delete(CONFIG_MAPS, NAMESPACE, "rule")
        await on.kill("d0")
        async with rig(cluster=on.cluster) as again:
            assert "d0" in again.with_pods()

    run(story())


def test_a_rule_created_again_inherits_its_annotations_and_one_changed_in_place_does_not() -> None:
    async def story() -> None:
        async with rig(rule_config_map(paused="true"), job("p0"), job("d0")) as on:
            assert on.reason("p0") == "Paused"
            await on.settle(3)
            await on.cluster.delete(CONFIG_MAPS, NAMESPACE, "rule")
            await on.settle()
            on.apply(rule_config_map())
            await on.settle()
            assert on.reason("p0") == "Paused"
            on.apply(rule_config_map(paused="false"))
            await on.settle()
            assert on.with_pods() == {"p0", "d0"}

    run(story())


def test_a_refused_instance_is_undone_whole_and_the_next_one_gets_its_turn() -> None:
    bad = job("p0", pods=2, creationTimestamp="2020-01-01T00:00:00Z")
    bad["spec"]["replicaSpecs"]["Worker"]["template"]["metadata"] = {
        "labels": {"a": "no label value!"}
    }

    async def story() -> None:
        async with rig(rule_config_map(), bad) as on:
            await on.settle(1)
            on.apply(job("p1"), job("d0"))
            await on.settle()
            assert on.with_pods() == {"p1", "d0"}
            assert on.with_pod_group() == {"p1", "d0"}
            assert on.reason("p0") == "CreateRefused"
            assert "no label value!" in on.words("p0")

    run(story())


def test_a_name_that_somebody_else_has_is_waited_for() -> None:
    taken: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p0-master-0", "namespace": NAMESPACE},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }

    async def story() -> None:
        async with rig(taken, rule_config_map(), job("p0"), job("d0")) as on:
            assert on.reason("p0") == "NameTaken"
            assert on.with_pod_group() == {"d0"}
            await on.cluster.delete(PODS, NAMESPACE, "p0-master-0")
            await on.settle()
            assert on.with_pods() == {"p0", "d0"}

    run(story())


def test_jobs_without_a_rule_are_created_and_training_jobs_left_alone() -> None:
    training = job("train", rule=None, labels={"framework": "pytorch"})
    forgotten = job(
        "forgotten", rule=None, labels={"framework": "pytorch", "mind-cluster/group-name": "group0"}
    )

    async def story() -> None:
        async with rig(job("mindie-controller", rule=None), training, forgotten) as on:
            assert on.with_pods() == {"mindie-controller"}
            assert on.reason("train") == ""
            assert ("forgotten", "NotServed") in on.events()
            assert not any(
                "ascendjobs train" in w or "ascendjobs forgotten" in w for w in on.writes()
            )

    run(story())


OPERATOR: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "spec": {"replicas": 1},
    "metadata": {"name": "ascend-operator-manager", "namespace": "mindx-dl"},
}


async def stop_operator(on: Rig) -> None:
    patch = {"spec": {"replicas": 0}}
    await on.cluster.patch(
        DEPLOYMENTS, "mindx-dl", "ascend-operator-manager", patch, patch_type=PatchType.MERGE
    )
    await on.settle()


def test_in_mode_create_it_does_nothing_at_all_until_the_ascend_operator_is_gone() -> None:
    async def story() -> None:
        async with rig(OPERATOR, *SERVICE, mode="create") as on:
            await on.settle(700)
            assert on.writes() == []
            await stop_operator(on)
            assert on.with_pods() == {"p0", "d0"}

    run(story())


@pytest.mark.parametrize("mode", ["create", "auto"])
def test_a_tenant_who_names_a_deployment_as_the_operators_stops_nobody(mode: str) -> None:
    theirs = OPERATOR | {"metadata": OPERATOR["metadata"] | {"namespace": "stranger"}}

    async def story() -> None:
        async with rig(theirs, *SERVICE, mode=mode) as on:
            await on.settle()
            assert on.with_pods() == {"p0", "d0"}

    run(story())


def test_in_mode_auto_it_only_tells_beside_an_ascend_operator_also_when_that_is_gone() -> None:
    async def story() -> None:
        async with rig(OPERATOR, *SERVICE, mode="auto") as on:
            await on.settle(700)
            assert {write.split()[-2] for write in on.writes()} == {
                "configmaps",
                "elasticservices",
                "events",
            }
            # nobody moved the label: the operator's own gate decides
            assert ("p0", "HoldNotPossible") in on.events()
            await stop_operator(on)
            assert on.with_pods() == set()

    run(story())


def test_at_rest_nothing_is_written() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await running(on)
            await on.settle(30)
            before = len(on.cluster.audit)
            await on.settle(2000)
            assert len(on.cluster.audit) == before

    run(story())


def test_what_was_kept_about_a_rule_goes_with_its_last_job() -> None:
    async def story() -> None:
        async with rig(*SERVICE, lease_namespace=NAMESPACE) as on:
            await on.settle(3)
            assert on.said()["running"] == "0+0"
            for name in ("p0", "p1", "d0"):
                await on.cluster.delete(ASCEND_JOBS, NAMESPACE, name)
            await on.settle(5)
            assert on.cluster.peek(ELASTIC_SERVICES) == []
            assert on.config_map("mindie.rule-scaler-last-valid") is None
            assert on.config_map("rule") is not None

    run(story())


def test_a_crash_at_any_write_is_completed_by_the_next_life() -> None:
    async def story() -> None:
        async with rig(rule_config_map(), job("p0", pods=4), job("d0", pods=2)) as reference:
            writes = [
                w for w in reference.writes() if w.split()[1] in ("pods", "podgroups", "services")
            ]
        for crash_at in range(1, len(writes)):
            interceptor = StopAfter(crash_at)
            async with rig(
                rule_config_map(), job("p0", pods=4), job("d0", pods=2), interceptor=interceptor
            ) as on:
                pass
            async with rig(cluster=on.cluster) as again:
                assert (len(again.pods_of("p0")), len(again.pods_of("d0"))) == (4, 2)
                assert again.with_pod_group() == {"p0", "d0"}

    run(story())


def test_the_status_tells_what_waits_for_what() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.settle(2)
            reasons = {found["name"]: found["reason"] for found in on.said()["instances"]}
            assert reasons["p1"] == "WaitingForRatio"
            assert on.words("p1").startswith("Created WaitingForRatio: ")
            assert {("p1", "WaitingForRatio"), ("p0", "WaitingForScheduler")} <= on.events()
            assert all("nodes" not in found for found in on.said()["instances"])

    run(story())


def test_a_spoilt_job_recovers_by_an_edit_and_what_runs_is_left_alone() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await running(on)
            before = {pod["metadata"]["uid"] for pod in on.pods_of("p0")}
            await on.edit("p0", "/spec/replicaSpecs", {"Worker": {"replicas": -1}})
            await on.settle(2)
            assert {pod["metadata"]["uid"] for pod in on.pods_of("p0")} == before
            assert (on.reason("p0"), ("p0", "JobInvalid") in on.events()) == ("Running", True)
            await on.kill("p0")
            await on.settle(2)
            assert on.reason("p0") == "JobInvalid"
            assert "InvalidReplicaType" in on.words("p0")
            assert "InvalidReplicaSpec" in on.words("p0")
            await on.edit("p0", "/spec", job("p0")["spec"])
            await on.settle()
            assert on.with_pods() == {"p0", "p1", "d0"}

    run(story())
