"""A small stage for the stand-ins: nodes, gangs and pods by hand, no controller."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from scaler.clock import Clock
from scaler.kube.api import NODES, POD_GROUPS, PODS, Object, PatchType
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import NodeSpec, add_node, ready_condition
from scaler.sim.actors.stand_in import Actor
from scaler.sim.apiserver.server import Hook
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import START
from tests.jobs import manifest
from tests.sim.manifests import NPU, template

FORCE = {"fault-scheduling": "force", "fault-retry-times": "3"}


class Stage:
    """Make it inside a running virtual loop."""

    def __init__(self, *admission: Hook, seed: int = 0) -> None:
        self.clock = Clock(START)
        self.cluster = SimCluster(self.clock, seed=seed, admission=admission)

    async def play(self, seconds: float, *actors: Actor, script: Coroutine[Any, Any, None] | None = None) -> None:
        """Let the actors work for so long, the script beside them."""
        tasks = [asyncio.create_task(actor.run()) for actor in actors]
        if script is not None:
            tasks.append(asyncio.create_task(script))
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [o for o in outcomes if isinstance(o, Exception)] == []

    async def nodes(self, *names: str, npu: int = 8, **spec: Any) -> None:
        for name in names:
            await add_node(self.cluster, NodeSpec(name, npu=npu, **spec))

    async def node_ready(self, name: str, ready: bool) -> None:
        patch = {"status": {"conditions": [ready_condition(ready)]}}
        await self.cluster.patch(NODES, None, name, patch, patch_type=PatchType.MERGE, subresource="status")

    async def gang(self, name: str, *, members: int = 1, labels: dict[str, str] | None = None, **spec: Any) -> None:
        """A PodGroup and its pods `NAME-0`, `NAME-1`, ...; `pod_spec` and `pod_labels` go to the pods."""
        pod_spec, pod_labels = spec.pop("pod_spec", {}), spec.pop("pod_labels", {})
        spec = {"minMember": members, "minResources": {NPU: str(8 * members)}, **spec}
        group = manifest(POD_GROUPS, name, "default", labels=labels or {}, spec=spec)
        await self.cluster.create(POD_GROUPS, "default", group)
        for index in range(members):
            await self.pod(f"{name}-{index}", group=name, labels=pod_labels, **pod_spec)

    async def pod(
        self, name: str, *, group: str = "", npu: int = 8, labels: dict[str, str] | None = None, **spec: Any
    ) -> None:
        whole = template(npu=npu, schedulerName="volcano", restartPolicy="Never")["spec"] | spec
        notes = {objects.GROUP_NAME: group} if group else None
        body = manifest(PODS, name, "default", labels=labels or {}, annotations=notes, spec=whole)
        await self.cluster.create(PODS, "default", body)

    def nodes_by_pod(self) -> dict[str, str]:
        """ "" while unbound."""
        return {objects.name(pod): objects.node_of(pod) for pod in self.cluster.peek(PODS)}

    def phases(self) -> dict[str, str]:
        return {objects.name(pod): objects.phase(pod) for pod in self.cluster.peek(PODS)}

    def group_phases(self) -> dict[str, str]:
        return {objects.name(g): objects.status(g).get("phase", "") for g in self.cluster.peek(POD_GROUPS)}

    def pod_object(self, name: str) -> Object:
        return next(pod for pod in self.cluster.peek(PODS) if objects.name(pod) == name)
