"""A lost pod of an instance of blocks: it is made again only where MindCluster's scheduler puts it
back, onto its node; otherwise the instance is made anew whole."""

from __future__ import annotations

from scaler.kube.api import NODES, PODS, Object, PatchType
from scaler.names import GATE
from scaler.sim.loop import run
from tests.jobs import NAMESPACE, held, job, rule_config_map, rule_document, template
from tests.rig import Rig, rig
from tests.super_pods import PLUGIN, device_data, npu_node
from tests.test_minimums import remove

NAMES = [f"s{number // 4}n{number % 4}" for number in range(8)]
RULE = rule_document({"group0": 1, "group1": 1}, pods={"group0": 1, "group1": 4})


def cluster(**labels: str) -> list[Object]:
    """Two super-pods of four nodes, and a service with a decode of one block of four."""
    nodes = [npu_node(name) for name in NAMES]
    data = [device_data(name, int(name[1])) for name in NAMES]
    decode = job("d0", pods=4, pod=template(npus=16), annotations={"sp-block": "64"})
    decode["metadata"]["labels"] |= labels
    prefill = job("p0", pod=template(npus=0))
    return [PLUGIN, *nodes, *data, rule_config_map(RULE), decode, prefill]


async def start(on: Rig) -> None:
    """The decode runs on the first super-pod."""
    await on.settle()
    for pod, name in zip(on.pods_of("d0"), NAMES, strict=False):
        patch = {"metadata": {"annotations": {"super-pod-id": "0"}}}
        place = (NAMESPACE, pod["metadata"]["name"], patch)
        await on.cluster.patch(PODS, *place, patch_type=PatchType.MERGE)
        await on.bind(pod, name)
    await on.start("d0", "p0", node_name=NAMES[7])
    assert on.reason("d0") == "Running"


async def cordon(on: Rig, name: str, *, is_off: bool) -> None:
    patch = {"spec": {"unschedulable": is_off}}
    await on.cluster.patch(NODES, None, name, patch, patch_type=PatchType.MERGE)
    await on.settle()


def names(on: Rig) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in on.pods_of("d0"))


ALL = ["d0-master-0", "d0-worker-0", "d0-worker-1", "d0-worker-2"]


def test_a_lost_pod_is_made_again_where_it_returns_to_its_node() -> None:
    async def story() -> None:
        async with rig(*cluster()) as on:
            await start(on)
            await remove(on, "d0-worker-1")
            assert names(on) == ALL

    run(story())


def test_a_lost_pod_is_not_made_again_while_its_node_does_not_take_it() -> None:
    async def story() -> None:
        async with rig(*cluster()) as on:
            await start(on)
            node = next(
                pod["spec"]["nodeName"]
                for pod in on.pods_of("d0")
                if pod["metadata"]["name"] == "d0-worker-1"
            )
            await cordon(on, node, is_off=True)
            await remove(on, "d0-worker-1")
            assert names(on) == [name for name in ALL if name != "d0-worker-1"]
            assert on.reason("d0") == "Broken"
            words = on.words("d0")
            assert f"d0-worker-1 cannot return to its block (node {node} is cordoned)" in words
            assert "delete pod -l training.kubeflow.org/job-name=d0" in words
            await cordon(on, node, is_off=False)
            assert names(on) == ALL

    run(story())


def test_once_all_its_pods_are_gone_the_instance_is_made_anew_whole() -> None:
    async def story() -> None:
        async with rig(*cluster()) as on:
            await start(on)
            await cordon(on, NAMES[0], is_off=True)
            for name in ALL:
                await on.cluster.delete(PODS, NAMESPACE, name, grace_period_seconds=0)
            await on.settle()
            assert names(on) == ALL
            assert {pod["spec"].get("nodeName") for pod in on.pods_of("d0")} == {None}

    run(story())


SET = ["v-0", "v-0-1", "v-0-2", "v-0-3"]
"""The pods of a group of a LeaderWorkerSet: the leader and its workers."""


def of_a_set(name: str) -> Object:
    """A held pod of this group, which is one block of four nodes."""
    notes = {
        "leaderworkerset.sigs.k8s.io/size": "4",
        "sp-block": "64",
        "scheduling.k8s.io/group-name": "v-0-1a2b",
    }
    pod = held(name, "group0", annotations=notes, scheduler="volcano")
    labels = pod["metadata"]["labels"]
    labels["leaderworkerset.sigs.k8s.io/name"] = "v"
    labels["leaderworkerset.sigs.k8s.io/template-revision-hash"] = "1a2b"
    owner = "v" if name == "v-0" else "v-0"
    made_by = {"kind": "StatefulSet", "name": owner, "uid": f"uid-{owner}"}
    pod["metadata"]["ownerReferences"][0] |= made_by
    pod["spec"]["containers"] = template(npus=16)["spec"]["containers"]
    return pod


def with_a_set() -> list[Object]:
    nodes = [npu_node(name) for name in NAMES]
    data = [device_data(name, int(name[1])) for name in NAMES]
    rule = rule_config_map(rule_document({"group0": 1}, pods={"group0": 4}))
    return [PLUGIN, *nodes, *data, rule, *map(of_a_set, SET)]


def is_gated(on: Rig, name: str) -> bool:
    gates = on.pod_object(name)["spec"].get("schedulingGates") or []
    return {"name": GATE} in gates


async def start_set(on: Rig) -> None:
    for name, node in zip(SET, NAMES, strict=False):
        patch = {"metadata": {"annotations": {"super-pod-id": "0", "super-pod-rank": "0"}}}
        await on.cluster.patch(PODS, NAMESPACE, name, patch, patch_type=PatchType.MERGE)
        pod = on.pod_object(name)
        await on.bind(pod, node)
        await on.status(pod, phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    await on.settle()
    assert on.reason("v-0") == "Running"


async def lose(on: Rig, name: str) -> None:
    """It is deleted without grace, which its manager does not see, and its StatefulSet makes it
    again."""
    await on.cluster.delete(PODS, NAMESPACE, name, grace_period_seconds=0)
    on.apply(of_a_set(name))
    await on.settle()


def test_a_lost_worker_of_a_leader_worker_set_is_released_where_it_returns_to_its_node() -> None:
    async def story() -> None:
        async with rig(*with_a_set()) as on:
            await start_set(on)
            await lose(on, "v-0-1")
            assert not is_gated(on, "v-0-1")

    run(story())


def test_elsewhere_it_stays_held_and_it_is_said_what_to_delete() -> None:
    async def story() -> None:
        async with rig(*with_a_set()) as on:
            await start_set(on)
            await cordon(on, NAMES[2], is_off=True)
            await lose(on, "v-0-2")
            assert is_gated(on, "v-0-2")
            (found,) = on.world.services[0].instances
            assert (
                f"v-0-2 cannot return to its block (node {NAMES[2]} is cordoned)" in found.trouble
            )
            assert found.trouble.endswith(f"kubectl -n {NAMESPACE} delete pod v-0 v-0-1 v-0-3")
            await cordon(on, NAMES[2], is_off=False)
            assert not is_gated(on, "v-0-2")

    run(story())


def test_a_leader_worker_set_that_is_made_anew_whole_goes_to_another_super_pod() -> None:
    """Its manager does so after a restart, or a deletion with grace: no pod of it is left that the
    new ones would have to join."""

    async def story() -> None:
        async with rig(*with_a_set()) as on:
            await start_set(on)
            await cordon(on, NAMES[2], is_off=True)
            for name in SET:
                await on.cluster.delete(PODS, NAMESPACE, name, grace_period_seconds=0)
            on.apply(*map(of_a_set, SET))
            await on.settle()
            assert not any(is_gated(on, name) for name in SET)

    run(story())
