"""Expectations against a timeline made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.sim.stories.instances import Condition, InstanceView
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.timeline import LoadSample, Moment, MomentKind, Sample, Timeline
from scaler.tools.simulate.verdicts import judge

SERVICE = "ns/rule/id"


def sample(at: float, running: int, **more: Any) -> Sample:
    views = tuple(
        InstanceView(f"p{n}", "g", Condition.RUNNING if n < running else Condition.EMPTY)
        for n in range(3)
    )
    return Sample(at, views, **more)


def timeline() -> Timeline:
    """0 run, from 10 s on 2, from 60 to 80 s 1, then 2; the target is 2; p2 is held.

    A pod is evicted at 60 s, two are revoked at 80 s."""
    made = Timeline()
    made.passes = 5
    made.end = 100.0
    more = {"target": {"g": 2}, "reasons": {"p2": "NotInRatio"}}
    made.add(SERVICE, sample(0, 0, **more))
    made.add(SERVICE, sample(10, 2, complete=True, **more))
    lost = {"pods_deleted": 1, "evictions": 1}
    made.add(SERVICE, sample(60, 1, **lost, **more))
    made.add(SERVICE, sample(80, 2, complete=True, revocations=2, **lost, **more))
    return made


def verdicts(*expect: dict[str, Any], made: Timeline | None = None) -> list[tuple[bool, str]]:
    events = [
        {"at": 50, "mark": "without a name"},
        {"at": 60, "name": "fault", "node": {"becomes": "ready"}},
    ]
    scenario = Scenario.model_validate(
        {"nodes": [{}], "events": events, "expect": list(expect), "until": 100}
    )
    return [(verdict.ok, verdict.found) for verdict in judge(scenario, made or timeline())]


@pytest.mark.parametrize(
    "expectation",
    [
        {"at": 10, "running": {"g": 2}},
        {"at": 9.9, "running": {"g": 0}, "complete": False},
        {
            "running": {"g": 2},
            "target": {"g": 2},
            "complete": True,
            "reasons": {"p2": "NotInRatio"},
        },
        {"within": 10, "running": {"g": 2}},
        {"within": 20, "after": "fault", "running": {"g": 2}},
        {"never_for": 20, "after": "fault", "running": {"g": 1}},
        {"never_for": 0, "running": {"g": 3}},
        {"after": "fault", "running_at_least": {"g": 1}, "pods_deleted": 0},
        {"at": 50, "pods_deleted": 0},
        {"service": SERVICE, "running": {"g": 2}},
        {"service": "ns/*", "running": {"g": 2}},
        {"at": 60, "revocations_at_most": 0, "evictions_at_most": 1},
        {"after": "fault", "evictions_at_most": 0, "revocations_at_most": 2},
    ],
)
def test_what_holds_is_ok(expectation: dict[str, Any]) -> None:
    assert verdicts(expectation) == [(True, ""), (True, "")]


@pytest.mark.parametrize(
    ("expectation", "found"),
    [
        ({"at": 70, "running": {"g": 2}}, "running g=1"),
        ({"within": 5, "running": {"g": 2}}, "at 5 s: running g=0"),
        ({"within": 19, "after": "fault", "running": {"g": 2}}, "at 79 s: running g=1"),
        ({"never_for": 15, "running": {"g": 1}}, "held for 20 s from 60 s on"),
        ({"never_for": 0, "running": {"g": 2}}, "held for 50 s from 10 s on"),
        (
            {"running": {"g": 1}, "target": {"g": 1}, "complete": False},
            "running g=2, target g=2, complete",
        ),
        ({"pods_deleted": 0}, "1 pods deleted"),
        ({"revocations_at_most": 1, "evictions_at_most": 0}, "2 revocations, 1 pods evicted"),
        ({"service": "other/*", "complete": True}, "no such service; there are: ns/rule/id"),
        ({"reasons": {"p9": "Running"}}, "p9 is unknown"),
        ({"service": "other", "complete": True}, "no such service; there are: ns/rule/id"),
    ],
)
def test_what_does_not_hold_is_told_with_what_was_found(
    expectation: dict[str, Any], found: str
) -> None:
    assert verdicts(expectation)[0] == (False, found)


def test_a_broken_invariant_or_a_dead_controller_fails_every_scenario() -> None:
    broken = timeline()
    broken.say(Moment(1.0, MomentKind.FAILURE, "S1: too many"))
    assert verdicts(made=broken) == [(False, "S1: too many")]
    silent = timeline()
    silent.passes = 0
    assert verdicts(made=silent) == [(False, "the controller never made a pass")]


def two_services() -> Timeline:
    """Smallest ratio: one. The first serves from 10 s on, the second from 20 s to 60 s."""
    made = Timeline()
    made.passes = 1
    made.end = 100.0
    for service, steps in (
        ("a/rule/id", [(0, 0), (10, 1)]),
        ("b/rule/id", [(0, 0), (20, 2), (60, 0)]),
    ):
        for at, running in steps:
            made.add(service, sample(at, running, smallest={"g": 1}))
    return made


@pytest.mark.parametrize(
    ("expectation", "ok"),
    [
        ({"serving": 1}, True),
        ({"serving": 2}, False),
        ({"at": 30, "serving": 2}, True),
        ({"within": 15, "serving": 2}, False),
        ({"within": 20, "serving": 2}, True),
        ({"within": 30, "after": "fault", "serving": 2}, False),
        ({"never_for": 39, "serving": 2}, False),
        ({"never_for": 40, "serving": 2}, True),
        ({"never_for": 0, "serving": 3}, True),
        ({"never_for": 0, "serving": 0}, False),
        ({"serving_at_least": 1}, True),
        ({"serving_at_least": 2}, False),
        ({"at": 30, "serving_at_least": 1}, True),
        ({"never_for": 0, "serving_at_least": 3}, True),
        ({"never_for": 80, "serving_at_least": 1}, False),
        ({"service": "*", "within": 20, "running_at_least": {"g": 1}}, True),
        ({"service": "*", "running": {"g": 1}}, False),
    ],
)
def test_services_that_serve_are_counted_over_all(expectation: dict[str, Any], ok: bool) -> None:
    assert verdicts(expectation, made=two_services())[0][0] is ok


def of_load(at: float, lost: float, queue: float) -> LoadSample:
    amounts = dict.fromkeys(
        ("rate", "able", "prefill_busy", "decode_busy", "decoding", "arrived", "served"), 0.0
    )
    return LoadSample(
        at=at,
        end=at + 10,
        lost=lost,
        prefill_queue=queue,
        decode_queue=1.0,
        wait=0.0,
        prefill=1,
        decode=1,
        npus=8,
        **amounts,
    )


@pytest.mark.parametrize(
    ("expectation", "found"),
    [
        ({"lost_at_most": 30}, ""),
        ({"lost_at_most": 29}, "lost 30"),
        ({"at": 60, "lost_at_most": 10, "queue_at_most": 6}, ""),
        ({"after": "fault", "lost_at_most": 20}, ""),
        ({"after": "fault", "lost_at_most": 19, "queue_at_most": 3}, "lost 20, queue 4"),
        ({"service": SERVICE, "queue_at_most": 5}, "queue 6"),
        ({"service": "other/r/j", "queue_at_most": 5}, "no such load; there are: ns/rule/id"),
    ],
)
def test_requests_lost_and_waiting_are_counted_in_their_time(
    expectation: dict[str, Any], found: str
) -> None:
    made = timeline()
    made.loads[SERVICE] = [of_load(40, 0, 5), of_load(50, 10, 2), of_load(60, 30, 3)]
    assert verdicts(expectation, made=made)[0] == (not found, found)
