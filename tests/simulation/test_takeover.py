"""A live service moves from Ascend Operator to the scaler and back, and no running pod notices."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    POD_GROUPS,
    PODS,
    SERVICES,
    Object,
    PatchType,
)
from scaler.names import RANK_TABLE_KEY, RANK_TABLE_PREFIX
from scaler.settings import Settings
from scaler.sim import loop
from scaler.sim.actors import objects
from scaler.sim.actors.devices import DevicePlugin
from scaler.sim.actors.nodes import NodeFate
from scaler.sim.actors.operator import NAMESPACE as OPERATORS
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.instances import Condition, census
from scaler.sim.stories.manifests import apply, read_manifests
from scaler.sim.stories.play import silence_logs
from scaler.tools.takeover.check import Report, check
from tests.jobs import QUEUE
from tests.rig import Rig, at_work, controller
from tests.simulation.worlds import A2, A3, EXAMPLE
from tests.stand_ins import DEPLOYMENT, DeployedOperator, deployment, machines

SCALER = "scaler"
OPERATOR = "operator"


class _Guard(Interceptor):
    """Notes every deletion of a pod that has a node: neither of the two may do that."""

    def __init__(self, cluster: SimCluster) -> None:
        self.broken: list[str] = []
        self._cluster = cluster

    async def before(self, request: Request) -> None:
        if request.verb == "delete" and request.resource == PODS:
            for pod in self._cluster.peek(PODS, request.namespace):
                if (
                    objects.name(pod) == request.name
                    and objects.node_of(pod)
                    and not objects.ended(pod)
                ):
                    self.broken.append(f"{request.client} deletes {request.name}")


class Moving(Rig):
    """The cluster, with the operator's Deployment at one replica. Every client is known to the
    audit by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.guard = _Guard(self.cluster)
        self._scaler = AsyncExitStack()

    # what happens

    async def furnish(
        self, nodes: int, manifests: Sequence[Path], more: Sequence[Object], *, a3: bool
    ) -> None:
        names = (f"npu-{number}" for number in range(nodes))
        self.nodes(*names, labels=A3 if a3 else A2, npu=16 if a3 else 8)
        self.nodes("cpu-0", npu=0, cpu=2000, memory="8Ti", pods=500)
        self.cluster.apply([QUEUE])
        for path in manifests:
            for obj in read_manifests(path):
                await apply(self.cluster, obj)
        self.cluster.apply(more)

    async def scale_operator(self, replicas: int) -> None:
        patch = {"spec": {"replicas": replicas}}
        await self.cluster.patch(
            DEPLOYMENTS, OPERATORS, DEPLOYMENT, patch, patch_type=PatchType.MERGE
        )

    async def start_scaler(self, **settings: Any) -> None:
        """Without budgets, whose labels would be among what is written, and with `settings`."""
        chosen = {"mode": "auto", "arbitration": False, "disruption_budgets": False, **settings}
        await self._scaler.enter_async_context(
            controller(self, name=SCALER, interceptor=self.guard, **chosen)
        )

    async def stop_scaler(self) -> None:
        await self._scaler.aclose()

    # what there is

    def uids(self) -> dict[str, str]:
        """Every pod, PodGroup and Service of a job, by kind and name."""
        return {
            f"{resource.plural} {objects.name(obj)}": objects.uid(obj)
            for resource in (PODS, POD_GROUPS, SERVICES)
            for obj in self.cluster.peek(resource)
            if objects.owner_uid(obj)
        }

    def running(self) -> set[str]:
        """Instances under a rule that run."""
        found = census(self.cluster.peek)
        return {
            view.name
            for views in found.values()
            for view in views
            if view.condition is Condition.RUNNING
        }

    def writes(self, client: str = SCALER, *kinds: str) -> list[str]:
        """`verb plural name` of what a client wrote to objects of these kinds (plural; default:
        those of instances)."""
        wanted = kinds or ("pods", "podgroups", "services")
        return [
            f"{write.verb} {write.resource.plural} {write.name}"
            for write in self.cluster.writes(client)
            if write.resource.plural in wanted
        ]

    def tables(self) -> dict[str, tuple[str, str]]:
        """Of each rank table, by job: status and the ConfigMap's resourceVersion."""
        return {
            objects.name(found).removeprefix(RANK_TABLE_PREFIX): (
                json.loads(found["data"][RANK_TABLE_KEY])["status"],
                found["metadata"]["resourceVersion"],
            )
            for found in self.cluster.peek(CONFIG_MAPS)
            if objects.name(found).startswith(RANK_TABLE_PREFIX)
        }

    def last_condition(self, job: str) -> str:
        """Type and reason of the condition that `kubectl get acjob` shows."""
        found = next(obj for obj in self.cluster.peek(ASCEND_JOBS) if objects.name(obj) == job)
        last = objects.status(found)["conditions"][-1]
        return f"{last['type']} {last['reason']}"


@asynccontextmanager
async def moving(
    nodes: int, *manifests: Path, more: Sequence[Object] = (), a3: bool = False
) -> AsyncIterator[Moving]:
    """An operator that has brought the manifests' services up, for as long as the block lasts."""
    on = Moving()
    on.cluster.apply([deployment()])
    api = on.cluster.client("world")
    operator = DeployedOperator(on.cluster.client(OPERATOR, on.guard), on.clock)
    actors = (*machines(api, on.clock, 0), DevicePlugin(api), operator)
    async with at_work(*(actor.run() for actor in actors)):
        await on.furnish(nodes, manifests, more, a3=a3)
        await asyncio.sleep(240)
        yield on
        await on.stop_scaler()
    assert on.guard.broken + on.broken == []


WHOLE = {"mindie-server-p0", "mindie-server-p1", "mindie-server-d0"}
DECODE = "mindie-server-d0"
NAMESPACE = "mindie"


def run(story: Coroutine[Any, Any, None]) -> None:
    silence_logs()
    loop.run(story)


async def to_the_scaler(on: Moving, **settings: Any) -> None:
    await on.scale_operator(0)
    await on.start_scaler(**settings)
    await asyncio.sleep(60)


async def to_the_operator(on: Moving) -> None:
    await on.stop_scaler()
    await on.scale_operator(1)
    await asyncio.sleep(60)


async def lose_and_return(on: Moving, job: str) -> None:
    """Its node goes for long enough to notice, and comes back."""
    node = on.nodes_by_pod()[f"{job}-master-0"]
    await on.node(node, NodeFate.NOT_READY)
    await asyncio.sleep(200)
    assert job not in on.running()
    await on.node(node, NodeFate.READY)
    await asyncio.sleep(200)


def spare() -> Object:
    """A third prefill job, which the rule has no place for."""
    obj = next(
        obj for obj in read_manifests(EXAMPLE / "20-prefill-p0.yaml") if obj["kind"] == "AscendJob"
    )
    obj["metadata"]["name"] = "mindie-server-p2"
    return obj


def group_of(on: Moving, job: str) -> list[str]:
    return [name for name in on.uids() if name.startswith(f"podgroups {job}-")]


async def checked(on: Moving) -> Report:
    return await check(on.cluster.client("check"), Settings.model_validate({}), on.clock)


async def consequences(on: Moving, weight: str) -> dict[str, list[str]]:
    """Texts by job, "" for the cluster."""
    report = await checked(on)
    found = {
        "": [
            consequence.text for consequence in report.consequences if consequence.weight == weight
        ]
    }
    for job in report.jobs:
        found[job.name] = [
            consequence.text for consequence in job.consequences if consequence.weight == weight
        ]
    assert report.safe == (
        not any(
            consequence.weight == "blocks"
            for job in report.jobs
            for consequence in job.consequences
        )
        and not any(consequence.weight == "blocks" for consequence in report.consequences)
    )
    return {name: texts for name, texts in found.items() if texts}


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
    ("name", "nodes"),
    [("A2_2P1D_p2pod_d4pod", 8), ("A2_2P1D_p1pod_d1pod", 3), ("A3_2P1D_p2pod_d4pod", 16)],
)
def test_services_of_mindie_motor_move_there_and_back(
    real_data: Path, name: str, nodes: int
) -> None:
    folder = real_data / "motor" / name

    async def story() -> None:
        async with moving(
            nodes, folder / "configmaps", folder / "deployment", a3=name.startswith("A3")
        ) as on:
            assert on.running() == WHOLE
            before = on.uids()
            tables = on.tables()
            assert {status for status, _ in tables.values()} == {"completed"}
            report = await checked(on)
            assert [
                consequence.text
                for job in report.jobs
                for consequence in job.consequences
                if consequence.weight != "expected"
            ] == []
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
        f"{w.verb} {w.resource.plural} {w.name}"
        for w in on.cluster.writes(SCALER)
        if w.resource.plural not in told
    ]


def test_beside_an_operator_that_decides_by_its_own_gate_the_scaler_only_tells() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            await on.start_scaler()
            await lose_and_return(on, DECODE)
            assert on.running() == WHOLE
            assert touched(on) == []

    run(story())


def test_evictions_are_kept_from_the_minimum_beside_such_an_operator_too() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            await on.start_scaler(disruption_budgets=True)
            await asyncio.sleep(60)
            budget, *labels = touched(on)
            assert budget == "create poddisruptionbudgets mind-cluster-scaler-minimum"
            assert labels == [
                "patch pods mindie-server-d0-master-0",
                "patch pods mindie-server-p1-master-0",
            ]

    run(story())


def test_in_mode_auto_an_operator_that_leaves_is_not_enough() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            await on.start_scaler()
            await asyncio.sleep(10)
            await on.scale_operator(0)
            await asyncio.sleep(60)
            assert touched(on) == []

    run(story())


def test_in_mode_create_the_scaler_takes_over_when_the_operator_leaves() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            await on.start_scaler(mode="create")
            await asyncio.sleep(10)
            before = on.uids()
            await on.scale_operator(0)
            await lose_and_return(on, DECODE)
            assert on.running() == WHOLE
            changed = {name for name, uid in on.uids().items() if before.get(name) != uid}
            assert changed == {f"pods {DECODE}-master-0"}

    run(story())


def test_a_fault_after_the_takeover_or_the_way_back_costs_the_lost_instance_only() -> None:
    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            before = on.uids()
            await to_the_scaler(on)
            await lose_and_return(on, DECODE)
            assert on.running() == WHOLE
            assert on.writes(SCALER) == [f"create pods {DECODE}-master-0"]
            between = on.uids()
            assert {name for name in before if between.get(name) != before[name]} == {
                f"pods {DECODE}-master-0"
            }
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


def test_too_many_instances_that_the_operator_let_start_at_once_are_not_touched_when_they_run() -> (
    None
):
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
def test_between_moves_the_service_comes_back_and_no_pod_with_a_node_is_deleted(
    seed: int,
) -> None:
    dice = random.Random(seed)

    async def fault(on: Moving) -> None:
        node = f"npu-{dice.randrange(3)}"
        await on.node(node, NodeFate.NOT_READY)
        await asyncio.sleep(dice.uniform(0, 90))
        await on.node(node, NodeFate.READY)
        await asyncio.sleep(dice.uniform(0, 90))

    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            for number in range(6):
                await fault(on)
                await (on.scale_operator(0) if number % 2 == 0 else on.stop_scaler())
                if number % 2 == 0:
                    await on.start_scaler()
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
            assert (await consequences(on, "does")).keys() == {DECODE}
            await to_the_scaler(on)
            assert on.running() == WHOLE

    run(story())


def test_a_running_job_that_the_operator_called_invalid_is_kept_and_its_status_mended() -> None:
    """One failed look at its queue is enough there."""

    async def story() -> None:
        async with moving(3, EXAMPLE) as on:
            await on.scale_operator(0)
            failed = {
                "type": "Failed",
                "status": "True",
                "reason": "JobValidFailed",
                "message": "InvalidQueue: ...",
            }
            patch = {"status": {"conditions": [failed]}}
            await on.cluster.patch(
                ASCEND_JOBS,
                NAMESPACE,
                DECODE,
                patch,
                patch_type=PatchType.MERGE,
                subresource="status",
            )
            before = on.uids()
            assert (await checked(on)).safe
            await to_the_scaler(on)
            assert (on.uids(), on.last_condition(DECODE)) == (before, "Running JobRunning")
            await lose_and_return(on, DECODE)
            assert on.running() == WHOLE

    run(story())
