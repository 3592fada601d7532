"""Who runs, seen from outside, for every workload kind: instances counted from pods and the objects that make them.

The witness of the kinds' tests, written apart from scaler.workloads so that it can contradict it: it goes by what the
makers write onto pods. Must not: write, or read anything that the scaler wrote.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec

from scaler.kube.api import ASCEND_JOBS, NODES, PODS, STATEFUL_SETS, VOLCANO_JOBS, Object, Resource
from scaler.sim.actors import objects
from scaler.sim.actors.mindie import GROUP_LABEL, RULE_LABEL
from scaler.sim.actors.mirror import Mirror
from scaler.sim.actors.placement import natural
from scaler.sim.stories.census import Condition, InstanceView
from scaler.workloads.gates import GATE

RESOURCES: tuple[Resource, ...] = (PODS, NODES, ASCEND_JOBS, VOLCANO_JOBS, STATEFUL_SETS)
_LWS = "leaderworkerset.sigs.k8s.io"
_STORM = "stormservice.orchestration.aibrix.ai"
_INFER = "infer.huawei.com"


class _Instance(msgspec.Struct):
    name: str
    group: str
    size: int
    pods: list[Object] = []


def census(mirror: Mirror) -> dict[str, list[InstanceView]]:
    """Every service's instances, by group and natural order of names."""
    ready = {objects.name(node) for node in mirror.all(NODES) if objects.node_ready(node)}
    services: dict[str, list[InstanceView]] = defaultdict(list)
    for service, found in _instances(mirror).items():
        services[service] = sorted(
            (_view(instance, ready) for instance in found.values()), key=lambda view: (view.group, natural(view.name))
        )
    return dict(services)


def _instances(mirror: Mirror) -> dict[str, dict[str, _Instance]]:
    """By service and name. Jobs are instances before they have pods."""
    services: dict[str, dict[str, _Instance]] = defaultdict(dict)
    for job in [*mirror.all(ASCEND_JOBS), *mirror.all(VOLCANO_JOBS)]:
        templates = _templates(job)
        service = _service(objects.namespace(job), templates[0][1]) if templates else ""
        if service and not objects.terminating(job):
            name, size = objects.name(job), sum(replicas for replicas, _ in templates)
            services[service][name] = _Instance(name, templates[0][1][GROUP_LABEL], size)
    for pod in mirror.all(PODS):
        labels = objects.labels_of(pod)
        service = _service(objects.namespace(pod), labels)
        if service:
            name, size = _identity(pod, mirror)
            fresh = _Instance(name, labels.get(GROUP_LABEL, ""), size)
            services[service].setdefault(name, fresh).pods.append(pod)
    return services


def _service(namespace: str, labels: dict[str, str]) -> str:
    rule, job = labels.get(RULE_LABEL), labels.get("jobID")
    return f"{namespace}/{rule}/{job}" if rule and job else ""


def _templates(job: Object) -> list[tuple[int, dict[str, str]]]:
    """Replicas and labels of each pod template of a job."""
    spec = objects.spec(job)
    parts = [*(spec.get("replicaSpecs") or {}).values(), *(spec.get("tasks") or [])]
    labels = [((part.get("template") or {}).get("metadata") or {}).get("labels") or {} for part in parts]
    return [(int(part.get("replicas", 1)), found) for part, found in zip(parts, labels, strict=True)]


def _identity(pod: Object, mirror: Mirror) -> tuple[str, int]:
    """Name and expected pods of the pod's instance."""
    labels, place = objects.labels_of(pod), objects.namespace(pod)
    if key := labels.get(f"{_LWS}/name"):
        index = labels.get(f"{_LWS}/group-index", "?")
        return f"{key}-{index}", int(objects.annotations_of(pod)[f"{_LWS}/size"])
    if key := labels.get(f"{_STORM}/podset-name"):
        return key, int(_environment(pod)["POD_GROUP_SIZE"])
    if labels.get(f"{_INFER}/ascend-infer-operator"):
        key = "-".join(
            labels[f"{_INFER}/{part}"] for part in ("inferservice-name", "instanceset-name", "instanceset-index")
        )
        maker = mirror.get(STATEFUL_SETS, place, key)
        return key, int(objects.spec(maker).get("replicas", 1)) if maker else 1
    for label, resource in (("volcano.sh/job-name", VOLCANO_JOBS), ("training.kubeflow.org/job-name", ASCEND_JOBS)):
        if key := labels.get(label):
            job = mirror.get(resource, place, key)
            return key, sum(replicas for replicas, _ in _templates(job)) if job else 1
    return objects.name(pod), 1


def _environment(pod: Object) -> dict[str, str]:
    containers = objects.spec(pod).get("containers") or [{}]
    return {entry["name"]: entry.get("value", "") for entry in containers[0].get("env") or []}


def _view(instance: _Instance, ready: set[str]) -> InstanceView:
    seats = tuple(sorted({objects.node_of(pod) for pod in instance.pods if objects.node_of(pod)}, key=natural))
    return InstanceView(instance.name, instance.group, _condition(instance, ready), seats)


def _condition(instance: _Instance, ready: set[str]) -> Condition:
    live = [pod for pod in instance.pods if not objects.terminating(pod)]
    if all(gated(pod) for pod in live):
        return Condition.EMPTY
    bound = [pod for pod in live if objects.node_of(pod)]
    lost = any(objects.ended(pod) or objects.node_of(pod) not in ready for pod in bound)
    if lost or (bound and len(instance.pods) < instance.size):
        return Condition.BROKEN
    if len(bound) < max(len(live), instance.size):
        return Condition.WAITING
    running = all(objects.phase(pod) == "Running" for pod in live) and len(instance.pods) == instance.size
    return Condition.RUNNING if running else Condition.STARTING


def gated(pod: Object) -> bool:
    """It carries the scaler's gate."""
    return any(gate.get("name") == GATE for gate in objects.spec(pod).get("schedulingGates") or [])
