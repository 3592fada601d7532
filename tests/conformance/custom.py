"""Custom resources: what a definition brings, prunes and refuses; AscendJob and PodGroup as the
scaler uses them."""

from __future__ import annotations

from scaler.kube.api import (
    ASCEND_JOBS,
    CUSTOM_RESOURCE_DEFINITIONS,
    POD_GROUPS,
    Object,
    PatchType,
    Resource,
)
from scaler.kube.errors import BadRequestError, InvalidError, KubeError, NotFoundError
from tests.conformance.harness import Cluster, case, eventually, refused
from tests.jobs import manifest


@case
async def definition_makes_its_resource_served(cluster: Cluster) -> None:
    group = f"{cluster.namespace}.example.org"
    things = Resource(group, "v1", "things", "Thing")
    await refused(NotFoundError, cluster.create(things, manifest(things, "t")))
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [version],
    }
    await cluster.kube.create(
        CUSTOM_RESOURCE_DEFINITIONS,
        None,
        manifest(CUSTOM_RESOURCE_DEFINITIONS, f"things.{group}", spec=spec),
    )
    cluster.made.append((CUSTOM_RESOURCE_DEFINITIONS, f"things.{group}"))
    made: list[Object] = []

    async def served() -> bool:
        try:
            made.append(
                await cluster.create(things, manifest(things, "t", spec={"size": 1, "odd": 2}))
            )
        except NotFoundError:
            return False
        return True

    await eventually(served, "the resource is served")
    assert made[0]["spec"] == {"size": 1}
    await refused(InvalidError, cluster.create(things, manifest(things, "u", spec={"size": "big"})))


@case
async def gates_in_a_job_template_are_pruned(cluster: Cluster) -> None:
    made = await cluster.create(
        ASCEND_JOBS, cluster.job("j", schedulingGates=[{"name": "ours/held"}], hostNetwork=True)
    )
    spec = made["spec"]["replicaSpecs"]["Master"]["template"]["spec"]
    assert sorted(spec) == ["containers", "hostNetwork"]


@case
async def job_status_has_a_subresource(cluster: Cluster) -> None:
    job = cluster.job("j")
    conditions = [{"type": "Created", "status": "True"}]
    status = {"conditions": conditions, "replicaStatuses": {}}
    made = await cluster.create(ASCEND_JOBS, {**job, "status": status})
    assert "status" not in made
    changed = await cluster.kube.replace(
        ASCEND_JOBS,
        cluster.namespace,
        "j",
        {**made, "status": status, "metadata": {**made["metadata"], "labels": {"a": "b"}}},
        subresource="status",
    )
    assert changed["status"]["conditions"] == conditions
    assert "labels" not in changed["metadata"]
    assert changed["metadata"]["generation"] == 1
    spec = {"spec": {"schedulerName": "volcano"}, "status": {"conditions": []}}
    patched = await cluster.kube.patch(
        ASCEND_JOBS, cluster.namespace, "j", spec, patch_type=PatchType.MERGE
    )
    assert (patched["metadata"]["generation"], patched["status"]["conditions"]) == (2, conditions)


@case
async def pod_group_status_is_part_of_the_object(cluster: Cluster) -> None:
    made = await cluster.create(POD_GROUPS, manifest(POD_GROUPS, "g", spec={"minMember": 2}))
    patch = {"status": {"phase": "Inqueue"}}
    patching = cluster.kube.patch(
        POD_GROUPS, cluster.namespace, "g", patch, patch_type=PatchType.MERGE, subresource="status"
    )
    await refused(NotFoundError, patching)
    patched = await cluster.kube.patch(
        POD_GROUPS, cluster.namespace, "g", patch, patch_type=PatchType.MERGE
    )
    assert patched["status"] == {"phase": "Inqueue"}
    assert patched["metadata"]["generation"] == made["metadata"]["generation"] + 1


@case
async def custom_object_must_fit_its_schema(cluster: Cluster) -> None:
    job = cluster.job("j")
    await refused(InvalidError, cluster.create(ASCEND_JOBS, {**job, "spec": {}}), "replicaSpecs")
    wrong: Object = {
        "replicaSpecs": {"Master": {"replicas": "one", "template": {"spec": {"containers": []}}}}
    }
    await refused(InvalidError, cluster.create(ASCEND_JOBS, {**job, "spec": wrong}), "replicas")
    nulls = {**job, "spec": {**job["spec"], "schedulerName": None}}
    assert "schedulerName" not in (await cluster.create(ASCEND_JOBS, nulls))["spec"]
    nameless = {name: value for name, value in job.items() if name != "kind"}
    await refused(BadRequestError, cluster.create(ASCEND_JOBS, nameless))


@case
async def custom_object_is_replaced_with_its_version_only(cluster: Cluster) -> None:
    made = await cluster.create(ASCEND_JOBS, cluster.job("j"))
    await refused(
        KubeError, cluster.kube.replace(ASCEND_JOBS, cluster.namespace, "j", cluster.job("j"))
    )
    again = await cluster.kube.replace(ASCEND_JOBS, cluster.namespace, "j", made)
    assert again == made
