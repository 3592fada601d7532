"""Rank tables on a simulated cluster: filled, withdrawn, fixed, left alone, and told about."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS as JOBS
from scaler.kube.api import CONFIG_MAPS, DEPLOYMENTS, PODS, Object, PatchType
from scaler.kube.errors import UnknownOutcomeError, status_error
from scaler.ranktables.table import INITIALIZING
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.faults import Fault, Faults, Rule
from tests.jobs import NAMESPACE, job, rule_config_map, rule_document
from tests.ranktables.test_table import configuration
from tests.rig import START, Rig, rig

RULE = rule_config_map(rule_document({"group0": 1, "group1": 1}, pods=2))
NAME = "rings-config-p0"


def rings(text: str = INITIALIZING.text, **changes: Any) -> Object:
    labels = {"jobID": "mindie", "mx-consumer-cim": "true", "mind-cluster/group-name": "group0"}
    metadata = {"name": NAME, "namespace": NAMESPACE, "labels": labels}
    made = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"hccl.json": text},
    }
    return {**made, **changes}


def server(pods: int = 2) -> Object:
    """Prefill job p0, which mounts its rank table as MindIE's manifests do."""
    obj = job("p0", pods=pods)
    for spec in obj["spec"]["replicaSpecs"].values():
        spec["template"]["spec"]["volumes"] = [{"name": "rings", "configMap": {"name": NAME}}]
    return obj


async def give_chips(on: Rig, text: Callable[[int], str] = configuration) -> None:
    """As Volcano's plugin and the kubelet do: bound, with chips and an address."""
    for number, pod in enumerate(on.pods_of("p0")):
        if not pod["spec"].get("nodeName"):
            await on.bind(pod)
        patch = {
            "metadata": {
                "annotations": {
                    "ascend.kubectl.kubernetes.io/ascend-910-configuration": text(number)
                }
            }
        }
        name = pod["metadata"]["name"]
        await on.cluster.patch(PODS, NAMESPACE, name, patch, patch_type=PatchType.MERGE)
        await on.status(pod, phase="Running", podIP=f"10.244.0.{number}")
    await on.settle()


def by_node(number: int) -> str:
    """All pods are bound to one node here: chips of their own each."""
    devices = [{"device_id": str(number * 2 + chip), "device_ip": "x"} for chip in (0, 1)]
    return configuration(number, devices=devices)


def table(on: Rig) -> Any:
    return json.loads(data(on)["hccl.json"])


def data(on: Rig) -> Any:
    found = on.config_map(NAME)
    assert found is not None
    return found["data"]


def writes(on: Rig) -> list[str]:
    return [write for write in on.writes() if write.endswith(NAME)]


def warnings(on: Rig) -> set[str]:
    _, plan = on.decisions[-1]
    return {note.warning.value for note in plan.notes}


def test_a_table_is_completed_when_the_last_pod_has_its_chips_and_withdrawn_when_one_goes() -> None:
    async def story() -> None:
        async with rig(RULE, server(), rings()) as on:
            assert writes(on) == []
            await give_chips(on, by_node)
            assert table(on)["status"] == "completed"
            assert [s["container_ip"] for s in table(on)["server_list"]] == [
                "10.244.0.0",
                "10.244.0.1",
            ]
            first = int(data(on)["version"])
            assert first >= START
            # gracefully: it is terminating for a while
            await on.cluster.delete(PODS, NAMESPACE, "p0-worker-0")
            await on.settle()
            assert data(on)["hccl.json"] == INITIALIZING.text
            assert int(data(on)["version"]) > first
            assert writes(on) == [f"patch configmaps {NAME}"] * 2

    run(story())


def test_the_withdrawal_waits_neither_for_the_decision_nor_for_writes_of_the_service() -> None:
    async def story() -> None:
        slow = SlowPods()
        async with rig(RULE, server(), rings(), interceptor=slow) as on:
            await give_chips(on, by_node)
            slow.seconds = 5.0
            await on.cluster.delete(PODS, NAMESPACE, "p0-worker-0", grace_period_seconds=0)
            await on.settle(1)  # the replacement is being created
            assert "create pods p0-worker-0" not in on.writes()[-1:]
            await on.cluster.delete(PODS, NAMESPACE, "p0-master-0", grace_period_seconds=0)
            await on.settle()
            assert table(on)["status"] == "initializing"

    run(story())


class SlowPods(Interceptor):
    """Creating pods takes this long."""

    seconds = 0.0

    async def before(self, request: Request) -> None:
        if request.verb == "create" and request.resource is PODS:
            await asyncio.sleep(self.seconds)


def test_a_config_map_that_comes_late_or_anew_is_filled_at_once() -> None:
    async def story() -> None:
        async with rig(RULE, server()) as on:
            await give_chips(on, by_node)
            assert warnings(on) == {"TargetUnreachable", "RankTableMissing"}
            on.apply(rings())
            await on.settle()
            assert table(on)["status"] == "completed"
            assert warnings(on) == {"TargetUnreachable"}
            await on.cluster.delete(CONFIG_MAPS, NAMESPACE, NAME)
            await on.settle()
            on.apply(rings("garbage"))
            await on.settle()
            assert table(on)["status"] == "completed"

    run(story())


def test_the_table_is_withdrawn_with_its_job() -> None:
    async def story() -> None:
        async with rig(RULE, server(), rings()) as on:
            await give_chips(on, by_node)
            await on.cluster.delete(JOBS, NAMESPACE, "p0")
            await on.settle()
            assert data(on)["hccl.json"] == INITIALIZING.text

    run(story())


def test_at_rest_and_after_a_restart_nothing_is_written() -> None:
    async def story() -> None:
        async with rig(RULE, server(), rings()) as on:
            await give_chips(on, by_node)
        before = writes(on)
        async with rig(cluster=on.cluster) as again:
            await again.settle(2000)
            assert writes(again) == before

    run(story())


@pytest.mark.parametrize(
    ("there", "warning"),
    [
        (rings(immutable=True), "RankTableImmutable"),
        (rings(data={}, binaryData={"hccl.json": "e30="}), "RankTableWrongShape"),
        (rings(data={"hccl.json": "{}", "more": "x" * 1_000_000}), "RankTableTooLarge"),
    ],
)
def test_a_config_map_that_cannot_be_written_is_told_and_left_alone_until_it_changes(
    there: Object, warning: str
) -> None:
    async def story() -> None:
        async with rig(RULE, server(), there) as on:
            await give_chips(on, by_node)
            assert warnings(on) == {"TargetUnreachable", warning}
            assert writes(on) == []
            await on.settle(5)
            assert ("p0", warning) in on.events()
            await on.cluster.delete(CONFIG_MAPS, NAMESPACE, NAME)
            on.apply(rings())
            await on.settle()
            assert table(on)["status"] == "completed"

    run(story())


def test_a_config_map_of_another_owner_is_left_alone() -> None:
    owner = {"apiVersion": "v1", "kind": "Job", "name": "other", "uid": "u77", "controller": True}
    there = rings()
    there["metadata"]["ownerReferences"] = [owner]

    async def story() -> None:
        async with rig(RULE, server(), there) as on:
            await give_chips(on, by_node)
            assert (warnings(on), writes(on)) == ({"TargetUnreachable", "RankTableNotOurs"}, [])

    run(story())


def test_bad_device_data_is_told_and_a_table_made_of_it_never() -> None:
    async def story() -> None:
        async with rig(RULE, server(), rings()) as on:
            await give_chips(on, lambda _: "{")
            assert warnings(on) == {"TargetUnreachable", "DeviceDataInvalid"}
            assert writes(on) == []
            await give_chips(on, by_node)
            assert warnings(on) == {"TargetUnreachable"}
            assert table(on)["status"] == "completed"

    run(story())


def test_another_writer_of_the_config_map_is_overtaken_by_trying_again() -> None:
    async def story() -> None:
        rival = Rival()
        async with rig(RULE, server(), rings(), interceptor=rival) as on:
            rival.on = on
            await give_chips(on, by_node)
            assert rival.edits == 2
            assert table(on)["status"] == "completed"
            assert data(on)["note"] == "2"

    run(story())


class Rival(Interceptor):
    """Edits the ConfigMap just before the first two writes arrive."""

    def __init__(self) -> None:
        self.on: Rig | None = None
        self.edits = 0

    async def before(self, request: Request) -> None:
        if self.on and request.verb == "patch" and request.name == NAME and self.edits < 2:
            self.edits += 1
            patch = {"data": {"note": str(self.edits)}}
            await self.on.cluster.patch(
                CONFIG_MAPS, NAMESPACE, NAME, patch, patch_type=PatchType.MERGE
            )


def test_a_refusal_is_told_in_the_words_of_the_server_and_tried_again() -> None:
    async def story() -> None:
        guard = Guard()
        async with rig(RULE, server(), rings(), interceptor=guard) as on:
            await give_chips(on, by_node)
            assert warnings(on) == {"TargetUnreachable", "RankTableRefused"}
            assert "policy says no" in on.decisions[-1][1].notes[0].message
            guard.refuses = False
            await on.settle(70)
            assert table(on)["status"] == "completed"
            assert warnings(on) == {"TargetUnreachable"}

    run(story())


class Guard(Interceptor):
    """An admission policy that refuses the table."""

    refuses = True

    async def before(self, request: Request) -> None:
        if self.refuses and request.verb == "patch" and request.name == NAME:
            raise status_error(403, "Forbidden", "policy says no")


def test_an_unreadable_edit_of_a_running_job_changes_nothing_of_its_table_until_a_pod_goes() -> (
    None
):
    async def story() -> None:
        async with rig(RULE, server(), rings()) as on:
            await give_chips(on, by_node)
            patch = {"spec": {"replicaSpecs": {"Master": {"replicas": 7}}}}
            await on.cluster.patch(JOBS, NAMESPACE, "p0", patch, patch_type=PatchType.MERGE)
            await on.settle()
            assert table(on)["status"] == "completed"
            await on.cluster.delete(PODS, NAMESPACE, "p0-worker-0", grace_period_seconds=0)
            await on.settle()
            assert table(on)["status"] == "initializing"

    run(story())


def test_a_table_whose_job_went_while_no_scaler_ran_is_withdrawn_at_the_start() -> None:
    async def story() -> None:
        there = rings()
        there["metadata"]["labels"]["mind-cluster/scaling-rule"] = "rule"
        foreign = rings('{"status":"completed"}')
        foreign["metadata"]["name"] = "rings-config-training"
        async with rig(RULE, server(), there, foreign) as on:
            await give_chips(on, by_node)
            assert table(on)["status"] == "completed"
        await on.cluster.delete(JOBS, NAMESPACE, "p0")
        async with rig(cluster=on.cluster) as again:
            assert data(again)["hccl.json"] == INITIALIZING.text
            assert writes(again)[-1:] == [f"patch configmaps {NAME}"]
            assert not any("training" in write for write in again.writes())

    run(story())


def test_a_table_whose_job_this_install_does_not_watch_is_left_alone() -> None:
    async def story() -> None:
        there = rings('{"status":"completed"}')
        there["metadata"]["labels"]["mind-cluster/scaling-rule"] = "rule"
        there["metadata"]["namespace"] = "scaler-home"
        cluster = SimCluster(Clock(START))
        cluster.apply([there], "scaler-home")
        async with rig(
            RULE, cluster=cluster, lease_namespace="scaler-home", namespaces=(NAMESPACE,)
        ) as on:
            await on.settle()
            assert writes(on) == []

    run(story())


def test_beside_an_ascend_operator_no_table_is_written_until_it_has_gone() -> None:
    operator: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"replicas": 1},
        "metadata": {"name": "ascend-operator-manager", "namespace": "mindx-dl"},
    }

    async def story() -> None:
        async with rig(RULE, server(), rings()) as on:
            on.apply(operator)
            await give_chips(on, by_node)
            await on.settle(60)
            assert writes(on) == []
            patch = {"spec": {"replicas": 0}}
            await on.cluster.patch(
                DEPLOYMENTS,
                "mindx-dl",
                "ascend-operator-manager",
                patch,
                patch_type=PatchType.MERGE,
            )
            await on.settle()
            assert table(on)["status"] == "completed"

    run(story())


def test_a_lost_answer_does_not_delay_a_withdrawal() -> None:
    async def story() -> None:
        deaf = Deaf()
        async with rig(RULE, server(), rings(), interceptor=deaf) as on:
            await give_chips(on, by_node)
            deaf.lost = 2
            await on.cluster.delete(PODS, NAMESPACE, "p0-worker-0", grace_period_seconds=0)
            await on.settle()
            assert table(on)["status"] == "initializing"
            assert deaf.lost == 0

    run(story())


class Deaf(Interceptor):
    """So many writes of the table never arrive, and nobody says so."""

    lost = 0

    async def before(self, request: Request) -> None:
        if self.lost and request.verb == "patch" and request.name == NAME:
            self.lost -= 1
            raise UnknownOutcomeError("reset")


def test_the_scaler_knows_what_it_wrote_before_a_late_watch_shows_it() -> None:
    async def story() -> None:
        late = Faults(
            Clock(START),
            Rule(fault=Fault.LAG, verbs=("watch",), kinds=("ConfigMap",), seconds=60.0),
        )
        async with rig(RULE, server(), rings(), interceptor=late) as on:
            await give_chips(on, by_node)
            assert table(on)["status"] == "completed"
            await on.cluster.delete(PODS, NAMESPACE, "p0-worker-0", grace_period_seconds=0)
            await on.settle()
            assert table(on)["status"] == "initializing"
            assert writes(on) == [f"patch configmaps {NAME}"] * 2

    run(story())


def test_a_config_map_that_goes_before_the_answer_to_its_write_comes_is_missing() -> None:
    async def story() -> None:
        slow = Faults(
            Clock(START),
            Rule(fault=Fault.SLOW_ANSWER, verbs=("patch",), kinds=("ConfigMap",), seconds=3.0),
        )
        async with rig(RULE, server(), rings(), interceptor=slow) as on:
            await give_chips(on, by_node)
            assert table(on)["status"] == "completed"
            await on.cluster.delete(CONFIG_MAPS, NAMESPACE, NAME)
            await on.settle(10)
            assert "RankTableMissing" in warnings(on)
            on.apply(rings())
            await on.settle(10)
            assert table(on)["status"] == "completed"

    run(story())
