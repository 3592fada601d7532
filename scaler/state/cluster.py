"""The domain, from the records of the cache: services and their instances, rank tables, rules in
force, free room.

    PodChanged, NodeChanged -> capacity -> RoomChanged
    ServiceChanged          -> the instance is built anew when it is read
    JobChanged              -> the rank table of a job that has gone is forgotten
    ModeChanged, NodesSeen, NpuPluginSeen
                            -> all instances that they concern are built anew

Decides nothing and writes nothing into the cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from scaler.clock import Skew
from scaler.decide.memory import Evictions
from scaler.decide.world import Instance, Service, ServiceKey
from scaler.defaults import MOST_KEPT
from scaler.informers.cache import Cache
from scaler.informers.changes import (
    Changes,
    JobChanged,
    ModeChanged,
    NodeChanged,
    NodesSeen,
    NpuPluginSeen,
    PodChanged,
    RoomChanged,
    ServiceChanged,
)
from scaler.informers.config_maps import ConfigMapRecord
from scaler.informers.jobs import JobRecord
from scaler.names import GROUP_LABEL, RULE_LABEL
from scaler.ranktables.tables import Tables
from scaler.reasons.reasons import Reason
from scaler.rules.finding import shown
from scaler.state import kept_evictions
from scaler.state.capacity import CapacityIndex
from scaler.state.instances import COUNTS_ON, in_our_time, later_instances, of_pods
from scaler.state.jobs import of_job
from scaler.state.kept_rules import KeptRules
from scaler.state.last_valid import (
    DOCUMENT,
    ConfigMapName,
    LastValid,
    decode,
    place_of,
    rule_of,
)
from scaler.state.makers import Maker, Makers
from scaler.state.rules_in_force import RuleInForce, RulesInForce
from scaler.state.situation import Situation
from scaler.workloads.membership import NO_LABELS

MOST_SHOWN = 10
"""Objects of one service that cannot be read, in its status."""


class ClusterState:
    """One cluster: its cache, and what is made of it. `now` gives seconds since the epoch, `home`
    is the namespace of the scaler's install, `operator_namespace` that of Ascend Operator,
    `most_kept`: last valid rules of each namespace."""

    def __init__(
        self,
        changes: Changes,
        now: Callable[[], float],
        home: str = "default",
        operator_namespace: str = "mindx-dl",
        most_kept: int = MOST_KEPT,
    ) -> None:
        self.cache = Cache(changes, now, operator_namespace, self._knows_rule)
        self.situation = Situation()
        self._home = home
        self.capacity = CapacityIndex(now, lambda: changes.publish(RoomChanged()))
        self._makers = Makers(self.cache, now)
        self.tables = Tables(self.cache, lambda record: bool(self.maker_of(record).other))
        self.kept_rules = KeptRules(most_kept)
        self.rules = RulesInForce(self.cache.config_maps.get, self._stored_rule, self.kept_rules)
        self._instances: dict[str, Instance] = {}
        """Uid -> instance, built once per change of anything it depends on."""
        self._now = now
        self._others_until: dict[str, float] = {}
        """Uid of each such instance whose job is another's against the mode -> when that ends."""
        self._skew = Skew()
        self._publish = changes.publish
        self.restarts_counted = 0
        """Restarts that Volcano counted although the pods were marked."""

    def service_keys(self) -> list[ServiceKey]:
        """Everything to decide about. Jobs without a rule are left out where another operator makes
        their pods."""
        return sorted(key for key in self.cache.service_keys() if self._counts_jobs(key))

    def has_instances(self, key: ServiceKey) -> bool:
        if self._counts_jobs(key):
            return bool(self.cache.uids_of(key))
        return bool(self.instance_uids(key))

    def instance_uids(self, key: ServiceKey) -> list[str]:
        """The instances of a service in a fixed order: jobs by name, then those that only pods
        name."""
        jobs = list[JobRecord]()
        others = list[str]()
        for uid in self.cache.uids_of(key):
            job = self.cache.job(uid)
            if job is None:
                others.append(uid)
            elif self._counts_jobs(key):
                jobs.append(job)
        jobs.sort(key=lambda job: job.name)
        return [job.uid for job in jobs] + sorted(others)

    def _counts_jobs(self, key: ServiceKey) -> bool:
        return bool(key.rule) or self.situation.makes_pods

    def service(self, key: ServiceKey) -> Service:
        rule = self.rule(key)
        unread = self.cache.refusals.of_rule(key.namespace, key.rule)
        groups = rule.rule.groups if rule.rule is not None else ()
        found = tuple(
            [self._as_labelled(key, self._built(uid), groups) for uid in self.instance_uids(key)]
        )
        if rule.rule is not None:
            found += tuple(later_instances(self.cache, key, found, rule.rule.largest.counts))
        replicas = self.cache.elastic_services.replicas(key)
        return Service(
            key, found, rule.rule, rule.options, rule.problem, unread[:MOST_SHOWN], replicas
        )

    def instance(self, key: ServiceKey, uid: str) -> Instance:
        """One instance of it, which exists, as of the cache's present contents."""
        rule = self.rule(key).rule
        return self._as_labelled(key, self._built(uid), rule.groups if rule is not None else ())

    def maker_of(self, record: JobRecord) -> Maker:
        """Who makes the pods of this job and writes its status."""
        return self._makers.of(record, self.situation, self._skew)

    def until_ours_again(self, key: ServiceKey) -> float:
        """Seconds until a job of the service is ours again that is another's now; 0.0 = none is."""
        ends = []
        for uid in self.cache.uids_of(key):
            if uid in self._others_until:
                ends.append(self._others_until[uid])
        return max(0.0, min(ends) - self._now()) if ends else 0.0

    def _built(self, uid: str) -> Instance:
        if self._others_until.get(uid, math.inf) <= self._now():
            self._forget_instance(uid)
        known = self._instances.get(uid)
        if known is None:
            record = self.cache.job(uid)
            membership = self.cache.pod_instances.membership.get(uid)
            if record is not None:
                maker = self.maker_of(record)
                if maker.other:
                    self._others_until[uid] = maker.until
                known = of_job(self.cache, self.situation, self.tables, record, maker)
            else:
                # The cache gives uids of what it has.
                assert membership is not None, uid  # noqa: S101
                known = of_pods(self.cache, self.situation, membership)
            if self._skew != Skew():
                known = in_our_time(known, self._skew)
            self._instances[uid] = known
        return known

    def _as_labelled(self, key: ServiceKey, instance: Instance, groups: Sequence[str]) -> Instance:
        """An instance with released pods keeps the group that it was admitted in when its labels no
        longer name an existing rule or group. `groups` are the groups of the rule; none where no
        valid rule was ever seen."""
        wrong = (
            instance.group not in groups
            and instance.pods > instance.gated
            and instance.label_problem is None
        )
        then = self.cache.labels_when_admitted(instance.uid) if wrong and key.rule else NO_LABELS
        if not groups and then.rule not in ("", key.rule):
            words = f"label {RULE_LABEL} is {shown(key.rule)}, and there was never such a rule"
            words = f"{words}: write {RULE_LABEL}={then.rule}. Until then it counts for nothing"
            return replace(instance, mislabelled=(Reason.RULE_MISSING, words))
        if then.group not in groups:
            return instance
        words = (
            f"label {GROUP_LABEL} is {shown(instance.group)}, a group that rule {key.rule} has not"
        )
        words = f"{words}: write {GROUP_LABEL}={then.group}. {COUNTS_ON}"
        return replace(instance, group=then.group, mislabelled=(Reason.GROUP_UNKNOWN, words))

    def rule(self, key: ServiceKey) -> RuleInForce:
        """The rule that this service is decided by; an empty one where it names none."""
        return self.rules.follow(key.namespace, key.rule) if key.rule else RuleInForce()

    def lacks_rule(self, namespace: str, name: str) -> bool:
        """Whether a job names this rule, and its present version was left out and not read."""
        named = self.cache.services_of(namespace, name)
        return bool(named) and self.rules.lacks(namespace, name)

    def take_rule(self, record: ConfigMapRecord) -> None:
        """Take in the ConfigMap of a rule that the cache has left out, and that was read again."""
        self.rules.read(record)
        for key in sorted(self.cache.services_of(record.namespace, record.name)):
            self._publish(ServiceChanged(key))

    def take_over(self) -> None:
        """Count what an earlier leader has kept, before anything is decided."""
        for record in self.cache.config_maps.values(self._home):
            document = (record.own or {}).get("binaryData", {}).get(DOCUMENT)
            if record.own is not None and document:
                self.kept_rules.measured(rule_of(record.own), len(document) * 3 // 4)

    def orphaned_rules(self) -> list[ConfigMapName]:
        """Rules of which we keep the last valid document although no job names them any more."""
        found = set[ConfigMapName]()
        for record in self.cache.config_maps.values():
            rule = rule_of(record.own) if record.own else None
            if rule is not None and rule.name and not self.cache.services_of(*rule):
                found.add(rule)
        return sorted(found)

    def place_of_evictions(self, key: ServiceKey) -> ConfigMapName:
        """The ConfigMap that keeps how many evictions were made for the service."""
        return kept_evictions.place_of(key, self._home)

    def evictions(self, key: ServiceKey, now: float) -> Evictions:
        """What an earlier leader counted for the service. Where that cannot be read: as if an
        eviction had been made now."""
        record = self.cache.config_maps.get(*self.place_of_evictions(key))
        if record is None:
            return Evictions()
        kept = kept_evictions.decode(record.own, key) if record.own is not None else None
        return Evictions(kept.number, min(kept.at, now)) if kept is not None else Evictions(1, now)

    def number_of_kept_evictions(self, namespace: str) -> int:
        """Services of this namespace for which evictions are kept."""
        number = 0
        for record in self.cache.config_maps.values(self._home):
            key = kept_evictions.service_of(record.own) if record.own else None
            number += key is not None and key.namespace == namespace
        return number

    def orphaned_evictions(self) -> list[ServiceKey]:
        """Services without jobs for which evictions are kept."""
        found = set[ServiceKey]()
        for record in self.cache.config_maps.values():
            key = kept_evictions.service_of(record.own) if record.own else None
            if key is not None and not self.has_instances(key):
                found.add(key)
        return sorted(found)

    def orphaned_services(self) -> list[ServiceKey]:
        """Services that an ElasticService is about, and no job."""
        return sorted(
            key for key in self.cache.elastic_services.services() if not self.has_instances(key)
        )

    def adjust(self, skew: Skew) -> None:
        """The clock was adjusted, so times in objects mean other moments: all that was built of
        them is built anew."""
        self._skew = skew
        self.forget_instances()
        self.capacity.adjust(skew)

    def forget_instances(self) -> None:
        self._instances.clear()
        self._others_until.clear()

    def _forget_instance(self, uid: str) -> None:
        self._instances.pop(uid, None)
        self._others_until.pop(uid, None)

    # following changes

    def on_pod(self, change: PodChanged) -> None:
        self.capacity.pod_changed(change.old, change.new)

    def on_node(self, change: NodeChanged) -> None:
        self.capacity.node_changed(change.name, change.facts, listed=change.listed)

    def on_instance(self, change: ServiceChanged) -> None:
        """Build the instance again when it is read next."""
        self._forget_instance(change.uid)

    def on_job(self, change: JobChanged) -> None:
        """Forget the rank table of a job that has gone, and what Volcano counted of it."""
        self.tables.forget(change.uid)
        counted = self.situation.counted
        if change.uid in counted and self.cache.job(change.uid) is None:
            self.situation = replace(self.situation, counted=counted - {change.uid})

    def on_mode(self, change: ModeChanged) -> None:
        """Another component makes the pods of AscendJobs: every job means something else now."""
        before = self.situation
        self.situation = replace(before, makes_pods=change.makes_pods, shadow=change.shadow)
        if change.makes_pods:
            self._makers.begin()
        if change.makes_pods != before.makes_pods:
            self.cache.mark(*sorted(self.cache.job_instances.by_uid))

    def on_nodes_seen(self, change: NodesSeen) -> None:
        """An unknown node is missing, or just not shown: every instance on a node is built anew."""
        if change.seen != self.situation.sees_nodes:
            self.situation = replace(self.situation, sees_nodes=change.seen)
            jobs = self.cache.job_instances.by_uid.keys()
            self.cache.mark(*sorted(jobs | self.cache.uids_on_nodes()))

    def on_npu_plugin(self, change: NpuPluginSeen) -> None:
        """Pods with NPUs are placed by other rules: what every instance requests is another."""
        situation = replace(
            self.situation,
            places_npus=change.places_npus,
            largest_super_pod=change.largest_super_pod,
        )
        if situation != self.situation:
            self.situation = situation
            by_pods = self.cache.pod_instances.membership.keys()
            self.cache.mark(*sorted(self.cache.job_instances.by_uid.keys() | by_pods))

    def restart_was_counted(self, uid: str) -> None:
        """Volcano counted a restart of this job although its pods were marked: from now on each
        deletion is taken to cost this job a restart. Not others: a job of one tenant may fail by
        itself just then."""
        self.restarts_counted += 1
        self.situation = replace(self.situation, counted=self.situation.counted | {uid})
        self.cache.mark(uid)

    def _knows_rule(self, namespace: str, name: str) -> bool:
        return self.rules.knows(namespace, name)

    def _stored_rule(self, namespace: str, rule: str) -> LastValid | None:
        name = ConfigMapName(namespace, rule)
        record = self.cache.config_maps.get(*place_of(name, self._home))
        return decode(record.own, name) if record is not None and record.own is not None else None
