"""Performs plans: creates and deletes the objects of instances, whole or not at all, and ends jobs.
Decides nothing.

After a crash half way, the next pass completes or revokes the instance: all names are fixed, and
every write names the uid of its object. A deletion of a pod and the end of a job also name the
version that the decision saw."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import assert_never

import msgspec
import structlog
from msgspec import UNSET

from scaler.clock import Clock
from scaler.decide.decision import (
    NOBODY,
    Action,
    Admit,
    Complete,
    Evict,
    Expire,
    Finish,
    Plan,
    Record,
    Remove,
    Resize,
    Restart,
    Revoke,
)
from scaler.decide.world import ServiceKey, Training, World
from scaler.execute.assumed import AssumedWrites
from scaler.execute.bursts import Bursts
from scaler.execute.evictions import CountedOf, EvictionCounts
from scaler.execute.gates import Gates
from scaler.execute.marks import Marks
from scaler.execute.recreation import RecreationGuard
from scaler.execute.restart import Restarts
from scaler.execute.writes import (
    REFUSALS,
    ObjectWriter,
    all_done,
    gathered,
    gravest,
    identity_of,
)
from scaler.informers.jobs import JobRecord, look_up
from scaler.informers.pods import PodRecord
from scaler.kube.api import ASCEND_JOBS, POD_GROUPS, PODS, SERVICES, Object, PatchType, Resource
from scaler.kube.errors import ConflictError, KubeError, NotFoundError, NotSentError
from scaler.kube.writer import Writer, controller_uid
from scaler.names import CONSUMES
from scaler.report.job_status import final_patch, write_status
from scaler.report.service_reports import replica_statuses
from scaler.rules.rule import ALL
from scaler.state.cluster import ClusterState
from scaler.workloads import ascendjob_objects as objects
from scaler.workloads.ascendjob import rounds_patch
from scaler.workloads.volcanojob import VOLCANO_JOBS

_log = structlog.get_logger(__name__)

_OfOneSize = Admit | Complete | Evict | Expire | Finish | Record | Remove | Resize | Revoke
"""The actions of instances that have one size."""
UNDO_TRIES = 5
"""The most tries to delete a pod that must not be bound and changes at the same time."""


class ActionResult(msgspec.Struct, frozen=True):
    """The outcome of one action. `refused` has the API server's words; `failed` means: try again
    after a pause."""

    uid: str
    refused: str = ""
    failed: str = ""


class Executor:
    """One per process; actions of one plan run in parallel."""

    # Wiring: everything that the executor works with.
    def __init__(  # noqa: PLR0913
        self,
        writer: Writer,
        state: ClusterState,
        assumed: AssumedWrites,
        *,
        clusterd: str,
        clock: Clock,
        evictions: EvictionCounts | None = None,
        named_by: Callable[[str], str] | None = None,
    ) -> None:
        """`named_by`: uid of an instance -> the ProvisioningRequest that its pods are to name; "" =
        none."""
        self._state = state
        self._cache = cache = state.cache
        self._writes = writes = ObjectWriter(writer, cache, assumed)
        self._bursts = Bursts()
        self._gates = Gates(writer, writes, state, self._bursts)
        self.marks = Marks(writes, state)
        self.restarts = Restarts(writer, writes, cache, self.marks, self._gates)
        self._look_up = partial(look_up, writer.find, cache.jobs)
        self._guard = RecreationGuard()
        self.evictions = evictions or EvictionCounts(writer, state)
        self._writer = writer
        self._clusterd = clusterd
        self._clock = clock
        self._named_by = named_by

    async def perform(
        self, plan: Plan, counted: CountedOf | None = None
    ) -> tuple[ActionResult, ...]:
        """Perform the actions of the plan; one result per action, and one more for each mark that
        cannot be taken off. Never raises an error of the seam. `counted`: what is kept before a
        victim is evicted."""
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(self._perform(plan.key, action, counted or {}))
                for action in plan.actions
            ]
            unmarking = [
                tasks.create_task(self._take_off(plan.key, pod)) for pod in self.marks.left(plan)
            ]
        failed = [result for task in unmarking if (result := task.result()).failed]
        return (*[task.result() for task in running], *failed)

    async def _take_off(self, key: ServiceKey, pod: PodRecord) -> ActionResult:
        try:
            await self.marks.take_off(key, pod)
        except KubeError as error:
            return ActionResult(pod.owner_uid, failed=f"pod {pod.name} stays marked: {error}")
        return ActionResult(pod.owner_uid)

    async def _perform(self, key: ServiceKey, action: Action, counted: CountedOf) -> ActionResult:
        try:
            if isinstance(action, Evict) and action.beneficiary in counted:
                await self.evictions.keep(counted[action.beneficiary])
            return ActionResult(action.uid, refused=await self._do(key, action))
        except KubeError as error:
            return ActionResult(action.uid, failed=str(error))

    async def _do(self, key: ServiceKey, action: Action) -> str:
        """The words of a refusal, or "". Other errors of the seam are raised: then the service is
        decided again."""
        record = self._cache.job(action.uid)
        if record is not None and isinstance(action, Admit | Complete | Restart):
            training = self._training_of(key, record)
            if training is not None:
                return await self._at_size(key, record, action, training)
        if isinstance(action, Restart):
            raise NotSentError("jobs of its kind have one size")
        return await self._change(key, record, action)

    def _training_of(self, key: ServiceKey, record: JobRecord) -> Training | None:
        """What makes it a training job whose size can be changed in place; None for any other."""
        training = self._state.instance(key, record.uid).training
        return None if training is UNSET or record.kind != VOLCANO_JOBS.kind else training

    async def _change(self, key: ServiceKey, record: JobRecord | None, action: _OfOneSize) -> str:
        """As `_do`."""
        made_here = record is not None and self._state.maker_of(record).ours
        if record is None or not made_here or isinstance(action, Evict):
            return await self._on_pods_there(key, action)
        match action:
            case Admit() | Complete():
                return await self._make_if_it_helps(key, record, undo=isinstance(action, Admit))
            case Revoke():
                await self._revoke(key, record)
            case Record():
                rounds = rounds_patch(record.uid, action.rounds)
                await self._writes.patch(key, ASCEND_JOBS, record, rounds, PatchType.MERGE)
            case Expire():
                await self._writes.delete(key, ASCEND_JOBS, record, propagation_policy="Background")
            case Finish():
                await self._finish(key, record, action)
            case Remove():
                await self._remove(key, record, action)
            case Resize():
                await self._resize(key, record)
            case _:
                assert_never(action)
        return ""

    async def _at_size(
        self, key: ServiceKey, record: JobRecord, action: Admit | Complete | Restart, of: Training
    ) -> str:
        """Restart a training job at a size, or release its pods at the one that is recorded."""
        try:
            match action:
                case Restart():
                    await self.restarts.restart(key, record, of.sizes[action.size].amount)
                case Admit():
                    await self.restarts.release(key, record, of.sizes[action.size])
                case Complete():
                    await self.restarts.release(key, record, of.sizes[of.recorded])
        except REFUSALS as error:
            return error.message
        return ""

    async def _on_pods_there(self, key: ServiceKey, action: Action) -> str:
        """Take the gate off the pods, or delete them. All else is up to the owner, who makes the
        pods and ends them."""
        try:
            match action:
                case Admit() | Complete():
                    await self._gates.release(key, action.uid)
                case Revoke():
                    unbound = self._unbound(action.uid)
                    await self._delete_all(key, [pod for pod in unbound if not pod.gated])
                # Pods that run, with their grace period: only preemption and drains do this.
                case Evict():
                    await self._delete_all(key, self._cache.present_pods(action.uid))
                # Pods that have ended: their kubelet refused them.
                case Remove():
                    present = self._cache.present_pods(action.uid)
                    await self._delete_all(key, [pod for pod in present if pod.refused])
        except REFUSALS as error:
            return error.message
        return ""

    def _unbound(self, uid: str) -> list[PodRecord]:
        return [pod for pod in self._cache.present_pods(uid) if not pod.node]

    async def _delete_all(self, key: ServiceKey, pods: list[PodRecord]) -> None:
        marked = await self.marks.mark(key, pods)
        await all_done([self._writes.delete(key, PODS, pod) for pod in marked])

    async def _make_if_it_helps(self, key: ServiceKey, record: JobRecord, *, undo: bool) -> str:
        """Make the objects, unless the job has changed since the decision: then the service is
        decided again."""
        if self._guard.made_lately(record.uid) and not await self._look_up(record):
            return ""
        words = self._guard.in_vain(record.uid)
        if words and not undo:
            raise NotSentError(words)
        return words or await self._make(key, record, undo=undo)

    async def _make(self, key: ServiceKey, record: JobRecord, *, undo: bool) -> str:
        """Create the PodGroup first, because Volcano makes its own for a pod without one; then all
        others at once."""
        try:
            missing = self._missing(record)
        except Exception as error:  # a job of an unforeseen shape must not stop the other services
            _log.exception("no objects can be made of a job", service=str(key), job=record.name)
            return f"no objects can be made of its spec: {error!r}"
        made, errors = await self._create(key, missing)
        if made:
            self._guard.note_made(
                record.uid, [_name_and_uid(resource, obj) for resource, obj in made]
            )
        if not errors:
            if any(pod.gated for pod in self._cache.pods_of(record.uid).values()):
                # the template of the pods names the rule
                return await self._on_pods_there(key, Complete(record.uid))
            return ""
        refusal = gravest(errors)
        if not undo or not isinstance(refusal, REFUSALS):
            raise refusal
        gone = await self._undo(key, record, made)
        if not gone:
            raise refusal
        self._guard.forget(record.uid)
        return refusal.message

    async def _create(
        self, key: ServiceKey, batches: list[list[tuple[Resource, Object]]]
    ) -> tuple[list[tuple[Resource, Object]], list[KubeError]]:
        """Create one batch after the other, until one has an error. Gives what was made, and the
        errors."""
        made: list[tuple[Resource, Object]] = []
        errors: list[KubeError] = []
        for batch in batches:
            if not batch:
                continue
            async with self._bursts.begun(key.namespace, len(batch)):
                results = await gathered(
                    [self._writes.create(key, resource, body) for resource, body in batch]
                )
            for (resource, _), result in zip(batch, results, strict=True):
                if isinstance(result, KubeError):
                    errors.append(result)
                else:
                    made.append((resource, result))
            if errors:
                break
        return made, errors

    def _missing(self, record: JobRecord) -> list[list[tuple[Resource, Object]]]:
        job = record.job
        obj = record.object
        first: list[tuple[Resource, Object]] = []
        rest: list[tuple[Resource, Object]] = []
        if self._cache.pod_groups.get(job.namespace, job.pod_group) is None:
            first.append((POD_GROUPS, objects.pod_group(job, obj)))
        if self._cache.kube_services.get(job.namespace, job.leader) is None:
            rest.append((SERVICES, objects.service(job, obj)))
        present = self._cache.pods_of(record.uid)
        request = self._named_by(record.uid) if self._named_by is not None else ""
        for name, pod in objects.pods(job, obj, self._clusterd).items():
            if name not in present:
                if request:
                    pod["metadata"].setdefault("annotations", {})[CONSUMES] = request
                rest.append((PODS, pod))
        return [first, rest]

    async def _undo(
        self, key: ServiceKey, record: JobRecord, made: list[tuple[Resource, Object]]
    ) -> bool:
        """Delete what was made of a refused instance. False when a pod stays: the scheduler has
        bound it meanwhile, or it existed before and the watch has not shown it. The next pass
        handles such an incomplete instance."""
        pods = dict[str, Object]()
        others = list[tuple[Resource, Object]]()
        for resource, obj in made:
            if resource is PODS:
                pods[obj["metadata"]["name"]] = obj
            else:
                others.append((resource, obj))
        deletions = [self._delete_unbound(key, pod) for pod in pods.values()]
        others_exist = self._refuse_if_pods_exist(record, record.job.pods, but=pods)
        results = await gathered([*deletions, others_exist])
        # a deletion of a pod that is bound gives False, and what failed its error
        gone = not any(result is False or isinstance(result, KubeError) for result in results)
        if gone:
            results += await gathered(
                [
                    self._writes.delete(key, resource, identity_of(obj))
                    for resource, obj in reversed(others)
                ]
            )
        for error in results:
            if isinstance(error, KubeError):
                _log.warning("undo failed", service=str(key), error=str(error))
        return gone

    async def _delete_unbound(self, key: ServiceKey, pod: Object) -> bool:
        """Delete exactly this version of a pod; read the pod again when it has changed. False when
        the pod is bound."""
        for _ in range(UNDO_TRIES):
            if pod["spec"].get("nodeName"):
                return False
            try:
                await self._writes.delete(key, PODS, identity_of(pod))
                return True
            except ConflictError:
                with suppress(NotFoundError):
                    pod = await self._writer.get(
                        PODS, pod["metadata"]["namespace"], pod["metadata"]["name"]
                    )
        return False

    async def _revoke(self, key: ServiceKey, record: JobRecord) -> None:
        """Delete the pods that are not bound, then the PodGroup. A pod that was bound meanwhile
        stays, and with any pod the PodGroup stays: no precondition of the deletion can say that
        there are no pods."""
        unbound = self._unbound(record.uid)
        if unbound:
            self._guard.forget(record.uid)
        await self._delete_all(key, unbound)
        group = self._cache.pod_group_of(record)
        if group is not None:
            await self._refuse_if_pods_exist(record, record.job.pods)
            await self._writes.delete(key, POD_GROUPS, group)

    async def _refuse_if_pods_exist(
        self, record: JobRecord, names: Iterable[str], but: Container[str] = ()
    ) -> None:
        """NotSentError when one of these pods exists, those in `but` left out: the watch of pods
        may be far behind."""

        async def check(name: str) -> None:
            with suppress(NotFoundError):
                pod = await self._writer.get(PODS, record.namespace, name)
                if controller_uid(pod) == record.uid and "deletionTimestamp" not in pod["metadata"]:
                    raise NotSentError(
                        f"pod {name} of it exists, which the watch has not shown yet"
                    )

        await all_done([check(name) for name in names if name not in but])

    # the life of a job by its run policy: none of these steps needs an undo

    async def _finish(self, key: ServiceKey, record: JobRecord, step: Finish) -> None:
        pods = self._cache.present_pods(record.uid)
        phases = {pod.name: pod.phase for pod in pods}
        await self._refuse_if_pods_exist(record, record.job.pods, but=phases)
        replicas = replica_statuses(record.job, phases)
        started = min((pod.created for pod in pods), default=0.0)
        ending = (step.reason.outcome, step.reason.value, step.message)
        patch = final_patch(record.object, ending, replicas, started, self._clock.timestamp())
        self._writes.assume(
            key, ASCEND_JOBS, await write_status(self._writer, record.object, patch)
        )

    async def _remove(self, key: ServiceKey, record: JobRecord, step: Remove) -> None:
        """Delete one pod after the other: lowered replicas lose their highest indices first.
        Running pods may end by it, so nothing is deleted where a watch is behind."""
        if not await self._look_up(record):
            return
        # as it is before the first deletion: the watch may remove pods meanwhile
        owned = dict(self._cache.pods_of(record.uid))
        for name in step.pods:
            if name in owned:
                await self._writes.delete(key, PODS, owned[name])
        group = self._cache.pod_group_of(record)
        if step.pod_group and group is not None:
            await self._writes.delete(key, POD_GROUPS, group)

    async def _resize(self, key: ServiceKey, record: JobRecord) -> None:
        """Update the PodGroup: Volcano reads the size of a gang only there. Other fields stay.
        Checks as `_remove`."""
        if not await self._look_up(record):
            return
        group = self._cache.pod_group_of(record)
        if group is None:
            return
        spec = objects.pod_group(record.job, record.object)["spec"]
        patch = [{"op": "test", "path": "/metadata/uid", "value": group.uid}]
        sizes = ("minMember", "minTaskMember", "minResources")
        patch += [{"op": "add", "path": f"/spec/{name}", "value": spec[name]} for name in sizes]
        await self._writes.patch(key, POD_GROUPS, group, patch, PatchType.JSON)


def _name_and_uid(resource: Resource, obj: Object) -> tuple[str, str]:
    meta = obj["metadata"]
    return f"{resource.kind} {meta['name']}", meta["uid"]


def log_line(world: World, plan: Plan, outcomes: Sequence[ActionResult]) -> dict[str, object]:
    """The log fields of a plan: what was seen, its actions, how many were done, the words about
    each that was not."""
    names = {verdict.uid: verdict.name for verdict in plan.verdicts}
    doing: dict[str, list[str]] = {}
    for action in plan.actions:
        name = names.get(action.uid, action.uid)
        doing.setdefault(type(action).__name__.lower(), []).append(name)
    evictions = [action for action in plan.actions if isinstance(action, Evict)]
    beneficiaries = {action.beneficiary for action in evictions} - {NOBODY}
    refused: dict[str, str] = {}
    failed: dict[str, str] = {}
    for outcome in outcomes:
        name = names.get(outcome.uid, outcome.uid)
        if outcome.refused:
            refused[name] = outcome.refused
        if outcome.failed:
            failed[name] = outcome.failed
    running: dict[str, int] = {}
    in_flight: dict[str, int] = {}
    held: dict[str, int] = {}
    for name, group in plan.groups.items():
        running[name] = group.running
        in_flight[name] = group.in_flight
        held[name] = group.held
    line: dict[str, object] = {
        "service": str(plan.key),
        "target": plan.target,
        "target_index": plan.target_index,
        "running": running,
        "in_flight": in_flight,
        "held": held,
    }
    if plan.replicas < ALL:
        line["replicas"] = plan.replicas
    line |= {"seen": world.resource_versions, **doing}
    if beneficiaries:
        line["evicted_for"] = sorted(beneficiaries)
    line["done"] = len(outcomes) - len(refused) - len(failed)
    if refused:
        line["refused"] = refused
    if failed:
        line["failed"] = failed
    return line
