"""List, then watch, for ever: keeps a store at what the cluster is.

It never resumes at "now", never reconnects in a tight loop and never ends because the cluster
misbehaves. It goes back behind what it has seen only when the cluster itself did (`_look_back`).
The server ends each watch within `silence` seconds. That it does is a sign that it works, also
where nothing happens; after a watch that does not end everything is listed. Named after the same in
client-go."""

from __future__ import annotations

import asyncio
import math
import random
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, TypeVar

import structlog

from scaler.clock import Slices, loop_time
from scaler.informers.definitions import Definition, definition_changed, read_definition
from scaler.informers.refusals import Refusals
from scaler.informers.store import Name, R, Store
from scaler.kube.api import EventType, KubeApi, Page, Refused, Resource, WatchEvent
from scaler.kube.errors import (
    ExpiredError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    UnknownOutcomeError,
)
from scaler.kube.metadata import version_of
from scaler.kube.wire import in_words

T = TypeVar("T")

SILENCE = 45.0
"""Seconds after which a watch that brings nothing and does not end is given up, and everything is
listed anew. Bookmarks are no help here: they come every 60 s."""
PAGE_SIZE = 500
LIFETIME = (0.65, 0.85)
"""The server ends a watch after a random part of `silence` within these bounds, so that reconnects
do not come in herds."""
LONGEST_LIFETIME = 600.0
"""Seconds, where `silence` is long."""
DEFINITION_SECONDS = (300, 600)
"""The same for a definition that is waited for."""
IN_TIME = 0.95
"""A watch that lived for this part of its lifetime was ended by the server, and not by a fault."""
FIRST_BACKOFF = 0.8
LAST_BACKOFF = 30.0
JITTER = 1.1
"""A pause that the server sets is multiplied by 1 to this factor, as in kube.writer."""
PROGRESS_AFTER = 1.0
"""Seconds: a watch that lived this long and brought something is followed by the next after the
first backoff."""
RESTORED_AFTER = 10.0
"""Seconds for which lists must be older than what was seen, until they are believed: a server that
is behind catches up, a cluster that was restored from a backup does not."""
OUTAGE = 3.0
"""Seconds without an answer in which a cluster may have been restored: etcd and API server are not
back in less."""

_log = structlog.get_logger(__name__)


class History:
    """The number of restores of the cluster from a backup. After a restore the API server gives the
    same resourceVersions to other objects.

    All informers of one cluster share it. When one informer notices a restore, all others list
    again: their versions may have caught up with the cluster, so they would not notice it
    themselves."""

    def __init__(self) -> None:
        self.restores = 0
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def note_restore(self) -> None:
        """An informer is sure that the cluster was restored."""
        self.restores += 1
        for listener in self._listeners:
            listener()


@dataclass(eq=False, repr=False)
class Watched(Generic[T, R]):
    """`store` gets what `record` makes of each object of `resource`; None leaves the object out.

    `decode` is a type with `metadata`. `may_be_forbidden`: the scaler works without the right to
    read it."""

    api: KubeApi
    resource: Resource
    store: Store[R]
    _: KW_ONLY
    record: Callable[[T], R | None]
    decode: type[T]
    rng: random.Random
    label_selector: str = ""
    refusals: Refusals = field(default_factory=lambda: Refusals(lambda _: None, lambda: 0.0))
    may_be_forbidden: bool = False
    silence: float = SILENCE
    history: History = field(default_factory=History)
    counts: Counter[str] = field(default_factory=Counter, init=False)
    """`lists` (of everything of a namespace, the first included), `watches` (that were opened),
    `events` (that brought something new, bookmarks included), `refused` (objects that could not be
    read, each version counted by itself)."""


class Reflector(Generic[T, R]):
    """One scope of what is watched. `settled` is called after each list, and when there is nothing
    to be had."""

    def __init__(
        self, watched: Watched[T, R], scope: str | None, settled: Callable[[], None]
    ) -> None:
        self.problem = "not listed yet"
        self.heard = -math.inf
        self.listed = False
        self.absent = False
        self.installed = True
        self._watched = watched
        self._scope = scope
        self._settled = settled
        self._resource = watched.resource
        self._store = watched.store
        self._where = {"resource": self._resource.full_name, "namespace": scope}
        self._must_list = True
        self._must_check = False
        self._told = -math.inf
        """Loop time of the last list, event or bookmark."""
        self._was_quiet = False
        """The watch sent nothing. The next list shows whether it missed changes."""
        self._older_since = math.inf
        """Loop time at which the cluster was first found older than what had been seen, since the
        last list."""
        self._unanswered_since = math.inf
        """Loop time of the first of the checks in a row that got no answer."""
        self._restores = 0
        """The number of restores that the history had at the last list."""
        self._watch_limit: asyncio.Timeout | None = None
        self._ended_in_time = False
        """The server ended the last watch when its lifetime was over."""
        self._expirations = 0
        self._backoff = FIRST_BACKOFF
        self._progress = False
        self._store.add_scope(scope)
        watched.history.listen(self._list_again)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            self._progress = False
            self._ended_in_time = False
            error: KubeError | None = None
            try:
                if self._must_check and not self._must_list:
                    await self._check()
                if self._must_list or loop.time() - self._told >= self._watched.silence:
                    await self._list()
                await self._watch()
            except KubeError as caught:
                error = caught
            lived = loop.time() - started
            self._note_attempt(error, lived)
            delay = self._delay(error)
            self._set_next_backoff(error)
            if isinstance(error, NotFoundError) and await self._wait_for_definition():
                # it takes a moment until a new kind is served
                self._backoff = FIRST_BACKOFF
                delay = FIRST_BACKOFF
            await asyncio.sleep(delay)

    async def _wait_for_definition(self) -> bool:
        """Wait until something happens to the definition of a resource that is not served; False at
        once when that cannot be waited for."""
        api = self._watched.api
        seconds = self._watched.rng.randint(*DEFINITION_SECONDS)
        read = await read_definition(api, self._resource)
        if read.definition in (Definition.NOT_KNOWN, Definition.SERVED):
            return False
        self._note_unreadable(definition_deleted=read.definition is Definition.MISSING)
        if read.definition is Definition.FORBIDDEN:
            return False
        return await definition_changed(api, self._resource, read.version, seconds)

    async def _check(self) -> None:
        """Find out whether the cluster was restored: called when a watch has ended before its time.

        After a restore an API server accepts a watch from a version that does not exist yet, and
        sends nothing. So its present version is read. After an outage that was long enough for a
        restore, versions may have caught up, and everything is listed."""
        now = asyncio.get_running_loop().time
        try:
            page = await self._page(limit=1)
        except KubeError:
            self._unanswered_since = min(self._unanswered_since, now())
            raise
        outage = now() - self._unanswered_since
        self._unanswered_since = math.inf
        self._note_version(page.resource_version)
        self._must_list = self._is_behind() or outage >= OUTAGE
        self._must_check = False

    def _list_again(self) -> None:
        """List again after a restore of the cluster: the records may be of another history."""
        now = loop_time()
        self._older_since = min(self._older_since, now - RESTORED_AFTER)
        self._must_list = True
        if self._watch_limit is not None:
            self._watch_limit.reschedule(now)

    async def _list(self) -> None:
        """Take in every page of one consistent list, then forget what was not in it.

        The request names no resourceVersion, which means the newest. With a limit, a version would
        mean exactly that one, which may have expired."""
        names = set[Name]()
        known = self._store.versions(self._scope) if self._was_quiet else None
        token = ""
        restores = 0
        slices = Slices()
        while True:
            page = await self._page(PAGE_SIZE, token)
            if not token:
                self._look_back(page.resource_version)
                restores = self._watched.history.restores
            self._compare(page.items, version_of(page.resource_version))
            for item in page.items:
                name = self._take_in(item)
                if name is not None:
                    names.add(name)
                await slices.end()
            for refused in page.refused:
                names.add((refused.namespace, refused.name))
                self._refuse(refused)
            token = page.continue_token
            if not token:
                break
            await asyncio.sleep(0)
        self._store.retain(self._scope, names)
        self._watched.refusals.retain(self._resource, self._scope, names)
        self._store.advance(self._scope, version_of(page.resource_version))
        if known is not None and known != self._store.versions(self._scope):
            _log.warning("a watch said nothing of changes", **self._where)
        self.listed = True
        self._watched.counts["lists"] += 1
        self._note_told()
        self._must_check = False
        self._was_quiet = False
        self._older_since = math.inf
        self._settled()
        self._restores = restores
        self._must_list = restores != self._watched.history.restores

    async def _page(self, limit: int, token: str = "") -> Page[T]:
        return await self._watched.api.list(
            self._resource,
            self._scope,
            label_selector=self._watched.label_selector,
            limit=limit,
            continue_token=token,
            decode=self._watched.decode,
        )

    def _note_version(self, resource_version: str) -> None:
        """Note when the cluster first answered with a version older than what had been seen."""
        older = version_of(resource_version) < self._store.seen(self._scope)
        if older and not self._is_behind():
            self._older_since = loop_time()
            self._backoff = FIRST_BACKOFF

    def _is_behind(self) -> bool:
        """Whether an answer since the last list was older than what had been seen."""
        return self._older_since < math.inf

    def _look_back(self, resource_version: str) -> None:
        """Refuse a list that is older than what was seen: perhaps only this server is behind. When
        lists stay older for `RESTORED_AFTER` seconds, the cluster was restored and the list is
        believed. The first list that is not older after a refused one replaces all that is known,
        too."""
        self._note_version(resource_version)
        if not self._is_behind():
            return
        seen = self._store.seen(self._scope)
        if version_of(resource_version) < seen:
            words = f"a list at version {resource_version} is older than {seen}, seen before"
            if loop_time() - self._older_since < RESTORED_AFTER:
                raise UnknownOutcomeError(words)
            _log.warning("the cluster was restored", **self._where, why=words)
            if self._restores == self._watched.history.restores:
                self._watched.history.note_restore()
        self._store.rewind(self._scope)

    def _compare(self, items: Sequence[Any], listed: int) -> None:
        """Find out whether the cluster was restored and its versions have caught up since: then
        this list, of version `listed`, shows an object in an older version than the store has.

        Two things prove nothing: records from before a restore that is known already, and a record
        newer than `listed`, which comes from an answer to a request of our own."""
        if self._restores != self._watched.history.restores:
            return
        for item in items:
            namespace, name, _ = _identity(item)
            known = self._store.get(namespace, name)
            version = version_of(item.metadata.resource_version)
            if known is not None and 0 < version < version_of(known.resource_version) <= listed:
                words = f"{namespace}/{name} is older than it was, in a list that is not"
                _log.warning("the cluster was restored", **self._where, why=words)
                self._watched.history.note_restore()
                raise UnknownOutcomeError(words)

    def _arrived(self) -> None:
        """Note that the server answered, even if nothing is new."""
        self.problem = ""
        self.absent = False
        self.installed = True
        self.heard = loop_time()
        self._progress = True

    def _note_told(self) -> None:
        """Note that the server said how things are, even if nothing is new."""
        self._arrived()
        self._told = self.heard

    async def _watch(self) -> None:
        """Take in events until the server ends the watch, or is silent."""
        self._watched.counts["watches"] += 1
        self._must_check = True  # unless it lives its whole time and brings something
        seconds = self._lifetime()
        silence = self._watched.silence
        opened = loop_time()
        stream = self._watched.api.watch(
            self._resource,
            self._scope,
            resource_version=str(self._store.seen(self._scope)),
            label_selector=self._watched.label_selector,
            timeout_seconds=seconds,
            decode=self._watched.decode,
        )
        try:
            async with aclosing(stream), asyncio.timeout_at(opened + silence) as limit:
                self._watch_limit = limit
                due = opened + silence
                slices = Slices()
                async for event in stream:
                    self._take(event)
                    await slices.end()
                    # what still brings events is not silent, however late it ends
                    if self.heard > due - silence / 8:
                        due = self.heard + silence / 4
                        limit.reschedule(due)
        except TimeoutError:
            self._must_list = self._was_quiet = True
            if self._is_behind():
                raise UnknownOutcomeError("the watch is open and is of another history") from None
            return
        finally:
            self._watch_limit = None
        self._ended_in_time = loop_time() - opened >= seconds * IN_TIME
        if self._ended_in_time and not self._must_list:
            # A watch that brought nothing proves little: one of a version that does not exist yet,
            # after a restore, ends in time as well.
            self._must_check = self._was_quiet = self._told < opened
            self._arrived()

    def _lifetime(self) -> int:
        """Seconds after which the server has to end the next watch."""
        longest = min(self._watched.silence, LONGEST_LIFETIME)
        return max(1, round(longest * self._watched.rng.uniform(*LIFETIME)))

    def _take(self, event: WatchEvent[T]) -> None:
        """Take in one event. An event older than what was seen is left out: it could bring deleted
        objects back."""
        self._note_told()
        self._was_quiet = False
        version = version_of(event.resource_version)
        if version <= self._store.seen(self._scope):
            return
        self._watched.counts["events"] += 1
        if event.type is EventType.DELETED:
            self._drop(*_identity(event.refused or event.object))
        elif event.refused is not None:
            self._refuse(event.refused)
        elif event.object is not None:
            self._take_in(event.object)
        self._store.advance(self._scope, version)

    def _take_in(self, item: Any) -> Name | None:
        """Keep what is read of the object, and return its name; None for an object that is left
        out. An error concerns this object only, of which the last readable record stays."""
        namespace, name, uid = _identity(item)
        try:
            record = self._watched.record(item)
            if record is None:
                self._drop(namespace, name, uid)
                return None
            self._store.apply(record)
            self._watched.refusals.clear(self._resource, namespace, name)
        except Exception as error:
            refused = Refused(
                in_words(error), namespace, name, uid, labels=getattr(item.metadata, "labels", {})
            )
            self._refuse(refused, traceback.format_exc(-3))
        return (namespace, name)

    def _refuse(self, refused: Refused, traceback: str = "") -> None:
        self._watched.counts["refused"] += 1
        self._watched.refusals.note(self._resource, refused, traceback)

    def _drop(self, namespace: str, name: str, uid: str) -> None:
        self._store.remove(namespace, name, uid)
        self._watched.refusals.clear(self._resource, namespace, name)

    def _note_attempt(self, error: KubeError | None, lived: float) -> None:
        """Note how an attempt has ended after `lived` seconds."""
        if self._progress and lived >= PROGRESS_AFTER:
            self._backoff = FIRST_BACKOFF
            self._expirations = 0
        if error is not None:
            self._note_error(error, lived)
        if isinstance(error, ExpiredError):
            self._must_list = True
            self._expirations += 1

    def _delay(self, error: KubeError | None) -> float:
        """Seconds until the next attempt."""
        backoff = min(self._backoff * self._watched.rng.uniform(1.0, 2.0), LAST_BACKOFF)
        if error is None:
            return 0.0 if self._ended_in_time else backoff
        if self._is_first_expiration(error):
            return 0.0
        return max(backoff, (error.retry_after or 0.0) * self._watched.rng.uniform(1.0, JITTER))

    def _set_next_backoff(self, error: KubeError | None) -> None:
        first = self._is_first_expiration(error)
        self._backoff = FIRST_BACKOFF if first else min(self._backoff * 2, LAST_BACKOFF)

    def _is_first_expiration(self, error: KubeError | None) -> bool:
        """Whether the version has expired for the first time since there was progress."""
        return isinstance(error, ExpiredError) and self._expirations == 1

    def _note_error(self, error: KubeError, lived: float) -> None:
        """Note and log the problem, and whether to list again."""
        where = f" in {self._scope}" if self._scope else ""
        if isinstance(error, ForbiddenError) and self._watched.may_be_forbidden:
            self._note_unreadable(definition_deleted=False)
        if isinstance(error, NotFoundError):
            self._must_list = True
            if self.installed:
                _log.info("not installed", resource=self._resource.full_name)
            self.installed = False
            self.problem = f"{self._resource.full_name} are not installed in the cluster"
            return
        self.problem = (
            f"{'listing' if self._must_list else 'watching'} {self._resource.full_name}{where}:"
            f" {error}"
        )
        _log.warning("watch interrupted", **self._where, after=round(lived, 3), error=str(error))

    def _note_unreadable(self, *, definition_deleted: bool) -> None:
        """The resource cannot be read now. It counts as absent when none of its objects is known.

        When its definition was deleted, its objects went with it. A watch that ends at that moment
        does not show these deletions, so the objects of an optional resource are forgotten here.
        Other known objects stay, and become stale."""
        if definition_deleted and self._watched.may_be_forbidden:
            self._store.retain(self._scope, ())
            self._watched.refusals.retain(self._resource, self._scope, set())
        if next(self._store.values(self._scope), None) is None:
            self.absent = True
            self._settled()


def _identity(item: Any) -> tuple[str, str, str]:
    """Namespace, name and uid of an object that has `metadata` or could not be read."""
    found = item if isinstance(item, Refused) else item.metadata
    return found.namespace, found.name, found.uid
