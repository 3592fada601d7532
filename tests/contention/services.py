"""Services, nodes and foreign training: manifests, in which every pod fills a node."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from scaler.kube.api import NAMESPACES, PODS, PRIORITY_CLASSES, Object
from scaler.sim.stories.timeline import Timeline
from tests import jobs
from tests.chaos.inventory import OPTED_IN

KIND = "accelerator-type"
A = "module-910b-8"
B = "module-a3-16"
GROUPS = {"p": "group0", "d": "group1"}
USUAL = {"group0": 1, "group1": 2}
"""As MindIE's deployer has it: decode is scheduled before prefill, whose service it may be."""
RULE = "rule"
"""The name of every rule, in a namespace of its own."""


class Service(msgspec.Struct, frozen=True):
    """`ladder` from the largest ratio down, as (prefill, decode); every instance of `pods` pods of
    eight NPUs each."""

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

    def manifests(self) -> list[Object]:
        priorities = USUAL | ({f"service-{self.priority}": self.priority} if self.priority else {})
        ratios = (dict(zip(GROUPS.values(), ratio, strict=True)) for ratio in self.ladder)
        document = jobs.rule_document(*ratios, pods=self.pods)
        numbers = zip(GROUPS, self.jobs or self.ladder[0], strict=True)
        return [
            jobs.manifest(NAMESPACES, self.name, labels=OPTED_IN if self.beside else {}),
            *(
                jobs.manifest(PRIORITY_CLASSES, name, value=value)
                for name, value in priorities.items()
            ),
            jobs.rule_config_map(document, RULE, self.name, **self.annotations),
            *(self._job(letter, n) for letter, number in numbers for n in range(number)),
        ]

    def _job(self, letter: str, number: int) -> Object:
        group = GROUPS[letter]
        pod = jobs.template(
            schedulerName=self.scheduler, nodeSelector={KIND: self.kind} if self.kind else {}
        )
        job = jobs.job(
            f"{self.name}-{letter}{number}",
            group,
            pods=self.pods,
            rule=RULE,
            namespace=self.name,
            job_id=self.name,
            pod=pod,
        )
        priority_class = f"service-{self.priority}" if self.priority else group
        job["spec"]["schedulerName"] = self.scheduler
        job["spec"]["runPolicy"] = {"schedulingPolicy": {"priorityClass": priority_class}}
        return job


def training(count: int, first: int = 0) -> list[Object]:
    """Pods of another tenant, bound by the default scheduler."""
    spec = jobs.template(schedulerName="default-scheduler")["spec"]
    return [
        jobs.manifest(PODS, f"train-{n}", "training", spec=spec)
        for n in range(first, first + count)
    ]


def written(folder: Path, name: str, manifests: Sequence[Object]) -> Path:
    """A file for a scenario."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)}))
    return path


def nodes(count: int, kind: str = A, first: int = 0) -> dict[str, Any]:
    return {"name": "npu-{}", "count": count, "first": first, "labels": {KIND: kind}}


def chat_services(count: int, **more: Any) -> list[Service]:
    """`count` services of 2P1D down to 1P1D."""
    return [Service(f"chat-{number:02}", **more) for number in range(count)]


def serving(timeline: Timeline, when: float | None = None) -> set[str]:
    """The namespaces of services that run their smallest ratio or more."""
    at = timeline.end if when is None else when
    return {
        service.partition("/")[0]
        for service in timeline.samples
        if timeline.at_time(service, at).serves
    }
