"""How objects go: preconditions, grace, finalizers, and what happens to what they own."""

from __future__ import annotations

import asyncio
from typing import Any

from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, PODS, Object, PatchType, Resource
from scaler.kube.errors import ConflictError, InvalidError, KubeError, NotFoundError
from tests.conformance.harness import Cluster, case, eventually, refused
from tests.conformance.patching import NO_SUCH_UID


async def _delete(cluster: Cluster, resource: Resource, name: str, **how: Any) -> None:
    await cluster.kube.delete(resource, cluster.namespace, name, **how)


async def _gone(cluster: Cluster, resource: Resource, name: str) -> bool:
    try:
        await cluster.get(resource, name)
    except NotFoundError:
        return True
    return False


@case
async def deleted_object_is_gone(cluster: Cluster) -> None:
    await cluster.create(CONFIG_MAPS, cluster.config_map("a"))
    await _delete(cluster, CONFIG_MAPS, "a")
    assert await _gone(cluster, CONFIG_MAPS, "a")
    await refused(NotFoundError, _delete(cluster, CONFIG_MAPS, "a"))


@case
async def uid_and_version_of_a_delete_are_preconditions(cluster: Cluster) -> None:
    made = await cluster.create(CONFIG_MAPS, cluster.config_map("a"))
    changed = await cluster.kube.replace(
        CONFIG_MAPS, cluster.namespace, "a", {**made, "data": {"key": "1"}}
    )
    version = made["metadata"]["resourceVersion"]
    await refused(ConflictError, _delete(cluster, CONFIG_MAPS, "a", uid=NO_SUCH_UID))
    await refused(ConflictError, _delete(cluster, CONFIG_MAPS, "a", resource_version=version))
    metadata = changed["metadata"]
    await _delete(
        cluster, CONFIG_MAPS, "a", uid=metadata["uid"], resource_version=metadata["resourceVersion"]
    )
    assert await _gone(cluster, CONFIG_MAPS, "a")


@case
async def finalizer_keeps_an_object_until_it_is_taken_off(cluster: Cluster) -> None:
    body = cluster.config_map("a")
    body["metadata"]["finalizers"] = ["example.org/ours"]
    made = await cluster.create(CONFIG_MAPS, body)
    await _delete(cluster, CONFIG_MAPS, "a")
    marked = await cluster.get(CONFIG_MAPS, "a")
    assert marked["metadata"]["deletionTimestamp"].endswith("Z")
    assert int(marked["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    added = {"metadata": {"finalizers": ["example.org/ours", "example.org/more"]}}
    patching = cluster.kube.patch(
        CONFIG_MAPS, cluster.namespace, "a", added, patch_type=PatchType.MERGE
    )
    await refused(InvalidError, patching, "no new finalizers")
    taken_off = {"metadata": {"finalizers": None}}
    await cluster.kube.patch(
        CONFIG_MAPS, cluster.namespace, "a", taken_off, patch_type=PatchType.MERGE
    )
    assert await _gone(cluster, CONFIG_MAPS, "a")


@case
async def pod_without_a_node_is_gone_at_once(cluster: Cluster) -> None:
    await cluster.create(PODS, cluster.pod("p"))
    await _delete(cluster, PODS, "p")
    assert await _gone(cluster, PODS, "p")


@case
async def pod_on_a_node_stays_until_it_is_deleted_without_grace(cluster: Cluster) -> None:
    await cluster.create(PODS, cluster.pod("p"))
    await cluster.bind("p", await cluster.node())
    await _delete(cluster, PODS, "p")
    marked = await cluster.get(PODS, "p")
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    await _delete(cluster, PODS, "p")
    assert await cluster.get(PODS, "p") == marked
    await _delete(cluster, PODS, "p", uid=marked["metadata"]["uid"], grace_period_seconds=5)
    assert (await cluster.get(PODS, "p"))["metadata"]["deletionGracePeriodSeconds"] == 5
    await _delete(cluster, PODS, "p", grace_period_seconds=0)
    assert await _gone(cluster, PODS, "p")


@case
async def finished_pod_is_gone_at_once(cluster: Cluster) -> None:
    await cluster.create(PODS, cluster.pod("p"))
    await cluster.bind("p", await cluster.node())
    failed = {"status": {"phase": "Failed"}}
    await cluster.kube.patch(
        PODS, cluster.namespace, "p", failed, patch_type=PatchType.MERGE, subresource="status"
    )
    await _delete(cluster, PODS, "p")
    assert await _gone(cluster, PODS, "p")


async def _family(cluster: Cluster, *, blocking: bool = False) -> Object:
    """A job that owns two pods and a ConfigMap."""
    job = await cluster.create(ASCEND_JOBS, cluster.job("j"))
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": "j",
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": blocking,
    }
    for resource, body in (
        (PODS, cluster.pod("p0")),
        (PODS, cluster.pod("p1")),
        (CONFIG_MAPS, cluster.config_map("c")),
    ):
        body["metadata"]["ownerReferences"] = [owner]
        await cluster.create(resource, body)
    return job


@case
async def what_a_deleted_owner_leaves_behind_is_collected(cluster: Cluster) -> None:
    await _family(cluster)
    await cluster.create(PODS, cluster.pod("stranger"))
    await _delete(cluster, ASCEND_JOBS, "j", propagation_policy="Background")
    for resource, name in ((PODS, "p0"), (PODS, "p1"), (CONFIG_MAPS, "c")):
        await eventually(lambda r=resource, n=name: _gone(cluster, r, n), f"{name} is collected")  # type: ignore[misc]
    assert not await _gone(cluster, PODS, "stranger")


@case
async def new_owner_of_the_same_name_owns_nothing(cluster: Cluster) -> None:
    job = await _family(cluster)
    await _delete(cluster, ASCEND_JOBS, "j", uid=job["metadata"]["uid"])
    await cluster.create(ASCEND_JOBS, cluster.job("j"))
    await eventually(lambda: _gone(cluster, PODS, "p0"), "the pod of the old owner is collected")
    assert not await _gone(cluster, ASCEND_JOBS, "j")


@case
async def owner_deleted_in_the_foreground_goes_last(cluster: Cluster) -> None:
    await _family(cluster, blocking=True)
    held = {"metadata": {"finalizers": ["example.org/ours"]}}
    await cluster.kube.patch(PODS, cluster.namespace, "p0", held, patch_type=PatchType.MERGE)
    await _delete(cluster, ASCEND_JOBS, "j", propagation_policy="Foreground")
    assert "foregroundDeletion" in (await cluster.get(ASCEND_JOBS, "j"))["metadata"]["finalizers"]
    await eventually(lambda: _gone(cluster, PODS, "p1"), "the free dependent is collected")
    assert not await _gone(cluster, ASCEND_JOBS, "j")
    free = {"metadata": {"finalizers": None}}
    await cluster.kube.patch(PODS, cluster.namespace, "p0", free, patch_type=PatchType.MERGE)
    await eventually(
        lambda: _gone(cluster, ASCEND_JOBS, "j"), "the owner goes when nothing blocks it"
    )


@case
async def orphans_stay(cluster: Cluster) -> None:
    await _family(cluster)
    # a real collector makes orphans of what its watches have shown, and collects the rest
    await asyncio.sleep(2)
    await _delete(cluster, ASCEND_JOBS, "j", propagation_policy="Orphan")
    await eventually(lambda: _gone(cluster, ASCEND_JOBS, "j"), "the owner goes")
    for name in ("p0", "p1"):
        assert "ownerReferences" not in (await cluster.get(PODS, name))["metadata"]


@case
async def unknown_propagation_policy_is_refused(cluster: Cluster) -> None:
    await cluster.create(CONFIG_MAPS, cluster.config_map("a"))
    await refused(KubeError, _delete(cluster, CONFIG_MAPS, "a", propagation_policy="Sideways"))
    assert not await _gone(cluster, CONFIG_MAPS, "a")
