"""The `scale` subresource of a custom resource: what kubectl scale and autoscalers use on an
ElasticService."""

from __future__ import annotations

from typing import Any

from scaler.kube.api import ASCEND_JOBS, ELASTIC_SERVICES, Object, PatchType
from scaler.kube.errors import (
    BadRequestError,
    ConflictError,
    InvalidError,
    KubeError,
    NotFoundError,
)
from tests.conformance.applying import SPEC
from tests.conformance.harness import Cluster, case, refused
from tests.jobs import manifest


async def _made(cluster: Cluster, **spec: Any) -> Object:
    return await cluster.create(ELASTIC_SERVICES, manifest(ELASTIC_SERVICES, "e", spec=SPEC | spec))


async def _scaled(cluster: Cluster, patch: Any, patch_type: PatchType = PatchType.MERGE) -> Object:
    """The Scale after a patch."""
    return await cluster.kube.patch(
        ELASTIC_SERVICES, cluster.namespace, "e", patch, patch_type=patch_type, subresource="scale"
    )


async def _put(cluster: Cluster, scale: Object) -> Object:
    return await cluster.kube.replace(
        ELASTIC_SERVICES, cluster.namespace, "e", scale, subresource="scale"
    )


def _to(replicas: Any) -> Object:
    return {"spec": {"replicas": replicas}}


@case
async def what_is_absent_has_its_default(cluster: Cluster) -> None:
    assert (await _made(cluster))["spec"] == {**SPEC, "replicas": 1_000_000}
    gone = await cluster.kube.patch(
        ELASTIC_SERVICES, cluster.namespace, "e", _to(None), patch_type=PatchType.MERGE
    )
    assert gone["spec"]["replicas"] == 1_000_000
    assert (await _scaled(cluster, {}))["spec"] == {"replicas": 1_000_000}


@case
async def scale_shows_what_the_definition_names(cluster: Cluster) -> None:
    made = await _made(cluster, replicas=3)
    empty = await _scaled(cluster, {})
    assert (empty["apiVersion"], empty["kind"]) == ("autoscaling/v1", "Scale")
    assert (empty["spec"], empty["status"]) == ({"replicas": 3}, {"replicas": 0})
    assert set(empty["metadata"]) == {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    }
    assert empty["metadata"]["uid"] == made["metadata"]["uid"]
    status = {"replicas": 2, "selector": "jobID=chat"}
    await cluster.kube.patch(
        ELASTIC_SERVICES,
        cluster.namespace,
        "e",
        {"status": status},
        patch_type=PatchType.MERGE,
        subresource="status",
    )
    assert (await _scaled(cluster, {}))["status"] == status


@case
async def scale_is_patched(cluster: Cluster) -> None:
    made = await _made(cluster)
    scaled = await _scaled(cluster, _to(2) | {"status": {"replicas": 9}})
    assert (scaled["spec"], scaled["status"]) == ({"replicas": 2}, {"replicas": 0})
    await _scaled(
        cluster, [{"op": "replace", "path": "/spec/replicas", "value": 0}], PatchType.JSON
    )
    after = await cluster.get(ELASTIC_SERVICES, "e")
    assert after["spec"] == {**SPEC, "replicas": 0}
    assert after["metadata"]["generation"] == made["metadata"]["generation"] + 2
    assert "status" not in after


@case
async def scale_is_replaced_with_its_version_or_without(cluster: Cluster) -> None:
    await _made(cluster)
    scale = await _scaled(cluster, {})
    assert (await _put(cluster, scale | _to(4)))["spec"] == {"replicas": 4}
    await refused(ConflictError, _put(cluster, scale | _to(5)))
    await refused(ConflictError, _scaled(cluster, {"metadata": {"resourceVersion": "1"}, **_to(5)}))
    free = {name: scale["metadata"][name] for name in ("name", "namespace")}
    assert (await _put(cluster, {**scale, **_to(6), "metadata": free}))["spec"] == {"replicas": 6}
    strange = {**free, "uid": "00000000-0000-0000-0000-000000000000"}
    await refused(ConflictError, _put(cluster, {**scale, **_to(7), "metadata": strange}))
    assert (await cluster.get(ELASTIC_SERVICES, "e"))["spec"]["replicas"] == 6


@case
async def same_scale_again_changes_nothing(cluster: Cluster) -> None:
    await _made(cluster)
    first = await _scaled(cluster, _to(2))
    assert await _scaled(cluster, _to(2)) == first


@case
async def scale_must_be_a_number_that_fits(cluster: Cluster) -> None:
    await _made(cluster)
    await refused(InvalidError, _scaled(cluster, _to(-1)), "spec.replicas")
    await refused(KubeError, _scaled(cluster, _to("3")))
    scale = await _scaled(cluster, {})
    await refused(BadRequestError, _put(cluster, {**scale, "kind": "ElasticService"}))
    await refused(
        BadRequestError,
        _put(cluster, {**scale, "metadata": {**scale["metadata"], "name": "other"}}),
    )
    assert (await cluster.get(ELASTIC_SERVICES, "e"))["spec"]["replicas"] == 1_000_000


@case
async def scale_of_nothing_and_of_what_has_none_is_not_found(cluster: Cluster) -> None:
    await refused(NotFoundError, _scaled(cluster, _to(1)))
    await cluster.create(ASCEND_JOBS, cluster.job("j"))
    scaling = cluster.kube.patch(
        ASCEND_JOBS, cluster.namespace, "j", _to(1), patch_type=PatchType.MERGE, subresource="scale"
    )
    await refused(NotFoundError, scaling)
