"""Prometheus metrics in a registry of our own, with a bounded number of series
(docs/reference/metrics.md).

Only report.service_metrics has labels with names that users choose (namespace, rule, service), for
a bounded number."""

from __future__ import annotations

import asyncio
import math
import platform
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from scaler import __version__
from scaler.decide import decision
from scaler.decide.decision import NOBODY, Evict, Plan, Revoke
from scaler.decide.world import Service, ServiceKey
from scaler.informers.informer import Informer
from scaler.kube.api import Resource
from scaler.report.service_metrics import ServiceSeries

_FAST: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_REACTION: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_REQUEST: Final = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10)
_MOST_RESOURCES: Final = 20
"""Tenants may name any resource in their pods; resources of Kubernetes and Huawei come first."""
_WHAT_IS_WEIGHED: Final = (
    "serving",
    "minimums_waiting",
    "scale_ups_waiting",
    "in_backoff",
    "probing",
    "rounded",
    "careful",
)
CONTENT_TYPE: Final = prometheus_client.CONTENT_TYPE_PLAIN_0_0_4


class Metrics:
    """All metrics of one process. Methods are cheap and never raise."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        followed = partial(Followed, registry=self.registry)
        shown = partial(Followed, registry=self.registry, family=GaugeMetricFamily)
        # The process
        ProcessCollector(registry=self.registry)
        build = gauge(
            "scaler_build_info", "1; which version runs, on which Python.", ["version", "python"]
        )
        build.labels(__version__, platform.python_version()).set(1)
        # The decision loop
        self.passes = counter("scaler_passes", "Passes of the decision loop.")
        self._pass_seconds = histogram(
            "scaler_pass_duration_seconds",
            "Seconds of one pass: deciding, and handing over the actions.",
            buckets=_FAST,
        )
        self._plan_seconds = histogram(
            "scaler_plan_duration_seconds", "Seconds of deciding in one pass.", buckets=_FAST
        )
        self.reaction_seconds = histogram(
            "scaler_reaction_seconds",
            "Seconds from the arrival of an event to the answer of the last write that it caused.",
            buckets=_REACTION,
        )
        self.queue_depth = shown("scaler_queue_depth", "Services that the next pass reads.")
        self.decisions_failed = counter(
            "scaler_decisions_failed",
            "Errors in deciding or acting. Each is a bug of the scaler.",
        )
        self._actions = counter("scaler_actions", "Actions that were decided, by kind.", ["action"])
        self._revocations = counter(
            "scaler_revocations", "Admissions that were revoked, for any reason."
        )
        self._preemptions = counter(
            "scaler_preemptions",
            "Instances evicted so that a missing one can start.",
            ["beneficiary"],
        )
        self._drains = counter(
            "scaler_drains", "Instances deleted because spec.replicas asks for fewer."
        )
        self.leader = gauge("scaler_leader", "1 while this process holds the Lease.")
        self.leader_changes = followed(
            "scaler_leader_changes", "Changes of the holder of the Lease, by its own count."
        )
        self.out_of_touch = gauge(
            "scaler_out_of_touch",
            "1 while nothing is admitted because the view of the cluster is stale.",
        )
        # Services
        self._single_services = ServiceSeries(self.registry)
        self._services = gauge(
            "scaler_services",
            "Services that run their smallest, and their largest ratio.",
            ["available", "complete"],
        )
        self._rules_invalid = gauge(
            "scaler_services_with_rule_problem", "Services whose rule is missing or invalid."
        )
        self._instances = gauge(
            "scaler_instances", "Instances by state and reason.", ["state", "reason"]
        )
        self._arbitration = gauge(
            "scaler_arbitration", "1 while services that share nodes are decided together."
        )
        self._waiting = gauge(
            "scaler_services_weighed",
            "Services and instances by the outcome of arbitration.",
            ["what"],
        )
        self._idle = gauge(
            "scaler_idle", "Resources that services occupy which do not serve.", ["resource"]
        )
        # The API server
        self.requests = histogram(
            "scaler_request_duration_seconds",
            "Seconds until an answer began, or the request failed.",
            ["verb", "resource"],
            buckets=_REQUEST,
        )
        self._writes = counter(
            "scaler_writes",
            "Requests of the writer by outcome, reads included.",
            ["verb", "resource", "outcome"],
        )
        self.reports_dropped = counter(
            "scaler_reports_dropped", "Reports that were not written.", ["kind", "cause"]
        )
        self.log_lines_dropped = followed(
            "scaler_log_lines_dropped",
            "Lines of the log that could not be written: a full disk, or nobody reads them.",
            "stream",
        )
        self.watches = followed("scaler_watches", "Watches that were opened.", "resource")
        self.lists = followed("scaler_lists", "Full lists of a resource.", "resource")
        self.watch_events = followed(
            "scaler_watch_events", "Watch events that were handled.", "resource"
        )
        self.watch_silence = shown(
            "scaler_watch_silence_seconds",
            "Seconds since a list, event, bookmark or timely end of a watch.",
            "resource",
        )
        self.objects_refused = followed(
            "scaler_objects_refused",
            "Objects that could not be read; each version counts once.",
            "resource",
        )
        self.expectation_timeouts = followed(
            "scaler_expectation_timeouts", "Own writes that no watch confirmed in time."
        )
        self.resync_corrections = counter(
            "scaler_resync_corrections",
            "Changes that only a full pass found. Stays 0 unless an event was lost.",
        )
        # Admission
        self.webhook_answers = counter(
            "scaler_webhook_answers", "Answers of the admission webhook.", ["path", "outcome"]
        )
        self.webhook_seconds = histogram(
            "scaler_webhook_duration_seconds",
            "Seconds of one answer of the admission webhook.",
            buckets=_FAST,
        )
        self.certificate_expires = shown(
            "scaler_webhook_certificate_expires_timestamp_seconds",
            "Time at which the certificate in use expires.",
        )
        self.gate_ways = gauge(
            "scaler_gate_way", "1 for each way of holding pods that is set up.", ["way"]
        )
        self._about_pods_of_others(followed)
        self.turned_away = counter(
            "scaler_turned_away",
            "Connections and requests that were refused for lack of room or time.",
            ["server"],
        )
        self._idle_resources: set[str] = set()
        self._shares: dict[ServiceKey, Mapping[Gauge, int]] = {}
        for answers in (("yes", "yes"), ("yes", "no"), ("no", "no")):
            self._services.labels(*answers)
        for beneficiary in ("self", "other"):
            self._preemptions.labels(beneficiary)

    def _about_pods_of_others(self, followed: Callable[[str, str], Followed]) -> None:
        self.arrived_ungated = followed(
            "scaler_pods_arrived_ungated",
            "Pods that name a rule and were created without our gate.",
        )
        self.restarts_counted = followed(
            "scaler_marked_restarts_counted",
            "Restarts that Volcano counted although the pods were marked.",
        )

    def planned(self, service: Service, plan: Plan, now: float) -> None:
        """Replace the part of a service in the gauges by its plan, decided at `now`."""
        counts = Tally((verdict.state.value, verdict.reason.value) for verdict in plan.verdicts)
        share = {self._instances.labels(*labels): number for labels, number in counts.items()}
        if plan.key.rule:
            share[
                self._services.labels(
                    "yes" if plan.serves else "no", "yes" if plan.complete else "no"
                )
            ] = 1
        self._show(
            plan.key, share | {self._rules_invalid: 1} if service.problem is not None else share
        )
        self._single_services.note(service, plan, now)

    def service_gone(self, key: ServiceKey) -> None:
        self._show(key, {})
        self._single_services.forget(key)

    def _show(self, key: ServiceKey, share: Mapping[Gauge, int]) -> None:
        for gauge, number in self._shares.pop(key, {}).items():
            gauge.dec(number)
        for gauge, number in share.items():
            gauge.inc(number)
        if share:
            self._shares[key] = share

    def acted_on(self, plan: Plan) -> None:
        for action in plan.actions:
            self._actions.labels(type(action).__name__).inc()
            if isinstance(action, Revoke):
                self._revocations.inc()
            elif isinstance(action, Evict) and action.beneficiary == NOBODY:
                self._drains.inc()
            elif isinstance(action, Evict):
                self._preemptions.labels(
                    "self" if action.beneficiary == str(plan.key) else "other"
                ).inc()

    def write(self, verb: str, resource: Resource, outcome: str) -> None:
        self._writes.labels(verb, resource.plural, outcome).inc()

    def follow_informers(self, informers: Mapping[Resource, Informer[Any, Any]]) -> None:
        for resource, informer in informers.items():
            name = resource.full_name
            self.watch_silence.follow(
                partial(_silence, informer, asyncio.get_running_loop().time), name
            )
            self.lists.follow(partial(informer.counts.get, "lists", 0), name)
            self.watches.follow(partial(informer.counts.get, "watches", 0), name)
            self.watch_events.follow(partial(informer.counts.get, "events", 0), name)
            self.objects_refused.follow(partial(informer.counts.get, "refused", 0), name)

    def arbitrated(self, tally: decision.Tally | None) -> None:
        """Show the result of arbitration; None = each service was decided alone."""
        self._arbitration.set(tally is not None)
        tally = tally or decision.Tally()
        for name in _WHAT_IS_WEIGHED:
            self._waiting.labels(name).set(getattr(tally, name))
        self.not_weighed_yet(0)
        known = self._idle_resources | tally.idle.keys()
        shown = set(sorted(known, key=_usual_first)[:_MOST_RESOURCES])
        for resource in self._idle_resources - shown:
            self._idle.remove(resource)
        for resource in shown:
            self._idle.labels(resource).set(tally.idle.get(resource, 0))
        self._idle_resources = shown

    def not_weighed_yet(self, services: int) -> None:
        """Show that so many services wait until the decision under way has weighed them."""
        self._waiting.labels("not_yet").set(services)

    def passed(self, *, plan_seconds: float, pass_seconds: float) -> None:
        self.passes.inc()
        self._plan_seconds.observe(plan_seconds)
        self._pass_seconds.observe(pass_seconds)

    def render(self) -> bytes:
        """The exposition text, format 0.0.4."""
        return prometheus_client.generate_latest(self.registry)


def _silence(informer: Informer[Any, Any], now: Callable[[], float]) -> float | None:
    return now() - informer.heard if informer.heard > -math.inf else None


Family = CounterMetricFamily | GaugeMetricFamily


class Followed:
    """A number that another object keeps, by default a counter: read at each scrape, so the hot
    path costs nothing."""

    def __init__(
        self,
        name: str,
        text: str,
        *labels: str,
        registry: CollectorRegistry,
        family: type[Family] = CounterMetricFamily,
    ) -> None:
        self.labels = labels
        self._family = partial(family, name, text, labels=labels)
        self._sources: dict[tuple[str, ...], Callable[[], float | None]] = {}
        registry.register(self)

    def follow(self, source: Callable[[], float | None], *labels: str) -> None:
        """Show the value of `source` under these label values; nothing while `source` returns
        None."""
        self._sources[labels] = source

    def collect(self) -> Iterator[Family]:
        """Called by the registry."""
        family = self._family()
        for labels, source in self._sources.items():
            value = source()
            if value is not None:
                family.add_metric(labels, value)
        yield family


def _usual_first(resource: str) -> tuple[bool, str]:
    """The order of resources: those of Kubernetes and of Ascend come first."""
    return "/" in resource and not resource.startswith("huawei.com/"), resource
