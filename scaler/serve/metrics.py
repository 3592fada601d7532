"""The metrics over HTTPS, on a port of their own, for those whose token may get them: GET only, no
request bodies.

    /metrics   Prometheus

Reviews go over a connection of their own, so that they wait for nothing else and nothing waits for
them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from aiohttp import web

from scaler.clock import Clock
from scaler.kube.api import KubeApi
from scaler.kube.confined import only_reviews
from scaler.names import MANAGED_BY
from scaler.report.metrics import CONTENT_TYPE, Metrics
from scaler.serve.access import PATH, Access, BusyError
from scaler.serve.server import Limits, Repeated, Server, text
from scaler.serve.server_certificate import CertificateFiles, OwnCertificate, ServerCertificate
from scaler.settings import Settings

LIMITS = Limits(connections=32, bytes=64 * 2**20, answer=10.0, idle=10.0)
"""Of so many addresses, each waits at most 3.2 s for its turn to be reviewed (serve.access)."""
Connect = Callable[[], AbstractAsyncContextManager[KubeApi]]


def metrics_server(access: Access, metrics: Metrics) -> Server:
    """The server. `access` is asked in its loop."""
    server = Server(LIMITS, metrics.turned_away.labels("metrics").inc)
    rendered = Repeated(metrics.render)

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.can_read_body:
            raise web.HTTPRequestEntityTooLarge(max_size=0, actual_size=1)
        header = request.headers.get("Authorization", "")
        try:
            verdict = await access.verdict(header, request.remote or "")
        except BusyError:
            server.turn_away()
        if verdict.status == 200:
            response = server.large(request, rendered(), CONTENT_TYPE)
        else:
            response = text(f"{verdict.status} {verdict.words}\n", verdict.status)
            if verdict.status == 401:
                response.headers["WWW-Authenticate"] = "Bearer"
        response.force_close()
        return response

    server.app.router.add_get(PATH, answer)
    return server


@asynccontextmanager
async def served_metrics(
    settings: Settings, connect: Connect, metrics: Metrics, certificate: ServerCertificate
) -> AsyncIterator[int]:
    """Serve until the block ends; for the loop that runs it. Raises OSError when the port is
    taken."""
    async with connect() as api:
        server = metrics_server(Access(only_reviews(api).create), metrics)
        port = settings.metrics_port
        async with server.served(settings.http_host, port, lambda: certificate.context) as found:
            yield found


def metrics_certificate(clock: Clock, settings: Settings) -> ServerCertificate:
    """The certificate of the port of the metrics: files that others renew, else one of its own."""
    if settings.metrics_cert_file:
        certificate = Path(settings.metrics_cert_file)
        key = Path(settings.metrics_key_file or certificate)
        return CertificateFiles("metrics", certificate, key)
    suffix = settings.install.removeprefix(MANAGED_BY)
    name = f"{MANAGED_BY}-metrics{suffix}.{settings.lease_namespace}.svc"
    return OwnCertificate("metrics", clock, name)
