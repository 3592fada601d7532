"""Leadership by a Lease: at most one replica may send writes, and a standby takes over fast.

Only the loop's time counts: timestamps in the Lease are for people. A leader may send until
`deadline()`, counted from before its last successful renewal was sent. A candidate waits for a
whole lease duration after the last change that it saw, also if the Lease is missing or was emptied
by hand, because the holder may not know yet; only when a holder released it, with its work ended,
there is no wait. The precondition of each write is the resourceVersion that was seen.

What counts as a change is a renewal: another renewTime or acquireTime. A Lease that people edit in
other ways, or delete again and again, keeps nobody from leading (`_take_unsteady`).

A leader that is out of touch with the resources of its decisions writes that into the Lease when it
renews it. A candidate that has been in touch since then answers, once, also in the Lease; then the
leader releases it. Without an answer the leader stays. A candidate that is out of touch takes no
Lease."""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import structlog

from scaler.clock import Clock, loop_time
from scaler.kube.api import LEASES, EventType, KubeApi, Object, WatchEvent
from scaler.kube.deadline import within
from scaler.kube.errors import ConflictError, KubeError, NotFoundError, UnknownOutcomeError
from scaler.kube.metadata import uid_of, version_of, with_notes
from scaler.names import BLIND_SINCE, RELEASED_BY, SEEN_BY
from scaler.rules.values import at
from scaler.settings import JITTER, Settings

MOST_TRANSITIONS = 2**31 - 1
"""The API server refuses a Lease with more leaseTransitions. Anybody who may edit it may write this
number."""
LONGEST_LEASE = 60.0
"""Seconds: a longer leaseDurationSeconds, edited by hand, is not used."""
RELEASE_TIMEOUT = 2.0
_RENEW_TRIES = 3
_REMEMBERED = 64
"""Own attempts whose events may come late."""
_NOTES = dict.fromkeys((RELEASED_BY, BLIND_SINCE, SEEN_BY))
"""Our annotations; None = removed."""

_log = structlog.get_logger(__name__)


# No error of the code: another replica leads, or no renewal succeeded.
class LeadershipLost(Exception):  # noqa: N818
    """The process has to end: from now on another replica may act."""


@dataclass(eq=False)
class Election:
    """One candidate for the Lease of the settings, whose `identity` must be unique to the life of
    this process. Their `lease_duration - renew_deadline` is the margin for clocks that drift and
    for requests that linger. `marks` are labels and annotations of the Lease. `seen_until` returns
    the time of a monotonic loop up to which all input of decisions is known. `kept` returns
    annotations that every write of the Lease carries from then on; None removes one."""

    clock: Clock
    settings: Settings
    _: KW_ONLY
    rng: random.Random
    marks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    seen_until: Callable[[], float] = lambda: math.inf
    kept: Callable[[], Mapping[str, str | None]] = dict

    def __post_init__(self) -> None:
        self._api: KubeApi
        self._namespace = self.settings.lease_namespace
        self._name = self.settings.lease_name
        self._stale_since = ""
        """When this leader was first out of touch; "" while it is in touch."""
        self._relieved_by: asyncio.Future[str] | None = None
        self._leader_stale = ("", math.inf)
        """Time at which the leader says it lost touch, and the loop time at which this was first
        seen."""
        self._answered = ""
        self._deadline = -math.inf
        self._acquired = ""
        self._transitions = 0
        self._claims: dict[tuple[str, str], float] = {}
        """Writes of this process with an unknown outcome: uid of the Lease and renewTime -> loop
        time until which nobody else can have taken the Lease after it. A name in the Lease proves
        nothing: anybody who may edit the Lease can write it."""
        self._lease: Object | None = None
        self._version = 0
        self._observed_at = -math.inf
        self._doubted = ""
        """resourceVersion of a Lease that came back from a backup."""
        self._state: Any = ()
        """What matters of the Lease as it was seen last; None if it was missing, () until it was
        looked for."""
        self._state_since = math.inf
        self._changed = asyncio.Event()
        self._complete_since = math.inf
        """Loop time since which the watch has shown every version of the Lease."""
        self._watched = 0
        """The version up to which it has."""
        self._renewed_at = -math.inf
        """Loop time at which a renewal by another process was seen last."""
        self._renewed_for = self.settings.lease_duration
        """Seconds for which that renewal holds."""
        self._renewal: tuple[str, str] = ("", "")
        self._own_acquired: deque[str] = deque(maxlen=_REMEMBERED)

    def deadline(self) -> float:
        """Loop time after which no write may be sent; -inf while not leading."""
        return self._deadline

    @property
    def transitions(self) -> int:
        """The number of times that the Lease changed its holder, by its own count."""
        return int(at(self._lease, "spec").get("leaseTransitions") or 0)

    def annotation(self, name: str) -> str:
        """This annotation of the Lease as it was seen last, "" if it has none."""
        return str(at(self._lease, "metadata", "annotations").get(name) or "")

    @property
    def leading(self) -> bool:
        return loop_time() < self._deadline

    async def lead(self, api: KubeApi, work: Callable[[], Awaitable[None]]) -> None:
        """Wait until leader (the Lease is taken and renewed over `api`); run `work` until it ends,
        leadership is lost (LeadershipLost) or this is cancelled. In every case `work` is cancelled
        and awaited first; then the Lease is released, unless it is lost. To be called once."""
        self._api = api
        await self._acquire()
        _log.info("leadership gained", identity=self.settings.identity, lease=self._name)
        relieved = self._relieved_by = asyncio.get_running_loop().create_future()
        working = asyncio.ensure_future(work())
        renewing = asyncio.create_task(self._renew_for_ever())
        try:
            await asyncio.wait({working, renewing, relieved}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            finished = working.done()
            lost = renewing.done()
            for task in (working, renewing):
                task.cancel()
                await asyncio.wait({task})
            if not lost:
                await self._release()
            self._deadline = -math.inf
        if finished:
            return working.result()
        cause = None if working.cancelled() else working.exception()
        raise LeadershipLost(renewing.result() if lost else relieved.result()) from cause

    # Becoming leader

    async def _acquire(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            watcher = tasks.create_task(self._watch())
            while True:
                self._changed.clear()
                await self._answer()
                wait = self._free_at() - loop_time()
                unsteady = self._free_if_unsteady_at() - loop_time()
                is_steady = self._state is not None and wait <= 0
                if unsteady <= 0 and not is_steady and not self._is_stale():
                    if await self._take_unsteady():
                        break
                    await asyncio.sleep(self._retry())
                elif self._state is None:
                    # A missing Lease does not prove that no replica led a moment ago, and no
                    # precondition can. The Lease is created without a holder: its time runs from
                    # here, and then it is taken like one that was emptied by hand.
                    if not await self._attempt(
                        "lease not made", self._send_and_observe(self._body({}, {}))
                    ):
                        await asyncio.sleep(self._retry())
                elif wait > 0:
                    await self._wait_for_change(
                        min(wait, max(unsteady, self.settings.retry_period))
                    )
                elif self._is_stale():
                    await self._wait_for_change(self._retry())
                else:
                    # After an unknown outcome the Lease is read; if this process holds it, it is
                    # written again.
                    self._begin_term()
                    if await self._attempt(
                        "lease not taken", self._write(self.settings.renew_deadline / 2)
                    ):
                        break
                    if self._free_at() <= loop_time() and len(self._claims) > 1:
                        await asyncio.sleep(self._retry())
            watcher.cancel()

    def _begin_term(self) -> None:
        self._acquired = self.clock.micro_timestamp()
        self._own_acquired.append(self._acquired)
        counted = self.transitions
        self._transitions = counted + 1 if counted < MOST_TRANSITIONS else 0

    def _free_if_unsteady_at(self) -> float:
        """Loop time from which a Lease may be taken that does not stay as it is: for a whole lease
        the watch has shown each version, and no renewal. A little later than `_free_at`, which
        needs no watch; inf while the watch is behind an answer."""
        if self._watched < self._version:
            return math.inf
        return self._unrenewed_at() + self.settings.retry_period

    async def _take_unsteady(self) -> bool:
        """Take a Lease that somebody deletes or edits again and again; returns whether this process
        leads.

        Where the Lease was missing no precondition proves that nobody renewed it meanwhile. So it
        is written, and it is ours when the watch has shown this write, and no renewal before it. Of
        two candidates that do the same, the later one sees the write of the other first."""
        self._begin_term()
        started = loop_time()
        patience = self.settings.renew_deadline / 2
        if not await self._attempt("unsteady lease not taken", self._send_held(patience)):
            return False
        written = self._version
        while self._watched < written and loop_time() < started + patience:
            self._changed.clear()
            await self._wait_for_change(started + patience - loop_time())
        if self._watched < written or started < self._unrenewed_at():
            return False
        _log.info("a lease that somebody deletes or edits is taken", lease=self._name)
        self._deadline = started + self.settings.renew_deadline
        return True

    def _unrenewed_at(self) -> float:
        """Loop time at which every renewal by others has run out that the watch may have shown."""
        return max(self._renewed_at, self._complete_since) + self._renewed_for

    def _free_at(self) -> float:
        """Loop time from which the Lease may be taken, as far as it has been seen; inf before
        that."""
        spec = at(self._lease, "spec")
        if self._is_claimed(spec) or _is_released(self._lease):
            return self._state_since
        return self._state_since + self._duration_of(spec)

    def _duration_of(self, spec: Mapping[str, Any]) -> float:
        """Seconds after a renewal for which nobody else may take the Lease."""
        stated = float(spec.get("leaseDurationSeconds") or 0)
        return max(self.settings.lease_duration, min(stated, LONGEST_LEASE))

    def _is_claimed(self, spec: Mapping[str, Any]) -> bool:
        """Whether this is what this process wrote, by a write whose answer was lost."""
        until = self._claims.get((uid_of(self._lease), str(spec.get("renewTime"))), -math.inf)
        return self._is_ours(spec) and loop_time() < until

    async def _attempt(self, failure: str, write: Awaitable[object]) -> bool:
        """Whether the write succeeded. If not, the Lease is read again."""
        try:
            await write
        except KubeError as error:
            _log.info(failure, lease=self._name, error=str(error))
            await self._look()
            return False
        return True

    async def _send_and_observe(self, body: Object) -> None:
        sent_at = loop_time()
        self._observe(
            await within(self.settings.renew_deadline / 2, self._send(body)), sent_at=sent_at
        )

    async def _wait_for_change(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds if seconds < math.inf else None):
                await self._changed.wait()

    async def _watch(self) -> None:
        """Observe the Lease until cancelled; if it cannot be watched, read it from time to time."""
        api = self._api
        where = (LEASES, self._namespace)
        selector = f"metadata.name={self._name}"
        while True:
            try:
                sent_at = loop_time()
                page = await within(
                    self.settings.renew_deadline, api.list(*where, field_selector=selector)
                )
                self._complete_since = loop_time()
                named = [item for item in page.items if item["metadata"]["name"] == self._name]
                self._observe(named[0] if named else None, page.resource_version, sent_at=sent_at)
                self._watched = version_of(page.resource_version)
                lived = math.inf
                while lived >= self.settings.lease_duration:
                    # One that ended at its time is followed by one that begins where it ended.
                    began = loop_time()
                    async for event in api.watch(
                        *where, resource_version=str(self._watched), field_selector=selector
                    ):
                        self._follow(event)
                    lived = loop_time() - began
            except KubeError as error:
                _log.info("lease watch interrupted", lease=self._name, error=str(error))
                await self._look()
            await asyncio.sleep(self._retry())

    def _follow(self, event: WatchEvent[Object]) -> None:
        """Take in one event of the watch."""
        if event.object is not None and event.object["metadata"]["name"] == self._name:
            lease = None if event.type is EventType.DELETED else event.object
            if lease is not None:
                self._note_renewal(lease)
            self._observe(lease, event.resource_version)
        self._watched = max(self._watched, version_of(event.resource_version))
        self._changed.set()

    def _note_renewal(self, lease: Object) -> None:
        """Note whether another process has renewed the Lease. An edit that leaves both times as
        they are is none."""
        spec = at(lease, "spec")
        renewal = (str(spec.get("acquireTime", "")), str(spec.get("renewTime", "")))
        if renewal == self._renewal or not any(renewal):
            return
        self._renewal = renewal
        if not (self._is_ours(spec) and renewal[0] in self._own_acquired):
            self._renewed_at = loop_time()
            self._renewed_for = self._duration_of(spec)

    async def _look(self) -> None:
        """Read the Lease; without an answer nothing changes."""
        sent_at = loop_time()
        try:
            lease = await within(
                self.settings.renew_deadline / 2, self._api.get(LEASES, self._namespace, self._name)
            )
        except NotFoundError:
            self._observe(None, str(self._version))
        except KubeError as error:
            _log.info("lease not read", lease=self._name, error=str(error))
        else:
            self._observe(lease, sent_at=sent_at)

    def _observe(
        self, lease: Object | None, resource_version: str = "", *, sent_at: float = -math.inf
    ) -> None:
        """Note the state of the Lease; a state from before the last observation is ignored.

        Except when its request was sent after that: then the cluster itself was restored from a
        backup. What happened to that Lease meanwhile is unknown, so its time runs from now, also if
        its holder had released it."""
        version = version_of(resource_version or (lease or {})["metadata"]["resourceVersion"])
        went_back = version < self._version
        if went_back and sent_at <= self._observed_at:
            return
        if went_back and lease is not None:
            self._doubted = lease["metadata"]["resourceVersion"]
        if lease is not None and lease["metadata"]["resourceVersion"] == self._doubted:
            lease = with_notes(lease, {RELEASED_BY: None})
        self._version = version
        self._observed_at = loop_time()
        self._lease = lease
        state = None
        if lease is not None:
            self._note_renewal(lease)
            spec = at(lease, "spec")
            times = (spec.get("acquireTime"), spec.get("renewTime"))
            state = (lease["metadata"].get("uid"), *times, _is_released(lease))
        if went_back:
            self._complete_since = loop_time()
        if state != self._state or went_back:
            self._state = state
            self._state_since = loop_time()
            self._changed.set()

    # Staying leader

    async def _renew_for_ever(self) -> str:
        """Renew until leadership is lost; returns why. The period runs from request to request,
        also if one is slow."""
        began = loop_time()
        while True:
            due = min(began + self._retry(), self._deadline)
            await asyncio.sleep(max(due - loop_time(), 0.0))
            if loop_time() >= self._deadline:
                return f"no renewal came through within {self.settings.renew_deadline:g} s"
            began = loop_time()
            try:
                async with asyncio.timeout_at(self._deadline):
                    ours = await self._renew()
            except TimeoutError:
                continue
            if not ours:
                return (
                    "the lease is held by"
                    f" {at(self._lease, 'spec').get('holderIdentity') or 'nobody'}"
                )

    async def _renew(self) -> bool:
        """Renew once; False when another replica has the Lease. After other failures the deadline
        stays. A leader that is out of touch gives way to the candidate that answered."""
        for _ in range(_RENEW_TRIES):
            try:
                await self._write(
                    min(self._deadline - loop_time(), self.settings.renew_deadline / 2)
                )
                return True
            except (ConflictError, NotFoundError):
                await self._look()
                if not self._may_continue():
                    return False
                self._give_way_if_answered()
            except KubeError as error:
                _log.warning("lease not renewed", lease=self._name, error=str(error))
                return True
        return True

    def _give_way_if_answered(self) -> None:
        """End this term when this leader is still out of touch and a candidate is not."""
        seer = at(self._lease, "metadata", "annotations").get(SEEN_BY)
        if not seer or not self._stale_since or not self._is_stale():
            return
        relieved = self._relieved_by
        if relieved is not None and not relieved.done():
            relieved.set_result(f"out of touch since {self._stale_since}; {seer} sees")

    def _may_continue(self) -> bool:
        """Whether this process holds the Lease, or it was deleted or edited by hand: then only
        candidates wait.

        Who takes a Lease writes another acquireTime. Nobody takes one before its holder's deadline,
        unless it was declared free."""
        spec = at(self._lease, "spec")
        if not spec.get("holderIdentity"):
            return not _is_released(self._lease)
        if spec.get("acquireTime") == self._acquired:
            return True
        return self._is_ours(spec) and self.transitions == self._transitions

    def _is_ours(self, spec: Mapping[str, Any]) -> bool:
        return bool(spec.get("holderIdentity") == self.settings.identity)

    async def _release(self) -> None:
        """Release the Lease, so that a standby need not wait. Best effort: else the Lease expires
        by itself."""
        self._deadline = -math.inf
        try:
            await within(RELEASE_TIMEOUT, self._send_released())
        except KubeError as error:
            _log.warning("lease not released", lease=self._name, error=str(error))

    async def _send_released(self) -> None:
        released = {"leaseDurationSeconds": 1}
        try:
            await self._send(
                self._body(self._spec(released), {RELEASED_BY: self.settings.identity})
            )
        except ConflictError:
            await self._look()
            if self._may_continue():
                await self._send(
                    self._body(self._spec(released), {RELEASED_BY: self.settings.identity})
                )

    # Out of touch

    def _is_stale(self) -> bool:
        return loop_time() - self.seen_until() >= self.settings.out_of_touch

    async def _answer(self) -> None:
        """Answer a leader that is out of touch: this candidate has seen everything since the leader
        wrote so. If the write fails, the leader's next renewal brings the next try."""
        said = at(self._lease, "metadata", "annotations").get(BLIND_SINCE, "")
        if said != self._leader_stale[0]:
            self._leader_stale = said, loop_time()
        if (
            not said
            or said == self._answered
            or self.seen_until() <= self._leader_stale[1]
            or self._lease is None
        ):
            return
        answer = with_notes(self._lease, {SEEN_BY: self.settings.identity})
        if await self._attempt("lease not answered", self._send_and_observe(answer)):
            self._answered = said
            _log.info(
                "the leader is out of touch and this replica is not",
                lease=self._name,
                blind_since=said,
            )

    # The Lease itself

    async def _write(self, seconds: float) -> None:
        """Write the Lease with this holder. On success the deadline moves, counted from before the
        request was sent."""
        started = loop_time()
        uid = uid_of(self._lease)
        lease = await self._send_held(seconds)
        if uid_of(lease) != uid and not self.leading:
            # PUT creates a missing Lease in spite of its preconditions, so a success does not prove
            # who leads.
            raise ConflictError(409, "Conflict", "the lease was deleted meanwhile and made anew")
        self._deadline = started + self.settings.renew_deadline

    async def _send_held(self, seconds: float) -> Object:
        """Send the Lease with this holder, and take in the answer."""
        started = loop_time()
        uid = uid_of(self._lease)
        duration = math.ceil(self.settings.lease_duration)
        spec = self._spec(
            {"holderIdentity": self.settings.identity, "leaseDurationSeconds": duration}
        )
        self._stale_since = (
            (self._stale_since or self.clock.timestamp()) if self._is_stale() else ""
        )
        body = self._body(spec, {BLIND_SINCE: self._stale_since or None})
        try:
            lease = await within(seconds, self._send(body))
        except UnknownOutcomeError:
            self._claim(uid, spec["renewTime"], until=started + self.settings.lease_duration)
            raise
        self._claims.clear()
        self._observe(lease, sent_at=started)
        return lease

    def _claim(self, uid: str, renew_time: str, *, until: float) -> None:
        """Remember a write whose outcome is unknown, and forget those that prove nothing more."""
        for claim, end in list(self._claims.items()):
            if end <= loop_time():
                del self._claims[claim]
        self._claims[uid, renew_time] = until

    def _spec(self, held: Object) -> Object:
        now = self.clock.micro_timestamp()
        return {
            **held,
            "acquireTime": self._acquired,
            "renewTime": now,
            "leaseTransitions": self._transitions,
        }

    def _body(self, spec: Object, notes: Mapping[str, str | None]) -> Object:
        """The Lease with this spec and our labels and annotations beside its own; precondition: the
        version seen."""
        old = (self._lease or {}).get("metadata", {})
        kept = {key: old[key] for key in ("uid", "resourceVersion") if key in old}
        marked = {
            part: {**(old.get(part) or {}), **self.marks.get(part, {})}
            for part in ("labels", "annotations")
        }
        metadata = {"name": self._name, "namespace": self._namespace, **kept, **marked}
        return with_notes(LEASES.object(metadata, spec=spec), {**_NOTES, **self.kept(), **notes})

    async def _send(self, body: Object) -> Object:
        if self._lease is None:
            return await self._api.create(LEASES, self._namespace, body)
        return await self._api.replace(LEASES, self._namespace, self._name, body)

    def _retry(self) -> float:
        return self.settings.retry_period * self.rng.uniform(1.0, JITTER)


def _is_released(lease: Object | None) -> bool:
    """Whether its last holder released it after the end of its work."""
    return RELEASED_BY in at(lease, "metadata", "annotations") and not at(lease, "spec").get(
        "holderIdentity"
    )
