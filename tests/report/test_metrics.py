"""Metrics: what a plan adds, that services come and go without a trace, and that the reference page
is complete."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler import __version__
from scaler.decide.decision import NOBODY, Evict, Plan, Revoke, State, Tally
from scaler.decide.world import RuleProblem, Service, ServiceKey
from scaler.kube.api import PODS
from scaler.reasons.warnings import Warning
from scaler.report.metrics import Metrics
from tests.builders import KEY, NOW, plan, service

REFERENCE = Path(__file__).parents[2] / "docs/reference/metrics.md"


def note(metrics: Metrics, found: Service, now: float = NOW, **changes: object) -> Plan:
    """Plan the service and show it; `changes` are put over the plan."""
    made = msgspec.structs.replace(plan(found), **changes)
    metrics.planned(msgspec.structs.replace(found, key=made.key), made, now)
    return made


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_a_plan_is_counted_by_state_and_reason() -> None:
    metrics = Metrics()
    made = note(metrics, service("2P1D > 1P1D", "p0 Running, p1 Held, d0 Held"))
    metrics.acted_on(made)
    assert value(metrics, "scaler_instances", state="Held", reason="WaitingForRatio") == 1
    assert value(metrics, "scaler_services", available="no", complete="no") == 1
    assert value(metrics, "scaler_actions_total", action="Admit") == 1


def test_a_rule_problem_is_counted_while_it_lasts() -> None:
    metrics = Metrics()
    healthy = service("1P", "p0 Running")
    note(
        metrics,
        msgspec.structs.replace(
            healthy, problem=RuleProblem(Warning.RULE_INVALID, "it is no JSON")
        ),
    )
    assert value(metrics, "scaler_services_with_rule_problem") == 1
    note(metrics, healthy)
    assert value(metrics, "scaler_services_with_rule_problem") == 0


def test_revocations_preemptions_and_drains_are_counted_when_they_are_carried_out() -> None:
    metrics = Metrics()
    others = (Evict("c", "default/rule/other"), Evict("d", "default/rule/other"))
    nobody = Evict("e", NOBODY)
    actions = (Revoke("a"), Evict("b", str(KEY)), *others, nobody)
    doing = note(metrics, service("2P1D > 1P1D", "p0 Held, d0 Held"), actions=actions)
    assert value(metrics, "scaler_preemptions_total", beneficiary="other") == 0
    metrics.acted_on(doing)
    assert value(metrics, "scaler_revocations_total") == 1
    assert value(metrics, "scaler_preemptions_total", beneficiary="self") == 1
    assert value(metrics, "scaler_preemptions_total", beneficiary="other") == 2
    assert value(metrics, "scaler_drains_total") == 1
    assert value(metrics, "scaler_actions_total", action="Evict") == 4


def test_the_gauges_of_the_arbitration_are_those_of_the_last_one() -> None:
    metrics = Metrics()
    metrics.arbitrated(
        Tally(
            serving=3, minimums_waiting=2, in_backoff=1, rounded=4, idle={"huawei.com/Ascend910": 8}
        )
    )
    assert value(metrics, "scaler_arbitration") == 1
    assert value(metrics, "scaler_services_weighed", what="serving") == 3
    assert value(metrics, "scaler_services_weighed", what="in_backoff") == 1
    assert value(metrics, "scaler_services_weighed", what="rounded") == 4
    assert value(metrics, "scaler_idle", resource="huawei.com/Ascend910") == 8
    metrics.arbitrated(None)
    assert value(metrics, "scaler_arbitration") == 0
    assert value(metrics, "scaler_services_weighed", what="serving") == 0
    assert value(metrics, "scaler_idle", resource="huawei.com/Ascend910") == 0


def test_tenants_do_not_add_resources_without_bound_and_none_of_theirs_displaces_npus() -> None:
    metrics = Metrics()
    npu = "huawei.com/Ascend910"
    for number in range(100):
        metrics.arbitrated(
            Tally(idle={f"a.example/{number}-{n}": 1 for n in range(30)} | {npu: number, "cpu": 1})
        )
    shown = [
        sample
        for family in metrics.registry.collect()
        if family.name == "scaler_idle"
        for sample in family.samples
    ]
    assert len(shown) == 20
    assert value(metrics, "scaler_idle", resource=npu) == 99


_states = st.lists(st.sampled_from(list(State)), min_size=1, max_size=5)


@given(st.lists(st.tuples(st.integers(0, 3), _states), max_size=8))
def test_gauges_always_are_the_sum_over_the_newest_plans(
    history: list[tuple[int, list[State]]],
) -> None:
    metrics = Metrics()
    newest = {}
    for number, states in history:
        text = ", ".join(f"p{n} {state}" for n, state in enumerate(states))
        made = note(metrics, service("2P", text), key=ServiceKey("a", "b", str(number)))
        newest[made.key] = made
    for made in newest.values():
        for verdict in made.verdicts:
            told = sum(
                (v.state, v.reason) == (verdict.state, verdict.reason)
                for m in newest.values()
                for v in m.verdicts
            )
            assert (
                value(metrics, "scaler_instances", state=verdict.state, reason=verdict.reason)
                == told
            )
    for key in newest:
        metrics.service_gone(key)
    assert all(
        sample.value == 0
        for family in metrics.registry.collect()
        if family.name == "scaler_instances"
        for sample in family.samples
    )


def test_writes_and_dropped_reports_are_counted_by_label() -> None:
    metrics = Metrics()
    metrics.write("create", PODS, "ok")
    metrics.write("create", PODS, "ok")
    metrics.reports_dropped.labels("event", "spam").inc()
    assert value(metrics, "scaler_writes_total", verb="create", resource="pods", outcome="ok") == 2
    assert value(metrics, "scaler_reports_dropped_total", kind="event", cause="spam") == 1


def test_what_others_count_is_read_at_the_scrape() -> None:
    metrics = Metrics()
    opened = [1]
    metrics.watches.follow(lambda: opened[0], "pods")
    metrics.expectation_timeouts.follow(lambda: 0)
    opened[0] = 2
    assert value(metrics, "scaler_watches_total", resource="pods") == 2
    assert b"scaler_expectation_timeouts_total 0.0" in metrics.render()


def test_a_pass_is_counted_and_timed() -> None:
    metrics = Metrics()
    metrics.passed(plan_seconds=0.002, pass_seconds=0.003)
    assert (
        value(metrics, "scaler_passes_total")
        == value(metrics, "scaler_plan_duration_seconds_count")
        == 1
    )
    assert value(metrics, "scaler_pass_duration_seconds_sum") == 0.003


def test_the_reference_page_names_every_metric_and_no_other() -> None:
    families = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in Metrics().registry.collect()
    }
    names = " ".join(
        re.findall(r"^\| (`(?:scaler|process)_[^|]*) \|", REFERENCE.read_text(), re.MULTILINE)
    )
    assert set(re.findall(r"`(\w+)`", names)) == families


def test_the_build_and_the_process_are_told() -> None:
    metrics = Metrics()
    assert (
        value(metrics, "scaler_build_info", version=__version__, python=platform.python_version())
        == 1
    )
    assert (value(metrics, "process_resident_memory_bytes") or 0) > 2**20


def test_what_is_followed_is_left_out_while_nothing_is_known_of_it() -> None:
    metrics = Metrics()
    ends = [None, 1.5]
    metrics.certificate_expires.follow(lambda: ends[0])
    name = "scaler_webhook_certificate_expires_timestamp_seconds"
    assert value(metrics, name) is None
    ends.reverse()
    assert value(metrics, name) == 1.5


@pytest.mark.parametrize("seconds", [0.001, 3.0, 100.0])
def test_a_request_is_timed_by_verb_and_resource(seconds: float) -> None:
    metrics = Metrics()
    metrics.requests.labels("patch", "pods").observe(seconds)
    assert (
        value(metrics, "scaler_request_duration_seconds_sum", verb="patch", resource="pods")
        == seconds
    )
