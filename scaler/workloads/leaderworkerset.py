"""LeaderWorkerSet: each group is an instance; the leader is pod <set>-<group>, the workers <set>-<group>-1 and up.

Groups are told by names and owners, which are there from the start: the labels of its own admission webhook (group
index, worker index) may be missing in what ours sees, and anybody can write them.
"""

from __future__ import annotations

from scaler.kube.metadata import LabelledMetadata
from scaler.names import POD_GROUP
from scaler.workloads.deployment import APPS
from scaler.workloads.kind import Ask, Place, identity, number_in

PREFIX = "leaderworkerset.sigs.k8s.io/"
NAME, REVISION, SIZE = PREFIX + "name", PREFIX + "template-revision-hash", PREFIX + "size"


class LeaderWorkerSet:
    """A leader belongs to the StatefulSet <set>, a worker to the StatefulSet <set>-<group>."""

    name = "LeaderWorkerSet"

    def place(self, pod: LabelledMetadata) -> Place | None:
        lws = pod.labels.get(NAME, "")
        index = _group_index(lws, pod) if lws and pod.owner.is_a("StatefulSet", APPS) else ""
        if not index:
            return None
        revision = pod.labels.get(REVISION, "")
        return Place(
            instance=identity("LeaderWorkerSet", pod.namespace, lws, index),
            name=f"{lws}-{index}",
            size=number_in(pod.annotations.get(SIZE, "")),
            maker=identity("LeaderWorkerSet", pod.namespace, lws),
            revision=revision,
            asks=(Ask("LeaderWorkerSet", lws), Ask("StatefulSet", lws)),
            # Its gang scheduling gives each group a PodGroup of this name. Without, leaders share one, workers another.
            shares_pod_group=pod.annotations.get(POD_GROUP) != f"{lws}-{index}-{revision}",
        )


def _group_index(lws: str, pod: LabelledMetadata) -> str:
    """Digits; "" when this is no pod of `lws`."""
    named = pod.name if pod.owner.name == lws else pod.owner.name
    index = named.removeprefix(lws + "-") if named.startswith(lws + "-") else ""
    return index if index.isascii() and index.isdecimal() else ""
