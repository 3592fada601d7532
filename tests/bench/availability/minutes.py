"""The witness of a month: from the objects of the cluster alone, and from what truly happened to
nodes and chips, second by second.

    lost         service-minutes in which a service that could have served did not: how many
                 services could serve if all that runs were placed anew on the nodes that work and
                 that no training holds, less how many serve
    not serving  service-minutes of all services that are there and do not serve
    occupied     NPU-hours of bound pods of services that do not serve
    evictions    instances of which bound pods were deleted although nothing was wrong with them

A service is there when the jobs of its minimum exist and are not being deleted; it serves when
each group runs its minimum. An instance runs when all its pods run, on nodes and chips that work,
whether that has been noticed or not. Lost minutes are divided among the services that do not serve,
each with its cause. Must not: write, or decide."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

import msgspec

from scaler.decide.decision import Decision, Plan, State
from scaler.decide.memory import Memory, ServiceMemory
from scaler.decide.world import World
from scaler.kube.api import ASCEND_JOBS, PODS, EventType
from scaler.names import GROUP_LABEL
from scaler.sim.actors import objects
from scaler.sim.actors.devices import chip_name, given_chips
from scaler.sim.apiserver.store import Change
from tests.bench.availability.month import TRAINING, Month, Service, class_of
from tests.bench.availability.packing import Places, fits, most, places_of

NPU = "huawei.com/Ascend910"
SAME_EVICTION = 120.0
"""Seconds in which further pods of an instance that are deleted belong to the same eviction."""

FAULT = "fault not noticed, or its pods not gone yet"
START = "starts"
BINDS = "with the scheduler"
HELD_BY_OTHERS = "held"
SCALE_UPS = "scale-ups have the room"
SCATTERED = "what is free does not fit together"
EVICTION_PAUSE = "eviction_pause"
TRADE_AFTER = "trade_after"
VICTIMS_END = 10.0
"""Seconds after an eviction in which its victims end; who still waits then, waits for the next."""


class Pod(msgspec.Struct, frozen=True):
    node: str
    phase: str
    terminating: bool
    chips: int
    given: frozenset[str]
    """Names of its chips."""
    failed: bool


class Job(msgspec.Struct):
    service: str
    group: str
    size: int
    name: str
    deleting: bool = False
    pods: dict[str, Pod] = {}
    evicted_at: float = -SAME_EVICTION


class Numbers(msgspec.Struct):
    """What was measured; seconds until `hours` and `minutes` make something else of them."""

    lost: float = 0.0
    not_serving: float = 0.0
    there: float = 0.0
    occupied: float = 0.0
    serving_chips: float = 0.0
    training: float = 0.0
    """Chip-seconds that training held."""
    evictions: int = 0
    causes: dict[str, float] = {}
    """Cause -> seconds of `lost`."""
    longest: list[tuple[float, float, str, str]] = []
    """(seconds, end, service, cause) of outages with lost time."""


class _Look(msgspec.Struct, frozen=True):
    """One service as it is."""

    there: bool = False
    serves: bool = False
    chips: int = 0


class Witness:
    def __init__(
        self, month: Month, start: float, reasons: Callable[[str, float], Mapping[str, str]]
    ) -> None:
        """`reasons`: job -> reason of what does not run, of a service at a time, by the last
        decision."""
        self.numbers = Numbers()
        self._services = {service.name: service for service in month.services}
        self._nodes = {node.name: node for node in month.nodes}
        self._start = start
        self._at = start
        self._reasons = reasons
        self._jobs: dict[str, Job] = {}
        self._jobs_of: dict[str, dict[str, Job]] = defaultdict(dict)
        self._foreign: dict[str, tuple[str, int]] = {}
        self._silent: set[str] = set()
        self._faulty: dict[str, set[str]] = defaultdict(set)
        self._looks = {name: _Look() for name in self._services}
        self._dirty: set[str] = set()
        self._is_room_other = True
        self._possible = 0
        self._version = 0
        """Grows when pods take or leave nodes, or nodes and chips change."""
        self._known_why: dict[str, tuple[int, str]] = {}
        self._out: dict[str, float] = {}
        """Service -> lost seconds of its present outage."""
        self._out_causes: dict[str, dict[str, float]] = defaultdict(dict)

    # what happens

    def node_silent(self, name: str, now: float) -> None:
        self._until(now)
        self._silent.add(name)
        self._all_other()

    def node_back(self, name: str, now: float) -> None:
        self._until(now)
        self._silent.discard(name)
        self._all_other()

    def chip(self, node: str, number: int, now: float, *, healthy: bool) -> None:
        self._until(now)
        name = chip_name(NPU, number)
        if healthy:
            self._faulty[node].discard(name)
        else:
            self._faulty[node].add(name)
        self._all_other()

    def _all_other(self) -> None:
        self._version += 1
        self._dirty.update(self._services)
        self._is_room_other = True

    def saw(self, change: Change) -> None:
        """A commit of the simulated API server."""
        if change.resource not in (PODS, ASCEND_JOBS):
            return
        now = change.moment
        obj = change.after.object
        gone = change.type is EventType.DELETED
        name = objects.name(obj)
        if change.resource == ASCEND_JOBS:
            service = objects.namespace(obj)
            if gone or objects.terminating(obj):
                self.job_leaves(objects.uid(obj), now)
            else:
                sizes = [int(part["replicas"]) for part in obj["spec"]["replicaSpecs"].values()]
                group = objects.labels_of(obj)[GROUP_LABEL]
                self.job(objects.uid(obj), Job(service, group, sum(sizes), name), now)
        elif objects.namespace(obj) == TRAINING:
            bound = objects.node_of(obj) and not gone and not objects.ended(obj)
            where = (objects.node_of(obj), int(objects.requests(obj)[NPU])) if bound else None
            self.training(name, where, now)
        else:
            pod = Pod(
                objects.node_of(obj),
                objects.phase(obj),
                objects.terminating(obj),
                int(objects.requests(obj)[NPU]),
                given_chips(obj),
                objects.ended(obj) or objects.last_exit_code(obj) != 0,
            )
            self.pod(objects.owner_uid(obj), name, pod, now, gone=gone)

    def job(self, uid: str, job: Job, now: float) -> None:
        """It exists."""
        if uid not in self._jobs:
            self._until(now)
            self._jobs[uid] = job
            self._jobs_of[job.service][uid] = job
            self._dirty.add(job.service)

    def job_leaves(self, uid: str, now: float) -> None:
        """It is deleted; its pods may still be there."""
        job = self._jobs.get(uid)
        if job is None:
            return
        self._until(now)
        self._dirty.add(job.service)
        job.deleting = True
        self._version += 1
        if not job.pods:
            self._forget(uid, job)

    def _forget(self, uid: str, job: Job) -> None:
        self._jobs.pop(uid, None)
        self._jobs_of[job.service].pop(uid, None)

    def training(self, name: str, where: tuple[str, int] | None, now: float) -> None:
        """A pod of training has so many chips of this node, or none any more."""
        if self._foreign.get(name) == where:
            return
        self._until(now)
        self._version += 1
        self._foreign.pop(name, None)
        if where is not None:
            self._foreign[name] = where
        self._is_room_other = True

    def pod(self, uid: str, name: str, pod: Pod, now: float, *, gone: bool = False) -> None:
        """A pod of the job with this uid is as `pod` says, or is gone and was so at last."""
        job = self._jobs.get(uid)
        if job is None:
            return
        self._until(now)
        self._dirty.add(job.service)
        before = job.pods.get(name)
        if gone or before is None or (before.node, before.failed) != (pod.node, pod.failed):
            self._version += 1
        ends = gone or pod.terminating
        if before is not None and ends and not before.terminating and before.node:
            self._count_eviction(job)
        if not gone:
            job.pods[name] = pod
            return
        job.pods.pop(name, None)
        if job.deleting and not job.pods:
            self._forget(uid, job)

    def _count_eviction(self, job: Job) -> None:
        """A bound pod of it is deleted now."""
        hurt = [one for one in job.pods.values() if one.failed or self._is_hurt(one)]
        if job.deleting or hurt or self._at - job.evicted_at < SAME_EVICTION:
            return
        job.evicted_at = self._at
        self.numbers.evictions += 1

    def _is_hurt(self, pod: Pod) -> bool:
        return pod.node in self._silent or bool(pod.given & self._faulty[pod.node])

    @property
    def serving(self) -> int:
        """How many services serve, at the end."""
        return sum(look.serves for look in self._looks.values())

    # the time between

    def end(self, now: float) -> Numbers:
        self._until(now)
        for service in list(self._out):
            self._over(service)
        self.numbers.longest.sort(reverse=True)
        return self.numbers

    def catch_up(self, now: float) -> None:
        """A decision follows: the time before it belongs to what the last one said."""
        self._until(now)

    def _until(self, now: float) -> None:
        """All is as it was until now."""
        if now <= self._at:
            return
        lasted = now - self._at
        self._look_again()
        numbers = self.numbers
        short = [name for name, look in self._looks.items() if look.there and not look.serves]
        serving = sum(look.serves for look in self._looks.values())
        numbers.there += lasted * sum(look.there for look in self._looks.values())
        numbers.not_serving += lasted * len(short)
        for look in self._looks.values():
            if look.serves:
                numbers.serving_chips += lasted * look.chips
            else:
                numbers.occupied += lasted * look.chips
        numbers.training += lasted * sum(chips for _, chips in self._foreign.values())
        lost = max(0, self._possible - serving)
        if lost and short:
            numbers.lost += lasted * min(lost, len(short))
            share = lasted * min(1.0, lost / len(short))
            for name in short:
                why = self._cause(self._services[name], now)
                numbers.causes[why] = numbers.causes.get(why, 0.0) + share
                self._out[name] = self._out.get(name, 0.0) + share
                causes = self._out_causes[name]
                causes[why] = causes.get(why, 0.0) + share
        self._at = now
        for name in [name for name in self._out if name not in short]:
            self._over(name)

    def _over(self, service: str) -> None:
        causes = self._out_causes.pop(service)
        why = max(causes, key=lambda one: causes[one])
        self.numbers.longest.append((self._out.pop(service), self._at - self._start, service, why))

    def _look_again(self) -> None:
        for name in self._dirty:
            if name in self._services:
                look = self._look_at(self._services[name])
                self._is_room_other |= look.there != self._looks[name].there
                self._looks[name] = look
        self._dirty.clear()
        if self._is_room_other:
            needs = [self._services[name].need for name, look in self._looks.items() if look.there]
            self._possible = len(most(self._places(), needs))
            self._is_room_other = False

    def _look_at(self, service: Service) -> _Look:
        exist = Counter[str]()
        running = Counter[str]()
        chips = 0
        for job in self._jobs_of[service.name].values():
            exist[job.group] += not job.deleting
            running[job.group] += self._runs(job)
            for pod in job.pods.values():
                if pod.node and pod.phase not in ("Failed", "Succeeded"):
                    chips += pod.chips
        minimum = service.minimum
        there = all(exist[group] >= number for group, number in minimum.items())
        runs = all(running[group] >= number for group, number in minimum.items())
        return _Look(there, there and runs, chips)

    def _runs(self, job: Job) -> bool:
        if job.deleting or len(job.pods) != job.size:
            return False
        for pod in job.pods.values():
            if pod.phase != "Running" or pod.terminating or pod.failed or self._is_hurt(pod):
                return False
        return True

    def _places(self, taken: Mapping[str, int] | None = None) -> Places:
        """The room of the nodes that work, but for that of training; `taken`: chips that are taken
        besides, by node."""
        used = Counter[str](taken or {})
        for node, chips in self._foreign.values():
            used[node] += chips
        free = []
        for name, spec in self._nodes.items():
            if name not in self._silent:
                left = spec.npu - len(self._faulty[name]) - used[name]
                free.append((class_of(spec), left))
        return places_of(free)

    # why

    def _cause(self, service: Service, now: float) -> str:
        bound = Counter[str]()
        released = Counter[str]()
        hurt = Counter[str]()
        for job in self._jobs_of[service.name].values():
            pods = job.pods.values()
            if job.deleting or not pods:
                continue
            if any(pod.failed or pod.terminating or self._is_hurt(pod) for pod in pods):
                hurt[job.group] += 1
            elif len(pods) == job.size and all(pod.node for pod in pods):
                bound[job.group] += 1
            else:
                released[job.group] += 1
        missing = {group: number - bound[group] for group, number in service.minimum.items()}
        if all(number <= 0 for number in missing.values()):
            return START
        if all(number <= released[group] for group, number in missing.items()):
            return BINDS
        if all(number <= released[group] + hurt[group] for group, number in missing.items()):
            return FAULT
        return self._reason(service, missing, now)

    def _reason(self, service: Service, missing: Mapping[str, int], now: float) -> str:
        said = self._reasons(service.key, now)
        found = []
        for job in self._jobs_of[service.name].values():
            if missing.get(job.group, 0) > 0 and job.name in said:
                found.append(said[job.name])
        reason = min(found, key=_weight, default=HELD_BY_OTHERS)
        if reason in ("MinimumDoesNotFit", HELD_BY_OTHERS):
            return f"{reason}: {self._shortage_of(service)}"
        return reason

    def _shortage_of(self, service: Service) -> str:
        version, why = self._known_why.get(service.name, (-1, ""))
        if version != self._version:
            why = self._found_why(service)
            self._known_why[service.name] = (self._version, why)
        return why

    def _found_why(self, service: Service) -> str:
        need = service.need
        for others, why in ((None, "it fits"), (False, SCALE_UPS)):
            if fits(self._places(self._held_by_others(service, beyond=others)), need):
                return why
        return SCATTERED

    def _held_by_others(self, service: Service, *, beyond: bool | None) -> Counter[str]:
        """Chips by node that other services hold; with `beyond` False, those of scale-ups are
        left out."""
        taken = Counter[str]()
        for name, jobs in self._jobs_of.items():
            if name == service.name:
                continue
            left = Counter(self._services[name].minimum)
            for job in sorted(jobs.values(), key=lambda one: one.name):
                bound = [
                    pod
                    for pod in job.pods.values()
                    if pod.node and pod.phase not in ("Failed", "Succeeded")
                ]
                if bound and beyond is False and left[job.group] <= 0:
                    continue
                left[job.group] -= bool(bound)
                for pod in bound:
                    taken[pod.node] += pod.chips
        return taken


def _weight(reason: str) -> tuple[int, str]:
    """Sort key: what keeps the minimum from starting first."""
    said = (
        EVICTION_PAUSE,
        TRADE_AFTER,
        "Minimum",
        "WaitingForRoom",
        "Broken",
        "WaitingForScheduler",
    )
    for number, words in enumerate(said):
        if reason.startswith(words):
            return number, reason
    return len(said), reason


class Reasons:
    """What the last decision says of each service: the observer of the controller."""

    def __init__(self, *, heard: bool = True) -> None:
        """Not `heard`: what is said means nothing, since somebody else decides."""
        self._heard = heard
        self._said: dict[str, dict[str, str]] = {}
        self._plans: dict[str, Plan] = {}
        self._memory = Memory()
        self.passes = 0

    def __call__(self, _world: World, decision: Decision) -> None:
        self.passes += 1
        self._memory = decision.memory
        for plan in decision.plans if self._heard else ():
            key = str(plan.key)
            if self._plans.get(key) is plan:
                continue
            self._plans[key] = plan
            said = {}
            for verdict in plan.verdicts:
                if verdict.state is not State.RUNNING:
                    said[verdict.name] = str(verdict.reason)
            self._said[key] = said

    def of(self, service: str, now: float) -> Mapping[str, str]:
        """Job -> reason; what a minimum without room waits for, where that is a time limit."""
        said = self._said.get(service, {})
        pause = self._pause(service, now)
        if not pause:
            return said
        return {
            job: pause if reason in ("WaitingForRoom", "MinimumDoesNotFit") else reason
            for job, reason in said.items()
        }

    def _pause(self, service: str, now: float) -> str:
        """The time limit that runs; "" without one."""
        memory = self._memory.services.get(service, ServiceMemory())
        if memory.trade_since:
            return TRADE_AFTER
        made = memory.evictions
        return EVICTION_PAUSE if made.number and now - made.at > VICTIMS_END else ""
