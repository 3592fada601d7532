"""The services to decide about again: a set of dirty keys, never a list of events.

A burst of events becomes one pass. A key is never processed twice at once. The queue never calls
the controller."""

from __future__ import annotations

import asyncio

from scaler.clock import loop_time
from scaler.decide.world import ServiceKey

_FIRST_BACKOFF = 0.005
_LAST_BACKOFF = 30.0


def backoff_after(failures: int) -> float:
    """Seconds to wait after one more failure than these in a row: twice as long with each, up to
    half a minute."""
    return min(_FIRST_BACKOFF * 2.0 ** min(failures, 32), _LAST_BACKOFF)


class WorkQueue:
    """Dirty keys for one consumer: `take`, process, then `done` for each key taken."""

    def __init__(self) -> None:
        self._dirty: set[ServiceKey] = set()
        self._processing: set[ServiceKey] = set()
        self._since: dict[ServiceKey, float] = {}
        self._timers: dict[ServiceKey, asyncio.TimerHandle] = {}
        self._failures: dict[ServiceKey, int] = {}
        self._ready = asyncio.Event()
        self._woken = False

    def __len__(self) -> int:
        """Keys that wait to be taken, those of the future left out."""
        return len(self._dirty)

    @property
    def has_work(self) -> bool:
        """Whether `take` would give something at once: keys that are being processed wait for that
        to end."""
        return self._woken or not self._dirty <= self._processing

    def is_idle(self, key: ServiceKey) -> bool:
        """Whether nothing is known to be done for `key`, neither now nor once a backoff is over."""
        return key not in self._dirty and key not in self._processing and key not in self._failures

    def is_dirty(self, key: ServiceKey) -> bool:
        """Whether something has happened to `key` since it was taken last."""
        return key in self._dirty

    def add(self, key: ServiceKey) -> None:
        """Look at `key` again: in the next pass, or once more after the pass that processes it
        now."""
        self._dirty.add(key)
        if key not in self._processing:
            self._since.setdefault(key, loop_time())
            self._ready.set()

    def wake(self) -> None:
        """Begin a pass, also when no key is dirty: something that concerns all services has
        changed."""
        self._woken = True
        self._ready.set()

    def dirty_since(self, key: ServiceKey) -> float:
        """Loop time of the first event since which a key that is processed now is dirty."""
        return self._since.get(key, loop_time())

    def add_at(self, key: ServiceKey, when: float) -> None:
        """Look at `key` again at loop time `when` (seconds) at the latest; the earliest of several
        times counts.

        Taking the key forgets the time: the pass that follows knows better when to look again."""
        timer = self._timers.get(key)
        if timer is None or when < timer.when():
            if timer is not None:
                timer.cancel()
            self._timers[key] = asyncio.get_running_loop().call_at(when, self._come_due, key)

    def _come_due(self, key: ServiceKey) -> None:
        del self._timers[key]
        self.add(key)

    def add_after_backoff(self, key: ServiceKey) -> float:
        """Look at `key` again after a delay that doubles with each call since `forget`; returns it
        in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = backoff_after(failures)
        self.add_at(key, loop_time() + delay)
        return delay

    def forget(self, key: ServiceKey) -> None:
        """The key went well, or exists no longer: its next backoff starts small again."""
        self._failures.pop(key, None)

    async def take(self) -> list[ServiceKey]:
        """All dirty keys that are not being processed, sorted: one seed, one history. Waits for
        one, or for `wake`.

        Callbacks that are ready already run first, so what arrived together is decided together."""
        while True:
            await self._ready.wait()
            await asyncio.sleep(0)
            self._ready.clear()
            keys = sorted(self._dirty - self._processing)
            if keys or self._woken:
                self._woken = False
                self._dirty.difference_update(keys)
                self._processing.update(keys)
                for key in self._timers.keys() & keys:
                    self._timers.pop(key).cancel()
                return keys

    def hold(self, key: ServiceKey) -> None:
        """Process `key` although it was not taken: it is not given out before `done`."""
        self._processing.add(key)

    def done(self, key: ServiceKey) -> None:
        """Processing of `key` has ended; if it was dirtied meanwhile it comes once more."""
        self._processing.discard(key)
        self._since.pop(key, None)
        if key in self._dirty:
            self.add(key)
