"""What is made of the cache, kept up to date by its changes: instances, rank tables, rules in
force, what is free.

    PodChanged, NodeChanged -> capacity -> RoomChanged
    ServiceChanged          -> instances and rank tables are made anew when they are read next

Book-keeping only; it decides nothing and writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from scaler.clock import Skew
from scaler.decide.world import Instance, Reason, Service, ServiceKey
from scaler.informers.cache import Cache
from scaler.informers.changes import Changes, NodeChanged, PodChanged, RoomChanged, ServiceChanged
from scaler.names import GROUP_LABEL, RULE_LABEL
from scaler.ranktables.tables import Tables
from scaler.rules.finding import shown
from scaler.state.capacity import CapacityIndex
from scaler.state.instances import COUNTS_ON, in_our_time, of_pods
from scaler.state.jobs import of_job
from scaler.state.last_valid import ConfigMapName, LastValid, decode, place_of, rule_of
from scaler.state.rules_in_force import RuleInForce, RulesInForce
from scaler.workloads.membership import NO_LABELS

MOST_SHOWN = 10
"""Objects of one service that cannot be read, in its status."""


class ClusterState:
    """The domain's view of one cache. `now` gives seconds since the epoch."""

    def __init__(
        self, cache: Cache, changes: Changes, now: Callable[[], float], home: str = "default"
    ) -> None:
        self.cache = cache
        self._home = home
        self._publish = changes.publish
        self.capacity = CapacityIndex(now)
        self.tables = Tables(cache)
        self.rules = RulesInForce(cache.config_maps.get, self._stored_rule)
        cache.set_rules(self.rules.knows)
        self._instances: dict[str, Instance] = {}
        """By uid, each built once per change of anything it depends on."""
        self._skew = Skew()

    def service(self, key: ServiceKey) -> Service:
        rule = self.rule(key)
        unread = self.cache.refusals.of_rule(key.namespace, key.rule)
        groups = rule.rule.groups if rule.rule is not None else ()
        found = tuple(
            [
                self._as_labelled(key, self._built(uid), groups)
                for uid in self.cache.instance_uids(key)
            ]
        )
        replicas = self.cache.elastic_services.replicas(key)
        return Service(
            key, found, rule.rule, rule.options, rule.problem, unread[:MOST_SHOWN], replicas
        )

    def instance(self, key: ServiceKey, uid: str) -> Instance:
        """One instance of it, which exists, as of the cache's present contents."""
        rule = self.rule(key).rule
        return self._as_labelled(key, self._built(uid), rule.groups if rule is not None else ())

    def _built(self, uid: str) -> Instance:
        known = self._instances.get(uid)
        if known is None:
            record = self.cache.job(uid)
            membership = self.cache.pod_instances.membership.get(uid)
            if record is not None:
                known = of_job(self.cache, self.tables, record)
            else:
                # The cache gives uids of what it has.
                assert membership is not None, uid  # noqa: S101
                known = of_pods(self.cache, membership)
            self._instances[uid] = known = (
                in_our_time(known, self._skew) if self._skew != Skew() else known
            )
        return known

    def _as_labelled(self, key: ServiceKey, instance: Instance, groups: Sequence[str]) -> Instance:
        """One that has released pods and whose labels name a rule or group that there is not: in
        the group in which it was admitted, where it can be told. `groups` are those of the rule,
        none where no valid one was ever seen."""
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
        return self.rules.in_force(key.namespace, key.rule) if key.rule else RuleInForce()

    def orphaned_rules(self) -> list[ConfigMapName]:
        """Rules of which we keep the last valid document although no job names them any more."""
        kept = {rule_of(record.own) for record in self.cache.config_maps.values() if record.own}
        return sorted(rule for rule in kept if rule.name and not self.cache.services_of(*rule))

    def orphaned_services(self) -> list[ServiceKey]:
        """Services that an ElasticService is about, and no job."""
        return sorted(
            key
            for key in self.cache.elastic_services.services()
            if not self.cache.has_instances(key)
        )

    def adjust(self, skew: Skew) -> None:
        """Times in objects mean other moments from now on: everything that was made of them is made
        anew."""
        self._skew = skew
        self.forget_instances()
        self.capacity.adjust(skew)

    def forget_instances(self) -> None:
        self._instances.clear()

    # following changes

    def on_pod(self, change: PodChanged) -> None:
        if self.capacity.pod_changed(change.old, change.new):
            self._publish(RoomChanged())

    def on_node(self, change: NodeChanged) -> None:
        if self.capacity.node_changed(change.name, change.facts):
            self._publish(RoomChanged())

    def on_instance(self, change: ServiceChanged) -> None:
        """What was made of the instance is made anew when it is read next."""
        self._instances.pop(change.uid, None)
        self.tables.forget(change.uid)

    def _stored_rule(self, namespace: str, rule: str) -> LastValid | None:
        name = ConfigMapName(namespace, rule)
        record = self.cache.config_maps.get(*place_of(name, self._home))
        return decode(record.own, name) if record is not None and record.own is not None else None
