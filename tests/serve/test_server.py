"""Connections that want too much, through real sockets: what they cost, and that others are
answered meanwhile."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from scaler.serve import server
from scaler.serve.server import Limits, Repeated, Server, text
from scaler.threads import entered_in_thread, loop_in_thread, run_in

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
PATIENCE = 20.0
"""Seconds until something that is due within one must have happened."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Stage:
    """A server of one page, `/`, which answers at once, and `/body`, which takes a body of the
    declared length."""

    def __init__(self, limits: Limits) -> None:
        self.turned_away = 0
        self.server = Server(limits, self._count)
        self.server.app.router.add_get("/", self._page)
        self.server.app.router.add_post("/body", self._body)
        self.port = 0
        self._open: list[asyncio.StreamWriter] = []

    def _count(self) -> None:
        self.turned_away += 1

    async def _page(self, _request: web.Request) -> web.StreamResponse:
        return text("ok\n")

    async def _body(self, request: web.Request) -> web.StreamResponse:
        self.server.lend(request, request.content_length or 0)
        return text(f"{len(await request.read())}\n")

    async def connect(self, address: str = "127.0.0.1", data: bytes = b"") -> Streams:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, local_addr=(address, 0)
        )
        self._open.append(writer)
        writer.write(data)
        return reader, writer

    async def asked(self, address: str = "127.0.0.1", data: bytes = GET) -> bytes:
        return await answer((await self.connect(address, data))[0])

    async def end(self) -> None:
        for writer in self._open:
            writer.transport.abort()


async def answer(reader: asyncio.StreamReader) -> bytes:
    """The first line, or b"" when the connection was closed."""
    async with asyncio.timeout(PATIENCE):
        try:
            return (await reader.readline()).strip()
        except ConnectionError:
            return b""


@asynccontextmanager
async def stage(
    connections: int = 8, size: int = 1000, wait: float = PATIENCE, idle: float = PATIENCE
) -> AsyncIterator[Stage]:
    made = Stage(Limits(connections=connections, bytes=size, answer=wait, idle=idle))
    async with made.server.served("127.0.0.1", 0) as made.port:
        yield made
        await made.end()


OK = b"HTTP/1.1 200 OK"
CLOSED = b""


async def test_connections_that_say_nothing_give_way_to_others_of_their_own_address() -> None:
    async with stage(connections=4) as on:
        silent = [await on.connect() for _ in range(40)]
        assert await on.asked() == OK
        assert on.turned_away >= 36
        assert await answer(silent[0][0]) == CLOSED


async def test_an_address_that_has_fewer_connections_gets_a_place_from_the_one_that_has_most() -> (
    None
):
    async with stage(connections=4) as on:
        flood = [await on.connect(data=GET) for _ in range(4)]
        assert [await answer(reader) for reader, _ in flood] == [OK] * 4
        assert await on.asked("127.0.0.2") == OK
        assert on.turned_away == 1


async def test_a_connection_that_has_asked_stays_whatever_its_address_opens_besides() -> None:
    async with stage(connections=4) as on:
        kept = [await on.connect(data=GET) for _ in range(4)]
        assert [await answer(reader) for reader, _ in kept] == [OK] * 4
        assert await on.asked() == CLOSED
        for reader, writer in kept:
            while not reader.at_eof() and await answer(reader):
                pass  # the rest of the header
            writer.write(GET)
            assert OK in [await answer(reader), await answer(reader), await answer(reader)]


async def test_a_connection_that_is_turned_away_leaves_nothing_for_the_garbage_collector() -> None:
    gc.collect()
    async with stage(connections=4) as on:
        kept = [await on.connect(data=GET) for _ in range(4)]
        assert [await answer(reader) for reader, _ in kept] == [OK] * 4
        gc.disable()
        try:
            assert [await on.asked() for _ in range(9)] == [CLOSED] * 9
            assert sum(isinstance(each, server.Connection) for each in gc.get_objects()) == 4
        finally:
            gc.enable()


@pytest.mark.parametrize(
    "data", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: "], ids=["nothing", "a", "b"]
)
async def test_a_header_that_never_ends_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr(server, "OPENING", 0.2)
    async with stage() as on:
        assert await on.asked(data=data) == CLOSED


async def test_a_body_that_never_ends_is_not_waited_for() -> None:
    async with stage(wait=0.2) as on:
        with capture_logs() as logs:
            words = await on.asked(
                data=b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx"
            )
        assert words == b"HTTP/1.1 503 Service Unavailable"
        assert logs == []


async def test_who_only_keeps_a_connection_open_loses_it_in_the_end() -> None:
    async with stage(idle=0.2) as on:
        reader, _ = await on.connect(data=GET)
        async with asyncio.timeout(PATIENCE):
            assert (await reader.read()).startswith(OK)


async def test_bodies_beyond_the_bytes_that_there_are_are_refused_before_they_are_read() -> None:
    held = b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\nx"
    async with stage(size=1000) as on:
        slow = [await on.connect("127.0.0.2", held % 400) for _ in range(2)]
        async with asyncio.timeout(PATIENCE):
            while await on.asked("127.0.0.2", held % 400) != b"HTTP/1.1 503 Service Unavailable":
                pass
        assert await on.asked("127.0.0.1", held % 1) == OK
        assert (
            await on.asked(
                "127.0.0.1",
                b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 300\r\n\r\n" + b"x" * 300,
            )
            == OK
        )
        gone = [reader for reader, _ in slow if reader.at_eof() or reader.exception()]
        assert len(gone) <= 1


async def test_a_refusal_says_when_to_come_again() -> None:
    async with stage(size=10) as on:
        reader, _ = await on.connect(
            data=b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n"
        )
        async with asyncio.timeout(PATIENCE):
            assert b"Retry-After: 1\r\n" in await reader.readuntil(b"\r\n\r\n")


async def test_who_goes_within_a_body_leaves_nothing_in_the_log() -> None:
    async with stage() as on:
        with capture_logs() as logs:
            for rest in (b"x", b""):
                _, writer = await on.connect(
                    data=b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n" + rest
                )
                await asyncio.sleep(0.2)
                writer.transport.abort()
            assert await on.asked() == OK
            await asyncio.sleep(0.2)
        assert logs == []


async def test_what_is_no_http_is_not_logged() -> None:
    async with stage() as on:
        with capture_logs() as logs:
            assert await on.asked(data=b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n") != OK
        assert logs == []


async def test_a_port_that_is_taken_is_told_to_who_serves_in_a_thread() -> None:
    async with stage() as on:
        again = Server(Limits(8, 8, 1.0, 1.0), lambda: None).served("127.0.0.1", on.port)
        with pytest.raises(OSError, match="ddress already in use"):
            async with entered_in_thread("again", again):
                pass
    assert "again" not in {thread.name for thread in threading.enumerate()}


async def test_a_server_in_a_thread_answers_while_the_main_loop_stands_still() -> None:
    made = Stage(Limits(8, 8, PATIENCE, PATIENCE))
    with loop_in_thread("client") as client:
        async with entered_in_thread("server", made.server.served("127.0.0.1", 0)) as made.port:
            asking = asyncio.create_task(run_in(client, made.asked))
            await asyncio.sleep(0)
            time.sleep(2.0)  # noqa: ASYNC251 - that is what is tried
            answered = [task for task in asyncio.all_tasks(client) if not task.done()]
            assert answered == []
            assert await asking == OK
            await run_in(client, made.end)


async def test_an_answer_that_costs_much_is_made_as_often_as_its_share_of_the_loop_allows() -> None:
    made: list[bytes] = []

    def make() -> bytes:
        time.sleep(0.05)
        made.append(b"%d" % len(made))
        return made[-1]

    repeated = Repeated(make)
    began = time.monotonic()
    for _ in range(100):
        assert repeated() == made[-1]
        await asyncio.sleep(0.001)
    assert len(made) <= 1 + (time.monotonic() - began)
