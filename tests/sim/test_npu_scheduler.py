"""The stand-in for Volcano with MindCluster's plugin over several sessions: what it remembers of a
job, and what it writes on PodGroups and pods."""

from __future__ import annotations

import asyncio
from typing import Any

from scaler.kube.api import POD_GROUPS, PODS, Object, PatchType
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import Kubelet, KubeletTimings, NodeFate, NodeSpec, add_node
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.loop import run
from tests.rig import Rig
from tests.sim.manifests import NPU

TIMINGS = KubeletTimings(start=(0, 0), ready=(0, 0), stop=(0, 0))
HELD = {"schedulingGates": [{"name": "hold"}]}


class SuperPods(Rig):
    """A cluster of super-pods `n00`, `n01`, ... and the scheduler with the plugin."""

    async def build(self, *sizes: int) -> None:
        for number, size in enumerate(sizes):
            for index in range(size):
                spec = NodeSpec(f"n{number}{index}", npu=16, device_data=True, super_pod=number)
                self.machines[spec.name] = spec
                await add_node(self.cluster, spec, self.clock)
        self.actors: list[Any] = [
            GangScheduler(self.cluster, devices=True, clock=self.clock),
            Kubelet(self.cluster, self.clock, timings=TIMINGS),
        ]

    async def job(self, name: str, pods: int, **more: Any) -> None:
        block = {"sp-block": str(16 * pods)}
        amount = {NPU: str(16 * pods)}
        await self.gang(name, members=pods, npu=16, annotations=block, minResources=amount, **more)

    def notes(self, pod: str) -> dict[str, str]:
        return objects.annotations_of(self.pod_object(pod))

    def conditions(self, group: str) -> dict[str, str]:
        """Reason -> message."""
        (found,) = [one for one in self.cluster.peek(POD_GROUPS) if objects.name(one) == group]
        return {one["reason"]: one["message"] for one in found["status"].get("conditions", [])}

    async def release(self, *pods: str) -> None:
        for name in pods:
            free: Object = {"spec": {"schedulingGates": None}}
            await self.cluster.patch(PODS, "default", name, free, patch_type=PatchType.MERGE)


def test_a_job_gets_whole_nodes_of_one_super_pod_with_its_chips_and_its_rank() -> None:
    async def main() -> None:
        on = SuperPods()
        await on.build(1, 2)
        await on.job("j", 2)
        await on.play(3, *on.actors)
        assert on.nodes_by_pod() == {"j-0": "n10", "j-1": "n11"}
        notes = on.notes("j-1")
        assert len(notes["huawei.com/AscendReal"].split(",")) == 16
        assert (notes["super-pod-id"], notes["super-pod-rank"]) == ("1", "0")
        assert notes["distributed-job"] == "true"

    run(main())


def test_a_job_that_finds_no_block_says_so_and_its_pods_say_schedulable() -> None:
    async def main() -> None:
        on = SuperPods()
        await on.build(1, 1)
        await on.job("j", 2)
        await on.play(3, *on.actors)
        assert on.group_phases() == {"j": "Inqueue"}
        assert "required 1, total 0" in on.conditions("j")["BatchOrderFailed"]
        scheduled = objects.condition(on.pod_object("j-0"), "PodScheduled")
        assert (scheduled["status"], scheduled["reason"]) == ("False", "Schedulable")

    run(main())


def test_a_job_for_which_all_idle_chips_are_too_few_is_not_enqueued() -> None:
    async def main() -> None:
        on = SuperPods()
        await on.build(1)
        await on.job("j", 2)
        await on.play(3, *on.actors)
        assert on.group_phases() == {"j": "Pending"}
        words = "require npu num is 32, but cluster npu num is 16"
        assert on.conditions("j")["JobEnqueueFailed"] == words

    run(main())


def test_pods_released_over_two_sessions_get_an_empty_rank() -> None:
    async def ranks(*, pause: float) -> list[str]:
        on = SuperPods()
        await on.build(2)
        await on.job("j", 2, pod_spec=HELD)

        async def script() -> None:
            await asyncio.sleep(2)
            await on.release("j-0")
            await asyncio.sleep(pause)
            await on.release("j-1")

        await on.play(8, *on.actors, script=script())
        assert on.group_phases() == {"j": "Running"}
        return [on.notes(f"j-{index}")["super-pod-rank"] for index in range(2)]

    assert run(ranks(pause=0)) == ["0", "0"]
    assert run(ranks(pause=2)) == ["", ""]


def test_a_pod_made_again_goes_back_to_its_node_or_its_job_is_chosen_for_anew() -> None:
    async def nodes_after(*sizes: int, lost: bool) -> dict[str, str]:
        on = SuperPods()
        await on.build(*sizes)
        await on.job("j", 2)
        await on.play(3, *on.actors)
        before = on.nodes_by_pod()
        assert before["j-0"][1] == before["j-1"][1] == "0"
        if lost:
            await on.node(before["j-1"], NodeFate.NOT_READY)
        await on.cluster.delete(PODS, "default", "j-1", grace_period_seconds=0)
        await on.play(2, *on.actors)
        await on.pod("j-1", group="j", npu=16)
        await on.play(3, *on.actors)
        return on.nodes_by_pod()

    assert run(nodes_after(3, lost=False)) == {"j-0": "n00", "j-1": "n01"}
    # a node is free beside its first pod, but not a whole block
    assert run(nodes_after(3, lost=True))["j-1"] == ""
    # so its block is broken where another super-pod has one
    assert run(nodes_after(4, 2, lost=True))["j-1"][1] == "0"
    assert run(nodes_after(3, 2, lost=True))["j-1"][1] == "1"
