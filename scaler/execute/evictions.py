"""Keeps the evictions that were counted for a service outside of the process, before they are sent:
3b.4e of the contract. A crash between the two costs a pause, never an eviction more.

    decision: an eviction more -> ConfigMap written -> pods deleted
    served for stable_after    -> ConfigMap deleted (the reporter)"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from scaler.decide.attempts import remember_evictions
from scaler.decide.decision import NOBODY, Evict, Plan
from scaler.decide.memory import Evictions, Memory, ServiceMemory
from scaler.decide.world import ServiceKey
from scaler.defaults import MOST_KEPT
from scaler.kube.api import CONFIG_MAPS, Object, PatchType
from scaler.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    KubeError,
    NotFoundError,
    NotSentError,
    UnknownOutcomeError,
)
from scaler.kube.writer import Writer
from scaler.state.cluster import ClusterState
from scaler.state.kept_evictions import decode, encode

_LOST = (AlreadyExistsError, ConflictError, NotFoundError, UnknownOutcomeError)
"""After these the object may be another one than the watch has shown."""


class Counted(NamedTuple):
    """A service for which somebody is evicted, and the evictions with this one."""

    key: ServiceKey
    evictions: Evictions


CountedOf = Mapping[str, Counted]
"""The beneficiary of an eviction, as `str(ServiceKey)` -> what is kept before it is sent."""


class EvictionCounts:
    """One per process. It knows which services have evictions that count."""

    def __init__(
        self,
        writer: Writer,
        state: ClusterState,
        *,
        most: int = MOST_KEPT,
        tell: Callable[[ServiceKey, str], None] = lambda _key, _words: None,
    ) -> None:
        """`most`: services of one namespace for which evictions are kept. `tell` is called for one
        more, with words that say so."""
        self._writer = writer
        self._state = state
        self._most = most
        self._tell = tell
        self._counted: dict[str, Counted] = {}

    def remembered(self, memory: Memory, key: ServiceKey, now: float) -> Memory:
        """The memory with what an earlier leader counted, for a service that was not seen
        before."""
        kept = self._state.evictions(key, now)
        if kept.number:
            self._counted[str(key)] = Counted(key, kept)
        return remember_evictions(memory, str(key), kept)

    def of(self, memory: Memory, plan: Plan) -> dict[str, Counted]:
        """What is kept before the evictions of this plan are sent. `memory`: the one of the
        decision."""
        beneficiaries = {one.beneficiary for one in plan.actions if isinstance(one, Evict)}
        found = {}
        for name in beneficiaries - {NOBODY}:
            evictions = memory.services.get(name, ServiceMemory()).evictions
            if evictions.number:
                found[name] = Counted(_key_of(name), evictions)
        self._counted |= found
        return found

    def take_those_that_ended(self, memory: Memory) -> list[Counted]:
        """The services of which no eviction counts any more, each once."""
        ended = []
        for name, counted in list(self._counted.items()):
            known = memory.services.get(name)
            if known is not None and not known.evictions.number:
                ended.append(counted)
                del self._counted[name]
        return ended

    def counts(self, key: ServiceKey) -> bool:
        """Whether evictions for the service count."""
        return str(key) in self._counted

    def forget(self, key: ServiceKey) -> None:
        """The service is gone."""
        self._counted.pop(str(key), None)

    async def keep(self, counted: Counted) -> None:
        """Write it; a KubeError when that is not certain: then the eviction must not be sent. Nor
        is it when another leader has counted since this one read."""
        place = self._state.place_of_evictions(counted.key)
        body = encode(place, counted.key, counted.evictions)
        record = self._state.cache.config_maps.get(*place)
        existing = record.own if record is not None else None
        if existing is not None and self._is_kept(existing, counted):
            return
        if record is None:
            self._refuse_beyond_limit(counted.key)
        try:
            if record is None:
                await self._writer.create(CONFIG_MAPS, place.namespace, body)
                return
            metadata = {"uid": record.uid, "resourceVersion": record.resource_version}
            patch = {"data": body["data"], "metadata": metadata}
            await self._writer.patch(CONFIG_MAPS, *place, patch, patch_type=PatchType.MERGE)
        except _LOST as error:
            if not self._is_kept(await self._present(place, error), counted):
                raise

    def _refuse_beyond_limit(self, key: ServiceKey) -> None:
        """NotSentError where as many are kept for the namespace as may be."""
        if self._state.number_of_kept_evictions(key.namespace) < self._most:
            return
        what = f"the evictions for {self._most:,} services of namespace {key.namespace} are counted"
        words = (
            f"nobody is evicted for this service: {what}, which is the limit (kept_per_namespace)."
            " Delete jobs of services that never serve"
        )
        self._tell(key, words)
        raise NotSentError(words)

    async def _present(self, place: tuple[str, str], error: KubeError) -> Object:
        try:
            return await self._writer.get(CONFIG_MAPS, *place)
        except NotFoundError:
            raise error from None

    @staticmethod
    def _is_kept(existing: Object, counted: Counted) -> bool:
        """Whether it is kept already. NotSentError when as many or more are."""
        kept = decode(existing, counted.key)
        if kept is not None and kept != counted.evictions:
            if kept.made >= counted.evictions.made:
                words = f"{kept.made} evictions for {counted.key} are counted already"
                raise NotSentError(words)
            return False
        return kept is not None


def _key_of(name: str) -> ServiceKey:
    """The service of this name, as `str(ServiceKey)`: no part of it has a slash."""
    namespace, rule, job_id = name.split("/")
    return ServiceKey(namespace, rule, "" if job_id == NOBODY else job_id)
