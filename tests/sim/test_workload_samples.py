"""The real samples, applied unchanged: the stand-ins make of them what the reference says (pods,
names, labels)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from scaler.kube.api import POD_GROUPS, PODS, REPLICA_SETS, Object
from scaler.sim.actors import objects
from scaler.sim.actors.leader_worker_sets import label_member
from scaler.sim.actors.nodes import Kubelet, KubeletTimings
from scaler.sim.actors.owners import owners
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.loop import run
from scaler.sim.stories.manifests import apply, read_manifests
from scaler.workloads.stormservice import POD_SETS, ROLE_SETS
from scaler.workloads.volcanojob import VOLCANO_JOBS
from tests.rig import Rig

LWS = ["lws", "lws-exclusive-placement", "lws-restart-policy", "lws-sample-volcano", "lws-sglang"]
STORM = [
    "aibrix/pool",
    "aibrix/replica",
    "aibrix/vllm-ascend",
    "deploy_tool/aibrix__storm_2P1D_p1pod_d2pod__aibrix-stormservice",
    "deploy_tool/aibrix__storm_4P2D_p2pod_d4pod__aibrix-stormservice",
]
QUICK = KubeletTimings(start=(1.0, 1.0), ready=(1.0, 1.0), stop=(1.0, 1.0))


async def applied(
    path: Path, kind: str, *, alive: str = "", gangs: bool = True
) -> tuple[Rig, Object]:
    """A cluster in which a sample was applied and its makers worked for a while, and its object of
    this kind.

    `alive`: pods are bound and run, on a node with that resource."""
    on = Rig(label_member)
    documents = read_manifests(path)
    assert any([await apply(on.cluster, document) for document in documents])
    actors: list[Any] = list(owners(on.cluster))
    if alive:
        on.nodes("n0", npu=64, npu_resource=alive, labels={"cloud.google.com/gke-nodepool": "a"})
        actors.append(GangScheduler(on.cluster, gangs=gangs))
        actors.append(Kubelet(on.cluster, on.clock, timings=QUICK))
    await on.play(20, *actors)
    return on, next(document for document in documents if document["kind"] == kind)


def own(pod: Object, prefix: str) -> dict[str, str]:
    both = {**objects.labels_of(pod), **objects.annotations_of(pod)}
    return {
        key.removeprefix(prefix): value for key, value in both.items() if key.startswith(prefix)
    }


def given(template: Object) -> dict[str, str]:
    return (template.get("metadata") or {}).get("labels") or {}


@pytest.mark.parametrize("sample", LWS)
def test_leader_worker_sets(real_data: Path, sample: str) -> None:
    async def main() -> None:
        path = real_data / "workload_samples" / "lws" / f"{sample}.yaml"
        on, lws = await applied(path, "LeaderWorkerSet", alive="nvidia.com/gpu", gangs=False)
        template = lws["spec"]["leaderWorkerTemplate"]
        name = objects.name(lws)
        pods = {objects.name(pod): pod for pod in on.cluster.peek(PODS)}
        expected = {}
        for group in range(lws["spec"]["replicas"]):
            for index in range(template["size"]):
                expected[f"{name}-{group}" if index == 0 else f"{name}-{group}-{index}"] = (
                    group,
                    index,
                )
        assert set(pods) == set(expected)
        for pod_name, (group, index) in expected.items():
            leader = f"{name}-{group}"
            marks = own(pods[pod_name], "leaderworkerset.sigs.k8s.io/")
            marks.pop("template-revision-hash")
            marks.pop("exclusive-topology", None)
            key = hashlib.sha1(f"default/{leader}".encode(), usedforsecurity=False).hexdigest()
            assert marks == {
                "name": name,
                "group-index": str(group),
                "group-key": key,
                "worker-index": str(index),
                "size": str(template["size"]),
                **({"leader-name": leader} if index else {}),
            }
            part = (
                template["workerTemplate"]
                if index
                else template.get("leaderTemplate", template["workerTemplate"])
            )
            assert objects.labels_of(pods[pod_name]).items() >= given(part).items()
        assert set(on.phases().values()) == {"Running"}

    run(main())


@pytest.mark.parametrize("sample", STORM)
def test_storm_services(real_data: Path, sample: str) -> None:
    async def main() -> None:
        on, storm = await applied(real_data / "workload_samples" / f"{sample}.yaml", "StormService")
        pods = [pod for pod in on.cluster.peek(PODS) if "role-name" in objects.labels_of(pod)]
        role_sets = {objects.name(found): found for found in on.cluster.peek(ROLE_SETS)}
        assert len(role_sets) == storm["spec"]["replicas"]
        for role in storm["spec"]["template"]["spec"]["roles"]:
            size = role.get("podGroupSize") or 1
            members = [pod for pod in pods if objects.labels_of(pod)["role-name"] == role["name"]]
            assert len(members) == len(role_sets) * role["replicas"] * size
            for pod in members:
                labels = objects.labels_of(pod)
                assert labels.items() >= given(role["template"]).items()
                assert labels["storm-service-name"] == objects.name(storm)
                assert labels["roleset-name"] in role_sets
                assert objects.owner_kind(pod) == ("PodSet" if size > 1 else "RoleSet")
        grouped = [
            role
            for role in storm["spec"]["template"]["spec"]["roles"]
            if (role.get("podGroupSize") or 1) > 1
        ]
        assert len(on.cluster.peek(POD_SETS)) == len(role_sets) * sum(
            role["replicas"] for role in grouped
        )

    run(main())


def test_infer_service_set(real_data: Path) -> None:
    (path,) = (real_data / "workload_samples" / "infer_operator").glob("*.yaml")

    async def main() -> None:
        on, infer = await applied(path, "InferServiceSet")
        pods = {objects.name(pod): own(pod, "infer.huawei.com/") for pod in on.cluster.peek(PODS)}
        roles = {role["name"]: role["replicas"] for role in infer["spec"]["template"]["roles"]}
        service = f"{objects.name(infer)}-0"
        assert pods == {
            f"{service}-{role}-{index}-0": {
                "inferservice-name": service,
                "instanceset-name": role,
                "instanceset-index": str(index),
                "ascend-infer-operator": "true",
            }
            for role, number in roles.items()
            for index in range(number)
        }

    run(main())


def test_volcano_job(real_data: Path) -> None:
    async def main() -> None:
        path = real_data / "workload_samples" / "mindcluster-deploy" / "infer-vcjob-910.yaml"
        on, _ = await applied(path, "Job", alive="huawei.com/Ascend910")
        (job,), (pod,), (group,) = (
            on.cluster.peek(kind) for kind in (VOLCANO_JOBS, PODS, POD_GROUPS)
        )
        assert (objects.name(pod), objects.name(group)) == (
            "mindx-infer-test-default-test-0",
            f"mindx-infer-test-{objects.uid(job)}",
        )
        assert (
            own(pod, "volcano.sh/").items()
            >= {
                "job-name": "mindx-infer-test",
                "job-namespace": "vcjob",
                "task-spec": "default-test",
                "task-index": "0",
                "queue-name": "default",
                "job-version": "0",
            }.items()
        )
        assert objects.labels_of(group) == objects.labels_of(job)
        assert objects.labels_of(pod)["app"] == "infer"

    run(main())


def test_deployment(real_data: Path) -> None:
    async def main() -> None:
        path = real_data / "workload_samples" / "mindcluster-deploy" / "infer-deploy.yaml"
        on, deployment = await applied(path, "Deployment")
        (found,), (pod,), (group,) = (
            on.cluster.peek(kind) for kind in (REPLICA_SETS, PODS, POD_GROUPS)
        )
        digest = objects.labels_of(pod)["pod-template-hash"]
        assert objects.labels_of(pod) == {
            **given(deployment["spec"]["template"]),
            "pod-template-hash": digest,
        }
        assert objects.name(pod).startswith(f"resnetinfer1-1-deploy-{digest}-")
        assert (
            objects.annotations_of(pod)[objects.GROUP_NAME]
            == objects.name(group)
            == f"podgroup-{objects.uid(found)}"
        )

    run(main())


@pytest.mark.parametrize(
    "sample", ["isvc_1P1D_p1pod_d1pod", "isvc_2P1D_p1pod_d2pod", "isvc_4P2D_p2pod_d4pod"]
)
def test_ome(real_data: Path, sample: str) -> None:
    """One pod per instance is a Deployment, several are a LeaderWorkerSet."""

    async def main() -> None:
        path = (
            real_data
            / "workload_samples"
            / "deploy_tool"
            / f"ome__{sample}__ome-inference_service.yaml"
        )
        on, service = await applied(path, "InferenceService")
        for component in ("engine", "decoder"):
            part = service["spec"][component]
            size = part["worker"]["size"] + 1 if "worker" in part else 1
            pods = [
                pod
                for pod in on.cluster.peek(PODS)
                if objects.labels_of(pod)["component"] == component
            ]
            assert len(pods) == part["minReplicas"] * size
            for pod in pods:
                labels = objects.labels_of(pod)
                assert labels["ome.io/inferenceservice"] == objects.name(service)
                assert labels.items() >= part["labels"].items()
                assert objects.annotations_of(pod).items() >= part["annotations"].items()
                grouped = "leaderworkerset.sigs.k8s.io/name" in labels
                assert (grouped, "pod-template-hash" in labels) == (size > 1, size == 1)

    run(main())
