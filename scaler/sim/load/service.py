"""Sends requests through one service of the cluster, and runs its autoscalers. An ordinary client
of the API.

Instances take requests while all their pods are Ready. Requests in decode on an instance that
breaks are lost; on an instance that is deleted they are finished. Must not: know the controller's
plans, or write other fields than `spec.replicas`.

Autoscalers are HorizontalPodAutoscalers (autoscaling/v2) as documented. Modelled: metrics with an
average value, tolerance, least and most, stabilization windows, and the default policies (up: four
or as many again at once, down: all). Not modelled: metrics that are missing or late, pods that are
not ready. Written from https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/
and its API reference."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import msgspec

from scaler.kube.api import DEPLOYMENTS, ELASTIC_SERVICES, KubeApi, Object, PatchType, Resource
from scaler.kube.errors import KubeError
from scaler.rules.rule import ALL
from scaler.sim.actors import objects
from scaler.sim.load import queueing
from scaler.sim.load.queueing import Capacity, Flow
from scaler.sim.stories.instances import Condition
from scaler.sim.stories.loads import Autoscaler, Load, Metric
from scaler.sim.stories.recorder import Recorder
from scaler.sim.stories.timeline import LoadSample, MomentKind, Timeline


class LoadedService:
    """Samples go to the timeline. The recorder gives the time and records events."""

    def __init__(self, api: KubeApi, load: Load, timeline: Timeline, recorder: Recorder) -> None:
        self._api = api
        self._load = load
        self._timeline = timeline
        self._recorder = recorder
        self._flow = Flow(at=load.since)
        self._decoders: set[str] = set()
        """Instances that decoded at the step before."""

    async def run(self) -> None:
        """Advance the flow with time until cancelled."""
        async with asyncio.TaskGroup() as group:
            for scaler in self._load.autoscalers:
                group.create_task(self._follow(scaler), name="autoscaler")
            await asyncio.sleep(self._load.since)
            while True:
                await asyncio.sleep(min(5.0, self._load.seconds / 3))
                self._step()

    def _step(self) -> None:
        load = self._load
        before = self._flow
        seconds = self._recorder.elapsed - before.at
        sample = self._timeline.last(load.service)
        prefill = len(sample.ready_of(load.prefill.group))
        decode = sample.ready_of(load.decode.group)
        capacity = Capacity(
            prefill * load.prefilled,
            len(decode) * load.decode.sequences,
            load.seconds,
            load.patience,
            math.inf if load.queue is None else load.queue,
        )
        rate = load.requests.at(before.at + seconds / 2)
        lost = (self._decoders - decode) & self._broken_since(before.at)
        broken = len(lost) / max(1, len(self._decoders))
        self._decoders = decode
        self._flow = after = queueing.step(before, capacity, rate * seconds, seconds, broken=broken)
        work = (queueing.total(before.waiting) + rate * seconds) / load.prefilled / seconds
        self._timeline.loads.setdefault(load.service, []).append(
            LoadSample(
                at=before.at,
                end=after.at,
                rate=rate,
                able=capacity.able,
                prefill=prefill,
                decode=len(decode),
                npus=sum(view.npus for view in sample.instances),
                prefill_busy=min(prefill, work),
                decode_busy=after.decoding / load.decode.sequences,
                prefill_queue=queueing.total(after.waiting),
                decode_queue=queueing.total(after.prefilled),
                wait=after.oldest,
                decoding=after.decoding,
                arrived=after.arrived,
                served=after.served,
                lost=after.lost,
            )
        )

    def _broken_since(self, moment: float) -> set[str]:
        """Instances that were broken at some time since that moment (seconds)."""
        found = set()
        for past in reversed(self._timeline.samples.get(self._load.service, [])):
            for view in past.instances:
                if view.condition is Condition.BROKEN:
                    found.add(view.name)
            if past.at <= moment:
                break
        return found

    async def _follow(self, scaler: Autoscaler) -> None:
        past: tuple[Advice, ...] = ()
        while True:
            await asyncio.sleep(scaler.period)
            try:
                past = await self._scale(scaler, past)
            except KubeError as error:
                self._recorder.say(MomentKind.WARNING, f"autoscaler: {error}", self._load.service)

    async def _scale(self, scaler: Autoscaler, past: tuple[Advice, ...]) -> tuple[Advice, ...]:
        resource, target = await self._target(scaler)
        samples = self._timeline.loads.get(self._load.service)
        if target is None or not samples:
            return past
        default = 1 if self._load.ungoverned else ALL
        specified = int(objects.spec(target).get("replicas", default))
        running = int(objects.status(target).get("replicas") or 0)
        metrics = [(measured(samples[-1], metric), metric.average) for metric in scaler.metrics]
        look = Look(self._recorder.elapsed, specified, running, metrics)
        wanted, past = desired(scaler, look, past)
        if wanted != specified:
            name = objects.name(target)
            merge = {"spec": {"replicas": wanted}}
            await self._api.patch(
                resource, self._load.namespace, name, merge, patch_type=PatchType.MERGE
            )
            before = "all" if specified >= ALL else specified
            text = f"autoscaler: {resource.kind} {name} from {before} to {wanted}"
            self._recorder.say(MomentKind.TARGET, text, self._load.service)
        return past

    async def _target(self, scaler: Autoscaler) -> tuple[Resource, Object | None]:
        if not self._load.ungoverned:
            about = {"rule": self._load.rule, "jobID": self._load.job_id}
            found = await self._api.list(ELASTIC_SERVICES, self._load.namespace)
            for one in found.items:
                if about.items() <= objects.spec(one).items():
                    return ELASTIC_SERVICES, one
            return ELASTIC_SERVICES, None
        stage = self._load.prefill if scaler.scales == "prefill" else self._load.decode
        return DEPLOYMENTS, await self._api.get(DEPLOYMENTS, self._load.namespace, stage.group)


def measured(sample: LoadSample, metric: Metric) -> float:
    """The value of a metric: the sum over all instances."""
    if metric.of in ("rate", "requests"):
        return (
            sample.rate
            if metric.of == "rate"
            else sample.queue + sample.prefill_busy + sample.decoding
        )
    total = 0.0
    for stage in (metric.stage,) if metric.stage else ("prefill", "decode"):
        total += getattr(sample, f"{stage}_{metric.of}")
    return total


# how many replicas a HorizontalPodAutoscaler sets: values in, values out


class Advice(msgspec.Struct, frozen=True):
    """The replicas that the metrics alone advised at a time (seconds)."""

    at: float
    replicas: int


def by_metric(total: float, average: float, running: int, tolerance: float) -> int:
    """The replicas with which each has `average` of the total; the running number if that is within
    the tolerance."""
    if running and abs(total / (average * running) - 1.0) <= tolerance:
        return running
    return math.ceil(total / average - 1e-9)


class Look(msgspec.Struct, frozen=True):
    """What an autoscaler sees at a time (seconds)."""

    at: float
    specified: int
    """`spec.replicas` of the scaled object."""
    running: int
    """Its `status.replicas`."""
    metrics: Sequence[tuple[float, float]]
    """(total, average value) of each metric; the largest demand counts."""


def desired(
    policy: Autoscaler, look: Look, past: Sequence[Advice]
) -> tuple[int, tuple[Advice, ...]]:
    """(replicas to write, memory). 0 switches off an autoscaler that may not go to 0 itself."""
    specified = look.specified
    if specified == 0 and policy.least:
        return 0, tuple(past)
    if specified > policy.most:
        return policy.most, tuple(past)
    if specified < policy.least:
        return policy.least, tuple(past)
    advised = 0
    for total, average in look.metrics:
        advised = max(advised, by_metric(total, average, look.running, policy.tolerance))
    # stable: at least the least advice of one window, at most the most of the other
    up = min([advised, *_advice_since(past, look.at - policy.up)])
    down = max([advised, *_advice_since(past, look.at - policy.down)])
    at_once = max(2 * specified, specified + 4)
    window = max(policy.up, policy.down)
    remembered = (one for one in past if one.at > look.at - window)
    memory = (*remembered, Advice(look.at, advised))
    return max(policy.least, min(max(specified, up), down, at_once, policy.most)), memory


def _advice_since(past: Sequence[Advice], moment: float) -> list[int]:
    return [advice.replicas for advice in past if advice.at > moment]
