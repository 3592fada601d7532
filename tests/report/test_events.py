"""Events: what they say, what makes two of them the same, and how many are allowed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS
from scaler.report.events import REPEAT_AFTER, Event, Filter, event_object, repetition
from scaler.report.service_reports import Subject

JOB = Subject(ASCEND_JOBS, "default", "p0", "uid-p0")
HELD = Event(JOB, "WaitingForRatio", "waits for group1")


def test_an_event_says_who_why_and_when() -> None:
    found = event_object(HELD, now=0)
    about = {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob"}
    assert found["involvedObject"] == about | {
        "namespace": "default",
        "name": "p0",
        "uid": "uid-p0",
    }
    assert (found["reason"], found["message"], found["type"]) == (
        "WaitingForRatio",
        "waits for group1",
        "Normal",
    )
    assert found["firstTimestamp"] == found["lastTimestamp"] == "1970-01-01T00:00:00Z"
    assert event_object(HELD._replace(warning=True), now=0)["type"] == "Warning"


def test_the_same_thing_has_the_same_name_and_anything_else_another() -> None:
    others = [
        HELD._replace(reason="Paused"),
        HELD._replace(message="x"),
        HELD._replace(subject=JOB._replace(uid="2")),
    ]
    assert len({HELD.event_name, *(other.event_name for other in others)}) == 4
    assert Event(JOB, "WaitingForRatio", "waits for group1").event_name == HELD.event_name


def test_a_rule_that_does_not_exist_is_named_without_a_uid() -> None:
    found = event_object(Event(Subject(CONFIG_MAPS, "default", "rule"), "RuleMissing", ""), now=0)
    assert "uid" not in found["involvedObject"]


def test_a_very_long_name_still_gives_an_object_name() -> None:
    assert len(HELD._replace(subject=JOB._replace(name="a" * 253)).event_name) <= 253


def test_a_repetition_is_counted() -> None:
    assert repetition(event_object(HELD, now=0), HELD, now=60) == {
        "count": 2,
        "lastTimestamp": "1970-01-01T00:01:00Z",
    }


@given(count=st.none() | st.text() | st.integers(1))
def test_an_event_of_any_shape_can_be_repeated(count: object) -> None:
    found = repetition({"count": count}, HELD, 0)["count"]
    assert found == (count if isinstance(count, int) else 1) + 1


def admissions(*told: tuple[Event, float]) -> list[str]:
    strict = Filter()
    return [strict.admit(event, now) for event, now in told]


def test_the_same_twice_in_a_row_is_news_only_after_ten_minutes() -> None:
    moments = (0, 1, REPEAT_AFTER, REPEAT_AFTER + 1)
    assert admissions(*((HELD, now) for now in moments)) == [
        "written",
        "repeated",
        "written",
        "repeated",
    ]


def test_the_same_after_something_else_is_news_at_once() -> None:
    runs = HELD._replace(reason="Running")
    assert admissions((HELD, 0), (runs, 0), (HELD, 0), (HELD, 0)) == [
        "written",
        "written",
        "written",
        "repeated",
    ]


def flapping(times: int, subject: Subject = JOB) -> list[tuple[Event, float]]:
    return [(HELD._replace(subject=subject, message=str(number)), 0) for number in range(times)]


def test_a_flapping_object_gets_a_burst_and_then_one_event_a_minute() -> None:
    later = [(HELD._replace(message=f"at {now}"), now) for now in (59, 60, 61)]
    found = admissions(*flapping(100), *later)
    assert found[:100].count("written") == Filter.BURST
    assert found[100:] == ["spam", "written", "spam"]


def test_warnings_are_dropped_last_and_sixty_a_minute_are_written() -> None:
    """However many other events there are about the object."""
    told = [*flapping(100)]
    for second in range(180):
        lost = HELD._replace(reason="Unavailable", message=f"at {second}", warning=True)
        told += [(lost, second), (HELD._replace(message=f"then {second}"), second)]
    found = admissions(*told)
    assert found[100::2] == ["written"] * 180
    many = [
        (HELD._replace(message=str(number), warning=True), number / 100) for number in range(6000)
    ]
    assert admissions(*many).count("written") == 119, "60 at once, then one a second"


def test_orders_of_an_autoscaler_are_one_event_whose_message_is_the_last_one() -> None:
    first = Event(JOB, "Scaled", "4 instances are to run, before 5")
    then = Event(JOB, "Scaled", "5 instances are to run, before 4")
    assert first.event_name == then.event_name
    assert first.event_name != then._replace(subject=JOB._replace(uid="2")).event_name
    there = event_object(first, now=0, times=3)
    assert there["count"] == 3
    assert repetition(there, then, now=60, times=2) == {
        "count": 5,
        "lastTimestamp": "1970-01-01T00:01:00Z",
        "message": then.message,
    }


def test_a_repetition_takes_no_token() -> None:
    found = admissions(*[(HELD, 0)] * 100, *flapping(Filter.BURST))
    assert found[1:100] == ["repeated"] * 99
    assert found[100:] == ["written"] * (Filter.BURST - 1) + ["spam"]


def test_one_object_cannot_silence_another() -> None:
    assert admissions(*flapping(100), *flapping(1, JOB._replace(uid="other")))[-1] == "written"


def test_what_was_told_long_ago_is_forgotten() -> None:
    strict = Filter()
    forgotten_after = Filter.BURST * Filter.REFILL
    for number in range(300):
        strict.admit(
            HELD._replace(subject=JOB._replace(uid=str(number))), number * forgotten_after / 10
        )
    assert len(strict._histories) <= 12
