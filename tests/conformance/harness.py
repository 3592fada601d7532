"""What a case gets: a KubeApi, a namespace of its own, small builders; how it is judged. Knows no
implementation."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest

from scaler.kube import api
from scaler.kube.api import EventType, KubeApi, Object, Resource, WatchEvent
from scaler.kube.errors import KubeError
from scaler.sim.apiserver.kinds import BINDINGS
from tests.jobs import manifest

Case: TypeAlias = "Callable[[Cluster], Awaitable[None]]"

CASES: list[Case] = []
_NUMBERS = itertools.count(1)
PATIENCE_SECONDS = 60.0
"""A real garbage collector takes half a minute to learn of a new kind."""


@dataclass(frozen=True)
class Cluster:
    """One implementation under test. `compact` forgets its history, None where that is out of
    reach."""

    kube: KubeApi
    namespace: str
    compact: Callable[[], Any] | None = None
    minor: int = 35
    """Which Kubernetes 1.x it is; the simulated cluster is near to 1.35. A case says where the
    versions differ."""
    made: list[tuple[Resource, str]] = field(default_factory=list)

    def pod(self, name: str, **spec: Any) -> Object:
        return manifest(
            api.PODS, name, spec={"containers": [{"name": "c", "image": "image:1"}], **spec}
        )

    def config_map(self, name: str, labels: dict[str, str] | None = None, **data: str) -> Object:
        return manifest(api.CONFIG_MAPS, name, labels=labels, data=data)

    def job(self, name: str, **template: Any) -> Object:
        spec = {"containers": [{"name": "ascend", "image": "image:1"}], **template}
        replica = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": spec}}
        return manifest(api.ASCEND_JOBS, name, spec={"replicaSpecs": {"Master": replica}})

    async def create(self, resource: Resource, body: Object) -> Object:
        return await self.kube.create(
            resource, self.namespace if resource.namespaced else None, body
        )

    async def get(self, resource: Resource, name: str) -> Object:
        return await self.kube.get(resource, self.namespace, name)

    async def node(self) -> str:
        """A node of this case, which is removed afterwards."""
        name = f"node-of-{self.namespace}"
        await self.kube.create(api.NODES, None, manifest(api.NODES, name))
        self.made.append((api.NODES, name))
        return name

    async def bind(self, pod: str, node: str) -> None:
        binding = {
            "metadata": {"name": pod},
            "target": {"kind": "Node", "name": node},
            "apiVersion": "v1",
        }
        await self.kube.create(BINDINGS, self.namespace, {**binding, "kind": "Binding"})

    def forget_history(self) -> None:
        if self.compact is None:
            pytest.skip("this cluster's history cannot be compacted from here")
        self.compact()

    async def version(self, resource: Resource) -> str:
        return (await self.kube.list(resource, self.namespace)).resource_version

    async def events(
        self, resource: Resource, version: str, count: int, **how: Any
    ) -> list[WatchEvent[Object]]:
        """The first events after `version`, bookmarks left out."""
        found: list[WatchEvent[Object]] = []
        async with aclosing(
            self.kube.watch(
                resource, self.namespace, resource_version=version, timeout_seconds=10, **how
            )
        ) as stream:
            async for event in stream:
                if event.type is not EventType.BOOKMARK:
                    found.append(event)
                if len(found) >= count:
                    break
        return found


def case(function: Case) -> Case:
    """Registers a case; its name is one sentence."""
    CASES.append(function)
    return function


async def refused(error: type[KubeError], call: Awaitable[Any], words: str | None = None) -> None:
    with pytest.raises(error, match=words):
        await call


async def eventually(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Waits until it holds; for what the cluster does by itself."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        for _ in range(600):
            if await condition():
                return
            await asyncio.sleep(0.1)
    pytest.fail(f"did not happen: {what}")


async def judge_real(
    case: Case, kube: KubeApi, compact: Callable[[], None] | None, minor: int = 35
) -> bool:
    """One case against an API server, of Kubernetes 1.`minor`, that has a controller manager."""

    async def in_quiet(cluster: Cluster) -> None:
        """A real controller manager puts a ConfigMap into every new namespace, which must not come
        in between."""

        async def arrived() -> bool:
            return bool((await kube.list(api.CONFIG_MAPS, cluster.namespace)).items)

        await eventually(arrived, "the namespace is furnished")
        await case(cluster)

    return await judge(in_quiet, kube, compact, minor)


async def judge(
    case: Case, kube: KubeApi, compact: Callable[[], None] | None, minor: int = 35
) -> bool:
    cluster = Cluster(kube, f"case-{os.getpid()}-{next(_NUMBERS)}", compact, minor)
    await kube.create(api.NAMESPACES, None, manifest(api.NAMESPACES, cluster.namespace))
    try:
        await case(cluster)
        return True
    finally:
        for resource, name in (*cluster.made, (api.NAMESPACES, cluster.namespace)):
            with suppress(KubeError):
                await kube.delete(resource, None, name)
