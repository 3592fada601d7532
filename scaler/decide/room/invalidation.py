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
from itertools import chain
from typing import NamedTuple

import msgspec

from scaler.decide.nodes import Amounts, PodRequest, PodRequests, Room
from scaler.decide.room.amounts import Slack, slack_of, times
from scaler.decide.room.pods import PodClass
from scaler.decide.room.search import Trial

LEVELS = tuple(Room)


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
    is_later: bool
    """The scheduler may bind them anywhere. The others were asked before, and have reservations."""


class _Count(NamedTuple):
    """Pods of one class."""

    reserved: int = 0
    unbound: int = 0
    """Those that the scheduler may bind."""


_NONE = _Count()


class _Change(NamedTuple):
    pod_class: PodClass
    before: _Count
    after: _Count


class _Lost(msgspec.Struct, eq=False):
    """The most places for pods of one class that all others can take away."""

    taken: dict[PodClass, float]
    """How many each pod of another class can take away."""
    slack: Slack | None = None
    """Pods that are smaller have to meet to take a place away; None = each takes one by itself."""
    places: float = 0.0
    changes: int = 0
    """So many changes of numbers are taken into account."""


class Invalidation:
    """The question for one trial placement. It keeps what a pod takes from another, which depends
    on the two classes alone, and the sums of what all take: with each question few numbers
    change."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._counts: dict[PodClass, _Count] = {}
        """As of the last question."""
        self._changes: list[_Change] = []
        """How they came about."""
        self._lost: dict[PodClass, _Lost] = {}
        self._lost_of_slack: dict[tuple[PodClass, Room, int], _Lost] = {}
        """The key holds all that the slack depends on."""
        self._answers: dict[object, bool] = {}
        """A time saver: as long as nothing is reserved or released, many ask the same."""

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
        before = tuple(with_the_scheduler)
        reserved = tuple([tuple(each.reserved) for each in trial.pod_classes.values()])
        key = (pods, before, own, reserved, trial.freed)
        if key not in self._answers:
            self._answers[key] = self._is_possible(pods, before, own=own)
        return self._answers[key]

    def _is_possible(
        self, pods: PodRequests, with_the_scheduler: PodRequests, *, own: bool
    ) -> bool:
        trial = self._trial
        mine = trial.counted(pods)
        involved = trial.reach(mine)
        if len(involved) < 2:  # its own reservations only
            return False
        self._count(trial.counted(chain(pods, with_the_scheduler)))
        for pod in involved:
            uncounted = 0 if own else mine.get(pod, 0)
            if not self._is_safe(pod, uncounted):
                return True
        return False

    def _count(self, unbound: Mapping[PodClass, int]) -> None:
        """Note which numbers are other than with the last question."""
        for pod in self._trial.pod_classes.values():
            before = self._counts.get(pod, _NONE)
            reserved = sum(pod.reserved)
            number = unbound.get(pod, 0)
            if before.reserved != reserved or before.unbound != number:
                after = self._counts[pod] = _Count(reserved, number)
                self._changes.append(_Change(pod, before, after))

    def _is_safe(self, pod: PodClass, uncounted: int) -> bool:
        """Whether the reserved pods of this class find places beside the pods that were asked
        before, wherever the scheduler binds the others on free room. True if at most `uncounted`
        pods are reserved."""
        for room in LEVELS:
            if not pod.reserved[room]:
                continue
            wanted = sum(pod.reserved[: room + 1])
            if wanted <= uncounted:
                continue
            to_spare = self._trial.places(pod, room) - wanted
            if self._lost_places(pod).places > to_spare and self._may_lack(pod, room, to_spare):
                return False
        return True

    def _may_lack(self, pod: PodClass, room: Room, to_spare: int) -> bool:
        """Whether more places may be lost than are to spare, by the bounds that take longer."""
        return (
            self._places_lost_of_slack(pod, room) > to_spare
            and self._lost_within_reach(pod, room, self._takers(pod)) > to_spare
        )

    def _takers(self, pod: PodClass) -> list[Taker]:
        """The pods that can take places for such pods away."""
        takers = []
        taken = self._lost_places(pod).taken
        for other, count in self._counts.items():
            is_later = other.rank > pod.rank or not count.reserved
            number = _takers(count, is_later=is_later)
            if number and taken.get(other):
                takers.append(Taker(other, number, is_later))
        return takers

    # three bounds for the places that are lost; each alone is right, the later ones take longer

    def _lost_places(self, pod: PodClass) -> _Lost:
        """Each pod takes away as many places as it can."""
        lost = self._lost.get(pod)
        if lost is None:
            lost = self._lost[pod] = _Lost({})
        return self._up_to_date(lost, pod)

    def _up_to_date(self, lost: _Lost, pod: PodClass) -> _Lost:
        for change in self._changes[lost.changes :]:
            other = change.pod_class
            if other is pod:
                continue
            if other not in lost.taken:
                lost.taken[other] = places_taken(pod, other, lost.slack)
            is_later = other.rank > pod.rank
            more = _takers(change.after, is_later=is_later) - _takers(
                change.before, is_later=is_later
            )
            lost.places += lost.taken[other] * more
        lost.changes = len(self._changes)
        return lost

    def _lost_within_reach(self, pod: PodClass, room: Room, takers: Sequence[Taker]) -> int:
        """The later pods take away no more places than there are on nodes where one of them finds
        free room."""
        taken = self._lost[pod].taken
        before = 0.0
        later = 0.0
        for taker in takers:
            lost = taken[taker.pod_class] * taker.number
            if taker.is_later:
                later += lost
            else:
                before += lost
        within = self._places_within_reach(pod, room, [one for one in takers if one.is_later])
        return _whole(before + min(within, later))

    def _places_lost_of_slack(self, pod: PodClass, room: Room) -> int:
        """Pods that are smaller than what is left over beside the places have to meet."""
        key = (pod, room, self._trial.freed)
        lost = self._lost_of_slack.get(key)
        if lost is None:
            lost = self._lost_of_slack[key] = _Lost({}, self._slack(pod, room))
        return _whole(self._up_to_date(lost, pod).places)

    def _places_within_reach(self, pod: PodClass, room: Room, later: Sequence[Taker]) -> int:
        """Places for such pods on nodes where a later pod finds free room."""
        places = self._trial.places(pod, room)
        for index, state in self._trial.states.items():
            free = state.whole[Room.FREE]
            has_more = state.whole[room] is not free
            if has_more and self._trial.nodes.class_of[index] in pod.classes:
                reached = any(
                    taker.pod_class.rounded or times(taker.pod_class.amounts, free)
                    for taker in later
                )
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


def _takers(count: _Count, *, is_later: bool) -> int:
    """How many pods of a class can take places away. One that is asked before has reservations,
    which stand for what the scheduler may bind."""
    return count.unbound if is_later or not count.reserved else count.reserved


def _whole(places: float) -> int:
    """Whole places: a part of one takes none. Sums of thirds may fall a hair short of a place."""
    return int(places + 1e-9)
