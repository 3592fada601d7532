"""Whether a plan says something else than was reported last."""

from __future__ import annotations

from typing import Any

import msgspec

from scaler.decide.decision import GroupPlan, Note, Plan, State, Verdict
from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning
from scaler.report.service_reports import difference
from tests.builders import KEY

WAITS = Verdict(
    "uid-p0", "p0", "group0", State.HELD, Reason.MINIMUM_DOES_NOT_FIT, ("needs 2 nodes, 1 there",)
)
RUNS = Verdict("uid-d0", "d0", "group1", State.RUNNING, Reason.RUNNING)


def plan(*verdicts: Verdict, **changes: Any) -> Plan:
    return msgspec.structs.replace(Plan(KEY, 0, {"group0": 1}, False, {}, verdicts), **changes)


def test_the_same_plan_does_not_differ_and_a_first_one_does() -> None:
    assert difference(plan(WAITS), plan(WAITS)) == ""
    assert difference(None, plan(WAITS)) == "numbers"


def test_another_state_reason_or_number_differs() -> None:
    for other in (
        plan(WAITS, msgspec.structs.replace(RUNS, state=State.STARTING)),
        plan(msgspec.structs.replace(WAITS, reason=Reason.WAITING_FOR_ROOM), RUNS),
        plan(WAITS, RUNS, groups={"group0": GroupPlan(1, 0, 0, 1, 1)}),
        plan(WAITS, RUNS, serves=True),
    ):
        assert difference(plan(WAITS, RUNS), other) == "numbers"


def test_other_words_differ_in_words_only() -> None:
    for other in (
        plan(msgspec.structs.replace(WAITS, about=("needs 2 nodes, 0 there",))),
        plan(WAITS, notes=(Note(Warning.TARGET_UNREACHABLE, "ratio 0"),)),
    ):
        assert difference(plan(WAITS), other) == "words"
