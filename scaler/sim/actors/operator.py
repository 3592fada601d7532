"""A stand-in for Ascend Operator: makes the objects of AscendJobs as it does, as an ordinary client
of KubeApi.

    PodGroup -> its phase is neither "" nor Pending -> rank table -> Service -> gate -> pods of one
    replica type after the other

Weaknesses of its rank tables are kept: a table that comes late is never filled, a withdrawn one
keeps its old servers, and `version` is the time of the write before. ranktables.table makes the
text of a completed one. Like the original it decides for each job alone, checks a refused job again
by timers only, and keeps rounds in its memory. Not modelled: hot switching, restart policy
ExitCode, and the wait for its caches. Must not: know of services or instances, look at nodes, or be
better than the original."""

from __future__ import annotations

import contextlib
import json
from collections import Counter, defaultdict

import msgspec

from scaler.clock import Clock, loop_time
from scaler.informers.pods import read_pod
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    POD_GROUPS,
    PODS,
    SERVICES,
    KubeApi,
    Object,
    Resource,
)
from scaler.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from scaler.names import (
    GROUP_LABEL,
    RANK_TABLE_KEY,
    RANK_TABLE_PREFIX,
    RANK_TABLE_VERSION_KEY,
    RULE_KEY,
    RULE_LABEL,
)
from scaler.ranktables.table import Status, rank_table
from scaler.ranktables.tables import member_of
from scaler.rules.jobspec import CONTAINER, read_replicas
from scaler.sim.actors import objects
from scaler.sim.actors import operator_rules as rules
from scaler.sim.actors.faulty_api import LOOK_AGAIN, Curses, Never
from scaler.sim.actors.operator_rules import Condition, OperatorCrashError, Retries, may_create
from scaler.sim.actors.stand_in import Key, StandIn, key_of
from scaler.workloads import ascendjob_objects as made
from scaler.workloads.ascendjob import read_job

NAMESPACE = "mindx-dl"
CLUSTERD = "clusterd-grpc-svc"
_DOMAIN = f"{CLUSTERD}.{NAMESPACE}.svc.cluster.local"


class _RefusedError(Exception):
    """The gate refuses; `str()` is the text that the original writes into the job's condition."""


class _Table(msgspec.Struct):
    """A job's rank table."""

    pods: frozenset[str] = frozenset()
    """Uids of the pods in the completed table."""
    text: str = ""
    saved: int = 0
    absent: bool = False
    """The ConfigMap was missing when it was first read; it is never read again."""


class AscendOperator(StandIn):
    """One operator process. `crashes`: end with OperatorCrashError where the original does; else
    that is a refusal.

    A job that is `cursed` to be never made is never handled."""

    def __init__(
        self, api: KubeApi, clock: Clock, *, crashes: bool = False, cursed: Curses | None = None
    ) -> None:
        super().__init__(api, ASCEND_JOBS, PODS, POD_GROUPS, SERVICES, DEPLOYMENTS)
        self._clock = clock
        self._crashes = crashes
        self._cursed = cursed or Curses()
        self._tables: defaultdict[str, _Table] = defaultdict(_Table)
        self._retries = Retries()
        self._due: dict[Key, float] = {}
        """Job -> loop time at which it is handled."""
        self._looked_at: dict[Key, tuple[str, ...]] = {}
        """Job -> versions of the job and of all its objects, when it was last queued for a
        change."""
        self._rounds: dict[str, int] = {}
        """Job uid -> counted restarts; also the value of the pods' label `version`."""
        self._pods: dict[str, tuple[str, str]] = {}
        """Pod uid -> owner and label `version` of the existing pods."""

    async def _round(self) -> float | None:
        self._count_lost_pods()
        now = loop_time()
        for job in self.mirror.all(ASCEND_JOBS):
            versions = self._versions(job)
            if self._looked_at.get(key_of(job)) != versions:
                self._looked_at[key_of(job)] = versions
                self._due[key_of(job)] = now
        await self._reconcile_next()
        return min(self._due.values()) - loop_time() if self._due else None

    def _versions(self, job: Object) -> tuple[str, ...]:
        """Versions of the job and of all its objects."""
        found = [job]
        for resource in (PODS, POD_GROUPS, SERVICES):
            found += self.mirror.owned(resource, job)
        return tuple(obj["metadata"]["resourceVersion"] for obj in found)

    def _count_lost_pods(self) -> None:
        """A pod of the present round that is gone, for any reason, begins the next round."""
        present = {objects.uid(pod): pod for pod in self.mirror.all(PODS)}
        for uid in self._pods.keys() - present.keys():
            owner, version = self._pods[uid]
            if version == str(self._rounds.get(owner, 0)):
                self._rounds[owner] = self._rounds.get(owner, 0) + 1
        self._pods = {}
        for uid, pod in present.items():
            self._pods[uid] = (objects.owner_uid(pod), objects.labels_of(pod).get("version", ""))

    async def _reconcile_next(self) -> None:
        """The original has one worker: a slow answer delays all jobs."""
        now = loop_time()
        ready = [key for key, due in self._due.items() if due <= now]
        if not ready:
            return
        key = min(ready, key=lambda key: (self._due[key], key))
        del self._due[key]
        job = self.mirror.get(ASCEND_JOBS, *key)
        if job is None:
            self._looked_at.pop(key, None)
        elif self._cursed(Never.MADE, job):
            self._due[key] = now + LOOK_AGAIN
        else:
            try:
                await self._reconcile(job)
                self._retries.forget("/".join(key))
            except (KubeError, _RefusedError):
                self._due[key] = now + self._retries.delay("/".join(key), now)

    async def _reconcile(self, job: Object) -> None:
        place = key_of(job)
        if self.mirror.get(DEPLOYMENTS, *place) is not None or objects.terminating(job):
            return
        given = (objects.spec(job).get("runPolicy") or {}).get("backoffLimit")
        # 0 = unlimited
        limit = _number(objects.labels_of(job).get("fault-retry-times") if given is None else given)
        if faults := read_job(job).faults:
            await self._write_status(job, Condition("Failed", "JobValidFailed", faults[0]))
        elif rules.finished(objects.status(job)):
            await self._clean_up(job)
        elif 0 < limit < self._rounds.get(objects.uid(job), 0):
            words = (
                f"Job {objects.name(job)} has failed because it has reached the specified backoff"
                " limit"
            )
            await self._write_status(job, Condition("Failed", "JobFailed", words))
        else:
            await self._keep(job)

    async def _keep(self, job: Object) -> None:
        phase = str(objects.status(await self._pod_group(job)).get("phase") or "")
        if phase in ("", "Pending"):
            pending = Condition("Created", "PodGroupPending", "the cluster resource is not enough")
            why = pending if phase else rules.NO_SCHEDULER
            await self._write_status(job, why, lastReconcileTime=self._clock.timestamp())
            return
        await self._keep_table(job, self._members(job))
        service = made.service(read_job(job), job)
        if self.mirror.get(SERVICES, *key_of(service)) is None:
            await self._create_once(SERVICES, service)
        try:
            await self._pods_of_all_types(job)
        except (KubeError, _RefusedError) as error:
            await self._write_status(job, Condition("Created", "PodCreateFailed", str(error)))
            raise
        members = self._members(job)
        pods: dict[str, list[Object]] = {}
        for kind in read_replicas(job):
            pods[kind] = [pod for pod in members if _type_of(job, pod) == kind]
        condition = rules.of_pods(
            job, members, retries_left=_number(objects.labels_of(job).get("fault-retry-times"))
        )
        started = objects.status(job).get("startTime") or self._clock.timestamp()
        await self._write_status(
            job, condition, startTime=started, replicaStatuses=rules.replica_statuses(pods)
        )

    async def _keep_table(self, job: Object, pods: list[Object]) -> None:
        """Write the table if its pods have changed; a failed write is forgotten."""
        table = self._tables[objects.uid(job)]
        now = rank_table(read_job(job), job, [member_of(read_pod(pod)) for pod in pods])
        uids = frozenset(map(objects.uid, pods)) if now.status is Status.COMPLETED else frozenset()
        if uids == table.pods:
            return
        withdrawn = {**json.loads(table.text or "{}"), "status": Status.INITIALIZING.value}
        table.pods = uids
        table.text = now.text if uids else json.dumps(withdrawn)
        if table.absent:
            return
        place = objects.namespace(job), RANK_TABLE_PREFIX + objects.name(job)
        try:
            found = await self.api.get(CONFIG_MAPS, *place)
            data = {RANK_TABLE_KEY: table.text, RANK_TABLE_VERSION_KEY: str(table.saved)}
            await self.api.replace(
                CONFIG_MAPS, *place, {**found, "data": {**(found.get("data") or {}), **data}}
            )
        except NotFoundError:
            table.absent = table.saved == 0
        except KubeError:
            return
        table.saved = int(self._clock.now())

    async def _pod_group(self, job: Object) -> Object:
        """An existing PodGroup is used as it is, also if the job has changed since."""
        body = made.pod_group(read_job(job), job)
        if copied := objects.annotations_of(job):
            body["metadata"]["annotations"] = dict(copied)
        try:
            return await self.api.get(POD_GROUPS, objects.namespace(job), objects.name(body))
        except NotFoundError:
            return await self.api.create(POD_GROUPS, objects.namespace(job), body)

    async def _pods_of_all_types(self, job: Object) -> None:
        try:
            clusterd = str(
                objects.spec(await self.api.get(SERVICES, NAMESPACE, CLUSTERD))["clusterIP"]
            )
        except (KubeError, KeyError):
            clusterd = _DOMAIN
        present = {objects.name(pod) for pod in self._members(job)}
        wanted = made.pods(read_job(job), job, clusterd)
        for kind in read_replicas(job):
            missing = []
            for name, pod in wanted.items():
                if _type_of(job, pod) == kind and name not in present:
                    missing.append(pod)
            if missing:
                await self._check_gate(job)
            for pod in missing:
                await self._create_once(PODS, self._as_made_here(job, pod, clusterd))

    def _as_made_here(self, job: Object, pod: Object, clusterd: str) -> Object:
        """Fields where the scaler differs on purpose: the round's number, and variables that are
        always appended."""
        pod["metadata"]["labels"]["version"] = str(self._rounds.get(objects.uid(job), 0))
        kind = _type_of(job, pod)
        given = job["spec"]["replicaSpecs"][kind]["template"]["spec"]["containers"]
        labels = objects.labels_of(job)
        variables = {
            "MINDX_TASK_ID": labels.get("jobID", ""),
            "APP_TYPE": labels.get("app", ""),
            "MINDX_SERVER_IP": clusterd,
            "MINDX_SERVER_DOMAIN": _DOMAIN,
        }
        added = [{"name": name, "value": value} for name, value in variables.items()]
        for container, template in zip(pod["spec"]["containers"], given, strict=True):
            if container["name"] == CONTAINER:
                container["env"] = [*(template.get("env") or []), *added]
        return pod

    async def _check_gate(self, job: Object) -> None:
        """Reads the rule each time. Counts PodGroups, the job's own included, whatever the state of
        their pods."""
        labels = objects.labels_of(job)
        rule = labels.get(RULE_LABEL)
        if rule is None:
            return
        config_map = await self.api.get(CONFIG_MAPS, objects.namespace(job), rule)
        running: Counter[str] = Counter()
        allowed = True
        for group in self.mirror.all(POD_GROUPS):
            if _service(group) != _service(job):
                continue
            allowed &= GROUP_LABEL in objects.labels_of(group)
            if objects.status(group).get("phase") == "Running":
                running[objects.labels_of(group).get(GROUP_LABEL, "")] += 1
        try:
            document = (config_map.get("data") or {}).get(RULE_KEY, "")
            allowed = allowed and may_create(document, running, labels.get(GROUP_LABEL, ""))
        except OperatorCrashError:
            if self._crashes:
                raise
            allowed = False
        if not allowed:
            raise _RefusedError(f"job {'/'.join(key_of(job))} can't create pod, try later")

    def _members(self, job: Object) -> list[Object]:
        """Pods by label in the namespace, without a check of the owner."""
        members = []
        for pod in self.mirror.all(PODS):
            named = objects.labels_of(pod).get("training.kubeflow.org/job-name")
            if named == objects.name(job) and objects.namespace(pod) == objects.namespace(job):
                members.append(pod)
        return members

    async def _clean_up(self, job: Object) -> None:
        """Pending pods and the PodGroup are deleted; running pods stay."""
        for pod in objects.staying(self._members(job)):
            if objects.phase(pod) == "Pending":
                await self._delete_once(PODS, pod)
        for group in self.mirror.owned(POD_GROUPS, job):
            await self._delete_once(POD_GROUPS, group)

    async def _create_once(self, resource: Resource, body: Object) -> None:
        with contextlib.suppress(AlreadyExistsError):
            await self.api.create(resource, objects.namespace(body), body)

    async def _delete_once(self, resource: Resource, obj: Object) -> None:
        with contextlib.suppress(NotFoundError, ConflictError):
            await self.api.delete(resource, *key_of(obj), uid=objects.uid(obj))

    async def _write_status(self, job: Object, condition: Condition | None, **more: object) -> None:
        """Written when it has changed; a failed write is lost, as in the original."""
        before = objects.status(job)
        after = {**rules.updated(before, condition, self._clock.timestamp()), **more}
        if after == before:
            return
        with contextlib.suppress(KubeError):
            await self.api.replace(
                ASCEND_JOBS, *key_of(job), {**job, "status": after}, subresource="status"
            )


def _service(obj: Object) -> tuple[str | None, ...]:
    labels = objects.labels_of(obj)
    return objects.namespace(obj), labels.get(RULE_LABEL), labels.get("jobID")


def _type_of(job: Object, pod: Object) -> str:
    """The replica type in the job's spelling."""
    label = objects.labels_of(pod).get("replica-type", "")
    for kind in read_replicas(job):
        if kind.lower() == label:
            return kind
    return ""


def _number(value: object) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() else 0
