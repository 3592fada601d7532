"""kube-controller-manager's own HorizontalPodAutoscaler on an ElasticService, by an external metric that a test sets.

The API server asks a server in the test's own process for it (aggregation layer). Must not: know what it scales.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from scaler.clock import rfc3339
from scaler.kube.api import ELASTIC_SERVICES, Object
from tests.control_plane.plane import ControlPlane
from tests.control_plane.programs import free_ports
from tests.control_plane.stage import until, wall_clock

_GATE = "--feature-gates=HPAScaleToZero=true"
OPTIONS: dict[str, Any] = {
    "apiserver_flags": (_GATE,),
    "manager_flags": (_GATE, "--horizontal-pod-autoscaler-sync-period=1s"),
}
"""Of a plane that has one."""
_GROUP, _VERSION = "external.metrics.k8s.io", "v1beta1"
_API, _SERVED = f"{_GROUP}/{_VERSION}", f"{_VERSION}.{_GROUP}"
_AT_ONCE = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 1000, "periodSeconds": 1}]}


class Autoscaler:
    """`load` is how many instances the load needs: what the autoscaler makes of it is its own affair."""

    def __init__(self, plane: ControlPlane) -> None:
        self.load = 0.0
        self._plane = plane
        self._clock = wall_clock()

    def follow(self, namespace: str, name: str, most: int) -> None:
        """Let one scale this ElasticService between 0 and `most`, without a pause either way."""
        target = {"type": "AverageValue", "averageValue": "1"}
        metric = {"type": "External", "external": {"metric": {"name": "load"}, "target": target}}
        reference = {"apiVersion": ELASTIC_SERVICES.api_version, "kind": ELASTIC_SERVICES.kind, "name": name}
        spec = {
            "scaleTargetRef": reference, "minReplicas": 0, "maxReplicas": most, "metrics": [metric],
            "behavior": {"scaleUp": _AT_ONCE, "scaleDown": _AT_ONCE},
        }  # fmt: skip
        self._apply("autoscaling/v2", "HorizontalPodAutoscaler", {"name": name, "namespace": namespace}, spec)

    async def answer(self, request: web.Request) -> web.Response:
        """The group's discovery, or the metric."""
        kind = "ExternalMetricValueList"
        if "namespaces" not in request.path:
            metric = {"name": "load", "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get"]}
            found = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": _API, "resources": [metric]}
            return web.json_response(found)
        value = {"metricName": "load", "metricLabels": {}, "value": f"{self.load * 1000:.0f}m"}
        items = [{**value, "timestamp": rfc3339(self._clock.now())}]
        return web.json_response({"kind": kind, "apiVersion": _API, "metadata": {}, "items": items})

    def register(self, port: int) -> None:
        """A Service with a selector would need endpoints, and those on loopback are refused: it is a name."""
        name = {"name": "load", "namespace": "default"}
        outside = {"type": "ExternalName", "externalName": "localhost"}
        self._apply("v1", "Service", name, outside)
        spec = {
            "group": _GROUP, "version": _VERSION, "service": {**name, "port": port}, "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100, "versionPriority": 100,
        }  # fmt: skip
        self._apply("apiregistration.k8s.io/v1", "APIService", {"name": _SERVED}, spec)

    async def serves(self) -> bool:
        """Whether the API server hands the metric on."""
        path = f"/apis/{_API}/namespaces/default/load"
        return '"items"' in await asyncio.to_thread(self._plane.kubectl, "get", "--raw", path)

    def _apply(self, version: str, kind: str, metadata: Object, spec: Object) -> None:
        obj = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
        self._plane.kubectl("apply", "-f", "-", text=json.dumps(obj))


@asynccontextmanager
async def autoscaling(plane: ControlPlane) -> AsyncIterator[Autoscaler]:
    """With the metric at hand, on a plane with OPTIONS, for as long as the block lasts."""
    found = Autoscaler(plane)
    app = web.Application()
    app.router.add_get("/{path:.*}", found.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        (port,) = free_ports(1)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(plane.authority, plane.authority.with_suffix(".key"))
        await web.TCPSite(runner, "localhost", port, ssl_context=context).start()
        await asyncio.to_thread(found.register, port)
        await until(found.serves, "the API server hands the metric on")
        yield found
    finally:
        # While an API is registered and not served no namespace comes to its end.
        await asyncio.to_thread(plane.kubectl, "delete", "--ignore-not-found", "apiservice", _SERVED)
        await runner.cleanup()
