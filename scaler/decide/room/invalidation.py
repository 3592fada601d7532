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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple

import msgspec

from scaler.decide.nodes import Amounts, PodRequest, PodRequests, Room
from scaler.decide.room.amounts import Slack, slack_of, times
from scaler.decide.room.pods import PodClass, by_restriction
from scaler.decide.room.search import Trial

Counts = Mapping[PodClass, int]
"""Pod class -> number of pods."""


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


class Taker(NamedTuple):
    """Pods of one class that can take places for pods of another class away."""

    pod_class: PodClass
    number: int
    taken: float
    """The most places that one of them takes away."""
    is_later: bool
    """The scheduler may bind them anywhere. The others were asked before, and have reservations."""


class _Near(msgspec.Struct, eq=False):
    classes: list[tuple[PodClass, float]]
    asked: int = 0
    """So many of the classes of the trial were asked."""


class Invalidation:
    """The question for one trial placement. It keeps what a pod takes from another: that depends on
    the two classes alone."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._all_near: dict[PodClass, _Near] = {}

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
            takers = self._takers(pod, before, unbound)
            uncounted = 0 if own else mine.get(pod, 0)
            if not self._is_safe(pod, takers, uncounted=uncounted):
                return True
            before[pod] = sum(pod.reserved)
        return False

    def _takers(self, pod: PodClass, before: Counts, unbound: Counts) -> list[Taker]:
        """The pods that can take places for such pods away."""
        takers = []
        for other, taken in self._near(pod):
            if other in before:
                takers.append(Taker(other, before[other], taken, is_later=False))
            elif other is not pod and other in unbound:
                takers.append(Taker(other, unbound[other], taken, is_later=True))
        return takers

    def _near(self, pod: PodClass) -> list[tuple[PodClass, float]]:
        """The classes of which a pod can take places for such pods away, and how many."""
        near = self._all_near.setdefault(pod, _Near([]))
        known = self._trial.pod_classes
        if near.asked < len(known):
            for other in islice(known.values(), near.asked, None):
                taken = places_taken(pod, other)
                if taken:
                    near.classes.append((other, taken))
            near.asked = len(known)
        return near.classes

    def _is_safe(self, pod: PodClass, takers: Sequence[Taker], *, uncounted: int) -> bool:
        """Whether the reserved pods of this class find places beside the takers that were asked
        before, wherever the scheduler binds the other takers on free room. True if at most
        `uncounted` pods are reserved."""
        for room in Room:
            if not pod.reserved[room]:
                continue
            wanted = sum(pod.reserved[: room + 1])
            if wanted <= uncounted:
                continue
            to_spare = self._trial.places(pod, room) - wanted
            if _lost(takers) > to_spare and (
                self._lost_within_reach(pod, room, takers) > to_spare
                and self._lost_of_slack(pod, room, takers) > to_spare
            ):
                return False
        return True

    # three bounds for the places that are lost; each alone is right, the later ones take longer

    def _lost_within_reach(self, pod: PodClass, room: Room, takers: Sequence[Taker]) -> int:
        """The later pods take away no more places than there are on nodes where one of them finds
        free room."""
        later = [taker for taker in takers if taker.is_later]
        before = [taker for taker in takers if not taker.is_later]
        return _lost(before) + min(self._places_within_reach(pod, room, later), _lost(later))

    def _lost_of_slack(self, pod: PodClass, room: Room, takers: Sequence[Taker]) -> int:
        """Pods that are smaller than what is left over beside the places have to meet."""
        slack = self._slack(pod, room)
        lost = 0.0
        for taker in takers:
            lost += places_taken(pod, taker.pod_class, slack) * taker.number
        return _whole(lost)

    def _places_within_reach(self, pod: PodClass, room: Room, later: Sequence[Taker]) -> int:
        """Places for such pods on nodes where a later pod finds free room."""
        places = self._trial.places(pod, room)
        for index, state in self._trial.states.items():
            free = state.whole[Room.FREE]
            has_more = state.whole[room] is not free
            if has_more and self._trial.nodes.class_of[index] in pod.classes:
                reached = any(times(taker.pod_class.amounts, free) for taker in later)
                places -= 0 if reached else times(pod.amounts, state.whole[room])
        return places

    def _slack(self, pod: PodClass, room: Room) -> Slack:
        if room is Room.FREE:
            return self._trial.nodes.fitting(pod.classes, pod.amounts).slack
        return slack_of(pod.amounts, self._whole_nodes(pod, room))

    def _whole_nodes(self, pod: PodClass, room: Room) -> Iterator[Amounts]:
        """The room of each candidate node, without reservations."""
        states = self._trial.states
        for free, index in self._trial.nodes.fitting(pod.classes, pod.amounts).entries:
            if index not in states:
                yield free
        for index, state in states.items():
            if self._trial.nodes.class_of[index] in pod.classes:
                yield state.whole[room]


def _lost(takers: Iterable[Taker]) -> int:
    """Each pod takes away as many places as it can."""
    lost = 0.0
    for taker in takers:
        lost += taker.taken * taker.number
    return _whole(lost)


def _whole(places: float) -> int:
    """Whole places: a part of one takes none. Sums of thirds may fall a hair short of a place."""
    return int(places + 1e-9)
