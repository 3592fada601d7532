"""What is missing where pods find no room: resource, how much, on which nodes; 3b.3d of the
contract."""

from __future__ import annotations

import msgspec

from scaler.decide.explain import amount_in_words, where_in_words
from scaler.decide.nodes import PODS, PodRequest, PodRequests, Room
from scaler.decide.room.amounts import times
from scaler.decide.room.pods import PodClass
from scaler.decide.room.search import Trial


class Shortage(msgspec.Struct, frozen=True, gc=False):
    """Pods that find no room. `str()` gives `needs 2 nodes with 8 free huawei.com/Ascend910
    (pool=a), 1 there`."""

    request: PodRequest
    """The first pod request that finds too little room."""
    wanted: int
    there: int
    """How many of these pods would find room; both numbers are of blocks where the pods are placed
    in blocks."""
    resource: str
    shared: bool = False
    """A node may hold several of these pods, so the shortage is not a number of nodes."""
    together: bool = False
    """Each request finds room alone, but all requests together do not."""
    undecided: bool = False
    """The search for a placement was given up: the pods may fit after all."""
    unoffered: bool = False
    """No node offers the resource, not even an empty one."""

    def __str__(self) -> str:
        beside = " and more beside it" if self.together else ""
        there = f"{self.there} there"
        if self.together:
            there = "no placement holds all of it"
        elif self.unoffered:
            there = "and no node offers it"
        doubt = "; not every placement was tried" if self.undecided else ""
        where = where_in_words(self.request.where)
        return f"needs {self._room_in_words()}{where}{beside}, {there}{doubt}"

    def _room_in_words(self) -> str:
        amount = dict(self.request.requests).get(self.resource, 0)
        what = amount_in_words(self.resource, amount)
        if self.resource == PODS:
            return f"room for {self.wanted} more {'pod' if self.wanted == 1 else 'pods'}"
        if self.request.block:
            blocks = f"{self.wanted} {'block' if self.wanted == 1 else 'blocks'}"
            return f"{blocks} of {self.request.block} nodes of one super-pod, each with {what}"
        if self.shared:
            return f"room for {self.wanted} times {what}"
        return f"{self.wanted} {'node' if self.wanted == 1 else 'nodes'} with {what}"


def shortage_of(trial: Trial, pods: PodRequests, room: Room, *, undecided: bool) -> Shortage:
    """The first request that finds too few places alone; if there is none, the requests do not fit
    together. `pods` have found no placement."""
    some = [(request, count) for request, count in pods if count > 0]
    for request, number in some:
        pod = trial.pod_class(request)
        count = -(-number // request.block) if request.block else number
        there = _places_left(trial, pod, room, count)
        if there < count:
            resource = _scarcest(trial, request, room, number)
            return Shortage(
                request,
                count,
                there,
                resource,
                shared=_share_nodes(trial, pod),
                undecided=undecided,
                unoffered=resource not in trial.nodes.offered,
            )
    request, count = some[0]
    return Shortage(
        request, count, count, _first_resource(request), together=True, undecided=undecided
    )


def _first_resource(request: PodRequest) -> str:
    for name, amount in request.requests:
        if amount > 0:
            return name
    return PODS


def _share_nodes(trial: Trial, pod: PodClass) -> bool:
    """Whether some candidate node holds several such pods when it is empty."""
    for number, allocatable in trial.nodes.empty:
        if number in pod.classes and times(pod.amounts, allocatable) > 1:
            return True
    return False


def _places_left(trial: Trial, pod: PodClass, room: Room, most: int) -> int:
    """How many such pods find room beside all reservations; counted up to `most`."""
    if pod.block:
        return min(trial.blocks.left(pod, room), most)
    there = 0
    for entry in trial.order(pod, room):
        if there >= most:
            break
        if trial.is_valid(entry, room):
            there += times(pod.amounts, entry[0])
    return there


def _scarcest(trial: Trial, request: PodRequest, room: Room, count: int) -> str:
    """The first resource of which there is too little for `count` pods, if the pods requested
    nothing else. A resource that no node offers goes before."""
    known = trial.nodes.resources
    unoffered = []
    for name, amount in request.requests:
        if amount > 0 and name not in trial.nodes.offered:
            unoffered.append(name)
    if unoffered:
        return min(unoffered)
    amounts = trial.pod_class(request).amounts
    if not amounts:
        return PODS
    names = list(known)
    classes = trial.nodes.taking(request.where)
    for one in amounts:
        if _places_left(trial, trial.class_of((one,), classes), room, count) < count:
            return names[one[0]]
    return names[amounts[0][0]]
