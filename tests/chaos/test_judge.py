"""What a status may say other than a fresh look, and what not."""

from __future__ import annotations

import pytest

from scaler.decide.decision import State, Verdict
from scaler.reasons.reasons import Reason
from tests.chaos.judge import agrees

FIRST = Reason.MINIMUM_DOES_NOT_FIT
NEXT = Reason.WAITING_FOR_RATIO
RUNS = Reason.RUNNING


def _fresh(
    first: Reason = FIRST, second: Reason = NEXT, state: State = State.HELD
) -> list[Verdict]:
    return [
        Verdict("u0", "d0", "group1", state, first),
        Verdict("u1", "d1", "group1", State.HELD, second),
    ]


@pytest.mark.parametrize(
    ("said", "had_turn", "expected"),
    [
        ((FIRST, NEXT), "", True),
        ((Reason.REVOKED, NEXT), "", True),
        ((NEXT, FIRST), "", False),
        ((NEXT, FIRST), "u0", True),
        ((Reason.REVOKED, FIRST), "u0", True),
        ((NEXT, NEXT), "u0", False),
        ((NEXT, RUNS), "u0", False),
    ],
)
def test_held_candidates_change_places_only_when_one_had_its_turn(
    said: tuple[Reason, Reason], had_turn: str, expected: bool
) -> None:
    words = {name: reason.value for name, reason in zip(("d0", "d1"), said, strict=True)}
    assert agrees(words, _fresh(), {had_turn}) is expected


def test_what_is_held_changes_no_places_with_what_runs() -> None:
    assert not agrees(
        {"d0": NEXT.value, "d1": RUNS.value}, _fresh(RUNS, NEXT, State.RUNNING), {"u0", "u1"}
    )


@pytest.mark.parametrize(
    ("said", "state", "had_turn", "expected"),
    [
        (Reason.BROKEN, State.ADMITTED, "u0", True),
        (Reason.BROKEN, State.ADMITTED, "u1", False),
        (Reason.BROKEN, State.RUNNING, "u0", False),
        (Reason.RUNNING, State.ADMITTED, "u0", False),
    ],
)
def test_what_is_bound_in_part_is_called_broken_only_by_who_saw_its_turn_end(
    said: Reason, state: State, had_turn: str, expected: bool
) -> None:
    fresh = _fresh(Reason.WAITING_FOR_SCHEDULER, NEXT, state)
    assert agrees({"d0": said.value, "d1": NEXT.value}, fresh, {had_turn}) is expected


def test_no_instance_may_be_missing() -> None:
    assert not agrees({"d0": FIRST.value}, _fresh(), {"u0"})
