"""Writes all but the Lease and the webhook's certificate: within the leadership deadline, never
guessing an outcome.

Retries are bounded, and an uncertain outcome is read from the API server, or raised."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from scaler.clock import loop_time
from scaler.kube.api import DeleteOptions, KubeApi, Object, Page, PatchOptions, PatchType, Resource
from scaler.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    NotSentError,
    TooManyRequestsError,
    UnknownOutcomeError,
)
from scaler.kube.slots import Slots

P = ParamSpec("P")
T = TypeVar("T")

TRIES = 5
"""The most times that one write is sent, when the server or the network certainly refused it."""
FIRST_DELAY = 0.1
"""Seconds before the second try, doubled each time, unless the server gives a time."""
JITTER = 1.1
"""Retry-After is multiplied by 1 to this factor, at random: not all callers return at once."""

NAMESPACE_ENDS = "because it is being terminated"
"""In the answer to a creation in a namespace that is being deleted."""
ENDS_FOR = 10.0
"""Seconds for which nothing more is created in such a namespace: each try would be refused. Short,
because a new namespace may have the same name."""
MAX_IN_FLIGHT = 64
MAX_IN_FLIGHT_OF_ONE = 16
"""Requests at the same time: in all, and in one namespace. If all of one namespace hang, the others
continue."""


class NotLeaderError(KubeError):
    """Not sent: this process does not lead, or its leadership ends before an answer could come."""


_Where = tuple[str, Resource, str | None]
"""Verb, resource, namespace."""
OnWrite = Callable[[str, Resource, str], None]
"""Called as (verb, resource, outcome) for each try; the outcome is "ok", "Cancelled" or the name of
the error."""


def never() -> float:
    """The deadline of a writer that needs no leadership."""
    return math.inf


class Writer:
    """Writes of a leader. `deadline()` is the loop time after which no request may be sent; all
    times in seconds.

    After an answer with Retry-After no request is sent until then, however often callers try. This
    holds only for the same verb, resource and namespace, because the answer may be from an
    admission webhook of one namespace."""

    def __init__(
        self,
        api: KubeApi,
        *,
        deadline: Callable[[], float],
        rng: random.Random,
        timeout: float = 10.0,
        max_in_flight: int = MAX_IN_FLIGHT,
        on_write: OnWrite = lambda *_: None,
    ) -> None:
        self._api = api
        self._deadline = deadline
        self._rng = rng
        self._timeout = timeout
        self._slots = Slots(max_in_flight, most_of_one=min(max_in_flight, MAX_IN_FLIGHT_OF_ONE))
        self._on_write = on_write
        self._paused: dict[_Where, tuple[float, str]] = {}
        """Loop time until which no such request is sent, and the text of the answer with
        Retry-After."""
        self._ending: dict[str | None, tuple[float, str]] = {}
        """Namespace that is being deleted -> loop time until which nothing is created in it, and
        the message of the answer that said so."""

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        """POST. May be repeated for an object with a controller: an existing one of that name and
        controller counts as created, even if it is terminating (`metadata.deletionTimestamp`).
        AlreadyExistsError for another controller. ForbiddenError at once, and nothing sent, in a
        namespace that is being deleted."""
        tries = 2
        while True:
            tries -= 1
            self._refuse_if_ending(namespace)
            try:
                return await self._send("create", self._api.create, resource, namespace, body)
            except ForbiddenError as error:
                self._note_if_ending(namespace, error)
                raise
            except (AlreadyExistsError, UnknownOutcomeError) as error:
                try:
                    return await self._existing(resource, namespace, body, error)
                except NotFoundError:
                    if not tries:
                        raise error from None

    def _refuse_if_ending(self, namespace: str | None) -> None:
        until, message = self._ending.get(namespace, (0.0, ""))
        if loop_time() < until:
            raise ForbiddenError(403, "Forbidden", message)

    def _note_if_ending(self, namespace: str | None, error: ForbiddenError) -> None:
        if NAMESPACE_ENDS not in error.message:
            return
        now = loop_time()
        still = {name: found for name, found in self._ending.items() if found[0] > now}
        self._ending = {**still, namespace: (now + ENDS_FOR, error.message)}

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """GET, for a write that depends on the present object."""
        return await self._send("get", self._api.get, resource, namespace, name)

    async def find(self, resource: Resource, namespace: str | None, name: str) -> Page[Object]:
        """LIST of this one name: an empty list also says as of which version there is no such
        object."""
        return await self._send(
            "list", self._api.list, resource, namespace, field_selector=f"metadata.name={name}"
        )

    async def _existing(
        self, resource: Resource, namespace: str | None, body: Object, error: KubeError
    ) -> Object:
        """The existing object with the body's name, if the controller is the same. NotFoundError
        without an object."""
        name = body["metadata"]["name"]
        found = await self.get(resource, namespace, name)
        owner = controller_uid(body)
        if owner and owner == controller_uid(found):
            return found
        if isinstance(error, AlreadyExistsError):
            raise error
        raise AlreadyExistsError(
            409, "AlreadyExists", f'{resource.plural} "{name}" has another controller'
        )

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        patch: Any,
        *,
        patch_type: PatchType,
        **options: Unpack[PatchOptions],
    ) -> Object:
        """PATCH. An unknown outcome is raised: with `metadata.uid` in the patch, a later retry is
        safe."""
        return await self._send(
            "patch",
            self._api.patch,
            resource,
            namespace,
            name,
            patch,
            patch_type=patch_type,
            **options,
        )

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        **options: Unpack[DeleteOptions],
    ) -> None:
        """DELETE. Success also if the object is gone, terminating or (given `uid`) replaced by
        another of its name."""
        uid = options.get("uid", "")
        tries = 2
        while True:
            tries -= 1
            try:
                return await self._send(
                    "delete", self._api.delete, resource, namespace, name, **options
                )
            except NotFoundError:
                return None
            except (ConflictError, UnknownOutcomeError) as error:
                try:
                    found = (await self.get(resource, namespace, name))["metadata"]
                except NotFoundError:
                    return None
                if (uid and found["uid"] != uid) or "deletionTimestamp" in found:
                    return None
                if isinstance(error, ConflictError) or not tries:
                    raise

    async def _send(
        self,
        verb: str,
        call: Callable[Concatenate[Resource, str | None, P], Awaitable[T]],
        resource: Resource,
        namespace: str | None,
        *args: P.args,
        **options: P.kwargs,
    ) -> T:
        """Send one request; repeat it while it certainly had no effect and there is time."""
        loop = asyncio.get_running_loop()
        where = (verb, resource, namespace)
        end = loop.time() + self._timeout
        tries = 0
        while True:
            await self._wait_out_pause(where, end)
            tries += 1
            try:
                return await self._send_once(
                    where, lambda: call(resource, namespace, *args, **options), end
                )
            except KubeError as error:
                delay = 0.0
                if error.retry_after:  # until then no such request is sent
                    now = loop.time()
                    delay = error.retry_after * self._rng.uniform(1.0, JITTER)
                    self._paused = {
                        each: pause for each, pause in self._paused.items() if pause[0] > now
                    }
                    self._paused[where] = now + delay, str(error)
                if not isinstance(error, TooManyRequestsError | NotSentError):
                    raise
                delay = delay or FIRST_DELAY * 2 ** (tries - 1) * self._rng.uniform(0.5, 1.5)
                if tries >= TRIES or loop.time() + delay >= min(end, self._deadline()):
                    raise
                await asyncio.sleep(delay)

    async def _wait_out_pause(self, where: _Where, end: float) -> None:
        """Wait until Retry-After is over; TooManyRequestsError at once when the time is too short
        for that."""
        while where in self._paused:
            until, answer = self._paused[where]
            left = until - loop_time()
            if left < 1e-6:  # rounding may leave a rest that no sleep ends
                break
            if until >= end:
                words = f"not sent: {left:.0f} s are left of the pause after {answer}"
                raise TooManyRequestsError(429, "TooManyRequests", words, retry_after=left)
            await asyncio.sleep(left)

    async def _send_once(self, where: _Where, call: Callable[[], Awaitable[T]], end: float) -> T:
        verb, resource, namespace = where
        outcome = "Cancelled"
        try:
            async with self._slots.taken(namespace or ""):
                # Checked last, right before the request is sent.
                now = loop_time()
                if now >= self._deadline():
                    raise NotLeaderError("leadership has ended, or its renewal is overdue")
                if now >= end:
                    raise NotSentError("too many requests of our own were in flight")
                try:
                    async with asyncio.timeout_at(min(end, self._deadline())):
                        answer = await call()
                except TimeoutError:
                    raise UnknownOutcomeError(
                        f"{verb} {resource.plural}: no answer in time"
                    ) from None
            outcome = "ok"
            return answer
        except KubeError as error:
            outcome = type(error).__name__.removesuffix("Error")
            raise
        finally:
            self._on_write(verb, resource, outcome)


def controller_uid(item: Object) -> str:
    """The uid of the controlling owner; "" if there is none."""
    for owner in item.get("metadata", {}).get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner.get("uid", ""))
    return ""
