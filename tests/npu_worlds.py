"""Small generated worlds for MindCluster's plugin of Volcano, and how its stand-in answers them:
one job after the other, on nodes with device data.

A step is a job that comes, a job that goes, or a pod that is made again. The real plugin answers in
tests/control_plane/test_npu_plugin.py; its recorded answers are replayed in
tests/sim/test_npu_recorded.py. Equal answers: bound or not, phase, the plugin's reasons, and the
nodes up to those that the plugin scores alike (`Answer.places`)."""

from __future__ import annotations

import asyncio
import copy
import math
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from typing import Any, cast

import msgspec

from scaler.clock import Clock
from scaler.kube.api import (
    CONFIG_MAPS,
    NODES,
    POD_GROUPS,
    PODS,
    EventType,
    KubeApi,
    Object,
    Page,
    Resource,
    WatchEvent,
)
from scaler.kube.errors import NotFoundError
from scaler.sim import loop
from scaler.sim.actors import devices, objects
from scaler.sim.actors.nodes import NodeSpec, add_node
from scaler.sim.actors.npu_jobs import npu_job, requested_in_all
from scaler.sim.actors.npu_nodes import NpuNode, Reports, npu_nodes
from scaler.sim.actors.npu_plugin import NpuPlugin
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.actors.stand_in import key_of
from scaler.sim.cluster import SimCluster
from tests.jobs import manifest

NPU = "huawei.com/Ascend910"
PLUGIN_REASONS = ("BatchOrderFailed", "JobEnqueueFailed", "JobValidateFailed")
"""Conditions of PodGroups that are compared, NodePredicateFailed apart: it may stand beside any."""
MINDIE = {"app": "mindie-ms-server", "jobID": "chat"}


class Report(msgspec.Struct, frozen=True):
    """What is reported of a node before the first job comes."""

    node: str
    kind: str
    """chips, network, sub-healthy, unhealthy, pre-separate, switch, silent (no device data)."""
    chips: tuple[int, ...] = ()


class Step(msgspec.Struct, frozen=True):
    """A job comes (`pods` = the chips that each of them requests), goes, or loses a pod that is
    made again."""

    job: str
    pods: tuple[int, ...] = ()
    kind: str = ""
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    again: int = -1
    """The number of the pod that is made again."""

    @property
    def goes(self) -> bool:
        return not self.pods and self.again < 0


class NpuWorld(msgspec.Struct, frozen=True):
    name: str
    nodes: tuple[NodeSpec, ...]
    reports: tuple[Report, ...]
    steps: tuple[Step, ...]


class Answer(msgspec.Struct, frozen=True):
    """What a scheduler made of a step."""

    bound: tuple[str, ...] = ()
    """The pods of the job that have a node."""
    phase: str = ""
    reasons: tuple[str, ...] = ()
    places: tuple[tuple[Any, ...], ...] = ()
    """What was free on the nodes, or in the super-pods, that the pods went to, and how many went
    there. Nodes that the plugin scores alike are equal here."""
    marks: tuple[tuple[str, ...], ...] = ()
    """What the plugin wrote on each pod: how many chips, distributed-job, super-pod-rank."""
    waiting: tuple[str, ...] | None = None
    """Why the pods without a node say that they were not scheduled; None where that was not
    recorded."""

    def as_far_as(self, recorded: Answer) -> Answer:
        """The answer without what was not recorded."""
        return msgspec.structs.replace(self, waiting=None) if recorded.waiting is None else self


def worlds(number: int) -> Iterable[NpuWorld]:
    """As many as these, A2 and A3 in turn."""
    for seed in range(number):
        drawn = random.Random(f"npu-{seed}")
        yield _a3(seed, drawn) if seed % 2 else _a2(seed, drawn)


def _a2(seed: int, drawn: random.Random) -> NpuWorld:
    name = f"a2-{seed}"
    nodes = [NodeSpec(f"{name}-n{index}", device_data=True) for index in range(drawn.randint(2, 5))]
    steps = []
    for index in range(drawn.randint(3, 5)):
        each = drawn.choice([1, 2, 3, 4, 5, 8, 8, 8, 9])
        count = drawn.choice([1, 1, 2, 2, 3])
        kind = drawn.choice(["module-910b-8"] * 8 + ["module"])
        notes = {"sp-block": str(each * count)} if drawn.random() < 0.06 else {}
        steps.append(Step(f"j{index}", (each,) * count, kind, notes, _labels(drawn)))
    return NpuWorld(name, tuple(nodes), _reports(drawn, nodes, 8), _with_changes(drawn, steps))


def _a3(seed: int, drawn: random.Random) -> NpuWorld:
    name = f"a3-{seed}"
    nodes = []
    for super_pod in range(drawn.randint(2, 4)):
        for index in range(drawn.randint(1, 5)):
            nodes.append(
                NodeSpec(
                    f"{name}-n{super_pod}-{index}", npu=16, device_data=True, super_pod=super_pod
                )
            )
    steps = []
    for index in range(drawn.randint(3, 5)):
        steps.append(_a3_job(f"j{index}", drawn))
    return NpuWorld(name, tuple(nodes), _reports(drawn, nodes, 16), _with_changes(drawn, steps))


def _a3_job(name: str, drawn: random.Random) -> Step:
    if drawn.random() < 0.2:
        each = drawn.choice([1, 2, 7, 12, 14, 16])
        notes = {"huawei.com/schedule_policy": "chip2-node16"}
        return Step(name, (each,) * drawn.choice([1, 1, 2]), "", notes, _labels(drawn))
    count = drawn.choice([1, 2, 2, 2, 3, 4, 4])
    block = drawn.choice([16 * count] * 6 + [16, 32, 48, 8])
    each = drawn.choice([16] * 12 + [8])
    labels = _labels(drawn)
    notes = {"sp-block": str(block)}
    if drawn.random() < 0.15:
        notes["sp-fit"] = "idlest"
    if drawn.random() < 0.15:
        labels["super-pod-affinity"] = "soft"
    return Step(name, (each,) * count, "module-a3-16-super-pod", notes, labels)


def _labels(drawn: random.Random) -> dict[str, str]:
    labels = dict(MINDIE) if drawn.random() < 0.6 else {}
    if drawn.random() < 0.1:
        labels["subHealthyStrategy"] = "graceExit"
    if drawn.random() < 0.08:
        labels["inferserviceid"] = "one"
    return labels


def _reports(drawn: random.Random, nodes: list[NodeSpec], chips: int) -> tuple[Report, ...]:
    kinds = ["chips", "chips", "network", "sub-healthy", "unhealthy", "pre-separate", "switch"]
    found = []
    for node in drawn.sample(nodes, drawn.choice([0, 0, 1, 1, 2])):
        kind = drawn.choice([*kinds, "silent"])
        hit = tuple(sorted(drawn.sample(range(chips), drawn.choice([1, 2]))))
        found.append(Report(node.name, kind, hit))
    return tuple(found)


def _with_changes(drawn: random.Random, steps: list[Step]) -> tuple[Step, ...]:
    """The steps, with a job that goes or a pod that is made again in between."""
    changed = []
    for index, step in enumerate(steps):
        changed.append(step)
        chance = drawn.random()
        known = drawn.choice(steps[: index + 1])
        if chance < 0.2 and index + 1 < len(steps):
            gone = [one.job for one in changed if one.goes]
            if known.job not in gone:
                changed.append(Step(known.job))
        elif chance < 0.4:
            changed.append(Step(step.job, again=drawn.randrange(len(step.pods))))
    return tuple(changed)


async def build(api: KubeApi, world: NpuWorld, clock: Clock) -> None:
    """The nodes of a world, with what is reported of them."""
    for node in world.nodes:
        await add_node(api, node, clock)
    for report in world.reports:
        await _report(api, report, clock)


async def _report(api: KubeApi, report: Report, clock: Clock) -> None:
    if report.kind == "chips":
        await devices.report_chips(api, clock, report.node, report.chips, healthy=False)
    elif report.kind == "network":
        await devices.report_network(api, clock, report.node, report.chips)
    elif report.kind == "sub-healthy":
        await devices.report_sub_health(api, clock, report.node, report.chips)
    elif report.kind == "switch":
        await devices.report_switch(api, clock, report.node, healthy=False)
    elif report.kind == "silent":
        name = devices.DEVICE_PREFIX + report.node
        await api.delete(CONFIG_MAPS, devices.DEVICE_NAMESPACE, name)
    else:
        status = devices.PRE_SEPARATE if report.kind == "pre-separate" else devices.UNHEALTHY
        await devices.report_node(api, clock, report.node, healthy=False, status=status)


async def bring(api: KubeApi, namespace: str, step: Step) -> None:
    """Create the PodGroup and the pods of a job."""
    await api.create(POD_GROUPS, namespace, pod_group(namespace, step))
    for rank in range(len(step.pods)):
        await api.create(PODS, namespace, pod_body(namespace, step, rank))


def pod_group(namespace: str, step: Step) -> Object:
    spec = {
        "minMember": len(step.pods),
        "minResources": {NPU: str(sum(step.pods))},
        "queue": "default",
    }
    return manifest(
        POD_GROUPS,
        step.job,
        namespace,
        labels=step.labels,
        annotations=step.annotations,
        spec=spec,
    )


def pod_body(namespace: str, step: Step, rank: int) -> Object:
    amount = {NPU: str(step.pods[rank])}
    resources = {"requests": amount, "limits": amount}
    spec: Object = {
        "schedulerName": "volcano",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "ascend", "image": "mindie", "resources": resources}],
    }
    if step.kind:
        spec["nodeSelector"] = {"accelerator-type": step.kind}
    labels = {**step.labels, "training.kubeflow.org/operator-name": "ascendjob-controller"}
    notes = {**step.annotations, objects.GROUP_NAME: step.job, "hccl/rankIndex": str(rank)}
    name = f"{step.job}-{rank}"
    return manifest(PODS, name, namespace, labels=labels, annotations=notes, spec=spec)


async def perform(
    api: KubeApi, namespace: str, step: Step, known: Mapping[str, Step], *, pause: float
) -> None:
    """Let the step happen. `known` = the jobs that came, by name; `pause` = seconds from the end of
    a pod until it is made again."""
    if step.pods:
        await bring(api, namespace, step)
    elif step.goes:
        for rank in range(len(known[step.job].pods)):
            await _end(api, namespace, f"{step.job}-{rank}")
        await api.delete(POD_GROUPS, namespace, step.job)
    else:
        await _end(api, namespace, f"{step.job}-{step.again}")
        await asyncio.sleep(pause)
        await api.create(PODS, namespace, pod_body(namespace, known[step.job], step.again))


async def _end(api: KubeApi, namespace: str, name: str) -> None:
    await api.delete(PODS, namespace, name, grace_period_seconds=0)
    try:
        while True:
            await api.get(PODS, namespace, name)
    except NotFoundError:
        return


async def end_job(api: KubeApi, namespace: str, job: str) -> None:
    """Delete all pods of a job, and its PodGroup."""
    for pod in (await api.list(PODS, namespace)).items:
        if objects.annotations_of(pod).get(objects.GROUP_NAME) == job:
            await _end(api, namespace, objects.name(pod))
    with suppress(NotFoundError):
        await api.delete(POD_GROUPS, namespace, job)


class Recorded(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of the real plugin to a step, and what it wrote on each pod of the job."""

    answer: Answer | None = None
    nodes: dict[str, str] = {}
    annotations: dict[str, dict[str, str]] = {}
    phase: str = ""


_WRITTEN = frozenset(
    {devices.REAL, devices.CONFIGURATION, NPU, "super-pod-id", "super-pod-rank", "distributed-job"}
)
"""Annotations of pods that the plugin writes."""
_RECORDED_NOTES = (devices.REAL, NPU, "super-pod-id", "super-pod-rank", "distributed-job")


def record(after: Seen, step: Step, found: Answer) -> Recorded:
    nodes = {}
    annotations = {}
    for pod in after.of_job(step.job):
        if objects.node_of(pod):
            nodes[objects.name(pod)] = objects.node_of(pod)
            notes = objects.annotations_of(pod)
            kept = {key: notes[key] for key in _RECORDED_NOTES if key in notes}
            annotations[objects.name(pod)] = kept
    phase = str(objects.status(after.group(step.job)).get("phase") or "")
    return Recorded(found, nodes, annotations, phase)


class Seen(msgspec.Struct):
    """Everything of a world that its schedulers read."""

    nodes: list[Object]
    config_maps: list[Object]
    pods: list[Object]
    groups: list[Object]

    def group(self, job: str) -> Object:
        return next(one for one in self.groups if objects.name(one) == job)

    def of_job(self, job: str) -> list[Object]:
        found = []
        for pod in self.pods:
            if objects.annotations_of(pod).get(objects.GROUP_NAME) == job:
                found.append(pod)
        return found


async def see(api: KubeApi, world: NpuWorld) -> Seen:
    names = {node.name for node in world.nodes}
    nodes = [one for one in (await api.list(NODES)).items if objects.name(one) in names]
    config_maps = []
    for place in (devices.DEVICE_NAMESPACE, devices.NODE_NAMESPACE):
        config_maps += (await api.list(CONFIG_MAPS, place)).items
    pods = (await api.list(PODS, world.name)).items
    groups = (await api.list(POD_GROUPS, world.name)).items
    return Seen(nodes, config_maps, list(pods), list(groups))


def with_new(earlier: Seen, now: Seen) -> Seen:
    """The world of before a step, with the pods and PodGroups that the step has made, untouched by
    the scheduler."""
    uids = {objects.uid(pod) for pod in earlier.pods}
    there = {objects.uid(pod) for pod in now.pods}
    pods = [pod for pod in earlier.pods if objects.uid(pod) in there]
    for pod in copy.deepcopy(now.pods):
        if objects.uid(pod) not in uids:
            pod["spec"].pop("nodeName", None)
            pod["status"] = {"phase": "Pending"}
            notes = objects.annotations_of(pod)
            pod["metadata"]["annotations"] = {
                key: value for key, value in notes.items() if key not in _WRITTEN
            }
            pods.append(pod)
    known = {objects.uid(group): group for group in earlier.groups}
    groups = []
    for group in copy.deepcopy(now.groups):
        groups.append(known.get(objects.uid(group)) or {**group, "status": {}})
    return Seen(earlier.nodes, earlier.config_maps, pods, groups)


def answer(before: Seen, after: Seen, step: Step) -> Answer:
    """What became of a step that brought pods; `before` = the world without the new pods' nodes."""
    unbound = {objects.uid(pod) for pod in before.pods if objects.node_of(pod)}
    new = [pod for pod in after.of_job(step.job) if objects.uid(pod) not in unbound]
    placed = [pod for pod in new if objects.node_of(pod)]
    group = after.group(step.job)
    reasons = set()
    latest = _latest(group)
    for one in objects.status(group).get("conditions") or []:
        if one["reason"] in PLUGIN_REASONS and one.get("transitionID") == latest:
            reasons.add(one["reason"])
    known = npu_nodes(before.nodes, Reports(before.config_maps), before.pods)
    job = npu_job(group, after.of_job(step.job), requested_in_all(group))
    blocks = job is not None and job.policy == "blocks" and len(job.pods) > 1
    return Answer(
        tuple(sorted(map(objects.name, placed))),
        str(objects.status(group).get("phase") or "Pending"),
        () if placed else tuple(sorted(reasons)),
        _places(known, placed, blocks=blocks, distributed=len(after.of_job(step.job)) > 1),
        tuple(sorted(map(_marks, placed))),
        tuple(sorted({_waits_for(pod) for pod in new if not objects.node_of(pod)})),
    )


def _latest(group: Object) -> str:
    conditions = objects.status(group).get("conditions") or [{}]
    newest = max(conditions, key=lambda one: one.get("lastTransitionTime", ""))
    return str(newest.get("transitionID", ""))


def _places(
    known: Mapping[str, NpuNode], placed: list[Object], *, blocks: bool, distributed: bool
) -> tuple[tuple[Any, ...], ...]:
    counts = Counter(objects.node_of(pod) for pod in placed)
    if not blocks:
        found = []
        for name, count in counts.items():
            node = known[name]
            usable = node.usable(distributed=distributed)
            found.append((len(usable), node.unhealthy, count))
        return tuple(sorted(found))
    whole = Counter(
        node.super_pod for node in known.values() if len(node.available) == node.capacity
    )
    taken = Counter(known[objects.node_of(pod)].super_pod for pod in placed)
    return tuple(sorted((whole[one], count) for one, count in taken.items()))


def _waits_for(pod: Object) -> str:
    return str(objects.condition(pod, "PodScheduled").get("reason", ""))


def _marks(pod: Object) -> tuple[str, ...]:
    notes = objects.annotations_of(pod)
    chips = len((notes.get(NPU) or "").split(","))
    rank = notes.get("super-pod-rank", "none")
    return str(chips), notes.get("distributed-job", ""), rank


def remembered(seen: Seen) -> NpuPlugin:
    """The plugin as it remembers the placements that are there."""
    plugin = NpuPlugin()
    for group in seen.groups:
        pods = seen.of_job(objects.name(group))
        if not pods or not all(map(objects.node_of, pods)):
            continue
        in_order = sorted(pods, key=lambda pod: int(objects.annotations_of(pod)["hccl/rankIndex"]))
        if "super-pod-id" in objects.annotations_of(in_order[0]):
            plugin.blocks[key_of(group)] = [[objects.node_of(pod) for pod in in_order]]
        service = objects.labels_of(group).get("inferserviceid", "")
        plugin.services[key_of(group)] = service
    return plugin


class Paper:
    """A KubeApi for one scheduler: it lists what was seen, and keeps what is written."""

    def __init__(self, seen: Seen) -> None:
        self._listed: dict[Resource, list[Object]] = {
            NODES: seen.nodes,
            CONFIG_MAPS: seen.config_maps,
            PODS: seen.pods,
            POD_GROUPS: seen.groups,
        }

    async def list(self, resource: Resource, *_: Any, **__: Any) -> Page[Object]:
        return Page(self._listed.get(resource, []), "1")

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[WatchEvent[Object]]:
        await asyncio.sleep(math.inf)
        yield WatchEvent(EventType.BOOKMARK, None, "1")

    async def create(self, _: Resource, __: str, binding: Object) -> Object:
        about = binding["metadata"]
        pod = self._find(PODS, about["name"])
        notes = {**objects.annotations_of(pod), **about.get("annotations", {})}
        pod["metadata"] = {**pod["metadata"], "annotations": notes}
        pod["spec"] = {**pod["spec"], "nodeName": binding["target"]["name"]}
        return binding

    async def patch(
        self, resource: Resource, _: str, name: str, patch: Object, **__: Any
    ) -> Object:
        found = self._find(resource, name)
        found["status"] = {**objects.status(found), **patch["status"]}
        return found

    def _find(self, resource: Resource, name: str) -> Object:
        return next(one for one in self._listed[resource] if objects.name(one) == name)


def stand_in_answers(before: Seen, step: Step, memory: NpuPlugin) -> Answer:
    """What the stand-in makes of the world, in which the pods of the step have no node yet."""
    after = copy.deepcopy(before)

    async def session() -> None:
        # a scheduler reads nothing else of its API
        scheduler = GangScheduler(
            cast("KubeApi", Paper(after)), devices=True, clock=Clock(1_790_000_000.0)
        )
        scheduler.plugin = memory
        task = asyncio.create_task(scheduler.run())
        await asyncio.sleep(3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    loop.run(session(), seed=0)
    return answer(before, after, step)


class Course:
    """A world in which every step gets the answer that was recorded."""

    def __init__(self, world: NpuWorld) -> None:
        self._world = world
        self._known: dict[str, Step] = {}
        self._made = 0
        self.memory = NpuPlugin()
        self._seen = self._base()

    def _base(self) -> Seen:
        async def built() -> Seen:
            cluster = SimCluster(Clock(1_790_000_000.0))
            await build(cluster, self._world, cluster.server.clock)
            return await see(cluster, self._world)

        found: list[Seen] = []

        async def keep() -> None:
            found.append(await built())

        loop.run(keep(), seed=0)
        return found[0]

    def with_step(self, step: Step) -> Seen:
        """The world with what the step makes, not yet scheduled."""
        self.memory = remembered(self._seen)
        if step.pods:
            self._known[step.job] = step
            group = pod_group(self._world.name, step)
            self._seen.groups.append(self._born(group))
            for rank in range(len(step.pods)):
                self._seen.pods.append(self._born(pod_body(self._world.name, step, rank)))
        elif step.goes:
            gone = {objects.uid(pod) for pod in self._seen.of_job(step.job)}
            kept = [pod for pod in self._seen.pods if objects.uid(pod) not in gone]
            groups = [one for one in self._seen.groups if objects.name(one) != step.job]
            self._seen = Seen(self._seen.nodes, self._seen.config_maps, kept, groups)
        else:
            name = f"{step.job}-{step.again}"
            self._seen.pods = [pod for pod in self._seen.pods if objects.name(pod) != name]
            body = pod_body(self._world.name, self._known[step.job], step.again)
            self._seen.pods.append(self._born(body))
        return self._seen

    def _born(self, body: Object) -> Object:
        self._made += 1
        meta = {**body["metadata"], "uid": f"uid-{self._made}"}
        status = {"phase": "Pending"} if "minMember" not in body["spec"] else {}
        return {**body, "metadata": meta, "status": status}

    def adopt(self, step: Step, recorded: Recorded) -> None:
        """Place the pods of the step as the real plugin did."""
        for pod in self._seen.of_job(step.job):
            node = recorded.nodes.get(objects.name(pod))
            if node and not objects.node_of(pod):
                pod["spec"] = {**pod["spec"], "nodeName": node}
                notes = recorded.annotations.get(objects.name(pod), {})
                pod["metadata"]["annotations"] = {**objects.annotations_of(pod), **notes}
                pod["status"] = {"phase": "Running"}
        for group in self._seen.groups:
            if objects.name(group) == step.job and recorded.phase:
                group["status"] = {"phase": recorded.phase}
