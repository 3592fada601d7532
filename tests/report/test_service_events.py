"""What has happened to a service, told as events about it."""

from __future__ import annotations

import pytest

from scaler.kube.api import Object
from scaler.report.service_events import service_events
from scaler.report.service_status import status_of
from scaler.rules.rule import Ratio, Rule
from tests.builders import instance, service
from tests.report.fakes import report, report_of

THEN = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:10:00Z"
LADDER = "3P1D > 2P1D > 1P1D"


def said(states: str, ladder: str = LADDER) -> Object:
    return status_of(report(ladder, states), {}, THEN)


def told(before: str, after: str, ladder: str = LADDER) -> list[tuple[str, str]]:
    was = said(before, ladder)
    return [
        (str(reason), words)
        for reason, words in service_events(was, status_of(report(ladder, after), was, LATER))
    ]


ALL = "p0 Running, p1 Running, p2 Running, d0 Running"
TWO = "p0 Running, p1 Running, p2 Held, d0 Running"
ONE = "p0 Running, p1 Held, p2 Held, d0 Running"
NONE = "p0 Running, p1 Held, p2 Held, d0 Held"


@pytest.mark.parametrize(
    ("before", "after", "reason", "words"),
    [
        (ALL, TWO, "Degraded", "lost p2 (WaitingForScheduler, Admitted"),
        (
            TWO,
            NONE,
            "Unavailable",
            "the smallest ratio does not run, works towards 1 group0 + 1 group1",
        ),
        (NONE, "p0 Held, p1 Held, p2 Held, d0 Held", "InstanceLost", "lost p0 ("),
        (NONE, ONE, "Available", "runs 1 group0 + 1 group1, works towards 2 group0 + 1 group1"),
        (ONE, TWO, "RatioReached", "runs 2 group0 + 1 group1, works towards 3 group0 + 1 group1"),
        (TWO, ALL, "Complete", "runs 3 group0 + 1 group1, the largest ratio that its jobs allow"),
    ],
)
def test_one_change_is_one_event_with_what_runs_and_what_is_worked_towards(
    before: str, after: str, reason: str, words: str
) -> None:
    ((event, message),) = told(before, after)
    assert event == reason
    assert words in message


def test_a_loss_names_the_instances_and_the_first_three_of_many() -> None:
    ((_, message),) = told("p0 Running, d0 Running", "d0 Running", "1P1D")
    assert message.startswith("lost p0 (it is deleted, or its labels name another service now); ")
    many = ", ".join(f"p{number} Running" for number in range(5))
    ((_, message),) = told(f"{many}, d0 Running", "d0 Running", "5P1D > 1P1D")
    assert "p2 (it is deleted, or its labels name another service now) and 2 more; " in message


def test_nothing_is_told_at_rest_and_of_what_nobody_knows() -> None:
    assert told(ALL, ALL) == []
    assert service_events({}, said(ALL)) == []


def test_a_rule_that_changed_is_told_with_its_ratios_and_what_follows() -> None:
    was = said(ALL)
    now = status_of(report("1P1D", ALL), was, LATER)
    was["rule"]["inForce"] = "a"
    now["rule"]["inForce"] = "b"
    ((event, message),) = service_events(was, now)
    assert event == "RuleChanged"
    assert message.startswith(
        "another rule is in force: 1 group0 + 1 group1; before: 3 group0 + 1 group1 > "
    )
    assert message.endswith(
        "; now runs 3 group0 + 1 group1, more than the largest ratio that its jobs allow, 1 group0"
        " + 1 group1"
    )
    again = [words for _, words in service_events(was, was | {"rule": now["rule"]})]
    assert again[0].startswith("another rule is in force: the ratios are the same, ")


def test_a_target_that_changed_is_told_when_nothing_else_happened() -> None:
    was = said(ONE)
    now = said(ONE)
    now["targetRatio"] = {"index": 2, "counts": {"group0": 1, "group1": 1}}
    words = "works towards 1 group0 + 1 group1, before 2 group0 + 1 group1"
    assert service_events(was, now) == [("TargetChanged", words)]


def test_what_an_api_server_sorted_by_name_is_told_in_the_order_of_the_rule() -> None:
    rule = Rule((Ratio({"prefill": 2, "decode": 1}, {"prefill": 1, "decode": 1}),))
    jobs = (instance("a", group="prefill"), instance("b", group="decode"))
    was = status_of(report_of(service(rule, jobs)), {}, THEN)
    was["targetRatio"] = {"index": 0, "counts": {"decode": 2, "prefill": 4}}
    now = was | {"targetRatio": {"index": 0, "counts": {"prefill": 2, "decode": 1}}}
    words = "works towards 2 prefill + 1 decode, before 4 prefill + 2 decode"
    assert service_events(was, now) == [("TargetChanged", words)]


def test_a_service_that_is_to_rest_says_so_once() -> None:
    was = said(ALL)
    rests = report_of(service(LADDER, "p0 Held, p1 Held, p2 Held, d0 Held", replicas=0))
    now = status_of(rests, was, LATER)
    assert service_events(was, now) == [
        ("Scaled", "no instance is wanted, before all; the service rests")
    ]
    assert service_events(now, status_of(rests, now, LATER)) == []


def test_pauses_and_a_rule_that_is_valid_again_are_told() -> None:
    was = said(ALL)
    now = said(ALL)
    now["rule"] = now["rule"] | {"paused": True}
    assert [reason for reason, _ in service_events(was, now)] == ["Paused"]
    assert [reason for reason, _ in service_events(now, was)] == ["Resumed"]
    invalid = was | {"conditions": [found | {"status": "False"} for found in was["conditions"]]}
    assert [reason for reason, _ in service_events(invalid, was)] == ["RuleValid"]
