"""What happens in the month, the same for everybody who is measured: services that come, are rolled
out and go, training beside them, faults and repairs. One seed gives one month."""

from __future__ import annotations

import random
from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec

from scaler.kube.api import POD_GROUPS, PODS, PRIORITY_CLASSES, Object
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import NodeSpec
from tests import jobs
from tests.bench.availability import study
from tests.bench.availability.packing import ANY, Need, need_of

KIND = "accelerator-type"
A2 = "module-910b-8"
A3 = "module-a3-16"
CHIPS = {A2: 8, A3: 16}
GROUPS = ("group0", "group1")
RULE = "rule"
TRAINING = "training"
"""The namespace of the foreign load."""
GOLD = 9
USUAL = 5

SERVICE_LIVES = 20 * study.DAY
SERVICE_AWAY = 6 * study.HOUR
ROLLOUT_EVERY = 7 * study.DAY
"""Mean seconds: from the arrival of a service until it goes, until it comes back, and between two
rollouts."""
REAPPLIED_AFTER = 5.0
"""Seconds from the deletion of a job in a rollout until it is applied again."""
NEXT_JOB_AFTER = 180.0
"""Seconds from one job of a rollout to the next."""
TRAINING_LASTS = 6 * study.HOUR
"""Mean seconds."""
ARRIVE_WITHIN = 600.0


class Make(msgspec.Struct, frozen=True):
    """What services of one make are like. `ladder`: (prefill, decode), the largest first. Each
    instance has so many pods of so many chips, on nodes of one class or of any."""

    name: str
    ladder: tuple[tuple[int, int], ...]
    pods: int
    chips: int
    kind: str
    priority: int = USUAL


MAKES = (
    Make("chat", ((2, 1), (1, 1)), 1, 8, A2, GOLD),
    Make("chat", ((2, 1), (1, 1)), 1, 8, A2),
    Make("half", ((3, 1), (2, 1), (1, 1)), 1, 4, A2),
    Make("wide", ((2, 1), (1, 1)), 2, 8, A2),
    Make("half", ((3, 1), (2, 1), (1, 1)), 1, 4, A2),
    Make("moe", ((3, 1), (2, 1), (1, 1)), 1, 16, A3),
    Make("chat", ((2, 1), (1, 1)), 1, 8, A2),
    Make("half", ((3, 1), (2, 1), (1, 1)), 1, 4, A2, GOLD),
    Make("large", ((1, 1),), 2, 8, A2),
    Make("tiny", ((4, 2), (2, 1), (1, 1)), 1, 2, ANY),
)
"""Of ten services: the minimums take 17 and a half of 25 nodes of class A2 and 2 of 5 of class A3,
the largest ratios 26 and a half and 4. Training has up to 5 nodes of class A2."""


class Service(msgspec.Struct, frozen=True):
    name: str
    make: Make

    @property
    def key(self) -> str:
        return f"{self.name}/{RULE}/{self.name}"

    @property
    def minimum(self) -> dict[str, int]:
        return dict(zip(GROUPS, self.make.ladder[-1], strict=True))

    @property
    def need(self) -> Need:
        """The pods of its minimum."""
        number = sum(self.make.ladder[-1]) * self.make.pods
        return need_of([(self.make.kind, self.make.chips)] * number)

    def job_names(self) -> list[str]:
        names = []
        for letter, number in zip("pd", self.make.ladder[0], strict=True):
            names += [f"{self.name}-{letter}{index}" for index in range(number)]
        return names

    def rule(self) -> Object:
        ratios = [dict(zip(GROUPS, ratio, strict=True)) for ratio in self.make.ladder]
        document = jobs.rule_document(*ratios, pods=self.make.pods)
        return jobs.rule_config_map(document, RULE, self.name)

    def job(self, name: str) -> Object:
        make = self.make
        selector = {KIND: make.kind} if make.kind else {}
        pod = jobs.template(npus=make.chips, schedulerName="volcano", nodeSelector=selector)
        group = GROUPS["pd".index(name.rpartition("-")[2][0])]
        job = jobs.job(
            name, group, pods=make.pods, rule=RULE, namespace=self.name, job_id=self.name, pod=pod
        )
        for replicas in job["spec"]["replicaSpecs"].values():
            replicas["restartPolicy"] = "Never"
        policy = {"priorityClass": f"worth-{make.priority}", "minAvailable": make.pods}
        job["spec"]["runPolicy"] = {"schedulingPolicy": policy}
        return job


class What(Enum):
    """What happens."""

    APPLY = "apply"
    DELETE_JOB = "delete job"
    NODE_SILENT = "node silent"
    NODE_NOT_READY = "node not ready"
    NODE_BACK = "node back"
    CHIP_FAULTY = "chip faulty"
    CHIP_HEALED = "chip healed"
    EXIT = "exit"
    TRAINING_BEGINS = "training begins"
    TRAINING_ENDS = "training ends"


class Happening(msgspec.Struct, frozen=True):
    """`at` is seconds from the start; `name` is that of a node, a job or a training job."""

    at: float
    what: What
    name: str
    things: tuple[Object, ...] = ()
    number: int = 0
    """Of the chip, or of nodes for training."""


class Month(msgspec.Struct, frozen=True):
    """Everything that is decided by the seed."""

    nodes: tuple[NodeSpec, ...]
    services: tuple[Service, ...]
    happenings: tuple[Happening, ...]
    seconds: float


def class_of(node: NodeSpec) -> str:
    return node.labels[KIND]


def month(size: int, days: float, seed: int, *, faults: float = 1.0) -> Month:
    """`size` services on three times as many nodes, for so many days. `faults`: times as many as
    in the study."""
    nodes = _nodes(3 * size)
    services = tuple(
        Service(f"{MAKES[number % 10].name}-{number:02}", MAKES[number % 10])
        for number in range(size)
    )
    seconds = days * study.DAY
    make = _Maker(seed, seconds)
    happenings = [*make.training(5 * size // 10)]
    for service in services:
        happenings += make.life(service)
    for node in nodes:
        happenings += make.faults(node, faults)
    for service in services:
        happenings += make.exits(service, faults)
    in_time = [one for one in happenings if one.at < seconds]
    return Month(
        nodes, services, tuple(sorted(in_time, key=lambda one: (one.at, one.name))), seconds
    )


def _nodes(count: int) -> tuple[NodeSpec, ...]:
    made = []
    for number in range(count):
        kind = A3 if number % 6 == 5 else A2
        labels = {"accelerator": "huawei-Ascend910", KIND: kind}
        made.append(NodeSpec(f"npu-{number:03}", npu=CHIPS[kind], labels=labels))
    return tuple(made)


def priority_classes() -> list[Object]:
    return [
        jobs.manifest(PRIORITY_CLASSES, f"worth-{value}", value=value) for value in (GOLD, USUAL)
    ]


class _Maker:
    """Draws for each purpose come from dice of their own, so that more draws for one change nothing
    of the others."""

    def __init__(self, seed: int, seconds: float) -> None:
        self._seed = seed
        self._seconds = seconds

    def _dice(self, what: str) -> random.Random:
        return random.Random(f"{what}-{self._seed}")

    def _times(
        self, rate: float, dice: random.Random, start: float = 0.0, end: float = 0.0
    ) -> Iterator[float]:
        """Moments of a Poisson process of so many a second."""
        at = start
        while rate > 0:
            at += dice.expovariate(rate)
            if at >= (end or self._seconds):
                return
            yield at

    def life(self, service: Service) -> Iterator[Happening]:
        """It comes, is rolled out now and then, goes, and comes again."""
        dice = self._dice(f"life of {service.name}")
        begins = dice.uniform(1.0, ARRIVE_WITHIN)
        while begins < self._seconds:
            things = [service.rule(), *map(service.job, service.job_names())]
            yield Happening(begins, What.APPLY, service.name, tuple(things))
            ends = begins + dice.expovariate(1 / SERVICE_LIVES)
            for at in self._times(1 / ROLLOUT_EVERY, dice, begins, min(ends, self._seconds)):
                yield from self._rollout(service, at, ends)
            for name in service.job_names():
                yield Happening(ends, What.DELETE_JOB, name)
            begins = ends + dice.expovariate(1 / SERVICE_AWAY) + 120.0

    def _rollout(self, service: Service, at: float, before: float) -> Iterator[Happening]:
        """One job after the other is deleted and applied again."""
        for name in service.job_names():
            if at + REAPPLIED_AFTER >= before:
                return
            yield Happening(at, What.DELETE_JOB, name)
            yield Happening(at + REAPPLIED_AFTER, What.APPLY, name, (service.job(name),))
            at += NEXT_JOB_AFTER

    def faults(self, node: NodeSpec, times: float) -> Iterator[Happening]:
        dice = self._dice(f"faults of {node.name}")
        healthy_from = 0.0
        for at in self._times(times * study.NODE_RATE / study.DAY, dice):
            if at < healthy_from:
                continue
            noticed = at + study.NOT_READY_AFTER
            healthy_from = noticed + dice.expovariate(1 / study.NODE_REPAIR)
            yield Happening(at, What.NODE_SILENT, node.name)
            yield Happening(noticed, What.NODE_NOT_READY, node.name)
            yield Happening(healthy_from, What.NODE_BACK, node.name)
        for chip in range(node.npu):
            healthy_from = 0.0
            for at in self._times(times * study.CHIP_RATE / study.DAY, dice):
                if at < healthy_from:
                    continue
                healthy_from = at + dice.expovariate(1 / study.CHIP_REPAIR)
                yield Happening(at, What.CHIP_FAULTY, node.name, number=chip)
                yield Happening(healthy_from, What.CHIP_HEALED, node.name, number=chip)

    def exits(self, service: Service, times: float) -> Iterator[Happening]:
        dice = self._dice(f"exits of {service.name}")
        for name in service.job_names():
            rate = times * study.EXIT_RATE / study.DAY * service.make.chips * service.make.pods
            for at in self._times(rate, dice):
                yield Happening(at, What.EXIT, name)

    def training(self, quota: int) -> Iterator[Happening]:
        """Jobs of whole nodes of class A2; together never more than `quota` nodes, as a queue of
        Volcano would have it. Work comes for two thirds of that in the mean."""
        dice = self._dice("training")
        largest = max(1, min(8, quota))
        sizes = [size for size in (1, 2, 4, 8) if size <= largest]
        mean = sum(sizes) / len(sizes)
        rate = 0.8 * quota / (mean * TRAINING_LASTS)
        under_way: list[tuple[float, int]] = []
        for number, at in enumerate(self._times(rate, dice)):
            size = dice.choice(sizes)
            lasts = dice.expovariate(1 / TRAINING_LASTS) + 60.0
            under_way = [(end, nodes) for end, nodes in under_way if end > at]
            if sum(nodes for _, nodes in under_way) + size > quota:
                continue
            under_way.append((at + lasts, size))
            name = f"train-{number}"
            yield Happening(at, What.TRAINING_BEGINS, name, tuple(_training(name, size)), size)
            yield Happening(at + lasts, What.TRAINING_ENDS, name, number=size)


def _training(name: str, size: int) -> Iterator[Object]:
    spec: dict[str, Any] = {
        "minMember": size,
        "minResources": {"huawei.com/Ascend910": str(8 * size)},
    }
    yield jobs.manifest(POD_GROUPS, name, TRAINING, spec=spec)
    pod = jobs.template(npus=8, schedulerName="volcano", nodeSelector={KIND: A2})["spec"]
    notes = {objects.GROUP_NAME: name}
    for index in range(size):
        yield jobs.manifest(PODS, f"{name}-{index}", TRAINING, annotations=notes, spec=pod)
