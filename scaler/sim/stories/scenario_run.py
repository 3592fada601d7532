"""The world of a scenario: nodes, stand-ins, the controller and what happens to them, from the
start to the end.

All events go through KubeApi, but those of the controller, of its requests and of the scheduler.
Must not: judge (scaler.tools.simulate.verdicts), or touch files but manifests and rules."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from scaler.clock import Clock
from scaler.controller import Observer
from scaler.decide.service.states import natural
from scaler.kube.api import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    ELASTIC_SERVICES,
    HYPER_NODES,
    PODS,
    QUEUES,
    KubeApi,
    Object,
    PatchType,
    Resource,
)
from scaler.kube.errors import AlreadyExistsError, KubeError, NotFoundError
from scaler.names import RULE_KEY
from scaler.sim.actors import objects
from scaler.sim.actors.clusterd import ClusterD
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.actors.devices import (
    PRE_SEPARATE,
    UNHEALTHY,
    DevicePlugin,
    put,
    report_chips,
    report_network,
    report_node,
    report_sub_health,
    report_switch,
)
from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.faulty_api import Curses, FaultyApi
from scaler.sim.actors.hyper_nodes import hyper_node
from scaler.sim.actors.mindie import MindIEController
from scaler.sim.actors.nodes import (
    Kubelet,
    NodeFate,
    NodeLifecycle,
    NodeSpec,
    add_node,
    change_node,
    exit_pod,
)
from scaler.sim.actors.operator import AscendOperator
from scaler.sim.actors.owners import owners
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.actors.stand_in import Actor
from scaler.sim.apiserver.crds import workload_definition
from scaler.sim.load.service import LoadedService
from scaler.sim.stories import scenario
from scaler.sim.stories.instances import instance_of
from scaler.sim.stories.manifests import KINDS, ManifestError, apply, copied, delete, read_manifests
from scaler.sim.stories.recorder import Recorder
from scaler.sim.stories.timeline import MomentKind, Timeline

_FATES = {
    NodeFate.NOT_READY: "stops answering",
    NodeFate.GONE: "removed from the cluster",
    NodeFate.CORDONED: "cordoned",
    NodeFate.REFUSING: "its kubelet refuses every pod that comes",
    NodeFate.READY: "ready again",
}
_OF_MACHINES = {"npu", "npu_resource", "labels", "cpu", "memory", "pods"}
"""Fields of a group of nodes that each of its machines has."""
_PLUGIN_ON = {
    "volcano-scheduler.conf": """actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: volcano-npu_v6.0.0_linux-aarch64
  - name: priority
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
}
"""The scheduler's configuration where MindCluster's plugin is at work."""
_STEERING = {"stop": "dies", "start": "starts", "restart": "dies and starts again"}


class EventError(Exception):
    """An event of the scenario is impossible; `str()` says why."""


def node_specs(groups: Sequence[scenario.NodeGroup]) -> dict[str, NodeSpec]:
    """Every node of a scenario by name. Raises EventError when two have the same name."""
    specs: dict[str, NodeSpec] = {}
    for group in groups:
        alike = group.model_dump(include=_OF_MACHINES)
        for index in range(group.number):
            name = group.name.replace("{}", str(group.first + index))
            if name in specs:
                raise EventError(f"two nodes are named {name}")
            specs[name] = NodeSpec(
                name, **alike, device_data=group.reported, super_pod=group.super_pod_of(index)
            )
    return specs


RunController = Callable[[KubeApi, Clock, Observer], Coroutine[Any, Any, None]]
"""Runs the controller until cancelled; raises when it dies."""


class ScenarioRun:
    """One scenario on one cluster. `seed` decides every random duration and every free choice of a
    stand-in.

    `controller_api` is what the controller gets, with the API faults of the scenario; by default a
    view of the `api`. The recorder gets the words about an event before the event, so that the
    timeline shows causes before effects."""

    # Wiring: everything that a scenario is played with.
    def __init__(  # noqa: PLR0913
        self,
        api: KubeApi,
        clock: Clock,
        what: scenario.Scenario,
        *,
        controller: RunController,
        timeline: Timeline,
        seed: int,
        controller_api: FaultyApi | None = None,
    ) -> None:
        self._api = api
        self._clock = clock
        self._scenario = what
        self._specs = node_specs(what.nodes)
        self._seed = seed
        self._timeline = timeline
        ungoverned = {}
        for load in what.load:
            if load.ungoverned:
                ungoverned[load.namespace] = load.job_id
        self._recorder = Recorder(api, clock, timeline, ungoverned)
        self._curses = Curses(what.curse, lambda: self._recorder.elapsed)
        period = what.timing.schedule_period
        self._gangs = GangScheduler(
            api,
            period=period,
            devices=what.device_data,
            hyper_nodes=bool(what.hyper_nodes),
            clock=clock,
            seed=seed,
            cursed=self._curses,
        )
        self._controller_api = controller_api or FaultyApi(api, self._curses, seed=seed)
        self._run = controller
        self._running: asyncio.Task[None] | None = None
        self._event: scenario.Event | None = None

    async def play(self) -> None:
        """Run from the empty cluster to the end of the scenario; `timeline` is complete
        afterwards."""
        await self._install()
        async with asyncio.TaskGroup() as group:
            self._recorder.start()
            tasks = []
            for actor in self._actors():
                tasks.append(group.create_task(actor.run(), name=type(actor).__name__))
            try:
                await self._begin()
                await self._unfold()
            finally:
                await self._steer("stop")
                for task in tasks:
                    task.cancel()
        for curse in self._curses.unmet:
            self._recorder.say(
                MomentKind.WARNING, f"the curse of {curse.of} (never {curse.never}) met no object"
            )
        for load in self._scenario.load:
            if load.service not in self._timeline.samples:
                words = f"there was no service {load.service}: all its requests are lost"
                self._recorder.say(MomentKind.WARNING, words)
        self._timeline.end = self._scenario.until

    async def _install(self) -> None:
        """What is there before anything runs."""
        if self._scenario.hyper_nodes:
            definition = workload_definition(HYPER_NODES)
            await self._api.create(CUSTOM_RESOURCE_DEFINITIONS, None, definition)
        for one in self._scenario.hyper_nodes:
            made = hyper_node(one.name, one.tier, nodes=one.nodes, members=one.members)
            await self._api.create(HYPER_NODES, None, made)

    async def _begin(self) -> None:
        """Start nodes, controller, manifests, in this order. A refusal is recorded as a failure."""
        for spec in self._specs.values():
            await add_node(self._api, spec, self._clock)
        about = {
            "apiVersion": QUEUES.api_version,
            "kind": QUEUES.kind,
            "metadata": {"name": "default"},
        }
        with contextlib.suppress(AlreadyExistsError):
            await self._api.create(QUEUES, None, {**about, "spec": {"weight": 1}})
        if self._scenario.device_data:
            await put(self._api, "volcano-system", "volcano-scheduler-configmap", _PLUGIN_ON, {})
        await self._start()
        for path in self._scenario.manifests:
            await self._bring([path])
        for at, copies, namespace in self._arrivals():
            if not at:
                await self._bring(copies.manifests, namespace, copies.replace)

    async def _start(self) -> None:
        await self._steer("start")

    def _actors(self) -> Sequence[Actor]:
        timing = self._scenario.timing
        api = self._api
        clock = self._clock
        curses = self._curses
        making = FaultyApi(api, curses, owner=True)
        actors: list[Actor] = [
            self._recorder,
            self._gangs,
            DevicePlugin(api),
            Kubelet(api, clock, timings=timing, seed=self._seed, cursed=curses),
            ClusterD(api),
            FaultActor(api, clock, detection=self._scenario.fault_detection),
            MindIEController(
                api,
                clock,
                patience=timing.mindie_patience,
                beside=self._scenario.ascend_operator,
                say=partial(self._recorder.say, MomentKind.INSTANCE),
            ),
            NodeLifecycle(api, clock, eviction=timing.eviction),
            GarbageCollector(api),
            *owners(making),
        ]
        for load in self._scenario.load:
            actors.append(LoadedService(api, load, self._timeline, self._recorder))
        if self._scenario.ascend_operator:
            actors.append(AscendOperator(making, clock, cursed=curses))
        return actors

    def _arrivals(self) -> Iterator[tuple[float, scenario.Copies, str]]:
        for copies in self._scenario.copies:
            for at, namespace in copies.arrivals():
                yield at, copies, namespace

    async def _leave(self, copies: scenario.Copies, namespace: str) -> None:
        """Delete the copy, except for cluster-scoped objects, which all copies share."""
        self._recorder.say(MomentKind.EVENT, f"kubectl delete {namespace}")
        for obj in copied(_read_all(copies.manifests, copies.replace), namespace):
            if "namespace" in obj["metadata"]:
                await delete(self._api, obj)

    async def _bring(
        self, paths: Sequence[Path], namespace: str = "", replace: dict[str, str] | None = None
    ) -> None:
        """Apply the manifests, unchanged or as a copy in this namespace."""
        words = namespace or f"-f {paths[0].name}"
        self._recorder.say(MomentKind.EVENT, f"kubectl apply {words}")
        try:
            objs = _read_all(paths, replace)
            skipped = []
            for obj in copied(objs, namespace) if namespace else objs:
                if not await apply(self._api, obj):
                    skipped.append(f"{obj['kind']} {objects.name(obj)}")
        except (ManifestError, KubeError) as error:
            self._recorder.say(MomentKind.FAILURE, f"kubectl apply {words} failed: {error}")
            return
        if skipped:
            self._recorder.say(
                MomentKind.WARNING, f"left out, not known to the simulation: {', '.join(skipped)}"
            )

    async def _unfold(self) -> None:
        happening: list[tuple[float, partial[Coroutine[Any, Any, None]]]]
        happening = [(event.at, partial(self._perform, event)) for event in self._scenario.events]
        for at, copies, namespace in self._arrivals():
            if at:
                happening.append(
                    (at, partial(self._bring, copies.manifests, namespace, copies.replace))
                )
            if copies.lasting is not None and at + copies.lasting <= self._scenario.until:
                happening.append((at + copies.lasting, partial(self._leave, copies, namespace)))
        for at, happen in sorted(happening, key=lambda pair: pair[0]):
            await asyncio.sleep(max(0.0, at - self._recorder.elapsed))
            await happen()
        await asyncio.sleep(max(0.0, self._scenario.until - self._recorder.elapsed))

    async def _perform(self, event: scenario.Event) -> None:
        """Perform an event: the method has the name of the action. An impossible event is recorded
        as a failure."""
        self._event = event
        try:
            await getattr(self, f"_{event.action}")(getattr(event, event.action))
        except (EventError, ManifestError, KubeError) as error:
            self._recorder.say(
                MomentKind.FAILURE,
                f"the event at {event.at:g} s failed: {error}",
                subject=event.name,
            )

    def _announce(self, words: str) -> None:
        event = self._event
        self._recorder.say(
            MomentKind.EVENT, (event and event.note) or words, subject=event.name if event else ""
        )

    async def _steer(self, what: scenario.ControllerEvent) -> None:
        """Stop or start the controller, or one after the other; no effect if it is in that state
        already."""
        if what != "start" and self._running is not None:
            task = self._running
            self._running = None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if what != "stop" and self._running is None:
            self._running = asyncio.create_task(self._run_controller(), name="controller")

    async def _run_controller(self) -> None:
        try:
            await self._run(self._controller_api, self._clock, self._recorder.observe)
            why = "it returned"
        except Exception as error:  # any end of the controller is a finding of the simulation
            why = f"{type(error).__name__}: {error}"
        self._recorder.say(MomentKind.FAILURE, f"the controller died: {why}")

    async def _node(self, event: scenario.NodeEvent) -> None:
        names = await self._named(event) or list(self._specs)
        for name in names:
            if name not in self._specs:
                raise EventError(f"there is no node {name}; there are: {', '.join(self._specs)}")
        who = ", ".join(names) if event.names or event.of_job else "every node"
        self._announce(f"{who}: {_FATES[event.becomes]}")
        for name in names:
            try:
                await change_node(self._api, self._specs[name], event.becomes, self._clock)
            except NotFoundError:
                raise EventError(f"node {name} is gone already") from None

    async def _fault(self, event: scenario.FaultEvent) -> None:
        names = await self._named(event)
        chips = f"chips {', '.join(map(str, event.chips))}"
        what = {"chip": chips, "network": f"network of {chips}"}.get(event.what, event.what)
        self._announce(f"{', '.join(names)}: {what} reported {event.becomes}")
        report = _reporter(event)
        for name in names:
            await report(self._api, self._clock, name)

    async def _named(self, event: scenario.OnNodes) -> list[str]:
        """Nodes by name, or those of the pods of `namespace/job`, or of the pods of an instance of
        another kind."""
        if event.names or not event.of_job:
            return event.names
        namespace, _, job = event.of_job.rpartition("/")
        pods = (await self._api.list(PODS, namespace or "default")).items
        names = set[str]()
        for pod in pods:
            owner = str(objects.controller(pod).get("name", ""))
            of_deployment = owner.rpartition("-")[0]
            if objects.node_of(pod) and job in (owner, of_deployment, instance_of(pod, {})[0]):
                names.add(objects.node_of(pod))
        if not names:
            raise EventError(f"{event.of_job} runs on no node")
        return sorted(names, key=natural)[: event.at_most]

    async def _apply(self, path: Path) -> None:
        self._announce(f"kubectl apply -f {path.name}")
        for obj in read_manifests(path):
            await apply(self._api, obj)

    async def _delete(self, ref: scenario.ObjectRef) -> None:
        self._announce(f"kubectl delete {ref.kind.lower()} {ref.name}")
        await delete(
            self._api,
            {"kind": ref.kind, "metadata": {"name": ref.name, "namespace": ref.namespace}},
        )

    async def _delete_file(self, path: Path) -> None:
        self._announce(f"kubectl delete -f {path.name}")
        for obj in read_manifests(path):
            await delete(self._api, obj)

    async def _rule(self, rule: scenario.RuleEvent) -> None:
        try:
            old = (await self._api.get(CONFIG_MAPS, rule.namespace, rule.name)).get("data") or {}
            how = "edited"
        except NotFoundError:
            old = {}
            how = "created"
        text = _text(rule, old.get(RULE_KEY, ""))
        self._announce(f"rule {rule.name}: {how}")
        await put(self._api, rule.namespace, rule.name, {RULE_KEY: text}, {})

    async def _patch(self, patch: scenario.PatchEvent) -> None:
        ref = patch.object
        resource = KINDS[ref.kind]
        namespace = ref.namespace if resource.namespaced else None
        name = await self._newest(resource, namespace, ref.name)
        subresource = "status" if set(patch.merge) == {"status"} else ""
        how = f" --subresource={subresource}" if subresource else ""
        self._announce(f"kubectl patch{how} {ref.kind.lower()} {name}")
        await self._api.patch(
            resource,
            namespace,
            name,
            patch.merge,
            patch_type=PatchType.MERGE,
            subresource=subresource,
        )

    async def _newest(self, resource: Resource, namespace: str | None, pattern: str) -> str:
        """The name of the newest object whose name begins like a pattern that ends in *; any other
        name as it is."""
        if not pattern.endswith("*"):
            return pattern
        found = []
        for obj in (await self._api.list(resource, namespace)).items:
            if objects.name(obj).startswith(pattern[:-1]):
                found.append((obj["metadata"]["creationTimestamp"], objects.name(obj)))
        if not found:
            raise EventError(f"there is no {resource.kind} {pattern}")
        return max(found)[1]

    async def _scale(self, scale: scenario.ScaleEvent) -> None:
        namespace, _, about = scale.service.partition("/")
        found = (await self._api.list(ELASTIC_SERVICES, namespace)).items
        names = []
        for obj in found:
            if f"{obj['spec']['rule']}/{obj['spec']['jobID']}" == about:
                names.append(objects.name(obj))
        if not names:
            raise EventError(f"there is no ElasticService of {scale.service}")
        self._announce(f"kubectl scale esvc/{names[0]} --replicas={scale.replicas}")
        wanted = {"spec": {"replicas": scale.replicas}}
        await self._api.patch(
            ELASTIC_SERVICES,
            namespace,
            names[0],
            wanted,
            patch_type=PatchType.MERGE,
            subresource="scale",
        )

    async def _pod_exit(self, ref: scenario.PodExit) -> None:
        pod = await self._api.get(PODS, ref.namespace, ref.pod)
        if objects.phase(pod) != "Running":
            raise EventError(f"pod {ref.pod} does not run, so it cannot exit")
        self._announce(f"pod {ref.pod}: exits with {ref.code}")
        await exit_pod(self._api, pod, now=self._clock.now(), code=ref.code)

    async def _controller(self, what: scenario.ControllerEvent) -> None:
        self._announce(f"the scaler: {_STEERING[what]}")
        await self._steer(what)

    async def _scheduler(self, becomes: scenario.SchedulerEvent) -> None:
        if becomes == "stopped":
            self._announce("the scheduler: stops")
            self._gangs.stop()
        else:
            self._announce("the scheduler: goes on")
            self._gangs.resume()

    async def _mark(self, words: str) -> None:
        self._announce(words)

    async def _api_fault(self, fault: scenario.ApiFault) -> None:
        if fault.kind == "watches-cut":
            self._announce("API server: cuts the scaler's watches")
            self._controller_api.cut_watches()
        else:
            self._announce(
                f"API server: {fault.share:.0%} of the scaler's requests fail for"
                f" {fault.lasting:g} s"
            )
            self._controller_api.fail(share=fault.share, lasting=fault.lasting)


def _reporter(event: scenario.FaultEvent) -> Callable[..., Awaitable[None]]:
    """What reports the fault of a node, or that it is over."""
    healthy = event.becomes == "healthy"
    sub_healthy = event.becomes == "sub-healthy"
    if event.what == "node":
        status = PRE_SEPARATE if event.becomes == "pre-separate" else UNHEALTHY
        return partial(report_node, healthy=healthy, status=status)
    if event.what == "switch":
        return partial(report_switch, healthy=healthy, sub_healthy=sub_healthy)
    if healthy or (event.what == "chip" and not sub_healthy):
        return partial(report_chips, chips=event.chips, healthy=healthy)
    return partial(
        report_network if event.what == "network" else report_sub_health, chips=event.chips
    )


def _read_all(paths: Sequence[Path], replace: Mapping[str, str] | None) -> list[Object]:
    """The objects of several files and folders, in order."""
    found = []
    for path in paths:
        found += read_manifests(path, replace)
    return found


def _text(rule: scenario.RuleEvent, old: str) -> str:
    if rule.file is not None:
        try:
            return rule.file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise EventError(f"{rule.file}: {error}") from None
    if rule.text is not None:
        return rule.text
    for before, after in rule.replace.items():
        if before not in old:
            raise EventError(f"the rule does not contain {before!r}")
        old = old.replace(before, after)
    return old
