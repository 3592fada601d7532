"""Lets the writes of one instance start together, one instance after another.

A session of a scheduler may fall between two pods of an instance. MindCluster's plugin chooses
nodes for the pods that it sees then, and the others get no rank in their super-pod. How far apart
the pods come depends on how many other writes the API server has at the same time: so there are few
of them, and no instance begins before there is room for all of its writes.

For example with room for 16 writes, and three instances of 8, 8 and 4 pods:

    at once             the first and the second: 16 writes
    when one has ended  the third"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from scaler.kube.slots import Slots

MOST_AT_ONCE = 16
"""Writes of bursts at the same time, in all and in one namespace. An instance with more pods is
sent when no other is under way."""
PATIENCE = 0.25
"""Seconds after which a burst makes room for the next one: an admission webhook of its namespace
may be holding it up."""


class Bursts:
    """Who may begin: in all `most` writes that are younger than PATIENCE, and as many of one
    namespace at any age. `Writer` has slots for single requests of all kinds: as many or more, so
    that a burst that has begun seldom waits there."""

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._slots = Slots(most, most_of_one=most, patience=PATIENCE)

    def begun(self, namespace: str, writes: int) -> AbstractAsyncContextManager[None]:
        """Wait until all these writes of one instance may start, first come, first served. The wait
        ends: each burst before this one makes room after PATIENCE, or after the deadline of its
        writes where it is of the same namespace."""
        return self._slots.taken(namespace, writes)
