"""Amounts of nodes and pods: how many pods of one class have places on a node, and what it has left
over beside them. Values in, one value out.

An amount of a node stands at the index of its resource, a pod names only what it requests. With
resources (CPUs, NPUs), a node with (20, 8) free has two places for pods of ((0, 8), (1, 4)): 2 by
its CPUs, 2 by its NPUs. It has (4, 0) left over beside them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from scaler.decide.nodes import Amounts

PodAmounts = tuple[tuple[int, int], ...]
"""Amounts of one pod: (index of the resource, positive amount)."""


def times(pod: PodAmounts, free: Amounts) -> int:
    """How many such pods fit into the free amounts, which may be negative; 0 for a pod that
    requests nothing. The scarcest resource decides."""
    least = -1  # no resource was looked at
    for index, amount in pod:
        number = free[index] // amount
        if number <= 0:
            return 0
        if number < least or least < 0:
            least = number
    return max(least, 0)


def plus(amounts: Amounts, pod: PodAmounts, sign: int) -> Amounts:
    """The amounts with those of a pod added (sign 1) or taken away (sign -1)."""
    changed = list(amounts)
    for index, amount in pod:
        changed[index] += sign * amount
    return tuple(changed)


class Slack(NamedTuple):
    """What nodes have left over beside the places for pods of one class: smaller pods have to meet
    there before they take a place away."""

    most: int
    """The most places on one node."""
    least: dict[int, float]
    """Resource -> the least amount of other pods, for each place that they take away."""


def smallest_that_costs_a_place(free: int, request: int, places: int) -> float:
    """The least amount of other pods, for each place that they take away from a node, of one
    resource. `places`: how many pods with this request the node has room for.

    A node with 20 free has two places for pods of 8, and 4 left over. Other pods cost the first
    place when they take more than 4. They cost both when they take more than 4 + 8 = 12: 6 for each
    place. So no pods take a place away with less than 4 for each."""
    left_over = free - places * request
    for_the_first = float(left_over)
    for_each_of_all = (left_over + (places - 1) * request) / places
    return min(for_the_first, for_each_of_all)


def slack_of(pod: PodAmounts, nodes: Iterable[Amounts]) -> Slack:
    """The slack of nodes with these amounts free."""
    most = 0
    least: dict[int, float] = {}
    for free in nodes:
        places = times(pod, free)
        if not places:
            continue
        most = max(most, places)
        for resource, request in pod:
            costs = smallest_that_costs_a_place(free[resource], request, places)
            least[resource] = min(least.get(resource, costs), costs)
    return Slack(most, least)
