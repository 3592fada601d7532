"""A stand-in for Volcano's controller of Jobs: the PodGroup first, pods once it is Inqueue, and
policies for events of pods.

    pod changed -> event, with the version of the job that the pod carries
    event of the job's present version -> policy -> all pods and the PodGroup are deleted
    any other event -> sync: the PodGroup follows the spec, missing pods are made, others deleted

Modelled: the events PodEvicted, PodFailed, TaskCompleted and `*`, exit codes, the actions that
restart or end a job, tasks that depend on others. Not modelled: commands, plugins, JobFlows,
time-outs. What differs between the versions of Volcano is in `Version`. Must not: bind pods, look
at nodes, write PodGroup phases, or know of rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from enum import Enum

import msgspec

from scaler.kube.api import POD_GROUPS, PODS, KubeApi, Object, Resource
from scaler.sim.actors import making, objects
from scaler.sim.actors.stand_in import StandInController
from scaler.workloads.volcanojob import VOLCANO_JOBS

JOB_NAME = "volcano.sh/job-name"
JOB_VERSION = "volcano.sh/job-version"
TASK = "volcano.sh/task-spec"
INDEX = "volcano.sh/task-index"
QUEUE = "volcano.sh/queue-name"
OUT_OF_SYNC = "volcano.sh/controller-out-of-sync"
"""Annotation of a pod that the controller is to make anew, since 1.14."""
_ENDING = {
    "AbortJob": "Aborted",
    "TerminateJob": "Terminated",
    "CompleteJob": "Completed",
    **dict.fromkeys(("RestartJob", "RestartTask", "RestartPod"), "Restarting"),
}
"""Action that deletes pods -> the phase of the job afterwards."""
_FINAL = ("Aborted", "Terminated", "Completed", "Failed")
_OF_THE_GANG = ("minMember", "minTaskMember", "minResources", "priorityClassName")
"""The fields of a PodGroup that follow the spec of its job."""


class Version(Enum):
    """The versions of Volcano that differ in what they do with Jobs."""

    V1_12 = "1.12"
    """To 1.13.1: a pod is evicted when its deletion begins, and how its containers end after that
    is no event."""
    V1_16 = "1.16"
    """From 1.13.2 on a pod is evicted when it is gone, and the end of its containers before that is
    an event as well; from 1.14 on the annotation `OUT_OF_SYNC` is heeded; and a running job of
    which too many pods wait again is Pending."""


class PodEvent(msgspec.Struct, frozen=True):
    """An event of a pod: `kind` as in policies, `version` of the job as the pod carries it."""

    kind: str
    task: str
    pod: str
    version: int = 0
    exit_code: int = 0


class VolcanoJobs(StandInController):
    follows = (VOLCANO_JOBS, PODS, POD_GROUPS)

    def __init__(self, api: KubeApi, version: Version = Version.V1_12) -> None:
        super().__init__(api)
        self._since_1_14 = version is Version.V1_16
        self.mirror.on_change = self._note_event
        self._events: defaultdict[str, list[PodEvent]] = defaultdict(list)
        """By uid of the job, in the order in which they were seen."""

    async def reconcile(self) -> None:
        events = self._events
        self._events = defaultdict(list)
        for job in self.living(VOLCANO_JOBS):
            await self._keep_job(job, self.mirror.owned(PODS, job), events[objects.uid(job)])

    def _note_event(self, resource: Resource, before: Object | None, after: Object | None) -> None:
        pod = after or before
        if resource is not PODS or pod is None or JOB_NAME not in objects.labels_of(pod):
            return
        kind = self._event_of(before, after)
        if kind == "TaskCompleted" and not self._is_completed(pod):
            return
        if kind and not self._is_out_of_sync(pod):
            event = PodEvent(
                kind,
                _note(pod, TASK),
                objects.name(pod),
                _number(_note(pod, JOB_VERSION)),
                objects.last_exit_code(pod),
            )
            self._events[objects.owner_uid(pod)].append(event)

    def _is_completed(self, pod: Object) -> bool:
        """Whether as many pods of its task have succeeded as the task has replicas."""
        succeeded = 0
        for other in self.mirror.all(PODS):
            of_task = objects.owner_uid(other) == objects.owner_uid(pod)
            of_task = of_task and _note(other, TASK) == _note(pod, TASK)
            succeeded += of_task and objects.phase(other) == "Succeeded"
        for job in self.mirror.all(VOLCANO_JOBS):
            if objects.uid(job) == objects.owner_uid(pod):
                sizes = [_size(task) for task in tasks_of(job) if task["name"] == _note(pod, TASK)]
                return any(succeeded >= size for size in sizes)
        return False

    def _event_of(self, before: Object | None, after: Object | None) -> str:
        """The kind of the event; "" for a change that is none."""
        was_ending = before is not None and objects.terminating(before)
        if after is None:
            return "PodEvicted" if self._since_1_14 or not was_ending else ""
        if objects.terminating(after) and not self._since_1_14:
            return "" if was_ending else "PodEvicted"
        if before is None or objects.phase(before) == objects.phase(after):
            return ""
        return {"Failed": "PodFailed", "Succeeded": "TaskCompleted"}.get(objects.phase(after), "")

    def _is_out_of_sync(self, pod: Object) -> bool:
        return self._since_1_14 and OUT_OF_SYNC in objects.annotations_of(pod)

    async def _keep_job(self, job: Object, pods: list[Object], events: list[PodEvent]) -> None:
        phase = phase_of(job)
        ending = _first_ending(job, events)
        if phase in _FINAL:
            return
        if phase == "Restarting":
            if _retries(job) >= making.number(job, "maxRetry", 3):
                await self.status(VOLCANO_JOBS, job, {"state": {"phase": "Failed"}})
            elif _total(job) - _ending_pods(pods) >= least(job):
                await self.status(VOLCANO_JOBS, job, {"state": {"phase": "Pending"}})
        elif ending is not None:
            await self._kill(job, pods, ending)
        else:
            await self._sync(job, pods)

    async def _sync(self, job: Object, pods: list[Object]) -> None:
        group = self.mirror.get(POD_GROUPS, objects.namespace(job), group_name(job))
        body = _group_of_job(job)
        if group is None:
            await self.create(POD_GROUPS, body)
        else:
            changed = _changed(group, body)
            if changed:
                await self.patch(POD_GROUPS, group, {"spec": changed})
            if objects.status(group).get("phase") not in (None, "", "Pending"):
                await self.have(PODS, job, _pods(job, pods))
                for pod in objects.staying(pods):
                    if self._is_out_of_sync(pod) and _is_wanted(job, pod):
                        await self.delete(PODS, pod)
        await self.status(VOLCANO_JOBS, job, self._status(job, pods))

    async def _kill(self, job: Object, pods: list[Object], why: PodEvent) -> None:
        """Raises the version first, so that the deletions that follow are no events."""
        action = action_for(job, why)
        phase = _ENDING[action]
        after: Object = {"state": {"phase": phase}, "version": _version(job) + 1}
        if phase == "Restarting":
            after["retryCount"] = _retries(job) + 1
        await self.status(VOLCANO_JOBS, job, after)
        for pod in pods:
            hit = {
                "RestartTask": _note(pod, TASK) == why.task,
                "RestartPod": objects.name(pod) == why.pod,
            }
            kept = phase in _FINAL and objects.ended(pod)
            if hit.get(action, True) and not objects.terminating(pod) and not kept:
                await self.delete(PODS, pod)
        group = self.mirror.get(POD_GROUPS, objects.namespace(job), group_name(job))
        if action not in ("RestartTask", "RestartPod") and group is not None:
            await self.delete(POD_GROUPS, group)

    def _status(self, job: Object, pods: list[Object]) -> Object:
        living = objects.staying(pods)
        phases = Counter(objects.phase(pod) for pod in living)
        counts = {
            "pending": phases["Pending"],
            "running": phases["Running"],
            "succeeded": phases["Succeeded"],
            "failed": phases["Failed"],
        }
        ended = counts["succeeded"] + counts["failed"]
        total = _total(job)
        phase = phase_of(job)
        if counts["running"] + ended >= least(job):
            phase = "Running"
        elif self._since_1_14 and counts["pending"] > total - least(job):
            phase = "Pending"
        if total and ended == total:
            phase = "Completed" if counts["succeeded"] >= least(job) else "Failed"
        return {
            **counts,
            "terminating": len(pods) - len(living),
            "minAvailable": least(job),
            "version": _version(job),
            "state": {"phase": phase},
        }


def _first_ending(job: Object, events: list[PodEvent]) -> PodEvent | None:
    """The first event for which a policy has an action that deletes pods."""
    for event in events:
        if event.version < _version(job):
            continue  # of a pod that is older than the job: no policy heeds it
        if action_for(job, event) in _ENDING:
            return event
    return None


def phase_of(job: Object) -> str:
    return str((objects.status(job).get("state") or {}).get("phase") or "Pending")


def group_name(job: Object) -> str:
    return f"{objects.name(job)}-{objects.uid(job)}"


def tasks_of(job: Object) -> list[Object]:
    """Its tasks, each with a name."""
    named = []
    for index, task in enumerate(objects.spec(job).get("tasks") or []):
        named.append({**task, "name": task.get("name") or f"default{index}"})
    return named


def action_for(job: Object, event: PodEvent) -> str:
    """The action in the task's policies, else in the job's; SyncJob (create missing pods) if
    neither has one."""
    policies: list[Object] = []
    for task in tasks_of(job):
        if task["name"] == event.task:
            policies += task.get("policies") or []
    policies += objects.spec(job).get("policies") or []
    for policy in policies:
        events = {policy.get("event"), *(policy.get("events") or [])}
        by_code = event.exit_code != 0 and policy.get("exitCode") == event.exit_code
        if {event.kind, "*"} & events or by_code:
            return str(policy.get("action") or "SyncJob")
    return "SyncJob"


def least(job: Object) -> int:
    """How many pods must start together."""
    return making.number(job, "minAvailable", _total(job))


def _total(job: Object) -> int:
    """The pods of all tasks."""
    return sum(map(_size, tasks_of(job)))


def _size(task: Object) -> int:
    return int(task.get("replicas") or 0)


def _ending_pods(pods: list[Object]) -> int:
    return len(pods) - len(objects.staying(pods))


def _is_wanted(job: Object, pod: Object) -> bool:
    """Whether its task still has so many replicas."""
    for task in tasks_of(job):
        if task["name"] == _note(pod, TASK):
            return _number(objects.labels_of(pod).get(INDEX, "")) < _size(task)
    return False


def _version(job: Object) -> int:
    return int(objects.status(job).get("version") or 0)


def _retries(job: Object) -> int:
    return int(objects.status(job).get("retryCount") or 0)


def _number(text: str) -> int:
    """As Go reads it; 0 for what is no number."""
    return int(text) if text.removeprefix("-").isdecimal() else 0


def _note(pod: Object, key: str) -> str:
    return objects.annotations_of(pod).get(key, "")


def _changed(group: Object, body: Object) -> Object:
    """The fields of the gang that the spec of the job has changed."""
    changed = {}
    for name in _OF_THE_GANG:
        if objects.spec(group).get(name) != body["spec"].get(name):
            changed[name] = body["spec"].get(name)
    return changed


def _group_of_job(job: Object) -> Object:
    templates: list[Object] = []
    least_of_tasks = {}
    for task in tasks_of(job):
        templates += [task.get("template") or {}] * _size(task)
        least_of_tasks[task["name"]] = int(task.get("minAvailable", _size(task)))
    return making.pod_group(
        group_name(job),
        making.Owner(job, VOLCANO_JOBS),
        templates[: least(job)],
        labels=objects.labels_of(job),
        annotations=objects.annotations_of(job),
        minMember=least(job),
        minTaskMember=least_of_tasks,
        networkTopology=objects.spec(job).get("networkTopology") or None,
        queue=_queue(job),
        priorityClassName=objects.spec(job).get("priorityClassName") or None,
    )


def _queue(job: Object) -> str:
    return objects.spec(job).get("queue") or "default"


def _pods(job: Object, present: list[Object]) -> Iterator[Object]:
    """All pods that the job specifies, those of tasks that still wait for others left out."""
    begun = {_note(pod, TASK) for pod in present}
    for task in tasks_of(job):
        if task["name"] in begun or _may_begin(job, task, present):
            for index in range(_size(task)):
                yield _pod(job, task, index)


def _may_begin(job: Object, task: Object, present: list[Object]) -> bool:
    """Whether enough pods of the tasks on which it depends are ready: of all those tasks, or of
    any."""
    depends_on = task.get("dependsOn") or {}
    ready = Counter(_note(pod, TASK) for pod in present if making.ready(pod))
    enough = []
    for other in tasks_of(job):
        if other["name"] in (depends_on.get("name") or ()):
            enough.append(ready[other["name"]] >= (other.get("minAvailable") or _size(other)))
    return any(enough) if depends_on.get("iteration") == "any" else all(enough)


def _pod(job: Object, task: Object, index: int) -> Object:
    template = task.get("template") or {}
    name = f"{objects.name(job)}-{task['name']}"
    marks = {
        JOB_NAME: objects.name(job),
        TASK: task["name"],
        INDEX: str(index),
        QUEUE: _queue(job),
    }
    notes = {
        JOB_VERSION: str(_version(job)),
        "volcano.sh/job-retry-count": str(_retries(job)),
        "volcano.sh/template-uid": name,
        objects.GROUP_NAME: group_name(job),
    }
    scheduler = (template.get("spec") or {}).get("schedulerName") or objects.spec(job).get(
        "schedulerName"
    )
    return making.pod_of(
        template,
        f"{name}-{index}",
        making.Owner(job, VOLCANO_JOBS),
        labels={**marks, "volcano.sh/job-namespace": objects.namespace(job)},
        annotations={**marks, **notes},
        schedulerName=scheduler or "volcano",
    )
