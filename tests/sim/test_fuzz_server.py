"""Whatever a client sends, the simulated cluster answers with an object or a KubeError."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scaler.clock import Clock
from scaler.kube import api
from scaler.kube.api import KubeApi, PatchType, Resource
from scaler.kube.errors import KubeError
from scaler.sim.apiserver import protobuf
from scaler.sim.apiserver.kinds import BINDINGS
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run

_RESOURCES = (
    api.PODS,
    api.SERVICES,
    api.CONFIG_MAPS,
    api.EVENTS,
    api.NODES,
    api.NAMESPACES,
    api.LEASES,
    api.ASCEND_JOBS,
    api.POD_GROUPS,
    api.CUSTOM_RESOURCE_DEFINITIONS,
    api.PRIORITY_CLASSES,
    api.DEPLOYMENTS,
    BINDINGS,
)
_KEYS = st.sampled_from(
    [
        "metadata",
        "name",
        "namespace",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "uid",
        "resourceVersion",
        "spec",
        "status",
        "data",
        "containers",
        "env",
        "valueFrom",
        "fieldRef",
        "resources",
        "limits",
        "ports",
        "schedulingGates",
        "nodeName",
        "conditions",
        "type",
        "image",
        "target",
        "tolerations",
        "replicaSpecs",
        "Master",
        "template",
        "group",
        "names",
        "plural",
        "kind",
        "versions",
        "scope",
        "schema",
        "openAPIV3Schema",
        "deletionTimestamp",
        "terminationGracePeriodSeconds",
        "involvedObject",
        "holderIdentity",
        "$patch",
        "clusterIP",
        "allocatable",
    ]
)
_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.text(max_size=5)
    | st.sampled_from(["a", "x/y", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)
_operation = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["add", "remove", "replace", "test", "move", "copy", "?"]),
        "path": st.lists(_KEYS | st.sampled_from(["0", "-", "~1", ""]), max_size=4).map(
            lambda parts: "/" + "/".join(parts)
        ),
        "from": _values,
        "value": _values,
    },
)


async def _answer(
    kube: KubeApi, resource: Resource, body: Any, patch: Any, patch_type: PatchType
) -> None:
    namespace = "ns" if resource.namespaced else None
    valid: dict[str, Any] = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "a"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "ports": [{"port": 1}],
            "replicaSpecs": {},
        },
    }
    wrapped = {**valid, **body} if isinstance(body, dict) else body
    for call in (
        lambda: kube.create(resource, namespace, wrapped),
        lambda: kube.create(resource, namespace, {**valid, "metadata": {"name": "b"}}),
        lambda: kube.replace(resource, namespace, "b", wrapped),
        lambda: kube.patch(resource, namespace, "b", patch, patch_type=patch_type),
        lambda: kube.patch(
            resource, namespace, "b", patch, patch_type=patch_type, subresource="status"
        ),
        lambda: kube.list(resource, namespace, label_selector=str(body)[:20]),
        lambda: kube.delete(resource, namespace, "b"),
    ):
        try:
            await call()
        except KubeError:
            continue


@pytest.mark.long("hundreds of bodies")
@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(_RESOURCES),
    st.dictionaries(_KEYS, _values, max_size=4) | _values,
    _values | st.lists(_operation, max_size=3),
    st.sampled_from(list(PatchType)),
)
def test_any_body_and_any_patch_is_answered(
    resource: Resource, body: Any, patch: Any, patch_type: PatchType
) -> None:
    async def main() -> int:
        sim = SimCluster(Clock(1.7e9), latency=0)
        before = sim.server.store.version
        await _answer(sim, resource, body, patch, patch_type)
        return sim.server.store.version - before

    assert run(main()) >= 0


@given(st.binary(max_size=60))
@example(b"\x00\x00\x08\x00")
@example(b"\x0a\x00\x10\x01")
def test_any_bytes_are_a_protobuf_object_or_a_value_error(data: bytes) -> None:
    try:
        decoded = protobuf.decode(b"k8s\x00" + data)
    except ValueError:
        return
    assert isinstance(decoded, dict)
