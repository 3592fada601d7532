"""The three patch types, and the preconditions that a patch can carry."""

from __future__ import annotations

from typing import Any

from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, PODS, Object, PatchType, Resource
from scaler.kube.errors import BadRequestError, ConflictError, InvalidError, NotFoundError
from tests.conformance.harness import Cluster, case, refused

NO_SUCH_UID = "00000000-0000-4000-8000-000000000000"


async def _merge(cluster: Cluster, resource: Resource, name: str, patch: Any) -> Object:
    return await cluster.kube.patch(
        resource, cluster.namespace, name, patch, patch_type=PatchType.MERGE
    )


async def _json(cluster: Cluster, resource: Resource, name: str, *operations: Any) -> Object:
    return await cluster.kube.patch(
        resource, cluster.namespace, name, list(operations), patch_type=PatchType.JSON
    )


async def _strategic(cluster: Cluster, resource: Resource, name: str, patch: Any) -> Object:
    return await cluster.kube.patch(
        resource, cluster.namespace, name, patch, patch_type=PatchType.STRATEGIC
    )


@case
async def merge_patch_changes_adds_and_removes(cluster: Cluster) -> None:
    await cluster.create(CONFIG_MAPS, cluster.config_map("a", keep="1", change="2", remove="3"))
    patch = {
        "data": {"change": "two", "remove": None, "add": "4"},
        "metadata": {"labels": {"l": "v"}},
    }
    patched = await _merge(cluster, CONFIG_MAPS, "a", patch)
    assert patched["data"] == {"keep": "1", "change": "two", "add": "4"}
    assert patched["metadata"]["labels"] == {"l": "v"}


@case
async def json_patch_applies_its_operations_in_order(cluster: Cluster) -> None:
    await cluster.create(CONFIG_MAPS, cluster.config_map("a", x="2"))
    patched = await _json(
        cluster,
        CONFIG_MAPS,
        "a",
        {"op": "test", "path": "/data/x", "value": "2"},
        {"op": "replace", "path": "/data/x", "value": "3"},
        {"op": "copy", "from": "/data/x", "path": "/data/y"},
        {"op": "move", "from": "/data/x", "path": "/data/z"},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/our~1key", "value": "v"},
    )
    assert patched["data"] == {"y": "3", "z": "3"}
    assert patched["metadata"]["annotations"] == {"our/key": "v"}


@case
async def failed_test_of_a_json_patch_changes_nothing(cluster: Cluster) -> None:
    made = await cluster.create(CONFIG_MAPS, cluster.config_map("a", key="1"))
    change = {"op": "replace", "path": "/data/key", "value": "2"}
    for test in (
        {"op": "test", "path": "/data/key", "value": "other"},
        {"op": "test", "path": "/metadata/uid", "value": NO_SUCH_UID},
        {"op": "test", "path": "/data/nothing", "value": "1"},
    ):
        await refused(InvalidError, _json(cluster, CONFIG_MAPS, "a", test, change))
    assert await cluster.get(CONFIG_MAPS, "a") == made


@case
async def json_patch_of_a_path_that_cannot_be_is_refused(cluster: Cluster) -> None:
    await cluster.create(CONFIG_MAPS, cluster.config_map("a", key="1"))
    for operation in (
        {"op": "remove", "path": "/data/nothing"},
        {"op": "invent", "path": "/data/key"},
        {"op": "add", "path": "/nowhere/at/all", "value": "1"},
    ):
        await refused(InvalidError, _json(cluster, CONFIG_MAPS, "a", operation))
    added = await _json(
        cluster, CONFIG_MAPS, "a", {"op": "replace", "path": "/data/nothing", "value": "1"}
    )
    assert added["data"] == {"key": "1", "nothing": "1"}


@case
async def patch_that_is_none_is_a_bad_request(cluster: Cluster) -> None:
    await cluster.create(CONFIG_MAPS, cluster.config_map("a"))
    await refused(BadRequestError, _merge(cluster, CONFIG_MAPS, "a", ["not", "an", "object"]))
    wrong = cluster.kube.patch(
        CONFIG_MAPS, cluster.namespace, "a", {"op": "add"}, patch_type=PatchType.JSON
    )
    await refused(BadRequestError, wrong)
    await refused(NotFoundError, _merge(cluster, CONFIG_MAPS, "b", {"data": {"key": "1"}}))


@case
async def uid_and_version_in_a_patch_are_preconditions(cluster: Cluster) -> None:
    made = await cluster.create(CONFIG_MAPS, cluster.config_map("a"))
    uid = made["metadata"]["uid"]
    version = made["metadata"]["resourceVersion"]
    patched = await _merge(
        cluster,
        CONFIG_MAPS,
        "a",
        {"metadata": {"uid": uid, "resourceVersion": version}, "data": {"key": "1"}},
    )
    assert patched["data"] == {"key": "1"}
    for patch in (_merge, _strategic):
        for metadata in ({"uid": NO_SUCH_UID}, {"resourceVersion": version}):
            await refused(
                ConflictError,
                patch(cluster, CONFIG_MAPS, "a", {"metadata": metadata, "data": {"key": "2"}}),
            )


@case
async def uid_is_no_precondition_of_a_custom_status_but_the_version_is(cluster: Cluster) -> None:
    made = await cluster.create(ASCEND_JOBS, cluster.job("j"))
    status: Object = {"conditions": [], "replicaStatuses": {}}

    async def patch(metadata: Object) -> Object:
        body = {"metadata": metadata, "status": status}
        return await cluster.kube.patch(
            ASCEND_JOBS,
            cluster.namespace,
            "j",
            body,
            patch_type=PatchType.MERGE,
            subresource="status",
        )

    assert (await patch({"uid": NO_SUCH_UID}))["metadata"]["uid"] == made["metadata"]["uid"]
    await refused(ConflictError, patch({"resourceVersion": made["metadata"]["resourceVersion"]}))


@case
async def patch_to_another_shape_is_invalid(cluster: Cluster) -> None:
    await cluster.create(CONFIG_MAPS, cluster.config_map("a"))
    for patch in ({"kind": "Secret"}, {"metadata": {"labels": {"a": 5}}}, {"data": {"key": 5}}):
        await refused(InvalidError, _merge(cluster, CONFIG_MAPS, "a", patch))
    await refused(BadRequestError, _merge(cluster, CONFIG_MAPS, "a", {"metadata": {"name": "b"}}))


@case
async def strategic_patch_merges_lists_by_their_keys(cluster: Cluster) -> None:
    pod = cluster.pod("p", schedulingGates=[{"name": "ours/a"}, {"name": "theirs/b"}])
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "example.org/v1", "kind": "Thing", "name": name, "uid": f"{name}-uid"}
        for name in ("one", "two")
    ]
    await cluster.create(PODS, pod)
    patched = await _strategic(
        cluster,
        PODS,
        "p",
        {
            "metadata": {"ownerReferences": [{"uid": "one-uid", "$patch": "delete"}]},
            "spec": {
                "schedulingGates": [{"name": "ours/a", "$patch": "delete"}],
                "containers": [{"name": "c", "image": "image:2"}],
            },
        },
    )
    assert patched["spec"]["schedulingGates"] == [{"name": "theirs/b"}]
    assert [container["image"] for container in patched["spec"]["containers"]] == ["image:2"]
    assert [owner["name"] for owner in patched["metadata"]["ownerReferences"]] == ["two"]


@case
async def strategic_patch_merges_conditions_by_type(cluster: Cluster) -> None:
    await cluster.create(PODS, cluster.pod("p"))
    for kind, status in (("Ready", "False"), ("mind/Held", "True"), ("Ready", "True")):
        await cluster.kube.patch(
            PODS,
            cluster.namespace,
            "p",
            {"status": {"conditions": [{"type": kind, "status": status}]}},
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )
    conditions = (await cluster.get(PODS, "p"))["status"]["conditions"]
    found = {entry["type"]: entry["status"] for entry in conditions}
    assert (found["Ready"], found["mind/Held"], len(found)) == ("True", "True", len(conditions))


@case
async def custom_resource_knows_no_strategic_patch(cluster: Cluster) -> None:
    await cluster.create(ASCEND_JOBS, cluster.job("j"))
    await refused(
        InvalidError,
        _strategic(cluster, ASCEND_JOBS, "j", {"metadata": {"labels": {"a": "b"}}}),
        "415",
    )
    patched = await _merge(cluster, ASCEND_JOBS, "j", {"metadata": {"labels": {"a": "b"}}})
    assert patched["metadata"]["labels"] == {"a": "b"}
