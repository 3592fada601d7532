"""Follows every walk through a small model to its end: what the exhaustive tests share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def ends(starts: Iterable[N], steps: Callable[[N], Iterator[N]]) -> list[N]:
    """The nodes without a next step, of all that can be reached; fails on a walk without an end."""

    def fail(path: Iterable[N]) -> None:
        raise AssertionError(f"never comes to rest: {list(path)}")

    return [node for node in left(starts, steps, fail) if next(steps(node), None) is None]


def left(
    starts: Iterable[N],
    steps: Callable[[N], Iterable[N]],
    on_cycle: Callable[[Iterable[N]], None] = lambda _: None,
) -> Iterator[N]:
    """Depth first, each node once, after all that it leads to (but on a cycle: `on_cycle` is called
    with it)."""
    done: set[N] = set()
    for start in starts:
        path: dict[N, Iterator[N]] = {} if start in done else {start: iter(steps(start))}
        while path:
            last = next(reversed(path))
            to = next(path[last], None)
            if to is None:
                path.popitem()
                done.add(last)
                yield last
            elif to in path:
                on_cycle(path)
            elif to not in done:
                path[to] = iter(steps(to))


def strongly_connected(edges: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Components, those that are led to first: the component of each node, and the members of each
    component."""
    back: list[list[int]] = [[] for _ in edges]
    for at, tos in enumerate(edges):
        for to in tos:
            back[to].append(at)
    component = [-1] * len(edges)
    components: list[list[int]] = []
    for root in reversed(list(left(range(len(edges)), back.__getitem__))):
        if component[root] < 0:
            members = list(left([root], lambda at: [to for to in edges[at] if component[to] < 0]))
            for at in members:
                component[at] = len(components)
            components.append(members)
    return component, components
