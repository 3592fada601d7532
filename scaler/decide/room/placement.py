"""Trial placement: whether pods fit beside all reservations ("fits" and "remainder" in the words of
3b of the contract).

    pods -> search.py -> a placement: reserve it, or undo it
                      -> none: what is missing (shortage.py)

A reservation keeps room, not particular nodes: reserved pods are moved when other pods fit only
then. Pods "do not fit" when no placement exists, or, with `undecided`, when the search was given
up. `search.py` opens with an example, `invalidation.py` with one of what the scheduler may do to
reservations.

The same calls in the same order give the same answers. Must not know of services, ratios or
instances, and must not raise on any request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations

import msgspec

from scaler.decide.nodes import (
    Amounts,
    Node,
    PodRequest,
    PodRequests,
    Room,
)
from scaler.decide.room.amounts import times
from scaler.decide.room.classes import Classes, NodeIndex
from scaler.decide.room.invalidation import MOST_CLASSES, Invalidation
from scaler.decide.room.pods import PlacedPod, PodClass
from scaler.decide.room.search import NoPlacement, Trial
from scaler.decide.room.shortage import Shortage, shortage_of
from scaler.decide.work import Steps

MOST_GROUPS = 8
"""The largest number of sets of candidate nodes that are summed up in every combination, and of
unlike pods of which those that a node can take are counted."""


class Reservation(msgspec.Struct, eq=False):
    """Room for all pods of a call, until the reservation is cancelled. Compared by identity."""

    placed: list[PlacedPod]


class Placement:
    """The room of the nodes in one decision. Classes of two nodes have to differ if a pod request
    fits on one only."""

    def __init__(
        self,
        nodes: NodeIndex,
        *,
        now: float = 0.0,
        due_back: float = 0.0,
        flap_patience: float = 0.0,
    ) -> None:
        self.nodes = nodes
        self._trial = Trial(nodes, now=now, due_back=due_back, flap_patience=flap_patience)
        self.given_back = 0
        """The same as long as there is no more room than before: it changes when a reservation is
        cancelled, and with pods whose room counts as freed."""
        self._growths = 0
        """How often room may have grown: a reservation was cancelled, or room was freed."""
        self._unfit: dict[tuple[PodRequests, Room, int], Shortage] = {}
        """A time saver: what did not fit does not fit until room has grown. The key holds the pods,
        the level and `_growths`."""

    def fits(self, pods: PodRequests, room: Room = Room.FREE) -> Shortage | None:
        """Why these pods do not fit beside all reservations; None when they fit. Reserves
        nothing."""
        found = self._try(pods, room)
        self._trial.undo()
        return found if isinstance(found, Shortage) else None

    def fits_without(
        self, freed: Sequence[tuple[str, PodRequest]], pods: PodRequests, room: Room
    ) -> Shortage | None:
        """As `fits`, if these bound pods (node name, request) were gone."""
        self.count_freed(freed)
        shortage = self.fits(pods, room)
        self.count_freed(freed, -1)
        return shortage

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
        self.given_back += 1
        self._growths += 1

    def waits_for(self, reservation: Reservation) -> tuple[str, ...]:
        """Names of the nodes on which its pods need room that is not free now."""
        nodes = set[int]()
        for pod in reservation.placed:
            nodes.update(self._trial.not_free_for(pod))
        return tuple(self.nodes.nodes[index].name for index in sorted(nodes))

    def count_freed(self, pods: Iterable[tuple[str, PodRequest]], sign: int = 1) -> None:
        """Count the room of these bound pods (node name, request) as `FREED`, on schedulable nodes
        only. With sign -1, count that room no more: no reservation may use it then."""
        self._trial.count_freed(pods, sign)
        self.given_back += sign
        self._growths += 1

    def places_gained(
        self, freed: Iterable[tuple[str, PodRequest]], pods: PodRequests, room: Room
    ) -> int:
        """How many more of these pods find places on the nodes of `freed` (node name, request) when
        those bound pods are gone. Reserved pods stay where they are. Pods of a block count each
        alone: the victims may free a block together."""
        return self._trial.places_gained(freed, self._trial.single_pods(pods), room)

    def may_invalidate(
        self,
        pods: PodRequests,
        with_the_scheduler: Iterable[tuple[PodRequest, int]],
        *,
        own: bool = True,
    ) -> bool:
        """Whether the scheduler may invalidate a reservation by binding these pods and those that
        it has; see `Invalidation.is_possible`."""
        return self._invalidation.is_possible(pods, with_the_scheduler, own=own)

    def asking(
        self,
        pods: PodRequests,
        with_the_scheduler: Iterable[tuple[PodRequest, int]],
        *,
        own: bool = True,
    ) -> Steps[bool]:
        """As `may_invalidate`, step by step. The same question after it costs little."""
        return self._invalidation.asking(pods, with_the_scheduler, own=own)

    @property
    def has_many_classes(self) -> bool:
        """10c: whether so many unlike pods are reserved that it is not weighed what the scheduler
        may do to them."""
        return len(self._trial.reserved) > MOST_CLASSES

    @cached_property
    def _invalidation(self) -> Invalidation:
        """Most decisions never ask what the scheduler may do to reservations."""
        return Invalidation(self._trial)

    def accepts(self, request: PodRequest, node: Node) -> bool:
        """Whether this node of the index takes such pods now, whatever is free on it."""
        return self.nodes.takes(request.where, node)

    def takes(self, request: PodRequest, amounts: Amounts) -> bool:
        """Whether a node with these free amounts has room for such a pod. Whether the node accepts
        it is another question."""
        pod = self._trial.pod_class(request)
        return bool(pod.amounts) and times(pod.amounts, amounts) > 0

    def breadth(self, pods: PodRequests) -> int:
        """The number of nodes with free room for the most restricted of these pods, or of blocks of
        nodes. Reservations do not count."""
        numbers = []
        for request, _ in pods:
            each = self._trial.pod_class(request)
            if each.block:
                numbers.append(self._trial.places(each, Room.FREE))
            else:
                numbers.append(len(self.nodes.fitting(each.classes, each.amounts).entries))
        return min(numbers, default=0)

    def sums_suffice(self, pods: PodRequests) -> bool:
        """Whether, for every set of candidate nodes, the free room without reservations suffices in
        sum, resources that no node offers left out: 3b.9a of the contract. Of each node only what
        whole pods of these can take counts."""
        counts = self._trial.single_pods(self.nodes.understood(pods))
        for pod, count in list(counts.items())[:MOST_GROUPS]:
            if not self._sum_suffices(pod.classes, {pod: count}):
                return False
        by_nodes: dict[Classes, dict[PodClass, int]] = {}
        for pod, count in counts.items():
            by_nodes.setdefault(pod.classes, {})[pod] = count
        groups = list(by_nodes.items())[:MOST_GROUPS]
        for size in range(1, len(groups) + 1):
            for chosen in combinations(groups, size):
                classes = Classes().union(*[classes for classes, _ in chosen])
                together: dict[PodClass, int] = {}
                for _, some in chosen:
                    together |= some
                if not self._sum_suffices(classes, together):
                    return False
        return True

    def _sum_suffices(self, classes: Classes, pods: Mapping[PodClass, int]) -> bool:
        """Whether the nodes of these classes have enough of each resource in sum for these pods."""
        missing = _amounts_of(pods)
        for free, alike in Counter(self._free(classes)).items():
            on_one = pods
            if len(pods) <= MOST_GROUPS:
                on_one = {pod: min(n, times(pod.amounts, free)) for pod, n in pods.items()}
            for resource, amount in _amounts_of(on_one).items():
                missing[resource] -= min(amount, max(0, free[resource])) * alike
        return all(amount <= 0 for amount in missing.values())

    def _free(self, classes: Classes) -> Iterator[tuple[int, ...]]:
        """The free room of each node of these classes, less reservations."""
        states = self._trial.states
        for free, index in self.nodes.fitting(classes, ()).entries:
            yield states[index].room[Room.FREE] if index in states else free

    def _try(self, pods: PodRequests, room: Room) -> list[PlacedPod] | Shortage:
        key = (pods, room, self._growths)
        if key in self._unfit:
            return self._unfit[key]
        found = self._trial.find(self._trial.counted(pods), room)
        if not isinstance(found, NoPlacement):
            return found
        undecided = found is NoPlacement.UNDECIDED
        self._unfit[key] = shortage_of(self._trial, pods, room, undecided=undecided)
        return self._unfit[key]


def _amounts_of(pods: Mapping[PodClass, int]) -> Counter[int]:
    """Resource -> what so many of each of these pods request in all."""
    amounts = Counter[int]()
    for pod, count in pods.items():
        for resource, amount in pod.amounts:
            amounts[resource] += amount * count
    return amounts
