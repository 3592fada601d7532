"""The HTTP server of the page, on this machine's loopback only. No request changes a cluster.

GET  /                        the page; /static/... its parts; both hold nothing of a cluster
GET  /api/watch?view=...      tables and their changes, one JSON a line, until the page goes
GET  /api/rule?service=...    the text of a rule
GET  /api/why?service=...     what `scaler why` says of one
GET  /api/past?service=...    what Prometheus knows of one
POST /api/try                 {"service", "rule"}: what would be decided"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from scaler.kube.api import ELASTIC_SERVICES, KubeApi
from scaler.reasons.said import LANGUAGES, Language
from scaler.reasons.words import words_for_page
from scaler.tools.common.view import Cluster
from scaler.tools.ui import views
from scaler.tools.ui.board import Board
from scaler.tools.ui.feed import Feed, Tables
from scaler.tools.ui.guard import add_headers, guard
from scaler.tools.ui.nodes import NodeKinds
from scaler.tools.ui.prometheus import Prometheus
from scaler.tools.ui.tryout import as_rows, try_rule
from scaler.tools.ui.why import why

STATIC = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".css": "text/css",
    ".json": "application/json",
}
PAUSE = 0.05
"""Least seconds between two looks, and between two messages to a page."""
QUIET = 5.0
"""Seconds after which a page gets a sign of life with the server's time."""
MOST_PAGES = 32
MOST_BYTES = 2 * 1024 * 1024
"""Bytes of a request."""


class Try(msgspec.Struct):
    """A rule to try."""

    service: str
    rule: str


class Page:
    """One cluster, for any number of browser windows. `about` is the content of the page's head,
    `extra` the part of it that may change; `only`: services of this namespace."""

    # Wiring: everything that the page shows.
    def __init__(  # noqa: PLR0913
        self,
        cluster: Cluster,
        api: KubeApi,
        about: dict[str, Any],
        *,
        only: str = "",
        extra: Callable[[], dict[str, Any]] = dict,
        prometheus: Prometheus | None = None,
        pause: float = PAUSE,
    ) -> None:
        self.board = Board(cluster, only)
        self._cluster = cluster
        self._api = api
        self._about = about
        self._extra = extra
        self._prometheus = prometheus
        self._turn = asyncio.Event()
        self._pages = 0
        self._pause = pause
        self._node_kinds = NodeKinds(cluster)
        self._told: tuple[int, dict[str, Any]] = (-1, {})
        self._stale_since = 0.0
        """Seconds since the epoch; 0 while all is current."""
        self.complete = False
        """Whether all watched resources have been listed."""

    def application(self, token: str) -> web.Application:
        app = web.Application(middlewares=[guard(token)], client_max_size=MOST_BYTES)
        app.on_response_prepare.append(add_headers)
        for path, file in _files().items():
            app.router.add_get(path, _sender(file.read_bytes(), TYPES[file.suffix]))
        for language in LANGUAGES:
            content = msgspec.json.encode(words_for_page(language))
            app.router.add_get(f"/static/reasons-{language}.json", _sender(content, TYPES[".json"]))
        app.router.add_get("/api/watch", self._watch)
        app.router.add_get("/api/rule", self._rule)
        app.router.add_get("/api/why", self._why)
        app.router.add_get("/api/past", self._past)
        app.router.add_post("/api/try", self._try)
        return app

    # the view

    async def settle(self) -> None:
        """Do the slow first steps before a request waits for them."""
        await self._cluster.settle()
        self._node_kinds.look()

    async def keep_looking(self) -> None:
        """Take over every change, until cancelled."""
        await self._cluster.informers[ELASTIC_SERVICES].synced_or_absent.wait()
        while True:
            version = self._cluster.version
            began = time.perf_counter()
            self.look()
            await asyncio.sleep(max(self._pause, time.perf_counter() - began))
            await self._cluster.changed(version, QUIET)

    def look(self) -> None:
        """Take over the changes, and wake the tasks that send them to pages."""
        self.board.look(decide=self.complete)
        self._note_staleness()
        turn = self._turn
        self._turn = asyncio.Event()
        turn.set()

    def _note_staleness(self) -> None:
        """Note since when something is stale: a time that stays, so that the head is not sent for
        its age alone."""
        stale = self._cluster.stale_for()
        if not stale:
            self._stale_since = 0.0
        elif not self._stale_since:
            self._stale_since = round(self._cluster.clock.server() - stale)

    def _tables(self, view: str, service: str) -> Tables:
        head = {
            **self._about,
            **self._extra(),
            "reading": not self.complete,
            "staleSince": self._stale_since,
            "gaps": views.gaps(self._cluster),
            "alone": self._cluster.why_alone() if self.complete else "",
        }
        tables: dict[str, Any] = {"head": {"": head}}
        if view == "service":
            tables |= views.service(self.board, service)
        elif view == "cluster":
            tables |= self._nodes()
        else:
            tables["services"] = self.board.rows
        return tables

    def _nodes(self) -> Tables:
        if self.complete and self._told[0] != self._cluster.version:
            version = self._cluster.version
            self._told = version, self._node_kinds.look()
        return self._told[1]

    # requests

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        if self._pages >= MOST_PAGES:
            return web.Response(status=503, text="too many windows\n")
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        self._pages += 1
        try:
            with suppress(ConnectionResetError):
                await self._tell(
                    response, request.query.get("view", ""), request.query.get("service", "")
                )
        finally:
            self._pages -= 1
        return response

    async def _tell(self, response: web.StreamResponse, view: str, service: str) -> None:
        feed = Feed()
        silent_since = 0.0
        while True:
            turn = self._turn
            began = time.perf_counter()
            news = feed.news(self._tables(view, service))
            if news or began - silent_since > QUIET - 1:
                silent_since = began
                now = msgspec.json.encode({"now": self._cluster.clock.server()})
                await response.write(news + now + b"\n")
            await asyncio.sleep(max(self._pause, time.perf_counter() - began))
            with suppress(TimeoutError):
                async with asyncio.timeout(QUIET):
                    await turn.wait()

    async def _rule(self, request: web.Request) -> web.Response:
        found = views.rule_text(self.board, request.query.get("service", ""))
        if found is None:
            return _refused(404, "there is no such rule, or ConfigMaps may not be read")
        return web.json_response(found)

    async def _why(self, request: web.Request) -> web.Response:
        view = self.board.view(request.query.get("service", ""))
        if view is None or not self.complete:
            return _refused(404, "there is no such service yet")
        language: Language = "zh" if request.query.get("language") == "zh" else "en"
        return web.json_response(await why(self._cluster, self._api, view, language))

    async def _past(self, request: web.Request) -> web.Response:
        """What Prometheus has of a service: counts before this page was opened."""
        view = self.board.view(request.query.get("service", ""))
        if self._prometheus is None or view is None:
            return web.json_response({"totals": {}, "moments": {}, "problem": ""})
        past = await self._prometheus.past(view.key, self._cluster.clock.server())
        return web.json_response(msgspec.to_builtins(past))

    async def _try(self, request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            return _refused(415, "JSON is expected")
        try:
            asked = msgspec.json.decode(await request.read(), type=Try)
        except msgspec.DecodeError as error:
            return _refused(400, str(error))
        if not self.complete:
            return _refused(503, "the cluster is still being read")
        world, _ = self._cluster.decision()
        try:
            answer = await asyncio.to_thread(try_rule, world, asked.rule, asked.service)
        except LookupError as error:
            return _refused(404, str(error))
        return web.json_response(as_rows(answer))


def _refused(status: int, why: str) -> web.Response:
    return web.json_response({"problem": why}, status=status)


def _files() -> dict[str, Path]:
    """Path of a URL -> file; only these paths are served."""
    parts = {}
    for file in STATIC.rglob("*"):
        if file.suffix in TYPES:
            parts[f"/static/{file.relative_to(STATIC)}"] = file
    return {"/": STATIC / "index.html", **parts}


def _sender(content: bytes, kind: str) -> Callable[[web.Request], Any]:
    async def send(_: web.Request) -> web.Response:
        return web.Response(body=content, content_type=kind, charset="utf-8")

    return send


@asynccontextmanager
async def served(page: Page, token: str, port: int) -> AsyncIterator[str]:
    """The page's address while the context lasts. Port 0 takes a free one; OSError when the port
    cannot be had."""
    runner = web.AppRunner(
        page.application(token), access_log=None, handler_cancellation=True, shutdown_timeout=0.1
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/#token={token}"
    finally:
        await runner.cleanup()


async def keep_up(page: Page, cluster: Cluster) -> None:
    """Read the cluster and update its pages, until cancelled. KubeError without an answer."""
    async with asyncio.TaskGroup() as group:
        looking = group.create_task(page.keep_looking())
        async with cluster.watched():
            await page.settle()
            gc.collect()
            gc.freeze()  # listed objects stay: walking them again would delay every change
            page.complete = True
            page.look()
            await looking
