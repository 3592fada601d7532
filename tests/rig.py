"""The simulated world of every test, in virtual time. Nothing happens in it but what a test does or
plugs in.

    on = Rig()
        the cluster: what is done in it by hand, and what is seen of it
    async with at_work(...)
        stand-ins, lives of the controller, witnesses: all that works by itself
    async with rig(...) as on
        a world with one controller, and the test as scheduler, kubelet and user

Faults stand between a client and the server (`interceptor`, tests/faults.py), who judges is called
with each decision (`observe`) or each change (`cluster.observe`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from scaler.app import App
from scaler.clock import Clock
from scaler.decide.decision import Decision, Plan
from scaler.decide.invariants import violations
from scaler.decide.world import Service, ServiceKey, World
from scaler.kube import api
from scaler.kube.api import KubeApi, Object, PatchType, Resource
from scaler.settings import Settings
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import NodeFate, NodeSpec, change_node, node_object
from scaler.sim.actors.stand_in import Actor, merge
from scaler.sim.apiserver.client import Interceptor
from scaler.sim.apiserver.server import Hook
from scaler.sim.cluster import SimCluster
from tests.jobs import NAMESPACE, manifest, node
from tests.sim.manifests import NPU, template

START = 1_700_000_000.0
MOMENT = 0.2
"""Seconds in which everything that only needs round trips has happened."""
NODE = "node-0"
Through = Callable[[KubeApi], KubeApi]


class Rig:
    """To be made inside a running loop: an empty cluster, with these webhooks, or the one given.

    `decisions` has every plan, with its service, that was another one than before, those left out
    that were made while writes were under way. Each decision has been checked against the
    invariants."""

    def __init__(self, *admission: Hook, seed: int = 0, cluster: SimCluster | None = None) -> None:
        self.cluster = cluster or SimCluster(Clock(START), seed=seed, admission=admission)
        self.clock = self.cluster.server.clock
        self.machines: dict[str, NodeSpec] = {}
        """What `nodes` has added."""
        self.decisions: list[tuple[Service, Plan]] = []
        self._last: dict[ServiceKey, Plan] = {}
        self.world = World(0.0, ())
        """The last one that was decided about."""
        self.passes = 0
        self.broken: list[str] = []

    def observe(self, world: World, decision: Decision) -> None:
        self.passes += 1
        self.world = world
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

    async def play(
        self, seconds: float, *actors: Actor, script: Coroutine[Any, Any, None] | None = None
    ) -> None:
        """Let the actors work for so long, the script beside them."""
        async with at_work(*(actor.run() for actor in actors)):
            end = self.clock.now() + seconds
            if script is not None:
                await script
            await asyncio.sleep(end - self.clock.now())

    def nodes(self, *names: str, **spec: Any) -> None:
        """Add machines, alike in all that a `NodeSpec` says but their names."""
        for name in names:
            self.machines[name] = NodeSpec(name, **spec)
            self.cluster.apply([node_object(self.machines[name])])

    async def node(self, name: str, fate: NodeFate) -> None:
        await change_node(self.cluster, self.machines[name], fate)

    async def gang(
        self, name: str, *, members: int = 1, labels: dict[str, str] | None = None, **spec: Any
    ) -> None:
        """A PodGroup and its pods `NAME-0`, `NAME-1`, ...; `pod_spec`, `pod_labels` and `npu` go to
        the pods, `annotations` to the PodGroup."""
        pod_spec = spec.pop("pod_spec", {})
        pod_labels = spec.pop("pod_labels", {})
        npu = spec.pop("npu", 8)
        notes = spec.pop("annotations", {})
        spec = {"minMember": members, "minResources": {NPU: str(8 * members)}, **spec}
        group = manifest(
            api.POD_GROUPS, name, "default", labels=labels or {}, annotations=notes, spec=spec
        )
        await self.cluster.create(api.POD_GROUPS, "default", group)
        for index in range(members):
            await self.pod(f"{name}-{index}", group=name, npu=npu, labels=pod_labels, **pod_spec)

    async def pod(
        self,
        name: str,
        *,
        group: str = "",
        npu: int = 8,
        labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """For Volcano."""
        whole = template(npu=npu, schedulerName="volcano", restartPolicy="Never")["spec"] | spec
        notes = {objects.GROUP_NAME: group} if group else None
        body = manifest(
            api.PODS, name, "default", labels=labels or {}, annotations=notes, spec=whole
        )
        await self.cluster.create(api.PODS, "default", body)

    async def start(self, *jobs: str, node_name: str = NODE) -> None:
        """Bind every pod of these jobs and let it run."""
        for job in jobs:
            for pod in self.pods_of(job):
                if not pod["spec"].get("nodeName"):
                    await self.bind(pod, node_name)
                await self.status(
                    pod, phase="Running", conditions=[{"type": "Ready", "status": "True"}]
                )
        await self.settle()

    async def bind(self, pod: Object, node_name: str = NODE) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node_name}
        body = {"metadata": {"name": pod["metadata"]["name"]}, "target": target}
        await self.cluster.create(Resource("", "v1", "pods/binding", "Binding"), NAMESPACE, body)

    async def status(self, pod: Object, **status: Any) -> None:
        await merge(self.cluster, api.PODS, pod, {"status": status}, subresource="status")

    async def kill(self, *jobs: str) -> None:
        """Delete all pods of these jobs at once, as Volcano's plugin does after a fault."""
        for job in jobs:
            for pod in self.pods_of(job):
                await self.cluster.delete(
                    api.PODS, NAMESPACE, pod["metadata"]["name"], grace_period_seconds=0
                )

    async def edit(self, job: str, path: str, value: Any) -> None:
        """Replace a part of a job, as a user's editor does."""
        patch = [{"op": "replace", "path": path, "value": value}]
        await self.cluster.patch(api.ASCEND_JOBS, NAMESPACE, job, patch, patch_type=PatchType.JSON)

    # what a test sees

    def nodes_by_pod(self) -> dict[str, str]:
        """ "" while unbound."""
        return {objects.name(pod): objects.node_of(pod) for pod in self.cluster.peek(api.PODS)}

    def phases(self) -> dict[str, str]:
        return {objects.name(pod): objects.phase(pod) for pod in self.cluster.peek(api.PODS)}

    def group_phases(self) -> dict[str, str]:
        return {
            objects.name(g): objects.status(g).get("phase", "")
            for g in self.cluster.peek(api.POD_GROUPS)
        }

    def pod_object(self, name: str) -> Object:
        return next(pod for pod in self.cluster.peek(api.PODS) if objects.name(pod) == name)

    def pods_of(self, job: str) -> list[Object]:
        return [
            pod
            for pod in self.cluster.peek(api.PODS, NAMESPACE)
            if objects.controller(pod).get("name") == job
        ]

    def with_pods(self) -> set[str]:
        owners = [objects.controller(pod) for pod in self.cluster.peek(api.PODS, NAMESPACE)]
        return {owner["name"] for owner in owners if owner}

    def with_pod_group(self) -> set[str]:
        return {
            objects.controller(group)["name"]
            for group in self.cluster.peek(api.POD_GROUPS, NAMESPACE)
        }

    def services(self) -> set[str]:
        return {objects.name(service) for service in self.cluster.peek(api.SERVICES, NAMESPACE)}

    def reason(self, job: str) -> str:
        """The reason of the last decision about the job."""
        found = [v.reason for _, plan in self.decisions for v in plan.verdicts if v.name == job]
        return str(found[-1]) if found else ""

    def words(self, job: str) -> str:
        """Reason and message of the job's last condition."""
        (found,) = [one for one in self.cluster.peek(api.ASCEND_JOBS) if objects.name(one) == job]
        last = found["status"]["conditions"][-1]
        return f"{last['type']} {last['reason']}: {last['message']}"

    def config_map(self, name: str) -> Object | None:
        return next(
            (
                cm
                for cm in self.cluster.peek(api.CONFIG_MAPS, NAMESPACE)
                if objects.name(cm) == name
            ),
            None,
        )

    def said(self, rule: str = "rule", job_id: str = "mindie") -> Object:
        """The status of the service's ElasticService; {} without one."""
        about = {"rule": rule, "jobID": job_id}
        services = self.cluster.peek(api.ELASTIC_SERVICES, NAMESPACE)
        return next(
            (one.get("status", {}) for one in services if about.items() <= one["spec"].items()), {}
        )

    def events(self) -> set[tuple[str, str]]:
        return {
            (event["involvedObject"]["name"], event["reason"])
            for event in self.cluster.peek(api.EVENTS)
        }

    def writes(self, client: str = "scaler") -> list[str]:
        """What the controller wrote, `verb plural name`, refused writes too."""
        return [
            f"{write.verb} {write.resource.plural} {write.name}"
            for write in self.cluster.writes(client)
        ]


@asynccontextmanager
async def rig(*before: Object, cluster: SimCluster | None = None, **how: Any) -> AsyncIterator[Rig]:
    """A running controller, with what else `controller` takes; `before` and a node exist before it
    starts. It must still be alive at the end."""
    made = Rig(cluster=cluster)
    made.apply(node(NODE), *before)
    async with controller(made, **how):
        await made.settle()
        yield made


@asynccontextmanager
async def controller(
    on: Rig,
    clock: Clock | None = None,
    *,
    interceptor: Interceptor | None = None,
    through: Through = lambda api: api,
    name: str = "scaler",
    **settings: Any,
) -> AsyncIterator[None]:
    """One life of the controller. `clock`: of its machine, if not that of the API server;
    `through`: what stands between it and its client, if no interceptor will do."""
    chosen = Settings(**{"leader_election": False, "http_port": 0, **settings})
    client = through(on.cluster.client(name, interceptor))
    async with at_work(App(client, chosen, clock or on.clock, observer=on.observe, seed=0).run()):
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
