"""Instances that others make, seen from outside: who is released, who is half released, who waits without a reason.

From pods, jobs and makers alone, as the platforms mark them. Shares nothing with scaler.decide or scaler.workloads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import msgspec

from scaler.kube.api import ASCEND_JOBS, ELASTIC_SERVICES, NODES, PODS, STATEFUL_SETS, VOLCANO_JOBS, Object
from scaler.sim.actors import objects
from scaler.sim.actors.objects import restarts
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.instances import claim_of, service_of
from tests.chaos.releases import held

GROUP = "mind-cluster/group-name"
JOBS = (ASCEND_JOBS.kind, VOLCANO_JOBS.kind)
REVISIONS = (
    ("pod-template-hash", ""),
    ("leaderworkerset.sigs.k8s.io/template-revision-hash", "leaderworkerset.sigs.k8s.io/name"),
    ("role-template-hash", "storm-service-name"),
)
"""Label of the revision, and that of the maker's name; a ReplicaSet's name begins with its maker's."""


class Instance(msgspec.Struct):
    """`size` is what it should have; `pods` are all that it has, terminating ones included."""

    service: str
    group: str
    name: str
    size: int
    maker: str = ""
    revision: str = ""
    pods: list[Object] = []

    @property
    def staying(self) -> list[Object]:
        return [pod for pod in self.pods if not objects.terminating(pod)]

    @property
    def released(self) -> list[Object]:
        return [pod for pod in self.staying if not held(pod)]

    @property
    def half(self) -> bool:
        """Some of its pods are held and some are not."""
        return 0 < len(self.released) < len(self.staying)

    def running(self, ready: frozenset[str]) -> bool:
        """Whole, every pod runs on a good node."""
        on = [pod for pod in self.pods if objects.phase(pod) == "Running" and objects.node_of(pod) in ready]
        return len(on) == len(self.staying) == len(self.pods) == self.size

    def disturbed(self, ready: frozenset[str]) -> bool:
        """Something befell it, so that it may have lost its place already."""
        bound = [pod for pod in self.staying if objects.node_of(pod)]
        lost = any(objects.ended(pod) or objects.node_of(pod) not in ready or restarts(pod) for pod in bound)
        return lost or len(self.staying) < len(self.pods) or bool(bound and len(self.staying) < self.size)


def ready_nodes(cluster: SimCluster) -> frozenset[str]:
    return frozenset(objects.name(node) for node in cluster.peek(NODES) if objects.node_ready(node))


def instances(cluster: SimCluster) -> list[Instance]:
    """Every instance that names a rule, by service, group and name; jobs without pods too."""
    found: dict[tuple[str, str], Instance] = {}
    jobs = {objects.uid(job): job for kind in (ASCEND_JOBS, VOLCANO_JOBS) for job in cluster.peek(kind)}
    for job in jobs.values():
        if service := service_of(job):
            group = objects.scaling_labels(job).get(GROUP, "")
            found[service, objects.name(job)] = Instance(service, group, objects.name(job), _expected(job))
    sizes = {objects.uid(made): int(objects.spec(made).get("replicas", 1)) for made in cluster.peek(STATEFUL_SETS)}
    for pod in cluster.peek(PODS):
        maker = jobs.get(objects.owner_uid(pod))
        service = service_of(maker or pod)
        if not service or (maker is None and objects.owner_kind(pod) in JOBS):
            continue  # pods outlive their job for a moment
        claim = claim_of(pod, sizes)
        name = objects.name(maker) if maker is not None else claim.instance
        fresh = Instance(service, objects.labels_of(pod).get(GROUP, ""), name, claim.size, *_revision(pod))
        found.setdefault((service, name), fresh).pods.append(pod)
    return [found[key] for key in sorted(found)]


def taken(members: Iterable[Instance], ready: frozenset[str]) -> int:
    """Places that a group's undisturbed released instances take, an outdated running and a newest one together one."""
    out = [one for one in members if one.released and not one.disturbed(ready)]
    by_maker: dict[str, list[Instance]] = defaultdict(list)
    for one in out:
        by_maker[one.maker].append(one)
    return len(out) - sum(_pairs(found, ready) for maker, found in by_maker.items() if maker)


def unexplained(cluster: SimCluster, found: Iterable[Instance]) -> list[str]:
    """L2: instances with held pods of which no status says a reason."""
    said = reasons(cluster)
    return [one.name for one in found if any(map(held, one.staying)) and (one.service, one.name) not in said]


def elastic_service(cluster: SimCluster, namespace: str, rule: str) -> Object | None:
    """The object about the service of this rule."""
    return next((one for one in cluster.peek(ELASTIC_SERVICES, namespace) if one["spec"]["rule"] == rule), None)


def reasons(cluster: SimCluster) -> dict[tuple[str, str], str]:
    """What the ElasticServices say: by service and name of the instance."""
    told: dict[tuple[str, str], str] = {}
    for found in cluster.peek(ELASTIC_SERVICES):
        key = f"{objects.namespace(found)}/{found['spec']['rule']}/{found['spec']['jobID']}"
        instances = found.get("status", {}).get("instances", ())
        told |= {(key, instance["name"]): instance["reason"] for instance in instances}
    return told


def _pairs(found: list[Instance], ready: frozenset[str]) -> int:
    """The most there can be: which revision is the newest is not asked, only that the other of a pair runs."""
    out = Counter(one.revision for one in found)
    runs = Counter(one.revision for one in found if one.running(ready))
    return max(min(number, runs.total() - runs[revision]) for revision, number in out.items())


def _revision(pod: Object) -> tuple[str, str]:
    """Maker and revision, as the platforms label them; empty where nothing is rolled."""
    labels = objects.labels_of(pod)
    for label, maker in REVISIONS:
        if revision := labels.get(label):
            owner = str(objects.controller(pod).get("name", "")).removesuffix(f"-{revision}")
            return (f"{labels[maker]}/{labels.get('role-name', '')}" if maker else owner), revision
    return "", ""


def _expected(job: Object) -> int:
    parts = [*(objects.spec(job).get("replicaSpecs") or {}).values(), *(objects.spec(job).get("tasks") or [])]
    return sum(int(part.get("replicas", 1)) for part in parts)
