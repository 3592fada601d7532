"""A stand-in for the StatefulSet controller: pods by ordinal, one after the other or all at once,
updates from the top.

An update replaces a pod of an old revision in any condition, and then waits until it is ready.
Since Kubernetes 1.35 (`counts_unavailable`) every pod that is not available, held ones too, counts
against maxUnavailable first, so that one held pod may stop an update. Pod templates of earlier
revisions are kept in memory only. Not modelled: volume claims. Must not: know the owners of the
StatefulSets, or rules."""

from __future__ import annotations

import copy
from collections import Counter

from scaler.kube.api import PODS, STATEFUL_SETS, KubeApi, Object
from scaler.sim.actors import making, objects
from scaler.sim.actors.stand_in import StandInController

REVISION = "controller-revision-hash"
Replicas = dict[int, Object | None]
"""The wanted pods of one StatefulSet, by ordinal."""


class StatefulSets(StandInController):
    """Follows all StatefulSets and their pods. `counts_unavailable`: as since Kubernetes 1.35."""

    follows = (STATEFUL_SETS, PODS)

    def __init__(self, api: KubeApi, *, counts_unavailable: bool = False) -> None:
        super().__init__(api)
        self._counts_unavailable = counts_unavailable
        self._templates: dict[str, Object] = {}
        """Revision -> pod template."""

    async def keep(self, owner: Object) -> None:
        pods = self.mirror.owned(PODS, owner)
        update = revision_of(owner)
        self._templates.setdefault(update, copy.deepcopy(objects.spec(owner).get("template") or {}))
        await self.status(STATEFUL_SETS, owner, _status(owner, pods, update))
        in_order = objects.spec(owner).get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        wanted = _wanted(owner, pods)
        if await self._fill(owner, wanted, update, in_order=in_order):
            return
        surplus = [pod for pod in pods if ordinal_of(pod) not in wanted]
        for pod in sorted(surplus, key=ordinal_of, reverse=True):
            if not objects.terminating(pod):
                await self.delete(PODS, pod)
            if in_order:
                return
        for pod in to_update(owner, wanted, update, counts_unavailable=self._counts_unavailable):
            await self.delete(PODS, pod)

    async def _fill(
        self, stateful_set: Object, wanted: Replicas, update: str, *, in_order: bool
    ) -> bool:
        """Creates missing pods; True when further pods, in order, have to wait for one of them."""
        for ordinal, pod in wanted.items():
            if pod is None:
                await self.create(PODS, self._pod(stateful_set, ordinal, update))
            elif objects.ended(pod) and not objects.terminating(pod):
                await self.delete(PODS, pod)
            if in_order and (pod is None or not making.ready(pod)):
                return True
        return False

    def _pod(self, stateful_set: Object, ordinal: int, update: str) -> Object:
        """A pod below the partition has the present revision, from the partition on the new one."""
        current = str(objects.status(stateful_set).get("currentRevision") or update)
        revision = update if ordinal >= _partition(stateful_set) else current
        template = self._templates.get(revision) or self._templates[update]
        name = f"{objects.name(stateful_set)}-{ordinal}"
        return making.pod_of(
            template,
            name,
            making.Owner(stateful_set, STATEFUL_SETS),
            labels={
                "statefulset.kubernetes.io/pod-name": name,
                "apps.kubernetes.io/pod-index": str(ordinal),
                REVISION: revision,
            },
            hostname=name,
            subdomain=str(objects.spec(stateful_set).get("serviceName") or ""),
        )


def revision_of(stateful_set: Object) -> str:
    """The name of the revision of its pod template."""
    return (
        f"{objects.name(stateful_set)}-{making.digest(objects.spec(stateful_set).get('template'))}"
    )


def ordinal_of(pod: Object) -> int:
    """The number at the end of a pod's name; -1 without one."""
    digits = objects.name(pod).rpartition("-")[2]
    return int(digits) if digits.isdecimal() else -1


def to_update(
    stateful_set: Object, wanted: Replicas, update: str, *, counts_unavailable: bool
) -> list[Object]:
    """The pods that an update deletes next, the highest of an old revision first; none with
    OnDelete.

    One at a time, while all above it are ready; with `counts_unavailable` as many as maxUnavailable
    allows."""
    if (objects.spec(stateful_set).get("updateStrategy") or {}).get("type") == "OnDelete":
        return []
    outdated = []
    unready = []
    for ordinal, pod in sorted(wanted.items(), reverse=True):
        if pod is None or not making.ready(pod):
            unready.append(ordinal)
        if pod is None or ordinal < _partition(stateful_set) or objects.terminating(pod):
            continue
        if objects.labels_of(pod).get(REVISION) != update:
            outdated.append(pod)
    if counts_unavailable:
        most = _rolling(stateful_set).get("maxUnavailable", 1)
        allowed = max(1, making.scaled(most, making.number(stateful_set), up=False))
        return outdated[: max(0, allowed - len(unready))]
    highest = max(unready, default=-1)
    return [pod for pod in outdated[:1] if highest <= ordinal_of(pod)]


def _rolling(stateful_set: Object) -> Object:
    return (objects.spec(stateful_set).get("updateStrategy") or {}).get("rollingUpdate") or {}


def _partition(stateful_set: Object) -> int:
    return _first(stateful_set) + int(_rolling(stateful_set).get("partition") or 0)


def _first(stateful_set: Object) -> int:
    return int((objects.spec(stateful_set).get("ordinals") or {}).get("start") or 0)


def _wanted(stateful_set: Object, pods: list[Object]) -> Replicas:
    present = {ordinal_of(pod): pod for pod in pods}
    first = _first(stateful_set)
    ordinals = range(first, first + making.number(stateful_set))
    return {ordinal: present.get(ordinal) for ordinal in ordinals}


def _status(stateful_set: Object, pods: list[Object], update: str) -> Object:
    """The present revision becomes the new one when every pod is of it and ready."""
    before = str(objects.status(stateful_set).get("currentRevision") or update)
    revisions = Counter(objects.labels_of(pod).get(REVISION) for pod in pods)
    updated = revisions[update]
    serving = sum(map(making.ready, pods))
    done = updated == serving == making.number(stateful_set) and not _partition(stateful_set)
    current = update if done else before
    return {
        "replicas": len(pods),
        "readyReplicas": serving,
        "availableReplicas": serving,
        "currentReplicas": revisions[current],
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": update,
        "observedGeneration": making.generation(stateful_set),
    }
