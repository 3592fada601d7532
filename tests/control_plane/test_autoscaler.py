"""kube-controller-manager's own HorizontalPodAutoscaler moves a service along its ladder, while
nodes fail.

It follows an external metric that the test sets: the API server asks a server in the test's own
process for it. A watch of its own judges three things: does the service ever fall below the ratio
ordered, is a pod ever deleted without an order, what do the NPUs held differ from those that the
ladder needs. The last is said, and judged only where waves are given more time, which is for a
machine with nothing else to do:

    WAVE_SECONDS=600 .venv/bin/python -m pytest -s tests/control_plane/test_autoscaler.py -k wave"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from scaler.clock import Clock
from scaler.kube.api import CONFIG_MAPS, ELASTIC_SERVICES, Object
from scaler.names import RULE_KEY
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import NodeFate
from scaler.timestamps import rfc3339
from tests.control_plane.plane import ControlPlane
from tests.control_plane.programs import free_ports
from tests.control_plane.services import Platform, PlatformStage, ascend_jobs, played
from tests.control_plane.stage import EXAMPLE, kinds_definitions, until
from tests.control_plane.test_kinds import PLATFORMS
from tests.control_plane.witness import Orders, watched

_GATE = "--feature-gates=HPAScaleToZero=true"
OPTIONS: dict[str, Any] = {
    "apiserver_flags": (_GATE,),
    "manager_flags": (_GATE, "--horizontal-pod-autoscaler-sync-period=1s"),
}
"""Of a plane that has one."""
_GROUP = "external.metrics.k8s.io"
_VERSION = "v1beta1"
_API = f"{_GROUP}/{_VERSION}"
_SERVED = f"{_VERSION}.{_GROUP}"
_AT_ONCE = {
    "stabilizationWindowSeconds": 0,
    "policies": [{"type": "Pods", "value": 1000, "periodSeconds": 1}],
}

pytestmark = [
    pytest.mark.plane_options(crds=kinds_definitions(), **OPTIONS),
    pytest.mark.long("loads in real time, half a minute to two minutes each"),
]
SECONDS = float(os.environ.get("WAVE_SECONDS", "60"))
LADDER = ((3, 1), (2, 1), (1, 1))
MOST = 4
ASCEND_JOBS = ascend_jobs(2, EXAMPLE, by_operator=False)
BESIDE_OPERATOR = ascend_jobs(2, EXAMPLE)
SHAPES: dict[str, Callable[[random.Random], Iterator[float]]] = {
    "square": lambda _: itertools.cycle((4, 2, 4, 0)),
    "sawtooth": lambda _: itertools.cycle((0, 1, 2, 2.5, 3.5, 6)),
    "noise": lambda die: (die.choice((0, die.uniform(0, 5), 4)) for _ in itertools.count()),
}
"""Loads, one after the other."""


class Autoscaler:
    """`load` is how many instances the load needs: what the autoscaler makes of it is its own
    affair."""

    def __init__(self, plane: ControlPlane) -> None:
        self.load = 0.0
        self._plane = plane
        self._clock = Clock()

    def follow(self, namespace: str, name: str, most: int) -> None:
        """Let one scale this ElasticService between 0 and `most`, without a pause either way."""
        target = {"type": "AverageValue", "averageValue": "1"}
        metric = {"type": "External", "external": {"metric": {"name": "load"}, "target": target}}
        reference = {
            "apiVersion": ELASTIC_SERVICES.api_version,
            "kind": ELASTIC_SERVICES.kind,
            "name": name,
        }
        spec = {
            "scaleTargetRef": reference,
            "minReplicas": 0,
            "maxReplicas": most,
            "metrics": [metric],
            "behavior": {"scaleUp": _AT_ONCE, "scaleDown": _AT_ONCE},
        }
        self._apply(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            {"name": name, "namespace": namespace},
            spec,
        )

    async def answer(self, request: web.Request) -> web.Response:
        """The group's discovery, or the metric."""
        kind = "ExternalMetricValueList"
        if "namespaces" not in request.path:
            metric = {
                "name": "load",
                "singularName": "",
                "namespaced": True,
                "kind": kind,
                "verbs": ["get"],
            }
            found = {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": _API,
                "resources": [metric],
            }
            return web.json_response(found)
        value = {"metricName": "load", "metricLabels": {}, "value": f"{self.load * 1000:.0f}m"}
        items = [{**value, "timestamp": rfc3339(self._clock.now())}]
        return web.json_response({"kind": kind, "apiVersion": _API, "metadata": {}, "items": items})

    def register(self, port: int) -> None:
        """A Service with a selector would need endpoints, and those on loopback are refused: it is
        a name."""
        name = {"name": "load", "namespace": "default"}
        outside = {"type": "ExternalName", "externalName": "localhost"}
        self._apply("v1", "Service", name, outside)
        spec = {
            "group": _GROUP,
            "version": _VERSION,
            "service": {**name, "port": port},
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        }
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
        await asyncio.to_thread(
            plane.kubectl, "delete", "--ignore-not-found", "apiservice", _SERVED
        )
        await runner.cleanup()


@asynccontextmanager
async def followed(
    plane: ControlPlane, folder: Path, platform: Platform
) -> AsyncIterator[tuple[PlatformStage, Autoscaler, Orders]]:
    """The service at its largest ratio, one node more than it needs, an autoscaler that wants it
    so, and a judge."""
    async with played(plane, platform, folder) as stage, autoscaling(plane) as autoscaler:
        stage.kubectl("apply")
        await stage.runs_both(1, 1)
        await stage.edit_rule(*LADDER)
        await stage.add_npu_nodes(3)
        await asyncio.to_thread(platform.scale, stage, LADDER[0][0])
        await stage.runs_both(*LADDER[0])
        autoscaler.load = MOST
        found = (await stage.api.list(ELASTIC_SERVICES, platform.namespace)).items
        await asyncio.to_thread(autoscaler.follow, platform.namespace, objects.name(found[0]), MOST)
        rule = json.loads(
            (await stage.api.get(CONFIG_MAPS, platform.namespace, "scaling-rule"))["data"][RULE_KEY]
        )
        groups = rule["elastic_scaling_list"][0]["group_list"]
        sizes = {group["group_name"]: int(group["server_num_per_group"]) for group in groups}
        async with watched(Orders(stage.api, platform.service, sizes, LADDER)) as orders:
            yield stage, autoscaler, orders


async def follows(
    plane: ControlPlane, folder: Path, platform: Platform, shape: str, seed: int
) -> None:
    """A wave for SECONDS; then the service must run whole."""
    die = random.Random(f"waves-{seed}")
    async with followed(plane, folder, platform) as (stage, autoscaler, orders):
        await _waves(stage, autoscaler, die, SHAPES[shape](die), SECONDS)
        autoscaler.load = MOST
        await stage.runs_both(*LADDER[0])
    print(dict(orders.counts), orders.account())
    assert orders.counts["orders"] >= 3
    assert "WAVE_SECONDS" not in os.environ or orders.needed_all(), orders.account()


async def _waves(
    stage: PlatformStage,
    autoscaler: Autoscaler,
    die: random.Random,
    loads: Iterator[float],
    seconds: float,
) -> None:
    """One load after the other; at a random moment of half of them a node that runs something fails
    for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        autoscaler.load = next(loads)
        pause = die.uniform(5, 10)
        moment = die.uniform(0, pause / 2)
        away = die.uniform(1, pause / 2)
        fails = die.random() < 0.5
        await asyncio.sleep(moment)
        used = sorted(node for nodes in stage.nodes_by_instance().values() for node in nodes)
        if fails and used:
            lost = die.choice(used)
            await stage.node(lost, NodeFate.NOT_READY)
            await asyncio.sleep(away)
            await stage.node(lost, NodeFate.READY)
            moment += away
        await asyncio.sleep(pause - moment)


async def test_a_service_follows_down_to_nothing_and_up_again_while_a_node_fails(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async with followed(plane, tmp_path, ASCEND_JOBS) as (stage, autoscaler, orders):
        autoscaler.load = 2
        await stage.runs_both(1, 1)
        lost = await stage.lose("group1")
        await stage.runs_both(1, 1)
        autoscaler.load = 2.5  # needs three
        await stage.runs_both(2, 1)
        await stage.node(lost, NodeFate.READY)
        autoscaler.load = 0
        await stage.runs_both(0, 0)
        autoscaler.load = 1  # the smallest ratio has two
        await stage.runs_both(1, 1)
        autoscaler.load = 9
        await stage.runs_both(*LADDER[0])
        assert orders.counts["orders"] == 5


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_service_follows_a_wave(shape: str, plane: ControlPlane, tmp_path: Path) -> None:
    await follows(plane, tmp_path, ASCEND_JOBS, shape, seed=1)


@pytest.mark.kubernetes_from(36)
async def test_beside_ascend_operator_it_follows_a_wave_too(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await follows(plane, tmp_path, BESIDE_OPERATOR, "noise", seed=2)


@pytest.mark.plane_options(lws=True)
@pytest.mark.parametrize("name", ["ome-deployment", "ome-leaderworkerset"])
async def test_a_service_of_deployments_or_leader_worker_sets_follows_a_wave_too(
    name: str, plane: ControlPlane, tmp_path: Path
) -> None:
    await follows(plane, tmp_path, PLATFORMS[name], "noise", seed=3)


@pytest.mark.plane_options(volcano=True)
async def test_with_the_real_volcano_it_follows_a_wave_too(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await follows(plane, tmp_path, ASCEND_JOBS, "noise", seed=5)


@pytest.mark.kubernetes_from(36)
@pytest.mark.plane_options(volcano=True, ascend_operator=True)
async def test_beside_the_real_ascend_operator_it_follows_a_wave_too(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await follows(plane, tmp_path, BESIDE_OPERATOR, "square", seed=7)
