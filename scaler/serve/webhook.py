"""The admission webhook over HTTPS, on a port of its own: POST only, four paths, each a pure function of serve.reviews.

    /mutate/pods          the gate
    /mutate/ascendjobs    the move of the labels
    /validate/rules       a rule ConfigMap, judged by the linter
    /validate/labels      warnings about labels

Served by every replica, leader or not. Must not change anything, look anything up, or answer later than it can help.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

import structlog
from aiohttp import web

from scaler.serve.labelled import GroupsOf
from scaler.serve.reviews import MAX_BODY, Response, encode, review_ascend_job, review_labels, review_pod, review_rule
from scaler.serve.tls import ServerCertificate

_DEADLINE = 5.0
"""Seconds: API servers wait two (manifests/admission-webhook)."""
_KEEP_ALIVE = 150.0
"""Seconds: an API server closes idle connections after 90, and must be the first, or it writes into a closed one."""
_MAX_HEADERS = 8190
_SHORT, _SIMPLE = 16 * 2**10, 256 * 2**10
"""Bytes of a request that is read at once, within milliseconds: a rule of 1 MiB, wrong all over, takes seconds. Pods
and jobs are read faster, and must not wait behind a rule."""
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Server": "scaler"}
_log = structlog.get_logger("webhook")

Review = Callable[[bytes], Response]
Answering = Callable[[bytes], Awaitable[Response]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _uncounted(_path: str, _outcome: str, _seconds: float) -> None:
    return


class WebhookState(NamedTuple):
    """What the webhook needs of its process. `answered(path, outcome, seconds)` is called for every answer."""

    certificate: ServerCertificate
    groups_of: GroupsOf
    answered: Callable[[str, str, float], None] = _uncounted


@asynccontextmanager
async def serve_webhook(state: WebhookState, host: str, port: int) -> AsyncIterator[int]:
    """Serve until the block ends; gives the port (`port` 0 takes a free one). Raises OSError when it is taken."""
    runner = web.AppRunner(
        application(state), access_log=None, handle_signals=False, keepalive_timeout=_KEEP_ALIVE, shutdown_timeout=1.0,
        max_line_size=_MAX_HEADERS, max_field_size=_MAX_HEADERS,
    )  # fmt: skip
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=state.certificate.context)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def application(state: WebhookState) -> web.Application:
    """The aiohttp application; for `serve_webhook`, and for tests without TLS."""
    app = web.Application(middlewares=[_guard], client_max_size=MAX_BODY)
    aside = ThreadPoolExecutor(1, "long-review")  # one at a time: threads take turns with the decision loop
    app.on_cleanup.append(partial(_end, aside))
    reviews: dict[str, tuple[Review, int]] = {
        "/mutate/pods": (review_pod, _SIMPLE),
        "/mutate/ascendjobs": (review_ascend_job, _SIMPLE),
        "/validate/rules": (review_rule, _SHORT),
        "/validate/labels": (partial(review_labels, groups_of=state.groups_of), _SHORT),
    }
    for path, (review, at_once) in reviews.items():
        app.router.add_post(path, _handler(state, path, _answering(review, at_once, aside)))
    return app


def _answering(review: Review, at_once: int, aside: Executor) -> Answering:
    async def answer(body: bytes) -> Response:
        if len(body) <= at_once:
            return review(body)
        return await asyncio.get_running_loop().run_in_executor(aside, review, body)

    return answer


def _handler(state: WebhookState, path: str, answering: Answering) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = await answering(await request.read())
        state.answered(path, answer.outcome, loop.time() - began)
        return web.Response(body=encode(answer), content_type="application/json")

    return handle


async def _end(aside: Executor, _app: web.Application) -> None:
    aside.shutdown(wait=False, cancel_futures=True)


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Deadline, safe headers, and no traceback on the wire."""
    try:
        async with asyncio.timeout(_DEADLINE):
            response = await handler(request)
    except web.HTTPException as refusal:
        response = web.Response(text=f"{refusal.status} {refusal.reason}\n", status=refusal.status)
    except Exception:
        _log.exception("request failed", path=request.path)
        response = web.Response(text="500 internal error\n", status=500)
    response.headers.update(_HEADERS)
    return response
