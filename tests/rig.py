"""The controller on a simulated cluster, with the test as scheduler, kubelet and user. Virtual time only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from scaler.app import App
from scaler.clock import Clock
from scaler.decide.invariants import violations
from scaler.decide.world import Decision, Plan, Service, ServiceKey, World
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    ELASTIC_SERVICES,
    EVENTS,
    POD_GROUPS,
    PODS,
    SERVICES,
    KubeApi,
    Object,
    PatchType,
    Resource,
)
from scaler.settings import Settings
from scaler.sim.actors import objects
from scaler.sim.apiserver.client import Interceptor
from scaler.sim.cluster import SimCluster
from tests.jobs import NAMESPACE, node

START = 1_700_000_000.0
MOMENT = 0.2
"""Seconds in which everything that only needs round trips has happened."""
NODE = "node-0"
Through = Callable[[KubeApi], KubeApi]


class Rig:
    """`decisions` has every plan, with its service, that was another one than before, those left out that were made
    while writes were under way. Each decision has been checked against the invariants."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.clock = cluster.server.clock
        self.decisions: list[tuple[Service, Plan]] = []
        self._last: dict[ServiceKey, Plan] = {}
        self.passes = 0
        self.broken: list[str] = []
        cluster.apply([node(NODE)])

    def observe(self, world: World, decision: Decision) -> None:
        self.passes += 1
        for service, plan in zip(world.services, decision.plans, strict=True):
            if not service.assumed and self._last.get(plan.key) != plan:
                self._last[plan.key] = plan
                self.decisions.append((service, plan))
        self.broken += violations(world, decision)

    # what a test does

    def apply(self, *objects: Object) -> None:
        self.cluster.apply(objects, NAMESPACE)

    async def settle(self, seconds: float = MOMENT) -> None:
        await asyncio.sleep(seconds)
        assert self.broken == [], self.broken[0]

    async def start(self, *jobs: str, node_name: str = NODE) -> None:
        """Bind every pod of these jobs and let it run."""
        for job in jobs:
            for pod in self.pods_of(job):
                if not pod["spec"].get("nodeName"):
                    await self.bind(pod, node_name)
                await self.status(pod, phase="Running", conditions=[{"type": "Ready", "status": "True"}])
        await self.settle()

    async def bind(self, pod: Object, node_name: str = NODE) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node_name}
        body = {"metadata": {"name": pod["metadata"]["name"]}, "target": target}
        await self.cluster.create(Resource("", "v1", "pods/binding", "Binding"), NAMESPACE, body)

    async def status(self, pod: Object, **status: Any) -> None:
        name = pod["metadata"]["name"]
        patch = {"status": status}
        await self.cluster.patch(PODS, NAMESPACE, name, patch, patch_type=PatchType.MERGE, subresource="status")

    async def kill(self, *jobs: str) -> None:
        """Delete all pods of these jobs at once, as Volcano's plugin does after a fault."""
        for job in jobs:
            for pod in self.pods_of(job):
                await self.cluster.delete(PODS, NAMESPACE, pod["metadata"]["name"], grace_period_seconds=0)

    async def edit(self, job: str, path: str, value: Any) -> None:
        """Replace a part of a job, as a user's editor does."""
        patch = [{"op": "replace", "path": path, "value": value}]
        await self.cluster.patch(ASCEND_JOBS, NAMESPACE, job, patch, patch_type=PatchType.JSON)

    # what a test sees

    def pods_of(self, job: str) -> list[Object]:
        return [pod for pod in self.cluster.peek(PODS, NAMESPACE) if objects.controller(pod).get("name") == job]

    def with_pods(self) -> set[str]:
        owners = [objects.controller(pod) for pod in self.cluster.peek(PODS, NAMESPACE)]
        return {owner["name"] for owner in owners if owner}

    def leaving(self) -> set[str]:
        """Instances with pods that are being deleted."""
        leaving = [pod for pod in self.cluster.peek(PODS, NAMESPACE) if objects.terminating(pod)]
        return {objects.controller(pod)["name"] for pod in leaving}

    def with_pod_group(self) -> set[str]:
        return {objects.controller(group)["name"] for group in self.cluster.peek(POD_GROUPS, NAMESPACE)}

    def services(self) -> set[str]:
        return {objects.name(service) for service in self.cluster.peek(SERVICES, NAMESPACE)}

    def reason(self, job: str) -> str:
        """The reason of the last decision about the job."""
        found = [v.reason for _, plan in self.decisions for v in plan.verdicts if v.name == job]
        return str(found[-1]) if found else ""

    def words(self, job: str) -> str:
        """Reason and message of the job's last condition."""
        (found,) = [one for one in self.cluster.peek(ASCEND_JOBS) if objects.name(one) == job]
        last = found["status"]["conditions"][-1]
        return f"{last['type']} {last['reason']}: {last['message']}"

    def config_map(self, name: str) -> Object | None:
        return next((cm for cm in self.cluster.peek(CONFIG_MAPS, NAMESPACE) if objects.name(cm) == name), None)

    def said(self, rule: str = "rule", job_id: str = "mindie") -> Object:
        """The status of the service's ElasticService; {} without one."""
        about = {"rule": rule, "jobID": job_id}
        services = self.cluster.peek(ELASTIC_SERVICES, NAMESPACE)
        return next((one.get("status", {}) for one in services if about.items() <= one["spec"].items()), {})

    def events(self) -> set[tuple[str, str]]:
        return {(event["involvedObject"]["name"], event["reason"]) for event in self.cluster.peek(EVENTS)}

    def writes(self, client: str = "scaler") -> list[str]:
        """What the controller wrote, `verb plural name`, refused writes too."""
        return [f"{write.verb} {write.resource.plural} {write.name}" for write in self.cluster.writes(client)]


@asynccontextmanager
async def rig(*before: Object, cluster: SimCluster | None = None, **how: Any) -> AsyncIterator[Rig]:
    """A running controller, with what else `controller` takes; `before` exist before it starts. It must still be alive
    at the end."""
    clock = Clock(START)
    made = Rig(cluster or SimCluster(clock))
    made.apply(*before)
    async with controller(made, clock, **how):
        await made.settle()
        yield made


@asynccontextmanager
async def controller(
    on: Rig, clock: Clock, *, interceptor: Interceptor | None = None, through: Through = lambda api: api,
    name: str = "scaler", **settings: Any,
) -> AsyncIterator[None]:  # fmt: skip
    """One life of the controller. `through`: what stands between it and its client, if no interceptor will do."""
    chosen = Settings(**{"leader_election": False, "http_port": 0, **settings})
    api = through(on.cluster.client(name, interceptor))
    async with at_work(App(api, chosen, clock, observer=on.observe, seed=0).run()):
        yield


@asynccontextmanager
async def at_work(*lives: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """All work for as long as the block lasts, and must still be alive at its end."""
    tasks = [asyncio.create_task(life) for life in lives]
    try:
        yield
        ended = [task.exception() for task in tasks if task.done()]
        assert ended == []
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
