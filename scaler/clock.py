"""Time, injected. Three clocks, each with its own use (docs/explanation/time.md):

* the loop's (`now`): never steps. For all durations: attempts, backoff, deadlines of requests, the
  Lease.
* the API servers' (`Skew`, `timestamp`): times in objects are compared with it, and times that the
  scaler writes.
* the machine's wall clock: the start of `now`, and the times in log lines. It decides nothing once
  an API server has answered.

In virtual time all three go on together: no component of the controller reads the machine's clock
directly."""

from __future__ import annotations

import asyncio
import time

import msgspec

from scaler.timestamps import rfc3339, rfc3339_micro

PRECISION = 2.0
"""Seconds: a smaller difference counts as none. A Date header has whole seconds, and is less exact
in a slow answer."""
BELIEVED_FOR = 3600.0
"""Seconds for which the time of an API server counts at least; it counts twice as long at most."""
REMEMBERED = 8
"""Forward steps of the API servers' clocks that are remembered."""
_FIRST = 1e9
_LAST = 2.0**33
"""Seconds since the epoch, 2001 and 2242: a time outside is from a clock that was never set."""


def wall_clock() -> float:
    """Seconds since the epoch by the machine's clock: for what another program of this machine
    said of a time, such as when a token of it ends."""
    return time.time()


class Skew(msgspec.Struct, frozen=True):
    """How far the clocks of the API servers are ahead of ours, in seconds: `least` and `most`,
    because they may differ.

    So a time in an object may mean any moment from `earliest` to `latest`, in the time of
    `Clock.now`. A limit that must not end too early counts from the latest, one that must not last
    too long from the earliest: one wrong clock among several ends nothing early. Values that mean
    "no time" (0.0 and less) stay."""

    least: float = 0.0
    most: float = 0.0
    before: tuple[tuple[float, float], ...] = ()
    """(moment, `least` until then): a time that was written before all clocks were set forward is
    converted with the value of that time."""

    def latest(self, stamp: float) -> float:
        if stamp <= 0:
            return stamp
        return max(
            stamp - self.least, *(min(stamp - least, until) for until, least in self.before), 0.0
        )

    def earliest(self, stamp: float) -> float:
        return stamp - self.most if stamp > 0 else stamp

    def stamp(self, moment: float) -> float:
        """The time in an object whose earliest moment is `moment`."""
        return moment + self.most if moment > 0 else moment


class Clock:
    """`offset` is wall time minus loop time, in seconds; without one it is read here, once, from
    the wall clock."""

    def __init__(self, offset: float | None = None) -> None:
        self._offset = time.time() - loop_time() if offset is None else offset
        self._spans: list[tuple[float, Skew]] = []
        """Start and observed skew of the present span and of the one before it."""
        self.skew = Skew()
        """The skew that the last `adjust` measured."""
        self._adjusted = False

    def now(self) -> float:
        """Seconds since the epoch at the start of this process, plus the time since then: never
        steps."""
        return self._offset + loop_time()

    def saw(self, date: float, took: float) -> None:
        """Note the time `date` of an answer of an API server, `took` seconds after the request. A
        slow answer is better than none: its error is at most `took`."""
        if (took > PRECISION / 2 and self._spans) or not _FIRST < date < _LAST:
            return
        now = self.now()
        ahead = date - now
        if not self._spans or now >= self._spans[0][0] + BELIEVED_FOR:
            self._spans = [(now, Skew(ahead, ahead)), *self._spans[:1]]
            return
        began, seen = self._spans[0]
        self._spans[0] = began, Skew(min(seen.least, ahead), max(seen.most, ahead))

    def adjust(self) -> None:
        """Use the observed skew. When `skew` is another one after that, times in objects mean other
        moments than before."""
        if not self._spans:
            return
        least = min(seen.least for _, seen in self._spans)
        most = max(seen.most for _, seen in self._spans)
        old = self.skew
        first = not self._adjusted
        self._adjusted = True
        if abs(least - old.least) <= PRECISION and abs(most - old.most) <= PRECISION:
            return
        stepped = () if first or least <= old.least else ((self.now(), old.least),)
        before = (*stepped, *old.before)[:REMEMBERED]
        self.skew = Skew(least, most, before)

    def server(self) -> float:
        """Now by the API servers' clocks, for times in objects. If the clocks differ: the middle
        one of the slowest, the fastest and this machine's own clock, so that no single wrong clock
        decides."""
        return self.now() + sorted((self.skew.least, 0.0, self.skew.most))[1]

    def timestamp(self) -> str:
        """Now as Kubernetes writes a time into an object, whole seconds: 2026-11-21T07:36:00Z."""
        return rfc3339(self.server())

    def micro_timestamp(self) -> str:
        """Now as a MicroTime (Lease): 2026-11-21T07:36:00.000000Z."""
        return rfc3339_micro(self.now())


class SteadyLoop(asyncio.SelectorEventLoop):
    """An event loop whose time goes on while the machine is suspended: after that, Leases have run
    out, and requests and watches without an answer end."""

    def time(self) -> float:
        """Seconds since the machine started."""
        return time.clock_gettime(_STEADY)


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""CLOCK_MONOTONIC stops in a suspended machine. CLOCK_BOOTTIME exists only on Linux."""


def loop_time() -> float:
    """Seconds of the running loop's clock."""
    return asyncio.get_running_loop().time()


SLICE = 0.01


class Slices:
    """For a task with much work: lets the loop run other tasks every `SLICE` seconds. In virtual
    time no time passes here, so a history does not depend on the speed of the machine."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()

    async def end(self) -> None:
        """To be awaited between two pieces of work."""
        if self._loop.time() - self._began >= SLICE:
            await asyncio.sleep(0)
            self._began = self._loop.time()
