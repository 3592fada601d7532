"""Which running instances a service must not lose now: as many of each group as its smallest ratio needs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scaler.rules.rule import Ratio


class Runs(NamedTuple):
    """A running instance."""

    uid: str
    group: str
    settled: bool
    """None of its nodes is cordoned."""
    kept: bool
    """It is kept already, whole."""


def to_keep(smallest: Ratio, running: Sequence[Runs]) -> frozenset[str]:
    """Uids: first what no drain is about to take, then what is kept already. None of a service that does not serve."""
    kept: set[str] = set()
    for group, number in smallest.counts.items():
        found = sorted((not one.settled, not one.kept, one.uid) for one in running if one.group == group)
        if len(found) < number:
            return frozenset()
        kept.update(uid for _, _, uid in found[:number])
    return frozenset(kept)
