"""Metrics of single services: what they say, the durations they are counted from, and that tenants
cannot make many."""

from __future__ import annotations

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from scaler.decide.decision import Plan, State, Verdict
from scaler.decide.world import RuleProblem, Service, ServiceKey
from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning
from scaler.report.metrics import Metrics
from scaler.report.service_metrics import MOST, MOST_NAMESPACES, MOST_OF_NAMESPACE, ServiceSeries
from scaler.report.service_reports import running_index
from tests.builders import KEY, NOW, plan, rule, service

LADDER = "2P1D > 1P1D"
WHOLE = service(LADDER, "p0 Running, p1 Running, d0 Running")
WITHOUT_PREFILL = service(LADDER, "p0 Running, p1 Broken, d0 Running")
WITHOUT_DECODE = service(LADDER, "p0 Running, p1 Running, d0 Broken")
STARTING = service(LADDER, "p0 Running, p1 Starting, d0 Running")
INVALID = RuleProblem(Warning.RULE_INVALID, "it is no JSON")


class Watched:
    """One registry with nothing but services."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.series = ServiceSeries(self.registry)

    def note(self, found: Service, after: float = 0.0, made: Plan | None = None) -> None:
        """`after`: seconds since NOW."""
        self.series.note(found, made or plan(found), NOW + after)

    def value(self, name: str, key: ServiceKey = KEY, **labels: str) -> float | None:
        named = {"namespace": key.namespace, "rule": key.rule, "job_id": key.job_id}
        return self.registry.get_sample_value(f"scaler_service_{name}", named | labels)

    def durations(self, name: str) -> tuple[float | None, float | None]:
        """How many were observed, and their sum."""
        count, total = (
            self.registry.get_sample_value(f"scaler_{name}_seconds_{part}")
            for part in ("count", "sum")
        )
        return count, total

    def lines(self) -> int:
        return sum(len(family.samples) for family in self.registry.collect())

    def shown(self, name: str) -> set[str]:
        """The rules of the services that have this series."""
        found = [
            family for family in self.registry.collect() if family.name == f"scaler_service_{name}"
        ]
        return {sample.labels["rule"] for family in found for sample in family.samples}


def called(found: Service, namespace: str, name: str) -> Service:
    return msgspec.structs.replace(found, key=ServiceKey(namespace, name, "mindie"))


@pytest.mark.parametrize(
    ("found", "expected", "index"),
    [
        (WHOLE, (1, 1, 1), 0),
        (WITHOUT_PREFILL, (1, 0, 1), 1),
        (WITHOUT_DECODE, (0, 0, 1), -1),
        (service(None, "p0 Running"), (0, 0, 0), -1),
        (msgspec.structs.replace(WHOLE, problem=INVALID), (1, 1, 0), 0),
    ],
)
def test_conditions_say_what_runs(
    found: Service, expected: tuple[int, int, int], index: int
) -> None:
    watched = Watched()
    watched.note(found)
    assert (
        tuple(watched.value(name) for name in ("available", "complete", "rule_valid")) == expected
    )
    assert running_index(found, plan(found).groups) == index


def test_a_service_is_shown_with_its_conditions_its_ratios_and_its_instances() -> None:
    watched = Watched()
    watched.note(WITHOUT_PREFILL)
    assert [watched.value(name) for name in ("available", "complete", "rule_valid")] == [1, 0, 1]
    assert [watched.value(name) for name in ("ratio_index", "target_ratio_index")] == [1, 0]
    assert watched.value("instances", state="Running", reason="Running") == 2
    assert watched.value("instances", state="Broken", reason="Broken") == 1
    watched.note(WHOLE)
    assert watched.value("ratio_index") == 0
    assert watched.value("instances", state="Broken", reason="Broken") is None


def test_a_service_is_not_available_since_the_first_time_and_until_it_is() -> None:
    watched = Watched()
    name = "unavailable_since_timestamp_seconds"
    watched.note(WITHOUT_DECODE)
    watched.note(WITHOUT_DECODE, 10)
    assert watched.value(name) == NOW
    watched.note(msgspec.structs.replace(WITHOUT_DECODE, rule=rule("1P1D")), 15)
    assert watched.value(name) == NOW
    watched.note(WHOLE, 20)
    assert watched.value(name) is None
    watched.note(WITHOUT_DECODE, 30)
    assert watched.value(name) == NOW + 30


@pytest.mark.parametrize(
    ("replicas", "wanted"), [(1_000_000, 3), (9, 3), (3, 3), (2, 2), (1, 2), (0, 0)]
)
def test_as_many_are_wanted_as_the_ratio_has_that_is_aimed_at(replicas: int, wanted: int) -> None:
    watched = Watched()
    watched.note(msgspec.structs.replace(WHOLE, replicas=replicas))
    assert watched.value("wanted_instances") == wanted
    watched.note(service(None, "p0 Running", replicas=replicas))
    assert watched.value("wanted_instances") is None


def test_a_service_that_rests_or_is_limited_is_available_and_complete_without_a_fault() -> None:
    watched = Watched()
    watched.note(WHOLE)
    at_two = "p0 Running, p1 Held, d0 Running"
    at_none = "p0 Held, p1 Held, d0 Held"
    for number, (replicas, states) in enumerate([(2, at_two), (0, at_two), (0, at_none)]):
        watched.note(service(LADDER, states, replicas=replicas), 10 * number)
        assert [watched.value(name) for name in ("available", "complete")] == [1, 1]
    assert watched.value("unavailable_since_timestamp_seconds") is None
    watched.note(service(LADDER, at_none), 100)
    assert watched.value("unavailable_since_timestamp_seconds") == NOW + 100
    watched.note(service(LADDER, "p0 Starting, p1 Starting, d0 Starting"), 110)
    watched.note(WHOLE, 120)
    assert watched.durations("fault_to_degraded") == (0, 0)
    assert watched.durations("room_to_restored") == (0, 0)


def test_everything_of_a_service_ends_with_it() -> None:
    watched = Watched()
    without = watched.lines()
    watched.note(WITHOUT_DECODE)
    assert watched.lines() > without
    watched.series.forget(KEY)
    assert watched.lines() == without


def test_a_service_without_a_rule_has_no_series() -> None:
    watched = Watched()
    without = watched.lines()
    watched.note(msgspec.structs.replace(WHOLE, key=ServiceKey("default", "", ""), rule=None))
    assert watched.lines() == without


def test_from_a_fault_to_the_smaller_ratio_is_measured() -> None:
    watched = Watched()
    watched.note(WHOLE)
    watched.note(WITHOUT_DECODE, 10)
    watched.note(WITHOUT_DECODE, 20)
    assert watched.durations("fault_to_degraded") == (0, 0)
    watched.note(WITHOUT_PREFILL, 52)
    watched.note(WITHOUT_PREFILL, 60)
    assert watched.durations("fault_to_degraded") == (1, 42)


def test_a_fault_that_leaves_a_smaller_ratio_is_one_of_no_seconds() -> None:
    watched = Watched()
    watched.note(WHOLE)
    watched.note(WITHOUT_PREFILL, 10)
    watched.note(WITHOUT_PREFILL, 20)
    assert watched.durations("fault_to_degraded") == (1, 0)


def test_a_fault_that_heals_before_anything_smaller_runs_is_none() -> None:
    watched = Watched()
    for at, found in enumerate((WHOLE, WITHOUT_DECODE, WHOLE)):
        watched.note(found, at)
    assert watched.durations("fault_to_degraded") == (0, 0)


def test_a_new_rule_with_more_in_it_is_no_fault_and_what_it_adds_is_nothing_restored() -> None:
    watched = Watched()
    small = rule("1P1D")
    watched.note(msgspec.structs.replace(WITHOUT_PREFILL, rule=small))
    watched.note(STARTING, 10)
    watched.note(WHOLE, 30)
    assert watched.durations("fault_to_degraded") == watched.durations("room_to_restored") == (0, 0)


def test_from_a_place_for_what_was_lost_until_the_service_is_complete_is_measured() -> None:
    watched = Watched()
    watched.note(WHOLE)
    watched.note(WITHOUT_PREFILL, 10)
    watched.note(STARTING, 100)
    watched.note(STARTING, 110)
    watched.note(WHOLE, 130)
    watched.note(WHOLE, 140)
    assert watched.durations("room_to_restored") == (1, 30)


def test_time_in_which_something_else_waits_for_room_is_not_time_with_room() -> None:
    watched = Watched()
    watched.note(WHOLE)
    made = plan(STARTING)
    waits = Verdict("uid-p2", "p2", "group0", State.HELD, Reason.WAITING_FOR_CAPACITY)
    watched.note(STARTING, 100, msgspec.structs.replace(made, verdicts=(*made.verdicts, waits)))
    watched.note(STARTING, 200)
    watched.note(WHOLE, 230)
    assert watched.durations("room_to_restored") == (1, 30)


def test_a_first_start_restores_nothing() -> None:
    watched = Watched()
    watched.note(STARTING)
    watched.note(WHOLE, 30)
    assert watched.durations("room_to_restored") == (0, 0)


def test_one_namespace_shows_so_many_services_those_first_that_are_not_well() -> None:
    watched = Watched()
    names = [f"rule-{number:03}" for number in range(MOST_OF_NAMESPACE + 50)]
    for name in names[:-2]:
        watched.note(called(WHOLE, "tenant", name))
    watched.note(called(msgspec.structs.replace(WHOLE, problem=INVALID), "tenant", names[-2]))
    watched.note(called(WITHOUT_DECODE, "tenant", names[-1]))
    watched.note(called(WHOLE, "neighbour", "their-rule"))
    shown = watched.shown("available")
    assert len(shown) == MOST_OF_NAMESPACE + 1
    assert shown >= {"their-rule", *names[-2:], *names[: MOST_OF_NAMESPACE - 2]}
    assert (
        watched.registry.get_sample_value("scaler_services_left_out", {"namespace": "tenant"}) == 50
    )
    assert (
        watched.registry.get_sample_value("scaler_services_left_out", {"namespace": "neighbour"})
        is None
    )


def test_all_namespaces_together_show_so_many_and_no_more() -> None:
    watched = Watched()
    for namespace in range(MOST_NAMESPACES + 20):
        for number in range(30):
            watched.note(called(WHOLE, f"n{namespace}", f"rule-{namespace}-{number}"))
    assert len(watched.shown("available")) == MOST
    left_out = [
        family for family in watched.registry.collect() if family.name == "scaler_services_left_out"
    ]
    assert len(left_out[0].samples) <= MOST_NAMESPACES


def test_the_gauges_of_all_services_count_those_that_have_no_series() -> None:
    metrics = Metrics()
    for number in range(MOST_OF_NAMESPACE + 7):
        found = called(WHOLE, "tenant", f"rule-{number}")
        metrics.planned(found, plan(found), NOW)
    everyone = metrics.registry.get_sample_value(
        "scaler_services", {"available": "yes", "complete": "yes"}
    )
    assert everyone == MOST_OF_NAMESPACE + 7
