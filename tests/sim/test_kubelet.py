"""The stand-in for kubelets: pods start, become ready, stop, crash and come back, and lost nodes are silent."""

from __future__ import annotations

from scaler.kube.api import PODS
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import Kubelet, KubeletTimings, NodeFate, NodeLifecycle, NodeSpec, change_node, exit_pod
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.loop import run
from tests.sim.stage import Stage

TIMINGS = KubeletTimings(start=(10, 10), ready=(20, 20), stop=(2, 2), crash_backoff=10)


async def running_pod(stage: Stage, policy: str = "Never") -> None:
    await stage.nodes("n0")
    await stage.gang("g", pod_spec={"restartPolicy": policy})
    await stage.play(40, GangScheduler(stage.cluster), kubelet(stage))


def kubelet(stage: Stage) -> Kubelet:
    return Kubelet(stage.cluster, stage.clock, timings=TIMINGS)


def test_a_bound_pod_runs_then_is_ready() -> None:
    async def main() -> None:
        stage = Stage()
        await stage.nodes("n0")
        await stage.gang("g")
        actors = GangScheduler(stage.cluster), kubelet(stage)
        await stage.play(8, *actors)
        assert stage.phases() == {"g-0": "Pending"}
        await stage.play(15, *actors)
        assert stage.phases() == {"g-0": "Running"}
        assert not objects.ready(stage.pod_object("g-0"))
        await stage.play(25, *actors)
        assert objects.ready(stage.pod_object("g-0"))

    run(main())


def test_a_deleted_pod_is_gone_when_its_processes_have_ended() -> None:
    async def main() -> None:
        stage = Stage()
        await running_pod(stage)
        await stage.cluster.delete(PODS, "default", "g-0", grace_period_seconds=30)
        await stage.play(1, kubelet(stage))
        assert "g-0" in stage.phases()
        await stage.play(3, kubelet(stage))
        assert stage.phases() == {}

    run(main())


def test_a_pod_on_a_lost_node_neither_starts_nor_stops() -> None:
    async def main() -> None:
        stage = Stage()
        await running_pod(stage)
        await stage.node_ready("n0", False)
        await stage.cluster.delete(PODS, "default", "g-0", grace_period_seconds=1)
        await stage.play(3600, kubelet(stage))
        assert stage.phases() == {"g-0": "Running"}
        await stage.node_ready("n0", True)
        await stage.play(5, kubelet(stage))
        assert stage.phases() == {}

    run(main())


def test_a_crash_ends_a_pod_that_never_restarts() -> None:
    async def main() -> None:
        stage = Stage()
        await running_pod(stage)
        await exit_pod(stage.cluster, stage.pod_object("g-0"), now=stage.clock.now(), code=1)
        await stage.play(100, kubelet(stage))
        assert stage.phases() == {"g-0": "Failed"}

    run(main())


def test_a_crash_of_a_pod_that_always_restarts_backs_off_and_runs_again() -> None:
    async def main() -> None:
        stage = Stage()
        await running_pod(stage, "Always")
        await exit_pod(stage.cluster, stage.pod_object("g-0"), now=stage.clock.now(), code=1)
        await stage.play(5, kubelet(stage))
        assert objects.crash_looping(stage.pod_object("g-0"))
        await stage.play(40, kubelet(stage))
        pod = stage.pod_object("g-0")
        assert (objects.crash_looping(pod), objects.restarts(pod), objects.ready(pod)) == (False, 1, True)

    run(main())


def test_pods_of_a_vanished_node_are_collected_and_of_a_silent_one_evicted_late() -> None:
    async def main() -> None:
        stage = Stage()
        await running_pod(stage)
        lifecycle = NodeLifecycle(stage.cluster, stage.clock, eviction=300, orphan=40)
        await change_node(stage.cluster, NodeSpec("n0"), NodeFate.NOT_READY)
        await stage.play(100, lifecycle, kubelet(stage))
        assert not objects.ready(stage.pod_object("g-0"))
        await change_node(stage.cluster, NodeSpec("n0"), NodeFate.GONE)
        await stage.play(100, lifecycle, kubelet(stage))
        assert stage.phases() == {}

    run(main())
