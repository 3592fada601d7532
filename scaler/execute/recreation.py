"""Checks whether objects of an instance may be made again although recent ones are gone. A guard on
writes: the decision admits instances, and sees what is stopped here as a refusal.

What was made recently and is missing was deleted. Either the job is gone: a watch that is far
behind still shows it, and the garbage collector deletes each new object of it at once. So the job
is listed by name. Or another client deletes the object each time: the number of attempts has a
limit. An instance without recent objects costs no request."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from scaler.clock import loop_time

LATELY = 60.0
"""Seconds for which an object counts as made recently. A cycle of making and deleting that is
slower is no burden."""
MOST = 10
"""The most times that the same object is created within that time."""


class _RecentObjects(msgspec.Struct):
    """The recent objects of one instance: loop time of the last one, and by name the times and uids
    of the last few."""

    last: float = 0.0
    objects: dict[str, deque[tuple[float, str]]] = {}


class RecreationGuard:
    def __init__(self) -> None:
        self._recent: dict[str, _RecentObjects] = {}
        """Uid of the instance -> its objects; the instance with the newest object is last."""

    def note_made(self, uid: str, objects: Iterable[tuple[str, str]]) -> None:
        """Note that these objects (name, uid) of the instance exist since now: created, or found
        under their name."""
        now = loop_time()
        recent = self._recent.pop(uid, _RecentObjects())
        recent.last = now
        self._recent[uid] = recent
        for name, of_object in objects:
            times = recent.objects.setdefault(name, deque(maxlen=MOST))
            # an object that is found again was not deleted
            if not times or times[-1][1] != of_object:
                times.append((now, of_object))
        self._forget_before(now - LATELY)

    def _forget_before(self, since: float) -> None:
        while self._recent:
            oldest = next(iter(self._recent))
            if self._recent[oldest].last >= since:
                return
            del self._recent[oldest]

    def forget(self, uid: str) -> None:
        """The scaler itself deletes the objects of the instance: so no other client did."""
        self._recent.pop(uid, None)

    def made_lately(self, uid: str) -> bool:
        """Whether anything of the instance was made recently: then its job is looked up before more
        is made."""
        recent = self._recent.get(uid)
        return recent is not None and recent.last >= loop_time() - LATELY

    def in_vain(self, uid: str) -> str:
        """A sentence about an object that another client deletes as often as it is made; "" when
        there is none."""
        recent = self._recent.get(uid, _RecentObjects())
        since = loop_time() - LATELY
        for name, times in reversed(recent.objects.items()):  # a pod says more than its PodGroup
            if len(times) == MOST and times[0][0] >= since:
                return (
                    f"another client deletes {name} as often as it is made, {MOST} times within a"
                    " minute"
                )
        return ""
