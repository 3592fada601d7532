"""Whether nodes can be read, as far as is known by now. A right may come late, and may go again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog

from scaler.informers.cache import Cache
from scaler.informers.changes import Changes, RightsChanged
from scaler.informers.informer import Informer
from scaler.kube.api import NODES, Resource

_log = structlog.get_logger("rights")


class Rights:
    """`look` now and then; a change is published. `patience`: seconds without a sign of life."""

    def __init__(
        self, informers: Mapping[Resource, Informer[Any, Any]], cache: Cache, changes: Changes, patience: float
    ) -> None:
        self._nodes = informers[NODES]
        self._cache = cache
        self._publish = changes.publish
        self._patience = patience
        self.unread = ""
        """That nodes cannot be read now, in words; "" while they can."""

    def look(self) -> None:
        """Ask the informer of nodes, and let the cache know whether nodes are seen."""
        before, self.unread = self.unread, self._what_is_unread()
        if bool(self.unread) == self._cache.sees_nodes:
            self._cache.set_sees_nodes(sees_nodes=not self.unread)
            words = "nodes not seen: pods count as being on nodes that are Ready" if self.unread else "nodes seen again"
            _log.warning(words, why=self._nodes.problem)
        if self.unread != before:
            self._publish(RightsChanged())

    def _what_is_unread(self) -> str:
        if not self._nodes.synced.is_set():
            return "the nodes may not be read"
        unheard = asyncio.get_running_loop().time() - self._nodes.heard
        return "the nodes cannot be read any more" if unheard >= self._patience else ""
