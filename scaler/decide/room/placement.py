"""Trial placement: whether pods fit beside all reservations.

A reservation keeps room, not particular nodes: reserved pods are moved when other pods fit only
then. Pods "do not fit" when no placement exists, or, with `undecided`, when the search was given
up. The same calls in the same order give the same answers. Must not know of services, ratios or
instances, and must not raise on any request."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations

import msgspec

from scaler.decide.explain import amount_in_words, where_in_words
from scaler.decide.nodes import PODS, PodRequest, PodRequests, Room
from scaler.decide.room.classes import Classes, NodeIndex, times
from scaler.decide.room.search import PlacedPod, PodClass, Trial, by_restriction

MOST_GROUPS = 8
"""The largest number of sets of candidate nodes that are summed up in every combination."""
Slack = tuple[float, dict[int, float]]
"""Of one pod class: the most places on one node; resource -> the least amount, on average, that
takes away a place."""


class Shortage(msgspec.Struct, frozen=True, gc=False):
    """Pods that find no room. `str()` gives `needs 2 nodes with 8 free huawei.com/Ascend910
    (pool=a), 1 there`."""

    request: PodRequest
    """The first pod request that finds too little room."""
    wanted: int
    there: int
    """How many of these pods would find room."""
    resource: str
    shared: bool = False
    """A node may hold several of these pods, so the shortage is not a number of nodes."""
    together: bool = False
    """Each request finds room alone, but all requests together do not."""
    undecided: bool = False
    """The search for a placement was given up: the pods may fit after all."""

    def __str__(self) -> str:
        what = amount_in_words(self.resource, dict(self.request.requests).get(self.resource, 0))
        if self.resource == PODS:
            room = f"room for {self.wanted} more {'pod' if self.wanted == 1 else 'pods'}"
        elif self.shared:
            room = f"room for {self.wanted} times {what}"
        else:
            room = f"{self.wanted} {'node' if self.wanted == 1 else 'nodes'} with {what}"
        room += where_in_words(self.request.where) + (
            " and more beside it" if self.together else ""
        )
        there = "no placement holds all of it" if self.together else f"{self.there} there"
        return f"needs {room}, {there}{'; not every placement was tried' if self.undecided else ''}"


class Reservation(msgspec.Struct, eq=False):
    """Room for all pods of a call, until the reservation is cancelled. Compared by identity."""

    placed: list[PlacedPod]


class Placement:
    """The room of the nodes in one decision. Classes of two nodes have to differ if a pod request
    fits on one only."""

    def __init__(self, nodes: NodeIndex, *, now: float = 0.0, due_back: float = 0.0) -> None:
        self.nodes = nodes
        self._trial = Trial(nodes, now=now, due_back=due_back)
        self._unfit: dict[tuple[PodRequests, Room], Shortage] = {}
        """Pods that do not fit -> shortage. Empty again when a reservation is cancelled or room is
        freed."""

    def fits(self, pods: PodRequests, room: Room = Room.FREE) -> Shortage | None:
        """Why these pods do not fit beside all reservations; None when they fit. Reserves
        nothing."""
        found = self._try(pods, room)
        self._trial.undo()
        return found if isinstance(found, Shortage) else None

    def reserve(self, pods: PodRequests, room: Room = Room.FREE) -> Reservation | Shortage:
        """Reserve room for all of these pods. If not all fit, reserve nothing and return the
        shortage."""
        found = self._try(pods, room)
        self._trial.keep()
        return found if isinstance(found, Shortage) else Reservation(found)

    def cancel(self, reservation: Reservation) -> None:
        """Free the room of a reservation. A second call changes nothing."""
        for pod in reservation.placed:
            self._trial.put(pod, -1)
        reservation.placed = []
        self._unfit.clear()

    def waits_for(self, reservation: Reservation) -> tuple[str, ...]:
        """Names of the nodes on which its pods need room that is not free now."""
        nodes = {pod.node for pod in reservation.placed if not self._trial.is_free_for(pod)}
        return tuple(self.nodes.nodes[index].name for index in sorted(nodes))

    def count_freed(self, pods: Iterable[tuple[str, PodRequest]], sign: int = 1) -> None:
        """Count the room of these pods (node name, request) as `FREED`, on schedulable nodes only.
        With sign -1, count that room no more: no reservation may use it then."""
        self._trial.count_freed(pods, sign)
        self._unfit.clear()

    def breadth(self, pods: PodRequests) -> int:
        """The number of nodes with free room for the most restricted of these pods. Reservations do
        not count."""
        classes = [self._trial.pod_class(request) for request, _ in pods]
        return min(
            [len(self.nodes.fitting(each.classes, each.amounts).entries) for each in classes],
            default=0,
        )

    def sums_suffice(self, pods: PodRequests) -> bool:
        """Whether, for every set of candidate nodes, the free room without reservations suffices in
        sum."""
        by_nodes: dict[Classes, Counter[int]] = {}
        for request, count in pods:
            pod = self._trial.pod_class(request)
            by_nodes.setdefault(pod.classes, Counter()).update(
                {at: amount * count for at, amount in pod.amounts}
            )
        groups = list(by_nodes.items())[:MOST_GROUPS]
        chosen = chain.from_iterable(
            combinations(groups, size) for size in range(1, len(groups) + 1)
        )
        return all(map(self._sum_suffices, chosen))

    def _sum_suffices(self, groups: Sequence[tuple[Classes, Counter[int]]]) -> bool:
        classes = Classes().union(*[classes for classes, _ in groups])
        amounts = sum((amounts for _, amounts in groups), Counter[int]())
        states = self._trial.states
        entries = self.nodes.fitting(classes, ()).entries
        rest = [
            states[index].room[Room.FREE] if index in states else free for free, index in entries
        ]
        return all(
            sum([free[at] for free in rest if free[at] > 0]) >= amount
            for at, amount in amounts.items()
        )

    def _try(self, pods: PodRequests, room: Room) -> list[PlacedPod] | Shortage:
        if (pods, room) in self._unfit:
            return self._unfit[pods, room]
        placed, sure = self._trial.find(self._trial.counted(pods), room)
        if placed is not None:
            return placed
        return self._unfit.setdefault((pods, room), self._shortage(pods, room, undecided=not sure))

    def _shortage(self, pods: PodRequests, room: Room, *, undecided: bool) -> Shortage:
        """The first request that finds too few places alone; if there is none, the requests do not
        fit together."""
        some = [(request, count) for request, count in pods if count > 0]
        for request, count in some:
            pod = self._trial.pod_class(request)
            there = self._there(pod, room, count)
            if there < count:
                resource = self._scarcest(request, room, count)
                shared = any(
                    at in pod.classes and times(pod.amounts, whole) > 1
                    for at, whole in self.nodes.empty
                )
                return Shortage(request, count, there, resource, shared=shared, undecided=undecided)
        request, count = some[0]
        resource = next((name for name, amount in request.requests if amount > 0), PODS)
        return Shortage(request, count, count, resource, together=True, undecided=undecided)

    def _there(self, pod: PodClass, room: Room, most: int) -> int:
        """How many such pods find room beside all reservations; counted up to `most`."""
        there = 0
        for entry in self._trial.order(pod, room):
            if there >= most:
                break
            if self._trial.is_valid(entry, room):
                there += times(pod.amounts, entry[0])
        return there

    def _scarcest(self, request: PodRequest, room: Room, count: int) -> str:
        """The first resource of which there is too little for `count` pods, if the pods requested
        nothing else."""
        amounts = self._trial.pod_class(request).amounts
        classes = self.nodes.taking(request.where)
        unknown = [
            name
            for name, amount in request.requests
            if amount > 0 and name not in self.nodes.resources
        ]
        if unknown or not amounts:
            return min(unknown, default=PODS)
        short = (
            one
            for one in amounts
            if self._there(self._trial.class_of((one,), classes), room, count) < count
        )
        return list(self.nodes.resources)[next(short, amounts[0])[0]]

    def spoils(
        self, pods: PodRequests, in_hands: Iterable[tuple[PodRequest, int]], *, own: bool = True
    ) -> bool:
        """Whether a scheduler, which knows no reservations, may spoil one by binding `pods` and the
        pods `in_hands`. Counts reservations within reach of `pods`, their own only if `own`. All
        these pods have to be reserved, at the least room of their kind. True when not sure.
        Sections 3b.6 and 3b.7 of the contract."""
        mine = self._trial.counted(pods)
        involved = self._trial.reach(mine)
        if len(involved) > 1:
            hands = self._trial.counted(chain(pods, in_hands))
            before = dict[PodClass, int]()
            for pod in sorted(involved, key=by_restriction):
                later = {
                    hand: count
                    for hand, count in hands.items()
                    if hand not in before and hand is not pod
                }
                if not self._is_safe(pod, before, later, less=0 if own else mine.get(pod, 0)):
                    return True
                before[pod] = sum(pod.reserved)
        return False

    def _is_safe(
        self,
        pod: PodClass,
        before: Mapping[PodClass, int],
        hands: Mapping[PodClass, int],
        *,
        less: int,
    ) -> bool:
        """Whether the reserved pods of this class find places beside the pods of `before`, wherever
        the scheduler binds the pods in `hands` on free room. True if at most `less` pods are
        reserved."""
        others = {**before, **hands}
        for room in [room for room in Room if pod.reserved[room]]:
            wanted = sum(pod.reserved[: room + 1])
            spare = self._trial.places(pod, room) - wanted
            if wanted <= less or _lost(pod, others) <= spare:
                continue
            within = self._within_reach(pod, room, hands)
            slack = self._slack(pod, room)
            if (
                _lost(pod, before) + min(within, _lost(pod, hands)) > spare
                and _lost(pod, others, slack) > spare
            ):
                return False
        return True

    def _within_reach(self, pod: PodClass, room: Room, hands: Iterable[PodClass]) -> int:
        """Places for such pods on nodes where a pod in hands finds free room."""
        closed = (
            times(pod.amounts, state.whole[room])
            for index, state in self._trial.states.items()
            if state.whole[room] is not state.whole[Room.FREE]
            and self.nodes.class_of[index] in pod.classes
            and not any(times(hand.amounts, state.whole[Room.FREE]) for hand in hands)
        )
        return self._trial.places(pod, room) - sum(closed)

    def _slack(self, pod: PodClass, room: Room) -> Slack:
        states = self._trial.states
        class_of = self.nodes.class_of
        wholes = [
            free
            for free, at in self.nodes.fitting(pod.classes, pod.amounts).entries
            if at not in states
        ]
        wholes += [state.whole[room] for at, state in states.items() if class_of[at] in pod.classes]
        counted = [(whole, number) for whole in wholes if (number := times(pod.amounts, whole))]
        least = {}
        for index, amount in pod.amounts:
            # To take the first place of a node, pods have to fill what is left over too; each next
            # place: one amount.
            left = [(whole[index] - number * amount, number) for whole, number in counted]
            least[index] = min(
                [min(over, (over + (n - 1) * amount) / n) for over, n in left], default=0.0
            )
        return max([number for _, number in counted], default=0), least


def _lost(pod: PodClass, others: Mapping[PodClass, int], slack: Slack | None = None) -> int:
    """The most places for such pods that the other pods can take away, wherever they are bound.
    Several pods that are smaller than the slack take away one place together."""
    if slack is not None:
        losses = {other: _loss(pod, other, slack) for other in others}
    else:
        losses = pod.losses
        losses |= {
            other: _loss(pod, other, (math.inf, {})) for other in others if other not in losses
        }
    return int(sum([losses[other] * count for other, count in others.items()]) + 1e-9)


def _loss(pod: PodClass, other: PodClass, slack: Slack) -> float:
    most, least = slack
    losses = [0.0]
    for index, takes in other.amounts if not pod.classes.isdisjoint(other.classes) else ():
        if index in pod.by_resource:
            whole = min(most, -(-takes // pod.by_resource[index]))
            losses.append(takes / least[index] if takes < least.get(index, 0) else whole)
    return max(losses)
