"""A limit from outside, `spec.replicas` of the ElasticService: section 3c of the contract, clause by clause."""

from __future__ import annotations

import pytest

from scaler.decide.explain import target_in_words, words
from scaler.decide.world import Plan, Reason, State, Warning
from tests.builders import doings, plan, reasons, service

LADDER = "3P3D > 2P1D > 1P1D"


def said(made: Plan) -> dict[str, Reason]:
    return {uid.removeprefix("uid-"): reason for uid, reason in reasons(made).items()}


# The ratio aimed at


@pytest.mark.parametrize(("replicas", "index"), [(9, 0), (4, 0), (3, 1), (2, 2), (1, 2)])
def test_the_service_stops_at_the_smallest_ratio_with_as_many_instances_as_are_wanted(
    replicas: int, index: int
) -> None:
    running = {0: "p0 Running, p1 Running, p2 Running, d0 Running, d1 Running, d2 Running",
               1: "p0 Running, p1 Running, d0 Running", 2: "p0 Running, d0 Running"}[index]  # fmt: skip
    made = plan(service(LADDER, f"{running}, p7 Held, d7 Held", replicas=replicas))
    assert (made.target_index, made.complete, made.actions) == (index, True, ())


def test_on_the_way_up_one_ratio_follows_the_other_as_without_a_limit() -> None:
    made = plan(service(LADDER, "p0 Running, p1 Held, d0 Running, d1 Held", replicas=3))
    assert (made.target_index, made.target, doings(made)) == (1, {"group0": 2, "group1": 1}, {"uid-p1": "Admit"})


def test_what_is_held_beyond_the_limit_is_scaled_down_and_what_even_the_rule_has_no_place_for_is_a_spare() -> None:
    made = plan(service("2P1D > 1P1D", "p0 Running, p1 Held, p2 Held, d0 Running", replicas=2))
    assert said(made) == {
        "p0": Reason.RUNNING,
        "p1": Reason.SCALED_DOWN,
        "p2": Reason.NOT_IN_RATIO,
        "d0": Reason.RUNNING,
    }
    assert words(made.verdicts[1], made) == (
        "Not wanted now: spec.replicas of its ElasticService is 2, with place for only 1 of group0; "
        "raise it to run more."
    )


def test_a_ratio_beyond_the_jobs_is_said_only_where_it_is_wanted() -> None:
    found = "p0 Running, d0 Running"
    limited, free, more = (plan(service(LADDER, found, replicas=number)) for number in (2, 9, 3))
    assert limited.notes == ()
    assert [note.warning for note in (*free.notes, *more.notes)] == [Warning.TARGET_UNREACHABLE] * 2
    assert more.notes[0].message == "ratio 1 needs 2 of group0, 1 exist"


def test_a_group_of_the_rule_is_known_whatever_is_wanted() -> None:
    made = plan(service("1P1D > 1P", "p0 Running, d0 Held", replicas=1))
    assert said(made)["d0"] is Reason.SCALED_DOWN


# Nothing wanted


def test_a_service_that_rests_wants_nothing_and_lacks_nothing() -> None:
    made = plan(service(LADDER, "p0 Held, d0 Held, d1 Held, d2 Held, d3 Held", replicas=0))
    assert (made.target_index, made.target, made.serves, made.complete) == (-1, {}, True, True)
    assert (made.actions, made.notes) == ((), ())
    assert said(made) == {**dict.fromkeys(("p0", "d0", "d1", "d2"), Reason.SCALED_DOWN), "d3": Reason.NOT_IN_RATIO}
    assert "rests" in words(made.verdicts[0], made)
    assert "rests" in target_in_words(made)


def test_what_is_with_the_scheduler_is_revoked_when_nothing_is_wanted() -> None:
    made = plan(service("1P1D", "p0 Admitted, d0 Held", replicas=0))
    assert doings(made) == {"uid-p0": "Revoke"}
    assert made.verdicts[0].state is State.HELD
