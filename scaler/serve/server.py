"""What the two servers share: who may be connected and for how long, and what no answer may lack or show.

A connection costs nothing before it has a place: there are so many, shared out by address (serve.shares), and it is
closed before its TLS handshake when there is none. From then on there always is a moment at which it ends, unless it
does what it is there for: handshake, first header, each request, and the pause between two.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NoReturn, cast

import msgspec
import structlog
from aiohttp import web

from scaler.serve.shares import Shares
from scaler.serve.tls import ServerCertificate

MAX_HEADER = 8190
MAX_WAITING = 1024
"""Connections that wait to be accepted: a probe must not be lost among those of a flood, and waits a second at most."""
REFUSALS = 32
"""Connections that are refused before anything else gets a turn."""
OPENING = 3.0
"""Seconds for a TLS handshake, and then for the first header."""
CLOSING = 1.0
"""Seconds for the end of TLS."""
REFUSED = 0.1
"""Seconds for a refusal to get through to somebody who still sends: until then all of it has to be deciphered."""
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Server": "scaler"}
_SILENT = logging.Logger("aiohttp", logging.CRITICAL + 1)
"""aiohttp would log a traceback for every request that is no HTTP."""
_log = structlog.get_logger("serve")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Limits(msgspec.Struct, frozen=True):
    """Of one server."""

    connections: int
    bytes: int
    """Of bodies held at once, those of all connections together."""
    answer: float
    """Seconds from a request's header to its answer."""
    idle: float
    """Seconds from an answer to the next header, and for the answer to be taken."""


class Connection(asyncio.Protocol):
    """One connection that has a place. What it brings goes to aiohttp's protocol; this knows how long it lasts."""

    def __init__(
        self, server: Server, address: str, http: Callable[[], asyncio.Protocol], tls: ssl.SSLContext | None
    ) -> None:
        self.address = address
        self.transport: asyncio.Transport | None = None
        """What aiohttp's protocol talks to; None before the handshake is done."""
        self._server = server
        self._make_http = http
        self._http: asyncio.Protocol | None = None
        self._tls = tls
        self._carrier: asyncio.Transport | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._early: list[bytes] = []
        self._end: asyncio.TimerHandle | None = None
        self._ended = False

    def last(self, seconds: float) -> None:
        """It ends so many seconds from now, unless this is called again."""
        if self._end is not None:
            self._end.cancel()
        if not self._ended:
            self._end = asyncio.get_running_loop().call_later(seconds, self.abort)

    def abort(self) -> None:
        self._ended = True
        if self._carrier is not None:
            self._carrier.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._carrier = cast("asyncio.Transport", transport)
        if self._ended:
            self._carrier.abort()
        elif self._tls is None:
            self._begin(self._carrier)
        else:
            self._carrier.pause_reading()
            self._handshake = asyncio.create_task(self._shake_hands(self._carrier, self._tls))

    async def _shake_hands(self, carrier: asyncio.Transport, tls: ssl.SSLContext) -> None:
        transport = None
        try:
            transport = await asyncio.get_running_loop().start_tls(
                carrier, self, tls, server_side=True, ssl_handshake_timeout=OPENING, ssl_shutdown_timeout=CLOSING
            )
        except (OSError, RuntimeError):  # of TLS, too; or it is closed already
            self.abort()
        if transport is None or self._ended:
            self._server.left(self)
        else:
            self._begin(transport)

    def _begin(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self._server.came(self)
        self.last(OPENING)
        self._http = self._make_http()
        self._http.connection_made(transport)
        for data in self._early:
            self._http.data_received(data)
        self._early.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        if self._end is not None:
            self._end.cancel()
        self._server.left(self)
        if self._http is not None:
            self._http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._http is None:
            self._early.append(data)  # came with the end of the handshake
        else:
            self._http.data_received(data)

    def eof_received(self) -> bool | None:
        return self._http.eof_received() if self._http is not None else None

    def pause_writing(self) -> None:
        if self._http is not None:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        if self._http is not None:
            self._http.resume_writing()


class Server:
    """An application behind a door. `turned_away` is called for every connection and request that had no room."""

    def __init__(
        self, limits: Limits, turned_away: Callable[[], None], headers: Mapping[str, str] | None = None
    ) -> None:
        self.app = web.Application(middlewares=[self._guard], client_max_size=limits.bytes)
        self._limits = limits
        self._turned_away = turned_away
        self._headers = {**_HEADERS, **(headers or {})}
        self._places: Shares[Connection] = Shares(limits.connections, self._evicted)
        self._bodies: Shares[Connection] = Shares(limits.bytes, self._evicted)
        self._connections: dict[asyncio.Transport | None, Connection] = {}
        self._unproven: dict[Connection, None] = {}
        """Those that have brought no whole request yet, oldest first."""

    def lend(self, request: web.Request, size: int) -> None:
        """Room for a body of so many bytes until the answer is ready, or the end of a connection that ends with it.
        Turned away when there is none."""
        connection = self._connections.get(request.transport)
        if connection is None or not self._bodies.take(connection.address, connection, size):
            self.turn_away()

    def turn_away(self) -> NoReturn:
        """Ends the request: API servers come again after a second, as long as their own deadline allows."""
        self._turned_away()
        raise web.HTTPServiceUnavailable(headers={"Retry-After": "1"})

    @asynccontextmanager
    async def served(self, host: str, port: int, certificate: ServerCertificate | None = None) -> AsyncIterator[int]:
        """Serve until the block ends; gives the port (`port` 0 takes a free one). Raises OSError when it is taken.

        With a `certificate` over TLS: before it has one, every connection is closed."""
        runner = web.AppRunner(
            self.app, access_log=None, handle_signals=False, keepalive_timeout=self._limits.idle, shutdown_timeout=1.0,
            max_line_size=MAX_HEADER, max_field_size=MAX_HEADER, lingering_time=0.0, logger=_SILENT,
        )  # fmt: skip
        listeners = await _listeners(host, port)
        await runner.setup()
        http = cast("Callable[[], asyncio.Protocol]", runner.server)
        accepting = [asyncio.create_task(self._accept(each, http, certificate)) for each in listeners]
        try:
            yield int(listeners[0].getsockname()[1])
        finally:
            for task in accepting:
                task.cancel()
            await asyncio.wait(accepting)
            for each in listeners:
                each.close()
            for connection in list(self._unproven):
                connection.abort()
            await runner.cleanup()

    async def _accept(
        self, listener: socket.socket, http: Callable[[], asyncio.Protocol], certificate: ServerCertificate | None
    ) -> None:
        """Let in who has a place."""
        loop = asyncio.get_running_loop()
        tls, refused = None, 0
        while True:
            try:
                accepted, peer = await loop.sock_accept(listener)
            except OSError:  # no more files, or the peer has gone
                await asyncio.sleep(0.1)
                continue
            shown = certificate is None or (tls := certificate.context) is not None
            connection = Connection(self, str(peer[0]), http, tls)
            if shown and self._has_place(connection):
                await loop.connect_accepted_socket(lambda made=connection: made, accepted)  # type: ignore[misc]
                continue
            accepted.close()
            self._turned_away()
            refused += 1
            if refused % REFUSALS == 0:
                await asyncio.sleep(0)

    def _has_place(self, connection: Connection) -> bool:
        """Who has brought no whole request yet gives way to the next from the same address."""
        while not self._places.take(connection.address, connection, 1):
            oldest = next((each for each in self._unproven if each.address == connection.address), None)
            if oldest is None:
                return False
            self.left(oldest)
            self._evicted(oldest)
        self._unproven[connection] = None
        return True

    def came(self, connection: Connection) -> None:
        """Its handshake is done."""
        self._connections[connection.transport] = connection

    def left(self, connection: Connection) -> None:
        """It has ended: what it had is free."""
        self._connections.pop(connection.transport, None)
        self._unproven.pop(connection, None)
        self._places.give_back(connection.address, connection)
        self._bodies.give_back(connection.address, connection)

    def _evicted(self, connection: Connection) -> None:
        self._turned_away()
        connection.abort()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Each answer comes in time, with safe headers and no traceback."""
        connection = self._connections.get(request.transport)
        if connection is not None:
            self._unproven.pop(connection, None)
            connection.last(self._limits.answer + 1.0)
        response = await self._answer(request, handler)
        response.headers.update(self._headers)
        if connection is not None:
            connection.last(self._limits.idle if request.content.is_eof() else REFUSED)
            if response.keep_alive is not False:
                self._bodies.give_back(connection.address, connection)
        return response

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            async with asyncio.timeout(self._limits.answer):
                return await handler(request)
        except TimeoutError:
            self._turned_away()
            response = text("503 not in time\n", 503)
            response.force_close()
        except web.HTTPException as refusal:
            response = text(f"{refusal.status} {refusal.reason}\n", refusal.status)
            if "Retry-After" in refusal.headers:
                response.headers["Retry-After"] = refusal.headers["Retry-After"]
        except Exception:
            _log.exception("request failed", path=request.path)
            response = text("500 internal error\n", 500)
        return response


async def _listeners(host: str, port: int) -> list[socket.socket]:
    """One for each address of `host`."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((each[0], each[4]) for each in found):
            made.append(socket.create_server(address, family=family, backlog=MAX_WAITING))
            made[-1].setblocking(False)
    except OSError:
        for each in made:
            each.close()
        raise
    return made


def text(words: str, status: int = 200) -> web.Response:
    return web.Response(text=words, status=status, content_type="text/plain")
