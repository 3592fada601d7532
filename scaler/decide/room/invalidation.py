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

Places for blocks (`blocks.py`) are blocks. The scheduler may put a pod into any super-pod with a
free node, where it may cost a block: `most_blocks_lost`.

The answer is yes where it is not sure, and where more than `MOST_CLASSES` unlike pods are reserved.
Must not reserve anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from math import inf
from operator import gt, ne
from typing import NamedTuple

import msgspec

from scaler.decide.nodes import Amounts, PodRequest, PodRequests, Room
from scaler.decide.room.amounts import Slack, slack_of, times
from scaler.decide.room.blocks import blocks_in, blocks_taken, most_blocks_lost
from scaler.decide.room.classes import Classes, NodeSets
from scaler.decide.room.pods import PodClass
from scaler.decide.room.search import Trial
from scaler.decide.work import Steps, all_of

LEVELS = tuple(Room)
ROWS_OF_STEP = 16
"""So many classes of pods are taken into account in one step."""
UNITS_OF_ROW = 15
"""The work of making a row longer, beside that for each class."""
UNITS_OF_DOUBT = 8
"""The work of asking about a class of which more may be lost than is to spare."""
MOST_CLASSES = 256
"""The largest number of classes of reserved pods about which the answer may be no (3b.10c): each
is weighed against each other."""


def places_taken_of_slack(pod: PodClass, other: PodClass, slack: Slack) -> float:
    """The most places for such pods that one pod of the other class can take away. A pod of 9 can
    take away two places for pods of 8. Several pods that are smaller than the slack take away one
    place together: each counts as a part of it."""
    most = 0.0
    if pod.classes.isdisjoint(other.classes):
        return most
    for resource, amount in other.amounts:
        if resource in pod.by_resource:
            least = slack.least.get(resource, 0.0)
            if amount < least:
                taken = amount / least
            else:
                taken = min(slack.most, -(-amount // pod.by_resource[resource]))
            most = max(most, taken)
    return most * max(1, other.block)


class Taker(NamedTuple):
    """Pods of one class that can take places for pods of another class away."""

    pod_class: PodClass
    taken: int
    """How many places all of them take away at most."""
    is_later: bool
    """The scheduler may bind them anywhere. The others were asked before, and have reservations."""


class _Count(NamedTuple):
    """Pods of one class."""

    reserved: int = 0
    unbound: int = 0
    """Those that the scheduler may bind."""

    def takers(self, *, is_later: bool) -> int:
        """How many of them can take places away. A class that is asked before has reservations,
        which stand for what the scheduler may bind."""
        return self.unbound if is_later or not self.reserved else self.reserved


class _Change(NamedTuple):
    """A number of pods that can take places away is another one."""

    pod_class: PodClass
    later: int
    """So many more where they are asked later."""
    earlier: int
    """So many more where they are asked before."""


class _Row(msgspec.Struct, eq=False):
    """One class of pods, and what one pod of it takes from each class, by the number of its
    row."""

    pod_class: PodClass
    number: int
    by_room: tuple[int, ...] = ()
    """Reserved pods, by `Room`."""
    count: _Count = _Count()
    from_earlier: list[int] = []
    """Places that one pod takes from each class that is asked before; 0 for all others."""
    from_later: list[int] = []
    """Places that one pod takes from each class that is asked later; 0 for all others."""

    def changed_to(self, after: _Count) -> _Change:
        """What is other with this count."""
        before = self.count
        return _Change(
            self.pod_class,
            after.unbound - before.unbound,
            after.takers(is_later=False) - before.takers(is_later=False),
        )


class _LostOfSlack(msgspec.Struct, eq=False):
    """The places for pods of one class that all others can take away, where those that are smaller
    than the slack have to meet."""

    slack: Slack
    taken: dict[PodClass, float]
    """How many each pod of another class can take away."""
    places: float = 0.0
    changes: int = 0
    """So many changes are taken into account."""

    def after(self, change: _Change, pod: PodClass) -> float:
        """How many more are lost by a change."""
        other = change.pod_class
        if other is pod:
            return 0.0
        if other not in self.taken:
            self.taken[other] = places_taken_of_slack(pod, other, self.slack)
        return self.taken[other] * (change.later if other.rank > pod.rank else change.earlier)


class _Takes:
    """How many places pods of each class take away from each other: a table that grows."""

    def __init__(self) -> None:
        self._pod_classes: list[PodClass] = []
        self._requests: dict[int, list[int]] = {}
        """Resource -> what one pod of each class requests of it; 0 = nothing."""

    def __len__(self) -> int:
        return len(self._pod_classes)

    def add(self, pod: PodClass) -> None:
        for resource in pod.by_resource:
            self._requests.setdefault(resource, [0] * len(self))
        for resource, requests in self._requests.items():
            requests.append(pod.by_resource.get(resource, 0))
        self._pod_classes.append(pod)

    def taken_by(self, pod: PodClass, first: int) -> tuple[list[int], list[int]]:
        """The places that one such pod takes away from each class, from the one with number `first`
        on: from those that are asked earlier, and from those that are asked later. A pod of 9 can
        take away two places for pods of 8. It does not take from its own class."""
        others = self._pod_classes[first:]
        taken = [0] * len(others)
        for resource, amount in pod.amounts:
            requests = self._requests[resource][first:]
            if any(requests):
                taken = _most(taken, amount, requests)
        sets = {other.classes for other in others}
        apart = {classes for classes in sets if classes.isdisjoint(pod.classes)}
        if apart:
            taken = [
                0 if other.classes in apart else n for other, n in zip(others, taken, strict=True)
            ]
        if pod.block or any(other.block for other in others):
            taken = [_of_blocks(n, other, pod) for n, other in zip(taken, others, strict=True)]
        is_earlier = [other.rank < pod.rank for other in others]
        from_earlier = [n if earlier else 0 for n, earlier in zip(taken, is_earlier, strict=True)]
        from_later = [0 if earlier else n for n, earlier in zip(taken, is_earlier, strict=True)]
        for number, other in enumerate(others):
            if other is pod:
                from_later[number] = 0
        return from_earlier, from_later


class Losses:
    """For each class of pods: the places to spare, and the places that all others can take away,
    each as many as it can. Kept from question to question: a number that changes costs one pass
    over the classes, a question that changes nothing costs none."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._rows: dict[PodClass, _Row] = {}
        self._takes = _Takes()
        self._freed = -1
        self._with_scheduler: PodRequests = ()
        self._to_spare: list[float] = []
        """By row: the least places to spare at any level of room; infinite where nothing is
        reserved."""
        self._lost: list[int] = []
        """By row: the places that are lost."""
        self.changes: list[_Change] = []
        """All changes of numbers so far."""
        self.version = 0
        """Another one when something changed that an answer depends on."""

    def follow(self, with_the_scheduler: PodRequests) -> Steps[None]:
        """Take into account what was reserved and released since the last question, and what is
        with the scheduler now."""
        last = self._with_scheduler
        if with_the_scheduler != last:
            self._with_scheduler = with_the_scheduler
            differ = list(map(ne, last, with_the_scheduler))
            gone = [*compress(last, differ), *last[len(differ) :]]
            come = [*compress(with_the_scheduler, differ), *with_the_scheduler[len(differ) :]]
            yield from self._count_unbound(gone, -1)
            yield from self._count_unbound(come, 1)
        touched = list(self._trial.touched)
        for first in range(0, len(touched), ROWS_OF_STEP):
            some = touched[first : first + ROWS_OF_STEP]
            yield from self._add_rows(some)
            for pod in some:
                self._count_reserved(self._rows[pod])
            self._trial.touched.difference_update(some)
            yield
        if self._freed != self._trial.freed:
            self._freed = self._trial.freed
            self.version += 1
            for row in self._rows.values():
                self._to_spare[row.number] = self._least_to_spare(row.pod_class)

    def with_more(self, pods: Mapping[PodClass, int]) -> Steps[list[_Change]]:
        """What changes if so many more pods are with the scheduler."""
        changes = []
        yield from self._add_rows(pods)
        for pod, more in pods.items():
            row = self._rows[pod]
            changes.append(row.changed_to(row.count._replace(unbound=row.count.unbound + more)))
        return changes

    def lost_after(self, changes: Iterable[_Change]) -> list[int]:
        """The places that are lost, by row, after these changes too."""
        lost = self._lost
        for change in changes:
            self._trial.nodes.work.units += 5 + len(lost) // 16
            row = self._rows[change.pod_class]
            if change.later:
                lost = _sums(lost, row.from_earlier, change.later)
            if change.earlier:
                lost = _sums(lost, row.from_later, change.earlier)
        return lost

    def in_doubt(self, lost: Sequence[int]) -> Iterator[PodClass]:
        """The classes of which more places may be lost than are to spare."""
        return compress(self._rows, map(gt, lost, self._to_spare))

    def takers(self, pod: PodClass, more: Mapping[PodClass, int]) -> list[Taker]:
        """The pods that can take places for such pods away, if so `more` are with the scheduler."""
        at = self._rows[pod].number
        takers = []
        for other, row in self._rows.items():
            count = row.count._replace(unbound=row.count.unbound + more.get(other, 0))
            is_later = other.rank > pod.rank or not count.reserved
            each = row.from_earlier[at] + row.from_later[at]
            taken = each * count.takers(is_later=is_later)
            if taken:
                takers.append(Taker(other, taken, is_later))
        return takers

    def _add_rows(self, pods: Iterable[PodClass]) -> Steps[None]:
        """A row for each of these classes that has none, all other rows longer by them."""
        first = len(self._rows)
        for pod in pods:
            if pod not in self._rows:
                self._rows[pod] = _Row(pod, len(self._rows))
                self._takes.add(pod)
        if len(self._rows) == first:
            return
        lost = [0] * (len(self._rows) - first)
        for pod, row in self._rows.items():
            self._trial.nodes.work.units += len(lost) + UNITS_OF_ROW
            yield
            from_earlier, from_later = self._takes.taken_by(pod, len(row.from_earlier))
            row.from_earlier += from_earlier
            row.from_later += from_later
            if row.count != _Count():
                lost = _sums(lost, from_earlier, row.count.takers(is_later=True))
                lost = _sums(lost, from_later, row.count.takers(is_later=False))
        self._lost = self._lost + lost
        self._to_spare += [inf] * len(lost)

    def _count_unbound(self, pods: Iterable[tuple[PodRequest, int]], sign: int) -> Steps[None]:
        counted = self._trial.counted(pods)
        yield from self._add_rows(counted)
        for pod, number in counted.items():
            row = self._rows[pod]
            self._set(row, row.count._replace(unbound=row.count.unbound + sign * number))

    def _count_reserved(self, row: _Row) -> None:
        by_room = tuple(row.pod_class.reserved)
        if by_room == row.by_room:
            return
        row.by_room = by_room
        reserved = sum(by_room)
        self._set(row, row.count._replace(reserved=reserved))
        self._to_spare[row.number] = self._least_to_spare(row.pod_class)

    def _set(self, row: _Row, after: _Count) -> None:
        change = row.changed_to(after)
        row.count = after
        self._lost = self.lost_after([change])
        self.changes.append(change)
        self.version += 1

    def _least_to_spare(self, pod: PodClass) -> float:
        least = inf
        for room in LEVELS:
            if pod.reserved[room]:
                least = min(least, self._trial.places(pod, room) - sum(pod.reserved[: room + 1]))
        return least


class Invalidation:
    """The question for one trial placement. It keeps the sums from question to question: few
    numbers change."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._losses = Losses(trial)
        self._lost_of_slack: dict[tuple[PodClass, Room, int], _LostOfSlack] = {}
        """The key holds all that the slack depends on."""
        self._answers: dict[object, bool] = {}
        """A time saver: as long as nothing is reserved or released, many ask the same."""
        self._answered = 0
        """`Losses.version` of the answers."""
        self._reached: dict[tuple[int, Classes], frozenset[PodClass]] = {}
        """A time saver: `Trial.reserved_version` and classes of nodes -> the reserved classes
        within their reach."""

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
        return all_of(self.asking(pods, with_the_scheduler, own=own))

    def asking(
        self,
        pods: PodRequests,
        with_the_scheduler: Iterable[tuple[PodRequest, int]],
        *,
        own: bool = True,
    ) -> Steps[bool]:
        """As `is_possible`, step by step: where much was reserved since the last question, the
        answer takes long. Nothing may be reserved meanwhile."""
        mine = self._trial.counted(pods)
        involved = self._reach(Classes().union(*[pod.classes for pod in mine]))
        if len(involved) < 2:  # its own reservations only
            return False
        if len(involved) > MOST_CLASSES:
            return True
        losses = self._losses
        yield from losses.follow(tuple(with_the_scheduler))
        if self._answered != losses.version:
            self._answered = losses.version
            self._answers.clear()
        key = (pods, own)
        if key not in self._answers:
            self._answers[key] = yield from self._answer(mine, involved, own=own)
        return self._answers[key]

    def _answer(
        self, mine: Mapping[PodClass, int], involved: frozenset[PodClass], *, own: bool
    ) -> Steps[bool]:
        more = yield from self._losses.with_more(mine)
        lost = self._losses.lost_after(more)
        for pod in self._losses.in_doubt(lost):
            self._trial.nodes.work.units += UNITS_OF_DOUBT
            yield
            uncounted = 0 if own else mine.get(pod, 0)
            if pod in involved and not self._is_safe(pod, uncounted, mine, more):
                return True
        return False

    def _reach(self, classes: Classes) -> frozenset[PodClass]:
        """The classes of reserved pods within reach of these classes of nodes."""
        key = (self._trial.reserved_version, classes)
        if key not in self._reached:
            self._reached[key] = frozenset(self._trial.reach(classes))
        return self._reached[key]

    def _is_safe(
        self,
        pod: PodClass,
        uncounted: int,
        mine: Mapping[PodClass, int],
        more: Sequence[_Change],
    ) -> bool:
        """Whether the reserved pods of this class find places beside the pods that were asked
        before, wherever the scheduler binds the others on free room. True if at most `uncounted`
        pods are reserved. The places that each pod takes away by itself do not suffice to say so:
        two bounds that take longer are asked."""
        for room in LEVELS:
            if not pod.reserved[room]:
                continue
            wanted = sum(pod.reserved[: room + 1])
            if wanted <= uncounted:
                continue
            to_spare = self._trial.places(pod, room) - wanted
            if pod.block:
                lost = self._blocks_lost(pod, room, mine)
            else:
                lost = self._places_lost_of_slack(pod, room, more)
            if lost > to_spare and self._lost_within_reach(pod, room, mine) > to_spare:
                return False
        return True

    def _places_lost_of_slack(self, pod: PodClass, room: Room, more: Sequence[_Change]) -> int:
        """Pods that are smaller than what is left over beside the places have to meet."""
        key = (pod, room, self._trial.freed)
        lost = self._lost_of_slack.get(key)
        if lost is None:
            lost = self._lost_of_slack[key] = _LostOfSlack(self._slack(pod, room), {})
            self._trial.nodes.work.units += self._trial.nodes.size.total()
        changes = self._losses.changes
        self._trial.nodes.work.units += len(changes) - lost.changes
        for change in changes[lost.changes :]:
            lost.places += lost.after(change, pod)
        lost.changes = len(changes)
        return _whole(lost.places + sum([lost.after(change, pod) for change in more]))

    def _lost_within_reach(self, pod: PodClass, room: Room, mine: Mapping[PodClass, int]) -> int:
        """The later pods take away no more places than there are on nodes where one of them finds
        free room."""
        before = 0
        later = 0
        may_be_anywhere = []
        for taker in self._losses.takers(pod, mine):
            if taker.is_later:
                later += taker.taken
                may_be_anywhere.append(taker)
            else:
                before += taker.taken
        if pod.block:
            within = self._blocks_within_reach(pod, room, may_be_anywhere)
        else:
            within = self._places_within_reach(pod, room, may_be_anywhere)
        return before + min(within, later)

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

    def _blocks_lost(self, pod: PodClass, room: Room, mine: Mapping[PodClass, int]) -> int:
        """Each super-pod loses a block with the first node beyond those that it has to spare, and
        then one for as many nodes as a block has."""
        spare = []
        for number, places in self._trial.blocks.whole(pod, room).places.items():
            if places >= pod.block and pod.allows(number):
                spare.append(places % pod.block)
        sizes = Counter[int]()
        for taker in self._losses.takers(pod, mine):
            units, size = units_of(pod, taker.pod_class)
            number = taker.taken // (units * blocks_taken(pod.block, size))
            sizes[size] += number * units
        return most_blocks_lost(pod.block, spare, sizes)

    def _blocks_within_reach(self, pod: PodClass, room: Room, later: Sequence[Taker]) -> int:
        """Blocks in super-pods where a later pod finds free room."""
        reached = set[int]()
        for taker in later:
            other = taker.pod_class
            if other.rounded:  # such pods may be smaller
                reached.update(self._trial.nodes.sets(pod.tier))
            least = other.block if other.tier == pod.tier else 1
            sets = self._trial.blocks.whole(other, Room.FREE, pod.tier)
            for number, places in sets.places.items():
                if places >= max(1, least):
                    reached.add(number)
        sets = self._trial.blocks.whole(pod, room)
        places_there = {n: places for n, places in sets.places.items() if n in reached}
        return blocks_in(pod, NodeSets({}, places_there))

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


def _most(taken: list[int], amount: int, requests: list[int]) -> list[int]:
    """`taken`, or how many pods with these requests have room in the amount where that is more."""
    found = []
    for most, request in zip(taken, requests, strict=True):
        places = -(-amount // request) if request else 0
        found.append(max(most, places))
    return found


def _of_blocks(taken: int, pod: PodClass, other: PodClass) -> int:
    """The same where one of the two is a block. Of places for blocks, which are blocks, a pod takes
    one, and a block as many as it has nodes for."""
    if pod.block:
        units, size = units_of(pod, other)
        return units * blocks_taken(pod.block, size) if taken else 0
    return taken * max(1, other.block)


def units_of(pod: PodClass, other: PodClass) -> tuple[int, int]:
    """What one pod or block of the other class takes of the places for pods of this block: so many
    parts that may be in different sets, and the places of one set that each takes. A block stays
    whole in the sets of its own topology; in those of another its pods may be anywhere."""
    places = 1
    if pod.tier:  # a node of a HyperNode may have several places
        for resource, amount in other.amounts:
            if resource in pod.by_resource:
                places = max(places, -(-amount // pod.by_resource[resource]))
    if other.block and other.tier == pod.tier:
        return 1, places * other.block
    return max(1, other.block), places


def _sums(places: list[int], for_each: list[int], number: int) -> list[int]:
    return [lost + number * more for lost, more in zip(places, for_each, strict=True)]


def _whole(places: float) -> int:
    """Whole places: a part of one takes none. Sums of thirds may fall a hair short of a place."""
    return int(places + 1e-9)
