"""The faults of a scenario: a KubeApi that fails on demand, and curses on instances.

Requests fail and watches break for a time (`fail`, `cut_watches`): a failed write may or may not
have taken effect, as with a real API server. A curse names what never happens to an instance
(`Never`). Pods are refused here; a stand-in calls `Curses` before any other step that may be
cursed. Must not: change anything by itself."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from pydantic import Field, model_validator

from scaler.clock import loop_time
from scaler.kube.api import PODS, KubeApi, Object, Page, Resource, WatchEvent
from scaler.kube.errors import KubeError, NotSentError, UnknownOutcomeError, status_error
from scaler.sim.actors import objects
from scaler.sim.stories.fields import Model, Name, Seconds
from scaler.sim.stories.instances import instance_of

LOOK_AGAIN = 1.0
"""Seconds until a withheld step is tried again, for a curse that ends."""


class Never(StrEnum):
    """What never happens."""

    BOUND = "bound"  # each is described at `Curse.never`
    HALF_BOUND = "half-bound"
    ENQUEUED = "enqueued"
    MADE = "made"
    CREATED = "created"
    RUNNING = "running"
    READY = "ready"
    ENDING = "ending"


class Curse(Model):
    """What never happens to an instance: a component does not do its part."""

    of: Name = Field(
        description=(
            "`namespace/instance`: the name of a job, or what the names of pods begin with; * is"
            " any text."
        )
    )
    never: Never = Field(
        description=(
            "bound: the scheduler binds none of its pods; half-bound: only the first of them;"
            " enqueued: its PodGroup stays Pending; made: its owner makes no pods; created: the API"
            " server refuses its pods; running: its pods never start; ready: they run and are never"
            " Ready; ending: its terminating pods stay."
        )
    )
    since: Seconds = Field(0.0, alias="from", description="When it begins.")
    until: Seconds | None = Field(None, description="When it ends; default is never.")

    @model_validator(mode="after")
    def _lasts(self) -> Curse:
        if self.until is not None and self.until <= self.since:
            raise ValueError(
                f"it ends (until: {self.until:g} s) before it begins (from: {self.since:g} s)"
            )
        return self

    def holds(self, now: float) -> bool:
        return self.since <= now and (self.until is None or now < self.until)

    def means(self, obj: Object) -> bool:
        """Whether the object, an owner of it, or the instance in its labels and annotations has
        this name."""
        namespace, _, name = self.of.rpartition("/")
        if not fnmatchcase(objects.namespace(obj), namespace or "default"):
            return False
        names = [objects.name(obj), instance_of(obj, {})[0]]
        for owner in obj["metadata"].get("ownerReferences") or []:
            names.append(str(owner.get("name", "")))
        for found in names:
            if fnmatchcase(found, name) or fnmatchcase(found, f"{name}-*"):
                return True
        return False


class Curses:
    """Called with a step and an object: a pod, a PodGroup or a job. `elapsed`: seconds since the
    start."""

    def __init__(
        self, curses: Sequence[Curse] = (), elapsed: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._curses = tuple(curses)
        self._elapsed = elapsed
        self.unmet = list(curses)
        """Curses that matched no object yet: their names may be wrong."""

    def __call__(self, never: Never, obj: Object) -> bool:
        """Whether a curse holds now for the instance that the object belongs to."""
        meant = [curse for curse in self._curses if curse.means(obj)]
        self.unmet = [curse for curse in self.unmet if curse not in meant]
        return any(curse.never is never and curse.holds(self._elapsed()) for curse in meant)


class FaultyApi(KubeApi):
    """Passes all requests to `api`, except for faults and curses.

    `owner`: the view of a controller that makes pods; a pod that is never made does not even reach
    the API server."""

    def __init__(
        self, api: KubeApi, cursed: Curses | None = None, *, owner: bool = False, seed: int = 0
    ) -> None:
        self._api = api
        self._cursed = cursed or Curses()
        self._owner = owner
        self._random = random.Random(seed)  # noqa: S311 - for faults, not for secrets
        self._share = 0.0
        self._failing_until = 0.0
        self._waiting: dict[int, asyncio.Timeout] = {}

    def fail(self, *, share: float, lasting: float) -> None:
        """Fail this share of the requests with 500 for so many seconds."""
        self._share = share
        self._failing_until = loop_time() + lasting

    def cut_watches(self) -> None:
        """Break every watch that waits for an event now."""
        now = loop_time()
        waiting = self._waiting
        self._waiting = {}
        for scope in waiting.values():
            scope.reschedule(now)

    def _fault(self) -> KubeError | None:
        if loop_time() >= self._failing_until or self._random.random() >= self._share:
            return None
        return status_error(500, "InternalError", "injected by the scenario")

    async def _write(self, send: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
        """The fault comes before the request, or after it has taken effect."""
        fault = self._fault()
        late = self._random.random() < 0.5
        if fault and not late:
            raise fault
        answer = await send(*args, **options)
        if fault:
            raise fault
        return answer

    def _read(self) -> None:
        if fault := self._fault():
            raise fault

    async def list(self, *args: Any, **options: Any) -> Page[Any]:
        self._read()
        page: Page[Any] = await self._api.list(*args, **options)
        return page

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Any:
        self._read()
        return await self._api.get(resource, namespace, name)

    async def create(self, resource: Resource, namespace: str | None, body: Any) -> Any:
        return await self._write(self._create, resource, namespace, body)

    async def replace(self, *args: Any, **options: Any) -> Any:
        return await self._write(self._api.replace, *args, **options)

    async def patch(self, *args: Any, **options: Any) -> Any:
        return await self._write(self._api.patch, *args, **options)

    async def delete(self, *args: Any, **options: Any) -> None:
        await self._write(self._api.delete, *args, **options)

    async def watch(self, *args: Any, **options: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        self._read()
        stream = aiter(self._api.watch(*args, **options))
        while True:
            scope = asyncio.timeout(None)
            try:
                async with scope:
                    self._waiting[id(scope)] = scope
                    event = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise UnknownOutcomeError("watch cut by the scenario") from None
            finally:
                self._waiting.pop(id(scope), None)
            yield event

    async def _create(self, resource: Resource, namespace: str | None, body: Any) -> Any:
        metadata = body.get("metadata") or {}
        name = str(metadata.get("name") or metadata.get("generateName") or "")
        pod = {**body, "metadata": {**metadata, "name": name, "namespace": namespace or ""}}
        if resource == PODS and self._owner and self._cursed(Never.MADE, pod):
            raise NotSentError("never made: the scenario's curse")
        if resource == PODS and self._cursed(Never.CREATED, pod):
            words = f'pods "{name}" is forbidden: never created, by the scenario\'s curse'
            raise status_error(403, "Forbidden", words)
        return await self._api.create(resource, namespace, body)
