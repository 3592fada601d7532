"""The nodes of pods that instances of a super-pod have lost.

MindCluster's scheduler puts such a pod back onto its node, or chooses the nodes of the whole
instance anew, perhaps in another super-pod. So it has to be known where the pod was. After a
restart of ours that is not known. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scaler.informers.indexes import Index, instance_of
from scaler.informers.pods import PodRecord

_Name = tuple[str, str]
"""A namespace, and the uid of an instance: a pod elsewhere may name any uid."""


class LastNodes:
    def __init__(self) -> None:
        self._of: dict[_Name, dict[str, str]] = {}
        """Instance -> name of a pod -> its last node."""
        self._by_node: Index[str, _Name, str] = Index()

    def of(self, namespace: str, uid: str) -> Mapping[str, str]:
        """The last node of each pod that this instance has lost, by the name of the pod."""
        return self._of.get((namespace, uid), {})

    def uids_on(self, node: str) -> Iterable[str]:
        """The instances with a pod that was on this node."""
        return self._by_node.of(node).values()

    def change(self, old: PodRecord | None, new: PodRecord | None) -> None:
        """A pod came, changed or went."""
        if old is None or not old.node or old.devices is None:
            return
        uid = old.owner_uid or instance_of(old)
        if uid and old.devices.super_pod and (new is None or new.uid != old.uid):
            instance = (old.namespace, uid)
            self._of.setdefault(instance, {})[old.name] = old.node
            self._by_node.put(old.node, instance, uid)

    def forget(self, namespace: str, uid: str) -> None:
        """The job is gone, or all pods of an instance that its pods make."""
        instance = (namespace, uid)
        for node in self._of.pop(instance, {}).values():
            self._by_node.drop(node, instance)
