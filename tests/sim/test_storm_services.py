"""The stand-ins for AIBrix: what pods of a role carry, slots, PodSets, and updates within their
budgets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.kube.api import POD_GROUPS, PODS, Object, PatchType
from scaler.sim.actors import objects
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.actors.making import ready
from scaler.sim.actors.nodes import Kubelet, KubeletTimings, exit_pod
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.actors.storm_services import (
    Change,
    Member,
    Role,
    StormServices,
    roll_stateful,
    roll_stateless,
    scale_stateful,
    scale_stateless,
)
from scaler.sim.actors.volcano import PodGroups
from scaler.sim.loop import run
from scaler.workloads.stormservice import POD_SETS, ROLE_SETS, STORM_SERVICES
from tests.rig import Rig
from tests.sim.manifests import storm_service, template

QUICK = KubeletTimings(start=(1.0, 1.0), ready=(1.0, 1.0), stop=(1.0, 1.0))
PREFIX = "stormservice.orchestration.aibrix.ai/"
STATEFUL: Object = {"replicas": 2, "stateful": True}
GROUPS: Object = {"replicas": 2, "podGroupSize": 2, "stateful": True}


def controllers(on: Rig) -> list[Any]:
    return [StormServices(on.cluster), GarbageCollector(on.cluster)]


def everybody(on: Rig) -> list[Any]:
    api = on.cluster
    return [*controllers(on), GangScheduler(api), Kubelet(api, on.clock, timings=QUICK)]


async def change(on: Rig, path: str, value: Any) -> None:
    patch = [{"op": "replace", "path": f"/spec/template/spec/roles/0{path}", "value": value}]
    await on.cluster.patch(STORM_SERVICES, "default", "storm", patch, patch_type=PatchType.JSON)


def names(on: Rig) -> set[str]:
    return {objects.name(pod) for pod in on.cluster.peek(PODS)}


def images(on: Rig) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in on.cluster.peek(PODS))


def test_pods_of_a_stateful_role_have_slots_and_the_marks_of_the_reference() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply(
            [storm_service(prefill={**STATEFUL, "template": template(labels={"fault": "force"})})]
        )
        await on.play(5, *controllers(on))
        (role_set,) = on.cluster.peek(ROLE_SETS)
        assert objects.labels_of(role_set)["app"] == "storm"
        assert objects.name(role_set).startswith("storm-roleset-")
        for slot, pod in enumerate(on.cluster.peek(PODS)):
            labels = objects.labels_of(pod)
            digest = labels.pop("role-template-hash")
            assert objects.name(pod) == f"{objects.name(role_set)}-prefill-{digest}-{slot}"
            assert labels == {
                "fault": "force",
                "storm-service-name": "storm",
                "roleset-name": objects.name(role_set),
                "role-name": "prefill",
                f"{PREFIX}role-replica-index": str(slot),
            }
            assert objects.annotations_of(pod)[f"{PREFIX}roleset-index"] == "0"
            assert objects.owner_uid(pod) == objects.uid(role_set)

    run(main())


def test_instances_of_several_pods_are_pod_sets() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([storm_service(decode=GROUPS)])
        await on.play(5, *controllers(on))
        sets = {objects.name(found): objects.uid(found) for found in on.cluster.peek(POD_SETS)}
        pods = on.cluster.peek(PODS)
        assert len(sets) == 2
        assert names(on) == {f"{pod_set}-{index}" for pod_set in sets for index in range(2)}
        for pod in pods:
            labels = objects.labels_of(pod)
            assert objects.owner_uid(pod) == sets[labels[f"{PREFIX}podset-name"]]
            assert objects.name(pod).endswith(f"-{labels[f'{PREFIX}pod-group-index']}")
            assert (labels["storm-service-name"], labels["role-name"]) == ("storm", "decode")
            variables = {v["name"]: v["value"] for v in pod["spec"]["containers"][0]["env"]}
            assert (variables["POD_GROUP_SIZE"], variables["ROLE_NAME"]) == ("2", "decode")

    run(main())


def test_single_pods_share_one_pod_group_and_each_pod_set_has_its_own() -> None:
    volcano = template(schedulerName="volcano")
    single = {"replicas": 2, "template": volcano}
    groups = {**GROUPS, "template": volcano}

    async def main() -> None:
        on = Rig()
        on.cluster.apply([storm_service(prefill=single, routing=single, decode=groups)])
        await on.play(5, *controllers(on), PodGroups(on.cluster))
        found = {objects.name(group) for group in on.cluster.peek(POD_GROUPS)}
        owners = [*on.cluster.peek(ROLE_SETS), *on.cluster.peek(POD_SETS)]
        assert found == {f"podgroup-{objects.uid(owner)}" for owner in owners}
        assert len(owners) == 3

    run(main())


@pytest.mark.parametrize(
    ("role", "kept"),
    [(STATEFUL, True), ({"replicas": 2}, False), (GROUPS, True)],
    ids=["stateful", "stateless", "groups"],
)
def test_a_lost_pod_comes_back_in_its_slot_or_under_a_new_name(role: Object, kept: bool) -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([storm_service(prefill=role)])
        before: set[str] = set()

        async def lose() -> None:
            await asyncio.sleep(3)
            before.update(names(on))
            await on.cluster.delete(PODS, "default", min(before))

        await on.play(8, *controllers(on), script=lose())
        assert len(names(on)) == len(before)
        assert (names(on) == before) is kept

    run(main())


@pytest.mark.parametrize(
    "role", [STATEFUL, {"replicas": 2}, GROUPS], ids=["stateful", "stateless", "groups"]
)
def test_an_update_keeps_all_but_one_instance_ready(role: Object) -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0")
        on.cluster.apply([storm_service(prefill=role)])
        least: list[int] = []

        async def update() -> None:
            await asyncio.sleep(10)
            await change(on, "/template/spec/containers/0/image", "server:2")
            for _ in range(300):
                await asyncio.sleep(0.1)
                least.append(sum(map(ready, on.cluster.peek(PODS))))

        await on.play(45, *everybody(on), script=update())
        size = role.get("podGroupSize", 1)
        assert images(on) == ["server:2"] * 2 * size
        assert min(least) == size

    run(main())


def test_scaling_and_deleting_take_pod_sets_whole() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([storm_service(decode=GROUPS)])

        async def script() -> None:
            await asyncio.sleep(3)
            await change(on, "/replicas", 3)
            await asyncio.sleep(3)
            assert len(names(on)) == 6
            await change(on, "/replicas", 1)
            await asyncio.sleep(3)
            assert len(names(on)) == 2
            await on.cluster.delete(STORM_SERVICES, "default", "storm")

        await on.play(15, *controllers(on), script=script())
        assert (names(on), on.cluster.peek(POD_SETS), on.cluster.peek(ROLE_SETS)) == (set(), [], [])

    run(main())


def test_a_role_that_names_volcano_gets_a_pod_group_per_pod_set() -> None:
    strategy = {"volcanoSchedulingStrategy": {"minMember": 2, "queue": "default"}}

    async def main() -> None:
        on = Rig()
        on.cluster.apply([storm_service(decode={**GROUPS, "schedulingStrategy": strategy})])
        await on.play(5, *controllers(on))
        sets = {objects.name(found) for found in on.cluster.peek(POD_SETS)}
        assert {
            objects.name(group): group["spec"]["minMember"] for group in on.cluster.peek(POD_GROUPS)
        } == dict.fromkeys(sets, 2)
        named = {objects.annotations_of(pod)[objects.GROUP_NAME] for pod in on.cluster.peek(PODS)}
        assert named == sets

    run(main())


def test_a_pod_set_that_lost_a_pod_also_replaces_those_that_restarted() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0")
        on.cluster.apply([storm_service(decode={**GROUPS, "replicas": 1})])
        before: dict[str, str] = {}

        async def script() -> None:
            await asyncio.sleep(10)
            pods = on.cluster.peek(PODS)
            before.update({objects.name(pod): objects.uid(pod) for pod in pods})
            await exit_pod(on.cluster, pods[0], now=on.clock.now(), code=1)
            await asyncio.sleep(60)
            await on.cluster.delete(PODS, "default", objects.name(pods[1]))

        await on.play(120, *everybody(on), script=script())
        after = {objects.name(pod): objects.uid(pod) for pod in on.cluster.peek(PODS)}
        assert set(after) == set(before)
        assert not set(after.values()) & set(before.values())

    run(main())


def test_replicas_are_whole_role_sets() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply(
            [storm_service(replicas=2, prefill={"replicas": 1}, decode={"replicas": 1})]
        )
        await on.play(5, *controllers(on))
        roles = [(objects.labels_of(pod)["role-name"]) for pod in on.cluster.peek(PODS)]
        assert sorted(roles) == ["decode", "decode", "prefill", "prefill"]
        assert len({objects.labels_of(pod)["roleset-name"] for pod in on.cluster.peek(PODS)}) == 2

    run(main())


MEMBERS = st.lists(
    st.builds(
        Member,
        name=st.uuids().map(str),
        slot=st.one_of(st.none(), st.integers(0, 3)),
        hash=st.sampled_from(["new", "old"]),
        ready=st.booleans(),
        active=st.booleans(),
        terminating=st.booleans(),
    ).filter(lambda m: not (m.active and m.terminating)),
    max_size=6,
)
ROLES = st.builds(Role, st.integers(0, 3), st.just("new"), st.integers(0, 2), st.integers(0, 2))


@given(ROLES, MEMBERS)
def test_no_change_goes_beyond_the_surge(role: Role, members: list[Member]) -> None:
    present = sum(m.active or m.terminating for m in members)
    for decide in (scale_stateful, roll_stateful, scale_stateless, roll_stateless):
        made = decide(role, members).create
        assert len(made) <= max(0, role.replicas + role.surge - present)


@given(ROLES, MEMBERS)
def test_an_update_spares_what_is_new(role: Role, members: list[Member]) -> None:
    new = {m.name for m in members if m.hash == "new"}
    for decide in (roll_stateful, roll_stateless):
        assert not new & set(decide(role, members).delete)


@given(st.integers(0, 4))
def test_a_role_at_rest_wants_nothing(replicas: int) -> None:
    role = Role(replicas, "new", 0, 1)
    members = [Member(str(slot), slot, "new", ready=True) for slot in range(replicas)]
    decisions = (scale_stateful, roll_stateful, scale_stateless, roll_stateless)
    assert [decide(role, members) for decide in decisions] == [Change()] * 4
