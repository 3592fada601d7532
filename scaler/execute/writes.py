"""Writes to the objects of instances. Each write has to be seen in the watch before its service is
decided again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from scaler.decide.world import ServiceKey
from scaler.execute.assumed import AssumedWrites
from scaler.informers.cache import Cache
from scaler.informers.store import Store
from scaler.kube.api import ASCEND_JOBS, POD_GROUPS, PODS, SERVICES, Object, PatchType, Resource
from scaler.kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
)
from scaler.kube.metadata import Stored
from scaler.kube.writer import Writer

REFUSALS = (ForbiddenError, InvalidError, BadRequestError, NotFoundError, AlreadyExistsError)
"""Answers that stay the same if the request is repeated at once."""


class ObjectWriter:
    """Each write names the uid of its object, because names are reused. Raises errors of the
    seam."""

    def __init__(self, writer: Writer, cache: Cache, assumed: AssumedWrites) -> None:
        self._writer = writer
        self._assumed = assumed
        self._stores: dict[Resource, Store[Any]] = {
            ASCEND_JOBS: cache.jobs,
            PODS: cache.pods,
            POD_GROUPS: cache.pod_groups,
            SERVICES: cache.kube_services,
        }

    async def create(self, key: ServiceKey, resource: Resource, body: Object) -> Object:
        """The object after the write; an object that existed already counts as created."""
        created = await self._writer.create(resource, body["metadata"]["namespace"], body)
        self.assume(key, resource, created)
        return created

    async def patch(
        self, key: ServiceKey, resource: Resource, known: Stored, patch: Any, patch_type: PatchType
    ) -> Stored:
        """Send the patch, which has to contain the uid; the object after it."""
        after = await self._writer.patch(
            resource, known.namespace, known.name, patch, patch_type=patch_type
        )
        self.assume(key, resource, after)
        return identity_of(after)

    def assume(self, key: ServiceKey, resource: Resource, after: Object) -> None:
        """Note that the watch has to show the object as it is `after` the write before the next
        decision about it."""
        self._assumed.assume(key, self._stores[resource], identity_of(after))

    async def delete(
        self, key: ServiceKey, resource: Resource, known: Stored, *, propagation_policy: str = ""
    ) -> None:
        """A pod is deleted only in the version that the decision saw: one that was bound since then
        has another."""
        version = known.resource_version if resource is PODS else ""
        await self._writer.delete(
            resource,
            known.namespace,
            known.name,
            uid=known.uid,
            resource_version=version,
            propagation_policy=propagation_policy,
        )
        self._assumed.assume_gone(key, self._stores[resource], known)


def identity_of(obj: Object) -> Stored:
    meta = obj["metadata"]
    return Stored(meta["namespace"], meta["name"], meta["uid"], str(meta["resourceVersion"]))


async def gathered(calls: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Run all calls to their end; errors of the seam are results, other errors are bugs and are
    raised."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, KubeError):
            raise result
    return results


async def all_done(calls: Sequence[Coroutine[Any, Any, Any]]) -> None:
    """Run all calls to their end, then raise the gravest error: first one that stays the same if
    repeated."""
    errors = [result for result in await gathered(calls) if isinstance(result, KubeError)]
    if errors:
        raise gravest(errors)


def gravest(errors: Sequence[KubeError]) -> KubeError:
    """The first error that stays the same if repeated; without one the first of all."""
    for error in errors:
        if isinstance(error, REFUSALS):
            return error
    return errors[0]
