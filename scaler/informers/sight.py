"""Whether what is decided on can be read, and has been heard of lately.

Without nodes each service decides alone, so they are apart: a right to them may come late, and may go again. What is
not to be had and was never seen is not missed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any

import structlog

from scaler.informers.cache import Cache
from scaler.informers.informer import Informer
from scaler.kube.api import NODES, Resource
from scaler.settings import Settings

_log = structlog.get_logger("app")


class Sight:
    """`patience`: seconds without a list, event, bookmark or end of a watch at its time that put it out of touch."""

    def __init__(self, informers: Mapping[Resource, Informer[Any, Any]], patience: float) -> None:
        self._nodes = informers[NODES]
        self._others = {resource: informer for resource, informer in informers.items() if resource != NODES}
        self._patience = patience

    def heard(self) -> float:
        """Loop time up to which everything is known; -inf before all was listed. May be called from other threads."""
        return min((one.heard for one in self._others.values() if not one.absent), default=math.inf)

    def lost(self) -> dict[Resource, str]:
        """What is out of touch, each with words for people; what was not listed yet counts too."""
        return {
            resource: informer.problem or f"nothing heard for {unheard:.0f} s"
            for resource, informer in self._others.items()
            if (unheard := _unheard(informer)) >= self._patience and not informer.absent
        }

    def words(self) -> str:
        """What is out of touch, the same words as long as it is the same; "" while nothing is."""
        names = ", ".join(sorted(resource.plural for resource in self.lost()))
        return f"nothing heard of {names} for {self._patience:g} s" if names else ""

    def no_nodes(self) -> str:
        """That the nodes cannot be read, in words; "" while they can."""
        if _unheard(self._nodes) < self._patience:
            return ""
        return "the nodes cannot be read any more" if self._nodes.synced.is_set() else "the nodes may not be read"

    @property
    def problem_of_nodes(self) -> str:
        """The last error of the informer of nodes; "" without one."""
        return self._nodes.problem


class Alone:
    """Why each service decides alone: because the nodes cannot be read, or because the settings have it so."""

    def __init__(self, cache: Cache, sight: Sight, settings: Settings) -> None:
        self._cache = cache
        self._sight = sight
        self._set = "" if settings.arbitration else "setting arbitration is off"
        if settings.namespaces and not self._set:
            self._set = "setting namespaces: what pods of other namespaces take of the nodes is not seen"
        self.why = ""
        """As of the last check; "" while services are weighed against each other."""

    def check(self) -> bool:
        """Follow whether nodes can be read; gives whether services decide otherwise from now on."""
        unread = self._sight.no_nodes()
        if bool(unread) == self._cache.sees_nodes:
            self._cache.set_sees_nodes(sees_nodes=not unread)
            words = "nodes not seen: pods count as being on nodes that are Ready" if unread else "nodes seen again"
            _log.warning(words, why=self._sight.problem_of_nodes)
        before, self.why = self.why, self._set or unread
        if self.why != before:
            again = "services are weighed against each other again"
            _log.warning("no arbitration: each service decides alone" if self.why else again, why=self.why)
        return self.why != before


def _unheard(informer: Informer[Any, Any]) -> float:
    """Seconds since it was heard of; inf when it never was."""
    return asyncio.get_running_loop().time() - informer.heard
