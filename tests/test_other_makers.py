"""The whole controller beside somebody else who makes pods of AscendJobs, or writes their status,
where the scaler makes them: of `scaler/state/makers.py`."""

from __future__ import annotations

from typing import Any

from scaler.kube.api import ASCEND_JOBS, PODS, PatchType
from scaler.sim.loop import run
from scaler.state.makers import OTHERS_FOR
from tests.jobs import NAMESPACE, job, rule_config_map
from tests.rig import Rig, rig

SERVICE = (rule_config_map(), job("p0"), job("p1"), job("d0"))
THEIRS = (
    rule_config_map("theirs"),
    job("t0", rule="theirs"),
    job("u0", rule="theirs", group="group1"),
)


def status_writes(on: Rig, name: str) -> int:
    return on.writes().count(f"patch status ascendjobs {name}")


async def write_status(on: Rig, name: str, client: str = "somebody") -> None:
    """Another client writes the status of the job."""
    other = on.cluster.client(client, manager=client)
    condition = {"type": "Created", "status": "True", "reason": client, "message": "mine"}
    patch: dict[str, Any] = {"status": {"conditions": [condition]}}
    await other.patch(
        ASCEND_JOBS, NAMESPACE, name, patch, patch_type=PatchType.MERGE, subresource="status"
    )
    await on.settle()


def test_no_pods_are_made_of_a_job_whose_status_another_writes_until_it_stops() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            assert on.with_pods() == {"p0", "p1", "d0"}
            await write_status(on, "d0")
            before = status_writes(on, "d0")
            assert ("d0", "MadeByOthers") in on.events()
            await on.settle(10)
            (said,) = [one for one in on.said()["warnings"] if one["type"] == "MadeByOthers"]
            assert said["message"].startswith("somebody wrote its status at ")
            await on.kill("d0")
            await on.settle(OTHERS_FOR - 20)
            assert "d0" not in on.with_pods()
            assert status_writes(on, "d0") == before
            await on.settle(20)
            assert "d0" in on.with_pods()
            assert status_writes(on, "d0") > before
            assert not [
                one for one in on.said().get("warnings", []) if one["type"] == "MadeByOthers"
            ]

    run(story())


def test_what_it_costs_is_the_job_whose_status_was_written() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            on.apply(*THEIRS)
            await on.settle()
            await write_status(on, "t0")
            await on.kill("p0", "d0", "t0")
            await on.settle()
            assert {"p1", "d0"} <= on.with_pods()
            assert "t0" not in on.with_pods()

    run(story())


def test_a_job_without_a_rule_is_left_to_who_writes_its_status() -> None:
    async def story() -> None:
        async with rig(job("mindie-controller", rule=None)) as on:
            await write_status(on, "mindie-controller")
            await on.kill("mindie-controller")
            await on.settle(OTHERS_FOR - 10)
            assert on.with_pods() == set()
            await on.settle(20)
            assert on.with_pods() == {"mindie-controller"}

    run(story())


def test_a_pod_that_another_makes_keeps_the_job_with_it() -> None:
    async def story() -> None:
        async with rig(rule_config_map(), job("p0", pods=2), job("d0")) as on:
            (pod, _) = on.pods_of("p0")
            kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
            metadata = {key: pod["metadata"][key] for key in kept}
            await write_status(on, "p0", "ascend-operator")
            await on.kill("p0")
            await on.settle(OTHERS_FOR - 20)
            assert on.pods_of("p0") == []
            other = on.cluster.client("other", manager="ascend-operator")
            await other.create(PODS, NAMESPACE, {"metadata": metadata, "spec": pod["spec"]})
            await on.settle(OTHERS_FOR - 20)
            assert len(on.pods_of("p0")) == 1
            await on.settle(40)
            assert len(on.pods_of("p0")) == 2

    run(story())
