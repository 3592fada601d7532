"""Follows every walk through a small model to its end: what the exhaustive tests share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def ends(starts: Iterable[N], steps: Callable[[N], Iterator[N]]) -> list[N]:
    """The nodes without a next step, of all that can be reached; fails on a walk without an end."""
    done: set[N] = set()
    quiet: list[N] = []
    for start in starts:
        _follow(start, steps, done, quiet)
    return quiet


def _follow(start: N, steps: Callable[[N], Iterator[N]], done: set[N], quiet: list[N]) -> None:
    """Depth first; a node met again on the path that led to it is a cycle."""
    path: dict[N, Iterator[N]] = {}
    node: N | None = start
    while node is not None or path:
        if node is not None and node not in done:
            assert node not in path, f"never comes to rest: {list(path)}"
            path[node] = steps(node)
        last = next(reversed(path), None)
        if last is None:
            return
        node = next(path[last], None)
        if node is None:
            path.popitem()
            done.add(last)
            if next(steps(last), None) is None:
                quiet.append(last)
