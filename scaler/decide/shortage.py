"""Why pods do not fit, as a value and in words for people. Decides nothing."""

from __future__ import annotations

import msgspec

from scaler.decide.explain import amount_in_words, where_in_words
from scaler.decide.nodes import PODS, PodRequest


class Shortage(msgspec.Struct, frozen=True, gc=False):
    """Pods that find no room. `str()` gives `needs 2 nodes with 8 free huawei.com/Ascend910 (pool=a), 1 there`."""

    need: PodRequest
    """The first need that finds too little."""
    wanted: int
    """Pods of this need."""
    there: int
    """How many of them would find room."""
    resource: str
    """What there is least of."""
    shared: bool = False
    """A node may hold several of these pods, so nodes cannot be counted."""
    together: bool = False
    """Each need finds its room alone, but not all of them at once."""
    undecided: bool = False
    """The search for a place was given up: they may fit after all."""

    def __str__(self) -> str:
        there = "no placement holds all of it" if self.together else f"{self.there} there"
        searched = "; not every placement was tried" if self.undecided else ""
        return f"needs {self._room()}{' and more beside it' if self.together else ''}, {there}{searched}"

    def _room(self) -> str:
        where = where_in_words(self.need.where)
        if self.resource == PODS:
            return f"room for {self.wanted} more {'pod' if self.wanted == 1 else 'pods'}{where}"
        what = amount_in_words(self.resource, dict(self.need.requests).get(self.resource, 0)) + where
        if self.shared:
            return f"room for {self.wanted} times {what}"
        return f"{self.wanted} {'node' if self.wanted == 1 else 'nodes'} with {what}"
