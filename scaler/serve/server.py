"""The base of all HTTP servers (webhook; health; metrics): limits of connections, and safe headers
on each answer.

Connections are shared out by client address (`Shares`). A connection beyond the limit is closed
before its TLS handshake, so it costs nearly nothing. An accepted connection is closed when a step
takes too long: handshake, first header, request, pause.

Why this module accepts connections itself, and leaves that to no site of aiohttp (`TCPSite`): where
a site asks for a protocol, the connection is accepted, its address is not known, and its TLS
handshake is certain. A bound there can count connections, and so it closes those of the API server
together with those of a flood. Tried on 28 November 2026 with 128 places, and 300 connections from
one address that never finish a body: a site with such a bound (number, time of the header) answered
0 of 38 requests from another address, this server 30 of 30; with headers that never end 17 of 50,
and 11 of 11. A listening socket whose `accept` refuses (`SockSite`) holds the floods, too, but has
to know how asyncio calls sockets, and a site gives handshakes 60 s and keeps its first certificate.
tests/control_plane/test_floods.py holds what docs/explanation/reliability.md says of floods.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Generic, NoReturn, TypeVar, cast

import msgspec
import structlog
from aiohttp import web

from scaler.clock import loop_time

MAX_HEADER = 8190
MAX_WAITING = 1024
"""Connections in the backlog of the socket: a probe is not lost among those of a flood, and waits a
second at most."""
REFUSALS = 32
"""Connections that are refused in a row before the loop runs other tasks."""
OPENING = 3.0
"""Seconds for the TLS handshake, and then for the first header."""
CLOSING = 1.0
"""Seconds for the TLS shutdown."""
_SHARE = 0.05
"""The largest part of a loop's time for one costly answer; in between, the last answer is
repeated."""
REFUSED = 0.1
"""Seconds for a refusal to reach a client that still sends: until then the server deciphers all
that arrives."""
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Server": "scaler",
    "Content-Security-Policy": "default-src 'none'",
}
_SILENT = logging.Logger("aiohttp", logging.CRITICAL + 1)
"""aiohttp would log a traceback for every request that is no HTTP."""
_log = structlog.get_logger("serve")

H = TypeVar("H")
Contexts = Callable[[], "ssl.SSLContext | None"]
"""Returns the TLS context for the next handshakes, None while there is no certificate."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Limits(msgspec.Struct, frozen=True):
    """The limits of one server."""

    connections: int
    bytes: int
    """Bytes of request bodies and large answers in memory, of all connections together."""
    answer: float
    """Seconds from the header of a request to its answer."""
    idle: float
    """Seconds from an answer to the next header, and for the client to read the answer."""


class FullError(Exception):
    """No unit is free for this address."""


class Shares(Generic[H]):
    """`most` units of something (connections, bytes), shared out by address: one address cannot use
    up all of them.

    When no unit is free, the address that holds most loses its oldest holder, if the new holder's
    address would not hold more than that; otherwise the new holder is refused. So a flood from one
    address costs only that address, however many connections the address opens. `evict` is called
    with the holder that has lost all of its units."""

    def __init__(self, most: int, evict: Callable[[H], None]) -> None:
        self._free = most
        self._evict = evict
        self._held: dict[str, dict[H, int]] = {}

    def take(self, address: str, holder: H | None, units: int) -> None:
        """Give `holder`, which belongs to `address`, `units` more units. Without a holder they are
        only made free. Raises FullError when refused."""
        then = self._units(address) + units
        while units > self._free:
            richest = max(self._held, key=self._units, default=address)
            if richest == address or self._units(richest) < then:
                raise FullError
            loser = next(iter(self._held[richest]))
            self.give_back(richest, loser)
            self._evict(loser)
        if holder is not None:
            held = self._held.setdefault(address, {})
            held[holder] = held.get(holder, 0) + units
            self._free -= units

    def give_back(self, address: str, holder: H) -> None:
        """Free all units of `holder`; a holder without units is no error."""
        held = self._held.get(address, {})
        self._free += held.pop(holder, 0)
        if not held:
            self._held.pop(address, None)

    def _units(self, address: str) -> int:
        return sum(self._held.get(address, {}).values())


class Connection(web.RequestHandler):
    """One accepted connection: the protocol of aiohttp, behind TLS if there is TLS, with a time
    limit."""

    _opening: asyncio.Task[object]

    def __init__(self, server: Server, http: web.Server, address: str, idle: float) -> None:
        super().__init__(
            http,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=idle,
            lingering_time=0.0,
            max_line_size=MAX_HEADER,
            max_field_size=MAX_HEADER,
            logger=_SILENT,
            access_log=_SILENT,
        )
        self.address = address
        self._server = server
        self._end: asyncio.TimerHandle | None = None

    def open(self, accepted: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Make `accepted` the socket of this connection, after the handshake of `tls`."""
        limits = (
            {"ssl_handshake_timeout": OPENING, "ssl_shutdown_timeout": CLOSING}
            if tls is not None
            else {}
        )
        made = asyncio.get_running_loop().connect_accepted_socket(
            lambda: self, accepted, ssl=tls, **limits
        )
        self._opening = asyncio.create_task(made)
        self._opening.add_done_callback(self._opened)

    def _opened(self, opening: asyncio.Task[object]) -> None:
        # on any error there is no connection
        if opening.cancelled() or opening.exception() is not None:
            self._server.left(self)

    def end_in(self, seconds: float) -> None:
        """Close the connection after `seconds`. The next call replaces this time."""
        if self._end is not None:
            self._end.cancel()
        self._end = asyncio.get_running_loop().call_later(seconds, self._abort)

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        else:
            self._opening.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.end_in(OPENING)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._end is not None:
            self._end.cancel()
        self._server.left(self)
        super().connection_lost(exc)


class Server:
    """An aiohttp application with limits. `turned_away` is called for each connection and request
    over a limit."""

    def __init__(self, limits: Limits, turned_away: Callable[[], None]) -> None:
        self.app = web.Application(middlewares=[self._guard], client_max_size=limits.bytes)
        self._limits = limits
        self._turned_away = turned_away
        self._places: Shares[Connection] = Shares(limits.connections, self._evicted)
        self._bodies: Shares[Connection] = Shares(limits.bytes, self._evicted)
        self._unproven: dict[Connection, None] = {}
        """Connections without a complete request so far, oldest first."""

    def lend(self, request: web.Request, size: int) -> None:
        """Reserve `size` bytes for the body of `request`, until the answer is ready, or until the
        end of a connection that closes with its answer. Without free bytes the request is turned
        away."""
        connection = _connection_of(request)
        if connection is None:
            self.turn_away()
        try:
            self._bodies.take(connection.address, connection, size)
        except FullError:
            self.turn_away()

    def large(self, request: web.Request, body: bytes, content_type: str) -> web.Response:
        """An answer that may be large, for a client that may read slowly: its bytes count until the
        connection ends."""
        self.lend(request, min(len(body), self._limits.bytes))
        return web.Response(body=body, headers={"Content-Type": content_type})

    def turn_away(self) -> NoReturn:
        """Answer 503: an API server repeats the request after a second, within its own deadline."""
        self._turned_away()
        raise web.HTTPServiceUnavailable(headers={"Retry-After": "1"})

    @asynccontextmanager
    async def served(self, host: str, port: int, tls: Contexts | None = None) -> AsyncIterator[int]:
        """Serve until the block ends, as HTTPS with `tls`: while that returns no certificate,
        connections are closed. Yields the port (`port` 0 takes a free one). Raises OSError when the
        port is taken."""
        runner = web.AppRunner(self.app, handle_signals=False, shutdown_timeout=1.0)
        listeners = await _listeners(host, port)
        await runner.setup()
        http = cast("web.Server", runner.server)
        accepting = [asyncio.create_task(self._accept(each, http, tls)) for each in listeners]
        try:
            yield int(listeners[0].getsockname()[1])
        finally:
            for task in accepting:
                task.cancel()
            await asyncio.wait(accepting)
            for each in listeners:
                each.close()
            for connection in list(self._unproven):
                connection.end_in(0.0)
            await runner.cleanup()

    async def _accept(
        self, listener: socket.socket, http: web.Server, tls: Contexts | None
    ) -> None:
        refused = 0
        while True:
            try:
                accepted, peer = await asyncio.get_running_loop().sock_accept(listener)
            except OSError:  # too many open files, or the client has closed the connection
                await asyncio.sleep(0.1)
                continue
            context = tls() if tls is not None else None
            address = str(peer[0])
            try:
                if tls is not None and context is None:
                    raise FullError  # there is no certificate yet
                self._make_place(address)
            except FullError:  # no connection is made of it: that would cost too much
                accepted.close()
                self._turned_away()
                refused += 1
                if refused % REFUSALS == 0:
                    await asyncio.sleep(0)
                continue
            connection = Connection(self, http, address, self._limits.idle)
            self._places.take(address, connection, 1)
            self._unproven[connection] = None
            connection.open(accepted, context)
            await asyncio.sleep(0)

    def _make_place(self, address: str) -> None:
        """Make one more place free. A connection without a complete request so far is closed in
        favour of the next one from the same address. Raises FullError."""
        while True:
            try:
                self._places.take(address, None, 1)
            except FullError:
                oldest = self._oldest_unproven(address)
                if oldest is None:
                    raise
                self.left(oldest)
                self._evicted(oldest)
            else:
                return

    def _oldest_unproven(self, address: str) -> Connection | None:
        for connection in self._unproven:
            if connection.address == address:
                return connection
        return None

    def left(self, connection: Connection) -> None:
        """Free what `connection` held: the connection has ended."""
        self._unproven.pop(connection, None)
        self._places.give_back(connection.address, connection)
        self._bodies.give_back(connection.address, connection)

    def _evicted(self, connection: Connection) -> None:
        self._turned_away()
        connection.end_in(0.0)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = _connection_of(request)
        if connection is not None:
            self._unproven.pop(connection, None)
            connection.end_in(self._limits.answer + 1.0)
        response = await self._answer(request, handler)
        response.headers.update(_HEADERS)
        if connection is not None and connection.connected:
            connection.end_in(self._limits.idle if request.content.is_eof() else REFUSED)
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
        except (ConnectionError, web.RequestPayloadError):  # the client did not send the whole body
            response = text("400 incomplete\n", 400)
            response.force_close()
        except Exception:
            _log.exception("request failed", path=request.path)
            response = text("500 internal error\n", 500)
        return response


def _connection_of(request: web.Request) -> Connection | None:
    """The connection of `request`; None when the connection has ended already."""
    connection = request.protocol
    return connection if isinstance(connection, Connection) and connection.connected else None


async def _listeners(host: str, port: int) -> list[socket.socket]:
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    with ExitStack() as opened:
        made = []
        for family, address in dict.fromkeys((each[0], each[4]) for each in found):
            made.append(
                opened.enter_context(
                    socket.create_server(address, family=family, backlog=MAX_WAITING)
                )
            )
            made[-1].setblocking(False)
        opened.pop_all()  # the caller closes the sockets; an error above closes them here
    return made


def text(words: str, status: int = 200) -> web.Response:
    return web.Response(text=words, status=status, content_type="text/plain")


class Repeated:
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
