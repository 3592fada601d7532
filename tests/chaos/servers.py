"""What stands between the controller and its server in one short history each (tests.chaos.histories)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from scaler.kube.api import LEASES, PODS, SERVICES, KubeApi, Page, Resource, WatchEvent
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.apiserver.deletion import DeleteOptions
from scaler.sim.apiserver.reading import Seen
from scaler.sim.cluster import SimCluster
from tests.chaos.schedule import WRITES
from tests.jobs import manifest


class Behind:
    """A client whose server gives, once it is asleep, the first list that it ever gave."""

    def __init__(self, api: KubeApi) -> None:
        self.asleep = False
        self._api = api
        self._first: dict[tuple[Resource, str], Page[Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def list(self, resource: Resource, namespace: str | None = None, **options: Any) -> Page[Any]:
        page = await self._api.list(resource, namespace, **options)
        key = (resource, f"{namespace} {options.get('label_selector')} {options.get('field_selector')}")
        first = self._first.setdefault(key, page)
        return first if self.asleep and resource == PODS else page


class Repeating:
    """A client whose server begins each further watch of pods with the first event that it ever told of them."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._first: WatchEvent[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def watch(
        self, resource: Resource, namespace: str | None = None, **options: Any
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        if resource == PODS and self._first is not None:
            yield self._first
        async for event in self._api.watch(resource, namespace, **options):
            if resource == PODS and event.object is not None and self._first is None:
                self._first = event
            yield event


class BlindFor(Interceptor):
    """The watch of pods stands still at the first pod of this name, for two minutes."""

    def __init__(self, pod: str) -> None:
        self._pod = pod

    async def deliver(self, request: Request, event: Seen) -> bool:
        if event.record is not None and event.record.object["metadata"]["name"] == self._pod:
            await asyncio.sleep(120)
        return True


class Swap(Interceptor):
    """Just before a Service is deleted, somebody else has one of that name."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.swapped = False

    async def before(self, request: Request) -> None:
        if (request.verb, request.resource) == ("delete", SERVICES) and not self.swapped:
            self.cluster.server.delete(SERVICES, request.namespace, request.name, DeleteOptions())
            foreign = manifest(SERVICES, request.name, request.namespace, spec={"ports": [{"port": 80}]})
            self.cluster.apply([foreign])
            self.swapped = True


class Both(Interceptor):
    """One after the other."""

    def __init__(self, *inner: Interceptor) -> None:
        self._inner = inner

    async def before(self, request: Request) -> None:
        for one in self._inner:
            await one.before(request)

    async def after(self, request: Request) -> None:
        for one in self._inner:
            await one.after(request)


class LateWrites(Interceptor):
    """Notes what is sent though the Lease was last renewed longer ago than a leader may write."""

    DEADLINE = 5.0

    def __init__(self) -> None:
        self.late: list[str] = []
        self._renewed = float("inf")
        self._sent = 0.0

    async def before(self, request: Request) -> None:
        now = asyncio.get_running_loop().time()
        if request.resource == LEASES:
            self._sent = now
        elif request.verb in WRITES and now > self._renewed + self.DEADLINE + 0.01:
            self.late.append(f"{request.verb} {request.resource.plural} {now - self._renewed:.1f} s after the renewal")

    async def after(self, request: Request) -> None:
        if request.resource == LEASES and request.verb in WRITES:
            self._renewed = self._sent
