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


class _Made(msgspec.Struct):
    """The recent objects of one instance: loop time of the last one, and by name the times and uids
    of the last few."""

    last: float = 0.0
    objects: dict[str, deque[tuple[float, str]]] = {}


class RecreationGuard:
    def __init__(self) -> None:
        self._made: dict[str, _Made] = {}
        """Uid of the instance -> its objects; the instance with the newest object is last."""

    def made(self, uid: str, objects: Iterable[tuple[str, str]]) -> None:
        """Note that these objects (name, uid) of the instance exist since now: created, or found
        under their name."""
        made = self._made[uid] = self._made.pop(uid, _Made())
        made.last = now = loop_time()
        for name, of_object in objects:
            times = made.objects.setdefault(name, deque(maxlen=MOST))
            # an object that is found again was not deleted
            if not times or times[-1][1] != of_object:
                times.append((now, of_object))
        while self._made[oldest := next(iter(self._made))].last < now - LATELY:
            del self._made[oldest]

    def forget(self, uid: str) -> None:
        """The scaler itself deletes the objects of the instance: so no other client did."""
        self._made.pop(uid, None)

    def made_lately(self, uid: str) -> bool:
        """Whether anything of the instance was made recently: then its job is looked up before more
        is made."""
        made = self._made.get(uid)
        return made is not None and made.last >= loop_time() - LATELY

    def in_vain(self, uid: str) -> str:
        """A sentence about an object that another client deletes as often as it is made; "" when
        there is none."""
        made = self._made.get(uid, _Made())
        since = loop_time() - LATELY
        for name, times in reversed(made.objects.items()):  # a pod says more than its PodGroup
            if len(times) == MOST and times[0][0] >= since:
                return (
                    f"another client deletes {name} as often as it is made, {MOST} times within a"
                    " minute"
                )
        return ""
