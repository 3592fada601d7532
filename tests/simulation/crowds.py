"""Many services on scarce nodes, and a witness that sees only the cluster and what the controller does with it.

It judges S1, S9 and S10 of the contract from pods and nodes, with a matching of its own: it shares nothing with
scaler.plan but the words in which decisions come.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import msgspec

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, NODES, PODS, KubeApi, Object
from scaler.plan.model import Admit, Plan, Reclaim, Snapshot
from scaler.settings import Mode
from scaler.sim import loop
from scaler.sim.actors import objects
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.census import service_of
from scaler.sim.stories.play import ADMISSION, START, real_controller, silence_logs
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.timeline import Timeline
from scaler.sim.stories.world import Observer, World
from scaler.workloads.gates import BESIDE_LABEL, NAMESPACE_LABEL

KIND = "accelerator-type"
A, B = "module-910b-8", "module-a3-16"
GROUPS = {"p": "group0", "d": "group1"}
PRIORITIES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": group}, "value": value}
    for group, value in (("group0", 1), ("group1", 2))
]
"""As MindIE's deployer has it: decode is scheduled before prefill, whose service it may be."""
SETTLED = 1.0
"""Seconds for which the newest state may contradict S10: a loss is seen and answered within it."""


class Service(msgspec.Struct, frozen=True):
    """`ladder` from the largest ratio down, as (prefill, decode); every instance of `pods` pods of eight NPUs each."""

    name: str
    ladder: tuple[tuple[int, int], ...] = ((2, 1), (1, 1))
    pods: int = 1
    kind: str = ""
    """Its node selector; "" = any node will do."""
    annotations: Mapping[str, str] = {}
    scheduler: str = "volcano"
    beside: bool = False
    """Ascend Operator makes its pods, and admission holds them."""
    jobs: tuple[int, int] | None = None
    """How many exist; None = as many as the largest ratio has."""

    @property
    def key(self) -> str:
        return f"{self.name}/rule/{self.name}"

    @property
    def floor(self) -> dict[str, int]:
        return dict(zip(GROUPS.values(), self.ladder[-1], strict=True))

    def manifests(self) -> list[Object]:
        prefills, decodes = self.jobs or self.ladder[0]
        named = {f"mind-cluster/{key}": value for key, value in self.annotations.items()}
        meta = {"name": "rule", "namespace": self.name, "annotations": named}
        rule = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": meta,
            "data": {"elastic_scaling.json": self._rule()},
        }
        names = [*(f"p{n}" for n in range(prefills)), *(f"d{n}" for n in range(decodes))]
        labels = {NAMESPACE_LABEL: "enabled", BESIDE_LABEL: "true"} if self.beside else {}
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name, "labels": labels}}
        return [space, *PRIORITIES, rule, *(self._job(name) for name in names)]

    def _rule(self) -> str:
        def entry(group: str, count: int) -> dict[str, str]:
            return {"group_name": group, "group_num": str(count), "server_num_per_group": str(self.pods)}

        ratios = [
            {"group_list": [entry(*one) for one in zip(GROUPS.values(), ratio, strict=True)]} for ratio in self.ladder
        ]
        return json.dumps({"version": "1.0", "elastic_scaling_list": ratios})

    def _job(self, name: str) -> Object:
        labels = {
            "framework": "pytorch", "app": "mindie-ms-server", "jobID": self.name, "fault-scheduling": "force",
            "fault-retry-times": "10000", "mind-cluster/scaling-rule": "rule",
            "mind-cluster/group-name": GROUPS[name[0]],
        }  # fmt: skip
        template = {"metadata": {"labels": {}}, "spec": pod_spec(self.kind, self.scheduler)}
        replicas = {"Master": {"replicas": 1, "restartPolicy": "Never", "template": template}}
        if self.pods > 1:
            replicas["Worker"] = {"replicas": self.pods - 1, "restartPolicy": "Never", "template": template}
        return {
            "apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob",
            "metadata": {"name": f"{self.name}-{name}", "namespace": self.name, "labels": labels},
            "spec": {
                "schedulerName": self.scheduler, "replicaSpecs": replicas,
                "runPolicy": {"schedulingPolicy": {"priorityClass": GROUPS[name[0]]}},
            },
        }  # fmt: skip


def pod_spec(kind: str, scheduler: str) -> Object:
    """One container that takes all eight NPUs of a node."""
    npus = {"huawei.com/Ascend910": "8"}
    container = {"name": "ascend", "image": "x", "resources": {"requests": npus, "limits": npus}}
    return {"schedulerName": scheduler, "nodeSelector": {KIND: kind} if kind else {}, "containers": [container]}


def training(count: int) -> list[Object]:
    """Pods of somebody else, bound by the default scheduler."""
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"train-{n}", "namespace": "training"},
         "spec": pod_spec("", "default-scheduler")} for n in range(count)
    ]  # fmt: skip


def written(folder: Path, name: str, manifests: Sequence[Object]) -> Path:
    """A file for a scenario."""
    path = folder / f"{name}.json"
    path.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "metadata": {"name": name}, "items": list(manifests)})
    )
    return path


def nodes(count: int, kind: str = A, first: int = 0) -> dict[str, Any]:
    return {"name": "npu-{}", "count": count, "first": first, "labels": {KIND: kind}}


def crowd(count: int, **more: Any) -> list[Service]:
    """`count` services of 2P1D down to 1P1D."""
    return [Service(f"chat-{number:02}", **more) for number in range(count)]


def serving(timeline: Timeline, when: float | None = None) -> set[str]:
    """The namespaces of services that run their smallest ratio or more."""
    at = timeline.end if when is None else when
    return {service.partition("/")[0] for service in timeline.samples if timeline.at_time(service, at).serves}


class Witness:
    """Looks at the cluster in every pass of the controller, before it acts on what was decided.

    Every pod of these worlds fills a node, so "fits" is a matching of pods to nodes.
    """

    def __init__(
        self, cluster: SimCluster, clock: Clock, services: Iterable[Service], *, given_up: Set[str] = frozenset()
    ) -> None:
        self._given_up = given_up
        self._cluster = cluster
        self._clock = clock
        self._services = {service.key: service for service in services}
        self._crowded_since: float | None = None
        self.admissions = 0
        self.reclaims = 0
        self.wrong: list[str] = []
        """What broke a promise, in words."""

    def observe(self, decisions: Sequence[tuple[Snapshot, Plan]]) -> None:
        for _, plan in decisions:
            self.admissions += sum(isinstance(action, Admit) for action in plan.actions)
            self.reclaims += sum(isinstance(action, Reclaim) for action in plan.actions)
        seen = Sight(self._cluster, self._services)
        plans = {str(plan.key): plan for _, plan in decisions}
        self._check_targets(seen, plans)
        self._check_climbs(seen, plans)
        self._check_floors(seen, plans)

    def _say(self, what: str) -> None:
        if len(self.wrong) < 5:
            self.wrong.append(f"{self._clock.now() % 100_000:.3f}: {what}")

    def _check_targets(self, seen: Sight, plans: Mapping[str, Plan]) -> None:
        """S1: what runs, what waits for the scheduler and what is admitted now are never more than the target."""
        for key, plan in plans.items():
            admitted = {action.uid for action in plan.actions if isinstance(action, Admit)}
            for group, target in plan.target.items() if key in self._services else ():
                fresh = {uid for uid in seen.of(key, group) if uid in admitted}
                there = {uid for uid in seen.of(key, group) if seen.is_running(uid)} | fresh
                there |= seen.released(key).intersection(seen.of(key, group))
                if fresh and len(there) > target:
                    self._say(f"S1: {key} gets {len(there)} in {group}, above its target {target}")

    def _check_climbs(self, seen: Sight, plans: Mapping[str, Plan]) -> None:
        """S9: nobody that serves gets more while a floor waits that would fit on what is, or soon will be, free."""
        for key, plan in plans.items():
            admitted = [action.uid for action in plan.actions if isinstance(action, Admit)]
            if not admitted or key not in self._services or not seen.serves(key):
                continue
            kind = self._services[key].kind
            for other in seen.waiting():
                wanted = seen.missing(other)
                if other == key or other in self._given_up:
                    continue
                if seen.meet(kind, self._services[other].kind) and seen.fits([wanted], soon=True):
                    self._say(f"S9: {key} climbs while {other} waits")

    def _check_floors(self, seen: Sight, plans: Mapping[str, Plan]) -> None:
        """S10: floors in the scheduler's hands fit all together, whole; a loss is answered within a moment."""
        waiting = [key for key in seen.waiting() if self._is_reserved(seen, key, plans.get(key))]
        reserved = [seen.missing(key) for key in waiting if seen.has_neighbour(key)]
        if seen.fits(reserved):
            self._crowded_since = None
        elif self._crowded_since is None:
            self._crowded_since = self._clock.now()
        elif self._clock.now() - self._crowded_since > SETTLED:
            self._say(f"S10: {len(reserved)} floors do not fit together: {seen.free()}")

    def _is_reserved(self, seen: Sight, key: str, plan: Plan | None) -> bool:
        """Some of its floor is on its way to a node, or is sent there now."""
        actions = plan.actions if plan else ()
        back = {action.uid for action in actions if isinstance(action, Reclaim)}
        return bool(seen.released(key) - back) or any(isinstance(action, Admit) for action in actions)


class Sight:
    """The cluster at one moment, as far as the services are concerned."""

    def __init__(self, cluster: SimCluster, services: Mapping[str, Service]) -> None:
        self._services = services
        self._kinds = {objects.name(node): objects.labels_of(node).get(KIND, "") for node in cluster.peek(NODES)}
        self._usable = {
            objects.name(node)
            for node in cluster.peek(NODES)
            if objects.node_ready(node) and not objects.spec(node).get("unschedulable")
        }
        self._jobs: dict[str, dict[str, Object]] = {}
        for job in cluster.peek(ASCEND_JOBS):
            if not objects.terminating(job):
                self._jobs.setdefault(service_of(job), {})[objects.uid(job)] = job
        self._pods: dict[str, list[Object]] = {}
        for pod in cluster.peek(PODS):
            if not objects.ended(pod):
                self._pods.setdefault(objects.owner_uid(pod), []).append(pod)

    def meet(self, one: str, other: str) -> bool:
        """There is room, now or soon, on a node that both may use."""
        return any(one in ("", kind) and other in ("", kind) for kind in self.free(soon=True))

    def has_neighbour(self, key: str) -> bool:
        """Another service could ever use some of its nodes; who is alone is admitted whether it fits or not."""
        kinds = {self._services[other].kind for other in self._jobs if other in self._services and other != key}
        own = self._services[key].kind
        return any(own in ("", kind) and other in ("", kind) for other in kinds for kind in self._kinds.values())

    def serves(self, key: str) -> bool:
        return not self._lacking(key, self.is_running)

    def waiting(self) -> list[str]:
        """Services whose smallest ratio is not all bound and could be: its jobs exist."""
        return [
            key for key in self._jobs if key in self._services and self.missing(key) and not self._lacking(key, bool)
        ]

    def missing(self, key: str) -> list[str]:
        """Kind of node for each pod that the smallest ratio still needs; of each group the nearest instances."""
        service, found = self._services[key], list[str]()
        for group, number in service.floor.items():
            unbound = sorted(self._unbound(uid) for uid in self.of(key, group))[:number]
            found += [service.kind] * sum(unbound)
        return found

    def released(self, key: str) -> set[str]:
        """Its instances that have pods which wait for the scheduler."""
        return {
            uid
            for uid in self._jobs.get(key, {})
            if any(
                not objects.node_of(pod) and not objects.gated(pod) and not objects.terminating(pod)
                for pod in self._pods.get(uid, [])
            )
        }

    def free(self, *, soon: bool = False) -> list[str]:
        """Kinds of the nodes that nobody is on; `soon` = also what is due back."""
        taken = {
            objects.node_of(pod)
            for pods in self._pods.values()
            for pod in pods
            if not (soon and objects.terminating(pod))
        }
        return [kind for name, kind in self._kinds.items() if name not in taken and (soon or name in self._usable)]

    def fits(self, floors: Sequence[Sequence[str]], *, soon: bool = False) -> bool:
        """Whether all these pods find nodes: those that say which kind first, the others take what is left."""
        wanted = [kind for floor in floors for kind in floor]
        free = self.free(soon=soon)
        picky = all(wanted.count(kind) <= free.count(kind) for kind in set(wanted) if kind)
        return picky and len(wanted) <= len(free)

    def _lacking(self, key: str, good: Any) -> bool:
        floor = self._services[key].floor
        return any(sum(map(good, self.of(key, group))) < number for group, number in floor.items())

    def of(self, key: str, group: str) -> list[str]:
        jobs = self._jobs.get(key, {}).items()
        return [uid for uid, job in jobs if objects.scaling_labels(job).get("mind-cluster/group-name") == group]

    def _unbound(self, uid: str) -> int:
        return self._size(uid) - sum(bool(objects.node_of(pod)) for pod in self._alive(uid))

    def is_running(self, uid: str) -> bool:
        alive = self._alive(uid)
        return len(alive) == self._size(uid) and all(objects.phase(pod) == "Running" for pod in alive)

    def _alive(self, uid: str) -> list[Object]:
        return [pod for pod in self._pods.get(uid, []) if not objects.terminating(pod)]

    def _size(self, uid: str) -> int:
        job = next(jobs[uid] for jobs in self._jobs.values() if uid in jobs)
        return sum(int(part["replicas"]) for part in objects.spec(job)["replicaSpecs"].values())


def watched(
    what: Scenario, services: Iterable[Service], *, seed: int = 0, given_up: Set[str] = frozenset()
) -> tuple[Timeline, Witness]:
    """Play it with the witness watching. `given_up`: keys of services that are never bound, and block nobody."""
    silence_logs()
    timeline = Timeline(None)

    async def main() -> Witness:
        clock = Clock(START)
        cluster = SimCluster(clock, seed=seed, admission=ADMISSION)
        witness = Witness(cluster, clock, services, given_up=given_up)
        mode = Mode.GATES if what.ascend_operator else Mode.CREATE
        real = real_controller(seed, mode=mode, arbitration=what.arbitration)

        async def controller(api: KubeApi, clock: Clock, observe: Observer) -> None:
            def both(decisions: Sequence[tuple[Snapshot, Plan]]) -> None:
                witness.observe(decisions)
                observe(decisions)

            await real(api, clock, both)

        await World(cluster, clock, what, controller=controller, timeline=timeline, seed=seed).play()
        return witness

    return timeline, loop.run(main(), seed=seed)
