"""One resource: a reflector for each namespace feeds its store, and the informer says how current
that is."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scaler.clock import loop_time
from scaler.informers.reflector import Reflector, T, Watched
from scaler.informers.store import R
from scaler.kube.api import NODES, Resource


@dataclass(eq=False, repr=False)
class Informer(Watched[T, R]):
    """Every namespace of `namespaces` is listed and watched on its own (None: all namespaces at
    once)."""

    namespaces: tuple[str, ...] | None = field(kw_only=True)

    def __post_init__(self) -> None:
        self.synced = asyncio.Event()
        """Set once everything has been listed, for ever after."""
        self.synced_or_absent = asyncio.Event()
        """Set as well when the resource cannot be read (`absent`)."""
        self._reflectors = [
            Reflector(self, scope, self._settled) for scope in (self.namespaces or (None,))
        ]

    @property
    def problem(self) -> str:
        """What keeps the store from being up to date, for readiness and logs; "" when nothing
        does."""
        return "; ".join(each.problem for each in self._reflectors if each.problem)

    @property
    def heard(self) -> float:
        """Loop time of the last list, event, bookmark, or end of a watch at its time; -inf = never.
        Of several namespaces, that of the one longest ago. May be read from other threads."""
        return min(each.heard for each in self._reflectors)

    @property
    def unheard(self) -> float:
        """Seconds since then; inf = never."""
        return loop_time() - self.heard

    @property
    def absent(self) -> bool:
        """It is not installed, or not allowed where that may be, and nothing of it is known: it is
        not missed."""
        return all(each.absent for each in self._reflectors)

    def why_absent(self) -> str:
        """`problem` while it is absent, else ""."""
        return self.problem if self.absent else ""

    @property
    def installed(self) -> bool:
        """Whether the API server knew the kind in its last answer."""
        return all(each.installed for each in self._reflectors)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for each in self._reflectors:
                tasks.create_task(each.run())

    def _settled(self) -> None:
        if all(each.listed for each in self._reflectors):
            self.synced.set()
        if all(each.listed or each.absent for each in self._reflectors):
            self.synced_or_absent.set()


class Freshness:
    """Whether everything that a decision depends on is up to date.

    Nodes are an exception: without them each service decides alone. The right to read nodes may
    come late, and may be taken away. A resource that is not installed, or that may not be read, and
    that was never seen, is not missed.

    `patience`: seconds without a sign of a resource (`Informer.heard`) until it is out of touch."""

    def __init__(self, informers: Mapping[Resource, Informer[Any, Any]], patience: float) -> None:
        self.nodes = informers[NODES]
        self._others = {
            resource: informer for resource, informer in informers.items() if resource != NODES
        }
        self._patience = patience

    def heard(self) -> float:
        """Loop time up to which everything is known; -inf before all was listed. May be called from
        other threads."""
        return min((one.heard for one in self._others.values() if not one.absent), default=math.inf)

    def stale(self) -> dict[Resource, str]:
        """Resource that is out of touch -> words for people; one that was not listed yet counts
        too."""
        return {
            resource: informer.problem or f"nothing heard for {informer.unheard:.0f} s"
            for resource, informer in self._others.items()
            if informer.unheard >= self._patience and not informer.absent
        }

    def words(self) -> str:
        """The resources that are out of touch, in words that change only with them; "" for none."""
        names = ", ".join(sorted(resource.plural for resource in self.stale()))
        return f"nothing heard of {names} for {self._patience:g} s" if names else ""

    def no_nodes(self) -> str:
        """Why the nodes cannot be read, in words; "" while they can."""
        if self.nodes.unheard < self._patience:
            return ""
        return (
            "the nodes cannot be read any more"
            if self.nodes.synced.is_set()
            else "the nodes may not be read"
        )
