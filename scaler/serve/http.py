"""Health, readiness, metrics and what was decided on last, over HTTP: GET only, no request bodies, nothing secret.

    /healthz                                the loops of this process turn
    /readyz                                 caches are synced, or what is missing; a standby is ready
    /metrics                                Prometheus
    /snapshots                              the services decided about, one line each
    /snapshots/world                        all that the last decision depended on, for `scaler explain --world`
    /snapshots/{namespace}/{rule}/{jobID}   the same for a service that is in it: it depends on all others as well

Must not change anything: whoever reaches the port can only read. An empty rule or jobID is written `-`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec
import structlog
from aiohttp import web

from scaler.decide.world import ServiceKey, World
from scaler.report.metrics import CONTENT_TYPE, Metrics
from scaler.serve.health import HealthState

_DEADLINE = 10.0
_MAX_HEADERS = 8190
_MAX_CONNECTIONS = 64
_SAFE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Server": "scaler",
}
_log = structlog.get_logger("serve")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ServeState(NamedTuple):
    """What is served; `world` is called at each request and gives None before the first decision."""

    health: HealthState
    metrics: Metrics
    world: Callable[[], World | None]


@asynccontextmanager
async def serve(state: ServeState, host: str, port: int) -> AsyncIterator[int]:
    """Serve until the block ends; gives the port (`port` 0 takes a free one). Raises OSError when it is taken."""
    runner = web.AppRunner(
        application(state), access_log=None, handle_signals=False, keepalive_timeout=_DEADLINE, shutdown_timeout=1.0,
        max_line_size=_MAX_HEADERS, max_field_size=_MAX_HEADERS,
    )  # fmt: skip
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=_MAX_CONNECTIONS)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def application(state: ServeState) -> web.Application:
    """The aiohttp application; for tests, and for `serve`."""
    app = web.Application(middlewares=[_guard], client_max_size=1)
    for path, handler in (
        ("/healthz", _healthz),
        ("/readyz", _readyz),
        ("/metrics", _metrics),
        ("/snapshots", _snapshots),
        ("/snapshots/world", _world),
        ("/snapshots/{namespace}/{rule}/{job_id}", _snapshot),
    ):
        app.router.add_get(path, _with_state(handler, state))
    return app


def _with_state(handler: Callable[[ServeState, web.Request], web.Response], state: ServeState) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return handler(state, request)

    return handle


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Deadline, no bodies, safe headers, and no traceback on the wire."""
    try:
        if request.can_read_body:
            raise web.HTTPRequestEntityTooLarge(max_size=0, actual_size=1)
        async with asyncio.timeout(_DEADLINE):
            response = await handler(request)
    except web.HTTPException as refusal:
        response = _text(f"{refusal.status} {refusal.reason}\n", refusal.status)
    except Exception:
        _log.exception("request failed", path=request.path)
        response = _text("500 internal error\n", 500)
    response.headers.update(_SAFE_HEADERS)
    return response


def _healthz(state: ServeState, _: web.Request) -> web.Response:
    stalled = state.health.stalled()
    return _text("\n".join(stalled or ["ok"]) + "\n", 500 if stalled else 200)


def _readyz(state: ServeState, _: web.Request) -> web.Response:
    missing = state.health.missing()
    return _text("\n".join(missing or ["ok"]) + "\n", 503 if missing else 200)


def _metrics(state: ServeState, _: web.Request) -> web.Response:
    return web.Response(body=state.metrics.render(), headers={"Content-Type": CONTENT_TYPE})


def _snapshots(state: ServeState, _: web.Request) -> web.Response:
    world = state.world()
    return _text("".join(f"{service.key}\n" for service in world.services) if world is not None else "", 200)


def _world(state: ServeState, _: web.Request) -> web.Response:
    world = state.world()
    if world is None:
        return _text("404 nothing was decided yet\n", 404)
    return web.Response(body=msgspec.json.encode(world), content_type="application/json")


def _snapshot(state: ServeState, request: web.Request) -> web.Response:
    namespace, rule, job_id = (request.match_info[part] for part in ("namespace", "rule", "job_id"))
    key = ServiceKey(namespace, "" if rule == "-" else rule, "" if job_id == "-" else job_id)
    world = state.world()
    if world is None or all(service.key != key for service in world.services):
        return _text("404 no such service; /snapshots lists them\n", 404)
    return _world(state, request)


def _text(text: str, status: int) -> web.Response:
    return web.Response(text=text, status=status, content_type="text/plain")
