"""Where a pod fits: the predicates of a Kubernetes scheduler that MindIE's manifests use, as pure
functions.

Modelled: readiness, cordon, taints, nodeSelector, required node affinity, required pod
anti-affinity, resources. Must not: do I/O or know of gangs and phases
(scaler.sim.actors.scheduler)."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence

from scaler.decide.service.states import natural
from scaler.kube.api import Object
from scaler.sim.actors import objects


class Nodes:
    """The nodes of a cluster, their free resources, and the node of each pod: trial placement.

    `tie` chooses among nodes that are equally full; without it the first by name is used."""

    def __init__(
        self, nodes: Iterable[Object], pods: Iterable[Object], *, tie: random.Random | None = None
    ) -> None:
        self._tie = tie
        in_order = sorted(nodes, key=lambda node: natural(objects.name(node)))
        self._nodes = {objects.name(node): node for node in in_order}
        self._free = {name: objects.allocatable(node) for name, node in self._nodes.items()}
        self._pods: dict[str, list[Object]] = {name: [] for name in self._nodes}
        self._anti_affinity = False
        """Some pod has anti-affinity to others."""
        for pod in pods:
            if objects.node_of(pod) in self._nodes and not objects.ended(pod):
                self.take(objects.node_of(pod), pod)

    def place(
        self, pods: Sequence[Object], at_least: int, within: Collection[str] | None = None
    ) -> dict[str, str]:
        """Pod name -> node, for as many of the pods as fit; {} if fewer than `at_least` do. A pod
        goes to the fullest node that it fits on. `within`: the nodes that may be taken; None =
        all."""
        placed: list[tuple[str, Object]] = []
        unplaced = 0
        for pod in pods:
            fitting = [one for one in self.fitting(pod) if within is None or one in within]
            if fitting:
                name = self.fullest(fitting)
                self.take(name, pod)
                placed.append((name, pod))
                continue
            unplaced += 1
            if len(pods) - unplaced < at_least:
                break
        if len(placed) < at_least:
            for node, pod in placed:
                self.give_back(node, pod)
            return {}
        return {objects.name(pod): node for node, pod in placed}

    def fitting(self, pod: Object) -> list[str]:
        """The nodes on which the pod fits, in the order of their names."""
        return [name for name, node in self._nodes.items() if self._fits(name, node, pod)]

    def fullest(self, names: Sequence[str]) -> str:
        """The fullest of these nodes."""
        fullest = min(map(self._fullness, names))
        equals = [name for name in names if self._fullness(name) == fullest]
        return self._tie.choice(equals) if self._tie else equals[0]

    def take(self, name: str, pod: Object) -> None:
        """Put the pod on the node."""
        self._add(name, pod, -1.0)
        self._pods[name].append(pod)
        self._anti_affinity = self._anti_affinity or _has_anti_affinity(pod)

    def give_back(self, name: str, pod: Object) -> None:
        """Take the pod off the node again."""
        self._add(name, pod, 1.0)
        self._pods[name].remove(pod)

    def idle(self, resource: str) -> float:
        """The free amount of a resource on all nodes that accept new pods."""
        total = 0.0
        for name, node in self._nodes.items():
            if accepts(node, None):
                total += self._free[name].get(resource, 0.0)
        return total

    def _fullness(self, name: str) -> tuple[float, float]:
        """Free devices, then free CPUs: the least is the fullest."""
        free = self._free[name]
        devices = [amount for resource, amount in free.items() if "/" in resource]
        return sum(devices), free.get("cpu", 0.0)

    def _fits(self, name: str, node: Object, pod: Object) -> bool:
        return accepts(node, pod) and self._is_free_for(name, pod) and not self._repelled(node, pod)

    def _is_free_for(self, name: str, pod: Object) -> bool:
        free = self._free[name]
        for resource, amount in objects.requests(pod).items():
            if amount and free.get(resource, 0.0) < amount:
                return False
        return True

    def _repelled(self, node: Object, pod: Object) -> bool:
        """Whether some pod in a topology domain of this node and the pod exclude each other."""
        if not self._anti_affinity and not _has_anti_affinity(pod):
            return False
        for name, other_node in self._nodes.items():
            for other in self._pods[name]:
                keys = [*_repelling_keys(pod, other), *_repelling_keys(other, pod)]
                if any(_domain(node, key) == _domain(other_node, key) for key in keys):
                    return True
        return False

    def _add(self, name: str, pod: Object, sign: float) -> None:
        free = self._free[name]
        for resource, amount in objects.requests(pod).items():
            free[resource] = free.get(resource, 0.0) + sign * amount


def accepts(node: Object, pod: Object | None) -> bool:
    """Whether the node takes new pods, and this one by its selector, affinity and tolerations (None
    = any pod)."""
    if not objects.node_ready(node) or objects.spec(node).get("unschedulable"):
        return False
    if pod is None:
        return True
    selector = {"matchLabels": objects.spec(pod).get("nodeSelector")}
    if not matches(selector, objects.labels_of(node)) or not _has_affinity(node, pod):
        return False
    for taint in objects.spec(node).get("taints") or []:
        repels = taint.get("effect") in {"NoSchedule", "NoExecute"}
        if repels and not _is_tolerated(taint, pod):
            return False
    return True


def _is_tolerated(taint: Object, pod: Object) -> bool:
    tolerations = objects.spec(pod).get("tolerations") or []
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def matches(selector: Object | None, labels: dict[str, str]) -> bool:
    """A label selector with matchLabels and matchExpressions; None selects nothing."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if not wanted.items() <= labels.items():
        return False
    return _all_hold(selector.get("matchExpressions") or [], labels)


def _has_affinity(node: Object, pod: Object) -> bool:
    affinity = (objects.spec(pod).get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    labels = objects.labels_of(node)
    fields = {"metadata.name": objects.name(node)}
    for term in (required or {}).get("nodeSelectorTerms") or []:
        expressions = term.get("matchExpressions") or []
        by_field = term.get("matchFields") or []
        met = _all_hold(expressions, labels) and _all_hold(by_field, fields)
        if met and (expressions or by_field):  # an empty term selects no node
            return True
    return not required


def _all_hold(expressions: Sequence[Object], labels: dict[str, str]) -> bool:
    return all(_holds(expression, labels) for expression in expressions)


def _holds(expression: Object, labels: dict[str, str]) -> bool:
    value = labels.get(expression.get("key", ""))
    values = expression.get("values") or []
    bound = objects.quantity(values[0] if values else "")
    answers = {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
        "Gt": value is not None and objects.quantity(value) > bound,
        "Lt": value is not None and objects.quantity(value) < bound,
    }
    return answers.get(expression.get("operator", ""), False)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    everything = toleration.get("operator") == "Exists"
    if not toleration.get("key") or toleration["key"] != taint.get("key"):
        return everything and not toleration.get("key")
    return everything or (toleration.get("value") or "") == (taint.get("value") or "")


def _has_anti_affinity(pod: Object) -> bool:
    return bool((objects.spec(pod).get("affinity") or {}).get("podAntiAffinity"))


def _repelling_keys(pod: Object, other: Object) -> list[str]:
    """Topology keys of the pod's required anti-affinity terms that select the other pod."""
    anti = (objects.spec(pod).get("affinity") or {}).get("podAntiAffinity") or {}
    terms = anti.get("requiredDuringSchedulingIgnoredDuringExecution") or []
    keys = []
    for term in terms:
        namespaces = term.get("namespaces") or [objects.namespace(pod)]
        selects = matches(term.get("labelSelector"), objects.labels_of(other))
        if selects and objects.namespace(other) in namespaces:
            keys.append(term.get("topologyKey", ""))
    return keys


def _domain(node: Object, key: str) -> str:
    default = objects.name(node) if key == "kubernetes.io/hostname" else ""
    return objects.labels_of(node).get(key, default)
