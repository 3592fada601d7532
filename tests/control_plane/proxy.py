"""A bad network, and bad middlemen, between one client and the API server.

Plain HTTP in front, TLS behind, so that faults may depend on the request: `http://127.0.0.1:{port}`
stands in for the server's address in a kubeconfig. Must not: change what it lets pass."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.kube.raw_server import Answer, reply

_CHUNK = 2**16
_HEAD = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (\S+) HTTP/1\.1\r\n")


def status(code: int, reason: str, **headers: str) -> Answer:
    """A refusal as an API server words it; `headers` as for `reply`."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
    }
    return reply(code, body, **headers)


BAD_GATEWAY = reply(
    502, b"<html><body><h1>502 Bad Gateway</h1></body></html>", content_type="text/html"
)
LOST = "lost"
"""The request gets through; of the answer nothing does, the connection is reset."""
Fault = Answer | str | None
Judge = Callable[[str, str], Fault]
"""(method, path) -> what becomes of this request."""


class Proxy:
    """`judge` decides about each request; the switches hold for everything until they are set
    back."""

    def __init__(self, port: int, authority: Path) -> None:
        self.port = 0
        self.judge: Judge = lambda _method, _path: None
        self.delay = 0.0
        """Seconds before each request is passed on."""
        self.refuse = False
        """New connections are reset at once."""
        self.silent = False
        """Nothing passes in either direction, without a sign of it (a partition)."""
        self._upstream = port
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._connections: dict[_Connection, asyncio.Task[None]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> int:
        """Reset every connection that is open; how many."""
        for connection in self._connections:
            connection.client[1].transport.abort()
        return len(self._connections)

    def freeze(self) -> int:
        """Let every connection that is open go half-open for good: what the server says never
        arrives; how many."""
        for connection in self._connections:
            connection.deaf = True
        return len(self._connections)

    def heal(self) -> None:
        """Let everything pass again. Connections that lost something stay broken, as in life: they
        are reset."""
        self.judge = lambda _method, _path: None
        self.delay = 0.0
        self.refuse = False
        self.silent = False
        self.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuse:
            _drop(writer)
            return
        connection = _Connection(self, (reader, writer))
        task = asyncio.current_task()
        assert task is not None
        self._connections[connection] = task
        with suppress(OSError, asyncio.CancelledError):
            await connection.run(
                await asyncio.open_connection("127.0.0.1", self._upstream, ssl=self._tls)
            )
        del self._connections[connection]
        _drop(writer)

    async def close(self) -> None:
        tasks = list(self._connections.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.1)  # what was aborted is closed by the loop, a few turns later


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Connection:
    """One client's connection and its twin to the server."""

    def __init__(self, proxy: Proxy, client: Stream) -> None:
        self._proxy = proxy
        self.client = client
        self._losing = False
        self.deaf = False

    async def run(self, server: Stream) -> None:
        pumps = [
            asyncio.create_task(pump(server)) for pump in (self._pass_requests, self._pass_answers)
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            _drop(server[1])

    async def _pass_requests(self, server: Stream) -> None:
        while data := await self.client[0].read(_CHUNK):
            if head := _HEAD.match(data):
                fault = self._proxy.judge(head[1].decode(), head[2].decode())
                await asyncio.sleep(self._proxy.delay)
                self._losing = fault == LOST
                if callable(fault):
                    await fault(self.client[1])
                    return
            await self._gate(lambda: self._proxy.silent)
            server[1].write(data)
            await server[1].drain()

    async def _pass_answers(self, server: Stream) -> None:
        while data := await server[0].read(_CHUNK):
            await self._gate(lambda: self._proxy.silent or self.deaf)
            if self._losing:
                return
            self.client[1].write(data)
            await self.client[1].drain()

    async def _gate(self, closed: Callable[[], bool]) -> None:
        # Switches are plain attributes, so that a test reads like one.
        while closed():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def _drop(writer: asyncio.StreamWriter) -> None:
    """Reset the connection; `close` keeps asyncio from a warning."""
    writer.transport.abort()
    writer.close()


@asynccontextmanager
async def proxied(port: int, authority: Path) -> AsyncIterator[Proxy]:
    """A proxy to the API server at `port`, until the block ends."""
    proxy = Proxy(port, authority)
    server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
