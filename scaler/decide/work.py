"""The work of a decision, counted and never timed: so it is the same on every machine."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Made = TypeVar("Made")

Steps = Generator[None, None, Made]
"""Work that may be interrupted after each step. The last step returns what was made."""


class Work:
    """How much was done so far. One unit is about a microsecond of the machine that CI runs on."""

    def __init__(self) -> None:
        self.units = 0


def all_of(steps: Steps[Made]) -> Made:
    """What is made, without an interruption."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: Made = end.value
            return made
