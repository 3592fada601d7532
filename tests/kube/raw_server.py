"""A server on loopback that says exactly the bytes a test wants, however wrong they are."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec


class Request(msgspec.Struct):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def raw(*chunks: bytes) -> Answer:
    """These bytes, then the connection is closed."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        for chunk in chunks:
            writer.write(chunk)
            await writer.drain()

    return answer


def reply(
    status: int, body: Any, *, content_type: str = "application/json", **headers: str
) -> Answer:
    """A proper HTTP answer; `body` is bytes or what becomes JSON."""
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    head = {
        "Connection": "close",
        "Content-Type": content_type,
        "Content-Length": str(len(data)),
        **headers,
    }
    lines = [
        f"HTTP/1.1 {status} Words",
        *(f"{name.replace('_', '-')}: {value}" for name, value in head.items()),
    ]
    return raw("\r\n".join(lines).encode() + b"\r\n\r\n" + data)


def stream(*chunks: bytes, end: bool = True, hang: bool = False) -> Answer:
    """A watch: chunks of an answer with chunked encoding. Without `end` it is cut, with `hang` it
    falls silent."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding:"
            b" chunked\r\n\r\n"
        )
        for chunk in chunks:
            writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            await writer.drain()
        if hang:
            await asyncio.Event().wait()
        if end:
            writer.write(b"0\r\n\r\n")

    return answer


async def silence(_: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def reset(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


class RawServer:
    """Answers request after request from a script; the last answer is repeated. One connection per
    answer."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[Request] = []
        self.url = ""
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            headers = {}
            for line in filter(None, head[1:]):
                name, value = line.split(": ", 1)
                headers[name.lower()] = value
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            method, path, _ = head[0].split(" ")
            self.requests.append(Request(method, path, headers, body))
            await (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])(writer)
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # a task that is cancelled before its first step closes nothing
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)  # what was aborted is closed by the loop in its next turn


@asynccontextmanager
async def serving(*answers: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    raw_server = RawServer()
    raw_server.answers = list(answers)
    server = await asyncio.start_server(raw_server.accept, "127.0.0.1", 0, ssl=tls)
    raw_server.port = server.sockets[0].getsockname()[1]
    raw_server.url = f"{'https' if tls else 'http'}://127.0.0.1:{raw_server.port}"
    try:
        yield raw_server
    finally:
        # what is being accepted needs its server: turns to see it, to make it, to begin it
        for _ in range(3):
            await asyncio.sleep(0)
        server.close()
        await raw_server.stop()
