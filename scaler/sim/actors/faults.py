"""A stand-in for the fault handling of MindCluster's Volcano plugin: it deletes the pods of faulty
instances.

Only PodGroups in phase Running or Unknown are handled. A pod is faulty when its node is missing or
not Ready, when its node, switch or one of its chips is reported as faulty, when it is labelled
`fault-type=Separate`, or when it failed and the PodGroup's `fault-retry-times` is not used up. Not
modelled: sub-health faults, and the escalation of pod-level rescheduling. Must not: delete
PodGroups, Services or jobs, or create anything."""

from __future__ import annotations

from collections import defaultdict

from scaler.clock import Clock
from scaler.kube.api import CONFIG_MAPS, NODES, POD_GROUPS, PODS, KubeApi, Object
from scaler.sim.actors import objects
from scaler.sim.actors.devices import DEVICE_PREFIX, NODE_PREFIX, given_chips, reported
from scaler.sim.actors.stand_in import RETRY, Key, StandIn, key_of


class FaultActor(StandIn):
    """Seconds: `detection` from a fault to the deletion, `grace_over_time` until pods that still
    exist are forced."""

    def __init__(
        self, api: KubeApi, clock: Clock, *, detection: float = 5.0, grace_over_time: float = 900.0
    ) -> None:
        super().__init__(api, PODS, NODES, POD_GROUPS, CONFIG_MAPS)
        self._clock = clock
        self._detection = detection
        self._grace_over_time = grace_over_time
        self._reports: list[Object] = []
        """The ConfigMaps with the reports of agents, in this round."""
        self._faulty_since: dict[str, float] = {}
        self._retries_used: dict[str, int] = {}
        self._evicted: dict[str, float] = {}
        """Pod uid -> time at which its graceful deletion is forced."""

    async def _round(self) -> float | None:
        self._reports = []
        for config_map in self.mirror.all(CONFIG_MAPS):
            if objects.name(config_map).startswith((DEVICE_PREFIX, NODE_PREFIX)):
                self._reports.append(config_map)
        members = self._members()
        faults = self._faults(members)
        now = self._clock.now()
        since = {}
        for _, pod in faults:
            since[objects.uid(pod)] = self._faulty_since.get(objects.uid(pod), now)
        self._faulty_since = since
        due: dict[Key, list[Object]] = defaultdict(list)
        waits = []
        for group, pod in faults:
            pause = since[objects.uid(pod)] + self._detection - now
            if pause > 0:
                waits.append(pause)
            else:
                due[key_of(group)].append(pod)
        for key, pods in due.items():
            await self._act(key, pods, members[key])
        waits += await self._force_overdue()
        return min(waits, default=None)

    def _members(self) -> dict[Key, list[Object]]:
        """The pods of each PodGroup."""
        members: dict[Key, list[Object]] = defaultdict(list)
        for pod in self.mirror.all(PODS):
            if group_name := objects.annotations_of(pod).get(objects.GROUP_NAME):
                members[objects.namespace(pod), group_name].append(pod)
        return members

    def _faults(self, members: dict[Key, list[Object]]) -> list[tuple[Object, Object]]:
        """Each faulty pod, after its PodGroup."""
        faults = []
        for group in self.mirror.all(POD_GROUPS):
            if objects.status(group).get("phase") in {"Running", "Unknown"}:
                for pod in members[key_of(group)]:
                    if self._is_faulty(group, pod):
                        faults.append((group, pod))
        return faults

    def _is_faulty(self, group: Object, pod: Object) -> bool:
        handled = _setting(group, pod, "fault-scheduling") in {"force", "grace"}
        if not handled or not objects.node_of(pod):
            return False
        failed = objects.phase(pod) == "Failed" or objects.last_exit_code(pod) != 0
        try:
            retries = abs(int(_setting(group, pod, "fault-retry-times") or "0"))
        except ValueError:
            retries = 0
        return self._separated(pod) or (
            failed and retries > self._retries_used.get(objects.uid(group), 0)
        )

    def _separated(self, pod: Object) -> bool:
        node = self.mirror.get(NODES, "", objects.node_of(pod))
        faults = reported(self._reports, objects.node_of(pod))
        hurt = faults.whole or bool(faults.chips & given_chips(pod))
        return (
            hurt
            or not objects.node_ready(node)
            or objects.labels_of(pod).get("fault-type") == "Separate"
        )

    async def _act(self, key: Key, faulty: list[Object], members: list[Object]) -> None:
        group = self.mirror.get(POD_GROUPS, *key)
        if group is None:
            return
        force = _setting(group, faulty[0], "fault-scheduling") == "force"
        hit = faulty if _pod_level(group, faulty[0]) else members
        # force also ends terminating pods
        doomed = [pod for pod in hit if force or not objects.terminating(pod)]
        if doomed and not any(map(self._separated, faulty)):
            uid = objects.uid(group)
            self._retries_used[uid] = self._retries_used.get(uid, 0) + 1
        forced_at = self._clock.now() + self._grace_over_time
        for pod in doomed:
            if not force:
                self._evicted.setdefault(objects.uid(pod), forced_at)
            await self.end(pod, grace=0 if force else None)

    async def _force_overdue(self) -> list[float]:
        """Ends by force what `grace` did not end, in any phase of its PodGroup; returns seconds
        until the next ones."""
        now = self._clock.now()
        present = {objects.uid(pod): pod for pod in self.mirror.all(PODS)}
        self._evicted = {uid: due for uid, due in self._evicted.items() if uid in present}
        for uid, due in list(self._evicted.items()):
            if due <= now and await self.end(present[uid], grace=0):
                del self._evicted[uid]
        return [max(due - now, RETRY) for due in self._evicted.values()]


def _setting(group: Object, pod: Object, key: str) -> str:
    """A label of the PodGroup, merged with the pod's labels."""
    return objects.labels_of(group).get(key) or objects.labels_of(pod).get(key) or ""


def _pod_level(group: Object, pod: Object) -> bool:
    """Whether only the faulty pod is deleted, not its whole instance."""
    return (
        _setting(group, pod, "app") in {"mindie-ms-controller", "mindie-ms-coordinator"}
        or _setting(group, pod, "pod-rescheduling") == "on"
        or _setting(group, pod, "process-recover-enable") == "on"
        or _recovers_by_pod(group)
        or _recovers_by_pod(pod)
        or bool(_setting(group, pod, "ome.io/inferenceservice"))
    )


def _recovers_by_pod(obj: Object) -> bool:
    return objects.annotations_of(obj).get("huawei.com/recover_policy_path") == "pod"
