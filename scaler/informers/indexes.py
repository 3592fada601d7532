"""Indexes of instances: those that are jobs, those that only pods name, what owners of pods say,
and all by service.

    AscendJob, Volcano Job -> JobInstances
    pod -> membership (workloads/<kind>.py) -> PodInstances: its pods, the objects that describe it
    Deployment, LeaderWorkerSet, ... -> Owners: sizes, ages, newest revisions

Indexes and nothing else: they decide nothing and never talk to the cluster."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from scaler.decide.world import ServiceKey
from scaler.informers.jobs import JobRecord
from scaler.informers.pods import PodRecord
from scaler.informers.records import OwnedRecord
from scaler.informers.store import Name, Store
from scaler.workloads.kinds import OWNER_SOURCES
from scaler.workloads.membership import (
    NO_LABELS,
    Labels,
    Membership,
    OwnerFacts,
    OwnerName,
    RoleTemplate,
    as_admitted,
    identity,
)

COUNTING = frozenset(
    source.resource.kind
    for sources in OWNER_SOURCES.values()
    for source in sources
    if source.counts_instances
)
"""Kinds whose replicas are instances."""
_WORKLOADS = ("StatefulSet", "ReplicaSet")
"""Kinds that make pods as long as they exist and ask for any."""
K = TypeVar("K", bound=Hashable)
N = TypeVar("N", bound=Hashable)
V = TypeVar("V")


class Index(Generic[K, N, V]):
    """Values by a key that several share and a name that is theirs alone. Of a key without values
    nothing is left."""

    def __init__(self) -> None:
        self._by_key: dict[K, dict[N, V]] = {}

    def put(self, key: K, name: N, value: V) -> None:
        self._by_key.setdefault(key, {})[name] = value

    def drop(self, key: K, name: N) -> None:
        known = self._by_key.get(key)
        if known is not None:
            known.pop(name, None)
            if not known:
                del self._by_key[key]

    def of(self, key: K) -> Mapping[N, V]:
        return self._by_key.get(key, {})

    def __iter__(self) -> Iterator[K]:
        return iter(self._by_key)


class Services:
    """The services that have instances, by key, rule and namespace, and the uids of their
    instances."""

    def __init__(self) -> None:
        self.by_key: Index[ServiceKey, str, None] = Index()
        self.by_rule: Index[Name, ServiceKey, None] = Index()
        self.within: Index[str, ServiceKey, None] = Index()
        """Namespace -> its services that name a rule."""

    def put(self, key: ServiceKey, uid: str) -> None:
        self.by_key.put(key, uid, None)
        if key.rule:
            self.by_rule.put((key.namespace, key.rule), key, None)
            self.within.put(key.namespace, key, None)

    def drop(self, key: ServiceKey, uid: str) -> None:
        self.by_key.drop(key, uid)
        if not self.by_key.of(key):
            self.by_rule.drop((key.namespace, key.rule), key)
            self.within.drop(key.namespace, key)


class JobInstances:
    """The instances of each service that are jobs. A job whose labels are wrong stays in the
    service in which it was admitted."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.by_uid: dict[str, JobRecord] = {}
        self.mislabelled: set[str] = set()
        """Uids of those that count as they did when they were admitted."""
        self._by_pod_names: dict[Name, str] = {}
        """Namespace and prefix of names of pods -> uid of their job."""

    def of_name(self, record: PodRecord | OwnedRecord) -> str:
        """The job of whose pods one may have this name, by uid; "" when there is none."""
        return self._by_pod_names.get(
            (record.namespace, record.name[: record.name.rfind("-") + 1]), ""
        )

    def add(self, record: JobRecord) -> None:
        self.by_uid[record.uid] = record
        if record.job.mislabelled:
            self.mislabelled.add(record.uid)
        self._services.put(record.job.key, record.uid)
        for start, _ in record.job.replicas:
            self._by_pod_names[record.namespace, start] = record.uid

    def remove(self, record: JobRecord) -> None:
        self.by_uid.pop(record.uid, None)
        self.mislabelled.discard(record.uid)
        self._services.drop(record.job.key, record.uid)
        for start, _ in record.job.replicas:
            if self._by_pod_names.get((record.namespace, start)) == record.uid:
                del self._by_pod_names[record.namespace, start]


class Gone(NamedTuple):
    """An instance whose pods are all gone, and in whose place its owner makes another."""

    pods: tuple[PodRecord, ...]
    """Its last pods."""
    since: float


class PodInstances:
    """The instances that only pods name.

    An owner may take seconds to make an instance again. Until then the instance stays, without
    pods: what it has lost is kept for it."""

    def __init__(
        self,
        services: Services,
        is_made_again: Callable[[Membership, PodRecord], bool],
        now: Callable[[], float],
    ) -> None:
        """`is_made_again(membership, last)`: whether the owner makes an instance in place of one
        whose last pod this was."""
        self._services = services
        self._is_made_again = is_made_again
        self._now = now
        self.gone: dict[str, Gone] = {}
        """By instance, the first that went first."""
        self._past: Index[str, str, PodRecord] = Index()
        """The pods of an instance that are gone, since the last of it came."""
        self.pods: Index[str, str, PodRecord] = Index()
        self.described_by: Index[OwnerName, str, None] = Index()
        """The instances that an object describes."""
        self.by_owner: Index[str, str, None] = Index()
        """The instances of all revisions of one Deployment, LeaderWorkerSet, ..."""
        self.membership: dict[str, Membership] = {}
        """Instance -> what its newest pod says of it."""
        self.labels: dict[str, Labels] = {}
        """The labels with which an instance was first seen: all of them, or none."""
        self.ungated: dict[str, str] = {}
        """Pod uid -> name of pods that were first seen without our gate."""

    def change(self, old: PodRecord | None, new: PodRecord | None) -> list[tuple[str, ServiceKey]]:
        """Take in a change of one pod; gives every instance that it concerns, with its service: the
        one that the pod says, and the one that the instance was in so far, where its newest pod
        says another."""
        concerned = list[tuple[str, ServiceKey]]()
        for record in (old, new):
            membership = membership_in(record)
            if record is None or membership is None:
                continue
            admitted = self.labels.get(membership.instance, NO_LABELS)
            membership = as_admitted(membership, admitted)
            touched = {membership.key, self.membership.get(membership.instance, membership).key}
            if record is new:
                replaced = self._replaced_by(membership)
                if replaced is not None:
                    concerned.append((replaced.instance, replaced.key))
                    self.forget(replaced.instance)
                self._add(record, membership)
            elif new is None or new.uid != record.uid or instance_of(new) != membership.instance:
                self._remove(record, membership)
            for key in sorted(touched):
                concerned.append((membership.instance, key))
        return concerned

    def _add(self, record: PodRecord, membership: Membership) -> None:
        instance = membership.instance
        self.pods.put(instance, record.name, record)
        self._forget_past(instance)
        if membership.label_problem is None and membership.group:
            self.labels.setdefault(
                instance, Labels(membership.key.rule, membership.group, membership.key.job_id)
            )
        before = self.membership.get(instance)
        if before == membership:
            return
        self.membership[instance] = membership
        if before is not None:
            self._unlink(before)
        self._services.put(membership.key, instance)
        if membership.owner:
            self.by_owner.put(membership.owner, instance, None)
        for name in membership.described_by:
            self.described_by.put(name, instance, None)

    def _remove(self, record: PodRecord, membership: Membership) -> None:
        instance = membership.instance
        self.pods.drop(instance, record.name)
        known = self.membership.get(instance)
        if known is None:  # a bug kept the pod out when it came
            return
        self._past.put(instance, record.name, record)
        if self.pods.of(instance):
            return
        if self._is_made_again(known, record):
            self.gone[instance] = Gone(tuple(self._past.of(instance).values()), self._now())
        else:
            self.forget(instance)

    def forget(self, instance: str) -> None:
        """An instance without pods is over."""
        known = self.membership.pop(instance)
        self.labels.pop(instance, None)
        self._forget_past(instance)
        self._unlink(known)

    def _forget_past(self, instance: str) -> None:
        self.gone.pop(instance, None)
        for name in tuple(self._past.of(instance)):
            self._past.drop(instance, name)

    def _replaced_by(self, membership: Membership) -> Membership | None:
        """The first instance that is gone and in whose place its owner makes this one, which is
        new; None for none."""
        if not self.gone or membership.instance in self.membership:
            return None
        for instance in self.gone:
            gone = self.membership[instance]
            if gone.owner and (gone.owner, gone.group) == (membership.owner, membership.group):
                return gone
        return None

    def _unlink(self, membership: Membership) -> None:
        instance = membership.instance
        self._services.drop(membership.key, instance)
        self.by_owner.drop(membership.owner, instance)
        for name in membership.described_by:
            self.described_by.drop(name, instance)


class Owners:
    """Facts about instances that the owners of pods give; an unknown fact counts as not given.
    `changed(name, owner)` is called with the object that changed, and the owner whose newest
    revision or number may have, "" for none."""

    def __init__(self, changed: Callable[[OwnerName, str], None]) -> None:
        self._changed = changed
        self.stores: dict[str, Store[OwnerFacts]] = {
            resource.kind: Store(self._on_change) for resource in OWNER_SOURCES
        }
        """By kind."""
        self._by_owner: Index[str, OwnerName, OwnerFacts] = Index()

    def get(self, kind: str, namespace: str, name: str) -> OwnerFacts | None:
        store = self.stores.get(kind)
        return store.get(namespace, name) if store is not None else None

    def newest_revision(self, owner: str) -> str:
        """The revision that this owner makes now; "" where no object says it."""
        known = self._by_owner.of(owner).values()
        if not known:
            return ""
        return max(known, key=lambda facts: (facts.rank, facts.created, facts.name)).revision

    def wanted(self, owner: str) -> int:
        """The number of instances that this owner should have; 0 = not known."""
        kind, _, name = owner.partition("/")
        facts = self.get(kind, *name.split("/", 1)) if "/" in name else None
        return facts.wanted if facts is not None else 0

    def template(self, found: Membership) -> RoleTemplate | None:
        """What the owner of an instance makes now, as its template says; None where none does."""
        kind, _, name = found.owner.partition("/")
        namespace, _, rest = name.partition("/")
        owner, _, role = rest.partition("/")
        for source in ((kind, namespace, owner), *found.described_by):
            facts = self.get(*source)
            for template in facts.templates if facts is not None else ():
                if template.role == role:
                    return template
        return None

    def knows_number(self, found: Membership) -> bool:
        """Whether the owner of an instance says how many it makes, as long as it exists."""
        return found.owner.partition("/")[0] in COUNTING

    def asks_for_pods(self, found: Membership) -> bool:
        """Whether the workload of an instance exists and asks for pods. One that is not known is
        taken to."""
        for kind, namespace, name in found.described_by:
            facts = self.get(kind, namespace, name)
            is_over = facts is None or not facts.size
            if kind in _WORKLOADS and is_over:
                return False
        return True

    def _on_change(self, old: OwnerFacts | None, new: OwnerFacts | None) -> None:
        if old is not None and old.owner:
            self._by_owner.drop(old.owner, _name(old))
        if new is not None and new.owner:
            self._by_owner.put(new.owner, _name(new), new)
        facts = new or old
        if facts is not None:
            owner = identity(*_name(facts)) if facts.kind in COUNTING else facts.owner
            same = old is not None and new is not None and _revision(old) == _revision(new)
            self._changed(_name(facts), "" if same else owner)


def membership_in(record: PodRecord | None) -> Membership | None:
    """The service and instance of the pod by its labels and owners; None without them."""
    return (
        record.governed.membership if record is not None and record.governed is not None else None
    )


def instance_of(record: PodRecord) -> str:
    """The identity of the instance that the pod belongs to; "" where it names none."""
    membership = membership_in(record)
    return membership.instance if membership is not None else ""


def _name(facts: OwnerFacts) -> OwnerName:
    return facts.kind, facts.namespace, facts.name


def _revision(facts: OwnerFacts) -> tuple[object, ...]:
    return facts.revision, facts.rank, facts.wanted, facts.templates
