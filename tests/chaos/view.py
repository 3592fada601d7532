"""The bare cluster: instances, nodes, and what a status says of them, counted from objects alone.

A view is of all that a store has (`view_of`), or of what the watches of one client delivered.
Shares nothing with scaler.decide or scaler.workloads. Must not: judge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from functools import cached_property

from scaler.kube.api import ASCEND_JOBS, ELASTIC_SERVICES, NODES, PODS, Object, Resource
from scaler.sim.actors import objects
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.instances import SHOWING, Members, gathered
from scaler.workloads.volcanojob import VOLCANO_JOBS

GATE = "mind-cluster/hold"
REVISIONS = (
    ("pod-template-hash", ""),
    ("leaderworkerset.sigs.k8s.io/template-revision-hash", "leaderworkerset.sigs.k8s.io/name"),
    ("role-template-hash", "storm-service-name"),
)
"""Label of the revision, and that of the owner's name; the name of a ReplicaSet begins with its
owner's."""


class Instance(Members):
    """`owner` and `revision` where something rolls it."""

    owner: str = ""
    revision: str = ""
    good_nodes: Set[str] = frozenset()

    @property
    def staying(self) -> list[Object]:
        return [pod for pod in self.pods if not objects.terminating(pod)]

    @property
    def bound(self) -> list[Object]:
        return [pod for pod in self.staying if objects.node_of(pod)]

    @property
    def uid(self) -> str:
        """Of its job, by which decisions know it."""
        return objects.uid(self.job)

    @property
    def alive(self) -> list[Object]:
        return [pod for pod in self.staying if not objects.ended(pod)]

    @property
    def seated(self) -> list[Object]:
        return [pod for pod in self.alive if objects.node_of(pod)]

    @property
    def unbound(self) -> int:
        return self.size - len(self.seated)

    @property
    def in_hands(self) -> list[Object]:
        """Those that the scheduler may bind."""
        return [pod for pod in self.alive if not (objects.node_of(pod) or objects.gated(pod))]

    @property
    def all_run(self) -> bool:
        """On whatever nodes."""
        return len(self.alive) == self.size and all(
            objects.phase(pod) == "Running" for pod in self.alive
        )

    @property
    def released(self) -> list[Object]:
        return [pod for pod in self.staying if not held(pod)]

    @property
    def half(self) -> bool:
        """Some of its pods are held and some are not."""
        return 0 < len(self.released) < len(self.staying)

    @property
    def serving(self) -> list[Object]:
        """Those that run on good nodes."""
        running = (pod for pod in self.bound if objects.phase(pod) == "Running")
        return [pod for pod in running if objects.node_of(pod) in self.good_nodes]

    @property
    def whole(self) -> bool:
        return len(self.serving) == self.size

    @property
    def ended(self) -> bool:
        return any(objects.ended(pod) for pod in self.bound)

    @property
    def running(self) -> bool:
        """Whole, and nothing of it terminates."""
        return self.whole and len(self.staying) == len(self.pods) == self.size

    def __str__(self) -> str:
        return (
            f"{self.name} {len(self.serving)}/{len(self.bound)}/{len(self.released)} of {self.size}"
        )


class View:
    """`take` and `take_all` keep it current; what is counted is counted once for each state."""

    def __init__(self) -> None:
        self._known: defaultdict[Resource, dict[tuple[str, str], Object]] = defaultdict(dict)

    def take(self, resource: Resource, obj: Object, *, gone: bool = False) -> None:
        self._changed()
        key = (objects.namespace(obj), objects.name(obj))
        self._known[resource].pop(key, None)
        if not gone:
            self._known[resource][key] = obj

    def take_all(self, resource: Resource, found: Sequence[Object]) -> None:
        """A list: nothing else is there."""
        self._changed()
        self._known[resource] = {(objects.namespace(obj), objects.name(obj)): obj for obj in found}

    def all(self, resource: Resource) -> Iterable[Object]:
        return self._known[resource].values()

    @cached_property
    def instances(self) -> list[Instance]:
        """Every instance that names a rule, by service and name; jobs without pods too."""
        good = objects.ready_nodes(self.all(NODES))
        found = [
            Instance(
                one.service,
                one.group,
                one.name,
                one.size,
                one.pods,
                one.job,
                *_revision(one),
                good_nodes=good,
            )
            for one in gathered(self.all)
            if one.job
            or objects.owner_kind(one.pods[0]) not in (ASCEND_JOBS.kind, VOLCANO_JOBS.kind)
        ]  # pods outlive their job for a moment
        return sorted(found, key=lambda one: (one.service, one.name))

    @cached_property
    def reasons(self) -> dict[tuple[str, str], str]:
        """What the ElasticServices say: by service and name of the instance."""
        said: dict[tuple[str, str], str] = {}
        for found in self.all(ELASTIC_SERVICES):
            key = f"{objects.namespace(found)}/{found['spec']['rule']}/{found['spec']['jobID']}"
            instances = found.get("status", {}).get("instances", ())
            said |= {(key, instance["name"]): instance["reason"] for instance in instances}
        return said

    def unexplained(self) -> list[str]:
        """Names of instances with held pods of which no status says a reason."""
        mute = (one for one in self.instances if (one.service, one.name) not in self.reasons)
        return [one.name for one in mute if any(map(held, one.staying))]

    def elastic_service(self, namespace: str, rule: str) -> Object | None:
        found = (one for one in self.all(ELASTIC_SERVICES) if objects.namespace(one) == namespace)
        return next((one for one in found if one["spec"]["rule"] == rule), None)

    def free(
        self,
        label: str,
        *,
        coming: bool = False,
        away: bool = False,
        without: Set[str] = frozenset(),
    ) -> list[str]:
        """Values of this label of the nodes that take pods and have none; `coming` = also where
        pods end; `away` = also nodes that take none now; `without` = as if instances with these
        uids had no pods."""
        pods = (
            pod
            for pod in self.all(PODS)
            if not objects.ended(pod) and objects.owner_uid(pod) not in without
        )
        taken = {objects.node_of(pod) for pod in pods if not (coming and objects.terminating(pod))}
        return [
            objects.labels_of(node).get(label, "")
            for node in self.all(NODES)
            if objects.name(node) not in taken
            and (away or (objects.node_ready(node) and not objects.spec(node).get("unschedulable")))
        ]

    def _changed(self) -> None:
        for name in [
            name
            for name in self.__dict__
            if isinstance(getattr(type(self), name, None), cached_property)
        ]:
            del self.__dict__[name]


def gates_of(pod: Object) -> list[str]:
    return [str(gate["name"]) for gate in pod["spec"].get("schedulingGates") or []]


def held(pod: Object) -> bool:
    return GATE in gates_of(pod)


def view_of(cluster: SimCluster) -> View:
    view = View()
    for kind in (*SHOWING, ELASTIC_SERVICES):
        view.take_all(kind, cluster.peek(kind))
    return view


def _revision(one: Members) -> tuple[str, str]:
    """Owner and revision, as the platforms label its pods; empty where nothing is rolled."""
    if one.job:
        return "", ""
    pod = one.pods[0]
    labels = objects.labels_of(pod)
    for label, owner in REVISIONS:
        if revision := labels.get(label):
            name = str(objects.controller(pod).get("name", "")).removesuffix(f"-{revision}")
            return (f"{labels[owner]}/{labels.get('role-name', '')}" if owner else name), revision
    return "", ""
