"""The simulated cluster over HTTP, well enough for a real kubectl and for the real client of scaler.kube.

Of built-in kinds, what a later server-side apply leaves out stays. Only server-side apply knows dry runs. There is no
access control and no TLS; it listens on loopback by default.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
import yaml
from aiohttp import web

from scaler.kube.api import Apply, EventType, Object, PatchType, Resource, WatchEvent
from scaler.kube.errors import KubeError, StatusError
from scaler.sim.apiserver import discovery, protobuf, refusals, tables
from scaler.sim.apiserver.kinds import BINDINGS, Kind
from scaler.sim.apiserver.scale import SCALE
from scaler.sim.cluster import SimCluster

_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
_MAX_BODY = 3 * 1024 * 1024
_SERVER_ERROR = re.compile(r"(5\d\d) (\w+): (.*)", re.DOTALL)


@asynccontextmanager
async def serve(cluster: SimCluster, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serves the cluster while the context lasts; gives the URL. Port 0 takes a free one. Needs a real-time loop."""
    app = web.Application(client_max_size=_MAX_BODY)
    app.router.add_route("*", "/{path:.*}", _Facade(cluster).handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        cluster.cut_all_watches()
        await runner.cleanup()


def kubeconfig(url: str, namespace: str = "default") -> str:
    """A kubeconfig (YAML) for kubectl and for the real client."""
    name = "simulated"
    context = {"cluster": name, "user": name, "namespace": namespace}
    return yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url}}],
        "users": [{"name": name, "user": {}}],
        "contexts": [{"name": name, "context": context}],
    })  # fmt: skip


class _Target(NamedTuple):
    """What a path is about."""

    kind: Kind
    namespace: str | None
    name: str
    subresource: str

    @property
    def place(self) -> tuple[Resource, str | None, str]:
        return self.kind.resource, self.namespace, self.name


class _Facade:
    """One handler for everything; each request is one call of a client."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._client = cluster.client("http", latency=0)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except KubeError as error:
            status = _status(error)
            retry = {} if error.retry_after is None else {"Retry-After": str(int(error.retry_after))}
            return _json(status, status["code"], retry)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path.strip("/")
        if path in ("healthz", "livez", "readyz"):
            return web.Response(text="ok")
        found = discovery.document(path, self._cluster.server.catalog)
        if found is not None:
            return _json(found)
        if request.query.get("dryRun") and request.content_type != PatchType.APPLY:
            raise refusals.bad_request("dry runs are not simulated")
        if request.method == "POST" and path.endswith("/bindings"):
            return await self._bind(path.split("/")[3], "", await _body(request))
        methods = {
            "GET": self._read, "POST": self._create, "PUT": self._replace, "PATCH": self._patch, "DELETE": self._delete
        }  # fmt: skip
        if request.method not in methods:
            raise refusals.method_not_allowed()
        return await methods[request.method](request, self._target(path))

    def _target(self, path: str) -> _Target:
        """`api/v1/[namespaces/NS/]PLURAL[/NAME[/SUBRESOURCE]]`, or `apis/GROUP/...` likewise."""
        parts = path.split("/")
        if parts[0] == "api" and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            raise refusals.unknown_resource()
        namespace = None
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] != "status":
            namespace, rest = rest[1], rest[2:]
        kind = self._cluster.server.catalog.named(group, version, rest[0])
        name, subresource = ([*rest[1:], "", ""])[:2]
        return _Target(kind, namespace, name, subresource)

    # Reading.

    async def _read(self, request: web.Request, target: _Target) -> web.StreamResponse:
        if target.subresource not in ("", "status", SCALE):
            raise refusals.unknown_resource()
        if target.subresource == SCALE:
            return _json(await self._client.get(*target.place, subresource=SCALE))
        if target.name:
            obj = await self._client.get(*target.place)
            return _json(self._shown(request, target, [obj]) or obj)
        if request.query.get("watch") in ("true", "1"):
            return await self._watch(request, target)
        page = await self._client.list(
            target.kind.resource, target.namespace, **_selection(request), limit=_number(request, "limit"),
            continue_token=request.query.get("continue", ""),
        )  # fmt: skip
        metadata = {"resourceVersion": page.resource_version}
        if page.continue_token:
            metadata["continue"] = page.continue_token
        shown = self._shown(request, target, page.items)
        if shown is not None:
            return _json({**shown, "metadata": metadata})
        named = {"kind": f"{target.kind.resource.kind}List", "apiVersion": target.kind.resource.api_version}
        return _json({**named, "metadata": metadata, "items": page.items})

    async def _watch(self, request: web.Request, target: _Target) -> web.StreamResponse:
        """Refusals of the watch itself come as errors, later ones within the stream, as from a real server."""
        if request.query.get("sendInitialEvents") == "true":
            raise refusals.unprocessable("sendInitialEvents: Forbidden: lists come by listing here")
        stream: AsyncGenerator[WatchEvent[Object], None] = self._client.watch(
            target.kind.resource, target.namespace, **_selection(request),
            timeout_seconds=_number(request, "timeoutSeconds") or 1800,
        )  # fmt: skip
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        bookmarks = request.query.get("allowWatchBookmarks") in ("true", "1")
        opening = asyncio.ensure_future(anext(stream, None))
        try:
            # Whether a watch is refused shows at once; a watch that is not refused may be silent for long.
            await asyncio.wait([opening], timeout=0.05)
            if opening.done():
                opening.result()
            await response.prepare(request)
            event = await opening
            while event is not None:
                if bookmarks or event.type is not EventType.BOOKMARK:
                    line = {"type": event.type.value, "object": self._event_object(request, target, event)}
                    await response.write(msgspec.json.encode(line) + b"\n")
                event = await anext(stream, None)
        except KubeError as error:
            if not response.prepared:
                raise
            await response.write(msgspec.json.encode({"type": "ERROR", "object": _status(error)}) + b"\n")
        except ConnectionResetError:
            pass
        finally:
            opening.cancel()
            await asyncio.wait([opening])  # a stream that is being read cannot be closed
            await stream.aclose()
        return response

    def _event_object(self, request: web.Request, target: _Target, event: WatchEvent[Object]) -> Object:
        if event.object is None:
            metadata = {"resourceVersion": event.resource_version, "creationTimestamp": None}
            resource = target.kind.resource
            return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        shown = self._shown(request, target, [event.object])
        return event.object if shown is None else {**shown, "metadata": {"resourceVersion": event.resource_version}}

    def _shown(self, request: web.Request, target: _Target, objects: list[Object]) -> Object | None:
        """The objects as a Table if that is what the client wants to see."""
        if "as=Table" not in request.headers.get("Accept", ""):
            return None
        whole = request.query.get("includeObject") == "Object"
        return tables.table(target.kind, objects, self._cluster.server.clock.now(), whole=whole)

    # Writing.

    async def _create(self, request: web.Request, target: _Target) -> web.StreamResponse:
        body = await _body(request)
        if target.subresource == "binding":
            return await self._bind(target.namespace, target.name, body)
        if target.name:
            raise refusals.method_not_allowed()
        return _json(await self._client.create(target.kind.resource, target.namespace, body), 201)

    async def _bind(self, namespace: str | None, name: str, body: Any) -> web.StreamResponse:
        if name and isinstance(body, dict):
            body = {**body, "metadata": {**(body.get("metadata") or {}), "name": name}}
        await self._client.create(BINDINGS, namespace, body)
        return _json({**_SUCCESS, "code": 201}, 201)

    async def _replace(self, request: web.Request, target: _Target) -> web.StreamResponse:
        body = await _body(request)
        return _json(await self._client.replace(*target.place, body, subresource=target.subresource))

    async def _patch(self, request: web.Request, target: _Target) -> web.StreamResponse:
        body = await _body(request)
        try:
            patch_type = PatchType(request.content_type)
        except ValueError:
            raise refusals.unsupported_media_type([*PatchType]) from None
        query = request.query
        how = Apply(query.get("fieldManager", ""), query.get("force") == "true", bool(query.get("dryRun")))
        given: dict[str, Any] = {"patch_type": patch_type, "subresource": target.subresource, "apply": how}
        return _json(await self._client.patch(*target.place, body, **given))

    async def _delete(self, request: web.Request, target: _Target) -> web.StreamResponse:
        if not target.name or target.subresource:
            raise refusals.method_not_allowed()
        options = await _body(request) if request.can_read_body else {}
        options = {**dict(request.query), **(options if isinstance(options, dict) else {})}
        preconditions = options.get("preconditions") or {}
        grace = options.get("gracePeriodSeconds")
        before = await self._client.get(*target.place)
        await self._client.delete(
            *target.place, uid=preconditions.get("uid", ""),
            resource_version=preconditions.get("resourceVersion", ""),
            grace_period_seconds=None if grace is None else int(grace),
            propagation_policy=options.get("propagationPolicy", ""),
        )  # fmt: skip
        details = {"name": target.name, "kind": target.kind.resource.plural, "uid": before["metadata"]["uid"]}
        return _json({**_SUCCESS, "details": details})


def _selection(request: web.Request) -> dict[str, str]:
    """What a list and a watch both may say."""
    names = {
        "label_selector": "labelSelector", "field_selector": "fieldSelector", "resource_version": "resourceVersion",
    }  # fmt: skip
    return {name: request.query.get(parameter, "") for name, parameter in names.items()}


def _number(request: web.Request, parameter: str) -> int:
    text = request.query.get(parameter, "0")
    if not (text.isascii() and text.isdigit()):
        raise refusals.bad_request(f"{parameter}: a number is wanted, not {text!r}")
    return int(text)


async def _body(request: web.Request) -> Any:
    """JSON, YAML for apply, or the little protobuf that kubectl sends; BadRequestError when it cannot be read."""
    data = await request.read()
    try:
        if request.content_type == protobuf.CONTENT_TYPE:
            return protobuf.decode(data)
        return yaml.safe_load(data) if request.content_type == PatchType.APPLY else msgspec.json.decode(data)
    except (ValueError, yaml.YAMLError) as error:
        raise refusals.bad_request(f"the body cannot be read: {error}") from None


def _json(body: Object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    encoded = msgspec.json.encode(body)
    return web.Response(body=encoded, status=status, content_type="application/json", headers=headers)


def _status(error: KubeError) -> Object:
    code, reason, message = 500, "InternalError", str(error)
    if isinstance(error, StatusError):
        code, reason, message = error.status, error.reason, error.message
    elif found := _SERVER_ERROR.fullmatch(message):
        code, reason, message = int(found[1]), found[2], found[3]
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "code": code,
    }  # fmt: skip
