"""Whether resourceVersions still mean what they meant: after a restore from a backup they are given a second time."""

from __future__ import annotations

from collections.abc import Callable


class History:
    """Shared by the informers of one cluster. One of them notices that the cluster went back; then what the others know
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
