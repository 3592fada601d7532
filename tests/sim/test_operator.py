"""The stand-in for Ascend Operator: its order, its gate, its timers and its weaknesses."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, POD_GROUPS, PODS, SERVICES, Object, PatchType
from scaler.rules.rule import Rule
from scaler.sim.actors import objects
from scaler.sim.actors.devices import DevicePlugin
from scaler.sim.actors.nodes import Kubelet
from scaler.sim.actors.operator import AscendOperator
from scaler.sim.actors.operator_rules import (
    Condition,
    OperatorCrashError,
    Retries,
    may_create,
    of_pods,
    read_ratios,
    updated,
)
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.loop import run
from tests.decide.test_gate import GateCrashError
from tests.decide.test_gate import may_start as described
from tests.deployed_operator import DeployedOperator, deployment
from tests.jobs import NAMESPACE, TWO_P_ONE_D, job, rule_config_map, rule_document
from tests.sim.stage import Stage
from tests.strategies import rules


async def staged(*applied: Object, nodes: int = 0) -> Stage:
    stage = Stage()
    await stage.nodes(*(f"n{number}" for number in range(nodes)))
    stage.cluster.apply(applied, NAMESPACE)
    return stage


def actors(stage: Stage, **options: Any) -> list[Any]:
    """The operator and whatever it takes to let its pods run."""
    api = stage.cluster
    return [
        AscendOperator(api.client("operator"), stage.clock, **options),
        GangScheduler(api),
        Kubelet(api, stage.clock),
    ]


def conditions(stage: Stage, name: str) -> list[str]:
    found = next(obj for obj in stage.cluster.peek(ASCEND_JOBS) if objects.name(obj) == name)
    return [f"{c['type']} {c['reason']}" for c in objects.status(found).get("conditions", [])]


def owners(stage: Stage) -> set[str]:
    """Jobs that have pods."""
    return {pod["metadata"]["ownerReferences"][0]["name"] for pod in stage.cluster.peek(PODS)}


# one job


def test_the_pod_group_comes_first_and_without_a_phase_nothing_follows() -> None:
    async def main() -> None:
        stage = await staged(rule_config_map(), job("p0", pods=2))
        await stage.play(60, AscendOperator(stage.cluster, stage.clock))
        assert len(stage.cluster.peek(POD_GROUPS)) == 1
        assert stage.cluster.peek(PODS) == stage.cluster.peek(SERVICES) == []
        assert conditions(stage, "p0") == ["Created PodGroupNotInitialized"]

    run(main())


def test_a_pod_group_that_finds_no_room_is_waited_for() -> None:
    async def main() -> None:
        stage = await staged(job("p0", rule=None))
        await stage.play(60, *actors(stage))
        assert (owners(stage), conditions(stage, "p0")) == (set(), ["Created PodGroupPending"])

    run(main())


def test_an_instance_becomes_whole_and_running() -> None:
    async def main() -> None:
        stage = await staged(job("p0", pods=3, rule=None), nodes=3)
        await stage.play(60, *actors(stage))
        assert [objects.phase(pod) for pod in stage.cluster.peek(PODS)] == ["Running"] * 3
        assert conditions(stage, "p0")[-1] == "Running JobRunning"

    run(main())


def test_its_objects_differ_from_the_scalers_as_the_reference_says() -> None:
    made = job("p0", rule=None, annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}"})
    container = made["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "APP_TYPE", "value": "mine"}]

    async def main() -> None:
        stage = await staged(made, nodes=1)
        await stage.play(30, *actors(stage))
        (group,), (pod,) = stage.cluster.peek(POD_GROUPS), stage.cluster.peek(PODS)
        assert "kubectl.kubernetes.io/last-applied-configuration" in objects.annotations_of(group)
        variables = pod["spec"]["containers"][0]["env"]
        assert [v["value"] for v in variables if v["name"] == "APP_TYPE"] == ["mine", "mindie-ms-server"]
        assert objects.labels_of(pod)["version"] == "0"

    run(main())


def test_each_loss_of_pods_is_a_round_and_beyond_the_limit_the_job_fails_for_good() -> None:
    made = job("p0", rule=None)
    made["spec"]["runPolicy"] = {"backoffLimit": 1}

    async def main() -> None:
        stage = await staged(made, nodes=1)

        async def lose_twice() -> None:
            for version in ("0", "1"):
                await asyncio.sleep(30)
                (pod,) = stage.cluster.peek(PODS)
                assert objects.labels_of(pod)["version"] == version
                await stage.cluster.delete(PODS, NAMESPACE, "p0-master-0", grace_period_seconds=0)

        await stage.play(120, *actors(stage), script=lose_twice())
        assert conditions(stage, "p0")[-1] == "Failed JobFailed"
        assert stage.cluster.peek(PODS) == stage.cluster.peek(POD_GROUPS) == []

    run(main())


def test_an_edit_does_not_mend_a_job_that_failed_its_validation() -> None:
    async def main() -> None:
        stage = await staged(job("p0", rule=None, labels={"app": "a", "jobID": "j"}), nodes=1)

        async def mend() -> None:
            await asyncio.sleep(10)
            patch = {"metadata": {"labels": {"framework": "pytorch"}}}
            await stage.cluster.patch(ASCEND_JOBS, NAMESPACE, "p0", patch, patch_type=PatchType.MERGE)

        await stage.play(60, *actors(stage), script=mend())
        assert (owners(stage), conditions(stage, "p0")) == (set(), ["Failed JobValidFailed"])

    run(main())


def test_a_withdrawn_rank_table_keeps_its_servers_and_one_that_comes_late_stays_as_it_is() -> None:
    async def main() -> None:
        stage = await staged(rings("p0"), job("p0", rule=None), job("p1", rule=None), nodes=2)

        async def lose_a_pod() -> None:
            await asyncio.sleep(30)
            stage.cluster.apply([rings("p1")], NAMESPACE)
            assert table(stage, "p0")["status"] == "completed"
            await stage.cluster.delete(PODS, NAMESPACE, "p0-master-0", grace_period_seconds=30)
            await asyncio.sleep(0.5)
            withdrawn = table(stage, "p0")
            assert (withdrawn["status"], len(withdrawn["server_list"])) == ("initializing", 1)

        await stage.play(90, *actors(stage), DevicePlugin(stage.cluster), script=lose_a_pod())
        assert (table(stage, "p0")["status"], table(stage, "p1")) == ("completed", {"status": "initializing"})

    run(main())


def rings(name: str) -> Object:
    metadata = {"name": f"rings-config-{name}", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
            "data": {"hccl.json": '{"status":"initializing"}'}}  # fmt: skip


def table(stage: Stage, name: str) -> Object:
    found = next(obj for obj in stage.cluster.peek(CONFIG_MAPS) if objects.name(obj) == f"rings-config-{name}")
    content: Object = json.loads(found["data"]["hccl.json"])
    return content


# the gate


def test_all_jobs_applied_together_are_let_in_because_nothing_in_flight_is_counted() -> None:
    async def main() -> None:
        stage = await staged(rule_config_map(), job("p0"), job("p1"), job("p2"), job("d0"), nodes=4)
        await stage.play(60, *actors(stage))
        assert owners(stage) == {"p0", "p1", "p2", "d0"}

    run(main())


def test_a_held_job_is_looked_at_again_by_a_timer_only() -> None:
    """Decode runs at once; the second prefill job, refused shortly before, starts up to 20 s later."""

    async def main() -> None:
        stage = await staged(rule_config_map(), job("p0"), nodes=3)

        async def grow() -> None:
            await asyncio.sleep(30)
            stage.cluster.apply([job("p1")], NAMESPACE)
            await asyncio.sleep(60)
            assert owners(stage) == {"p0"}
            stage.cluster.apply([job("d0")], NAMESPACE)
            await asyncio.sleep(1)

        await stage.play(150, *actors(stage), script=grow())
        assert owners(stage) == {"p0", "p1", "d0"}
        created = {objects.name(pod): pod["metadata"]["creationTimestamp"] for pod in stage.cluster.peek(PODS)}
        assert created["p1-master-0"] > created["d0-master-0"]

    run(main())


def test_without_its_rule_a_lost_pod_is_not_made_anew() -> None:
    async def main() -> None:
        stage = await staged(rule_config_map(), job("p0"), job("d0"), nodes=2)

        async def lose_the_rule_and_a_pod() -> None:
            await asyncio.sleep(30)
            await stage.cluster.delete(CONFIG_MAPS, NAMESPACE, "rule")
            await stage.cluster.delete(PODS, NAMESPACE, "d0-master-0", grace_period_seconds=0)

        await stage.play(200, *actors(stage), script=lose_the_rule_and_a_pod())
        assert owners(stage) == {"p0"}
        assert "Created PodCreateFailed" in conditions(stage, "d0")

    run(main())


def test_a_group_that_the_target_does_not_name_waits_or_if_wanted_ends_the_process() -> None:
    async def main() -> None:
        stage = await staged(rule_config_map(), job("x0", "typo"), nodes=1)
        await stage.play(30, *actors(stage))
        assert owners(stage) == set()
        original = asyncio.create_task(AscendOperator(stage.cluster, stage.clock, crashes=True).run())
        await asyncio.wait([original], timeout=30)
        crash = original.exception()
        assert isinstance(crash, ExceptionGroup)
        assert crash.subgroup(OperatorCrashError) is not None

    run(main())


@given(rules(), st.lists(st.integers(0, 5), min_size=3, max_size=3), st.sampled_from(["group0", "group1", "group2"]))
def test_the_gate_is_the_described_one(rule: Rule, numbers: list[int], group: str) -> None:
    running = dict(zip(("group0", "group1", "group2"), numbers, strict=True))
    document = rule_document(*(dict(ratio.counts) for ratio in rule.ratios))
    try:
        expected: bool | type[Exception] = described(rule, running, group)
    except GateCrashError:
        expected = OperatorCrashError
    try:
        found: bool | type[Exception] = may_create(document, running, group)
    except OperatorCrashError:
        found = OperatorCrashError
    assert found == expected


@pytest.mark.parametrize(
    "document",
    [
        "",
        "{}",
        "[]",
        '{"elastic_scaling_list": null}',
        TWO_P_ONE_D.replace('"2"', "2"),
        TWO_P_ONE_D.replace('"2"', '" 2"'),
        TWO_P_ONE_D + " text",
        "# comment\n" + TWO_P_ONE_D,
        rule_document({"group0": 1}, {"group0": 2}),
        rule_document({"group0": 1}, {"group0": 1, "group1": 1}),
    ],
)
def test_a_rule_that_it_does_not_read_lets_nothing_in(document: str) -> None:
    assert (read_ratios(document), may_create(document, {}, "group0")) == ([], False)


def test_retries_double_up_to_twenty_seconds() -> None:
    retries = Retries()
    delays = [retries.delay("p0", now=1000.0 * number) for number in range(14)]
    assert delays[:3] == [0.005, 0.01, 0.02]
    assert (round(sum(delays[:12]), 3), delays[13]) == (20.475, 20.0)
    retries.forget("p0")
    assert retries.delay("p0", now=1e6) == 0.005


def test_many_refused_jobs_share_ten_retries_a_second() -> None:
    retries = Retries()
    delays = [retries.delay(f"p{number}", now=1000.0) for number in range(1100)]
    assert delays[:100] == [0.005] * 100
    assert round(delays[1099]) == 100


# the status


def test_conditions_follow_the_rules_that_make_them_untrustworthy() -> None:
    def told(status: Object, *news: Condition) -> list[tuple[str, str]]:
        for one in news:
            status = updated(status, one, "2026-01-01T00:00:00Z")
        return [(condition["type"], condition["status"]) for condition in status["conditions"]]

    pending, runs = Condition("Created", "PodGroupPending", ""), Condition("Running", "JobRunning", "")
    assert told({}, pending, runs) == [("Created", "True"), ("Running", "True")]
    assert told({}, pending, runs, pending) == [("Created", "True"), ("Running", "True")]
    assert told({}, runs, pending, runs) == [("Running", "True"), ("Created", "True")]
    restarting, failed = Condition("Restarting", "JobRestarting", ""), Condition("Failed", "JobFailed", "")
    assert told({}, runs, restarting) == [("Restarting", "True")]
    assert told({}, runs, failed, runs) == [("Running", "False"), ("Failed", "True")]


def test_a_failed_pod_fails_the_job_unless_it_may_retry() -> None:
    failed = {"metadata": {"name": "p0-master-0"}, "status": {"phase": "Failed"}}
    for retries, kind in ((0, "Failed"), (3, "Restarting")):
        told = of_pods(job("p0"), [failed], retries_left=retries)
        assert told is not None
        assert told.kind == kind


# the process


def test_it_stops_and_starts_with_its_deployment() -> None:
    async def main() -> None:
        stage = await staged(deployment(0), nodes=2)

        async def scale() -> None:
            stage.cluster.apply([job("p0", rule=None)], NAMESPACE)
            await asyncio.sleep(10)
            assert stage.cluster.peek(POD_GROUPS) == []
            stage.cluster.apply([deployment(1)])
            await asyncio.sleep(10)
            assert len(stage.cluster.peek(POD_GROUPS)) == 1
            stage.cluster.apply([deployment(0)])
            await asyncio.sleep(1)
            stage.cluster.apply([job("p1", rule=None)], NAMESPACE)

        await stage.play(60, DeployedOperator(stage.cluster, stage.clock), script=scale())
        assert len(stage.cluster.peek(POD_GROUPS)) == 1

    run(main())
