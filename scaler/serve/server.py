"""What the two servers of this process share: how they start and end, and what no answer may lack or show."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import structlog
from aiohttp import web

MAX_HEADER = 8190
MAX_WAITING = 128
"""Connections that wait to be accepted."""
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Server": "scaler"}
_log = structlog.get_logger("serve")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(*, deadline: float, max_body: int, headers: Mapping[str, str] | None = None) -> web.Application:
    """Without routes yet; each answer comes within `deadline` seconds, with safe headers and no traceback."""
    safe = {**_HEADERS, **(headers or {})}

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            async with asyncio.timeout(deadline):
                response = await handler(request)
        except web.HTTPException as refusal:
            response = text(f"{refusal.status} {refusal.reason}\n", refusal.status)
        except Exception:
            _log.exception("request failed", path=request.path)
            response = text("500 internal error\n", 500)
        response.headers.update(safe)
        return response

    return web.Application(middlewares=[guard], client_max_size=max_body)


def text(words: str, status: int = 200) -> web.Response:
    return web.Response(text=words, status=status, content_type="text/plain")


@asynccontextmanager
async def served(
    app: web.Application, host: str, port: int, *, keep_alive: float, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve until the block ends; gives the port (`port` 0 takes a free one). Raises OSError when it is taken."""
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, keepalive_timeout=keep_alive, shutdown_timeout=1.0,
        max_line_size=MAX_HEADER, max_field_size=MAX_HEADER,
    )  # fmt: skip
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=MAX_WAITING, ssl_context=tls).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
