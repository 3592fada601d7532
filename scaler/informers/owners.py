"""What the makers of pods tell of their instances: sizes, ages, newest revisions. An index, nothing else.

Of these kinds every cluster lacks some; what is not known counts as not said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from scaler.informers.store import Store
from scaler.workloads.kind import OwnerFacts, OwnerName, identity
from scaler.workloads.kinds import MAKERS

OWNER_KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "LeaderWorkerSet", "PodSet")


class Owners:
    """`changed(names, maker)` is called with what changed and whose newest revision may have."""

    def __init__(self, changed: Callable[[Sequence[OwnerName], str], None]) -> None:
        self._changed = changed
        self.stores: dict[str, Store[OwnerFacts]] = {kind: Store(self._on_change) for kind in OWNER_KINDS}
        self._by_maker: defaultdict[str, dict[OwnerName, OwnerFacts]] = defaultdict(dict)

    def get(self, kind: str, namespace: str, name: str) -> OwnerFacts | None:
        store = self.stores.get(kind)
        return store.get(namespace, name) if store is not None else None

    def newest_revision(self, maker: str) -> str:
        """The revision that this maker makes now; "" when nobody tells."""
        known = self._by_maker.get(maker)
        return max(known.values(), key=lambda facts: (facts.rank, facts.created, facts.name)).revision if known else ""

    def wanted(self, maker: str) -> int:
        """How many instances this maker should have; 0 when nobody says."""
        kind, _, name = maker.partition("/")
        facts = self.get(kind, *name.split("/", 1)) if "/" in name else None
        return facts.wanted if facts is not None else 0

    def _on_change(self, old: OwnerFacts | None, new: OwnerFacts | None) -> None:
        for facts in (old, new):
            if facts is not None and facts.maker:
                self._index(facts, exists=facts is new)
        facts = new or old
        if facts is not None:
            maker = identity(*_name(facts)) if facts.kind in MAKERS else facts.maker
            self._changed([_name(facts)], maker if _told(old) != _told(new) else "")

    def _index(self, facts: OwnerFacts, *, exists: bool) -> None:
        known = self._by_maker[facts.maker]
        if exists:
            known[_name(facts)] = facts
        else:
            known.pop(_name(facts), None)
            if not known:
                del self._by_maker[facts.maker]


def _name(facts: OwnerFacts) -> OwnerName:
    return facts.kind, facts.namespace, facts.name


def _told(facts: OwnerFacts | None) -> tuple[str, int, int] | None:
    return (facts.revision, facts.rank, facts.wanted) if facts is not None else None
