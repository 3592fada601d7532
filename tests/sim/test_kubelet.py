"""The stand-in for kubelets: pods start, become ready, stop, crash and come back, and lost nodes
are silent."""

from __future__ import annotations

from scaler.kube.api import PODS
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import (
    Kubelet,
    KubeletTimings,
    NodeFate,
    NodeLifecycle,
    NodeSpec,
    change_node,
    exit_pod,
)
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.loop import run
from tests.rig import Rig

TIMINGS = KubeletTimings(start=(10, 10), ready=(20, 20), stop=(2, 2), crash_backoff=10)


async def running_pod(on: Rig, policy: str = "Never") -> None:
    on.nodes("n0")
    await on.gang("g", pod_spec={"restartPolicy": policy})
    await on.play(40, GangScheduler(on.cluster), kubelet(on))


def kubelet(on: Rig) -> Kubelet:
    return Kubelet(on.cluster, on.clock, timings=TIMINGS)


def test_a_bound_pod_runs_then_is_ready() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0")
        await on.gang("g")
        actors = GangScheduler(on.cluster), kubelet(on)
        await on.play(8, *actors)
        assert on.phases() == {"g-0": "Pending"}
        await on.play(15, *actors)
        assert on.phases() == {"g-0": "Running"}
        assert not objects.ready(on.pod_object("g-0"))
        await on.play(25, *actors)
        assert objects.ready(on.pod_object("g-0"))

    run(main())


def test_a_deleted_pod_is_gone_when_its_processes_have_ended() -> None:
    async def main() -> None:
        on = Rig()
        await running_pod(on)
        await on.cluster.delete(PODS, "default", "g-0", grace_period_seconds=30)
        await on.play(1, kubelet(on))
        assert "g-0" in on.phases()
        await on.play(3, kubelet(on))
        assert on.phases() == {}

    run(main())


def test_a_pod_on_a_lost_node_neither_starts_nor_stops() -> None:
    async def main() -> None:
        on = Rig()
        await running_pod(on)
        await on.node("n0", NodeFate.NOT_READY)
        await on.cluster.delete(PODS, "default", "g-0", grace_period_seconds=1)
        await on.play(3600, kubelet(on))
        assert on.phases() == {"g-0": "Running"}
        await on.node("n0", NodeFate.READY)
        await on.play(5, kubelet(on))
        assert on.phases() == {}

    run(main())


def test_a_crash_ends_a_pod_that_never_restarts() -> None:
    async def main() -> None:
        on = Rig()
        await running_pod(on)
        await exit_pod(on.cluster, on.pod_object("g-0"), now=on.clock.now(), code=1)
        await on.play(100, kubelet(on))
        assert on.phases() == {"g-0": "Failed"}

    run(main())


def test_a_crash_of_a_pod_that_always_restarts_backs_off_and_runs_again() -> None:
    async def main() -> None:
        on = Rig()
        await running_pod(on, "Always")
        await exit_pod(on.cluster, on.pod_object("g-0"), now=on.clock.now(), code=1)
        await on.play(5, kubelet(on))
        assert objects.crash_looping(on.pod_object("g-0"))
        await on.play(40, kubelet(on))
        pod = on.pod_object("g-0")
        assert (objects.crash_looping(pod), objects.restarts(pod), objects.ready(pod)) == (
            False,
            1,
            True,
        )

    run(main())


def test_pods_of_a_vanished_node_are_collected_and_of_a_silent_one_evicted_late() -> None:
    async def main() -> None:
        on = Rig()
        await running_pod(on)
        lifecycle = NodeLifecycle(on.cluster, on.clock, eviction=300, orphan=40)
        await change_node(on.cluster, NodeSpec("n0"), NodeFate.NOT_READY)
        await on.play(100, lifecycle, kubelet(on))
        assert not objects.ready(on.pod_object("g-0"))
        await change_node(on.cluster, NodeSpec("n0"), NodeFate.GONE)
        await on.play(100, lifecycle, kubelet(on))
        assert on.phases() == {}

    run(main())
