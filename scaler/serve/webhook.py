"""The admission webhook over HTTPS, on a port of its own: POST only, four paths, each a pure
function of serve.reviews.

    /mutate/pods          the gate
    /mutate/ascendjobs    the move of the labels
    /validate/rules       a rule ConfigMap, checked by the linter
    /validate/labels      warnings about labels

Every replica serves it, leader or not. Must not change objects or look anything up; answers must be
fast."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from aiohttp import web

from scaler.report.metrics import Metrics
from scaler.serve import reviews
from scaler.serve.server import Limits, Server

LIMITS = Limits(connections=128, bytes=32 * 2**20, answer=5.0, idle=150.0)
"""API servers wait 2 s, for rules 5 s (manifests/admission-webhook). They close idle connections
after 90 s; this server must not close them earlier, or requests are lost. Each keeps 25 of them,
and opens more when all are busy."""
_SHORT = 16 * 2**10
_SIMPLE = 256 * 2**10
"""Bytes of a request that is reviewed at once, within milliseconds. A rule of 1 MiB full of errors
takes seconds. Pods and jobs are reviewed faster, and must not wait behind a rule."""
_LONG = 16
"""Longer requests that wait or are under review, at most half of them from one address."""


def webhook_server(groups_of: reviews.GroupsOf, metrics: Metrics) -> Server:
    server = Server(LIMITS, metrics.turned_away.labels("webhook").inc)
    long_reviews = _LongReviews(server)

    def add(path: str, review: Callable[[reviews.Request], reviews.Response], at_once: int) -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            loop = asyncio.get_running_loop()
            began = loop.time()
            # known before the body is read; API servers always send it
            length = request.content_length
            if length is None:
                raise web.HTTPLengthRequired
            if length > reviews.MAX_BODY:
                raise web.HTTPRequestEntityTooLarge(reviews.MAX_BODY, length)
            server.lend(request, length)
            body = await request.read()
            reviewed = partial(reviews.answer_to, body, review)
            answer = (
                reviewed()
                if len(body) <= at_once
                else await long_reviews.in_turn(reviewed, request.remote or "")
            )
            metrics.webhook_answers.labels(path, answer.outcome).inc()
            metrics.webhook_seconds.observe(loop.time() - began)
            return web.Response(body=reviews.encode(answer), content_type="application/json")

        server.app.router.add_post(path, handle)

    add("/mutate/pods", reviews.review_pod, _SIMPLE)
    add("/mutate/ascendjobs", reviews.review_ascend_job, _SIMPLE)
    add("/validate/rules", reviews.review_rule, _SHORT)
    add("/validate/labels", partial(reviews.review_labels, groups_of=groups_of), _SHORT)
    server.app.on_cleanup.append(long_reviews.end)
    return server


class _LongReviews:
    """Long reviews, one at a time, each in a thread beside the loop."""

    def __init__(self, server: Server) -> None:
        self._thread = ThreadPoolExecutor(1, "long-review")
        self._waiting: list[str] = []
        """The addresses that asked."""
        self._server = server

    async def in_turn(
        self, reviewed: Callable[[], reviews.Response], address: str
    ) -> reviews.Response:
        if len(self._waiting) >= _LONG or self._waiting.count(address) >= _LONG // 2:
            self._server.turn_away()
        self._waiting.append(address)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, reviewed)
        finally:
            self._waiting.remove(address)

    async def end(self, _app: web.Application) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
