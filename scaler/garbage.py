"""The garbage collector, kept from walking what stays: a walk stops the loop, and of what has been listed and decided
almost nothing ever becomes garbage in a cycle."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

MANY = 50_000
"""Of a decision that makes more nothing is walked at all: that would last longer than 10 ms."""
OLDEST = 2
"""The generation of a full collection."""
ALL_AFTER = 1_000
"""Full collections until one walks everything again: objects that were in use during a collection may have become
garbage since, a few kilobytes in so many."""


@contextmanager
def what_stays_spared() -> Iterator[None]:
    """Meanwhile a full collection walks only what was made since the last one, but for one in `ALL_AFTER`."""
    collections = count(1)

    def sort_out(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == OLDEST:
            gc.freeze()
            if next(collections) % ALL_AFTER == 0:
                gc.unfreeze()

    gc.callbacks.append(sort_out)
    try:
        yield
    finally:
        gc.callbacks.remove(sort_out)
        gc.unfreeze()


@contextmanager
def no_collection() -> Iterator[None]:
    """What is made meanwhile stays, so none of it is looked at: in a first decision that took a third of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if len(gc.get_objects(generation=0)) > MANY:
                gc.freeze()
            gc.enable()
