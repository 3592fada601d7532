"""Who may get the metrics: the API server says whose a token is (TokenReview), and what that user
may do (SubjectAccessReview).

    known token   -> the last verdict, for a while
    unknown token -> waits for a place, is reviewed, and its verdict is kept

Whoever sends wrong tokens costs neither the API server nor anybody else much. Few reviews are under
way, each keeps its place for a while, and an address has one place at most: so another address
waits for its turn only. Without an answer of the API server nobody gets anything."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
import structlog

from scaler.clock import loop_time
from scaler.kube.api import ACCESS_REVIEWS, TOKEN_REVIEWS, Object, Resource
from scaler.kube.errors import KubeError
from scaler.kube.slots import Slots

PATH = "/metrics"
ALLOWED = 60.0
"""Seconds for which a token that may get the metrics is not reviewed again."""
REFUSED = 10.0
"""The same of one that may not: a right that was just given counts soon."""
DEADLINE = 3.0
"""Seconds for both reviews of a token."""
AT_ONCE = 2
PACE = 0.2
"""Seconds for which a review keeps its place at least: ten in a second, of one address five."""
MOST_WAITING = 8
"""Requests of one address that wait for a review."""
MOST_ALLOWED = 64
MOST_REFUSED = 1024
"""Tokens whose verdict is kept."""
READER = "mind-cluster-scaler-metrics-reader"
"""The ClusterRole with the right, in the manifests."""
_TOKEN = re.compile(r"[Bb]earer +([A-Za-z0-9\-._~+/]+=*)")
_log = structlog.get_logger("metrics")

Create = Callable[[Resource, None, Object], Awaitable[Object]]


class BusyError(Exception):
    """Too many requests of this address wait."""


class Verdict(NamedTuple):
    """The HTTP status, and why, for whoever asked."""

    status: int
    words: str


NO_TOKEN = Verdict(401, "send the token of a ServiceAccount: Authorization: Bearer TOKEN")
WRONG_TOKEN = Verdict(401, "the API server does not know this token")
ALLOWED_TO = Verdict(200, "ok")
NO_ANSWER = Verdict(503, "the API server did not say whose this token is, and what it may do")


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _WhoseIt(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)


class _MayIt(msgspec.Struct):
    allowed: bool = False


class Access:
    """Verdicts about those who ask for the metrics. `create` sends a review to the API server; for
    the loop that it belongs to."""

    def __init__(self, create: Create) -> None:
        self._create = create
        self._places = Slots(AT_ONCE, most_of_one=1, patience=DEADLINE + PACE)
        self._waiting = Counter[str]()
        self._allowed = _Verdicts(MOST_ALLOWED, ALLOWED)
        self._refused = _Verdicts(MOST_REFUSED, REFUSED)
        self._problem = ""

    async def verdict(self, header: str, address: str) -> Verdict:
        """About the header `Authorization` of a request from `address`. Raises BusyError."""
        found = _TOKEN.fullmatch(header)
        if found is None:
            return NO_TOKEN
        token = found[1]
        known = self._known(token)
        if known is not None:
            return known
        if self._waiting[address] >= MOST_WAITING:
            raise BusyError
        self._waiting[address] += 1
        try:
            async with self._places.taken(address):
                known = self._known(token)  # another request with it may have come before
                return known or await self._reviewed(token)
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]

    def _known(self, token: str) -> Verdict | None:
        return self._allowed.of(token) or self._refused.of(token)

    async def _reviewed(self, token: str) -> Verdict:
        began = loop_time()
        try:
            async with asyncio.timeout(DEADLINE):
                verdict = await self._review(token)
        except (KubeError, TimeoutError, msgspec.ValidationError) as error:
            self._note(str(error) or "no answer in time")
            verdict = NO_ANSWER
        else:
            self._note("")
            kept = self._allowed if verdict is ALLOWED_TO else self._refused
            kept.keep(token, verdict)
        await asyncio.sleep(began + PACE - loop_time())
        return verdict

    async def _review(self, token: str) -> Verdict:
        whose = await self._ask(TOKEN_REVIEWS, {"token": token}, _WhoseIt)
        user = whose.user
        if not whose.authenticated or not user.username:
            return WRONG_TOKEN
        attributes = {"path": PATH, "verb": "get"}
        spec = {**msgspec.to_builtins(user), "nonResourceAttributes": attributes}
        spec["user"] = spec.pop("username")
        may = await self._ask(ACCESS_REVIEWS, spec, _MayIt)
        if may.allowed:
            return ALLOWED_TO
        return Verdict(403, f"{user.username} may not get {PATH}: bind the ClusterRole {READER}")

    async def _ask(self, kind: Resource, spec: Object, answer: type[Any]) -> Any:
        """The status of a review. Raises KubeError, ValidationError."""
        review = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
        return msgspec.convert((await self._create(kind, None, review)).get("status"), answer)

    def _note(self, problem: str) -> None:
        """A log line when it changes, not at each request."""
        if problem and problem != self._problem:
            _log.warning("tokens cannot be reviewed: nobody gets the metrics", why=problem)
        self._problem = problem


class _Verdicts:
    """The verdicts about `most` tokens, for `seconds`; a new one takes the place of the oldest. No
    token is kept, only its digest."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._kept: dict[bytes, tuple[Verdict, float]] = {}

    def of(self, token: str) -> Verdict | None:
        verdict, until = self._kept.get(_digest(token), (None, 0.0))
        return verdict if loop_time() < until else None

    def keep(self, token: str, verdict: Verdict) -> None:
        digest = _digest(token)
        self._kept.pop(digest, None)
        if len(self._kept) >= self._most:
            del self._kept[next(iter(self._kept))]
        self._kept[digest] = verdict, loop_time() + self._seconds


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
