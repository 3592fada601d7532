"""Whether the scheduler, which knows no reservations, can invalidate one: 3b.6b and 3b.7b of the
contract.

The scheduler may bind what it has on any node with free room. So for each class of reserved pods
the worst case is counted:

    to spare = places on all nodes - reserved pods
    lost     = the most places that all pods with the scheduler can take away, wherever they go

No reservation of the class is invalidated while `lost <= to spare`.

An example: three nodes have 8 free each, so there are three places for pods of 8. Two are reserved,
one is to spare. One pod of 4 with the scheduler can take one place away: nothing is invalidated.
Two pods of 4, on two nodes, can take two away, and one reservation has no place any more.

Small pods have to meet on a node to take a place away. A node with 20 free has two
places for pods of 8, and 4 left over: pods of 2 take no place away before they fill the 4.
`smallest_that_costs_a_place` says how much they take for each place.

The answer is yes where it is not sure. Must not reserve anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from scaler.decide.nodes import Amounts, PodRequest, PodRequests, Room
from scaler.decide.room.classes import times
from scaler.decide.room.pods import PodClass, by_restriction
from scaler.decide.room.search import Trial

Counts = Mapping[PodClass, int]
"""Pod class -> number of pods."""


class Slack(NamedTuple):
    """What the nodes have left over beside the places for pods of one class."""

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


def places_taken(pod: PodClass, other: PodClass, slack: Slack | None = None) -> float:
    """The most places for such pods that one pod of the other class can take away. A pod of 9 can
    take away two places for pods of 8. Several pods that are smaller than the slack take away one
    place together: each counts as a part of it."""
    most = 0.0
    if pod.classes.isdisjoint(other.classes):
        return most
    for resource, amount in other.amounts:
        if resource not in pod.by_resource:
            continue
        taken: float = -(-amount // pod.by_resource[resource])
        if slack is not None:
            least = slack.least.get(resource, 0.0)
            taken = amount / least if amount < least else min(slack.most, taken)
        most = max(most, taken)
    return most


class Invalidation:
    """The question for one trial placement. It keeps what a pod takes from another: that depends on
    the two classes alone."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._places_taken: dict[PodClass, dict[PodClass, float]] = {}

    def is_possible(
        self,
        pods: PodRequests,
        with_the_scheduler: Iterable[tuple[PodRequest, int]],
        *,
        own: bool = True,
    ) -> bool:
        """Whether the scheduler may invalidate a reservation by binding `pods` and the pods
        `with_the_scheduler`. Counts reservations within reach of `pods`, their own only if `own`.
        All these pods have to be reserved, at the least room of their kind.

        The classes are asked in the order of restriction. A class that has been asked is safe, so
        its reserved pods stand for what it takes from the next, wherever they are bound."""
        trial = self._trial
        mine = trial.counted(pods)
        involved = trial.reach(mine)
        if len(involved) < 2:  # its own reservations only
            return False
        unbound = trial.counted(chain(pods, with_the_scheduler))
        before = dict[PodClass, int]()
        for pod in sorted(involved, key=by_restriction):
            later = _without(unbound, pod, before)
            uncounted = 0 if own else mine.get(pod, 0)
            if not self._is_safe(pod, before, later, uncounted=uncounted):
                return True
            before[pod] = sum(pod.reserved)
        return False

    def _is_safe(self, pod: PodClass, before: Counts, later: Counts, *, uncounted: int) -> bool:
        """Whether the reserved pods of this class find places beside the pods of `before`, wherever
        the scheduler binds the pods of `later` on free room. True if at most `uncounted` pods are
        reserved."""
        for room in Room:
            if not pod.reserved[room]:
                continue
            wanted = sum(pod.reserved[: room + 1])
            if wanted <= uncounted:
                continue
            to_spare = self._trial.places(pod, room) - wanted
            if self._lost(pod, before, later) > to_spare and (
                self._lost_within_reach(pod, room, before, later) > to_spare
                and self._lost_of_slack(pod, room, before, later) > to_spare
            ):
                return False
        return True

    # three bounds for the places that are lost; each alone is right, the later ones take longer

    def _lost(self, pod: PodClass, *parts: Counts) -> int:
        """Each pod takes away as many places as it can."""
        taken = self._places_taken.setdefault(pod, {})
        lost = 0.0
        for part in parts:
            for other, number in part.items():
                if other not in taken:
                    taken[other] = places_taken(pod, other)
                lost += taken[other] * number
        return _whole(lost)

    def _lost_within_reach(self, pod: PodClass, room: Room, before: Counts, later: Counts) -> int:
        """The pods of `later` take away no more places than there are on nodes where one of them
        finds free room."""
        within = self._places_within_reach(pod, room, later)
        return self._lost(pod, before) + min(within, self._lost(pod, later))

    def _lost_of_slack(self, pod: PodClass, room: Room, before: Counts, later: Counts) -> int:
        """Pods that are smaller than what is left over beside the places have to meet."""
        slack = self._slack(pod, room)
        lost = 0.0
        for part in (before, later):
            for other, number in part.items():
                lost += places_taken(pod, other, slack) * number
        return _whole(lost)

    def _places_within_reach(self, pod: PodClass, room: Room, later: Iterable[PodClass]) -> int:
        """Places for such pods on nodes where a pod of `later` finds free room."""
        places = self._trial.places(pod, room)
        for index, state in self._trial.states.items():
            free = state.whole[Room.FREE]
            has_more = state.whole[room] is not free
            if has_more and self._trial.nodes.class_of[index] in pod.classes:
                reached = any(times(other.amounts, free) for other in later)
                places -= 0 if reached else times(pod.amounts, state.whole[room])
        return places

    def _slack(self, pod: PodClass, room: Room) -> Slack:
        most = 0
        least: dict[int, float] = {}
        for free in self._whole_nodes(pod, room):
            places = times(pod.amounts, free)
            if not places:
                continue
            most = max(most, places)
            for resource, request in pod.amounts:
                costs = smallest_that_costs_a_place(free[resource], request, places)
                least[resource] = min(least.get(resource, costs), costs)
        return Slack(most, least)

    def _whole_nodes(self, pod: PodClass, room: Room) -> Iterator[Amounts]:
        """The room of each candidate node, without reservations."""
        states = self._trial.states
        for free, index in self._trial.nodes.fitting(pod.classes, pod.amounts).entries:
            if index not in states:
                yield free
        for index, state in states.items():
            if self._trial.nodes.class_of[index] in pod.classes:
                yield state.whole[room]


def _without(counts: Counts, pod: PodClass, others: Iterable[PodClass]) -> dict[PodClass, int]:
    left = dict(counts)
    left.pop(pod, None)
    for other in others:
        left.pop(other, None)
    return left


def _whole(places: float) -> int:
    """Whole places: a part of one takes none. Sums of thirds may fall a hair short of a place."""
    return int(places + 1e-9)
