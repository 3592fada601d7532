"""Pods that no known kind made: each is an instance of its own."""

from __future__ import annotations

from scaler.kube.metadata import LabelledMetadata
from scaler.workloads.kind import Place


class PlainPod:
    """The kind of last resort."""

    name = "Pod"

    def place(self, pod: LabelledMetadata) -> Place:
        """The pod itself: with it the instance ends."""
        return Place(pod.uid, pod.name, size=1, mortal=True, shares_pod_group=True)
