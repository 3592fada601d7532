"""Whether a plan says something else than was reported last, and who waits for room."""

from __future__ import annotations

from typing import Any

import msgspec

from scaler.decide.world import GroupPlan, Note, Plan, Reason, State, Tally, Verdict, Warning
from scaler.report.reported import Reported
from tests.builders import KEY

WAITS = Verdict("uid-p0", "p0", "group0", State.HELD, Reason.MINIMUM_DOES_NOT_FIT, ("needs 2 nodes, 1 there",))
RUNS = Verdict("uid-d0", "d0", "group1", State.RUNNING, Reason.RUNNING)


def plan(*verdicts: Verdict, **changes: Any) -> Plan:
    return msgspec.structs.replace(Plan(KEY, 0, {"group0": 1}, False, {}, verdicts), **changes)


def reported(made: Plan) -> Reported:
    last = Reported()
    last.note(made)
    return last


def test_what_was_never_reported_differs() -> None:
    assert Reported().differs(plan(WAITS))


def test_the_same_plan_does_not_differ() -> None:
    last = reported(plan(WAITS))
    assert (last.differs(plan(WAITS)), last.differs_in_words(plan(WAITS))) == (False, False)


def test_another_state_reason_or_number_differs() -> None:
    last = reported(plan(WAITS, RUNS))
    assert last.differs(plan(WAITS, msgspec.structs.replace(RUNS, state=State.STARTING)))
    assert last.differs(plan(msgspec.structs.replace(WAITS, reason=Reason.WAITING_FOR_ROOM), RUNS))
    assert last.differs(plan(WAITS, RUNS, groups={"group0": GroupPlan(1, 0, 0, 1, 1)}))
    assert last.differs(plan(WAITS, RUNS, serves=True))


def test_other_words_differ_in_words_only() -> None:
    last = reported(plan(WAITS))
    for other in (
        plan(msgspec.structs.replace(WAITS, about=("needs 2 nodes, 0 there",))),
        plan(WAITS, notes=(Note(Warning.TARGET_UNREACHABLE, "ratio 0"),)),
    ):
        assert (last.differs(other), last.differs_in_words(other)) == (False, True)


def test_what_is_forgotten_differs_again() -> None:
    last = reported(plan(WAITS))
    last.forget(KEY)
    assert last.differs(plan(WAITS))


def test_who_waits_for_room_is_seen_from_the_tally_and_from_reasons() -> None:
    last = Reported()
    assert not last.waits_for_room(Tally(serving=1))
    assert last.waits_for_room(Tally(in_backoff=1))
    assert last.waits_for_room(Tally(scale_ups_waiting=1))
    last.decided(plan(WAITS))
    assert last.waits_for_room(Tally())
    last.decided(plan(RUNS))
    assert not last.waits_for_room(None)


def test_a_service_that_is_gone_waits_for_nothing() -> None:
    last = Reported()
    last.decided(plan(WAITS))
    last.forget(KEY)
    assert not last.waits_for_room(Tally())
