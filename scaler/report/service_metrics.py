"""Metrics of single services that name a rule, for a bounded number of them, however many services
tenants make.

The decision loop calls `note` and `forget`, the thread that answers a scrape calls `collect`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily

from scaler.decide.decision import Admit, Complete, Plan
from scaler.decide.world import Service, ServiceKey
from scaler.reasons.reasons import Reason
from scaler.reasons.row import Part
from scaler.report.service_reports import rule_is_valid, running_index

MOST_OF_NAMESPACE = 200
MOST = 2000
"""Services with series of their own, in one namespace and in all."""
MOST_NAMESPACES = 100
"""Namespaces with a series for the number of services without series of their own."""
_DURATION: Final = (0.1, 1, 5, 15, 30, 60, 90, 120, 180, 300, 600, 1200, 1800, 3600)
_COMING = frozenset(reason for reason in Reason if reason.row.part is Part.ADMITTED)
_WITHOUT_ROOM = frozenset(reason for reason in Reason if reason.row.room_may_end_it) - _COMING
_SERVICE = ("namespace", "rule", "job_id")
_GAUGES = {
    "scaler_service_available": (
        "1 while every group runs what the smallest ratio names, or it rests, else 0."
    ),
    "scaler_service_complete": (
        "1 while the largest ratio runs that its jobs and spec.replicas allow, else 0."
    ),
    "scaler_service_rule_valid": "1 while the service's rule exists and has no error, else 0.",
    "scaler_service_ratio_index": (
        "Ratio that runs, 0 = the largest of the rule; absent while none does."
    ),
    "scaler_service_target_ratio_index": (
        "Ratio that is worked towards; absent without a rule in force."
    ),
    "scaler_service_unavailable_since_timestamp_seconds": (
        "Since when it is not available; absent while it is."
    ),
    "scaler_service_wanted_instances": (
        "Instances of the largest ratio that spec.replicas allows; 0 = it rests."
    ),
}


class Standing(msgspec.Struct, frozen=True):
    """What was decided last about a service, and the start of its durations. Times as `World.now`;
    0.0 = not so."""

    service: Service
    plan: Plan
    unavailable_since: float = 0.0
    was_complete: bool = False
    """At some time, with this rule and this number of wanted instances."""
    fault_at: float = 0.0
    """When an instance of its complete ratio stopped running; no smaller ratio runs yet."""
    room_at: float = 0.0
    """The time from which every missing instance has a place and is starting."""

    @property
    def wanted(self) -> int | None:
        """Instances of the largest ratio that is aimed at; None without a rule in force."""
        rule = self.service.rule
        return min(self.plan.replicas, rule.largest.total) if rule is not None else None


class ServiceSeries:
    """All services of the leader. A replica that does not lead has none."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._services: dict[ServiceKey, Standing] = {}
        self._degraded = Histogram(
            "scaler_fault_to_degraded_seconds",
            "From the first sight of a fault in a complete service until it runs a smaller ratio.",
            buckets=_DURATION,
            registry=registry,
        )
        self._restored = Histogram(
            "scaler_room_to_restored_seconds",
            "From when all that a service lost has a place until the service is complete again.",
            buckets=_DURATION,
            registry=registry,
        )
        registry.register(self)

    def note(self, service: Service, plan: Plan, now: float) -> None:
        """Take over the plan that was decided at `now`."""
        if not plan.key.rule:
            return
        after = Standing(service, plan)
        before = self._services.get(plan.key, after)
        alike = (
            before
            if (before.service.rule, before.wanted) == (service.rule, after.wanted)
            else after
        )
        fault_at = alike.fault_at
        room_at = alike.room_at
        fewer = _has_fewer(plan, alike.plan)
        if plan.complete:
            fault_at = 0.0
        elif alike.plan.complete and fewer:
            fault_at = now
        if plan.complete and alike.was_complete and room_at:
            self._restored.observe(now - room_at)
        if plan.serves and fault_at:
            self._degraded.observe(now - fault_at)
        self._services[plan.key] = msgspec.structs.replace(
            after,
            unavailable_since=0.0 if plan.serves else before.unavailable_since or now,
            was_complete=plan.complete or alike.was_complete,
            fault_at=0.0 if plan.serves else fault_at,
            room_at=(room_at or now) if not plan.complete and _has_room(plan) else 0.0,
        )

    def forget(self, key: ServiceKey) -> None:
        self._services.pop(key, None)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Called by the registry. If not all services can be shown, the worst ones are."""
        families = {
            name: GaugeMetricFamily(name, text, labels=_SERVICE) for name, text in _GAUGES.items()
        }
        of_state = (*_SERVICE, "state", "reason")
        instances = GaugeMetricFamily(
            "scaler_service_instances", "Instances of a service.", labels=of_state
        )
        text = "Services without series of their own."
        left_out = GaugeMetricFamily("scaler_services_left_out", text, labels=("namespace",))
        # one copy: the loop runs on in another thread
        shown, others = _chosen(list(self._services.items()))
        for key, standing in shown:
            labels = (key.namespace, key.rule, key.job_id)
            for name, value in _values(standing).items():
                if value is not None:
                    families[name].add_metric(labels, value)
            counts = Counter(
                (verdict.state.value, verdict.reason.value) for verdict in standing.plan.verdicts
            )
            for state_and_reason, number in counts.items():
                instances.add_metric((*labels, *state_and_reason), number)
        for namespace, number in others.most_common(MOST_NAMESPACES):
            left_out.add_metric((namespace,), number)
        yield from (*families.values(), instances, left_out)


def _values(one: Standing) -> dict[str, float | None]:
    """The value of each of `_GAUGES`; None = absent."""
    index = running_index(one.service, one.plan.groups)
    target = one.plan.target_index
    return {
        "scaler_service_available": one.plan.serves,
        "scaler_service_complete": one.plan.complete,
        "scaler_service_rule_valid": rule_is_valid(one.service),
        "scaler_service_ratio_index": index if index >= 0 else None,
        "scaler_service_target_ratio_index": target if target >= 0 else None,
        "scaler_service_unavailable_since_timestamp_seconds": one.unavailable_since or None,
        "scaler_service_wanted_instances": one.wanted,
    }


def _has_fewer(plan: Plan, before: Plan) -> bool:
    """Whether a group runs fewer instances than before."""
    for name, group in before.groups.items():
        running = plan.groups[name].running if name in plan.groups else 0
        if running < group.running:
            return True
    return False


def _has_room(plan: Plan) -> bool:
    """Whether an instance is starting, and none waits for room."""
    reasons = {verdict.reason for verdict in plan.verdicts}
    begun = any(isinstance(action, Admit | Complete) for action in plan.actions)
    return (begun or not reasons.isdisjoint(_COMING)) and reasons.isdisjoint(_WITHOUT_ROOM)


def _worst_first(shown: tuple[ServiceKey, Standing]) -> tuple[bool, bool, bool, ServiceKey]:
    key, standing = shown
    return standing.plan.serves, standing.plan.complete, rule_is_valid(standing.service), key


def _chosen(
    everyone: list[tuple[ServiceKey, Standing]],
) -> tuple[list[tuple[ServiceKey, Standing]], Counter[str]]:
    """The services with series, and the number of the others, by namespace."""
    shown = list[tuple[ServiceKey, Standing]]()
    of_namespace = Counter[str]()
    others = Counter[str]()
    for key, standing in sorted(everyone, key=_worst_first):
        if of_namespace[key.namespace] < MOST_OF_NAMESPACE and len(shown) < MOST:
            of_namespace[key.namespace] += 1
            shown.append((key, standing))
        else:
            others[key.namespace] += 1
    return shown, others
