"""Pods that no known kind made: each is an instance of its own. And what annotations say, whatever made the pod."""

from __future__ import annotations

import msgspec

from scaler.names import GROUP_LABEL, INSTANCE, INSTANCE_SIZE, JOB_ID_LABEL
from scaler.workloads.kind import Place, PodFacts
from scaler.workloads.owners import identity, number_in


class PlainPod:
    """The kind of last resort."""

    name = "Pod"

    def place(self, pod: PodFacts) -> Place:
        """The pod itself: with it the instance ends."""
        return Place(pod.uid, pod.name, size=1, mortal=True, shares_pod_group=True)


def as_annotated(pod: PodFacts, place: Place) -> Place:
    """`place` with what the pod's annotations say instead. A name means one instance within its service and group.

    A size alone concerns instances that the kind knows to consist of several pods: a pod that is an instance by itself
    gets no companions by saying how many it would like.
    """
    size, named = read_size(pod), pod.annotations.get(INSTANCE, "")
    if named:
        service = pod.labels.get(JOB_ID_LABEL, ""), pod.labels.get(GROUP_LABEL, "")
        instance = identity("pods", pod.namespace, *service, named)
        return msgspec.structs.replace(
            place, instance=instance, name=named, size=size or 1, mortal=False, shares_pod_group=True
        )
    return msgspec.structs.replace(place, size=size) if size and place.size != 1 else place


def read_size(pod: PodFacts) -> int:
    """What annotation mind-cluster/instance-size says; 0 when it says nothing usable."""
    return number_in(pod.annotations.get(INSTANCE_SIZE, ""))
