"""Access control: only the page that this process served, opened with the token. All other requests
get 403.

The token is in the part of the address after `#`, which browsers never send; the page sends it in a
header, so no other site can make a browser send it (CSRF), and `Host` must be this machine's
loopback (DNS rebinding)."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Middleware

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def new_token() -> str:
    return secrets.token_urlsafe(24)


def guard(token: str) -> Middleware:
    """The middleware of an application whose paths under /api/ all need `token`."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = _refusal(request, token)
        if refusal:
            return web.Response(status=403, text=f"{refusal}\n")
        return await handler(request)

    return guarded


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Add headers to every answer, also to refusals (a signal of the application)."""
    response.headers.update(HEADERS)


def _refusal(request: web.Request, token: str) -> str:
    """Why this request is refused; "" when it is not."""
    host = request.headers.get("Host", "")
    if _without_port(host) not in LOOPBACK:
        return "this page is served to this machine only"
    if request.headers.get("Origin", f"http://{host}") != f"http://{host}":
        return "another site asks"
    if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return "another site asks"
    if request.path.startswith("/api/"):
        given = request.headers.get("Authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, f"Bearer {token}".encode()):
            return "open the address that `scaler ui` printed"
    return ""


def _without_port(host: str) -> str:
    """`[::1]:80` as `[::1]`."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
