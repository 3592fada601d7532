"""Time, injected. Three clocks, each for what it can be trusted with (docs/explanation/time.md):

* the loop's (`now`): never steps. Everything that lasts: turns, backoff, deadlines of requests, the Lease.
* the API servers' (`Skew`, `timestamp`): what times in objects are compared with, and what we write into them.
* the machine's wall clock: `now` starts from it, log lines show it. Nothing is decided by it once an API server
  has answered.

In virtual time all of them move together, so nothing in the controller ever reads the machine's clock.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import msgspec

PRECISION = 2.0
"""Seconds: a smaller difference is none. An answer tells whole seconds, and little when it took another one."""
BELIEVED_FOR = 3600.0
"""Seconds for which what an API server said counts at least; it counts twice as long at most."""
REMEMBERED = 8
"""Steps forwards of the API servers' clocks that are remembered."""
_FIRST, _LAST = 1e9, 2.0**33
"""Seconds since the epoch, 2001 and 2242: what lies outside is of a clock that was never set."""


class Skew(msgspec.Struct, frozen=True):
    """How far the clocks of the API servers are ahead of ours, in seconds: `least` and `most`, because they may differ.

    So a time in an object may mean any moment from `earliest` to `latest`, as `Clock.now` counts. What must not come
    too soon is counted from the latest, what must not last too long from the earliest: one wrong clock among several
    makes nothing end early. What stands for no time (0.0 and less) stays.
    """

    least: float = 0.0
    most: float = 0.0
    before: tuple[tuple[float, float], ...] = ()
    """Until which moment `least` was what: a time that was written before all clocks were set forward is read with the
    clocks that it was written by."""

    def latest(self, stamp: float) -> float:
        """The latest moment that `stamp` may mean."""
        if stamp <= 0:
            return stamp
        return max(stamp - self.least, *(min(stamp - least, until) for until, least in self.before), 0.0)

    def earliest(self, stamp: float) -> float:
        """The earliest moment that `stamp` may mean."""
        return stamp - self.most if stamp > 0 else stamp

    def stamp(self, moment: float) -> float:
        """The time in an object of which `moment` is the earliest."""
        return moment + self.most if moment > 0 else moment


class Clock:
    """`offset` is wall time minus loop time, in seconds; the only place that a wall clock enters the process."""

    def __init__(self, offset: float) -> None:
        self._offset = offset
        self._spans: list[tuple[float, Skew]] = []
        """When it began, and what was seen since: the present span and the one before it."""
        self.skew = Skew()
        """As of the last `adjust`."""
        self._adjusted = False

    def now(self) -> float:
        """Seconds since the epoch as they were when this process started, and what has passed since: never steps."""
        return self._offset + asyncio.get_running_loop().time()

    def saw(self, date: float, took: float) -> None:
        """An API server has just answered that it is `date`, `took` seconds after it was asked. A slow answer is better
        than none, and is off by that much at most."""
        if (took > PRECISION / 2 and self._spans) or not _FIRST < date < _LAST:
            return
        now = self.now()
        ahead = date - now
        if not self._spans or now >= self._spans[0][0] + BELIEVED_FOR:
            self._spans = [(now, Skew(ahead, ahead)), *self._spans[:1]]
            return
        began, seen = self._spans[0]
        self._spans[0] = began, Skew(min(seen.least, ahead), max(seen.most, ahead))

    def adjust(self) -> bool:
        """Go by what has been seen; True when times in objects mean other moments now than before."""
        if not self._spans:
            return False
        least = min(seen.least for _, seen in self._spans)
        most = max(seen.most for _, seen in self._spans)
        old, first, self._adjusted = self.skew, not self._adjusted, True
        if abs(least - old.least) <= PRECISION and abs(most - old.most) <= PRECISION:
            return False
        stepped = () if first or least <= old.least else ((self.now(), old.least),)
        before = (*stepped, *old.before)[:REMEMBERED]
        self.skew = Skew(least, most, before)
        return True

    def server(self) -> float:
        """Now as the API servers count, for what is written into objects. Where they differ, the middle one of the one
        furthest behind, the one furthest ahead and this machine's own: no single wrong clock gets anywhere."""
        return self.now() + sorted((self.skew.least, 0.0, self.skew.most))[1]

    def timestamp(self) -> str:
        """Now as Kubernetes writes it into an object, whole seconds: 2026-11-21T07:36:00Z."""
        return rfc3339(self.server())

    def micro_timestamp(self) -> str:
        """Now as a MicroTime (Lease): 2026-11-21T07:36:00.000000Z."""
        return rfc3339_micro(self.now())


class SteadyLoop(asyncio.SelectorEventLoop):
    """An event loop whose time goes on while the machine is suspended: when it wakes, Leases have run out, and requests
    and watches without an answer end."""

    def time(self) -> float:
        """Seconds since the machine started."""
        return time.clock_gettime(_STEADY)


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""CLOCK_MONOTONIC stands still in a suspended machine. Only Linux has the other one."""


def rfc3339(seconds: float) -> str:
    """Seconds since the epoch as Kubernetes writes a Time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(seconds: float) -> str:
    """Seconds since the epoch as Kubernetes writes a MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(timestamp: str | None) -> float:
    """A Kubernetes Time as seconds since the epoch; 0.0 when absent or malformed (never raises)."""
    if not timestamp:
        return 0.0
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except (ValueError, OverflowError):
        return 0.0


SLICE = 0.01


class Slices:
    """For a task with much to do in one go: gives the loop a turn whenever it has taken `SLICE` seconds since the last.

    In virtual time none passes, so that a history does not depend on how fast the machine is.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()

    async def end(self) -> None:
        """To be awaited between any two pieces of work."""
        if self._loop.time() - self._began >= SLICE:
            await asyncio.sleep(0)
            self._began = self._loop.time()
