"""What was computed before, remembered in a limited number of bytes.

An `lru_cache` counts entries. What other people write may make each entry as large as they like,
and an entry stays when no object has its value any more. Here an entry is in one of two halves:

    kept, or asked for again -> new half
    the new half is full     -> it becomes the old half; what was in the old half is forgotten"""

from __future__ import annotations

import sys
from typing import Any, Generic, TypeVar

import msgspec

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

ENTRY = 100
"""Bytes of an entry beside its key and its value."""


class Remembered(Generic[K, V]):
    """Values by key, of which none is None. At most `most` bytes: what nobody has asked for since
    half of them was filled is forgotten. A value that is larger than that half is not kept."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._new: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._size = 0
        """Bytes of `_new`."""

    def __len__(self) -> int:
        return len(self._new.keys() | self._old.keys())

    def get(self, key: K) -> V | None:
        """The value; None if it was never kept, or is forgotten."""
        known = self._new.get(key)
        if known is None and self._old:
            known = self._old.pop(key, None)
            if known is not None:
                self.keep(key, known)
        return known

    def keep(self, key: K, value: V) -> V:
        """Remember the value, and return it."""
        size = bytes_of(key) + ENTRY
        if value is not key:
            size += bytes_of(value)
        if size > self.most // 2:
            return value
        if self._size + size > self.most // 2:
            self._old = self._new
            self._new = {}
            self._size = 0
        self._new[key] = value
        self._size += size
        return value


class Sharing:
    """Gives one object for equal ones, of which it remembers `most` bytes."""

    def __init__(self, most: int) -> None:
        self._known: Remembered[Any, Any] = Remembered(most)

    def __call__(self, value: T) -> T:
        known: T | None = self._known.get(value)
        if known is None:
            self._known.keep(value, value)
            return value
        return known


def bytes_of(value: Any) -> int:
    """Bytes that a value and its parts take: texts, numbers, tuples and other collections, records.
    A part that occurs twice counts twice."""
    size = sys.getsizeof(value)
    if isinstance(value, str | bytes | int | float):
        return size
    if isinstance(value, msgspec.Struct):
        return size + sum([bytes_of(getattr(value, name)) for name in value.__struct_fields__])
    if isinstance(value, dict):
        return size + bytes_of(tuple(value)) + bytes_of(tuple(value.values()))
    if isinstance(value, tuple | list | set | frozenset):
        return size + sum(map(bytes_of, value))
    return size
