"""The cluster as the scaler has seen it: records and the indexes between them, and what each
change concerns.

    Store (one per resource type) -> Cache -> Changes

Informers alone write it (`look_up` and `take_in_rank_table` with answers to requests); everything
else reads it or subscribes to its changes. It decides nothing and never talks to the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

import msgspec

from scaler.decide.world import ServiceKey
from scaler.informers.changes import (
    BudgetsChanged,
    Changes,
    JobChanged,
    NodeChanged,
    NpuPluginSeen,
    ObjectRefused,
    OwnConfigMapGone,
    PodChanged,
    ServiceChanged,
)
from scaler.informers.config_maps import (
    MOST_CONTENT,
    ConfigMapObject,
    ConfigMapRecord,
    RankTableMap,
    bytes_of_content,
    config_map_record,
    without_content,
)
from scaler.informers.elastic_services import ElasticServices
from scaler.informers.faults import FaultData, faulty_devices
from scaler.informers.hyper_nodes import HyperNodes
from scaler.informers.indexes import (
    Index,
    JobInstances,
    Owners,
    PodInstances,
    Services,
    instance_of,
    membership_in,
)
from scaler.informers.jobs import JobRecord
from scaler.informers.last_nodes import LastNodes
from scaler.informers.npu_nodes import as_placed
from scaler.informers.pods import PodRecord
from scaler.informers.records import (
    BudgetRecord,
    NodeRecord,
    OwnedRecord,
    PriorityRecord,
    says_the_same,
)
from scaler.informers.refusals import Refusals
from scaler.informers.refused_pods import RefusedPods
from scaler.informers.store import Name, Store
from scaler.kube.api import ASCEND_JOBS, Object
from scaler.names import RANK_TABLE_PREFIX
from scaler.workloads.ascendjob import RETRIES
from scaler.workloads.membership import NO_LABELS, Labels, Membership, OwnerName, as_admitted
from scaler.workloads.npu_rules import CONFIGURATION
from scaler.workloads.super_pods import LARGEST_SUPER_POD
from scaler.workloads.volcanojob import VOLCANO_JOBS

OPERATOR_DEPLOYMENT = "ascend-operator-manager"
MOST_SCHEDULERS = 64
"""The largest number of names of schedulers that are remembered."""
GONE_FOR = 300.0
"""Seconds for which an instance without pods waits for its owner to make another: `backoff_max` by
default."""
R = TypeVar("R")


class Cache:
    """The stores, and the indexes between them. What changes is published; `now` gives seconds
    since the epoch.

    `operator_namespace`: where Ascend Operator is. A Deployment elsewhere must not stop the pods of
    others. `knows_rule(namespace, name)`: whether there is such a rule, or ever was."""

    def __init__(
        self,
        changes: Changes,
        now: Callable[[], float],
        operator_namespace: str = "mindx-dl",
        knows_rule: Callable[[str, str], bool] = lambda _, name: bool(name),
    ) -> None:
        self._publish = changes.publish
        self._now = now
        self._knows_rule = knows_rule
        self._operator: OwnerName = ("Deployment", operator_namespace, OPERATOR_DEPLOYMENT)
        self.jobs: Store[JobRecord] = Store(self._on_job)
        self.volcano_jobs: Store[JobRecord] = Store(self._on_job)
        self._jobs_by_kind = {
            ASCEND_JOBS.kind: self.jobs,
            VOLCANO_JOBS.kind: self.volcano_jobs,
        }
        self.pods: Store[PodRecord] = Store(self._on_pod)
        self.pod_groups: Store[OwnedRecord] = Store(self._on_owned)
        self.kube_services: Store[OwnedRecord] = Store(self._on_owned)
        self.config_maps: Store[ConfigMapRecord] = Store(self._on_config_map)
        self.reports: Store[ConfigMapRecord] = Store(self._on_report)
        """ConfigMaps of MindCluster's namespaces, where `config_maps` does not reach them."""
        self._content: Counter[str] = Counter()
        """Namespace -> bytes of what its ConfigMaps in `config_maps` say."""
        self.faults = FaultData(self._on_faults)
        self.budgets: Store[BudgetRecord] = Store(self._on_budget)
        self.nodes: Store[NodeRecord] = Store(self._on_node)
        self.hyper_nodes = HyperNodes(self._on_hyper_nodes)
        self.priorities: Store[PriorityRecord] = Store(self._on_priority)
        self.elastic_services = ElasticServices(self._publish)
        self.last_bind = 0.0
        """When any pod was last seen to become bound; 0.0 = never."""
        self.last_binds: dict[str, float] = {}
        """The same by `schedulerName`; of a larger number of them the last `MOST_SCHEDULERS`."""
        self.arrived_ungated = 0
        """Pods that name a rule and were seen for the first time, not in the first list, and
        without our gate."""
        self.marked = set[str]()
        """Uids of the pods that are marked for their deletion and not deleted yet: mostly none."""
        self.owners = Owners(self._on_owner)
        self._services = Services()
        self.job_instances = JobInstances(self._services)
        self.pod_instances = PodInstances(self._services, self.is_made_again, now)
        self.refusals = Refusals(self._on_refused, now)
        self.refused_pods = RefusedPods(now)
        self.last_nodes = LastNodes()
        self._pods_by_owner: Index[Name, str, PodRecord] = Index()
        """By the namespace and uid of their job: an owner reference is only words, and may name any
        uid."""
        self._instances_by_node: Index[str, str, str] = Index()
        """Node -> uid of a pod on that node -> its instance."""
        self._instances_by_group: Index[Name, str, str] = Index()
        """Namespace and name of a PodGroup -> uid of a pod that names it -> its instance."""
        self.places_npus = False
        """MindCluster's plugin places the pods with NPUs."""
        self.largest_super_pod = LARGEST_SUPER_POD
        """As the plugin's configuration says."""
        self._npu_nodes = set[str]()
        """The nodes with NPUs as MindCluster's device plugin describes them, and device data."""

    # reading

    def service_keys(self) -> Iterable[ServiceKey]:
        """All services that have instances, in no order."""
        return self._services.by_key

    def uids_of(self, key: ServiceKey) -> Collection[str]:
        """The instances of a service, in no order."""
        return self._services.by_key.of(key)

    def job(self, uid: str) -> JobRecord | None:
        return self.job_instances.by_uid.get(uid)

    def pods_of(self, uid: str) -> Mapping[str, PodRecord]:
        """The pods of this instance by name: those that its job controls, or whose labels name
        it."""
        job = self.job(uid)
        return (
            self.pod_instances.pods.of(uid)
            if job is None
            else self._pods_by_owner.of((job.namespace, uid))
        )

    def present_pods(self, uid: str) -> list[PodRecord]:
        """The pods of this instance that are not terminating, by name."""
        return sorted(
            (pod for pod in self.pods_of(uid).values() if not pod.terminating),
            key=lambda pod: pod.name,
        )

    def pod_group_of(self, record: JobRecord) -> OwnedRecord | None:
        """The PodGroup of a job; None also where the one of this name has another owner."""
        group = self.pod_groups.get(record.namespace, record.job.pod_group)
        return group if group is not None and group.owner_uid == record.uid else None

    def retries_left(self, namespace: str, pod_group: str) -> int | None:
        """Restarts that Volcano's plugin leaves the job of this PodGroup; None without a count."""
        record = self.config_maps.get(*RETRIES)
        counts = record.retries if record is not None else None
        return counts.get(f"{namespace}/{pod_group}") if counts else None

    def labels_when_admitted(self, uid: str) -> Labels:
        """The labels of this instance when it was admitted; none where nothing has kept them."""
        job = self.job(uid)
        if job is None:
            return self.pod_instances.labels.get(uid, NO_LABELS)
        group = self.pod_group_of(job)
        return group.labels if group is not None else NO_LABELS

    def service_of(self, uid: str) -> ServiceKey | None:
        """The service of an instance. None when there is no such instance: pods of training jobs
        come and go, too."""
        job = self.job(uid)
        membership = self.pod_instances.membership.get(uid)
        if job is not None:
            return job.job.key
        return membership.key if membership is not None else None

    def is_made_again(self, membership: Membership, last: PodRecord) -> bool:
        """Whether the owner of an instance that only pods name makes another in its place, now that
        no pod of it lives. `last`: one of its last pods; one that was never bound left nothing."""
        has_owner = membership.owner or not membership.mortal
        if not last.node or not has_owner or _is_alone(last):
            return False
        if self.owners.knows_number(membership):
            return self.wants(membership)
        for uid in self.pod_instances.by_owner.of(membership.owner):
            if _replaces(self.pod_instances.pods.of(uid).values(), last):
                return False
        return self.owners.asks_for_pods(membership)

    def wants(self, membership: Membership) -> bool:
        """Whether its owner wants this instance beside the others of it that have pods which stay.
        An owner whose number is not known is taken to."""
        if not self.owners.knows_number(membership):
            return True
        lacking = self.owners.wanted(membership.owner)
        for uid in self.pod_instances.by_owner.of(membership.owner):
            if lacking <= 0:
                break
            pods = self.pod_instances.pods.of(uid).values()
            stays = any(not pod.terminating for pod in pods)
            lacking -= stays and uid != membership.instance
        return lacking > 0

    def forget_gone(self, key: ServiceKey) -> None:
        """Forget the instances of a service that are gone for `GONE_FOR`."""
        for uid, end in self._gone_of(key):
            if end <= self._now():
                self.pod_instances.forget(uid)
                self._publish(ServiceChanged(key, uid))

    def gone_for(self, key: ServiceKey) -> float:
        """Seconds until an instance of the service that is gone is forgotten; 0.0 = none is."""
        return min([end - self._now() for _, end in self._gone_of(key)], default=0.0)

    def _gone_of(self, key: ServiceKey) -> list[tuple[str, float]]:
        """The instances of the service that are gone, and when they are forgotten."""
        gone = []
        for uid, one in self.pod_instances.gone.items():
            if self.pod_instances.membership[uid].key == key:
                gone.append((uid, one.since + GONE_FOR))
        return gone

    def uids_on_nodes(self) -> set[str]:
        """The instances with a pod that is on a node."""
        found = set[str]()
        for node in self._instances_by_node:
            found.update(self._instances_by_node.of(node).values())
        return found

    def services_of(self, namespace: str, rule: str) -> Collection[ServiceKey]:
        return self._services.by_rule.of((namespace, rule))

    def services_within(self, namespace: str) -> list[ServiceKey]:
        """The services of one namespace that name a rule."""
        return sorted(self._services.within.of(namespace))

    def ascend_operator(self) -> str:
        """`namespace/name` of the Ascend Operator that has replicas, "" when there is none."""
        found = self.owners.get(*self._operator)
        return f"{found.namespace}/{found.name}" if found is not None and found.size > 0 else ""

    def ascend_operators_elsewhere(self) -> list[str]:
        """`namespace/name` of Deployments of that name in other namespaces: they do not count."""
        found = self.owners.stores["Deployment"].values()
        names = list[str]()
        for each in found:
            here = (each.namespace, each.name) == self._operator[1:]
            if each.name == OPERATOR_DEPLOYMENT and each.size > 0 and not here:
                names.append(f"{each.namespace}/{each.name}")
        return sorted(names)

    def bounded(self, record: ConfigMapRecord) -> ConfigMapRecord:
        """The record as it may be kept in `config_maps`: without its content where its namespace
        has `MOST_CONTENT` bytes without it."""
        known = self.config_maps.get(record.namespace, record.name)
        others = self._content[record.namespace]
        if known is not None:
            others -= bytes_of_content(known)
        is_within = others + bytes_of_content(record) <= MOST_CONTENT
        return record if is_within else without_content(record)

    # following changes

    def take_in_rank_table(self, answer: Object) -> RankTableMap | None:
        """The ConfigMap of a rank table as the API server answers it. If it is the one that is
        known, it is known as it is now at once, however late the watch."""
        record = config_map_record(msgspec.convert(answer, ConfigMapObject))
        known = self.config_maps.get(record.namespace, record.name)
        if known is not None and known.uid == record.uid:
            self.config_maps.apply(self.bounded(record))
        return record.table_map

    def mark(self, *uids: str) -> None:
        """Publish that these instances changed. A uid that is no instance of ours is left out."""
        for uid in uids:
            key = self.service_of(uid)
            if key is not None:
                if self.job(uid) is not None:
                    self._publish(JobChanged(uid))
                self._publish(ServiceChanged(key, uid))

    def _on_job(self, old: JobRecord | None, new: JobRecord | None) -> None:
        before = self.job(old.uid) if old is not None else None
        if before is not None:
            self.job_instances.remove(before)
        if old is not None and (new is None or new.uid != old.uid):
            self.last_nodes.forget(old.namespace, old.uid)
        after = None
        if new is not None and not new.is_foreign:
            after = self._as_admitted(new)
            self.job_instances.add(after)
        for record in (before, after):
            if record is not None:
                self._publish(JobChanged(record.uid))
                self._publish(ServiceChanged(record.job.key, record.uid))

    def _as_admitted(self, record: JobRecord) -> JobRecord:
        """The job. Labels that are missing are those that its PodGroup has kept."""
        job = record.job
        group = self.pod_group_of(record)
        if group is None:
            return record
        other = group.labels.rule not in ("", job.key.rule)
        no_such_rule = other and not self._knows_rule(job.namespace, job.key.rule)
        admitted = as_admitted(job, group.labels, no_such_rule=no_such_rule)
        return record if admitted is job else msgspec.structs.replace(record, job=admitted)

    def _place_again(self, uid: str) -> None:
        """Index the job again: other objects say in which service it counts, and they changed."""
        known = self.job(uid)
        if known is not None:
            job = self._jobs_by_kind[known.kind].get(known.namespace, known.name)
            if job is not None and job.uid == uid and self._as_admitted(job) != known:
                self._on_job(job, job)

    def _on_pod(self, old: PodRecord | None, new: PodRecord | None) -> None:
        if new is not None and new.node and self._is_bind(old, new):
            self._on_bind(new.scheduler)
        if old is not None:
            self.marked.discard(old.uid)
        if new is not None and new.marked and not new.terminating:
            self.marked.add(new.uid)
        self.refused_pods.change(old, new)
        self.last_nodes.change(old, new)
        # Whoever hears that a service changed may count the room at once: the room is first.
        self._publish(PodChanged(old, new))
        # The old one first: both may have the same name.
        if old is not None:
            self._drop_pod(old)
            self._mark_jobs_of(old)
        if new is not None:
            self._put_pod(new)
            self._mark_jobs_of(new)
        if any(record is not None and record.governed is not None for record in (old, new)):
            self._on_governed(old, new)
        for record in (old, new):
            if record is not None and record.node:
                self.mark(*sorted(self.last_nodes.uids_on(record.node)))

    def _on_bind(self, scheduler: str) -> None:
        self.last_bind = self._now()
        last_binds = {name: at for name, at in self.last_binds.items() if name != scheduler}
        last_binds[scheduler] = self.last_bind
        if len(last_binds) > MOST_SCHEDULERS:
            del last_binds[next(iter(last_binds))]
        self.last_binds = last_binds

    def _is_bind(self, old: PodRecord | None, new: PodRecord) -> bool:
        """Whether this pod with a node had none before. What the first list shows may have been
        there for long."""
        if old is None or old.uid != new.uid:
            return self.pods.version > 0
        return not old.node

    def _on_governed(self, old: PodRecord | None, new: PodRecord | None) -> None:
        other = old is None or new is None or old.uid != new.uid
        governed = new is not None and new.governed is not None
        if old is not None and (other or not governed):
            self.pod_instances.ungated.pop(old.uid, None)
        if new is not None and other and governed and self.pods.version and not new.gated:
            self.pod_instances.ungated[new.uid] = new.name
            self.arrived_ungated += 1
        for instance, key in self.pod_instances.change(old, new):
            self._publish(ServiceChanged(key, instance))
            if not self.pod_instances.pods.of(instance):
                self.last_nodes.forget(key.namespace, instance)
        if other:
            for record in (old, new):
                self._on_revision(record)

    def _on_revision(self, record: PodRecord | None) -> None:
        """A pod came or went: where no owner says the newest revision, the pods of all its owner's
        instances do."""
        said = membership_in(record)
        if said is None or not said.owner or self.owners.newest_revision(said.owner):
            return
        others = self.pod_instances.by_owner.of(said.owner)
        if any(self.pod_instances.membership[uid].revision != said.revision for uid in others):
            self.mark(*sorted(others))

    def _on_owner(self, name: OwnerName, owner: str) -> None:
        if name == self._operator:
            concerned = set(self.job_instances.by_uid)
        else:
            concerned = set(self.pod_instances.described_by.of(name))
        if owner:
            concerned.update(self.pod_instances.by_owner.of(owner))
        self.mark(*sorted(concerned))
        for uid in sorted(concerned & self.pod_instances.gone.keys()):
            last = self.pod_instances.gone[uid].pods[-1]
            if not self.is_made_again(self.pod_instances.membership[uid], last):
                self.pod_instances.forget(uid)

    def _drop_pod(self, record: PodRecord) -> None:
        self._pods_by_owner.drop((record.namespace, record.owner_uid), record.name)
        self._instances_by_node.drop(record.node, record.uid)
        self._instances_by_group.drop((record.namespace, _group_of(record)), record.uid)

    def _put_pod(self, record: PodRecord) -> None:
        if record.owner_uid:
            self._pods_by_owner.put((record.namespace, record.owner_uid), record.name, record)
        instance = record.owner_uid or instance_of(record)
        if instance and record.node:
            self._instances_by_node.put(record.node, record.uid, instance)
        if instance and _group_of(record):
            group = (record.namespace, _group_of(record))
            self._instances_by_group.put(group, record.uid, instance)

    def _on_budget(self, old: BudgetRecord | None, new: BudgetRecord | None) -> None:
        if old is None or new is None or (old.uid, old.selector) != (new.uid, new.selector):
            # its status changes with every pod
            self._publish(BudgetsChanged(_newest(old, new).namespace))

    def _on_owned(self, old: OwnedRecord | None, new: OwnedRecord | None) -> None:
        """Publish the job that controls the object, and the job that needs its name: a Service or
        PodGroup of another owner with that name is in the way of a job. And the instances of the
        pods that name a PodGroup. What the scheduler writes
        anew in each session is no change."""
        if old is not None and new is not None and says_the_same(old, new):
            return
        for record in (old, new):
            if record is not None:
                self._place_again(record.owner_uid)
                self._mark_jobs_of(record)
        group = _newest(old, new)
        instances = self._instances_by_group.of((group.namespace, group.name))
        self.mark(*sorted(set(instances.values())))

    def _mark_jobs_of(self, record: PodRecord | OwnedRecord) -> None:
        """Publish the job that controls the object, and the job that needs its name."""
        owner = record.owner_uid
        named = self.job_instances.of_name(record)
        self.mark(owner)
        if named != owner:
            self.mark(named)

    def _on_node(self, old: NodeRecord | None, new: NodeRecord | None) -> None:
        name = _newest(old, new).name
        self._count_node(name)
        if _use_of(old) != _use_of(new):
            self._mark_on(name)

    def _count_node(self, name: str) -> None:
        """Publish a node with its own status and what MindCluster reports of it."""
        record = self.nodes.get("", name)
        facts = None
        if record is not None:
            faults = self.faults.of(name)
            sick = faults.node or faults.switch
            chips = faulty_devices(faults.chips)
            within = self.hyper_nodes.of(record)
            facts = msgspec.structs.replace(
                record.facts, unhealthy=sick, faulty=chips, hyper_nodes=within
            )
            devices = self.faults.devices_of(name)
            self._note_npus(name, has_data=devices.listed and bool(facts.chips))
            if self.places_npus:
                facts = as_placed(facts, faults, devices)
        else:
            self._note_npus(name, has_data=False)
        is_first = not self.nodes.version or (self.places_npus and not self.config_maps.version)
        self._publish(NodeChanged(name, facts, listed=is_first))

    def _on_hyper_nodes(self, nodes: frozenset[str] | None) -> None:
        """These nodes, or all of them, may be in other HyperNodes now."""
        if nodes is None:
            nodes = frozenset([one.name for one in self.nodes.values()])
        for node in sorted(nodes):
            if self.nodes.get("", node) is not None:
                self._count_node(node)

    def why_not_back(self, node: str, uid: str) -> str:
        """Why MindCluster's scheduler puts no pod of this job back onto this node; "" when it
        does."""
        record = self.nodes.get("", node)
        if record is None:
            return f"node {node} is gone" if node else "its node is not known"
        faults = self.faults.of(node)
        if not record.facts.ready:
            return f"node {node} is not Ready"
        if record.facts.unschedulable:
            return f"node {node} is cordoned"
        if faults.node or faults.switch or faults.chips:
            return f"node {node} is reported as faulty"
        if not {uid}.issuperset(self._instances_by_node.of(node).values()):
            return f"node {node} has pods of others"
        barred = as_placed(record.facts, faults, self.faults.devices_of(node)).barred
        return f"of node {node} the scheduler takes nothing: {barred}" if barred else ""

    def _note_npus(self, name: str, *, has_data: bool) -> None:
        if has_data:
            self._npu_nodes.add(name)
        else:
            self._npu_nodes.discard(name)
        self._look_for_plugin()

    def _look_for_plugin(self) -> None:
        """Publish where MindCluster's plugin is at work now, and was not, or the other way round.
        The scheduler's configuration says it. Where that is not readable, device data do: only
        MindCluster's plugin reads them."""
        record = self.config_maps.get(*CONFIGURATION)
        said = record.has_npu_plugin if record is not None else None
        places_npus = bool(self._npu_nodes) if said is None else said
        largest = record.largest_super_pod if record is not None else 0
        before = (self.places_npus, self.largest_super_pod)
        self.places_npus = places_npus
        self.largest_super_pod = largest or LARGEST_SUPER_POD
        if (self.places_npus, self.largest_super_pod) != before:
            self._publish(NpuPluginSeen(self.places_npus, self.largest_super_pod))
        if places_npus != before[0]:
            for node in sorted([one.name for one in self.nodes.values()]):
                self._count_node(node)

    def _on_priority(self, old: PriorityRecord | None, new: PriorityRecord | None) -> None:
        """Rare: an administrator changed what a name is worth."""
        name = _newest(old, new).name
        self.mark(
            *sorted(
                uid for uid, job in self.job_instances.by_uid.items() if job.priority_class == name
            )
        )

    def _on_faults(self, node: str) -> None:
        self._count_node(node)
        self._mark_on(node)

    def _mark_on(self, node: str) -> None:
        on_node = self._instances_by_node.of(node).values()
        self.mark(*sorted({*on_node, *self.last_nodes.uids_on(node)}))

    def _on_report(self, old: ConfigMapRecord | None, new: ConfigMapRecord | None) -> None:
        record = new or old
        if record is not None:
            self.faults.apply(record.namespace, record.name, new.faults if new else None)

    def _on_config_map(self, old: ConfigMapRecord | None, new: ConfigMapRecord | None) -> None:
        record = new or old
        if record is None:
            return
        self._count_content(old, new)
        self.faults.apply(record.namespace, record.name, new.faults if new else None)
        if new is None and record.own:
            self._publish(OwnConfigMapGone(record.own))
        for key in sorted(self.services_of(record.namespace, record.name)):
            self._publish(ServiceChanged(key))
        if old is None:
            for uid in sorted(self.job_instances.mislabelled):
                self._place_again(uid)
        if record.has_npu_plugin is not None:
            self._look_for_plugin()
        if record.retries is not None:
            before = (old.retries if old else None) or {}
            after = (new.retries if new else None) or {}
            # of a job whose number changed, both pairs are in the difference
            self._on_retries({name for name, _ in before.items() ^ after.items()})
        job_name = record.name.removeprefix(RANK_TABLE_PREFIX) if record.table_map else ""
        job = self.jobs.get(record.namespace, job_name) if job_name else None
        if job is not None:
            self.mark(job.uid)

    def _count_content(self, old: ConfigMapRecord | None, new: ConfigMapRecord | None) -> None:
        namespace = _newest(old, new).namespace
        if old is not None:
            self._content[namespace] -= bytes_of_content(old)
        if new is not None:
            self._content[namespace] += bytes_of_content(new)
        if not self._content[namespace]:
            del self._content[namespace]

    def _on_refused(self, change: ObjectRefused) -> None:
        self._publish(change)
        for key in sorted(self.services_of(change.namespace, change.rule)):
            self._publish(ServiceChanged(key))

    def _on_retries(self, changed: Collection[str]) -> None:
        """Volcano counted a retry of these jobs, or all of them anew after a restart."""
        known = self.job_instances.by_uid.values()
        self.mark(*[job.uid for job in known if f"{job.namespace}/{job.job.pod_group}" in changed])


def _group_of(pod: PodRecord) -> str:
    """The PodGroup that the pod names; "" for none, and for a pod of an AscendJob that we make."""
    return pod.governed.pod_group if pod.governed is not None else ""


def _is_alone(pod: PodRecord) -> bool:
    """Whether nothing makes the pod again."""
    return pod.governed is None or pod.governed.controller_uid == pod.uid


def _replaces(pods: Iterable[PodRecord], last: PodRecord) -> bool:
    """Whether one of these pods seems to be made in place of the last pod of another instance of
    their owner: it is younger, and does not run yet."""
    for pod in pods:
        starts = pod.phase != "Running" and not pod.terminating
        if starts and pod.created > last.created:
            return True
    return False


def _newest(old: R | None, new: R | None) -> R:
    """The record after a change, or before it where the object is gone."""
    record = old if new is None else new
    if record is None:
        raise ValueError("a change of nothing")
    return record


def _use_of(node: NodeRecord | None) -> tuple[bool, bool]:
    """Whether the node is Ready, and whether it is cordoned: both matter for the pods on it."""
    return (node.facts.ready, node.facts.unschedulable) if node is not None else (False, False)
