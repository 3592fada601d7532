"""Health, readiness, metrics and what was decided on last, over HTTP: GET only, no request bodies, nothing secret.

    /healthz                                the loops of this process turn
    /readyz                                 caches are synced, or what is missing; a standby is ready
    /metrics                                Prometheus
    /snapshots                              the services decided about, one line each
    /snapshots/world                        all that the last decision depended on, for `scaler explain --world`
    /snapshots/{namespace}/{rule}/{jobID}   the same for a service that is in it: it depends on all others as well

Snapshots have what every tenant asked for: they are served only over loopback, which `kubectl port-forward` uses.
Must not change anything: whoever reaches the port can only read. An empty rule or jobID is written `-`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import NamedTuple

import msgspec
from aiohttp import web

from scaler.decide.world import ServiceKey, World
from scaler.report.metrics import CONTENT_TYPE, Metrics
from scaler.serve import server
from scaler.serve.health import HealthState
from scaler.serve.server import text

_DEADLINE = 10.0


class ServeState(NamedTuple):
    """What is served; `world` is called at each request and gives None before the first decision."""

    health: HealthState
    metrics: Metrics
    world: Callable[[], World | None]


def serve(state: ServeState, host: str, port: int) -> AbstractAsyncContextManager[int]:
    """As serve.server.served."""
    app = server.application(deadline=_DEADLINE, max_body=1, headers={"Content-Security-Policy": "default-src 'none'"})
    for path, handler in (
        ("/healthz", _healthz),
        ("/readyz", _readyz),
        ("/metrics", _metrics),
        ("/snapshots", _snapshots),
        ("/snapshots/world", _world),
        ("/snapshots/{namespace}/{rule}/{job_id}", _snapshot),
    ):
        app.router.add_get(path, partial(_answer, handler, state, local=path.startswith("/snapshots")))
    return server.served(app, host, port, keep_alive=_DEADLINE)


async def _answer(
    handler: Callable[[ServeState, web.Request], web.Response], state: ServeState, request: web.Request, *, local: bool
) -> web.StreamResponse:
    if request.can_read_body:
        raise web.HTTPRequestEntityTooLarge(max_size=0, actual_size=1)
    if local and not _is_local(request):
        return text("403 snapshots are served over loopback only: use kubectl port-forward\n", 403)
    return handler(state, request)


def _is_local(request: web.Request) -> bool:
    """Both ends: what a proxy beside us passes on comes from loopback, but was sent to the pod's address."""
    ends = (request.get_extra_info(name) for name in ("peername", "sockname"))
    return all(end is not None and _is_loopback(str(end[0])) for end in ends)


def _is_loopback(address: str) -> bool:
    found = ipaddress.ip_address(address.partition("%")[0])
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def _healthz(state: ServeState, _: web.Request) -> web.Response:
    return _verdict(state.health.stalled(), 500)


def _readyz(state: ServeState, _: web.Request) -> web.Response:
    return _verdict(state.health.missing(), 503)


def _verdict(problems: list[str], status: int) -> web.Response:
    return text("\n".join(problems or ["ok"]) + "\n", status if problems else 200)


def _metrics(state: ServeState, _: web.Request) -> web.Response:
    return web.Response(body=state.metrics.render(), headers={"Content-Type": CONTENT_TYPE})


def _snapshots(state: ServeState, _: web.Request) -> web.Response:
    world = state.world()
    return text("".join(f"{service.key}\n" for service in world.services) if world is not None else "")


def _world(state: ServeState, _: web.Request) -> web.Response:
    world = state.world()
    if world is None:
        return text("404 nothing was decided yet\n", 404)
    return web.Response(body=msgspec.json.encode(world), content_type="application/json")


def _snapshot(state: ServeState, request: web.Request) -> web.Response:
    key = ServiceKey(*("" if part == "-" else part for part in request.match_info.values()))
    world = state.world()
    if world is None or all(service.key != key for service in world.services):
        return text("404 no such service; /snapshots lists them\n", 404)
    return _world(state, request)
