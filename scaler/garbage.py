"""Keeps the garbage collector from walking long-lived objects: each walk stops the loop, and of the
listed and decided objects almost none ever becomes garbage in a cycle."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

MANY = 50_000
"""Objects. If a decision makes more, its objects are never walked: one walk would last longer than
10 ms."""
ALL_AFTER = 1_000
"""Full collections until one walks all objects again: objects that were in use during a collection
may have become garbage since, some kilobytes per so many collections."""


@contextmanager
def what_stays_spared() -> Iterator[None]:
    """Inside, a full collection walks only objects made since the last one, except for one in
    `ALL_AFTER`."""
    collections = count(1)

    def sort_out(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:  # a full collection
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
    """Inside, no collection runs, because new objects stay: a first decision spent a third of its
    time on that."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if len(gc.get_objects(generation=0)) > MANY:
                gc.freeze()
            gc.enable()
