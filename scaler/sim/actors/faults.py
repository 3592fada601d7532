"""A stand-in for the fault handling of MindCluster's Volcano plugin: it deletes the pods of faulty
instances.

Only PodGroups in phase Running or Unknown are handled. A pod is faulty when its node is missing or
not Ready, when its node, switch or one of its chips is reported as faulty, when it is labelled
`fault-type=Separate`, when it failed and the PodGroup's `fault-retry-times` is not used up, or when
a chip of it or its switch is sub-healthy and the job's `subHealthyStrategy` is graceExit or
forceExit. Pods that are to be replaced alone (`pod-rescheduling: on`) take their block with them
when they have found no node for 6 s, and the whole job after 12 s. Not modelled: that a pod which
fails in its first second ends its job. Must not: delete PodGroups, Services or jobs, or create
anything."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from scaler.clock import Clock
from scaler.kube.api import CONFIG_MAPS, NODES, POD_GROUPS, PODS, KubeApi, Object
from scaler.sim.actors import objects
from scaler.sim.actors.devices import DEVICE_PREFIX, NODE_PREFIX, given_chips, reported
from scaler.sim.actors.stand_in import RETRY, Key, StandIn, key_of

_EXITS = {"graceExit": "grace", "forceExit": "force"}
"""`subHealthyStrategy` -> how pods leave."""
_BLOCK_AFTER = 6.0
_JOB_AFTER = 12.0
"""Seconds, that is sessions, in which a pod that is replaced alone may find no node."""


class _Alone(msgspec.Struct):
    """Pods of a job that were deleted alone. `size` = pods of the job, `blocks` = those they were
    in, `gone` = their uids."""

    since: float
    size: int
    blocks: frozenset[str]
    gone: frozenset[str]
    widened: bool = False


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
        self._alone: dict[Key, _Alone] = {}
        """PodGroup -> what was deleted of it alone and has no node again."""

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
        waits += await self._widen(members)
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
        if self._separated(pod) or self._is_sub_healthy(group, pod):
            return True
        return failed and retries > self._retries_used.get(objects.uid(group), 0)

    def _is_sub_healthy(self, group: Object, pod: Object) -> bool:
        """Whether the pod has to leave for a sub-health fault."""
        if _setting(group, pod, "subHealthyStrategy") not in _EXITS:
            return False
        said = reported(self._reports, objects.node_of(pod))
        return said.sub_healthy_switch or bool(said.sub_healthy & given_chips(pod))

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
        how = _setting(group, faulty[0], "fault-scheduling")
        if not any(map(self._separated, faulty)) and self._is_sub_healthy(group, faulty[0]):
            how = _EXITS[_setting(group, faulty[0], "subHealthyStrategy")]
        alone = _pod_level(group, faulty[0]) and not any(map(_is_master, faulty))
        hit = faulty if alone or _never_whole(group, faulty[0]) else members
        # force also ends terminating pods
        force = how == "force"
        doomed = [pod for pod in hit if force or not objects.terminating(pod)]
        if doomed and not any(map(self._separated, faulty)):
            uid = objects.uid(group)
            self._retries_used[uid] = self._retries_used.get(uid, 0) + 1
        # Seen of the plugin, which works by reports of devices; without any it is not played.
        if self._reports and alone and not _never_whole(group, faulty[0]):
            blocks = frozenset(map(_block_of, faulty))
            gone = frozenset(map(objects.uid, faulty))
            self._alone[key] = _Alone(self._clock.now(), len(members), blocks, gone)
        await self._end_all(doomed, force=force)

    async def _end_all(self, doomed: list[Object], *, force: bool) -> None:
        forced_at = self._clock.now() + self._grace_over_time
        for pod in doomed:
            if not force:
                self._evicted.setdefault(objects.uid(pod), forced_at)
            await self.end(pod, grace=0 if force else None)

    async def _widen(self, members: dict[Key, list[Object]]) -> list[float]:
        """Deletes more of the jobs whose replaced pods find no node; returns seconds until the next
        such step."""
        now = self._clock.now()
        waits = []
        for key, alone in list(self._alone.items()):
            pods = members[key]
            bound = []
            for pod in pods:
                if objects.node_of(pod) and objects.uid(pod) not in alone.gone:
                    bound.append(pod)
            if len(bound) >= alone.size or self.mirror.get(POD_GROUPS, *key) is None:
                del self._alone[key]
            elif now >= alone.since + _JOB_AFTER:
                del self._alone[key]
                await self._end_all(bound, force=True)
            elif now >= alone.since + _BLOCK_AFTER:
                if alone.blocks != {""} and not alone.widened:
                    alone.widened = True
                    hit = [pod for pod in bound if _block_of(pod) in alone.blocks]
                    await self._end_all(hit, force=True)
                waits.append(alone.since + _JOB_AFTER - now)
            else:
                waits.append(alone.since + _BLOCK_AFTER - now)
        return waits

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
    """Whether only the faulty pod is deleted, not its whole instance, for as long as it finds
    another node."""
    return (
        _never_whole(group, pod)
        or _setting(group, pod, "pod-rescheduling") == "on"
        or _setting(group, pod, "process-recover-enable") == "on"
    )


def _never_whole(group: Object, pod: Object) -> bool:
    """Whether only the faulty pod is deleted, whatever becomes of it."""
    return (
        _setting(group, pod, "app") in {"mindie-ms-controller", "mindie-ms-coordinator"}
        or _recovers_by_pod(group)
        or _recovers_by_pod(pod)
        or bool(_setting(group, pod, "ome.io/inferenceservice"))
    )


def _is_master(pod: Object) -> bool:
    return objects.annotations_of(pod).get("hccl/rankIndex") == "0"


def _block_of(pod: Object) -> str:
    """The block of a super-pod job that the pod is in, "" where it is in none."""
    return objects.annotations_of(pod).get("super-pod-rank", "")


def _recovers_by_pod(obj: Object) -> bool:
    return objects.annotations_of(obj).get("huawei.com/recover_policy_path") == "pod"
