"""Finds a seat for every pod of a list, or for none: greedily, and by trying everything where that does not do.

Trying is bounded in steps, and leaves the pools as they were when it fails. Must not know what the pods belong to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from scaler.decide.room.pools import Amounts, Ask, Node, Pool


class Seat(msgspec.Struct, eq=False):
    """One seated pod."""

    ask: Ask
    node: Node
    before: Amounts
    """What was free on the node without it."""


def sit(ask: Ask, free: Amounts, pool: Pool) -> Seat:
    """Seat one pod on some node of the pool with exactly so much free."""
    return Seat(ask, pool.take(free, ask), free)


def leave(seats: list[Seat]) -> None:
    """Take all of these pods off their nodes; the list is empty then."""
    while seats:
        seat = seats.pop()
        seat.node.pool.give_back(seat.node, seat.ask)


def sit_again(seats: Sequence[Seat]) -> None:
    """Seat pods that have left on the very nodes that they had."""
    for seat in seats:
        seat.node.pool.take_again(seat.node, seat.ask)


def greedily(pods: Sequence[Ask]) -> list[Seat] | None:
    """Each pod in turn on the node that is fullest with it; None when one finds none."""
    seats: list[Seat] = []
    for ask in pods:
        found = best(ask)
        if found is None:
            leave(seats)
            return None
        seats.append(sit(ask, *found))
    return seats


def best(ask: Ask) -> tuple[Amounts, Pool] | None:
    """The node that is fullest with the pod, as its free amounts and pool."""
    found = min([choice for pool in ask.pools if (choice := pool.best(ask)) is not None], default=None)
    return None if found is None else (found[0], found[3])


class Search:
    """Tries one pod after the other on every different node, back and forth. To be iterated once."""

    def __init__(self, pods: Sequence[Ask], steps: int) -> None:
        self._pods = pods
        self._seats: list[Seat] = []
        self._done: set[object] = set()
        """Ways to seat the first pods from which all ways to seat the rest were tried."""
        self.steps = steps
        """Steps that are left; 0 at the end: not everything was tried."""

    def first(self) -> list[Seat] | None:
        """All pods seated, or None and nothing is taken."""
        for seats in self:
            return seats
        return None

    def stop(self) -> None:
        """Look no further; all pods leave their seats."""
        leave(self._seats)

    def __iter__(self) -> Iterator[list[Seat]]:
        """Every way to seat all pods that differs in what is left free. They sit until the next is asked for."""
        levels = [self._options()] if self._pods else []
        while levels and self.steps > 0:
            self.steps -= 1
            option = next(levels[-1], None)
            if option is None:
                levels.pop()
                self._done.add(self._mark())
                leave_last(self._seats)
            elif self._advance(*option):
                if len(self._seats) < len(self._pods):
                    levels.append(self._options())
                    continue
                yield self._seats
                self._done.add(self._mark())
                leave_last(self._seats)
        leave(self._seats)

    def _advance(self, free: Amounts, pool: Pool) -> bool:
        """Seat the next pod; False (and it is not seated) when that is known to lead nowhere."""
        self._seats.append(sit(self._pods[len(self._seats)], free, pool))
        if self._done and self._mark() in self._done:
            leave_last(self._seats)
            return False
        return True

    def _options(self) -> Iterator[tuple[Amounts, Pool]]:
        ask = self._pods[len(self._seats)]
        found = [(free, pool.number, pool) for pool in ask.pools for free in pool.fitting(ask)]
        return ((free, pool) for free, _, pool in sorted(found))

    def _mark(self) -> object:
        """How many pods sit, and what that made of the nodes: alike nodes are one."""
        nodes: dict[Node, Amounts] = {}
        for seat in self._seats:
            nodes.setdefault(seat.node, seat.before)
        marks = ((node.pool.number, before, node.free) for node, before in nodes.items())
        return len(self._seats), tuple(sorted(marks))


def leave_last(seats: list[Seat]) -> None:
    """Take the pod that was seated last off its node, if there is any."""
    if seats:
        last = seats.pop()
        last.node.pool.give_back(last.node, last.ask)
