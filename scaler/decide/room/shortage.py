"""What is missing where pods find no room: resource, how much, on which nodes; 3b.3d of the
contract."""

from __future__ import annotations

import msgspec

from scaler.decide.explain import amount_in_words, away_in_words, where_in_words
from scaler.decide.nodes import PODS, PodRequest, PodRequests, Room
from scaler.decide.room.amounts import times
from scaler.decide.room.pods import PodClass
from scaler.decide.room.search import Trial


class Shortage(msgspec.Struct, frozen=True, gc=False):
    """Pods that find no room. `str()` gives `needs 2 nodes, 1 free; npu-0 NotReady since 2026-01-01
    20:13 UTC; each with 8 free huawei.com/Ascend910 (pool=a)`."""

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
    away: str = ""
    """Nodes that would take such a pod and are not schedulable now, in words; "" for none."""
    in_all: bool = False
    """The numbers are those of nodes without any pod."""

    def __str__(self) -> str:
        """The point first: lists cut the end."""
        doubt = "; not every placement was tried" if self.undecided else ""
        away = f"; {self.away}" if self.away else ""
        where = where_in_words(self.request.where)
        amount = amount_in_words(self.resource, dict(self.request.requests).get(self.resource, 0))
        if self.together:
            beside = f"with {amount}{where} and more beside it"
            return f"needs {self._places()} {beside}, no placement holds all of it{doubt}{away}"
        if self.unoffered:
            return (
                f"needs {self._places()} with {amount}{where}, and no node offers it{doubt}{away}"
            )
        found = f"needs {self._places()}, {self.there} {'in all' if self.in_all else 'free'}{away}"
        if self.resource == PODS:
            return f"{found}{doubt}"
        each = "with"
        if self.request.block and not self.request.tier:
            each = "each node with"
        elif self.wanted > 1 or self.request.block:
            each = "each with"
        return f"{found}; {each} {amount}{where}{doubt}"

    def _places(self) -> str:
        """`2 nodes`, `room for 3 pods`, `1 block of 4 nodes of one super-pod`."""
        if self.request.block:
            blocks = f"{self.wanted} {'block' if self.wanted == 1 else 'blocks'}"
            size = self.request.block
            if self.request.tier:
                return f"{blocks} of {size} {'pod' if size == 1 else 'pods'} in one HyperNode"
            return f"{blocks} of {size} nodes of one super-pod"
        if self.shared or self.resource == PODS:
            return f"room for {self.wanted} {'pod' if self.wanted == 1 else 'pods'}"
        return f"{self.wanted} {'node' if self.wanted == 1 else 'nodes'}"


def shortage_of(trial: Trial, pods: PodRequests, room: Room, *, undecided: bool) -> Shortage:
    """The first request that finds too few places alone; if there is none, the requests do not fit
    together. `pods` have found no placement."""
    some = [(request, count) for request, count in pods if count > 0]
    for request, number in some:
        pod = trial.pod_class(request)
        count = -(-number // pod.block) if pod.block else number
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
                away=_away(trial, pod),
            )
    request, count = some[0]
    return Shortage(
        request,
        count,
        count,
        _first_resource(request),
        together=True,
        undecided=undecided,
        away=_away(trial, trial.pod_class(request)),
    )


def _away(trial: Trial, pod: PodClass) -> str:
    """The nodes that would take such a pod if they were schedulable, in words."""
    away = []
    for index in trial.nodes.unusual:
        node = trial.nodes.nodes[index]
        takes = trial.nodes.class_of[index] in pod.classes
        if takes and not node.schedulable and times(pod.amounts, node.at_best) > 0:
            away.append(node)
    return away_in_words(away)


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
