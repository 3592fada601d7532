"""The simulated cluster over HTTP, for a real kubectl and for the real client of scaler.kube.

For built-in kinds, fields that a later server-side apply leaves out stay. Only server-side apply
has dry runs. There is no access control and no TLS; the server listens on loopback by default."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import yaml
from aiohttp import web
from aiohttp.typedefs import Handler

from scaler.kube.api import Apply, EventType, Object, PatchType, Resource, WatchEvent
from scaler.kube.errors import KubeError, StatusError
from scaler.sim.apiserver import discovery, protobuf, refusals, tables
from scaler.sim.apiserver.client import SimClient
from scaler.sim.apiserver.kinds import BINDINGS, SCALE
from scaler.sim.apiserver.reviews import REVIEWS
from scaler.sim.cluster import SimCluster

_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
_MAX_BODY = 3 * 1024 * 1024
_CLUSTER = web.AppKey("cluster", SimCluster)
_CLIENT = web.AppKey("client", SimClient)
_SERVER_ERROR = re.compile(r"(5\d\d) (\w+): (.*)", re.DOTALL)


@asynccontextmanager
async def serve(cluster: SimCluster, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serves the cluster while the context lasts; gives the URL. Port 0 takes a free one. Needs a
    real-time loop."""
    app = web.Application(client_max_size=_MAX_BODY, middlewares=[_answer])
    app[_CLUSTER] = cluster
    app[_CLIENT] = cluster.client("http", latency=0)
    for path in ("bindings", "pods/{name}/binding"):
        app.router.add_post(f"/api/v1/namespaces/{{namespace}}/{path}", _bind)
    for review in REVIEWS:
        app.router.add_post(f"/apis/{review.api_version}/{review.plural}", partial(_review, review))
    app.router.add_view("/{path:.*}", _Call)
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
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": url}}],
            "users": [{"name": name, "user": {}}],
            "contexts": [{"name": name, "context": context}],
        }
    )


@web.middleware
async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers requests about no resource; an error becomes a Status."""
    path = request.path.strip("/")
    if path in ("healthz", "livez", "readyz"):
        return web.Response(text="ok")
    found = discovery.document(path, request.app[_CLUSTER].server.catalog)
    if found is not None:
        return _json(found)
    try:
        if request.query.get("dryRun") and request.content_type != PatchType.APPLY:
            raise refusals.bad_request("dry runs are not simulated")
        return await handler(request)
    except web.HTTPMethodNotAllowed:
        return _refusal(refusals.method_not_allowed())
    except KubeError as error:
        return _refusal(error)


async def _bind(request: web.Request) -> web.StreamResponse:
    body = await _body(request)
    name = request.match_info.get("name")
    if name and isinstance(body, dict):
        body = {**body, "metadata": {**(body.get("metadata") or {}), "name": name}}
    await request.app[_CLIENT].create(BINDINGS, request.match_info["namespace"], body)
    return _json({**_SUCCESS, "code": 201}, 201)


async def _review(resource: Resource, request: web.Request) -> web.StreamResponse:
    return _json(await request.app[_CLIENT].create(resource, None, await _body(request)), 201)


class _Call(web.View):
    """One request about a resource, which is one call of a client."""

    def __init__(self, request: web.Request) -> None:
        """Reads `api/v1/[namespaces/NS/]PLURAL[/NAME[/SUBRESOURCE]]`, or `apis/GROUP/...` in the
        same way."""
        super().__init__(request)
        self.client = request.app[_CLIENT]
        server = request.app[_CLUSTER].server
        parts = request.path.strip("/").split("/")
        if parts[0] == "api" and len(parts) > 2:
            group = ""
            version = parts[1]
            rest = parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group = parts[1]
            version = parts[2]
            rest = parts[3:]
        else:
            raise refusals.unknown_resource()
        self.namespace = None
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] != "status":
            self.namespace = rest[1]
            rest = rest[2:]
        self.kind = server.catalog.named(group, version, rest[0])
        self.resource = self.kind.resource
        self.name, self.subresource = ([*rest[1:], "", ""])[:2]
        self.place = self.resource, self.namespace, self.name
        self.now = server.clock.now

    async def get(self) -> web.StreamResponse:
        if self.subresource not in ("", "status", SCALE):
            raise refusals.unknown_resource()
        if self.subresource == SCALE:
            return _json(await self.client.get(*self.place, subresource=SCALE))
        if self.name:
            obj = await self.client.get(*self.place)
            return _json(self._shown([obj]) or obj)
        if self.request.query.get("watch") in ("true", "1"):
            return await self._watch()
        page = await self.client.list(
            self.resource,
            self.namespace,
            **_selection(self.request),
            limit=_number(self.request, "limit"),
            continue_token=self.request.query.get("continue", ""),
        )
        metadata = {"resourceVersion": page.resource_version}
        if page.continue_token:
            metadata["continue"] = page.continue_token
        shown = self._shown(page.items)
        if shown is not None:
            return _json({**shown, "metadata": metadata})
        named = {"kind": f"{self.resource.kind}List", "apiVersion": self.resource.api_version}
        return _json({**named, "metadata": metadata, "items": page.items})

    async def _watch(self) -> web.StreamResponse:
        """A refused watch gets an error status, later errors are events of the stream, as from a
        real server."""
        if self.request.query.get("sendInitialEvents") == "true":
            raise refusals.unprocessable("sendInitialEvents: Forbidden: lists come by listing here")
        stream: AsyncGenerator[WatchEvent[Object], None] = self.client.watch(
            self.resource,
            self.namespace,
            **_selection(self.request),
            timeout_seconds=_number(self.request, "timeoutSeconds") or 1800,
        )
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        bookmarks = self.request.query.get("allowWatchBookmarks") in ("true", "1")
        opening = asyncio.ensure_future(anext(stream, None))
        try:
            # A refusal of a watch comes at once; an accepted watch may be silent for long.
            await asyncio.wait([opening], timeout=0.05)
            if opening.done():
                opening.result()
            await response.prepare(self.request)
            event = await opening
            while event is not None:
                if bookmarks or event.type is not EventType.BOOKMARK:
                    line = {"type": event.type.value, "object": self._event_object(event)}
                    await response.write(msgspec.json.encode(line) + b"\n")
                event = await anext(stream, None)
        except KubeError as error:
            if not response.prepared:
                raise
            await response.write(
                msgspec.json.encode({"type": "ERROR", "object": _status(error)}) + b"\n"
            )
        except ConnectionResetError:
            pass
        finally:
            opening.cancel()
            await asyncio.wait([opening])  # a stream that is being read cannot be closed
            await stream.aclose()
        return response

    def _event_object(self, event: WatchEvent[Object]) -> Object:
        if event.object is None:
            metadata = {"resourceVersion": event.resource_version, "creationTimestamp": None}
            return {
                "kind": self.resource.kind,
                "apiVersion": self.resource.api_version,
                "metadata": metadata,
            }
        shown = self._shown([event.object])
        return (
            event.object
            if shown is None
            else {**shown, "metadata": {"resourceVersion": event.resource_version}}
        )

    def _shown(self, objects: list[Object]) -> Object | None:
        """The objects, as a Table if the client asks for one."""
        if "as=Table" not in self.request.headers.get("Accept", ""):
            return None
        whole = self.request.query.get("includeObject") == "Object"
        return tables.table(self.kind, objects, self.now(), whole=whole)

    async def post(self) -> web.StreamResponse:
        if self.name:
            raise refusals.method_not_allowed()
        return _json(
            await self.client.create(self.resource, self.namespace, await _body(self.request)), 201
        )

    async def put(self) -> web.StreamResponse:
        body = await _body(self.request)
        return _json(await self.client.replace(*self.place, body, subresource=self.subresource))

    async def patch(self) -> web.StreamResponse:
        body = await _body(self.request)
        try:
            patch_type = PatchType(self.request.content_type)
        except ValueError:
            raise refusals.unsupported_media_type([*PatchType]) from None
        query = self.request.query
        how = Apply(
            query.get("fieldManager", ""), query.get("force") == "true", bool(query.get("dryRun"))
        )
        given: dict[str, Any] = {
            "patch_type": patch_type,
            "subresource": self.subresource,
            "apply": how,
        }
        return _json(await self.client.patch(*self.place, body, **given))

    async def delete(self) -> web.StreamResponse:
        if not self.name or self.subresource:
            raise refusals.method_not_allowed()
        options = await _body(self.request) if self.request.can_read_body else {}
        options = {**dict(self.request.query), **(options if isinstance(options, dict) else {})}
        preconditions = options.get("preconditions") or {}
        grace = options.get("gracePeriodSeconds")
        before = await self.client.get(*self.place)
        await self.client.delete(
            *self.place,
            uid=preconditions.get("uid", ""),
            resource_version=preconditions.get("resourceVersion", ""),
            grace_period_seconds=None if grace is None else int(grace),
            propagation_policy=options.get("propagationPolicy", ""),
        )
        details = {
            "name": self.name,
            "kind": self.resource.plural,
            "uid": before["metadata"]["uid"],
        }
        return _json({**_SUCCESS, "details": details})


def _selection(request: web.Request) -> dict[str, str]:
    """The parameters of both lists and watches."""
    names = {
        "label_selector": "labelSelector",
        "field_selector": "fieldSelector",
        "resource_version": "resourceVersion",
    }
    return {name: request.query.get(parameter, "") for name, parameter in names.items()}


def _number(request: web.Request, parameter: str) -> int:
    text = request.query.get(parameter, "0")
    if not (text.isascii() and text.isdigit()):
        raise refusals.bad_request(f"{parameter}: a number is wanted, not {text!r}")
    return int(text)


async def _body(request: web.Request) -> Any:
    """JSON, YAML for apply, or kubectl's few protobuf bodies; BadRequestError when it is
    unreadable."""
    data = await request.read()
    try:
        if request.content_type == protobuf.CONTENT_TYPE:
            return protobuf.decode(data)
        return (
            yaml.safe_load(data)
            if request.content_type == PatchType.APPLY
            else msgspec.json.decode(data)
        )
    except (ValueError, yaml.YAMLError) as error:
        raise refusals.bad_request(f"the body cannot be read: {error}") from None


def _json(body: Object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    encoded = msgspec.json.encode(body)
    return web.Response(
        body=encoded, status=status, content_type="application/json", headers=headers
    )


def _refusal(error: KubeError) -> web.Response:
    status = _status(error)
    retry = {} if error.retry_after is None else {"Retry-After": str(int(error.retry_after))}
    return _json(status, status["code"], retry)


def _status(error: KubeError) -> Object:
    code = 500
    reason = "InternalError"
    message = str(error)
    if isinstance(error, StatusError):
        code = error.status
        reason = error.reason
        message = error.message
    elif found := _SERVER_ERROR.fullmatch(message):
        code = int(found[1])
        reason = found[2]
        message = found[3]
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
