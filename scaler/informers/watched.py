"""What is watched of one resource, and where it goes (`Watched`); whether the cluster was restored (`History`)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Generic, TypeVar

from scaler.informers.refusals import Refusals
from scaler.informers.store import R, Store
from scaler.kube.api import KubeApi, Resource

T = TypeVar("T")

SILENCE = 90.0
"""Seconds without an event or bookmark after which everything is listed anew: bookmarks come every 60 s."""


class History:
    """Whether resourceVersions still mean what they meant: after a restore from a backup they are given a second time.

    Shared by the informers of one cluster. One of them notices that the cluster went back; then what the others know
    means nothing any more either, also where versions have caught up by then."""

    def __init__(self) -> None:
        self.restores = 0
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Have it called at each restore."""
        self._listeners.append(listener)

    def restored(self) -> None:
        """An informer is sure of it."""
        self.restores += 1
        for listener in self._listeners:
            listener()


@dataclass(eq=False, repr=False)
class Watched(Generic[T, R]):
    """`store` gets what `record` makes of each object of `resource`; None leaves the object out.

    `decode` is a type with `metadata`. `may_be_forbidden`: nothing is missing without the right to it."""

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
    """`lists` (of everything of a namespace, the first included), `watches` (that were opened), `events` (that brought
    something new, bookmarks included), `refused` (objects that could not be read, each version counted by itself)."""
