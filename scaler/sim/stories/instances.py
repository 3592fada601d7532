"""Instances and their condition, counted only from jobs, pods and nodes: the witness of
simulations.

The instance of a pod follows from what its owners wrote on the pod. Independent of scaler.workloads
and scaler.decide, so that it can contradict them. Must not: write, or ask the controller."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

import msgspec

from scaler.decide.service.states import natural
from scaler.kube.api import ASCEND_JOBS, NODES, PODS, STATEFUL_SETS, Object, Resource
from scaler.names import GROUP_LABEL, RULE_LABEL
from scaler.sim.actors import objects
from scaler.sim.actors.leader_worker_sets import GROUP_INDEX, NAME, SIZE
from scaler.sim.actors.operators import INDEX, MANAGED, ROLE, SERVICE
from scaler.sim.actors.storm_services import POD_SET
from scaler.sim.stories.loads import UNGOVERNED
from scaler.workloads.stages import stage_of
from scaler.workloads.volcanojob import VOLCANO_JOBS


class Condition(StrEnum):
    """The condition of an instance, from its pods."""

    EMPTY = "empty"
    """No pods, or only held and terminating ones."""
    WAITING = "waiting"
    """Some pod has no node."""
    STARTING = "starting"
    RUNNING = "running"
    BROKEN = "broken"
    """Bound, and a pod failed, crash-loops, is missing or is on a lost node."""


class InstanceView(msgspec.Struct, frozen=True):
    """One instance of one service, from its pods."""

    name: str
    group: str
    condition: Condition
    nodes: tuple[str, ...] = ()
    ready: bool = False
    """The instance runs, and every pod is Ready."""
    npus: int = 0
    """NPUs of its pods."""
    role: str = ""
    """`prefill` or `decode` where the deployer's label says it."""


class Members(msgspec.Struct):
    """The objects of one instance, of which `size` pods are wanted; `job` is what it is one with,
    if anything."""

    service: str
    group: str
    name: str
    size: int
    pods: list[Object] = []
    job: Object = {}


SHOWING = (PODS, ASCEND_JOBS, VOLCANO_JOBS, STATEFUL_SETS, NODES)
"""Kinds of objects that show instances and their condition."""
AllOf = Callable[[Resource], Iterable[Object]]
"""All objects of one of these kinds: `all` of a mirror, `peek` of a simulated cluster."""


def service_of(obj: Object) -> str:
    """`namespace/rule/jobID` of a job or a pod under a rule, "" for any other."""
    labels = objects.scaling_labels(obj)
    if not labels.get(RULE_LABEL) or not labels.get("jobID"):
        return ""
    return f"{objects.namespace(obj)}/{labels[RULE_LABEL]}/{labels['jobID']}"


def gathered(all_of: AllOf) -> list[Members]:
    """Every instance of every service; an AscendJob or Volcano Job is one even without pods."""
    jobs = {objects.uid(job): job for job in [*all_of(ASCEND_JOBS), *all_of(VOLCANO_JOBS)]}
    found: dict[tuple[str, str], Members] = {}
    for uid, job in jobs.items():
        if service := service_of(job):
            group = objects.scaling_labels(job).get(GROUP_LABEL, "")
            size = _size_of(job)
            found[service, uid] = Members(service, group, objects.name(job), size, job=job)
    sizes = {}
    for stateful_set in all_of(STATEFUL_SETS):
        sizes[objects.uid(stateful_set)] = int(objects.spec(stateful_set).get("replicas", 1))
    for pod in all_of(PODS):
        uid = objects.owner_uid(pod)
        service = service_of(jobs.get(uid, pod))
        if service and uid in jobs:
            found[service, uid].pods.append(pod)
        elif service:
            name, size = instance_of(pod, sizes)
            fresh = Members(service, objects.labels_of(pod).get(GROUP_LABEL, ""), name, size)
            found.setdefault((service, name), fresh).pods.append(pod)
    return list(found.values())


def _size_of(job: Object) -> int:
    """The pods that an AscendJob or a Volcano Job specifies."""
    size = 0
    for part in objects.job_parts(job):
        if isinstance(part, dict):
            size += int(part.get("replicas", 1))
    return size


def census(all_of: AllOf) -> dict[str, list[InstanceView]]:
    """Every service's instances, by group and natural order of names."""
    ready = objects.ready_nodes(all_of(NODES))
    services: dict[str, list[InstanceView]] = defaultdict(list)
    for one in gathered(all_of):
        services[one.service].append(_view(one, ready))
    ordered = {}
    for name in sorted(services):
        ordered[name] = sorted(services[name], key=lambda view: (view.group, natural(view.name)))
    return ordered


def running(instances: Iterable[InstanceView]) -> dict[str, int]:
    """Running instances per group, 0 for groups without any."""
    counts: Counter[str] = Counter()
    for view in instances:
        counts[view.group] += view.condition is Condition.RUNNING
    return dict(counts)


def _view(instance: Members, ready: set[str]) -> InstanceView:
    nodes = set()
    npus = 0
    for pod in instance.pods:
        if objects.node_of(pod):
            nodes.add(objects.node_of(pod))
            npus += 0 if objects.ended(pod) else _npus_of(pod)
    live = [pod for pod in objects.staying(instance.pods) if not objects.gated(pod)]
    condition = _condition(live, instance.size, ready, len(instance.pods))
    labels = objects.labels_of(instance.job) if instance.job else {}
    return InstanceView(
        instance.name,
        instance.group,
        condition,
        nodes=tuple(sorted(nodes, key=natural)),
        ready=condition is Condition.RUNNING and all(map(objects.ready, live)),
        npus=npus,
        role=stage_of(labels),
    )


def _npus_of(pod: Object) -> int:
    return sum(int(amount) for name, amount in objects.requests(pod).items() if "/" in name)


def labelled(pod: Object, ungoverned: Mapping[str, str]) -> Object:
    """A pod of a Deployment that no rule governs, with the labels that its service would give it.

    `ungoverned`: namespace -> jobID. Its group is the Deployment, and its rule `-`."""
    job_id = ungoverned.get(objects.namespace(pod))
    owner = objects.controller(pod)
    if job_id is None or owner.get("kind") != "ReplicaSet":
        return pod
    group = str(owner["name"]).rpartition("-")[0]
    labels = {**objects.labels_of(pod), RULE_LABEL: UNGOVERNED, "jobID": job_id, GROUP_LABEL: group}
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}}


def _condition(live: list[Object], expected: int, ready: set[str], present: int) -> Condition:
    if not live:
        return Condition.EMPTY
    bound = [pod for pod in live if objects.node_of(pod)]
    for pod in bound:
        failed = objects.ended(pod) or objects.crash_looping(pod)
        if failed or objects.node_of(pod) not in ready:
            return Condition.BROKEN
    if bound and (len(live) < expected or present > len(live)):
        return Condition.BROKEN
    if len(bound) < len(live) or len(live) < expected:
        return Condition.WAITING
    if any(objects.phase(pod) != "Running" for pod in live):
        return Condition.STARTING
    return Condition.RUNNING


def instance_of(pod: Object, sizes: Mapping[str, int]) -> tuple[str, int]:
    """The name of a pod's instance, and the number of its pods; a pod without owner facts is an
    instance of its own.

    `sizes`: owner uid -> number of its pods."""
    labels = objects.labels_of(pod)
    annotations = objects.annotations_of(pod)
    name = objects.name(pod)
    size = 1
    if NAME in labels and GROUP_INDEX in labels:
        name = f"{labels[NAME]}-{labels[GROUP_INDEX]}"
        size = _number(annotations.get(SIZE), 1)
    elif POD_SET in labels:
        name = labels[POD_SET]
        size = _number(_variable(pod, "POD_GROUP_SIZE"), 1)
    elif MANAGED in labels:
        name = f"{labels.get(SERVICE)}-{labels.get(ROLE)}-{labels.get(INDEX)}"
        size = sizes.get(objects.owner_uid(pod), 1)
    size = _number(annotations.get("mind-cluster/instance-size"), size)
    return annotations.get("mind-cluster/instance", name), size


def _variable(pod: Object, name: str) -> str | None:
    """The value of an environment variable, of the last container that has it."""
    value = None
    for container in objects.spec(pod).get("containers") or []:
        for variable in container.get("env") or []:
            if variable.get("name") == name:
                value = variable.get("value")
    return value


def _number(text: str | None, default: int) -> int:
    if not text or len(text) > 9:  # whoever makes a pod may write thousands of digits
        return default
    return int(text) if text.isascii() and text.isdecimal() else default
