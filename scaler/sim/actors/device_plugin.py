"""A stand-in for what gives pods their chips: Volcano's NPU plugin and the device plugins of all nodes.

A bound pod that asks for NPUs gets the first chips of its node that are neither taken nor reported faulty, and the
annotations that say so. Must not: bind pods, report faults, or know of rules, jobs and rank tables.
"""

from __future__ import annotations

from scaler.kube.api import CONFIG_MAPS, NODES, PODS, KubeApi, Object
from scaler.sim.actors import objects
from scaler.sim.actors.chips import chip_name, chips_of, device_annotations, given_chips, wanted_chips
from scaler.sim.actors.controller import RETRY, StandIn, attempt, merge
from scaler.sim.actors.fault_reports import reported


class DevicePlugin(StandIn):
    """Follows pods and nodes. Driven by what the pods themselves say, so it may be restarted at any time."""

    def __init__(self, api: KubeApi) -> None:
        super().__init__(api, PODS, NODES, CONFIG_MAPS)
        self._given: dict[str, frozenset[str]] = {}
        """Pod uid -> its chips, also before the mirror shows the annotation."""

    async def _round(self) -> float | None:
        pods = [pod for pod in self.mirror.all(PODS) if objects.node_of(pod) and not objects.ended(pod)]
        known = {objects.uid(pod): given_chips(pod) or self._given.get(objects.uid(pod), frozenset()) for pod in pods}
        self._given = known
        good = True
        for pod in pods:
            if not known[objects.uid(pod)] and not objects.terminating(pod):
                good = await self._serve(pod, pods) and good
        return None if good else RETRY

    async def _serve(self, pod: Object, pods: list[Object]) -> bool:
        """False when a write failed; a pod for which there are not enough chips waits for a change."""
        node = objects.node_of(pod)
        resource, number = wanted_chips(pod)
        taken = {chip for other in pods if objects.node_of(other) == node for chip in self._given[objects.uid(other)]}
        free = [chip for chip in self._usable(node, resource) if chip not in taken]
        if not number or len(free) < number:
            return True
        chips = self._given[objects.uid(pod)] = frozenset(free[:number])
        patch: Object = {"metadata": {"annotations": device_annotations(pod, node, chips)}}
        written = await attempt(merge(self.api, PODS, pod, patch))
        if not written:
            self._given[objects.uid(pod)] = frozenset()
        return written

    def _usable(self, node: str, resource: str) -> list[str]:
        has, number = chips_of(self.mirror.get(NODES, "", node))
        faults = reported(self.mirror.all(CONFIG_MAPS), node)
        names = [chip_name(resource, index) for index in range(number)] if has == resource else []
        return [name for name in names if name not in faults.chips]
