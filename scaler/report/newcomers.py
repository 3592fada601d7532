"""How long a new service waits for its ElasticService: not at all, but where many come in one
namespace. So jobs that come and go by the hundred do not cost three writes each for an object that
nobody can have read."""

from __future__ import annotations

from collections import deque

MOST_AT_ONCE = 50
"""So many ElasticServices are created at once in each namespace, within `WINDOW` seconds."""
WINDOW = 60.0
LASTING = 10.0
"""Seconds that a service beyond that has to last until its object is created."""


class Newcomers:
    """When the newest services of each namespace came, as far as it counts."""

    def __init__(self) -> None:
        self._came: dict[str, deque[float]] = {}
        """Namespace -> when services came, the oldest first."""

    def note(self, namespace: str, now: float) -> None:
        """A service comes now."""
        came = self._came.pop(namespace, None) or deque(maxlen=MOST_AT_ONCE + 1)
        came.append(now)
        self._came[namespace] = came  # now the newest
        self._forget_before(now - WINDOW)

    def seconds_to_wait(self, namespace: str) -> float:
        """For the service that came last there."""
        came = self._came[namespace]
        is_one_of_many = len(came) > MOST_AT_ONCE and came[0] > came[-1] - WINDOW
        return LASTING if is_one_of_many else 0.0

    def _forget_before(self, moment: float) -> None:
        """Forget the namespaces in which nothing has come since. The one that came last is never
        among them."""
        while True:
            oldest = next(iter(self._came))
            if self._came[oldest][-1] > moment:
                return
            del self._came[oldest]
