"""How much is in every container that can be reached from an object, by class and attribute.

Whatever grows for ever ends a process that is meant to run for years, and no test of one behaviour shows it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

CONTAINERS = (dict, list, set, deque, tuple, frozenset)


def contents(root: object, *, within: tuple[str, ...], without: tuple[str, ...] = ()) -> Counter[str]:
    """Entries by `Class.attribute` of all objects whose classes come from these modules and from none of `without`;
    containers inside containers are counted under the same name. Functions are not looked into, bound methods are."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("root", root)]
    while waiting:
        place, value = waiting.pop()
        if id(value) in seen or isinstance(value, str | bytes | int | float | type(None)):
            continue
        seen.add(id(value))
        if isinstance(value, asyncio.Queue):
            value = value._queue  # type: ignore[attr-defined]
        if isinstance(value, CONTAINERS):
            found[place] += len(value)
            parts = (*value.keys(), *value.values()) if isinstance(value, Mapping) else tuple(value)
            waiting += [(place, part) for part in parts]
            continue
        owner = getattr(value, "__self__", None)
        module = type(value).__module__
        if owner is not None and not isinstance(owner, type):
            waiting.append((place, owner))
        elif module.startswith(within) and not module.startswith(without):
            waiting += [(f"{type(value).__name__}.{name}", part) for name, part in _attributes(value)]
    return +found


def _attributes(value: object) -> Iterator[tuple[str, Any]]:
    names = list(getattr(value, "__dict__", ()))
    if isinstance(value, msgspec.Struct):
        names += value.__struct_fields__
    for kind in type(value).__mro__:
        names += getattr(kind, "__slots__", ())
    for name in dict.fromkeys(names):
        if hasattr(value, name):
            yield name, getattr(value, name)
