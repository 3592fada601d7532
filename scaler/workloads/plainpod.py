"""Pods that no known kind made: each is an instance of its own, unless its annotations say otherwise."""

from __future__ import annotations

from scaler.workloads.gates import INSTANCE, INSTANCE_SIZE
from scaler.workloads.kind import Place, PodFacts

LARGEST = 100_000
"""Pods of one instance; a larger number is a mistake."""


class PlainPod:
    """The kind of last resort."""

    name = "Pod"

    def place(self, pod: PodFacts) -> Place:
        """The instance that the annotations name, else the pod itself."""
        size = read_size(pod)
        named = pod.annotations.get(INSTANCE, "")
        if named:
            return Place(f"pods/{pod.namespace}/{named}", named, size=size or 1, shares_pod_group=True)
        return Place(pod.uid, pod.name, size=size or 1, mortal=True, shares_pod_group=True)


def read_size(pod: PodFacts) -> int:
    """What annotation mind-cluster/instance-size says; 0 when it says nothing usable."""
    text = pod.annotations.get(INSTANCE_SIZE, "")
    number = int(text) if len(text) < 10 and text.isdecimal() and text.isascii() else 0
    return number if number <= LARGEST else 0
