"""Instances whose pods others make: held by our gate, released and taken back by the whole
controller."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from scaler.execute.bursts import MOST_AT_ONCE
from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, POD_GROUPS, PODS, Object, PatchType
from scaler.kube.errors import ConflictError, ForbiddenError
from scaler.names import DELETION_COST, GATE, HELD_COST, INSTANCE, INSTANCE_SIZE, POD_GROUP
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.loop import run
from tests.jobs import NAMESPACE, document, held, job, rule_config_map, rule_document
from tests.rig import Rig, rig

P0 = held("p0", "group0")
P1 = held("p1", "group0")
D0 = held("d0", "group1", owner="decoder-77f")
SERVICE = (rule_config_map(), P0, P1, D0)


class RefusesOnce(Interceptor):
    """The first release of this pod is forbidden."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def before(self, request: Request) -> None:
        if request.verb == "patch" and request.resource == PODS and request.name == self._name:
            self._name = ""
            raise ForbiddenError(403, "Forbidden", "pods may not be patched")


def gates(on: Rig, name: str) -> list[str]:
    (pod,) = [pod for pod in on.cluster.peek(PODS, NAMESPACE) if pod["metadata"]["name"] == name]
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]


def released(on: Rig) -> set[str]:
    names = {pod["metadata"]["name"] for pod in on.cluster.peek(PODS, NAMESPACE)}
    return {name for name in names if GATE not in gates(on, name)}


async def let_run(on: Rig, *names: str) -> None:
    for pod in on.cluster.peek(PODS, NAMESPACE):
        if pod["metadata"]["name"] in names:
            await on.bind(pod)
            await on.status(pod, phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    await on.settle()


async def lose(on: Rig, name: str) -> None:
    await on.cluster.delete(PODS, NAMESPACE, name, grace_period_seconds=0)
    await on.settle()


def test_held_pods_are_released_by_the_rule() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            assert released(on) == {"p0", "d0"}
            assert on.reason("p1") == "WaitingForRatio"
            await let_run(on, "p0", "d0")
            assert released(on) == {"p0", "d0", "p1"}
            assert {w.split()[0] for w in on.writes() if " pods " in w} == {"patch"}

    run(story())


def test_a_pod_that_comes_back_gated_competes_anew() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await let_run(on, "p0", "d0")
            await let_run(on, "p1")
            await lose(on, "d0")
            await lose(on, "p0")
            on.apply(held("p2", "group0"), held("d1", "group1", owner="decoder-77f"))
            await on.settle()
            assert released(on) == {"p1", "d1"}
            await let_run(on, "d1")
            assert released(on) == {"p1", "d1", "p2"}

    run(story())


def test_all_gates_of_an_admitted_instance_are_taken_off_at_once_and_none_of_a_held_one() -> None:
    def pods(instance: str) -> list[Object]:
        said = {INSTANCE: instance, INSTANCE_SIZE: "3"}
        return [held(f"{instance}-{number}", "group0", annotations=said) for number in range(3)]

    async def story() -> None:
        async with rig(rule_config_map(), *pods("p0"), *pods("p1"), D0) as on:
            assert released(on) == {"p0-0", "p0-1", "p0-2", "d0"}

    run(story())


def test_foreign_gates_and_fields_stay() -> None:
    theirs = held(
        "p0",
        "group0",
        gates=("acme/quota", GATE),
        annotations={"note": "theirs", DELETION_COST: "7"},
    )

    async def story() -> None:
        async with rig(rule_config_map(), theirs, D0) as on:
            assert gates(on, "p0") == ["acme/quota"]
            (pod,) = [
                pod for pod in on.cluster.peek(PODS, NAMESPACE) if pod["metadata"]["name"] == "p0"
            ]
            assert pod["metadata"]["annotations"] == {"note": "theirs", DELETION_COST: "7"}

    run(story())


def test_the_deletion_cost_of_a_held_pod_goes_with_the_gate() -> None:
    cheap = [held(name, "group0", annotations={DELETION_COST: HELD_COST}) for name in ("p0", "p1")]

    async def story() -> None:
        async with rig(rule_config_map(), *cheap, D0) as on:
            costs = {
                pod["metadata"]["name"]: pod["metadata"].get("annotations", {}).get(DELETION_COST)
                for pod in on.cluster.peek(PODS, NAMESPACE)
            }
            assert costs == {"p0": None, "p1": HELD_COST, "d0": None}

    run(story())


def test_a_pod_that_arrives_ungated_counts_and_is_told_and_never_deleted() -> None:
    async def story() -> None:
        async with rig(rule_config_map(), D0) as on:
            on.apply(held("p0", "group0", gates=()), P1)
            await on.settle(10)
            assert released(on) == {"p0", "d0"}
            assert ("p0", "HoldNotPossible") in on.events()
            assert on.reason("p1") == "WaitingForRatio"

    run(story())


def test_surplus_that_nothing_holds_is_not_taken_back_because_it_would_come_again() -> None:
    async def story() -> None:
        async with rig(rule_config_map()) as on:
            on.apply(held("p0", "group0", gates=()), held("p1", "group0", gates=()))
            await on.settle(10)
            assert released(on) == {"p0", "p1"}
            assert not [write for write in on.writes() if write.startswith("delete pods")]
            assert {("p0", "HoldNotPossible"), ("p1", "HoldNotPossible")} <= on.events()

    run(story())


def test_without_a_rule_nothing_is_released_and_every_pod_says_why() -> None:
    async def story() -> None:
        async with rig(P0, held("d0", "group1", job_id="")) as on:
            assert released(on) == set()
            assert ("p0", "RuleMissing") in on.events()
            assert ("d0", "JobIdMissing") in on.events()

    run(story())


def test_an_instance_of_several_pods_is_released_whole_and_late_members_at_once() -> None:
    notes = {"mind-cluster/instance": "p0", "mind-cluster/instance-size": "2"}
    leader, worker = (held(f"p0-{i}", "group0", annotations=notes) for i in range(2))
    other = [
        held(f"p1-{i}", "group0", annotations={**notes, "mind-cluster/instance": "p1"})
        for i in range(2)
    ]

    async def story() -> None:
        async with rig(rule_config_map(), leader, *other, D0) as on:
            assert released(on) == {"p0-0", "d0"}
            on.apply(worker)
            await on.settle()
            assert released(on) == {"p0-0", "p0-1", "d0"}
            assert on.reason("p1") == "WaitingForRatio"

    run(story())


def test_unbound_surplus_is_taken_back_when_another_group_lost_its_instance() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await let_run(on, "p0", "d0")
            assert "p1" in released(on)
            await lose(on, "d0")
            assert "p1" not in {pod["metadata"]["name"] for pod in on.cluster.peek(PODS, NAMESPACE)}
            on.apply(held("p3", "group0"))
            await on.settle()
            assert "p3" not in released(on)

    run(story())


def test_a_pod_of_volcano_gets_a_pod_group_of_its_instance_before_it_is_released() -> None:
    shared = {POD_GROUP: "podgroup-of-all"}
    pods = [
        held(name, "group0", scheduler="volcano", annotations=dict(shared)) for name in ("p0", "p1")
    ]

    async def story() -> None:
        async with rig(rule_config_map(), *pods, D0) as on:
            (group,) = on.cluster.peek(POD_GROUPS, NAMESPACE)
            assert group["spec"]["minMember"] == 1
            groups = {
                pod["metadata"]["name"]: pod["metadata"].get("annotations", {}).get(POD_GROUP)
                for pod in on.cluster.peek(PODS, NAMESPACE)
            }
            assert groups == {"p0": group["metadata"]["name"], "p1": "podgroup-of-all", "d0": None}

    run(story())


@pytest.mark.parametrize(
    "named", [True, False], ids=["named by the pod", "not yet named by the pod"]
)
def test_the_pod_group_that_volcano_made_keeps_no_room_once_a_pod_was_taken_out_of_it(
    named: bool,
) -> None:
    name = "podgroup-uid-engine-5d8"
    bare = {"minMember": 1, "queue": "default"}
    shared: Object = {"kind": POD_GROUPS.kind, "apiVersion": POD_GROUPS.api_version}
    shared |= {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {**bare, "minResources": {"cpu": "4"}},
    }
    pod = held("p0", "group0", scheduler="volcano", annotations={POD_GROUP: name} if named else {})

    async def story() -> None:
        async with rig(rule_config_map(), shared, pod, D0) as on:
            specs = {
                group["metadata"]["name"]: group["spec"]
                for group in on.cluster.peek(POD_GROUPS, NAMESPACE)
            }
            assert specs.pop(name) == {**bare, "minResources": {}}
            assert len(specs) == 1

    run(story())


def of_role(name: str, revision: str) -> Object:
    """A held pod of a StormService's role; no object but the pods themselves tells which revision
    is the newest."""
    labels = {"storm-service-name": "qwen", "role-name": "prefill", "role-template-hash": revision}
    pod = held(name, "group0", owner="qwen-roleset-x")
    pod["metadata"]["labels"] |= labels
    pod["metadata"]["ownerReferences"][0] |= {
        "apiVersion": "orchestration.aibrix.ai/v1alpha1",
        "kind": "RoleSet",
    }
    return pod


def test_a_new_revision_that_only_its_pods_tell_of_stands_beside_the_old_one_at_once() -> None:
    one = rule_config_map(rule_document({"group0": 1, "group1": 1}))

    async def story() -> None:
        async with rig(one, of_role("p0-old", "old"), D0) as on:
            await let_run(on, "p0-old", "d0")
            await on.settle(2)
            on.apply(of_role("p0-new", "new"), of_role("p1-new", "new"))
            await on.settle()
            assert len(released(on) & {"p0-new", "p1-new"}) == 1

    run(story())


class GoesWhileItIsRead(Interceptor):
    """A pod is deleted, and the watch says so, before the answer arrives."""

    on: Rig

    async def after(self, request: Request) -> None:
        if request.verb == "get" and request.resource == PODS and request.name == "p0":
            await self.on.cluster.delete(PODS, NAMESPACE, "p0", grace_period_seconds=0)
            await asyncio.sleep(1)


def test_an_instance_that_goes_while_its_pod_group_is_made_ends_nothing_else() -> None:
    api = GoesWhileItIsRead()

    async def story() -> None:
        async with rig(rule_config_map(), D0, interceptor=api) as on:
            api.on = on
            on.apply(
                held(
                    "p0", "group0", scheduler="volcano", annotations={POD_GROUP: "podgroup-of-all"}
                )
            )
            await on.settle(5)
            on.apply(P1)
            await on.settle(5)
            assert released(on) == {"p1", "d0"}

    run(story())


def test_the_pod_group_of_an_instance_belongs_to_the_pods_that_come_later_too() -> None:
    notes = {"mind-cluster/instance": "p0", "mind-cluster/instance-size": "2"}
    first, second = (
        held(f"p0-{i}", "group0", scheduler="volcano", annotations=dict(notes)) for i in range(2)
    )

    async def story() -> None:
        async with rig(rule_config_map(), first, D0) as on:
            on.apply(second)
            await on.settle()
            (group,) = on.cluster.peek(POD_GROUPS, NAMESPACE)
            assert [owner["name"] for owner in group["metadata"]["ownerReferences"]] == [
                "p0-0",
                "p0-1",
            ]
            mates = [
                pod for pod in on.cluster.peek(PODS, NAMESPACE) if pod["metadata"]["name"] != "d0"
            ]
            assert {pod["metadata"]["annotations"][POD_GROUP] for pod in mates} == {
                group["metadata"]["name"]
            }

    run(story())


def test_a_refused_release_is_told_and_tried_again() -> None:
    async def story() -> None:
        async with rig(*SERVICE, interceptor=RefusesOnce("p0")) as on:
            assert ("p0", "CreateRefused") in on.events()
            await on.settle(5)
            assert "d0" in released(on)
            assert len(released(on) & {"p0", "p1"}) == 1

    run(story())


def test_jobs_beside_an_operator_are_released_and_never_touched() -> None:
    moved = job("p0", rule=None, annotations={"mind-cluster/moved-scaling-rule": "rule"})
    moved["metadata"]["labels"]["mind-cluster/group-name"] = "group0"

    async def story() -> None:
        async with rig(rule_config_map(), moved, D0, mode="gates") as on:
            (uid,) = [j["metadata"]["uid"] for j in on.cluster.peek(ASCEND_JOBS)]
            pod = held("p0-master-0", "group0")
            pod["metadata"]["ownerReferences"] = [
                {
                    "apiVersion": "mindxdl.gitee.com/v1",
                    "kind": "AscendJob",
                    "name": "p0",
                    "uid": uid,
                    "controller": True,
                }
            ]
            assert on.reason("p0") == "WaitingForScheduler"
            on.apply(pod)
            await on.settle()
            assert released(on) == {"p0-master-0", "d0"}
            assert not [w for w in on.writes() if "ascendjobs" in w or w.startswith("create pods")]

    run(story())


def test_the_last_valid_rule_survives_a_moment_without_any_pod() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.settle(5)
            on.apply(rule_config_map("{"))
            for name in ("p0", "p1", "d0"):
                await lose(on, name)
            await on.settle(60)
            on.apply(held("p2", "group0"), held("d1", "group1", owner="decoder-77f"))
            await on.settle()
            assert released(on) == {"p2", "d1"}

    run(story())


def test_a_service_whose_pods_stay_away_is_forgotten() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.settle(5)
            assert on.said()["replicas"] == 0
            for name in ("p0", "p1", "d0"):
                await lose(on, name)
            await on.settle(400)
            assert on.said() == {}
            assert [cm["metadata"]["name"] for cm in on.cluster.peek(CONFIG_MAPS)] == ["rule"]

    run(story())


def test_pods_of_an_owner_that_nobody_knows_are_served_one_by_one_with_a_warning() -> None:
    strange = held("p0", "group0")
    strange["metadata"]["ownerReferences"][0] |= {"apiVersion": "acme.io/v1", "kind": "Fleet"}

    async def story() -> None:
        async with rig(rule_config_map(), strange, D0) as on:
            assert released(on) == {"p0", "d0"}
            assert ("p0", "UnknownOwner") in on.events()

    run(story())


def test_a_pod_that_volcano_moved_into_a_shared_pod_group_after_its_release_is_moved_back() -> None:
    async def story() -> None:
        async with rig(rule_config_map(), held("p0", "group0", scheduler="volcano"), D0) as on:
            patch = {"metadata": {"annotations": {POD_GROUP: "podgroup-of-all"}}}
            await on.cluster.patch(PODS, NAMESPACE, "p0", patch, patch_type=PatchType.MERGE)
            await on.settle()
            (group,) = on.cluster.peek(POD_GROUPS, NAMESPACE)
            (pod,) = [
                pod for pod in on.cluster.peek(PODS, NAMESPACE) if pod["metadata"]["name"] == "p0"
            ]
            assert pod["metadata"]["annotations"][POD_GROUP] == group["metadata"]["name"]

    run(story())


class ConflictsOnce(Interceptor):
    """An API server whose cache still has a predecessor of the pod."""

    conflicts = 0

    async def before(self, request: Request) -> None:
        if request.verb == "patch" and request.resource == PODS and not self.conflicts:
            self.conflicts += 1
            raise ConflictError(409, "Conflict", "uid mismatch")


def test_a_conflict_about_a_pod_that_is_the_right_one_does_not_leave_it_held() -> None:
    api = ConflictsOnce()

    async def story() -> None:
        async with rig(*SERVICE, interceptor=api) as on:
            assert api.conflicts == 1
            assert released(on) == {"p0", "d0"}

    run(story())


class Busy(Interceptor):
    """An API server that takes the longer for a request the more it has, and answers in no order;
    the times at which the gates of pods went, by namespace."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        self._under_way = 0
        self.released: dict[str | None, list[float]] = {}

    async def before(self, request: Request) -> None:
        self._under_way += 1
        await asyncio.sleep(self._random.uniform(0.0, 0.005 * self._under_way))
        self._under_way -= 1
        if request.verb == "patch" and request.resource == PODS:
            now = asyncio.get_running_loop().time()
            self.released.setdefault(request.namespace, []).append(now)


def test_the_gates_of_an_instance_go_in_one_burst_while_many_others_are_released() -> None:
    rule = rule_config_map(json.dumps(document({"group0": (1, 4)})), arbitration="off")
    objects = []
    for number in range(30):
        objects.append(placed(rule, f"n{number}"))
        for pod in range(4):
            said = {INSTANCE: "p0", INSTANCE_SIZE: "4"}
            one = held(f"p0-{pod}", "group0", owner="", annotations=said)
            objects.append(placed(one, f"n{number}"))
    server = Busy()

    async def story() -> None:
        async with rig(*objects, interceptor=server) as on:
            await on.settle(5)

    run(story())
    spreads = []
    for times in server.released.values():
        assert len(times) == 4
        spreads.append(max(times) - min(times))
    assert len(spreads) == 30
    assert max(spreads) <= 0.005 * 2 * MOST_AT_ONCE, "statuses and events are written beside them"


def placed(obj: Object, namespace: str) -> Object:
    """An object like it in this namespace."""
    meta = obj["metadata"]
    uid = f"uid-{namespace}-{meta['name']}"
    return {**obj, "metadata": {**meta, "namespace": namespace, "uid": uid}}
