"""What is watched of one kind: a reflector for each namespace feeds the store; the informer says how current it is."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Generic, TypeVar

from scaler.informers.reflector import History, Reflector
from scaler.informers.refusals import Refusals
from scaler.informers.store import Name, R, Store
from scaler.kube.api import KubeApi, Refused, Resource

T = TypeVar("T")

SILENCE = 90.0
"""Seconds without a sign of life after which everything is listed anew: bookmarks come every 60 s."""


class Informer(Generic[T, R]):
    """Feeds `store` with what `record` makes of each object of `resource`; None means "leave this one out".

    `decode` is a type with `metadata` (name, namespace, uid), or dict. Every namespace of `namespaces` is listed and
    watched on its own (None: all namespaces at once). `may_be_forbidden`: nothing is missing without the right to it.
    """

    def __init__(  # noqa: PLR0913 - what to watch, where to put it, and two sources of trouble
        self,
        api: KubeApi,
        resource: Resource,
        store: Store[R],
        *,
        record: Callable[[T], R | None],
        decode: type[T],
        namespaces: tuple[str, ...] | None,
        label_selector: str = "",
        rng: random.Random,
        refusals: Refusals | None = None,
        may_be_forbidden: bool = False,
        silence: float = SILENCE,
        history: History | None = None,
    ) -> None:
        self.api = api
        self.resource = resource
        self.store = store
        self.record = record
        self.decode = decode
        self.label_selector = label_selector
        self.rng = rng
        self.refusals = refusals
        self.may_be_forbidden = may_be_forbidden
        self.silence = silence
        self.history = history or History()
        self.refused = 0
        """How many objects could not be read, each version counted by itself."""
        self.synced = asyncio.Event()
        """Set once everything has been listed, for ever after."""
        self.synced_or_absent = asyncio.Event()
        """Set as well when the resource is not to be had (`absent`)."""
        self._reflectors = [Reflector(self, scope) for scope in (namespaces or (None,))]

    @property
    def problem(self) -> str:
        """What keeps the store from being up to date, for readiness and logs; "" when nothing does."""
        return "; ".join(each.problem for each in self._reflectors if each.problem)

    @property
    def lists(self) -> int:
        """How often everything of a namespace had to be listed, the first time included."""
        return sum(each.lists for each in self._reflectors)

    @property
    def watches(self) -> int:
        """How many watches were opened."""
        return sum(each.watches for each in self._reflectors)

    @property
    def events(self) -> int:
        """How many events brought something new, bookmarks included."""
        return sum(each.events for each in self._reflectors)

    @property
    def heard(self) -> float:
        """Loop time of the last list, event, bookmark, or end of a watch at its time; -inf = never. Of several
        namespaces, that of the one longest ago. May be read from other threads."""
        return min(each.heard for each in self._reflectors)

    @property
    def absent(self) -> bool:
        """It is not installed, or not allowed where that may be, and nothing of it is known: nobody misses it."""
        return all(each.absent for each in self._reflectors)

    @property
    def installed(self) -> bool:
        """Whether the API server knew the kind when it was asked last."""
        return all(each.installed for each in self._reflectors)

    async def run(self) -> None:
        """Keep the store up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for each in self._reflectors:
                tasks.create_task(each.run())

    def refuse(self, refused: Refused, traceback: str = "") -> None:
        """An object could not be read: that is all about it, and everything else goes on."""
        self.refused += 1
        if self.refusals is not None:
            self.refusals.note(self.resource, refused, traceback)

    def refused_only(self, scope: str | None, names: set[Name]) -> None:
        """A complete list of `scope` showed just these that cannot be read."""
        if self.refusals:
            self.refusals.retain(self.resource, scope, names)

    def readable(self, namespace: str, name: str) -> None:
        """It can be read, or is gone."""
        if self.refused and self.refusals:
            self.refusals.clear(self.resource, namespace, name)

    def settle(self) -> None:
        """One of the reflectors has listed everything of its scope, or was told that there is nothing to be had."""
        if all(each.listed for each in self._reflectors):
            self.synced.set()
        if all(each.listed or each.absent for each in self._reflectors):
            self.synced_or_absent.set()
