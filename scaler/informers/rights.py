"""Whether nodes and pods can be read, as far as is known by now. A right may come late, and may go again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from scaler.informers.cache import Cache
from scaler.informers.changes import Changes, RightsChanged
from scaler.informers.informer import Informer
from scaler.kube.api import NODES, PODS, Resource

OUT_OF_TOUCH = 120.0
"""Seconds of failures without a sign of life, after which what was read of nodes or pods is no ground for weighing
services against each other. Longer than the longest pause between two tries, and a bookmark's minute."""
_log = structlog.get_logger("rights")


class Rights:
    """`look` now and then; a change is published."""

    def __init__(self, informers: Mapping[Resource, Informer[Any, Any]], cache: Cache, changes: Changes) -> None:
        self._informers = informers
        self._cache = cache
        self._publish = changes.publish
        self.unread = ""
        """What of nodes and pods cannot be read now, in words; "" while both can."""

    def look(self) -> None:
        """Ask the informers of nodes and pods, and let the cache know whether nodes are seen."""
        nodes, before = self._informers[NODES], self.unread
        self.unread = self._what_is_unread()
        sees_nodes = nodes.synced.is_set() and nodes.failing_for() < OUT_OF_TOUCH
        if sees_nodes != self._cache.sees_nodes:
            self._cache.set_sees_nodes(sees_nodes=sees_nodes)
            words = "nodes seen again" if sees_nodes else "nodes not seen: pods count as being on nodes that are Ready"
            _log.warning(words, why=nodes.problem)
        if self.unread != before:
            self._publish(RightsChanged())

    def _what_is_unread(self) -> str:
        if not self._informers[NODES].synced.is_set():
            return "the nodes may not be read"
        lost = [
            resource.plural for resource in (NODES, PODS) if self._informers[resource].failing_for() >= OUT_OF_TOUCH
        ]
        return f"the {' and '.join(lost)} cannot be read any more" if lost else ""
