"""The admission webhook over HTTPS, on a port of its own: POST only, four paths, each a pure function of serve.reviews.

    /mutate/pods          the gate
    /mutate/ascendjobs    the move of the labels
    /validate/rules       a rule ConfigMap, judged by the linter
    /validate/labels      warnings about labels

Served by every replica, leader or not. Must not change anything, look anything up, or answer later than it can help.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import NamedTuple

from aiohttp import web

from scaler.serve import server
from scaler.serve.labelled import GroupsOf
from scaler.serve.reviews import MAX_BODY, Response, encode, review_ascend_job, review_labels, review_pod, review_rule
from scaler.serve.tls import ServerCertificate

_DEADLINE = 5.0
"""Seconds: API servers wait two (manifests/admission-webhook)."""
_KEEP_ALIVE = 150.0
"""Seconds: an API server closes idle connections after 90, and must be the first, or it writes into a closed one."""
_SHORT, _SIMPLE = 16 * 2**10, 256 * 2**10
"""Bytes of a request that is read at once, within milliseconds: a rule of 1 MiB, wrong all over, takes seconds. Pods
and jobs are read faster, and must not wait behind a rule."""


def _uncounted(_path: str, _outcome: str, _seconds: float) -> None:
    return


class WebhookState(NamedTuple):
    """What the webhook needs of its process. `answered(path, outcome, seconds)` is called for every answer."""

    certificate: ServerCertificate
    groups_of: GroupsOf
    answered: Callable[[str, str, float], None] = _uncounted


def serve_webhook(state: WebhookState, host: str, port: int) -> AbstractAsyncContextManager[int]:
    """As serve.server.served."""
    return server.served(application(state), host, port, keep_alive=_KEEP_ALIVE, tls=state.certificate.context)


def application(state: WebhookState) -> web.Application:
    app = server.application(deadline=_DEADLINE, max_body=MAX_BODY)
    aside = ThreadPoolExecutor(1, "long-review")  # one at a time: threads take turns with the decision loop

    async def end(_app: web.Application) -> None:
        aside.shutdown(wait=False, cancel_futures=True)

    def add(path: str, review: Callable[[bytes], Response], at_once: int) -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            loop = asyncio.get_running_loop()
            began = loop.time()
            body = await request.read()
            answer = review(body) if len(body) <= at_once else await loop.run_in_executor(aside, review, body)
            state.answered(path, answer.outcome, loop.time() - began)
            return web.Response(body=encode(answer), content_type="application/json")

        app.router.add_post(path, handle)

    add("/mutate/pods", review_pod, _SIMPLE)
    add("/mutate/ascendjobs", review_ascend_job, _SIMPLE)
    add("/validate/rules", review_rule, _SHORT)
    add("/validate/labels", partial(review_labels, groups_of=state.groups_of), _SHORT)
    app.on_cleanup.append(end)
    return app
