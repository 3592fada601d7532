"""Leadership by a Lease: at most one replica may send writes, and a standby takes over fast.

Only the loop's time decides, measured locally: timestamps in the Lease are for people. A leader may send until
`deadline()`, counted from before its last successful renewal was sent. A candidate waits for a whole lease from when
it saw the last change, also when the Lease is missing or was emptied by hand, because its holder may not know yet;
only a holder that let go itself, after its work had ended, is not waited for. Each write has the resourceVersion seen
as its precondition. Nothing but the Lease is written here.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from scaler.clock import Clock
from scaler.kube.api import LEASES, EventType, KubeApi, Object, within
from scaler.kube.errors import ConflictError, KubeError, NotFoundError
from scaler.kube.metadata import version_of
from scaler.names import RELEASED_BY

LONGEST_LEASE = 60.0
"""Seconds: a longer leaseDurationSeconds in a Lease that somebody edited is not believed."""
RELEASE_TIMEOUT = 2.0
JITTER = 1.2
_RENEW_TRIES = 3
_UNSEEN = object()

_log = structlog.get_logger(__name__)


class LeadershipLost(Exception):  # noqa: N818 - nothing is wrong with the code: another leads, or no renewal came through
    """The process has to end: from here on another replica may act."""


class LeaseTiming(msgspec.Struct, frozen=True):
    """Seconds. `duration - renew_deadline` is the room for clocks that drift and for requests that linger."""

    duration: float = 8.0
    renew_deadline: float = 5.0
    retry: float = 1.0


DEFAULT_TIMING = LeaseTiming()
NO_MARKS: Mapping[str, Mapping[str, str]] = {}


class Election:
    """One candidate for the Lease `name`. `identity` must be unique to the life of this process; `marks` are labels
    and annotations that the Lease gets."""

    def __init__(  # noqa: PLR0913 - wiring, done once in app.py
        self, api: KubeApi, clock: Clock, *, namespace: str, name: str, identity: str, rng: random.Random,
        timing: LeaseTiming = DEFAULT_TIMING, marks: Mapping[str, Mapping[str, str]] = NO_MARKS,
    ) -> None:  # fmt: skip
        self.identity = identity
        self._api = api
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._rng = rng
        self._timing = timing
        self._marks = marks
        self._deadline = -math.inf
        self._acquired = ""
        self._transitions = 0
        self._claims: set[tuple[str, str]] = set()
        self._lease: Object | None = None
        self._version = 0
        self._state: Any = _UNSEEN
        self._state_since = math.inf
        self._changed = asyncio.Event()

    def deadline(self) -> float:
        """Loop time after which nothing may be sent; -inf while not leading."""
        return self._deadline

    @property
    def transitions(self) -> int:
        """How often the Lease got another holder, as it says itself."""
        spec = (self._lease or {}).get("spec") or {}
        return int(spec.get("leaseTransitions") or 0)

    @property
    def leading(self) -> bool:
        return _now() < self._deadline

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait until leader, then run `work` until it ends, leadership is lost (LeadershipLost) or this is cancelled.

        However it ends, `work` is cancelled and awaited first; then the Lease is released, unless it is lost. To be
        called once.
        """
        await self._acquire()
        _log.info("leadership gained", identity=self.identity, lease=self._name)
        working = asyncio.ensure_future(work())
        renewing = asyncio.create_task(self._renew_for_ever())
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            finished, lost = working.done(), renewing.done()
            await _end(working)
            await _end(renewing)
            if not lost:
                await self._release()
            self._deadline = -math.inf
        if finished:
            return working.result()
        cause = None if working.cancelled() else working.exception()
        raise LeadershipLost(renewing.result()) from cause

    # Becoming leader

    async def _acquire(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            watcher = tasks.create_task(self._watch())
            while True:
                self._changed.clear()
                wait = self._free_at() - _now()
                if self._state is None:
                    await self._make_vacant()
                elif wait > 0:
                    await self._wait_for_change(wait)
                elif await self._claim():
                    break
                elif self._free_at() <= _now() and len(self._claims) > 1:
                    await asyncio.sleep(self._retry())
            watcher.cancel()

    def _free_at(self) -> float:
        """Loop time from which the Lease may be taken, as far as it has been seen."""
        if self._state is _UNSEEN:
            return math.inf
        spec = _spec(self._lease)
        claimed = self._is_ours(spec) and (_uid(self._lease), spec.get("renewTime")) in self._claims
        if claimed or _is_released(self._lease):
            return self._state_since
        stated = float(spec.get("leaseDurationSeconds") or 0)
        return self._state_since + max(self._timing.duration, min(stated, LONGEST_LEASE))

    async def _make_vacant(self) -> None:
        """Make the missing Lease, held by nobody. That it is missing proves nothing about who led a moment ago, and no
        precondition would tell; so its time runs from here, and it is taken like one that somebody emptied."""
        try:
            lease = await within(self._timing.renew_deadline / 2, self._send(self._body({})))
        except KubeError as error:
            _log.info("lease not made", lease=self._name, error=str(error))
            await self._look()
            await asyncio.sleep(self._retry())
        else:
            self._observe(lease, version_of(lease["metadata"]["resourceVersion"]))

    async def _claim(self) -> bool:
        """Try to take the Lease as it was seen last. An unknown outcome is looked up; if it is ours, claim it again."""
        self._acquired = self._clock.micro_timestamp()
        self._transitions = int(_spec(self._lease).get("leaseTransitions") or 0) + 1
        try:
            await self._write(self._timing.renew_deadline / 2)
        except KubeError as error:
            _log.info("lease not taken", lease=self._name, error=str(error))
            await self._look()
            return False
        return True

    async def _wait_for_change(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds if seconds < math.inf else None):
                await self._changed.wait()

    async def _watch(self) -> None:
        """Observe the Lease until cancelled; where it cannot be watched, look at it now and then."""
        while True:
            try:
                await self._watch_once()
            except KubeError as error:
                _log.info("lease watch interrupted", lease=self._name, error=str(error))
                await self._look()
            await asyncio.sleep(self._retry())

    async def _watch_once(self) -> None:
        selector = f"metadata.name={self._name}"
        listing = self._api.list(LEASES, self._namespace, field_selector=selector)
        page = await within(self._timing.renew_deadline, listing)
        named = [item for item in page.items if item["metadata"]["name"] == self._name]
        self._observe(named[0] if named else None, version_of(page.resource_version))
        stream = self._api.watch(
            LEASES, self._namespace, resource_version=page.resource_version, field_selector=selector
        )
        async for event in stream:
            if event.object is not None and event.object["metadata"]["name"] == self._name:
                lease = None if event.type is EventType.DELETED else event.object
                self._observe(lease, version_of(event.resource_version))

    async def _look(self) -> None:
        """Read the Lease; an answer that stays out changes nothing."""
        try:
            lease = await within(self._timing.renew_deadline / 2, self._api.get(LEASES, self._namespace, self._name))
        except NotFoundError:
            self._observe(None, self._version)
        except KubeError as error:
            _log.info("lease not read", lease=self._name, error=str(error))
        else:
            self._observe(lease, version_of(lease["metadata"]["resourceVersion"]))

    def _observe(self, lease: Object | None, version: int) -> None:
        """Take note of the Lease; what comes from before the last observation is left out."""
        if version < self._version:
            return
        self._version = version
        self._lease = lease
        state = lease and (lease["metadata"].get("uid"), _spec(lease), _is_released(lease))
        if state != self._state:
            self._state = state
            self._state_since = _now()
            self._changed.set()

    # Staying leader

    async def _renew_for_ever(self) -> str:
        """Renew until leadership is lost; returns why. The period runs from request to request, however slow it is."""
        began = _now()
        while True:
            due = min(began + self._retry(), self._deadline)
            await asyncio.sleep(max(due - _now(), 0.0))
            if _now() >= self._deadline:
                return f"no renewal came through within {self._timing.renew_deadline:g} s"
            began = _now()
            try:
                async with asyncio.timeout_at(self._deadline):
                    ours = await self._renew()
            except TimeoutError:
                continue
            if not ours:
                holder = _spec(self._lease).get("holderIdentity") or "nobody"
                return f"the lease is held by {holder}"

    async def _renew(self) -> bool:
        """Renew once; False when the Lease was taken. Failures of other kinds leave the deadline where it is."""
        for _ in range(_RENEW_TRIES):
            try:
                await self._write(min(self._deadline - _now(), self._timing.renew_deadline / 2))
                return True
            except (ConflictError, NotFoundError):
                await self._look()
                if not self._may_continue():
                    return False
            except KubeError as error:
                _log.warning("lease not renewed", lease=self._name, error=str(error))
                return True
        return True

    def _may_continue(self) -> bool:
        """Whether the Lease is still ours, or was deleted or emptied by hand: then candidates wait, and we need not."""
        spec = _spec(self._lease)
        if not spec.get("holderIdentity"):
            return not _is_released(self._lease)
        return self._is_ours(spec) and int(spec.get("leaseTransitions") or 0) == self._transitions

    def _is_ours(self, spec: Object) -> bool:
        return bool(spec.get("holderIdentity") == self.identity)

    async def _release(self) -> None:
        """Let go, so that a standby need not wait. Best effort: without it the lease runs out by itself."""
        self._deadline = -math.inf
        try:
            await within(RELEASE_TIMEOUT, self._let_go())
        except KubeError as error:
            _log.warning("lease not released", lease=self._name, error=str(error))

    async def _let_go(self) -> None:
        released = {"leaseDurationSeconds": 1}
        try:
            await self._send(self._body(self._spec(released), RELEASED_BY))
        except ConflictError:
            await self._look()
            if self._may_continue():
                await self._send(self._body(self._spec(released), RELEASED_BY))

    # The Lease itself

    async def _write(self, seconds: float) -> None:
        """Write the Lease as ours. On success the deadline moves, counted from before the request was sent."""
        started, uid = _now(), _uid(self._lease)
        held = {"holderIdentity": self.identity, "leaseDurationSeconds": math.ceil(self._timing.duration)}
        spec = self._spec(held)
        self._claims.add((uid, spec["renewTime"]))
        lease = await within(seconds, self._send(self._body(spec)))
        self._claims.clear()
        self._observe(lease, version_of(lease["metadata"]["resourceVersion"]))
        if _uid(lease) != uid and not self.leading:
            # PUT makes a Lease that is missing, whatever its preconditions: this proves nothing about who leads.
            raise ConflictError(409, "Conflict", "the lease was deleted meanwhile and made anew")
        self._deadline = started + self._timing.renew_deadline

    def _spec(self, held: Object) -> Object:
        now = self._clock.micro_timestamp()
        return {**held, "acquireTime": self._acquired, "renewTime": now, "leaseTransitions": self._transitions}

    def _body(self, spec: Object, *notes: str) -> Object:
        """`notes`: our annotations, with ourselves as their value."""
        old = self._lease["metadata"] if self._lease is not None else {}
        kept = {k: old[k] for k in ("uid", "resourceVersion") if k in old}
        labels = {**(old.get("labels") or {}), **self._marks.get("labels", {})}
        others = {k: v for k, v in (old.get("annotations") or {}).items() if k != RELEASED_BY}
        annotations = {**others, **self._marks.get("annotations", {}), **dict.fromkeys(notes, self.identity)}
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {
                "name": self._name,
                "namespace": self._namespace,
                **kept,
                "labels": labels,
                "annotations": annotations,
            },
            "spec": spec,
        }

    async def _send(self, body: Object) -> Object:
        if self._lease is None:
            return await self._api.create(LEASES, self._namespace, body)
        return await self._api.replace(LEASES, self._namespace, self._name, body)

    def _retry(self) -> float:
        return self._timing.retry * self._rng.uniform(1.0, JITTER)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _spec(lease: Object | None) -> Object:
    return (lease or {}).get("spec") or {}


def _uid(lease: Object | None) -> str:
    return str((lease or {}).get("metadata", {}).get("uid", ""))


def _is_released(lease: Object | None) -> bool:
    if lease is None or _spec(lease).get("holderIdentity"):
        return False
    return RELEASED_BY in (lease["metadata"].get("annotations") or {})


async def _end(task: asyncio.Future[Any]) -> None:
    """Cancel and wait, whatever it ends with."""
    task.cancel()
    await asyncio.wait({task})
