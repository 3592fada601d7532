"""Whether all that is decided on has been heard of lately.

Not counted are nodes, without which each service decides alone (rights.py), ElasticServices, which nothing is decided
on, and what is not to be had and was never seen. It only asks the informers; what follows is the business of others.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any

from scaler.informers.informer import Informer
from scaler.kube.api import ELASTIC_SERVICES, NODES, Resource

_NOT_COUNTED = (NODES, ELASTIC_SERVICES)


class Sight:
    """`patience`: seconds without a list, event or bookmark after which a resource is out of touch."""

    def __init__(self, informers: Mapping[Resource, Informer[Any, Any]], patience: float) -> None:
        self._informers = {
            resource: informer for resource, informer in informers.items() if resource not in _NOT_COUNTED
        }
        self._patience = patience

    def heard(self) -> float:
        """Loop time up to which everything is known; -inf before all was listed. May be called from other threads."""
        return min((one.heard for one in self._informers.values() if not one.absent), default=math.inf)

    def lost(self) -> dict[Resource, str]:
        """What is out of touch, each with words for people; what was not listed yet counts too."""
        now = asyncio.get_running_loop().time()
        found = {}
        for resource, informer in self._informers.items():
            unheard = now - informer.heard
            if unheard >= self._patience and not informer.absent:
                found[resource] = informer.problem or f"nothing heard for {unheard:.0f} s"
        return found

    def words(self) -> str:
        """What is out of touch, the same words as long as it is the same; "" while nothing is."""
        names = ", ".join(sorted(resource.plural for resource in self.lost()))
        return f"nothing heard of {names} for {self._patience:g} s" if names else ""
