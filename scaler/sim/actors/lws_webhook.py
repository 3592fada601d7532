"""The pod webhook of LeaderWorkerSet: what its pods carry only after admission. Pure.

A leader gets its group's index and key, a worker its own index, and with gang scheduling both get the name of the
group's PodGroup. Until then a leader has name, worker-index 0, revision and size; a worker all but its index.
"""

from __future__ import annotations

import hashlib

from scaler.kube.api import PODS, Object
from scaler.kube.errors import ForbiddenError
from scaler.sim.actors import making, objects
from scaler.sim.actors.stateful_sets import ordinal_of
from scaler.sim.apiserver.admission import Review

_PREFIX = "leaderworkerset.sigs.k8s.io/"
NAME = _PREFIX + "name"
GROUP_INDEX = _PREFIX + "group-index"
GROUP_KEY = _PREFIX + "group-key"
WORKER_INDEX = _PREFIX + "worker-index"
REVISION = _PREFIX + "template-revision-hash"
SIZE = _PREFIX + "size"
LEADER_NAME = _PREFIX + "leader-name"


def label_member(review: Review) -> Object:
    """The hook, for clusters whose LeaderWorkerSet has Volcano as its scheduler provider, as MindCluster asks for."""
    pod = label_without_gang(review)
    labels = objects.labels_of(pod)
    if review.operation == "CREATE" and review.resource == PODS and NAME in labels:
        group = f"{labels[NAME]}-{labels[GROUP_INDEX]}-{labels[REVISION]}"
        pod["metadata"]["annotations"][objects.GROUP_NAME] = group
    return pod


def label_without_gang(review: Review) -> Object:
    """The hook without a scheduler provider."""
    pod = review.object
    labels = objects.labels_of(pod)
    if review.operation != "CREATE" or review.resource != PODS or NAME not in labels:
        return pod
    if SIZE not in objects.annotations_of(pod):
        raise ForbiddenError(403, "Forbidden", f"size annotation is unexpectedly missing for pod {objects.name(pod)}")
    ordinal = ordinal_of(pod)
    leads = labels.get(WORKER_INDEX) == "0"
    if leads:
        labels.setdefault(GROUP_INDEX, str(ordinal))
        labels.setdefault(GROUP_KEY, group_key(review.namespace, objects.name(pod)))
    else:
        labels[WORKER_INDEX] = str(ordinal)
    leader = objects.name(pod) if leads else objects.annotations_of(pod).get(LEADER_NAME, "")
    variables = {
        "LWS_LEADER_ADDRESS": f"{leader}.{labels[NAME]}.{review.namespace}",
        "LWS_GROUP_SIZE": objects.annotations_of(pod)[SIZE],
        "LWS_WORKER_INDEX": labels[WORKER_INDEX],
    }
    making.add_environment(pod["spec"], variables, first=True)
    return pod


def group_key(namespace: str, leader: str) -> str:
    """SHA-1 of `namespace/leader's name`, in hexadecimal."""
    return hashlib.sha1(f"{namespace}/{leader}".encode(), usedforsecurity=False).hexdigest()
