"""Health, readiness, metrics and the last world, over HTTP: GET only, no request bodies, no
secrets.

    /healthz           the main loop runs and decides
    /readyz            caches are synced, or what is missing; a standby is ready. Below `ok`: what
                       takes nothing from anybody but should be seen to (a log that cannot be
                       written)
    /metrics           Prometheus
    /snapshots         the services decided about, one line each
    /snapshots/world   all that the last decision depended on, for `scaler explain --world`
    /snapshots/{namespace}/{rule}/{jobID}
                       the same, if the service is in it: a decision depends on all services

Snapshots contain the services of all tenants: they are served only over loopback, which `kubectl
port-forward` uses. Must not change anything: a client that reaches the port can only read. An empty
rule or jobID is written `-`."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from aiohttp import web

from scaler.clock import loop_time
from scaler.decide.world import ServiceKey, World
from scaler.report.metrics import CONTENT_TYPE, Metrics
from scaler.serve.server import Limits, Server, text

LIMITS = Limits(connections=256, bytes=64 * 2**20, answer=10.0, idle=10.0)
_SHARE = 0.05
"""The largest part of the loop's time for each of the two costly answers; in between, the last
answer is repeated."""
_Page = Callable[[web.Request], web.Response]


def http_server(
    stalled: Callable[[], list[str]],
    missing: Callable[[], list[str]],
    metrics: Metrics,
    world: Callable[[], World | None],
    remarks: Callable[[], list[str]] = list,
) -> Server:
    """The server. All are called at each request, from its thread, and must not do any I/O.
    `stalled`, `missing` and `remarks` return sentences about what is wrong; `world` returns None
    before the first decision."""
    server = Server(LIMITS, metrics.turned_away.labels("http").inc)
    rendered = _Repeated(metrics.render)
    encoded = _Repeated(lambda: msgspec.json.encode(world()))

    def large(request: web.Request, body: bytes, content_type: str) -> web.Response:
        """An answer that may be large, for a client that may read slowly: its bytes count until the
        connection ends."""
        server.lend(request, min(len(body), LIMITS.bytes))
        return web.Response(body=body, headers={"Content-Type": content_type})

    def services(request: web.Request) -> web.Response:
        last = world()
        lines = "".join(f"{service.key}\n" for service in last.services) if last is not None else ""
        return large(request, lines.encode(), "text/plain; charset=utf-8")

    def whole(request: web.Request) -> web.Response:
        if world() is None:
            return text("404 nothing was decided yet\n", 404)
        return large(request, encoded(), "application/json")

    def of_service(request: web.Request) -> web.Response:
        key = ServiceKey(*("" if part == "-" else part for part in request.match_info.values()))
        last = world()
        if last is None or all(service.key != key for service in last.services):
            return text("404 no such service; /snapshots lists them\n", 404)
        return whole(request)

    pages: dict[str, _Page] = {
        "/healthz": lambda _: _verdict(stalled(), 500),
        "/readyz": lambda _: _verdict(missing(), 503, remarks()),
        "/metrics": lambda request: large(request, rendered(), CONTENT_TYPE),
        "/snapshots": services,
        "/snapshots/world": whole,
        "/snapshots/{namespace}/{rule}/{job_id}": of_service,
    }
    for path, page in pages.items():
        server.app.router.add_get(path, partial(_answer, page, local=path.startswith("/snapshots")))
    return server


async def _answer(page: _Page, request: web.Request, *, local: bool) -> web.StreamResponse:
    if request.can_read_body:
        raise web.HTTPRequestEntityTooLarge(max_size=0, actual_size=1)
    if local and not _is_local(request):
        return text("403 snapshots are served over loopback only: use kubectl port-forward\n", 403)
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


class _Repeated:
    """An answer that is made again only as often as its share of the loop's time allows."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._answer = b""
        self._until = -math.inf

    def __call__(self) -> bytes:
        began = loop_time()
        if began >= self._until:
            self._answer = self._make()
            ended = loop_time()
            self._until = ended + (ended - began) / _SHARE
        return self._answer


def _verdict(problems: list[str], status: int, remarks: Sequence[str] = ()) -> web.Response:
    """`status` if there are problems. Remarks are said, and change no status."""
    sentences = [*(problems or ["ok"]), *remarks]
    return text("\n".join(sentences) + "\n", status if problems else 200)
