"""Whether it makes sense to make more of an instance of which what was made lately is gone. A guard on writes: which
instance is admitted stays the decision's, which learns of what is stopped here as of a refusal.

What was made a moment ago and is missing was deleted. Perhaps because the job is gone: a watch that is far behind still
shows it, and what is made for it the garbage collector deletes at once. Then the job is listed by name, and known to be
gone. Or another client deletes it as often as it is made: that has to have a bound. For an instance of which nothing
was made lately there is no request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

import msgspec

from scaler.informers.jobs import JobLookup, JobRecord

LATELY = 60.0
"""Seconds for which what was made of an instance puts in doubt that more is to be made. A cycle that is slower than
this is no burden."""
MOST = 10
"""How often the same object is made within that time."""


class _Made(msgspec.Struct):
    """What was made of one instance: loop time of the last, and by name the times and uids of the last few."""

    last: float = 0.0
    objects: dict[str, deque[tuple[float, str]]] = {}


class RecreationGuard:
    """Remembers what was made lately, by the uid of the instance."""

    def __init__(self, lookup: JobLookup) -> None:
        self._lookup = lookup
        self._made: dict[str, _Made] = {}
        """By uid; the one of which something was made last comes last."""

    def made(self, uid: str, objects: Iterable[tuple[str, str]]) -> None:
        """These objects of this instance, name and uid, were made just now, or found where they were to be made."""
        made = self._made.pop(uid, _Made())
        self._made[uid] = made
        made.last = now = asyncio.get_running_loop().time()
        for name, of_object in objects:
            times = made.objects.setdefault(name, deque(maxlen=MOST))
            if not times or times[-1][1] != of_object:  # one that is found again was not deleted
                times.append((now, of_object))
        while self._made[oldest := next(iter(self._made))].last < now - LATELY:
            del self._made[oldest]

    def forget(self, uid: str) -> None:
        """The scaler itself deletes what was made of it: what is missing was deleted by no other client."""
        self._made.pop(uid, None)

    async def is_as_known(self, record: JobRecord) -> bool:
        """False when the job is another one by now, or gone; the cache knows it then, too, however late the watch is.

        Raises errors of the seam.
        """
        made = self._made.get(record.uid)
        if made is None or made.last < asyncio.get_running_loop().time() - LATELY:
            return True
        return await self._lookup.is_as_known(record)

    def in_vain(self, uid: str) -> str:
        """What another client deletes as often as it is made, in words; "" when there is no such thing."""
        made, since = self._made.get(uid), asyncio.get_running_loop().time() - LATELY
        if made is None:
            return ""
        for name, times in reversed(made.objects.items()):  # a pod says more than its PodGroup
            if len(times) == MOST and times[0][0] >= since:
                return f"another client deletes {name} as often as it is made, {MOST} times within a minute"
        return ""
