"""Faults between a client and the simulated API server: delays, lost requests, lost answers,
refusals, cut watches.

`Faults` injects what its rules say, deterministically from a seed."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable, Collection
from enum import StrEnum

import msgspec

from scaler.clock import Clock
from scaler.kube.errors import KubeError, NotSentError, UnknownOutcomeError, status_error
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.apiserver.list_watch import Seen


class Fault(StrEnum):
    """What can go wrong. The value is the name in reports."""

    DELAY = "delay"
    """The request waits `seconds` before its effect."""
    SLOW_ANSWER = "slow answer"
    """The answer waits `seconds` after the effect."""
    NOT_SENT = "not sent"
    LOST_REQUEST = "lost request"
    """No effect, and the client cannot know: UnknownOutcomeError."""
    LOST_ANSWER = "lost answer"
    """Effect, and the client cannot know: UnknownOutcomeError."""
    REFUSED = "refused"
    """The server answers `status` (409, 429, 403, 500, ...) without effect."""
    CUT = "cut"
    """The watch ends properly instead of delivering an event."""
    RESET = "reset"
    """The watch ends with UnknownOutcomeError instead of delivering an event."""
    LAG = "lag"
    """Events arrive `seconds` after they happened."""
    SILENT = "silent"
    """Nothing arrives on the watch until the rule ends, no bookmark either: a connection that is
    half open."""
    CRASH = "crash before the effect"
    CRASH_AFTER = "crash after the effect, before the answer"


WRITES = ("create", "delete", "patch", "replace")
_BEFORE = frozenset({Fault.DELAY, Fault.NOT_SENT, Fault.LOST_REQUEST, Fault.REFUSED, Fault.CRASH})
_AFTER = frozenset({Fault.SLOW_ANSWER, Fault.LOST_ANSWER, Fault.CRASH_AFTER})
_STREAM = frozenset({Fault.CUT, Fault.RESET, Fault.LAG, Fault.SILENT})
_REASONS = {
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
}


class Rule(msgspec.Struct, kw_only=True, frozen=True, repr_omit_defaults=True):
    """Injects `fault` into the requests that match all the given criteria; empty criteria match
    everything.

    `probability` is per request; `skip` requests are spared first; at most `times` are hit (None:
    no bound); `start` and `end` bound the time, in seconds from the origin of `Faults`."""

    fault: Fault
    verbs: Collection[str] = ()
    kinds: Collection[str] = ()
    name: str = ""
    """A regular expression that the whole name must match; on a watch that of the object."""
    namespaces: Collection[str] = ()
    replica: int = -1
    """Into whose requests it is injected; -1: those of every replica."""
    probability: float = 1.0
    skip: int = 0
    times: int | None = None
    start: float = 0.0
    end: float = float("inf")
    seconds: float = 0.0
    status: int = 409
    retry_after: float | None = None


class Faults(Interceptor):
    """Injects what `rules` say, whose times count from `origin`. `counts` tells how often each
    fault was injected; `crash` ends the process that sends the request."""

    def __init__(
        self,
        clock: Clock,
        *rules: Rule,
        seed: int = 0,
        origin: float = 0.0,
        crash: Callable[[], None] = lambda: None,
    ) -> None:
        self.rules = list(rules)
        self.counts: Counter[Fault] = Counter()
        self.impatient: Counter[str] = Counter()
        """Writes (verb and kind) that came again before the Retry-After of their refusal had
        passed."""
        self._not_before: dict[tuple[str, ...], float] = {}
        self._met: Counter[Rule] = Counter()
        """Requests that a rule chose, the spared ones included."""
        self._clock = clock
        self._origin = origin
        self._crash = crash
        self._random = random.Random(f"faults-{seed}")

    async def before(self, request: Request) -> None:
        key = (
            request.verb,
            request.resource.kind,
            request.namespace,
            request.name,
            request.subresource,
        )
        if self._clock.now() < self._not_before.get(key, 0.0):
            self.impatient[f"{request.verb} {request.resource.kind}"] += 1
        try:
            await self._harm(request, _BEFORE)
        except KubeError as error:
            if error.retry_after and request.verb not in ("list", "watch"):
                self._not_before[key] = self._clock.now() + error.retry_after
            raise

    async def after(self, request: Request) -> None:
        await self._harm(request, _AFTER)

    async def deliver(self, request: Request, event: Seen) -> bool:
        return await self._harm(request, _STREAM, event)

    async def _harm(
        self, request: Request, faults: frozenset[Fault], event: Seen | None = None
    ) -> bool:
        """False when a watch ends without a word. Delays of an event count from when it
        happened."""
        name = event.record.object["metadata"]["name"] if event and event.record else request.name
        chosen = self._choose(request, faults, name)
        self.counts.update(rule.fault for rule in chosen)
        for rule in chosen:
            if rule.fault is Fault.CUT:
                return False
            if rule.fault is Fault.SILENT:
                await asyncio.sleep(max(0.0, self._origin + rule.end - self._clock.now()))
                continue
            if rule.fault in (Fault.CRASH, Fault.CRASH_AFTER):
                self._crash()
                continue
            if rule.fault is Fault.NOT_SENT:
                raise NotSentError("injected: no connection")
            if rule.fault is Fault.REFUSED:
                reason = _REASONS.get(rule.status, "Unknown")
                raise status_error(
                    rule.status, reason, "injected refusal", retry_after=rule.retry_after
                )
            if rule.fault not in (Fault.DELAY, Fault.SLOW_ANSWER, Fault.LAG):
                raise UnknownOutcomeError(f"injected: {rule.fault.value}")
            now = self._clock.now()
            await asyncio.sleep(max(0.0, (event.moment if event else now) + rule.seconds - now))
        return True

    def _choose(self, request: Request, faults: frozenset[Fault], name: str) -> list[Rule]:
        """The rules that harm this request; those that spare it count it."""
        chosen = []
        for rule in self.rules:
            if rule.fault in faults and self._meets(rule, request, name):
                self._met[rule] += 1
                if self._met[rule] > rule.skip:
                    chosen.append(rule)
        return chosen

    def _meets(self, rule: Rule, request: Request, name: str) -> bool:
        """The rule is about this request; of those the first `skip` are spared."""
        return (
            (rule.times is None or self._met[rule] < rule.skip + rule.times)
            and rule.start <= self._clock.now() - self._origin < rule.end
            and (not rule.verbs or request.verb in rule.verbs)
            and (not rule.kinds or request.resource.kind in rule.kinds)
            and (not rule.namespaces or request.namespace in rule.namespaces)
            and (not rule.name or re.fullmatch(rule.name, name) is not None)
            and (rule.probability >= 1.0 or self._random.random() < rule.probability)
        )
