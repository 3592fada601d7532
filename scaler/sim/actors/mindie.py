"""A stand-in for the scale-down of MindIE Controller: a surplus prefill instance exits non-zero.

Inside each service it watches for a decode instance whose pods find no node, or, beside Ascend
Operator, are not even made because its PodGroup finds no room. When that has lasted `patience`
seconds and more prefill instances run than the smallest ratio needs, the newest of them exits; the
fault actor then deletes its pods. Only a service whose controller pod runs does this, one instance
per `patience`. `say` is called with words, service and job. Must not: delete anything, or read more
of the rule than MindIE does (groups by position: prefill, then decode)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from scaler.clock import Clock
from scaler.decide.service.states import natural
from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, POD_GROUPS, PODS, KubeApi, Object
from scaler.kube.errors import KubeError
from scaler.names import GROUP_LABEL, RULE_KEY
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import exit_pod
from scaler.sim.actors.stand_in import RETRY, StandIn
from scaler.sim.stories.instances import service_of

Say = Callable[[str, str, str], None]
"""Words, service, job."""


class _Group(NamedTuple):
    """A group of the smallest ratio, with its number of instances."""

    name: str
    number: int


class MindIEController(StandIn):
    """Follows all services, as one MindIE Controller per service would. `beside`: Ascend Operator
    is there."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        *,
        patience: float = 60.0,
        beside: bool = False,
        say: Say | None = None,
    ) -> None:
        super().__init__(api, PODS, ASCEND_JOBS, CONFIG_MAPS, POD_GROUPS)
        self._clock = clock
        self._patience = patience
        self._beside = beside
        self._say = say
        self._short_since: dict[str, float] = {}

    async def _round(self) -> float | None:
        services: dict[str, list[Object]] = defaultdict(list)
        for job in self.mirror.all(ASCEND_JOBS):
            if service := service_of(job):
                services[service].append(job)
        short = {}
        for service, jobs in services.items():
            surplus = self._surplus(service, jobs)
            if surplus:
                short[service] = surplus
        now = self._clock.now()
        self._short_since = {service: self._short_since.get(service, now) for service in short}
        waits = [await self._release(service, surplus) for service, surplus in short.items()]
        return min(waits, default=None)

    async def _release(self, service: str, surplus: list[Object]) -> float:
        """The newest surplus instance exits when its time has come; returns seconds until the next
        look."""
        now = self._clock.now()
        remaining = self._short_since[service] + self._patience - now
        if remaining > 0:
            return remaining
        self._short_since[service] = now
        job = str(objects.controller(surplus[-1]).get("name", objects.name(surplus[-1])))
        if self._say:
            self._say("MindIE Controller ends it: a decode instance finds no node", service, job)
        try:
            await exit_pod(self.api, surplus[-1], now=now, code=1)
        except KubeError:
            return RETRY
        return self._patience

    def _surplus(self, service: str, jobs: list[Object]) -> list[Object]:
        """First pods of prefill instances that may exit, in natural order; empty when no decode
        instance waits."""
        waiting = self._waiting(jobs)
        if not waiting:
            return []
        namespace, rule, job_id = service.split("/")
        smallest = self._smallest(namespace, rule)
        if smallest is None or not self._controller_runs(namespace, job_id):
            return []
        prefill, decode = smallest
        decodes = self._first_pods_running(jobs, decode.name)
        if len(decodes) >= decode.number or not _of_group(waiting, decode.name):
            return []
        return self._first_pods_running(jobs, prefill.name)[prefill.number :]

    def _waiting(self, jobs: list[Object]) -> list[Object]:
        """Jobs with a pod without a node, or, beside Ascend Operator, with a PodGroup that finds no
        room."""
        owners = set()
        for group in self.mirror.all(POD_GROUPS) if self._beside else ():
            if objects.status(group).get("phase") == "Pending":
                owners.add(objects.owner_uid(group))
        for job in jobs:
            for pod in objects.staying(self.mirror.owned(PODS, job)):
                if not objects.node_of(pod) and not objects.gated(pod):
                    owners.add(objects.owner_uid(pod))
        return [job for job in jobs if objects.uid(job) in owners]

    def _controller_runs(self, namespace: str, job_id: str) -> bool:
        about = {"app": "mindie-ms-controller", "jobID": job_id}.items()
        for pod in self.mirror.all(PODS):
            ours = objects.namespace(pod) == namespace and about <= objects.labels_of(pod).items()
            if ours and objects.phase(pod) == "Running":
                return True
        return False

    def _first_pods_running(self, jobs: list[Object], group: str) -> list[Object]:
        """The first pod of each running instance of a group, in natural order."""
        first = []
        for job in _of_group(jobs, group):
            pods = self.mirror.owned(PODS, job)
            if _runs(pods):
                first.append(pods[0])
        return first

    def _smallest(self, namespace: str, name: str) -> tuple[_Group, _Group] | None:
        """Prefill and decode of the smallest ratio; None when the rule is unreadable."""
        rule = self.mirror.get(CONFIG_MAPS, namespace, name)
        try:
            document = json.loads(((rule or {}).get("data") or {})[RULE_KEY])
            groups = document["elastic_scaling_list"][-1]["group_list"]
            prefill, decode = groups
            return _group_of(prefill), _group_of(decode)
        except (KeyError, IndexError, TypeError, ValueError):
            return None


def _group_of(entry: Object) -> _Group:
    return _Group(str(entry["group_name"]), int(entry["group_num"]))


def _of_group(jobs: list[Object], group: str) -> list[Object]:
    members = [job for job in jobs if objects.scaling_labels(job).get(GROUP_LABEL) == group]
    return sorted(members, key=lambda job: natural(objects.name(job)))


def _runs(pods: list[Object]) -> bool:
    for pod in pods:
        if objects.phase(pod) != "Running" or objects.terminating(pod):
            return False
    return bool(pods)
