"""Services, nodes and foreign training: manifests, in which every pod fills a node."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from scaler.kube.api import NAMESPACES, PODS, PRIORITY_CLASSES, Object
from scaler.names import BESIDE_LABEL, NAMESPACE_LABEL
from scaler.sim.stories.timeline import Timeline
from tests import jobs

KIND = "accelerator-type"
A, B = "module-910b-8", "module-a3-16"
GROUPS = {"p": "group0", "d": "group1"}
USUAL = {"group0": 1, "group1": 2}
"""As MindIE's deployer has it: decode is scheduled before prefill, whose service it may be."""


def _priority_class(name: str, value: int) -> Object:
    return jobs.manifest(PRIORITY_CLASSES, name, value=value)


PRIORITIES = [_priority_class(name, value) for name, value in USUAL.items()]
RULE = "rule"
"""The name of every rule, in a namespace of its own."""
FOREIGN = "training"
"""The namespace of pods of another tenant."""


class Service(msgspec.Struct, frozen=True):
    """`ladder` from the largest ratio down, as (prefill, decode); every instance of `pods` pods of eight NPUs each."""

    name: str
    ladder: tuple[tuple[int, int], ...] = ((2, 1), (1, 1))
    pods: int = 1
    kind: str = ""
    """Its node selector; "" = any node will do."""
    annotations: Mapping[str, str] = {}
    scheduler: str = "volcano"
    beside: bool = False
    """Ascend Operator makes its pods, and admission holds them."""
    jobs: tuple[int, int] | None = None
    """How many exist; None = as many as the largest ratio has."""
    priority: int = 0
    """Of the PriorityClass that all of its jobs name; 0 = one for each group, as usual."""

    @property
    def key(self) -> str:
        return f"{self.name}/{RULE}/{self.name}"

    @property
    def minimum(self) -> dict[str, int]:
        return dict(zip(GROUPS.values(), self.ladder[-1], strict=True))

    @property
    def worth(self) -> int:
        """What its jobs' PriorityClasses make it worth."""
        return self.priority or max(USUAL.values())

    def priority_class(self, group: str) -> str:
        return f"service-{self.priority}" if self.priority else group

    def manifests(self) -> list[Object]:
        prefills, decodes = self.jobs or self.ladder[0]
        rule = jobs.rule_config_map(self._rule(), RULE, self.name, **self.annotations)
        names = [*(f"p{n}" for n in range(prefills)), *(f"d{n}" for n in range(decodes))]
        labels = {NAMESPACE_LABEL: "enabled", BESIDE_LABEL: "true"} if self.beside else {}
        space = jobs.manifest(NAMESPACES, self.name, labels=labels)
        own = [_priority_class(self.priority_class(""), self.priority)] if self.priority else []
        return [space, *PRIORITIES, *own, rule, *(self._job(name) for name in names)]

    def _rule(self) -> str:
        return jobs.rule_document(
            *(dict(zip(GROUPS.values(), one, strict=True)) for one in self.ladder), pods=self.pods
        )

    def _job(self, name: str) -> Object:
        group, pod = GROUPS[name[0]], {"metadata": {"labels": {}}, "spec": pod_spec(self.kind, self.scheduler)}
        job = jobs.job(
            f"{self.name}-{name}", group, pods=self.pods, rule=RULE, namespace=self.name, job_id=self.name, pod=pod
        )
        job["spec"]["schedulerName"] = self.scheduler
        job["spec"]["runPolicy"] = {"schedulingPolicy": {"priorityClass": self.priority_class(group)}}
        return job


def pod_spec(kind: str, scheduler: str) -> Object:
    """One container that takes all eight NPUs of a node."""
    npus = {"huawei.com/Ascend910": "8"}
    container = {"name": "ascend", "image": "x", "resources": {"requests": npus, "limits": npus}}
    return {"schedulerName": scheduler, "nodeSelector": {KIND: kind} if kind else {}, "containers": [container]}


def training(count: int, first: int = 0) -> list[Object]:
    """Pods of another tenant, bound by the default scheduler."""
    return [
        jobs.manifest(PODS, f"train-{n}", FOREIGN, spec=pod_spec("", "default-scheduler"))
        for n in range(first, first + count)
    ]


def written(folder: Path, name: str, manifests: Sequence[Object]) -> Path:
    """A file for a scenario."""
    path = folder / f"{name}.json"
    path.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "metadata": {"name": name}, "items": list(manifests)})
    )
    return path


def nodes(count: int, kind: str = A, first: int = 0) -> dict[str, Any]:
    return {"name": "npu-{}", "count": count, "first": first, "labels": {KIND: kind}}


def chat_services(count: int, **more: Any) -> list[Service]:
    """`count` services of 2P1D down to 1P1D."""
    return [Service(f"chat-{number:02}", **more) for number in range(count)]


def serving(timeline: Timeline, when: float | None = None) -> set[str]:
    """The namespaces of services that run their smallest ratio or more."""
    at = timeline.end if when is None else when
    return {service.partition("/")[0] for service in timeline.samples if timeline.at_time(service, at).serves}
