"""Stand-ins for Volcano's controllers of Jobs and of PodGroups.

Jobs: the PodGroup first, pods once it is Inqueue, and policies for events of pods. Modelled
policies: the events PodEvicted, PodFailed and `*` with the actions RestartJob, RestartTask,
RestartPod, AbortJob and TerminateJob; and tasks that depend on others. Not modelled: commands,
plugins, JobFlows, time-outs and exit codes. PodGroups: pods that name none get one per owner, and
the annotation. So all pods of a ReplicaSet, a StatefulSet or a RoleSet share one, with minMember 1
unless the owner says otherwise; that of a ReplicaSet or StatefulSet is written again with each new
pod, as since Volcano 1.12.2. Must not: bind pods, look at nodes, write PodGroup phases, or know of
rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import msgspec

from scaler.kube.api import POD_GROUPS, PODS, REPLICA_SETS, STATEFUL_SETS, KubeApi, Object, Resource
from scaler.sim.actors import making, objects
from scaler.sim.actors.stand_in import StandInController
from scaler.workloads.volcanojob import VOLCANO_JOBS

JOB_NAME = "volcano.sh/job-name"
JOB_VERSION = "volcano.sh/job-version"
TASK = "volcano.sh/task-spec"
QUEUE = "volcano.sh/queue-name"
_ENDING = {
    "AbortJob": "Aborted",
    "TerminateJob": "Terminated",
    "CompleteJob": "Completed",
    **dict.fromkeys(("RestartJob", "RestartTask", "RestartPod"), "Restarting"),
}
"""Action that deletes pods -> the phase of the job afterwards."""


class PodEvent(msgspec.Struct, frozen=True):
    """An event of a pod: `kind` as in policies."""

    kind: str
    task: str
    pod: str


class VolcanoJobs(StandInController):
    follows = (VOLCANO_JOBS, PODS, POD_GROUPS)

    def __init__(self, api: KubeApi) -> None:
        super().__init__(api)
        self._alive: dict[str, Object] = {}
        """Pod uid -> the pod as it was last seen alive."""

    async def reconcile(self) -> None:
        events = self._events()
        for job in self.living(VOLCANO_JOBS):
            await self._keep_job(job, self.mirror.owned(PODS, job), events[objects.uid(job)])

    def _events(self) -> defaultdict[str, list[PodEvent]]:
        """By job, the events of pods of its present version since the last round."""
        present = {}
        for pod in self.mirror.all(PODS):
            of_job = objects.owner_kind(pod) == VOLCANO_JOBS.kind
            if of_job and JOB_NAME in objects.labels_of(pod):
                present[objects.uid(pod)] = pod
        versions = {objects.uid(job): _version(job) for job in self.mirror.all(VOLCANO_JOBS)}
        events = defaultdict[str, list[PodEvent]](list)
        for uid, before in self._alive.items():
            now = present.get(uid)
            owner = objects.owner_uid(before)
            failed = now is not None and objects.phase(now) == "Failed"
            gone = now is None or objects.terminating(now)
            if (failed or gone) and _note(before, JOB_VERSION) == versions.get(owner, ""):
                kind = "PodFailed" if failed else "PodEvicted"
                events[owner].append(PodEvent(kind, _note(before, TASK), objects.name(before)))
        self._alive = {uid: pod for uid, pod in present.items() if making.active(pod)}
        return events

    async def _keep_job(self, job: Object, pods: list[Object], events: list[PodEvent]) -> None:
        phase = phase_of(job)
        ending = _first_ending(job, events)
        if phase in ("Aborted", "Terminated", "Completed", "Failed"):
            return
        if phase == "Restarting":
            # pods of earlier versions have to be gone before the job restarts
            if int(objects.status(job).get("retryCount") or 0) >= making.number(job, "maxRetry", 3):
                await self.status(VOLCANO_JOBS, job, {"state": {"phase": "Failed"}})
            elif not any(objects.terminating(pod) for pod in pods):
                await self.status(VOLCANO_JOBS, job, {"state": {"phase": "Pending"}})
        elif ending is not None:
            await self._kill(job, pods, ending)
        else:
            group = self.mirror.get(POD_GROUPS, objects.namespace(job), group_name(job))
            if group is None:
                await self.create(POD_GROUPS, _group_of_job(job))
            elif objects.status(group).get("phase") not in (None, "", "Pending"):
                await self.have(PODS, job, _pods(job, pods))
            await self.status(VOLCANO_JOBS, job, _status(job, pods))

    async def _kill(self, job: Object, pods: list[Object], why: PodEvent) -> None:
        """Raises the version first, so that the deletions that follow are no events."""
        action = action_for(job, why)
        after: Object = {"state": {"phase": _ENDING[action]}, "version": int(_version(job)) + 1}
        if _ENDING[action] == "Restarting":
            after["retryCount"] = int(objects.status(job).get("retryCount") or 0) + 1
        await self.status(VOLCANO_JOBS, job, after)
        for pod in pods:
            hit = {
                "RestartTask": _note(pod, TASK) == why.task,
                "RestartPod": objects.name(pod) == why.pod,
            }
            if hit.get(action, True) and not objects.terminating(pod):
                await self.delete(PODS, pod)


def _first_ending(job: Object, events: list[PodEvent]) -> PodEvent | None:
    """The first event for which a policy has an action that deletes pods."""
    for event in events:
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
        if {event.kind, "*"} & {policy.get("event"), *(policy.get("events") or [])}:
            return str(policy.get("action") or "SyncJob")
    return "SyncJob"


def least(job: Object) -> int:
    """How many pods must start together."""
    return making.number(job, "minAvailable", _total(job))


def _total(job: Object) -> int:
    """The pods of all tasks."""
    return sum(map(_size, tasks_of(job)))


def _size(task: Object) -> int:
    return int(task.get("replicas", 1))


def _version(job: Object) -> str:
    return str(objects.status(job).get("version") or 0)


def _note(pod: Object, key: str) -> str:
    return objects.annotations_of(pod).get(key, "")


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
    status = objects.status(job)
    name = f"{objects.name(job)}-{task['name']}"
    marks = {
        JOB_NAME: objects.name(job),
        TASK: task["name"],
        "volcano.sh/task-index": str(index),
        QUEUE: _queue(job),
    }
    notes = {
        JOB_VERSION: _version(job),
        "volcano.sh/job-retry-count": str(status.get("retryCount") or 0),
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


def _status(job: Object, pods: list[Object]) -> Object:
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
    phase = "Running" if counts["running"] + ended >= least(job) else phase_of(job)
    if total and ended == total:
        phase = "Completed" if counts["succeeded"] >= least(job) else "Failed"
    return {
        **counts,
        "terminating": len(pods) - len(living),
        "minAvailable": least(job),
        "version": int(_version(job)),
        "state": {"phase": phase},
    }


_WITH_REPLICAS: dict[str, Resource] = {
    resource.kind: resource for resource in (REPLICA_SETS, STATEFUL_SETS)
}


class PodGroups(StandInController):
    """Follows the pods that Volcano schedules. The PodGroup of an owner that was scaled to zero is
    deleted."""

    follows = (PODS, POD_GROUPS, REPLICA_SETS, STATEFUL_SETS)

    async def reconcile(self) -> None:
        for pod in self.mirror.all(PODS):
            named = objects.GROUP_NAME in objects.annotations_of(pod)
            if not named and objects.spec(pod).get("schedulerName") == "volcano":
                await self._group(pod)
        scaled_to_zero = set()
        for resource in _WITH_REPLICAS.values():
            for owner in self.mirror.all(resource):
                if objects.spec(owner).get("replicas") == 0:
                    scaled_to_zero.add(objects.uid(owner))
        for group in self.mirror.all(POD_GROUPS):
            uid = objects.owner_uid(group)
            if uid in scaled_to_zero and objects.name(group) == f"podgroup-{uid}":
                await self.delete(POD_GROUPS, group)

    async def _group(self, pod: Object) -> None:
        name = f"podgroup-{objects.owner_uid(pod) or objects.uid(pod)}"
        owner = self._owner_with_replicas(pod)
        body = _group_of_pod(pod, owner, name)
        found = self.mirror.get(POD_GROUPS, objects.namespace(pod), name)
        if found is None:
            await self.create(POD_GROUPS, body)
        elif owner is not None and objects.spec(found) != body["spec"]:
            await self.patch(POD_GROUPS, found, {"spec": body["spec"]})
        await self.patch(PODS, pod, {"metadata": {"annotations": {objects.GROUP_NAME: name}}})

    def _owner_with_replicas(self, pod: Object) -> Object | None:
        """The ReplicaSet or StatefulSet of the pod: only of these the annotations are read."""
        resource = _WITH_REPLICAS.get(objects.owner_kind(pod))
        for owner in self.mirror.all(resource) if resource is not None else ():
            if objects.uid(owner) == objects.owner_uid(pod):
                return owner
        return None


def _group_of_pod(pod: Object, owner: Object | None, name: str) -> Object:
    inherited = objects.annotations_of(owner or {})
    least = inherited.get("scheduling.volcano.sh/group-min-member", "1")
    body = making.pod_group(
        name,
        making.Owner(pod, PODS),
        [pod],
        annotations=making.with_prefix(inherited, "volcano.sh/"),
        minMember=int(least) if least.isdecimal() else 1,
        queue=objects.annotations_of(pod).get("scheduling.volcano.sh/queue-name", "default"),
        priorityClassName=objects.spec(pod).get("priorityClassName") or None,
    )
    body["metadata"]["ownerReferences"] = pod["metadata"].get("ownerReferences") or [
        making.Owner(pod, PODS).reference
    ]
    return body
