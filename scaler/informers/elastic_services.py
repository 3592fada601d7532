"""ElasticServices as the cache keeps them. Their status is ours and is not read here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from scaler.decide.world import ServiceKey
from scaler.informers.changes import ElasticServiceChanged
from scaler.informers.indexes import Index
from scaler.informers.store import Store
from scaler.kube.metadata import LONGEST_NAME, Metadata, Stored, shared, version_of
from scaler.names import MANAGED_BY, MANAGED_BY_LABEL
from scaler.rules.rule import ALL


class _Spec(msgspec.Struct, frozen=True, gc=False):
    rule: str = ""
    job_id: str = msgspec.field(default="", name="jobID")
    replicas: msgspec.Raw = msgspec.Raw(b"")
    """Anything, where an older definition knows no such field."""


class ElasticServiceObject(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: _Spec = _Spec()


class ElasticServiceRecord(Stored, frozen=True, gc=False):
    service: ServiceKey
    ours: bool
    """Whether the scaler made it, so that it may delete it."""
    generation: int = 0
    replicas: int = ALL
    """Instances that it asks for in all."""

    @property
    def goes_with_its_jobs(self) -> bool:
        """The scaler made it, and it asks for no number of instances."""
        return self.ours and self.replicas == ALL


def elastic_service_record(obj: ElasticServiceObject) -> ElasticServiceRecord | None:
    """None for one that can be about no service."""
    meta = obj.metadata
    spec = obj.spec
    if not spec.rule or max(len(spec.rule), len(spec.job_id)) > LONGEST_NAME:
        return None
    namespace = shared(meta.namespace)
    digits = bytes(spec.replicas)
    # What is no number of instances, an int32, asks for all: no service ends by a slip.
    number = int(digits) if digits.isdigit() and len(digits) <= 10 else ALL
    return ElasticServiceRecord(
        *meta.identity,
        service=ServiceKey(namespace, shared(spec.rule), shared(spec.job_id)),
        ours=meta.labels.get(MANAGED_BY_LABEL) == MANAGED_BY,
        generation=meta.generation,
        replicas=min(number, ALL),
    )


class ElasticServices:
    """The store, and which of its objects are about a service."""

    def __init__(self, publish: Callable[[ElasticServiceChanged], None]) -> None:
        self.store: Store[ElasticServiceRecord] = Store(self._on_change)
        self._publish = publish
        self._ours: Counter[str] = Counter()
        """Namespace -> how many of its objects the scaler made."""
        self._about: Index[ServiceKey, str, ElasticServiceRecord] = Index()

    def of(self, key: ServiceKey) -> list[ElasticServiceRecord]:
        """The ElasticServices of this service, that of a user first: it counts, and any other is
        too much."""
        return sorted(self._about.of(key).values(), key=lambda record: (record.ours, record.name))

    def replicas(self, key: ServiceKey) -> int:
        """Instances asked for in all of the service, as many as its rule allows where there is no
        object about it."""
        return next((record.replicas for record in self.of(key)), ALL)

    def number_of_ours(self, namespace: str) -> int:
        """Objects in this namespace that the scaler made."""
        return self._ours[namespace]

    def services(self) -> Iterable[ServiceKey]:
        return tuple(self._about)

    def _on_change(
        self, old: ElasticServiceRecord | None, new: ElasticServiceRecord | None
    ) -> None:
        """A new version of which nothing is read, mostly our own status, is not published."""
        if old is not None:
            self._about.drop(old.service, old.name)
            self._count(old, -1)
        if new is not None:
            self._about.put(new.service, new.name, new)
            self._count(new, 1)
        back = same = False
        if old is not None and new is not None:
            back = version_of(new.resource_version) < version_of(old.resource_version)
            same = replace(old, resource_version=new.resource_version) == new
        if back or not same:
            for key in sorted({record.service for record in (old, new) if record is not None}):
                self._publish(ElasticServiceChanged(key, back))

    def _count(self, record: ElasticServiceRecord, number: int) -> None:
        if record.ours:
            self._ours[record.namespace] += number
            if not self._ours[record.namespace]:
                del self._ours[record.namespace]
