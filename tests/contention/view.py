"""The cluster as far as services on scarce nodes are concerned, kept current event by event, in small values.

It is fed what the controller's own watches deliver, so that it judges a decision by what could be known then. Shares
nothing with scaler.informers or scaler.decide. Must not: judge (tests.contention.witness).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import msgspec

from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, NODES, PODS, Object, Resource
from scaler.sim.actors import objects
from scaler.sim.stories.instances import service_of
from tests.contention.services import KIND, RULE, Service

Key = tuple[str, str]
"""Namespace and name."""


class Node(msgspec.Struct, frozen=True):
    kind: str
    usable: bool


class Pod(msgspec.Struct, frozen=True):
    """`waits`: in the scheduler's hands."""

    owner: str
    node: str
    phase: str
    terminating: bool
    waits: bool


class Job(msgspec.Struct, frozen=True):
    uid: str
    service: str
    group: str
    size: int


class Sight:
    """Every pod of these worlds fills a node, so "fits" is a matching of pods to nodes."""

    def __init__(self, services: Iterable[Service]) -> None:
        self.services = {service.key: service for service in services}
        self.nodes: dict[Key, Node] = {}
        self.jobs: dict[Key, Job] = {}
        self.pods: dict[Key, Pod] = {}
        self.rules: set[str] = set()
        """Namespaces whose rule was seen; a rule that goes is remembered."""
        self._jobs_of: dict[tuple[str, str], list[Job]] = {}
        self._pods_of: dict[str, list[Pod]] = {}

    def take(self, resource: Resource, obj: Object, *, gone: bool = False) -> None:
        """What happened to one object."""
        key = (objects.namespace(obj), objects.name(obj))
        if resource == NODES:
            _put(self.nodes, key, None if gone else _node(obj))
        elif resource == ASCEND_JOBS:
            _put(self.jobs, key, None if gone or objects.terminating(obj) else _job(obj))
        elif resource == PODS:
            _put(self.pods, key, None if gone or objects.ended(obj) else _pod(obj))
        elif resource == CONFIG_MAPS and objects.name(obj) == RULE:
            self.rules.add(objects.namespace(obj))
        self._jobs_of, self._pods_of = {}, {}

    def take_all(self, resource: Resource, objs: Sequence[Object]) -> None:
        """A list: nothing else is there."""
        known: dict[Resource, dict[Key, Any]] = {NODES: self.nodes, ASCEND_JOBS: self.jobs, PODS: self.pods}
        known.get(resource, {}).clear()
        for obj in objs:
            self.take(resource, obj)

    # Services

    def of(self, service: str, group: str) -> list[Job]:
        if not self._jobs_of:
            found = defaultdict(list)
            for job in self.jobs.values():
                found[job.service, job.group].append(job)
            self._jobs_of = dict(found)
        return self._jobs_of.get((service, group), [])

    def all_of(self, service: str) -> list[Job]:
        return [job for group in self.services[service].minimum for job in self.of(service, group)]

    def serves(self, key: str) -> bool:
        minimum = self.services[key].minimum
        return all(sum(map(self.is_running, self.of(key, group))) >= number for group, number in minimum.items())

    def waiting(self) -> list[str]:
        """Services whose smallest ratio is not all bound and could be: its rule and its jobs exist."""
        return [
            key
            for key, service in self.services.items()
            if service.name in self.rules and self.missing(key) and self._could_be_whole(key)
        ]

    def _could_be_whole(self, key: str) -> bool:
        return all(len(self.of(key, group)) >= number for group, number in self.services[key].minimum.items())

    def missing(self, key: str, *, without: Set[str] = frozenset()) -> list[str]:
        """Kind of node for each pod that the smallest ratio still needs; of each group the nearest instances."""
        service, count = self.services[key], 0
        for group, number in service.minimum.items():
            count += sum(sorted(self.unbound(job) for job in self.of(key, group) if job.uid not in without)[:number])
        return [service.kind] * count

    def beyond_minimum(self, key: str) -> int:
        """Nodes that its instances beyond its minimum hold."""
        nodes = 0
        for group, number in self.services[key].minimum.items():
            running = [job for job in self.of(key, group) if self.is_running(job)]
            nodes += sum(job.size for job in running[number:])
        return nodes

    # Instances

    def released(self, key: str) -> set[str]:
        """Its instances that have pods which wait for the scheduler."""
        return {job.uid for job in self.all_of(key) if any(pod.waits for pod in self.pods_of(job))}

    def in_part(self, key: str) -> list[str]:
        """Kind of node for each pod that waits for the scheduler while another one of its instance is bound."""
        halves = [job for job in self.all_of(key) if self.is_in_part(job)]
        return [self.services[key].kind for job in halves for pod in self.pods_of(job) if pod.waits]

    def is_in_part(self, job: Job) -> bool:
        return self.has_bound(job) and any(pod.waits for pod in self.pods_of(job))

    def ends(self, key: str) -> bool:
        """Some of its pods are terminating."""
        return any(pod.terminating for job in self.all_of(key) for pod in self.pods_of(job))

    def has_bound(self, job: Job) -> bool:
        """Some of its pods have a node."""
        return any(pod.node for pod in self._alive(job))

    def unbound(self, job: Job) -> int:
        return job.size - sum(bool(pod.node) for pod in self._alive(job))

    def is_running(self, job: Job) -> bool:
        alive = self._alive(job)
        return len(alive) == job.size and all(pod.phase == "Running" for pod in alive)

    def is_whole(self, job: Job) -> bool:
        """All of its pods are out of the gate, or none is."""
        out = sum(bool(pod.waits or pod.node) for pod in self._alive(job))
        return out in (0, job.size)

    def _alive(self, job: Job) -> list[Pod]:
        return [pod for pod in self.pods_of(job) if not pod.terminating]

    def pods_of(self, job: Job) -> list[Pod]:
        if not self._pods_of:
            found = defaultdict(list)
            for pod in self.pods.values():
                found[pod.owner].append(pod)
            self._pods_of = dict(found)
        return self._pods_of.get(job.uid, [])

    # Nodes

    def free(self, *, coming: bool = False, away: bool = False, without: Set[str] = frozenset()) -> list[str]:
        """Kinds of the nodes that nobody is on; `coming` = also where pods end; `away` = also those that are not
        there now; `without` = as if these instances had no pods."""
        pods = (pod for pod in self.pods.values() if pod.owner not in without)
        taken = {pod.node for pod in pods if not (coming and pod.terminating)}
        return [node.kind for (_, name), node in self.nodes.items() if name not in taken and (away or node.usable)]

    def fits(self, wanted: Iterable[Sequence[str]]) -> bool:
        """Whether all these pods find nodes that are free."""
        return fit([kind for each in wanted for kind in each], self.free())

    def has_neighbour(self, key: str) -> bool:
        """Another service could ever use some of its nodes; who is alone is admitted whether it fits or not."""
        jobs = {job.service for job in self.jobs.values()}
        present = {key for key, service in self.services.items() if key in jobs and service.name in self.rules}
        kinds = {self.services[other].kind for other in present - {key}}
        own = self.services[key].kind
        of_nodes = {node.kind for node in self.nodes.values()}
        return any(own in ("", kind) and other in ("", kind) for other in kinds for kind in of_nodes)


def fit(wanted: Sequence[str], free: Sequence[str]) -> bool:
    """Whether pods find nodes: those that say which kind first, the others take what is left."""
    picky = all(wanted.count(kind) <= free.count(kind) for kind in set(wanted) if kind)
    return picky and len(wanted) <= len(free)


def _put(known: dict[Key, Node] | dict[Key, Job] | dict[Key, Pod], key: Key, value: Node | Job | Pod | None) -> None:
    known.pop(key, None)
    if value is not None:
        known[key] = value  # type: ignore[assignment]


def _node(node: Object) -> Node:
    usable = objects.node_ready(node) and not objects.spec(node).get("unschedulable")
    return Node(objects.labels_of(node).get(KIND, ""), usable)


def _job(job: Object) -> Job:
    parts: Mapping[str, Object] = objects.spec(job)["replicaSpecs"]
    group = objects.scaling_labels(job).get("mind-cluster/group-name", "")
    return Job(objects.uid(job), service_of(job), group, sum(int(part["replicas"]) for part in parts.values()))


def _pod(pod: Object) -> Pod:
    node, going = objects.node_of(pod), objects.terminating(pod)
    waits = not (node or going or objects.gated(pod))
    return Pod(objects.owner_uid(pod), node, objects.phase(pod), going, waits)
