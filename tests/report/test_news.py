"""What is worth reporting of a service to which nothing happened, and who waits for room."""

from __future__ import annotations

from typing import Any

import msgspec

from scaler.decide.world import Decision, GroupPlan, Memory, Note, Plan, Reason, State, Tally, Verdict, Warning
from scaler.report.reported import News, waits_for_room
from tests.builders import KEY

WAITS = Verdict("uid-p0", "p0", "group0", State.HELD, Reason.MINIMUM_DOES_NOT_FIT, ("needs 2 nodes, 1 there",))
RUNS = Verdict("uid-d0", "d0", "group1", State.RUNNING, Reason.RUNNING)


def plan(*verdicts: Verdict, **changes: Any) -> Plan:
    return msgspec.structs.replace(Plan(KEY, 0, {"group0": 1}, False, {}, verdicts), **changes)


def decision(*plans: Plan, tally: Tally | None = None) -> Decision:
    return Decision(plans, Memory(), tally=tally)


def told(made: Plan) -> News:
    news = News()
    news.told(made)
    return news


def test_what_was_never_told_is_news() -> None:
    assert News().is_news(plan(WAITS))


def test_the_same_once_more_is_no_news() -> None:
    news = told(plan(WAITS))
    assert (news.is_news(plan(WAITS)), news.has_other_words(plan(WAITS))) == (False, False)


def test_another_state_reason_or_number_is_news() -> None:
    news = told(plan(WAITS, RUNS))
    assert news.is_news(plan(WAITS, msgspec.structs.replace(RUNS, state=State.STARTING)))
    assert news.is_news(plan(msgspec.structs.replace(WAITS, reason=Reason.WAITING_FOR_ROOM), RUNS))
    assert news.is_news(plan(WAITS, RUNS, groups={"group0": GroupPlan(1, 0, 0, 1, 1)}))
    assert news.is_news(plan(WAITS, RUNS, serves=True))


def test_other_words_are_no_news_and_are_noticed() -> None:
    news = told(plan(WAITS))
    for other in (
        plan(msgspec.structs.replace(WAITS, about=("needs 2 nodes, 0 there",))),
        plan(WAITS, notes=(Note(Warning.TARGET_UNREACHABLE, "ratio 0"),)),
    ):
        assert (news.is_news(other), news.has_other_words(other)) == (False, True)


def test_what_is_forgotten_is_news_again() -> None:
    news = told(plan(WAITS))
    news.forget(KEY)
    assert news.is_news(plan(WAITS))


def test_who_waits_for_room_is_told_by_the_tally_and_by_reasons() -> None:
    assert not waits_for_room(decision(plan(RUNS), tally=Tally(serving=1)))
    assert waits_for_room(decision(plan(RUNS), tally=Tally(in_backoff=1)))
    assert waits_for_room(decision(plan(RUNS), tally=Tally(scale_ups_waiting=1)))
    assert waits_for_room(decision(plan(WAITS), tally=Tally()))
