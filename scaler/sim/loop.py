"""Virtual time: an asyncio loop that jumps to its next timer instead of waiting, so that hours pass
in milliseconds.

One seed gives one history. Nothing here sleeps, opens a file descriptor or reads a clock; code on
this loop must not use threads or sockets, because nothing would ever wake the loop for them."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_MAX_ITERATIONS_PER_MOMENT = 1_000_000


class VirtualTimeError(RuntimeError):
    """The simulation cannot go on: every task waits for ever, its time is over, or time stands
    still."""


class _Timer(asyncio.TimerHandle):
    """Timers of one moment fire in the order of `tie`; the base class leaves that order to the
    heap."""

    __slots__ = ("tie",)

    tie: float
    _when: float  # of the base class, the same from Python 3.8 to 3.14

    def __lt__(self, other: Any) -> bool:
        # called a million times in a history, so it avoids tuples and calls.
        mine = self._when
        others = other._when
        return bool(mine < others or (mine == others and self.tie < other.tie))


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose time starts at 0.0 and moves only when no callback is ready.

    Seed 0 runs callbacks in the order in which they were scheduled. Any other seed rotates the
    ready queue and orders timers of one moment at random, deterministically, to find code that
    relies on an order without a guarantee. `limit` is the latest moment, in seconds, that time may
    jump to."""

    # Names of BaseEventLoop that we rely on; the same from Python 3.8 to 3.14.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, *, seed: int = 0, limit: float | None = None) -> None:
        super().__init__()
        self._now = 0.0
        self._limit = limit
        self._iterations = 0
        self._timers = 0
        # For order, not for secrets.
        self._random = random.Random(seed) if seed else None  # noqa: S311
        self._selector = self  # BaseEventLoop waits in its selector; this one moves the clock
        # the machine's 1e-9 vanishes in the rounding of a large virtual time
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As in the base class, with an order among timers of the same moment."""
        timer = _Timer(when, callback, args, self, context)
        self._timers += 1
        timer.tie = self._timers if self._random is None else self._random.random()
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def select(self, timeout: float | None) -> list[Any]:
        """Called once per iteration with the seconds to the next timer; 0: callbacks are ready,
        None: there is no timer."""
        if timeout is None:
            raise self._give_up(
                "deadlock: no callback is ready and no timer is set, so every task waits for ever"
            )
        if timeout > 0:
            self._iterations = 0
            self._now += timeout
            if self._limit is not None and self._now > self._limit:
                raise self._give_up(f"time is up: the limit is {self._limit} s")
        elif self._iterations < _MAX_ITERATIONS_PER_MOMENT:
            self._iterations += 1
        else:
            raise self._give_up(f"time stands still after {self._iterations} iterations")
        if self._random is not None and len(self._ready) > 1:
            self._ready.rotate(self._random.randrange(len(self._ready)))
        return []

    def _give_up(self, why: str) -> VirtualTimeError:
        error = VirtualTimeError(f"{why} (at {self._now:.3f} s)")
        # Tasks still have to be cancelled after this, which takes iterations and may take time.
        self._limit = None
        self._iterations = 0
        return error

    def _process_events(self, event_list: list[Any]) -> None:
        """No file descriptors, so no events."""

    def _write_to_self(self) -> None:
        """No system call blocks, so nothing has to be woken."""


def run(main: Coroutine[Any, Any, T], *, seed: int = 0, limit: float | None = None) -> T:
    """Runs `main` in virtual time and returns its result; like asyncio.run, it then cancels all
    other tasks.

    Raises VirtualTimeError when every task waits for ever, when time would pass `limit` seconds,
    and when time does not move for a million iterations of the loop."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(seed=seed, limit=limit)) as runner:
        return runner.run(main)
