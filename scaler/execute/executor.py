"""Performs plans: creates and deletes the objects of instances, whole or not at all. Decides nothing.

A crash in between leaves an instance that the next pass completes or takes back, because all names are fixed and
every deletion names the uid and the version that it means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from scaler.clock import Clock
from scaler.decide.life import Finish, LifeAction, Remove, Resize
from scaler.decide.world import Action, Admit, Complete, Evict, Plan, Revoke, ServiceKey
from scaler.execute.gates import Gates
from scaler.execute.lifecycle import LifecycleExecutor
from scaler.execute.recreation import RecreationGuard
from scaler.informers.lookup import JobLookup
from scaler.informers.records import JobRecord
from scaler.informers.store import Store
from scaler.kube.api import ASCEND_JOBS, POD_GROUPS, PODS, SERVICES, Object, Resource
from scaler.kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    NotSentError,
    StatusError,
)
from scaler.kube.writer import Writer, controller_uid
from scaler.state.cluster import ClusterState
from scaler.state.expectations import Expectations
from scaler.workloads import ascendjob_objects as objects

_log = structlog.get_logger(__name__)

REFUSALS = (ForbiddenError, InvalidError, BadRequestError, NotFoundError, AlreadyExistsError)
"""Answers that will not change by asking again at once."""
UNDO_TRIES = 5
"""How often a pod is looked at again that changes while it is to be deleted unbound."""


class ActionResult(msgspec.Struct, frozen=True):
    """What became of one action. `refused` has the API server's words; `failed` means: try again after a pause."""

    uid: str
    refused: str = ""
    failed: str = ""


class Executor:
    """One per process; actions of one plan run in parallel."""

    def __init__(
        self,
        writer: Writer,
        state: ClusterState,
        expectations: Expectations[ServiceKey],
        *,
        clusterd: str,
        clock: Clock,
    ) -> None:
        self._cache = cache = state.cache
        self._steps = LifecycleExecutor(writer, cache, expectations, clock)
        self._gates = Gates(writer, state, expectations)
        self._lookup = JobLookup(cache, writer.find)
        self._guard = RecreationGuard(self._lookup)
        self._writer = writer
        self._expectations = expectations
        self._clusterd = clusterd
        self._stores: dict[Resource, Store[Any]] = {
            PODS: cache.pods,
            POD_GROUPS: cache.pod_groups,
            SERVICES: cache.services,
        }

    async def perform(self, plan: Plan) -> tuple[ActionResult, ...]:
        """Do what the plan says; one outcome per action, never an error of the seam."""
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self._perform(plan.key, action)) for action in plan.actions]
        return tuple(task.result() for task in running)

    async def _perform(self, key: ServiceKey, action: Action) -> ActionResult:
        record = self._cache.job(action.uid)
        if record is None or not self._is_made_here(record):
            return await self._release(key, action)
        match action:
            case Admit() | Complete():
                return await self._make_if_it_helps(key, record, undo=isinstance(action, Admit))
            case Revoke():
                return await self._revoke(key, record)
            case Evict():
                return await self._release(key, action)
            case _:
                return await self._step(key, record, action)

    def _is_made_here(self, record: JobRecord) -> bool:
        return self._cache.makes_pods and record.kind == ASCEND_JOBS.kind

    async def _release(self, key: ServiceKey, action: Action) -> ActionResult:
        """An instance whose pods others make: all that can be done is to release it or to take it back."""
        try:
            match action:
                case Admit() | Complete():
                    await self._gates.release(key, action.uid)
                case Revoke():
                    await self._gates.revoke(key, action.uid)
                case Evict():
                    await self._gates.evict(key, action.uid)
                case _:
                    pass  # whoever makes its pods looks after its life
        except REFUSALS as error:
            return ActionResult(action.uid, refused=_words(error))
        except KubeError as error:
            return ActionResult(action.uid, failed=str(error))
        return ActionResult(action.uid)

    async def _step(self, key: ServiceKey, record: JobRecord, step: LifeAction) -> ActionResult:
        """Whatever goes wrong, the decision is made anew: there is nothing to undo. What may end pods that run is done
        only where no watch was behind."""
        try:
            if isinstance(step, Finish):
                pods = self._cache.pods_of(record.uid)
                missing = (name for name in record.job.pods if name not in pods or pods[name].terminating)
                await self._none_there(record, missing)
            if not isinstance(step, Remove | Resize) or await self._lookup.is_as_known(record):
                await self._steps.perform(key, record, step)
        except KubeError as error:
            return ActionResult(record.uid, failed=str(error))
        return ActionResult(record.uid)

    # admit, complete

    async def _make_if_it_helps(self, key: ServiceKey, record: JobRecord, *, undo: bool) -> ActionResult:
        """A job that is not what was decided about any more is decided about anew."""
        try:
            if not await self._guard.is_as_known(record):
                return ActionResult(record.uid)
        except KubeError as error:
            return ActionResult(record.uid, failed=str(error))
        words = self._guard.in_vain(record.uid)
        if words:
            return ActionResult(record.uid, refused=words) if undo else ActionResult(record.uid, failed=words)
        return await self._make(key, record, undo=undo)

    async def _make(self, key: ServiceKey, record: JobRecord, *, undo: bool) -> ActionResult:
        """PodGroup first, because Volcano makes one of its own for a pod without; then the rest at once."""
        made: list[tuple[Resource, Object]] = []
        errors: list[KubeError] = []
        try:
            missing = self._missing(record)
        except Exception as error:  # a shape of job that nobody thought of must not stop the other services
            _log.exception("no objects can be made of a job", service=str(key), job=record.name)
            return ActionResult(record.uid, refused=f"no objects can be made of its spec: {error!r}")
        for batch in missing:
            errors = await self._create_all(key, batch, made)
            if errors:
                break
        if made:
            metas = ((resource, obj["metadata"]) for resource, obj in made)
            self._guard.made(record.uid, ((f"{resource.kind} {meta['name']}", meta["uid"]) for resource, meta in metas))
        if not errors:
            return (
                await self._release(key, Complete(record.uid)) if self._is_gated(record) else ActionResult(record.uid)
            )
        refusal = next((error for error in errors if isinstance(error, REFUSALS)), None)
        if refusal is None:
            return ActionResult(record.uid, failed=str(errors[0]))
        if undo and await self._undo(key, record, made):
            self._guard.forget(record.uid)
            return ActionResult(record.uid, refused=_words(refusal))
        return ActionResult(record.uid, failed=str(refusal))

    def _is_gated(self, record: JobRecord) -> bool:
        """Admission put our gate onto pods that we made, because their template names the rule."""
        return any(pod.gated for pod in self._cache.pods_of(record.uid).values())

    def _missing(self, record: JobRecord) -> list[list[tuple[Resource, Object]]]:
        """What the cache does not have yet, in batches that may be created together."""
        job, obj = record.job, record.object
        first: list[tuple[Resource, Object]] = []
        rest: list[tuple[Resource, Object]] = []
        if self._cache.pod_groups.get(job.namespace, job.pod_group) is None:
            first.append((POD_GROUPS, objects.pod_group(job, obj)))
        if self._cache.services.get(job.namespace, job.leader) is None:
            rest.append((SERVICES, objects.service(job, obj)))
        present = self._cache.pods_of(record.uid)
        wanted = objects.pods(job, obj, self._clusterd)
        rest += [(PODS, pod) for name, pod in wanted.items() if name not in present]
        return [first, rest]

    async def _create_all(
        self, key: ServiceKey, batch: list[tuple[Resource, Object]], made: list[tuple[Resource, Object]]
    ) -> list[KubeError]:
        """Create all, wait for all; what exists afterwards is added to `made`."""
        results = await _gather([self._create(key, resource, body) for resource, body in batch])
        made += [(resource, made_) for (resource, _), made_ in zip(batch, results, strict=True) if _is_object(made_)]
        return [error for error in results if isinstance(error, KubeError)]

    async def _create(self, key: ServiceKey, resource: Resource, body: Object) -> Object:
        created = await self._writer.create(resource, body["metadata"]["namespace"], body)
        meta = created["metadata"]
        self._expectations.expect(
            key, self._stores[resource], meta["namespace"], meta["name"], meta["uid"], meta["resourceVersion"]
        )
        return created

    async def _undo(self, key: ServiceKey, record: JobRecord, made: list[tuple[Resource, Object]]) -> bool:
        """Leave nothing of a refused instance: False when a pod stays, because a scheduler was quick to bind it, or
        because it was there before and the watch has not shown it.

        What stays makes the instance incomplete, for the next pass.
        """
        pods = {obj["metadata"]["name"]: obj for resource, obj in made if resource is PODS}
        unseen = self._none_there(record, (name for name in record.job.pods if name not in pods))
        results = await _gather([*(self._delete_unbound(key, pod) for pod in pods.values()), unseen])
        gone = all(result in (True, None) for result in results)
        if gone:
            rest = [(resource, obj["metadata"]) for resource, obj in reversed(made) if resource is not PODS]
            results += await _gather([self._delete(key, resource, meta) for resource, meta in rest])
        for error in results:
            if isinstance(error, KubeError):
                _log.warning("undo failed", service=str(key), error=str(error))
        return gone

    async def _delete_unbound(self, key: ServiceKey, pod: Object) -> bool:
        """Delete a pod exactly as it was seen, and look again when it is not so any more. False when it is bound."""
        for _ in range(UNDO_TRIES):
            if pod["spec"].get("nodeName"):
                return False
            try:
                await self._delete(key, PODS, pod["metadata"], exactly=True)
                return True
            except ConflictError:
                with suppress(NotFoundError):
                    pod = await self._writer.get(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
        return False

    # revoke

    async def _revoke(self, key: ServiceKey, record: JobRecord) -> ActionResult:
        """Delete the pods that are not bound, then the PodGroup. One that got bound meanwhile is left alone."""
        unbound = [pod for pod in self._cache.pods_of(record.uid).values() if not pod.node and not pod.terminating]
        if unbound:
            self._guard.forget(record.uid)
        metas = [_meta(pod.namespace, pod.name, pod.uid, pod.resource_version) for pod in unbound]
        results = await _gather([self._delete(key, PODS, meta, exactly=True) for meta in metas])
        errors = [error for error in results if isinstance(error, KubeError)]
        group = self._cache.pod_groups.get(record.namespace, record.job.pod_group)
        if not errors and group is not None and group.owner_uid == record.uid:
            meta = _meta(group.namespace, group.name, group.uid, group.resource_version)
            results = await _gather([self._delete_group(key, record, meta)])
            errors = [error for error in results if isinstance(error, KubeError)]
        return ActionResult(record.uid, failed=str(errors[0]) if errors else "")

    async def _delete_group(self, key: ServiceKey, record: JobRecord, meta: dict[str, str]) -> None:
        """Delete the PodGroup, unless a pod is there after all: no precondition of the PodGroup would tell."""
        await self._none_there(record, record.job.pods)
        await self._delete(key, POD_GROUPS, meta)

    async def _none_there(self, record: JobRecord, names: Iterable[str]) -> None:
        """NotSentError where one of these pods exists: the watch of pods may be far behind."""
        for pod in await _gather([self._pod_there(record, name) for name in names]):
            if isinstance(pod, KubeError):
                raise pod
            if pod:
                raise NotSentError(f"{pod} of it exists, which the watch has not shown yet")

    async def _pod_there(self, record: JobRecord, name: str) -> str:
        """The name of the instance's pod if it exists and stays, else ""."""
        try:
            pod = await self._writer.get(PODS, record.namespace, name)
        except NotFoundError:
            return ""
        stays = controller_uid(pod) == record.uid and "deletionTimestamp" not in pod["metadata"]
        return f"pod {name}" if stays else ""

    async def _delete(
        self, key: ServiceKey, resource: Resource, meta: dict[str, str], *, exactly: bool = False
    ) -> None:
        """`exactly` = only the version that the decision saw: a pod that was bound since then has another."""
        version = meta["resourceVersion"] if exactly else ""
        await self._writer.delete(resource, meta["namespace"], meta["name"], uid=meta["uid"], resource_version=version)
        self._expectations.expect_gone(key, self._stores[resource], meta["namespace"], meta["name"], meta["uid"])


def _meta(namespace: str, name: str, uid: str, resource_version: str) -> dict[str, str]:
    return {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": resource_version}


def _is_object(result: object) -> bool:
    return isinstance(result, dict)


def _words(error: KubeError) -> str:
    return error.message if isinstance(error, StatusError) else str(error)


async def _gather(calls: list[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Run all to their end; errors of the seam are results, anything else is a bug and is raised."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, KubeError):
            raise result
    return results
