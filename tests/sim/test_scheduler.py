"""The stand-in for Volcano: gangs whole or not at all, priorities, phases, predicates."""

from __future__ import annotations

from typing import Any

from scaler.kube.api import NODES, PODS, PRIORITY_CLASSES, PatchType
from scaler.sim.actors.nodes import NodeFate
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.loop import run
from tests.rig import Rig


def scheduler(on: Rig) -> GangScheduler:
    return GangScheduler(on.cluster)


def test_a_gang_is_bound_whole_and_its_group_runs() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0", "n1")
        await on.gang("g", members=2)
        await on.play(5, scheduler(on))
        assert on.nodes_by_pod() == {"g-0": "n0", "g-1": "n1"}
        assert on.group_phases() == {"g": "Running"}

    run(main())


def test_a_gang_that_does_not_fit_whole_gets_nothing_and_stays_pending() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0")
        await on.gang("g", members=2)
        await on.play(5, scheduler(on))
        assert on.nodes_by_pod() == {"g-0": "", "g-1": ""}
        assert on.group_phases() == {"g": "Pending"}

    run(main())


def test_it_stays_inqueue_when_npus_are_idle_but_no_node_is_right() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0")
        await on.gang("g", pod_spec={"nodeSelector": {"zone": "b"}})
        await on.play(5, scheduler(on))
        assert on.nodes_by_pod() == {"g-0": ""}
        assert on.group_phases() == {"g": "Inqueue"}

    run(main())


def test_a_waiting_gang_is_bound_as_soon_as_a_node_comes() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0")
        await on.gang("g", members=2)

        async def script() -> None:
            on.nodes("n1")

        await on.play(5, scheduler(on), script=script())
        assert on.nodes_by_pod() == {"g-0": "n0", "g-1": "n1"}

    run(main())


def test_the_higher_priority_goes_first_then_the_older() -> None:
    async def main() -> None:
        on = Rig()
        await on.cluster.create(
            PRIORITY_CLASSES, None, {"metadata": {"name": "high"}, "value": 100}
        )
        await on.gang("a-low")
        await on.gang("b-high", priorityClassName="high")
        on.nodes("n0")
        await on.play(5, scheduler(on))
        assert on.nodes_by_pod() == {"a-low-0": "", "b-high-0": "n0"}

    run(main())


def test_nobody_promises_which_of_equal_gangs_goes_first_nor_which_of_equal_nodes_it_gets() -> None:
    async def bound_pods(seed: int) -> dict[str, str]:
        on = Rig()
        on.nodes("n0", "n1")
        for name in ("a", "b", "c"):
            await on.gang(name)
        await on.play(3, GangScheduler(on.cluster, seed=seed))
        return on.nodes_by_pod()

    assert run(bound_pods(0)) == {"a-0": "n0", "b-0": "n1", "c-0": ""}
    chosen = [run(bound_pods(seed)) for seed in range(1, 30)]
    assert all(sorted(one.values()) == ["", "n0", "n1"] for one in chosen)
    assert len({tuple(one.items()) for one in chosen}) == 6
    assert run(bound_pods(7)) == run(bound_pods(7))


def test_gated_pods_and_gangs_with_too_few_pods_wait() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0", "n1")
        await on.gang("g", pod_spec={"schedulingGates": [{"name": "hold"}]})
        await on.gang("h", members=1, minMember=2)
        await on.play(5, scheduler(on))
        assert set(on.nodes_by_pod().values()) == {""}

    run(main())


def test_nothing_is_bound_while_a_pod_of_the_gang_terminates() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0", "n1")
        await on.gang("g", members=2)
        await on.play(3, scheduler(on))
        await on.cluster.delete(PODS, "default", "g-0", grace_period_seconds=30)
        await on.pod("g-2", group="g")
        await on.play(3, scheduler(on))
        assert on.nodes_by_pod()["g-2"] == ""

    run(main())


def test_pods_without_a_group_are_bound_one_by_one() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0", npu=0)
        await on.pod("alone", npu=0)
        await on.play(3, scheduler(on))
        assert on.nodes_by_pod() == {"alone": "n0"}

    run(main())


def test_cordoned_and_lost_nodes_are_left_out() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0", "n1", "n2")
        await on.cluster.patch(
            NODES, None, "n0", {"spec": {"unschedulable": True}}, patch_type=PatchType.MERGE
        )
        await on.node("n1", NodeFate.NOT_READY)
        await on.gang("g")
        await on.play(3, scheduler(on))
        assert on.nodes_by_pod() == {"g-0": "n2"}

    run(main())


def affinity(kind: str, term: Any) -> dict[str, Any]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {kind: {required: term}}}


def test_required_affinities_and_taints_are_honoured() -> None:
    not_in = {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["slow"]}]}
    apart = [
        {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    ]

    async def main() -> None:
        on = Rig()
        on.nodes("n0", npu=16, labels={"disk": "slow"})
        on.nodes("n1", "n2", npu=16)
        on.nodes("n3", npu=16)
        taint = {"spec": {"taints": [{"key": "own", "value": "y", "effect": "NoSchedule"}]}}
        await on.cluster.patch(NODES, None, "n3", taint, patch_type=PatchType.MERGE)
        await on.gang("a", pod_spec=affinity("nodeAffinity", {"nodeSelectorTerms": [not_in]}))
        await on.gang(
            "b", members=2, pod_labels={"app": "x"}, pod_spec=affinity("podAntiAffinity", apart)
        )
        await on.gang(
            "c",
            pod_spec={
                "tolerations": [{"key": "own", "operator": "Exists"}],
                "nodeSelector": {"kubernetes.io/hostname": "n3"},
            },
        )
        await on.play(5, scheduler(on))
        bound_pods = on.nodes_by_pod()
        assert bound_pods["a-0"] == "n1"
        assert bound_pods["b-0"] != bound_pods["b-1"]
        assert bound_pods["c-0"] == "n3"
        assert "n3" not in {bound_pods["a-0"], bound_pods["b-0"], bound_pods["b-1"]}

    run(main())


def test_a_quiet_cluster_costs_no_session() -> None:
    async def main() -> int:
        on = Rig()
        on.nodes("n0")
        await on.gang("g", members=2)
        await on.play(86_400, scheduler(on))
        return len(on.cluster.writes())

    assert run(main()) < 20


def test_a_group_in_the_queue_keeps_room_unless_enqueuing_is_forced_a_held_pod_none() -> None:
    async def main(force_enqueue: bool, gates: list[str]) -> str:
        on = Rig()
        on.nodes("n0")
        waiting = {
            "nodeSelector": {"zone": "b"},
            "schedulingGates": [{"name": gate} for gate in gates],
        }
        await on.gang("first", pod_spec=waiting)
        await on.gang("second")
        await on.play(5, GangScheduler(on.cluster, force_enqueue=force_enqueue))
        return on.group_phases()["second"]

    assert run(main(True, [])) == "Running"
    assert run(main(False, [])) == "Pending"
    assert run(main(False, ["hold"])) == "Running"


def test_a_group_keeps_room_in_the_queue_without_any_pod() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0")
        await on.gang("empty")
        await on.cluster.delete(PODS, "default", "empty-0")

        async def script() -> None:
            await on.gang("second")

        scheduling = GangScheduler(on.cluster, force_enqueue=False)
        await on.play(5, scheduling, script=script())
        assert on.group_phases() == {"empty": "Inqueue", "second": "Pending"}

    run(main())
