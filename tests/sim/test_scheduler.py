"""The stand-in for Volcano: gangs whole or not at all, priorities, phases, predicates."""

from __future__ import annotations

from typing import Any

from scaler.kube.api import NODES, PODS, PRIORITY_CLASSES, PatchType
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.loop import run
from tests.sim.stage import Stage


def scheduler(stage: Stage) -> GangScheduler:
    return GangScheduler(stage.cluster)


def test_a_gang_is_bound_whole_and_its_group_runs() -> None:
    async def main() -> None:
        stage = Stage()
        await stage.nodes("n0", "n1")
        await stage.gang("g", members=2)
        await stage.play(5, scheduler(stage))
        assert stage.nodes_by_pod() == {"g-0": "n0", "g-1": "n1"}
        assert stage.group_phases() == {"g": "Running"}

    run(main())


def test_a_gang_that_does_not_fit_whole_gets_nothing_and_stays_pending() -> None:
    async def main() -> None:
        stage = Stage()
        await stage.nodes("n0")
        await stage.gang("g", members=2)
        await stage.play(5, scheduler(stage))
        assert stage.nodes_by_pod() == {"g-0": "", "g-1": ""}
        assert stage.group_phases() == {"g": "Pending"}

    run(main())


def test_it_stays_inqueue_when_npus_are_idle_but_no_node_is_right() -> None:
    async def main() -> None:
        stage = Stage()
        await stage.nodes("n0")
        await stage.gang("g", pod_spec={"nodeSelector": {"zone": "b"}})
        await stage.play(5, scheduler(stage))
        assert stage.nodes_by_pod() == {"g-0": ""}
        assert stage.group_phases() == {"g": "Inqueue"}

    run(main())


def test_a_waiting_gang_is_bound_as_soon_as_a_node_comes() -> None:
    async def main() -> None:
        stage = Stage()
        await stage.nodes("n0")
        await stage.gang("g", members=2)

        async def script() -> None:
            await stage.nodes("n1")

        await stage.play(5, scheduler(stage), script=script())
        assert stage.nodes_by_pod() == {"g-0": "n0", "g-1": "n1"}

    run(main())


def test_the_higher_priority_goes_first_then_the_older() -> None:
    async def main() -> None:
        stage = Stage()
        await stage.cluster.create(PRIORITY_CLASSES, None, {"metadata": {"name": "high"}, "value": 100})
        await stage.gang("a-low")
        await stage.gang("b-high", priorityClassName="high")
        await stage.nodes("n0")
        await stage.play(5, scheduler(stage))
        assert stage.nodes_by_pod() == {"a-low-0": "", "b-high-0": "n0"}

    run(main())


def test_nobody_promises_which_of_equal_gangs_goes_first_nor_which_of_equal_nodes_it_gets() -> None:
    async def seats(seed: int) -> dict[str, str]:
        stage = Stage()
        await stage.nodes("n0", "n1")
        for name in ("a", "b", "c"):
            await stage.gang(name)
        await stage.play(3, GangScheduler(stage.cluster, seed=seed))
        return stage.nodes_by_pod()

    assert run(seats(0)) == {"a-0": "n0", "b-0": "n1", "c-0": ""}
    chosen = [run(seats(seed)) for seed in range(1, 30)]
    assert all(sorted(one.values()) == ["", "n0", "n1"] for one in chosen)
    assert len({tuple(one.items()) for one in chosen}) == 6
    assert run(seats(7)) == run(seats(7))


def test_gated_pods_and_gangs_with_too_few_pods_wait() -> None:
    async def main() -> None:
        stage = Stage()
        await stage.nodes("n0", "n1")
        await stage.gang("g", pod_spec={"schedulingGates": [{"name": "hold"}]})
        await stage.gang("h", members=1, minMember=2)
        await stage.play(5, scheduler(stage))
        assert set(stage.nodes_by_pod().values()) == {""}

    run(main())


def test_nothing_is_bound_while_a_pod_of_the_gang_terminates() -> None:
    async def main() -> None:
        stage = Stage()
        await stage.nodes("n0", "n1")
        await stage.gang("g", members=2)
        await stage.play(3, scheduler(stage))
        await stage.cluster.delete(PODS, "default", "g-0", grace_period_seconds=30)
        await stage.pod("g-2", group="g")
        await stage.play(3, scheduler(stage))
        assert stage.nodes_by_pod()["g-2"] == ""

    run(main())


def test_pods_without_a_group_are_bound_one_by_one() -> None:
    async def main() -> None:
        stage = Stage()
        await stage.nodes("n0", npu=0)
        await stage.pod("alone", npu=0)
        await stage.play(3, scheduler(stage))
        assert stage.nodes_by_pod() == {"alone": "n0"}

    run(main())


def test_cordoned_and_lost_nodes_are_left_out() -> None:
    async def main() -> None:
        stage = Stage()
        await stage.nodes("n0", "n1", "n2")
        await stage.cluster.patch(NODES, None, "n0", {"spec": {"unschedulable": True}}, patch_type=PatchType.MERGE)
        await stage.node_ready("n1", False)
        await stage.gang("g")
        await stage.play(3, scheduler(stage))
        assert stage.nodes_by_pod() == {"g-0": "n2"}

    run(main())


def affinity(kind: str, term: Any) -> dict[str, Any]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {kind: {required: term}}}


def test_required_affinities_and_taints_are_honoured() -> None:
    not_in = {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["slow"]}]}
    apart = [{"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}]

    async def main() -> None:
        stage = Stage()
        await stage.nodes("n0", npu=16, labels={"disk": "slow"})
        await stage.nodes("n1", "n2", npu=16)
        await stage.nodes("n3", npu=16)
        taint = {"spec": {"taints": [{"key": "own", "value": "y", "effect": "NoSchedule"}]}}
        await stage.cluster.patch(NODES, None, "n3", taint, patch_type=PatchType.MERGE)
        await stage.gang("a", pod_spec=affinity("nodeAffinity", {"nodeSelectorTerms": [not_in]}))
        await stage.gang("b", members=2, pod_labels={"app": "x"}, pod_spec=affinity("podAntiAffinity", apart))
        await stage.gang(
            "c",
            pod_spec={
                "tolerations": [{"key": "own", "operator": "Exists"}],
                "nodeSelector": {"kubernetes.io/hostname": "n3"},
            },
        )
        await stage.play(5, scheduler(stage))
        seats = stage.nodes_by_pod()
        assert seats["a-0"] == "n1"
        assert seats["b-0"] != seats["b-1"]
        assert seats["c-0"] == "n3"
        assert "n3" not in {seats["a-0"], seats["b-0"], seats["b-1"]}

    run(main())


def test_a_quiet_cluster_costs_no_session() -> None:
    async def main() -> int:
        stage = Stage()
        await stage.nodes("n0")
        await stage.gang("g", members=2)
        await stage.play(86_400, scheduler(stage))
        return len(stage.cluster.writes())

    assert run(main()) < 20


def test_a_group_in_the_queue_keeps_room_from_others_unless_enqueuing_is_forced_and_a_held_pod_keeps_none() -> None:
    async def main(force_enqueue: bool, gates: list[str]) -> str:
        stage = Stage()
        await stage.nodes("n0")
        waiting = {"nodeSelector": {"zone": "b"}, "schedulingGates": [{"name": gate} for gate in gates]}
        await stage.gang("first", pod_spec=waiting)
        await stage.gang("second")
        await stage.play(5, GangScheduler(stage.cluster, force_enqueue=force_enqueue))
        return stage.group_phases()["second"]

    assert run(main(True, [])) == "Running"
    assert run(main(False, [])) == "Pending"
    assert run(main(False, ["hold"])) == "Running"


def test_a_group_keeps_room_in_the_queue_without_any_pod() -> None:
    async def main() -> None:
        stage = Stage()
        await stage.nodes("n0")
        await stage.gang("empty")
        await stage.cluster.delete(PODS, "default", "empty-0")

        async def script() -> None:
            await stage.gang("second")

        scheduling = GangScheduler(stage.cluster, force_enqueue=False)
        await stage.play(5, scheduling, script=script())
        assert stage.group_phases() == {"empty": "Inqueue", "second": "Pending"}

    run(main())
