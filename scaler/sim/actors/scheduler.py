"""A stand-in for Volcano (1.10 and newer): binds gangs whole and writes PodGroup phases, as a
client of KubeApi.

Sessions run one after another, at most one per period, and only when something has changed. In one
session: enqueue (a PodGroup goes Inqueue when the idle NPUs of the cluster would do for its
minResources), allocate (gangs in the order of priority, then age), phases. Gated pods keep a gang
valid, but not ready: with fewer released pods than it needs nothing of it is bound, with enough of
them they go ahead. MindCluster's plugin is in it: it raises what a PodGroup of a ReplicaSet needs
to all replicas (see `_grouped`), and decides alone what is enqueued, unless its setting
`forceEnqueue` is off. Where nodes carry device data, the rest of the plugin is in it too
(scaler.sim.actors.npu_plugin): chips, super-pods, conditions of PodGroups and pods. Without gangs
it stands in for kube-scheduler. Must not: delete anything, or know of rules and instances."""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
from collections import defaultdict

from scaler.clock import Clock
from scaler.kube.api import (
    CONFIG_MAPS,
    HYPER_NODES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    KubeApi,
    Object,
)
from scaler.kube.errors import KubeError
from scaler.sim.actors import objects
from scaler.sim.actors.faulty_api import Curses, Never
from scaler.sim.actors.hyper_nodes import tried
from scaler.sim.actors.npu_conditions import (
    NO_PODS,
    READY,
    UNSCHEDULABLE,
    conditions_after,
    pod_conditions_after,
)
from scaler.sim.actors.npu_plugin import JOB_ENQUEUE_FAILED, NpuPlugin, NpuSession, Placed, Wanted
from scaler.sim.actors.placement import Nodes
from scaler.sim.actors.stand_in import StandIn, key_of, merge
from scaler.sim.apiserver.kinds import BINDINGS

_MIN_AVAILABLE = "huawei.com/schedule_minAvailable"
"""Annotation in which users write how many pods must start together."""


class Gang:
    """The pods of one PodGroup (or one pod without any: `group` is None); `needed` of them must
    start together."""

    def __init__(self, group: Object | None, pods: list[Object], needed: int = 1) -> None:
        self.group = group
        self.pods: list[Object] = []
        """Those that are neither terminating nor held."""
        self.unbound: list[Object] = []
        """Those of `pods` that wait for a node."""
        self._provided: list[Object] = []
        """Those that are held or bound."""
        staying = objects.staying(pods)
        self.members = staying
        """Those that are not terminating, the held ones included."""
        self.terminating = len(staying) < len(pods)
        for pod in pods:
            if objects.gated(pod) or objects.node_of(pod):
                self._provided.append(pod)
        for pod in staying:
            if objects.gated(pod):
                continue
            self.pods.append(pod)
            if not objects.node_of(pod) and not objects.ended(pod):
                self.unbound.append(pod)
        self.min_member = _min_member(group)
        self.needed = max(needed, self.min_member)

    @property
    def keeps(self) -> dict[str, float]:
        """Resources kept free for it while it is in the queue: the requests of its PodGroup, with
        or without pods, minus the requests of its held and of its bound pods."""
        requested = (objects.spec(self.group).get("minResources") or {}) if self.group else {}
        provided = dict.fromkeys(requested, 0.0)
        for pod in self._provided:
            for name, amount in objects.requests(pod).items():
                if name in provided:
                    provided[name] += amount
        kept = {}
        for name, amount in requested.items():
            kept[name] = max(0.0, objects.quantity(amount) - provided[name])
        return kept

    def phase(self, bound_now: int) -> str:
        """The phase at the end of a session that has bound so many of its pods (Volcano 1.12)."""
        bound = bound_now
        phases = set()
        for pod in self.pods:
            phases.add(objects.phase(pod))
            if objects.node_of(pod):
                bound += 1
        if bound < self.min_member:
            return "Unknown" if "Running" in phases else "Pending"
        return "Completed" if phases == {"Succeeded"} else "Running"


class GangScheduler(StandIn):
    """Follows pods, nodes and PodGroups; `period` is the least time between two sessions, in
    seconds.

    `gangs=False`: every pod is scheduled alone, and PodGroups have no effect.
    `force_enqueue=False`: as with Volcano's own plugins, PodGroups in the queue keep room free, and
    none enters the queue without room beside that. `devices`: nodes carry device data, and
    MindCluster's plugin decides by it. `hyper_nodes`: HyperNodes are installed. The order among
    gangs of the same priority and second, and among equally full nodes, has no guarantee: by name
    with seed 0, else different for each
    seed."""

    # Wiring: everything that the scheduler works with.
    def __init__(  # noqa: PLR0913
        self,
        api: KubeApi,
        *,
        period: float = 1.0,
        gangs: bool = True,
        force_enqueue: bool = True,
        devices: bool = False,
        hyper_nodes: bool = False,
        clock: Clock | None = None,
        seed: int = 0,
        cursed: Curses | None = None,
    ) -> None:
        followed = [PODS, NODES]
        if gangs:
            followed += [POD_GROUPS, PRIORITY_CLASSES, REPLICA_SETS]
        if devices:
            followed.append(CONFIG_MAPS)
        if hyper_nodes:
            followed.append(HYPER_NODES)
        super().__init__(api, *followed)
        self.plugin = NpuPlugin() if devices else None
        self._clock = clock or Clock()
        self._hyper_nodes = hyper_nodes
        self._seed = seed
        # For order, not for secrets.
        self._tie = random.Random(f"scheduler-{seed}") if seed else None  # noqa: S311
        self._period = period
        self._by_group = gangs
        self._force_enqueue = force_enqueue
        self._cursed = cursed or Curses()
        self._withheld = False
        """A curse kept something back in this session."""
        self._at_work = asyncio.Event()
        self._at_work.set()
        self._queued: defaultdict[str, float] = defaultdict(float)
        """Resources for which PodGroups in the queue keep nodes free in this session."""
        self._assumed: dict[str, tuple[str, dict[str, str]]] = {}
        """Pod uid -> node and annotations of bindings that the mirror has not shown yet."""

    def stop(self) -> None:
        """No more sessions until `resume`; the present one is completed."""
        self._at_work.clear()

    def resume(self) -> None:
        """Continue; changes made meanwhile are seen at once."""
        self._at_work.set()

    async def _work(self) -> None:
        pause: float | None = None
        while True:
            await self.mirror.wait(pause)
            await self._at_work.wait()
            if self.mirror.synced:
                pause = await self._round()
            await asyncio.sleep(self._period)

    async def _round(self) -> float | None:
        """One session; after a failed or withheld write the next one does not wait for a change."""
        pods = self._pods()
        nodes = Nodes(self.mirror.all(NODES), pods, tie=self._tie)
        session = self._open(pods)
        self.failed = self._withheld = False
        gangs = self._gangs(pods)
        self._queued.clear()
        for gang in gangs:
            if gang.group is not None and _phase(gang.group) == "Inqueue":
                self._keep_free(gang)
        for gang in gangs:
            phase = self._enqueue(gang, nodes, session)
            placed = Placed()
            if phase != "Pending":
                placed = self._allocate(gang, nodes, phase, session)
            elif session is not None and gang.group is not None:
                refused = session.why_not_enqueued(gang.group)
                placed.conditions = {JOB_ENQUEUE_FAILED: refused} if refused else {}
            bound = 0
            for pod in gang.unbound:
                node = placed.nodes.get(objects.name(pod))
                notes = placed.annotations.get(objects.name(pod), {})
                if node is not None and await self._bind(pod, node, notes):
                    bound += 1
            self.failed |= bound < len(placed.nodes)
            closing = gang.phase(bound)
            if (closing, phase) == ("Pending", "Inqueue"):
                closing = phase
            await self._close(gang, closing, bound, placed, said=session is not None)
        return self._period if self.failed or self._withheld else None

    def _open(self, pods: list[Object]) -> NpuSession | None:
        """The session of the plugin; None where nodes carry no device data."""
        if self.plugin is None:
            return None
        self.plugin.forget_gone(self.mirror.all(POD_GROUPS))
        return self.plugin.open(self.mirror.all(NODES), self.mirror.all(CONFIG_MAPS), pods)

    async def _close(
        self, gang: Gang, phase: str, bound: int, placed: Placed, *, said: bool
    ) -> None:
        """Write the phase of the PodGroup, and what the plugin says of it and of its pods."""
        if gang.group is None:
            return
        status: Object = {}
        if objects.status(gang.group).get("phase") != phase:
            status["phase"] = phase
        if said:
            ready = bound + len(gang.pods) - len(gang.unbound) >= gang.needed
            waiting = _waiting_words(gang)
            words = (READY if ready else waiting) if gang.members else NO_PODS
            now = self._clock.timestamp()
            conditions = conditions_after(gang.group, placed.conditions, words, now)
            if conditions is not None:
                status["conditions"] = conditions
            for pod in gang.unbound:
                if objects.name(pod) not in placed.nodes:
                    reason = placed.pods.get(objects.name(pod), (UNSCHEDULABLE, waiting))
                    await self._tell(pod, reason, now)
        if status:
            await self.attempt(merge(self.api, POD_GROUPS, gang.group, {"status": status}))

    async def _tell(self, pod: Object, reason: tuple[str, str], now: str) -> None:
        """Write on the pod why it has no node."""
        conditions = pod_conditions_after(pod, reason, now)
        if conditions is not None:
            patch = {"status": {"conditions": conditions}}
            await self.attempt(merge(self.api, PODS, pod, patch, subresource="status"))

    def _pods(self) -> list[Object]:
        """All pods, with the bindings of earlier sessions included even if the watch is behind."""
        pods = []
        assumed = {}
        for pod in self.mirror.all(PODS):
            uid = objects.uid(pod)
            node, notes = self._assumed.get(uid, ("", {}))
            if not node or objects.node_of(pod):
                pods.append(pod)
            else:
                assumed[uid] = (node, notes)
                noted = {**objects.annotations_of(pod), **notes}
                metadata = {**pod["metadata"], "annotations": noted}
                spec = {**objects.spec(pod), "nodeName": node}
                pods.append({**pod, "metadata": metadata, "spec": spec})
        self._assumed = assumed
        return pods

    def _gangs(self, pods: list[Object]) -> list[Gang]:
        members: dict[tuple[str, str], list[Object]] = defaultdict(list)
        single = []
        for pod in pods:
            scheduler = objects.spec(pod).get("schedulerName") or ""
            if scheduler not in ("volcano", "default-scheduler", ""):
                continue
            group_name = objects.annotations_of(pod).get(objects.GROUP_NAME)
            if group_name and self._by_group:
                members[objects.namespace(pod), group_name].append(pod)
            else:
                single.append(Gang(None, [pod]))
        groups = self.mirror.all(POD_GROUPS) if self._by_group else []
        grouped = [self._grouped(group, members.get(key_of(group), [])) for group in groups]
        return sorted([*grouped, *single], key=self._order)

    def _grouped(self, group: Object, pods: list[Object]) -> Gang:
        """The gang of a PodGroup. If instances share it, MindCluster's plugin requires more pods
        than it says."""
        # users write it on the PodGroup, else on its first pod
        for obj in (group, *sorted(pods, key=key_of)[:1]):
            stated = objects.annotations_of(obj).get(_MIN_AVAILABLE, "")
            if stated.isascii() and stated.isdecimal():
                return Gang(group, pods, int(stated) if _min_member(group) == 1 else 1)
        for replica_set in self.mirror.all(REPLICA_SETS):
            if objects.uid(replica_set) == objects.owner_uid(group):
                return Gang(group, pods, int(objects.spec(replica_set).get("replicas") or 0))
        return Gang(group, pods, 1)

    def _order(self, gang: Gang) -> tuple[int, str, str, tuple[str, str]]:
        """Priority, the highest first, then age; equal ones by a draw from the seed, or by name."""
        subject = gang.group or next(iter(gang.pods), None)
        if subject is None:
            return 0, "", "", ("", "")
        created = str(subject["metadata"].get("creationTimestamp", ""))
        drawn = ""
        if self._seed:
            text = f"{self._seed}/{objects.uid(subject)}".encode()
            drawn = hashlib.blake2b(text, digest_size=4).hexdigest()
        return -self._priority(gang), created, drawn, key_of(subject)

    def _priority(self, gang: Gang) -> int:
        name = objects.spec(gang.group).get("priorityClassName") if gang.group else None
        found = self.mirror.get(PRIORITY_CLASSES, "", str(name)) if name else None
        return int((found or {}).get("value") or 0)

    def _enqueue(self, gang: Gang, nodes: Nodes, session: NpuSession | None) -> str:
        """The phase with which the gang enters the allocate step."""
        if gang.group is None:
            return "Inqueue"
        phase = _phase(gang.group)
        if phase != "Pending":
            return phase
        if self._cursed(Never.ENQUEUED, gang.group):
            self._withheld = True
            return phase
        if session is not None and session.why_not_enqueued(gang.group):
            return phase
        if session is None and not self._has_idle_devices(gang.group, nodes):
            return phase
        self._keep_free(gang)
        return "Inqueue"

    def _has_idle_devices(self, group: Object, nodes: Nodes) -> bool:
        """The check of MindCluster's plugin: only idle NPUs count, minus those that are kept for
        others."""
        requested = objects.spec(group).get("minResources") or {}
        for name, amount in requested.items():
            idle = nodes.idle(name) - self._queued.get(name, 0.0) if "/" in name else math.inf
            if idle < objects.quantity(amount):
                return False
        return True

    def _keep_free(self, gang: Gang) -> None:
        if not self._force_enqueue:
            for name, amount in gang.keeps.items():
                self._queued[name] += amount

    def _allocate(self, gang: Gang, nodes: Nodes, phase: str, session: NpuSession | None) -> Placed:
        """Nodes for as many pods as fit, if these and the bound ones are as many as must start
        together."""
        there = gang.members if session is not None else gang.pods
        complete = not gang.terminating and len(there) >= gang.needed
        if phase == "Completed" or not complete or not gang.unbound:
            return Placed()
        bound = len(gang.pods) - len(gang.unbound)
        in_order = sorted(gang.unbound, key=key_of)
        pods = [pod for pod in in_order if not self._cursed(Never.BOUND, pod)]
        halves = [pod for pod in pods if self._cursed(Never.HALF_BOUND, pod)]
        if halves or len(pods) < len(in_order):
            self._withheld = True
        if halves:
            return Placed() if bound else Placed(nodes.place(halves[:1], 1))
        if not pods:
            return Placed()
        if session is None or gang.group is None:
            return Placed(self._place(gang, pods, gang.needed - bound, nodes))
        return session.place(Wanted(gang.group, gang.members, pods, gang.needed - bound), nodes)

    def _place(self, gang: Gang, pods: list[Object], at_least: int, nodes: Nodes) -> dict[str, str]:
        """Pod name -> node; in the first HyperNode that has room where it has to be in one."""
        hyper_nodes = self.mirror.all(HYPER_NODES) if self._hyper_nodes else []
        bound = {objects.node_of(pod) for pod in gang.pods if objects.node_of(pod)}
        within = tried(gang.group, hyper_nodes, self.mirror.all(NODES), bound, self._tie)
        if within is None:
            return nodes.place(pods, at_least)
        for names in within:
            placed = nodes.place(pods, at_least, names)
            if placed:
                return placed
        return {}

    async def _bind(self, pod: Object, node: str, notes: dict[str, str]) -> bool:
        """Bind the pod, with these annotations."""
        about: Object = {
            "name": objects.name(pod),
            "namespace": objects.namespace(pod),
            "uid": objects.uid(pod),
        }
        if notes:
            about["annotations"] = notes
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body: Object = {"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": target}
        try:
            await self.api.create(BINDINGS, objects.namespace(pod), body)
        except KubeError:
            return False  # deleted or gated meanwhile: the next session sees it
        self._assumed[objects.uid(pod)] = (node, notes)
        return True


def _waiting_words(gang: Gang) -> str:
    """What Volcano says of a gang that has too few nodes."""
    counts = f"{len(gang.unbound)} Pending, {gang.needed} minAvailable"
    total = len(gang.members)
    return f"{total}/{total} tasks in gang unschedulable: pod group is not ready, {counts}"


def _min_member(group: Object | None) -> int:
    return int(objects.spec(group).get("minMember") or 1) if group else 1


def _phase(group: Object) -> str:
    return str(objects.status(group).get("phase") or "Pending")
