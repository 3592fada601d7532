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
from tests.jobs import NAMESPACE, TWO_P_ONE_D, job, rule_config_map, rule_document
from tests.rig import Rig
from tests.stand_ins import DeployedOperator, deployment
from tests.strategies import rules


async def staged(*applied: Object, nodes: int = 0) -> Rig:
    on = Rig()
    on.nodes(*(f"n{number}" for number in range(nodes)))
    on.cluster.apply(applied, NAMESPACE)
    return on


def actors(on: Rig, **options: Any) -> list[Any]:
    """The operator and whatever it takes to let its pods run."""
    api = on.cluster
    return [
        AscendOperator(api.client("operator"), on.clock, **options),
        GangScheduler(api),
        Kubelet(api, on.clock),
    ]


def conditions(on: Rig, name: str) -> list[str]:
    found = next(obj for obj in on.cluster.peek(ASCEND_JOBS) if objects.name(obj) == name)
    return [f"{c['type']} {c['reason']}" for c in objects.status(found).get("conditions", [])]


def owners(on: Rig) -> set[str]:
    """Jobs that have pods."""
    return {pod["metadata"]["ownerReferences"][0]["name"] for pod in on.cluster.peek(PODS)}


# one job


def test_the_pod_group_comes_first_and_without_a_phase_nothing_follows() -> None:
    async def main() -> None:
        on = await staged(rule_config_map(), job("p0", pods=2))
        await on.play(60, AscendOperator(on.cluster, on.clock))
        assert len(on.cluster.peek(POD_GROUPS)) == 1
        assert on.cluster.peek(PODS) == on.cluster.peek(SERVICES) == []
        assert conditions(on, "p0") == ["Created PodGroupNotInitialized"]

    run(main())


def test_a_pod_group_that_finds_no_room_is_waited_for() -> None:
    async def main() -> None:
        on = await staged(job("p0", rule=None))
        await on.play(60, *actors(on))
        assert (owners(on), conditions(on, "p0")) == (set(), ["Created PodGroupPending"])

    run(main())


def test_an_instance_becomes_whole_and_running() -> None:
    async def main() -> None:
        on = await staged(job("p0", pods=3, rule=None), nodes=3)
        await on.play(60, *actors(on))
        assert [objects.phase(pod) for pod in on.cluster.peek(PODS)] == ["Running"] * 3
        assert conditions(on, "p0")[-1] == "Running JobRunning"

    run(main())


def test_its_objects_differ_from_the_scalers_as_the_reference_says() -> None:
    made = job(
        "p0", rule=None, annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    )
    container = made["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "APP_TYPE", "value": "mine"}]

    async def main() -> None:
        on = await staged(made, nodes=1)
        await on.play(30, *actors(on))
        (group,) = on.cluster.peek(POD_GROUPS)
        (pod,) = on.cluster.peek(PODS)
        assert "kubectl.kubernetes.io/last-applied-configuration" in objects.annotations_of(group)
        variables = pod["spec"]["containers"][0]["env"]
        assert [v["value"] for v in variables if v["name"] == "APP_TYPE"] == [
            "mine",
            "mindie-ms-server",
        ]
        assert objects.labels_of(pod)["version"] == "0"

    run(main())


def test_each_loss_of_pods_is_a_round_and_beyond_the_limit_the_job_fails_for_good() -> None:
    made = job("p0", rule=None)
    made["spec"]["runPolicy"] = {"backoffLimit": 1}

    async def main() -> None:
        on = await staged(made, nodes=1)

        async def lose_twice() -> None:
            for version in ("0", "1"):
                await asyncio.sleep(30)
                (pod,) = on.cluster.peek(PODS)
                assert objects.labels_of(pod)["version"] == version
                await on.cluster.delete(PODS, NAMESPACE, "p0-master-0", grace_period_seconds=0)

        await on.play(120, *actors(on), script=lose_twice())
        assert conditions(on, "p0")[-1] == "Failed JobFailed"
        assert on.cluster.peek(PODS) == on.cluster.peek(POD_GROUPS) == []

    run(main())


def test_an_edit_does_not_mend_a_job_that_failed_its_validation() -> None:
    async def main() -> None:
        on = await staged(job("p0", rule=None, labels={"app": "a", "jobID": "j"}), nodes=1)

        async def mend() -> None:
            await asyncio.sleep(10)
            patch = {"metadata": {"labels": {"framework": "pytorch"}}}
            await on.cluster.patch(ASCEND_JOBS, NAMESPACE, "p0", patch, patch_type=PatchType.MERGE)

        await on.play(60, *actors(on), script=mend())
        assert (owners(on), conditions(on, "p0")) == (set(), ["Failed JobValidFailed"])

    run(main())


def test_a_withdrawn_rank_table_keeps_its_servers_and_one_that_comes_late_stays_as_it_is() -> None:
    async def main() -> None:
        on = await staged(rings("p0"), job("p0", rule=None), job("p1", rule=None), nodes=2)

        async def lose_a_pod() -> None:
            await asyncio.sleep(30)
            on.cluster.apply([rings("p1")], NAMESPACE)
            assert table(on, "p0")["status"] == "completed"
            await on.cluster.delete(PODS, NAMESPACE, "p0-master-0", grace_period_seconds=30)
            await asyncio.sleep(0.5)
            withdrawn = table(on, "p0")
            assert (withdrawn["status"], len(withdrawn["server_list"])) == ("initializing", 1)

        await on.play(90, *actors(on), DevicePlugin(on.cluster), script=lose_a_pod())
        assert (table(on, "p0")["status"], table(on, "p1")) == (
            "completed",
            {"status": "initializing"},
        )

    run(main())


def rings(name: str) -> Object:
    metadata = {"name": f"rings-config-{name}", "namespace": NAMESPACE}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"hccl.json": '{"status":"initializing"}'},
    }


def table(on: Rig, name: str) -> Object:
    found = next(
        obj for obj in on.cluster.peek(CONFIG_MAPS) if objects.name(obj) == f"rings-config-{name}"
    )
    content: Object = json.loads(found["data"]["hccl.json"])
    return content


# the gate


def test_all_jobs_applied_together_are_let_in_because_nothing_in_flight_is_counted() -> None:
    async def main() -> None:
        on = await staged(rule_config_map(), job("p0"), job("p1"), job("p2"), job("d0"), nodes=4)
        await on.play(60, *actors(on))
        assert owners(on) == {"p0", "p1", "p2", "d0"}

    run(main())


def test_a_held_job_is_looked_at_again_by_a_timer_only() -> None:
    """Decode runs at once; the second prefill job, refused shortly before, starts up to 20 s
    later."""

    async def main() -> None:
        on = await staged(rule_config_map(), job("p0"), nodes=3)

        async def grow() -> None:
            await asyncio.sleep(30)
            on.cluster.apply([job("p1")], NAMESPACE)
            await asyncio.sleep(60)
            assert owners(on) == {"p0"}
            on.cluster.apply([job("d0")], NAMESPACE)
            await asyncio.sleep(1)

        await on.play(150, *actors(on), script=grow())
        assert owners(on) == {"p0", "p1", "d0"}
        created = {
            objects.name(pod): pod["metadata"]["creationTimestamp"] for pod in on.cluster.peek(PODS)
        }
        assert created["p1-master-0"] > created["d0-master-0"]

    run(main())


def test_without_its_rule_a_lost_pod_is_not_made_anew() -> None:
    async def main() -> None:
        on = await staged(rule_config_map(), job("p0"), job("d0"), nodes=2)

        async def lose_the_rule_and_a_pod() -> None:
            await asyncio.sleep(30)
            await on.cluster.delete(CONFIG_MAPS, NAMESPACE, "rule")
            await on.cluster.delete(PODS, NAMESPACE, "d0-master-0", grace_period_seconds=0)

        await on.play(200, *actors(on), script=lose_the_rule_and_a_pod())
        assert owners(on) == {"p0"}
        assert "Created PodCreateFailed" in conditions(on, "d0")

    run(main())


def test_a_group_that_the_target_does_not_name_waits_or_if_wanted_ends_the_process() -> None:
    async def main() -> None:
        on = await staged(rule_config_map(), job("x0", "typo"), nodes=1)
        await on.play(30, *actors(on))
        assert owners(on) == set()
        original = asyncio.create_task(AscendOperator(on.cluster, on.clock, crashes=True).run())
        await asyncio.wait([original], timeout=30)
        crash = original.exception()
        assert isinstance(crash, ExceptionGroup)
        assert crash.subgroup(OperatorCrashError) is not None

    run(main())


@given(
    rules(),
    st.lists(st.integers(0, 5), min_size=3, max_size=3),
    st.sampled_from(["group0", "group1", "group2"]),
)
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

    pending = Condition("Created", "PodGroupPending", "")
    runs = Condition("Running", "JobRunning", "")
    assert told({}, pending, runs) == [("Created", "True"), ("Running", "True")]
    assert told({}, pending, runs, pending) == [("Created", "True"), ("Running", "True")]
    assert told({}, runs, pending, runs) == [("Running", "True"), ("Created", "True")]
    restarting = Condition("Restarting", "JobRestarting", "")
    failed = Condition("Failed", "JobFailed", "")
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
        on = await staged(deployment(0), nodes=2)

        async def scale() -> None:
            on.cluster.apply([job("p0", rule=None)], NAMESPACE)
            await asyncio.sleep(10)
            assert on.cluster.peek(POD_GROUPS) == []
            on.cluster.apply([deployment(1)])
            await asyncio.sleep(10)
            assert len(on.cluster.peek(POD_GROUPS)) == 1
            on.cluster.apply([deployment(0)])
            await asyncio.sleep(1)
            on.cluster.apply([job("p1", rule=None)], NAMESPACE)

        await on.play(60, DeployedOperator(on.cluster, on.clock), script=scale())
        assert len(on.cluster.peek(POD_GROUPS)) == 1

    run(main())
