"""How many steps a function takes: the same on every machine and in every run. And a decision of a
test in place of the controller's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from scaler.decide.again import DecisionCache
from scaler.decide.decision import Decision
from scaler.decide.slices import SLICE, UnderWay
from scaler.decide.work import Steps, Work
from scaler.decide.world import World


class TooManyCallsError(Exception):
    """The function took more calls than were waited for."""


def calls_of(made: Callable[[], object], *, most: int = 200_000_000) -> int:
    """Function calls, those of C functions too; `most` when there are more."""
    number = 0

    def count(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal number
        if event in ("call", "c_call"):
            number += 1
            if number >= most:
                raise TooManyCallsError

    sys.setprofile(count)
    try:
        made()
    except TooManyCallsError:
        return most
    finally:
        sys.setprofile(None)
    return number


def in_one_slice(
    made: Callable[[World, DecisionCache], Decision],
) -> Callable[[World, DecisionCache], UnderWay]:
    """What `begin` of the controller gives, if this decides."""

    def steps(world: World, cache: DecisionCache) -> Steps[Decision]:
        yield
        return made(world, cache)

    return lambda world, cache: UnderWay(steps(world, cache), Work(), lambda: 0, SLICE)
