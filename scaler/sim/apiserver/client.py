"""KubeApi on the simulated API server, as one client sees it: with latency, faults and an audit of
its writes."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from scaler.kube.api import Object, Page, Refused, Resource, WatchEvent
from scaler.kube.errors import KubeError
from scaler.kube.wire import refused_of
from scaler.sim.apiserver.list_watch import Query, Seen, Watch
from scaler.sim.apiserver.reviews import REVIEWS
from scaler.sim.apiserver.server import ApiServer, DeleteOptions, PatchOptions
from scaler.sim.apiserver.store import Record

T = TypeVar("T")


class Write(msgspec.Struct, frozen=True):
    """One line of the audit. With an empty `error` it took effect, and `version` is the new one."""

    moment: float
    client: str
    verb: str
    resource: Resource
    namespace: str
    name: str
    version: str = ""
    error: str = ""


class SimClient:
    """One client of an ApiServer. Half of `latency` seconds passes before the effect of a request
    and half after it.

    With a seed other than 0 each half varies by up to one half, so that requests overtake each
    other. `manager`: its name in the `managedFields` of what it writes; "" leaves none there."""

    # Wiring: everything that a client works with.
    def __init__(  # noqa: PLR0913
        self,
        server: ApiServer,
        name: str,
        *,
        latency: float,
        seed: int,
        audit: deque[Write],
        interceptor: Interceptor | None = None,
        manager: str = "",
    ) -> None:
        self.server = server
        self.name = name
        self.manager = manager
        self.interceptor = interceptor or Interceptor()
        self.audit = audit
        self._latency = latency
        # For order, not for secrets.
        self._random = random.Random(f"{name}-{seed}") if seed else None  # noqa: S311
        self._watches: list[Watch] = []

    async def list(
        self, resource: Resource, namespace: str | None = None, *, decode: Any = None, **query: Any
    ) -> Page[Any]:
        """See KubeApi.list."""
        request = Request(self.name, "list", resource, namespace or "")
        page = await self._send(
            request, lambda: self.server.list(resource, namespace, Query(**query))
        )
        read = [_decoded(record, decode) for record in page.items]
        items = [item for item in read if not isinstance(item, Refused)]
        if decode is None and not self.server.catalog.find(resource).custom:
            for item in items:
                # In a list only custom resources have kind and apiVersion, as from a real API
                # server.
                del item["apiVersion"], item["kind"]
        refused = [item for item in read if isinstance(item, Refused)]
        return Page(items, page.resource_version, page.continue_token, refused)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        timeout_seconds: int = 300,
        decode: Any = None,
        **query: Any,
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        """See KubeApi.watch."""
        request = Request(self.name, "watch", resource, namespace or "")

        def opened() -> Watch:
            kind = self.server.catalog.find(resource)
            return Watch(self.server.store, kind, namespace, Query(**query), timeout_seconds)

        watch = await self._send(request, opened)
        self._watches.append(watch)
        try:
            while events := await watch.next():
                for event in events:
                    if not (await self.interceptor.deliver(request, event) and watch.is_open):
                        return
                    obj = None if event.record is None else _decoded(event.record, decode)
                    version = str(event.version)
                    if isinstance(obj, Refused):
                        yield WatchEvent(event.type, None, version, obj)
                    else:
                        yield WatchEvent(event.type, obj, version, None)
        finally:
            self._watches.remove(watch)
            watch.close()

    async def get(
        self, resource: Resource, namespace: str | None, name: str, *, subresource: str = ""
    ) -> Object:
        """See KubeApi.get; with `scale`, its Scale."""
        request = Request(self.name, "get", resource, namespace or "", name, subresource)
        return (
            await self._send(
                request, lambda: self.server.get(resource, namespace, name, subresource)
            )
        ).copy()

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        """See KubeApi.create. Creating one of kinds.BINDINGS binds the pod of that name; a review
        is answered."""
        request = self._creating(resource, namespace, body)
        if resource in REVIEWS:
            return await self._send(request, lambda: self.server.reviews.answer(resource, body))
        return (
            await self._write(request, lambda: self.server.create(resource, namespace, body))
        ).copy()

    async def would_create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        """See HttpKubeApi.would_create."""
        request = self._creating(resource, namespace, body)
        return (
            await self._send(
                request, lambda: self.server.create(resource, namespace, body, dry_run=True)
            )
        ).copy()

    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        subresource: str = "",
    ) -> Object:
        """See KubeApi.replace."""
        request = Request(self.name, "replace", resource, namespace or "", name, subresource, body)
        effect = partial(
            self.server.replace, resource, namespace, name, body, subresource=subresource
        )
        return (await self._write(request, effect)).copy()

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        patch: Any,
        **options: Any,
    ) -> Object:
        """See KubeApi.patch."""
        how = PatchOptions(**options)
        where = namespace or ""
        request = Request(self.name, "patch", resource, where, name, how.subresource, patch)
        effect = partial(self.server.patch, resource, namespace, name, patch, how)
        return (await self._write(request, effect)).copy()

    async def delete(
        self, resource: Resource, namespace: str | None, name: str, **options: Any
    ) -> None:
        """See KubeApi.delete."""
        request = Request(self.name, "delete", resource, namespace or "", name)
        effect = partial(self.server.delete, resource, namespace, name, DeleteOptions(**options))
        await self._write(request, effect)

    def cut_watches(self, resource: Resource | None = None) -> int:
        """Ends this client's open watches (of one resource) as a closed connection would; returns
        how many."""
        cut = [watch for watch in self._watches if resource in (None, watch.kind.resource)]
        for watch in cut:
            watch.cut()
        return len(cut)

    async def _send(self, request: Request, effect: Callable[[], T]) -> T:
        await self._travel()
        await self.interceptor.before(request)
        result = effect()
        await self._travel()
        await self.interceptor.after(request)
        return result

    async def _write(self, request: Request, effect: Callable[[], Record]) -> Record:
        def audited() -> Record:
            try:
                with self.server.written_by(self.manager):
                    record = effect()
            except KubeError as error:
                self._note(request, request.name, error=str(error))
                raise
            self._note(request, record.object["metadata"]["name"], version=str(record.version))
            return record

        return await self._send(request, audited)

    def _note(self, request: Request, name: str, *, version: str = "", error: str = "") -> None:
        moment = self.server.clock.now()
        verb = f"{request.verb} {request.subresource}".strip()
        self.audit.append(
            Write(
                moment, self.name, verb, request.resource, request.namespace, name, version, error
            )
        )

    def _creating(self, resource: Resource, namespace: str | None, body: Any) -> Request:
        """The request to create a body of any content."""
        metadata = body.get("metadata") if isinstance(body, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        name = name if isinstance(name, str) else ""
        return Request(self.name, "create", resource, namespace or "", name, body=body)

    async def _travel(self) -> None:
        if self._latency:
            factor = 0.5 if self._random is None else self._random.uniform(0.25, 0.75)
            await asyncio.sleep(self._latency * factor)


def _decoded(record: Record, decode: Any) -> Any:
    """The object as the type that its reader declares; raises if it does not fit `decode`."""
    if decode is None:
        return record.copy()
    try:
        return record.decode(decode)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        return refused_of(record.object["metadata"], error)


class Request(msgspec.Struct, frozen=True):
    """A request before it is sent. `verb` is list, watch, get, create, replace, patch or delete."""

    client: str
    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    body: Any = None


class Interceptor:
    """Sees each request before its effect and after it; may wait, and may raise any KubeError."""

    async def before(self, request: Request) -> None:
        """Called before the effect: an error raised here means that nothing happened."""

    async def after(self, request: Request) -> None:
        """Called after the effect: raise UnknownOutcomeError to lose the answer."""

    # Passes everything.
    async def deliver(self, request: Request, event: Seen) -> bool:  # noqa: ARG002
        """Called before an event of a watch is delivered; False ends the watch without an error."""
        return True
