"""Trial placement: do these pods fit, beside everything that is reserved so far?

Room is reserved, not particular nodes: where pods fit only if reserved ones move, these are moved. "Does not fit" is
said only where no placement does it, or with `undecided` where the search was given up. The same calls in the same
order give the same answers. Must not know of services, ratios or instances, and must not raise on any request.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations

import msgspec

from scaler.decide.explain import amount_in_words, where_in_words
from scaler.decide.node_classes import Classes, NodeIndex, times
from scaler.decide.nodes import PODS, PodRequest, PodRequests, Room
from scaler.decide.trial import PlacedPod, PodClass, Trial, by_restriction

MOST_GROUPS = 8
"""So many sets of candidate nodes are summed up in every combination."""
Slack = tuple[float, dict[int, float]]
"""The most places for such pods on a node; by resource, the least that destroys a place there, on average."""


class Shortage(msgspec.Struct, frozen=True, gc=False):
    """Pods that find no room. `str()` gives `needs 2 nodes with 8 free huawei.com/Ascend910 (pool=a), 1 there`."""

    request: PodRequest
    """The first pod request that finds too little."""
    wanted: int
    """Pods with this request."""
    there: int
    """How many of them would find room."""
    resource: str
    """What there is least of."""
    shared: bool = False
    """A node may hold several of these pods, so nodes cannot be counted."""
    together: bool = False
    """Each request finds its room alone, but not all of them at once."""
    undecided: bool = False
    """The search for a place was given up: they may fit after all."""

    def __str__(self) -> str:
        there = "no placement holds all of it" if self.together else f"{self.there} there"
        searched = "; not every placement was tried" if self.undecided else ""
        return f"needs {self._room()}{' and more beside it' if self.together else ''}, {there}{searched}"

    def _room(self) -> str:
        where = where_in_words(self.request.where)
        if self.resource == PODS:
            return f"room for {self.wanted} more {'pod' if self.wanted == 1 else 'pods'}{where}"
        what = amount_in_words(self.resource, dict(self.request.requests).get(self.resource, 0)) + where
        if self.shared:
            return f"room for {self.wanted} times {what}"
        return f"{self.wanted} {'node' if self.wanted == 1 else 'nodes'} with {what}"


class Reservation(msgspec.Struct, eq=False):
    """Room for all of `pods`, until it is cancelled. Compared by identity."""

    pods: PodRequests
    room: Room
    placed: list[PlacedPod]
    _trial: Trial

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that it is placed on now."""
        return self._names(self.placed)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Those of them on which it needs room that is not free now."""
        return self._names(pod for pod in self.placed if not self._trial.is_free_for(pod))

    def _names(self, pods: Iterable[PlacedPod]) -> tuple[str, ...]:
        return tuple(self._trial.nodes.nodes[index].name for index in sorted({pod.node for pod in pods}))


class Placement:
    """The nodes' room in one decision. `due_back`: so many seconds late something may be and still counts as to come.

    The node classes must differ wherever any of the pod requests makes a difference.
    """

    def __init__(self, nodes: NodeIndex, *, now: float = 0.0, due_back: float = 0.0) -> None:
        self.nodes, self._trial = nodes, Trial(nodes, now=now, due_back=due_back)
        self._unfit: dict[tuple[PodRequests, Room], Shortage] = {}
        """What does not fit stays so until something is cancelled or granted."""

    def fits(self, pods: PodRequests, room: Room = Room.FREE) -> Shortage | None:
        """Why these pods do not fit beside what is reserved; None when they do. Reserves nothing."""
        found = self._try(pods, room)
        self._trial.undo()
        return found if isinstance(found, Shortage) else None

    def reserve(self, pods: PodRequests, room: Room = Room.FREE) -> Reservation | Shortage:
        """Reserve room for all of these pods; or for none, and say why."""
        found = self._try(pods, room)
        self._trial.keep()
        return found if isinstance(found, Shortage) else Reservation(pods, room, found, self._trial)

    def cancel(self, reservation: Reservation) -> None:
        """Its room is free again. A second time changes nothing."""
        for pod in reservation.placed:
            self._trial.put(pod, -1)
        reservation.placed = []
        self._unfit.clear()

    def count_freed(self, pods: Iterable[tuple[str, PodRequest]], sign: int = 1) -> None:
        """The room of these pods on these nodes counts as `FREED`; on nodes that are not schedulable it does not. With
        sign -1 it does not count any more: nothing may be reserved on it."""
        self._trial.count_freed(pods, sign)
        self._unfit.clear()

    def breadth(self, pods: PodRequests) -> int:
        """The number of nodes with free room for the most restricted of these pods, whatever is reserved there."""
        classes = [self._trial.pod_class(request) for request, _ in pods]
        return min([len(self.nodes.fitting(each.classes, each.amounts).entries) for each in classes], default=0)

    def sums_suffice(self, pods: PodRequests) -> bool:
        """Whether, for every set of candidate nodes, the sum of what is free and not reserved would do."""
        by_nodes: dict[Classes, Counter[int]] = {}
        for request, count in pods:
            pod = self._trial.pod_class(request)
            by_nodes.setdefault(pod.classes, Counter()).update({at: amount * count for at, amount in pod.amounts})
        groups = list(by_nodes.items())[:MOST_GROUPS]
        chosen = chain.from_iterable(combinations(groups, size) for size in range(1, len(groups) + 1))
        return all(map(self._sum_suffices, chosen))

    def _sum_suffices(self, groups: Sequence[tuple[Classes, Counter[int]]]) -> bool:
        """All that these groups request is there on the nodes that take any of them."""
        classes = Classes().union(*[classes for classes, _ in groups])
        amounts = sum((amounts for _, amounts in groups), Counter[int]())
        states, entries = self._trial.states, self.nodes.fitting(classes, ()).entries
        rest = [states[index].room[Room.FREE] if index in states else free for free, index in entries]
        return all(sum([free[at] for free in rest if free[at] > 0]) >= amount for at, amount in amounts.items())

    def _try(self, pods: PodRequests, room: Room) -> list[PlacedPod] | Shortage:
        """Places for all of these pods, or why there are none; then nothing has moved."""
        known = self._unfit.get((pods, room))
        if known is not None:
            return known
        placed, sure = self._trial.find(self._trial.counted(pods), room)
        if placed is None:
            shortage = self._unfit[pods, room] = self._shortage(pods, room, undecided=not sure)
            return shortage
        return placed

    # What is missing

    def _shortage(self, pods: PodRequests, room: Room, *, undecided: bool) -> Shortage:
        """The first request that finds too few places even alone; else they do not fit together."""
        some = [(request, count) for request, count in pods if count > 0]
        for request, count in some:
            pod = self._trial.pod_class(request)
            there = self._there(pod, room, count)
            if there < count:
                resource = self._scarcest(request, room, count)
                shared = any(at in pod.classes and times(pod.amounts, whole) > 1 for at, whole in self.nodes.empty)
                return Shortage(request, count, there, resource, shared=shared, undecided=undecided)
        request, count = some[0]
        resource = next((name for name, amount in request.requests if amount > 0), PODS)
        return Shortage(request, count, count, resource, together=True, undecided=undecided)

    def _there(self, pod: PodClass, room: Room, most: int) -> int:
        """How many such pods find room beside what is reserved; counted up to so many."""
        there = 0
        for entry in self._trial.order(pod, room):
            if there >= most:
                break
            if self._trial.is_valid(entry, room):
                there += times(pod.amounts, entry[0])
        return there

    def _scarcest(self, request: PodRequest, room: Room, count: int) -> str:
        """The first resource that too few such pods would find enough of, if each requested nothing else."""
        amounts, classes = self._trial.pod_class(request).amounts, self.nodes.taking(request.where)
        unknown = [name for name, amount in request.requests if amount > 0 and name not in self.nodes.resources]
        if unknown or not amounts:
            return min(unknown, default=PODS)
        short = (one for one in amounts if self._there(self._trial.class_of((one,), classes), room, count) < count)
        return list(self.nodes.resources)[next(short, amounts[0])[0]]

    # What a scheduler could spoil: sections 3b.6 and 3b.7 of the contract

    def spoils(
        self, pods: PodRequests, in_hands: Iterable[Iterable[tuple[PodRequest, int]]], *, own: bool = True
    ) -> bool:
        """Whether a scheduler that knows of no reservations may put some of these pods, or of those in its hands,
        where a reservation within reach of these pods cannot be kept any more; that of the pods themselves counts if
        `own`. All of them are reserved, at the least room of their kind. True when unsure."""
        mine = self._trial.counted(pods)
        involved = self._trial.reach(mine)
        if len(involved) > 1:
            hands, before = self._trial.counted(chain(pods, *in_hands)), dict[PodClass, int]()
            for pod in sorted(involved, key=by_restriction):
                later = {hand: count for hand, count in hands.items() if hand not in before and hand is not pod}
                if not self._is_safe(pod, before, later, less=0 if own else mine.get(pod, 0)):
                    return True
                before[pod] = sum(pod.reserved)
        return False

    def _is_safe(
        self, pod: PodClass, before: Mapping[PodClass, int], hands: Mapping[PodClass, int], *, less: int
    ) -> bool:
        """Whether these pods find their places, wherever those in hands are put on what is free, beside those that are
        placed before them. No more than `less` of them: nothing counts on their places."""
        others = {**before, **hands}
        for room in [room for room in Room if pod.reserved[room]]:
            wanted = sum(pod.reserved[: room + 1])
            spare = self._trial.places(pod, room) - wanted
            if wanted <= less or _lost(pod, others) <= spare:
                continue
            within, slack = self._within_reach(pod, room, hands), self._slack(pod, room)
            if _lost(pod, before) + min(within, _lost(pod, hands)) > spare and _lost(pod, others, slack) > spare:
                return False
        return True

    def _within_reach(self, pod: PodClass, room: Room, hands: Iterable[PodClass]) -> int:
        """Places for such pods on nodes on which one of those in hands finds room that is free now."""
        closed = (
            times(pod.amounts, state.whole[room])
            for index, state in self._trial.states.items()
            if state.whole[room] is not state.whole[Room.FREE] and self.nodes.class_of[index] in pod.classes
            and not any(times(hand.amounts, state.whole[Room.FREE]) for hand in hands)
        )  # fmt: skip
        return self._trial.places(pod, room) - sum(closed)

    def _slack(self, pod: PodClass, room: Room) -> Slack:
        states, class_of = self._trial.states, self.nodes.class_of
        wholes = [free for free, at in self.nodes.fitting(pod.classes, pod.amounts).entries if at not in states]
        wholes += [state.whole[room] for at, state in states.items() if class_of[at] in pod.classes]
        counted = [(whole, number) for whole in wholes if (number := times(pod.amounts, whole))]
        least = {}
        for index, amount in pod.amounts:
            # The first of the places of a node costs what is left over there as well, each further one such an amount.
            left = [(whole[index] - number * amount, number) for whole, number in counted]
            least[index] = min([min(over, (over + (n - 1) * amount) / n) for over, n in left], default=0.0)
        return max([number for _, number in counted], default=0), least


def _lost(pod: PodClass, others: Mapping[PodClass, int], slack: Slack | None = None) -> int:
    """How many places for such a pod these others destroy at the most, wherever they are put. Those that take less than
    the slack share the loss of a place."""
    if slack is not None:
        losses = {other: _loss(pod, other, slack) for other in others}
    else:
        losses = pod.losses
        losses |= {other: _loss(pod, other, (math.inf, {})) for other in others if other not in losses}
    return int(sum([losses[other] * count for other, count in others.items()]) + 1e-9)


def _loss(pod: PodClass, other: PodClass, slack: Slack) -> float:
    most, least = slack
    losses = [0.0]
    for index, takes in other.amounts if not pod.classes.isdisjoint(other.classes) else ():
        if index in pod.by_resource:
            whole = min(most, -(-takes // pod.by_resource[index]))
            losses.append(takes / least[index] if takes < least.get(index, 0) else whole)
    return max(losses)
