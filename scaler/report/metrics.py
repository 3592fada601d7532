"""Prometheus metrics in a registry of our own, with labels bound once and a bounded number of series.

No label carries a name that users choose (namespace, rule, job): ten thousand services give the same series as one.
Must not be used from pure packages; what is counted is described in docs/reference/metrics.md.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator
from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily

from scaler.decide import world
from scaler.decide.world import Evict, Plan, Revoke, ServiceKey
from scaler.informers.changes import PodArrivedUngated

_FAST: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_REACTION: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
CONTENT_TYPE: Final = prometheus_client.CONTENT_TYPE_PLAIN_0_0_4


class Metrics:
    """All metrics of one process. Methods are cheap and never raise."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self.passes = Counter("scaler_passes", "Passes of the decision loop.", registry=registry)
        self.pass_seconds = Histogram(
            "scaler_pass_duration_seconds", "One pass: plan and hand over.", buckets=_FAST, registry=registry
        )
        self.plan_seconds = Histogram(
            "scaler_plan_duration_seconds", "Planning in one pass.", buckets=_FAST, registry=registry
        )
        self.reaction_seconds = Histogram(
            "scaler_reaction_seconds", "From an event's arrival to the answer of the last write it caused.",
            buckets=_REACTION, registry=registry,
        )  # fmt: skip
        self.expectation_timeouts = Followed(
            "scaler_expectation_timeouts", "Own writes that no watch showed in time.", registry=registry
        )
        self.watches = Followed("scaler_watches", "Watches opened.", "resource", registry=registry)
        self.lists = Followed("scaler_lists", "Times that everything was listed.", "resource", registry=registry)
        self.watch_events = Followed("scaler_watch_events", "Watch events handled.", "resource", registry=registry)
        self.resync_corrections = Counter(
            "scaler_resync_corrections",
            "Changes that only a full pass found. Stays 0 unless an event was lost.",
            registry=registry,
        )
        self.leader = Gauge("scaler_leader", "1 while this process holds the Lease.", registry=registry)
        self._services = Gauge(
            "scaler_services", "Services by whether they run their largest ratio.", ["complete"], registry=registry
        )
        self._rules_invalid = Gauge(
            "scaler_services_with_rule_problem", "Services whose rule is missing or invalid.", registry=registry
        )
        self._instances = Gauge(
            "scaler_instances", "Instances by state and reason.", ["state", "reason"], registry=registry
        )
        self._actions = Counter(
            "scaler_actions", "What was decided to be done, by kind of action.", ["action"], registry=registry
        )
        self._writes = Counter(
            "scaler_writes", "Writes to the API server.", ["verb", "resource", "outcome"], registry=registry
        )
        self._reports_dropped = Counter(
            "scaler_reports_dropped", "Reports not written.", ["kind", "cause"], registry=registry
        )
        self._webhook_answers = Counter(
            "scaler_webhook_answers", "Answers of the admission webhook.", ["path", "outcome"], registry=registry
        )
        self._webhook_seconds = Histogram(
            "scaler_webhook_duration_seconds", "One answer of the admission webhook.", buckets=_FAST, registry=registry
        )
        self._gate_ways = Gauge(
            "scaler_gate_way", "1 where this way of holding pods is set up.", ["way"], registry=registry
        )
        self.arrived_ungated = Counter(
            "scaler_pods_arrived_ungated", "Pods that name a rule and arrived without our gate.", registry=registry
        )
        self.arbitration = Gauge(
            "scaler_arbitration", "1 while services are weighed against each other.", registry=registry
        )
        self._waiting = Gauge(
            "scaler_services_weighed", "Services and instances by what the arbitration said.", ["what"],
            registry=registry,
        )  # fmt: skip
        self._revocations = Counter(
            "scaler_revocations", "Admissions that were revoked, for whatever reason.", registry=registry
        )
        self._preemptions = Counter(
            "scaler_preemptions", "Instances evicted so that a missing one can start.", ["beneficiary"],
            registry=registry,
        )  # fmt: skip
        self._idle = Gauge(
            "scaler_idle", "Held to no use by services that do not serve.", ["resource"], registry=registry
        )
        self._idle_resources: set[str] = set()
        self._children: dict[tuple[int | str, ...], Counter] = {}
        self._plans: dict[ServiceKey, _Share] = {}
        self._totals: Tally[tuple[str, ...]] = Tally()
        for answer in ("yes", "no"):
            self._publish(("complete", answer))
        for beneficiary in ("self", "other"):
            self._child(self._preemptions, beneficiary)

    def planned(self, plan: Plan, *, rule_problem: bool = False) -> None:
        """Show what a service's plan says, in place of what its plan before said."""
        self._share(plan.key, _Share.of(plan, rule_problem))

    def acted_on(self, plan: Plan) -> None:
        """Count the actions of a plan that is being carried out."""
        for action in plan.actions:
            self._count(self._actions, type(action).__name__)
            if isinstance(action, Revoke):
                self._revocations.inc()
            elif isinstance(action, Evict):
                self._count(self._preemptions, "self" if action.beneficiary == str(plan.key) else "other")

    def service_gone(self, key: ServiceKey) -> None:
        """Take a service that has no jobs any more out of the gauges."""
        self._share(key, None)

    def write(self, verb: str, resource: str, outcome: str) -> None:
        """`outcome`: `ok`, or the error's class name in short, e.g. `Conflict`."""
        self._count(self._writes, verb, resource, outcome)

    def webhook_answered(self, path: str, outcome: str, seconds: float) -> None:
        """`outcome`: allowed, patched, warned, refused, unreadable."""
        self._count(self._webhook_answers, path, outcome)
        self._webhook_seconds.observe(seconds)

    def gate_way(self, way: str, *, set_up: bool) -> None:
        """`way`: policy, webhook."""
        self._gate_ways.labels(way).set(set_up)

    def arbitrated(self, tally: world.Tally | None) -> None:
        """What came of weighing all services against each other; None = each has decided alone."""
        self.arbitration.set(tally is not None)
        tally = tally or world.Tally()
        for name in ("serving", "minimums_waiting", "scale_ups_waiting", "in_backoff", "probing"):
            self._waiting.labels(name).set(getattr(tally, name))
        for resource in self._idle_resources | tally.idle.keys():
            self._idle.labels(resource).set(tally.idle.get(resource, 0))
        self._idle_resources |= tally.idle.keys()

    def passed(self, *, plan_seconds: float, pass_seconds: float) -> None:
        """One pass of the decision loop is over."""
        self.passes.inc()
        self.plan_seconds.observe(plan_seconds)
        self.pass_seconds.observe(pass_seconds)

    def report_dropped(self, kind: str, cause: str) -> None:
        """`kind`: event, status, conditions, last-valid; `cause`: spam, overflow, foreign, retries."""
        self._count(self._reports_dropped, kind, cause)

    def render(self) -> bytes:
        """The exposition text, format 0.0.4."""
        return prometheus_client.generate_latest(self.registry)

    def _count(self, counter: Counter, *labels: str) -> None:
        self._child(counter, *labels).inc()

    def _child(self, counter: Counter, *labels: str) -> Counter:
        """The counter for these labels, bound once: the hot path pays one dictionary look-up."""
        key: tuple[int | str, ...] = (id(counter), *labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = counter.labels(*labels)
        return child

    def on_pod_ungated(self, _change: PodArrivedUngated) -> None:
        """A pod that names a rule arrived without our gate."""
        self.arrived_ungated.inc()

    def _share(self, key: ServiceKey, share: _Share | None) -> None:
        before = self._plans.pop(key, None)
        if share is not None:
            self._plans[key] = share
        changed = (before.tally if before else Tally()), (share.tally if share else Tally())
        for label in changed[0].keys() | changed[1].keys():
            self._totals[label] += changed[1][label] - changed[0][label]
            self._publish(label)

    def _publish(self, label: tuple[str, ...]) -> None:
        value = self._totals[label]
        match label:
            case ("complete", answer):
                self._services.labels(answer).set(value)
            case ("problem",):
                self._rules_invalid.set(value)
            case (state, reason):
                self._instances.labels(state, reason).set(value)
            case _:
                raise AssertionError(label)


class Followed:
    """A counter that its owner keeps as a plain number: read at each scrape, so that the hot path pays nothing."""

    def __init__(self, name: str, text: str, *labels: str, registry: CollectorRegistry) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._sources: dict[tuple[str, ...], Callable[[], float]] = {}
        registry.register(self)

    def follow(self, source: Callable[[], float], *labels: str) -> None:
        """Show what `source` gives under these label values."""
        self._sources[labels] = source

    def describe(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterator[CounterMetricFamily]:
        """For the registry."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, source in self._sources.items():
            family.add_metric(labels, source())
        yield family


class _Share:
    """What one service adds to the gauges."""

    __slots__ = ("tally",)

    def __init__(self, tally: Tally[tuple[str, ...]]) -> None:
        self.tally = tally

    @classmethod
    def of(cls, plan: Plan, rule_problem: bool) -> _Share:
        tally: Tally[tuple[str, ...]] = Tally((v.state.value, v.reason.value) for v in plan.verdicts)
        tally["complete", "yes" if plan.complete else "no"] = 1
        if rule_problem:
            tally[("problem",)] = 1
        return cls(tally)
