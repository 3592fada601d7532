"""Health, readiness, metrics and the last world, over HTTP: GET only, no request bodies, no
secrets.

    /healthz           the main loop runs and decides
    /readyz            caches are synced, or what is missing; a standby is ready. Below `ok`: what
                       takes nothing from anybody but should be seen to (a log that cannot be
                       written)
    /metrics           Prometheus; over loopback only, where the metrics have a port of their own
    /snapshots         the services decided about, one line each
    /snapshots/world   all that the last decision depended on, for `scaler explain --world`
    /snapshots/{namespace}/{rule}/{jobID}
                       the same, if the service is in it: a decision depends on all services

Snapshots contain the services of all tenants: they are served only over loopback, which `kubectl
port-forward` uses. The port of the metrics asks who wants them (serve.metrics). Must not change
anything: a client that reaches the port can only read. An empty rule or jobID is written `-`."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from aiohttp import web

from scaler.decide.world import ServiceKey, World
from scaler.report.metrics import CONTENT_TYPE, Metrics
from scaler.serve.server import Limits, Repeated, Server, text

LIMITS = Limits(connections=256, bytes=64 * 2**20, answer=10.0, idle=10.0)
_LOCAL = "are served over loopback only: use kubectl port-forward"
_Page = Callable[[web.Request], web.Response]


class Health(NamedTuple):
    """What is asked at each probe; each returns sentences about what is wrong."""

    stalled: Callable[[], list[str]]
    missing: Callable[[], list[str]]
    remarks: Callable[[], list[str]] = list


def http_server(
    health: Health,
    metrics: Metrics,
    world: Callable[[], World | None],
    metrics_port: int = 0,
) -> Server:
    """The server. All are called at each request, from its thread, and must not do any I/O. `world`
    returns None before the first decision. `metrics_port`: where the metrics are for others than
    loopback; 0: here."""
    server = Server(LIMITS, metrics.turned_away.labels("http").inc)
    rendered = Repeated(metrics.render)
    encoded = Repeated(lambda: msgspec.json.encode(world()))

    def services(request: web.Request) -> web.Response:
        last = world()
        lines = "".join(f"{service.key}\n" for service in last.services) if last is not None else ""
        return server.large(request, lines.encode(), "text/plain; charset=utf-8")

    def whole(request: web.Request) -> web.Response:
        if world() is None:
            return text("404 nothing was decided yet\n", 404)
        return server.large(request, encoded(), "application/json")

    def of_service(request: web.Request) -> web.Response:
        key = ServiceKey(*("" if part == "-" else part for part in request.match_info.values()))
        last = world()
        if last is None or all(service.key != key for service in last.services):
            return text("404 no such service; /snapshots lists them\n", 404)
        return whole(request)

    pages: dict[str, _Page] = {
        "/healthz": lambda _: _verdict(health.stalled(), 500),
        "/readyz": lambda _: _verdict(health.missing(), 503, health.remarks()),
        "/metrics": lambda request: server.large(request, rendered(), CONTENT_TYPE),
        "/snapshots": services,
        "/snapshots/world": whole,
        "/snapshots/{namespace}/{rule}/{job_id}": of_service,
    }
    local = {path: f"snapshots {_LOCAL}" for path in pages if path.startswith("/snapshots")}
    if metrics_port:
        local["/metrics"] = f"metrics are on port {metrics_port}, over HTTPS; here they {_LOCAL}"
    for path, page in pages.items():
        answer = partial(_answer, page, local=local.get(path, ""))
        server.app.router.add_get(path, answer)
    return server


async def _answer(page: _Page, request: web.Request, *, local: str) -> web.StreamResponse:
    """The page. `local` is what others than loopback get instead; "": it is for everybody."""
    if request.can_read_body:
        raise web.HTTPRequestEntityTooLarge(max_size=0, actual_size=1)
    if local and not _is_local(request):
        return text(f"403 {local}\n", 403)
    response = page(request)
    response.force_close()  # an answer frees its connection; each probe and scrape opens its own
    return response


def _is_local(request: web.Request) -> bool:
    """Whether both addresses are loopback: a proxy in the pod connects from loopback, but to the
    address of the pod."""
    for name in ("peername", "sockname"):
        end = request.get_extra_info(name)
        address = ipaddress.ip_address(str(end[0]).partition("%")[0]) if end is not None else None
        if address is None or not (getattr(address, "ipv4_mapped", None) or address).is_loopback:
            return False
    return True


def _verdict(problems: list[str], status: int, remarks: Sequence[str] = ()) -> web.Response:
    """`status` if there are problems. Remarks are said, and change no status."""
    sentences = [*(problems or ["ok"]), *remarks]
    return text("\n".join(sentences) + "\n", status if problems else 200)
