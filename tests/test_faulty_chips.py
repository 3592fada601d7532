"""What a faulty chip means wherever its pods come from: its instance is Broken at once, and it is
no free capacity."""

from __future__ import annotations

import pytest

from scaler.kube.api import ASCEND_JOBS, PODS, Object, PatchType
from scaler.sim.loop import run
from tests.informers.test_faults import agent
from tests.jobs import NAMESPACE, held, job, rule_config_map
from tests.rig import NODE, Rig, rig
from tests.test_minimums import nodes, serve, service


def report(node: str, unhealthy: str) -> Object:
    """What the device plugin of a node reports."""
    namespace, name, data = agent(unhealthy)
    meta = {"name": name.replace("n1", node), "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def moved(name: str, group: str) -> Object:
    """A job whose rule admission moved to its templates."""
    made = job(name, rule=None, annotations={"mind-cluster/moved-scaling-rule": "rule"})
    made["metadata"]["labels"]["mind-cluster/group-name"] = group
    return made


def made_by_operator(on: Rig, name: str, group: str) -> Object:
    """The pod of such a job, as Ascend Operator makes it and admission gates it."""
    (owner,) = [
        one["metadata"] for one in on.cluster.peek(ASCEND_JOBS) if one["metadata"]["name"] == name
    ]
    pod = held(f"{name}-master-0", group)
    reference = {
        "apiVersion": ASCEND_JOBS.api_version,
        "kind": ASCEND_JOBS.kind,
        "name": name,
        "uid": owner["uid"],
    }
    pod["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return pod


async def let_run_with_chip(on: Rig, name: str, chip: str) -> None:
    (pod,) = [one for one in on.cluster.peek(PODS, NAMESPACE) if one["metadata"]["name"] == name]
    await on.bind(pod)
    patch = {"metadata": {"annotations": {"huawei.com/AscendReal": chip}}}
    await on.cluster.patch(PODS, NAMESPACE, name, patch, patch_type=PatchType.MERGE)
    await on.status(pod, phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    await on.settle()


@pytest.mark.parametrize("kind", ["AscendJob", "Deployment"])
def test_an_instance_of_others_on_a_faulty_chip_is_broken_before_anyone_deletes_its_pods(
    kind: str,
) -> None:
    async def story() -> None:
        jobs = [moved("p0", "group0"), moved("d0", "group1")] if kind == "AscendJob" else []
        async with rig(rule_config_map(), *jobs, mode="gates") as on:
            if jobs:
                on.apply(made_by_operator(on, "p0", "group0"), made_by_operator(on, "d0", "group1"))
                instances = {"p0": "p0-master-0", "d0": "d0-master-0"}
            else:
                on.apply(held("p0", "group0"), held("d0", "group1", owner="decoder-77f"))
                instances = {"p0": "p0", "d0": "d0"}
            await on.settle()
            for pod in instances.values():
                await let_run_with_chip(
                    on, pod, "Ascend910-3" if pod.startswith("p0") else "Ascend910-4"
                )
            assert {name: on.reason(name) for name in instances} == {
                "p0": "Running",
                "d0": "Running",
            }
            on.apply(report(NODE, "Ascend910-3"))
            await on.settle()
            assert {name: on.reason(name) for name in instances} == {
                "p0": "Broken",
                "d0": "Running",
            }

    run(story())


def test_a_faulty_chip_is_no_free_capacity_until_it_is_mended() -> None:
    async def story() -> None:
        async with rig(*nodes(4), report("n4", "Ascend910-3"), *service("a"), *service("b")) as on:
            await serve(on, "a", "n1", "n2")
            assert on.reason("b-p0") == on.reason("b-d0") == "WaitingForRoom"
            assert not on.with_pods() & {"b-p0", "b-d0"}
            on.apply(report("n4", ""))
            await on.settle()
            assert {"b-p0", "b-d0"} <= on.with_pods()

    run(story())
