"""Pods that ask for the same: what they take from each other on the nodes of a trial placement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from scaler.decide.nodes import Room
from scaler.decide.pools import Asked, Entry, Pools


class Slack(NamedTuple):
    """What pods must take to destroy places for another kind of pod."""

    most: float = math.inf
    """So many places are on a node at the most."""
    least: Mapping[int, float] = {}
    """By resource: what must be taken for each destroyed place at the least, on average."""


def least_taken(there: int, amount: int, number: int) -> float:
    """The first of so many places costs what is left over as well, each further one such an amount."""
    over = there - number * amount
    return min(over, (over + (number - 1) * amount) / number)


class Ask:
    """Pods with the same candidate nodes and amounts, at any room."""

    def __init__(self, asked: Asked, pools: Pools, size: int) -> None:
        self.asked, self.pools, self.amounts = asked, pools, dict(asked)
        self.rank = (size, tuple((index, -amount) for index, amount in asked), tuple(sorted(pools)))
        """Sorts the most restricted first: of few nodes, then the largest."""
        self.orders: dict[Room, list[Entry]] = {}
        """Nodes with room for it now, sorted. Some entries may be out of date."""
        self.read: dict[Room, int] = {}
        """So much of the log is considered in `orders`."""
        self.seated = [0, 0, 0, 0]
        """Reserved pods, by room."""
        self.places: dict[Room, int] = {}
        self.slack: dict[Room, Slack] = {}
        self._losses: dict[Ask, float] = {}
        self._shares: dict[Ask, int] = {}

    def share(self, pod: Ask) -> int:
        """How many places for this ask such a pod takes at the least, wherever it sits."""
        if pod not in self._shares:
            shares = [pod.amounts.get(index, 0) // amount for index, amount in self.asked]
            self._shares[pod] = min(shares, default=0) if pod.pools <= self.pools else 0
        return self._shares[pod]

    def lost(self, foreign: Mapping[Ask, int], slack: Slack | None = None) -> int:
        """How many places for this ask these pods destroy at the most, wherever they sit."""
        return int(sum([self._loss(pod, slack) * count for pod, count in foreign.items()]) + 1e-9)

    def _loss(self, pod: Ask, slack: Slack | None) -> float:
        """Those of one pod. Pods that take less than the slack share the loss of a place."""
        if slack is None and pod in self._losses:
            return self._losses[pod]
        most, least = slack or Slack()
        losses = [0.0]
        for index, takes in pod.asked if not self.pools.isdisjoint(pod.pools) else ():
            if index in self.amounts:
                whole = min(most, -(-takes // self.amounts[index]))
                losses.append(takes / least[index] if takes < least.get(index, 0) else whole)
        if slack is None:
            self._losses[pod] = max(losses)
        return max(losses)
