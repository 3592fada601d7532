"""Scale-ups use what is left: 3b.7 of the contract, clause by clause."""

from __future__ import annotations

import pytest

from scaler.decide.decide import decide
from scaler.decide.world import Policy, RestartBudget, Service
from scaler.reasons.reasons import Reason
from tests.builders import NOW, doings, located, on_nodes, reasons, request, service, world


def done(*services: Service, nodes: str, **changes: object) -> dict[str, str]:
    return doings(decide(world(*services, nodes=nodes, **changes)))


LADDER = on_nodes("2P1D > 1P1D", "p0 on a0, d0 on a1, p1 held", name="a", age=9)
CLIMBS = on_nodes("2P1D > 1P1D", "p0 on a0, d0 on a1, p1 unbound", name="a", age=9)
SMALL = on_nodes("1P1D", "p0 held, d0 held", name="b")
SERVES = on_nodes("1P1D", "p0 on a2, d0 on a3", name="b")


def test_scale_ups_are_admitted_only_as_far_as_they_fit() -> None:
    three = on_nodes("3P1D > 1P1D", "p0 on a0, d0 on a1, p1 held, p2 held", name="a")
    made = decide(world(three, SERVES, nodes="a:8x5"))
    assert doings(made) == {"a-p1": "Admit"}
    assert reasons(made)["a-p2"] is Reason.WAITING_FOR_CAPACITY


def test_scale_ups_go_by_priority_then_by_age() -> None:
    young = on_nodes("2P > 1P", "p0 on a2, p1 held", name="b")
    assert done(LADDER, young, nodes="a:8x4") == {"a-p1": "Admit"}
    assert done(
        LADDER, on_nodes("2P > 1P", "p0 on a2, p1 held", name="b", priority=1), nodes="a:8x4"
    ) == {"b-p1": "Admit"}


def test_when_the_oldest_scale_up_fits_nowhere_the_next_one_goes() -> None:
    spare = on_nodes("2P > 1P", "p0@a on a0, p1@b held, p2@a held", name="a")
    assert done(spare, on_nodes("1P", "p0@ab on a1", name="b"), nodes="a:8x3 b:8, b0 used 8") == {
        "a-p2": "Admit"
    }


def test_a_scale_up_with_the_scheduler_that_no_longer_fits_is_revoked() -> None:
    made = decide(world(CLIMBS, SERVES, nodes="a:8x4"))
    assert doings(made) == {"a-p1": "Revoke"}
    assert done(CLIMBS, SERVES, nodes="a:8x5") == {}


@pytest.mark.parametrize(
    ("seen", "heeds"),
    [
        (CLIMBS, True),
        (LADDER, True),
        (SMALL, True),
        (on_nodes("1P1D", "p0 starts on a0, d0 on a1", name="a"), False),
    ],
    ids=["with the scheduler", "waits", "misses its minimum", "starts"],
)
def test_a_change_of_what_is_free_matters_where_something_waits_or_is_with_the_scheduler(
    seen: Service, heeds: bool
) -> None:
    assert decide(world(seen, SERVES, nodes="a:8x4")).heeds_room is heeds


def test_a_minimum_that_is_reserved_takes_the_room_of_scale_ups_that_are_not_bound() -> None:
    assert done(CLIMBS, SMALL, nodes="a:8x4") == {"a-p1": "Revoke"}
    assert done(CLIMBS, SMALL, nodes="a:8x5") == {"b-p0": "Admit", "b-d0": "Admit"}, (
        "there is room for both"
    )
    assert (
        done(
            on_nodes("2P1D > 1P1D", "p0 on a0, d0 on a1, p1 on a2", name="a"), SMALL, nodes="a:8x4"
        )
        == {}
    ), "it is bound"


def test_a_minimum_that_fits_nowhere_blocks_no_scale_up() -> None:
    assert done(LADDER, SMALL, nodes="a:8x3") == {"a-p1": "Admit"}


def test_a_minimum_on_other_nodes_blocks_no_scale_up() -> None:
    ladder = on_nodes("2P1D > 1P1D", "p0@a on a0, d0@a on a1, p1@a held", name="a")
    other = on_nodes("1P1D", "p0@b unbound, d0@b unbound", name="b")
    assert done(ladder, other, on_nodes("1P", "p0 on b0", name="c"), nodes="a:8x3 b:8x3") == {
        "a-p1": "Admit"
    }


def test_a_scale_up_that_could_take_the_only_room_of_a_minimum_waits() -> None:
    climbs = on_nodes("2P > 1P", "p0 on a0, p1 held", name="a", age=9)
    minimum = on_nodes("1P", "p0@b unbound", name="b")
    assert done(climbs, minimum, nodes="a:8x2 b:8") == {}
    assert done(climbs, minimum, nodes="a:8x2 b:8x2") == {"a-p1": "Admit"}, "each can have one"


@pytest.mark.parametrize("gone", ["b1 ending 8", "b1 cordoned 10", "b1 lost 10"])
def test_a_scale_up_with_the_scheduler_stays_where_what_is_reserved_is_out_of_its_reach(
    gone: str,
) -> None:
    """It can only be bound to a0 now; what the minimum waits for is another node."""
    climbs = on_nodes("2P > 1P", "p0 on b0, p1 unbound", name="a")
    assert done(climbs, on_nodes("1P", "p0@b held", name="b"), nodes=f"a:8 b:8x2, {gone}") == {}


def test_a_scale_up_with_the_scheduler_stays_though_others_there_may_take_its_own_room() -> None:
    """It can invalidate no reservation; where it lands itself is nobody's reservation."""
    climbs = on_nodes("2P1D > 1P1D", "p0 on b0 + unbound, p1@a unbound, d0 on a0", name="a")
    assert done(climbs, nodes="a:8x2 b:8x2") == {}
    assert done(climbs, on_nodes("1P", "p0 on a2", name="b"), nodes="a:8x3 b:8x2") == {}


def test_a_service_that_misses_its_minimum_admits_no_scale_up() -> None:
    waits = on_nodes("2P1D > 1P1D", "p0 on a0, d0 held, p1 held", name="a")
    assert done(waits, on_nodes("1P", "p0 on a3", name="b"), nodes="a:8x4") == {"a-d0": "Admit"}


def test_of_instances_beyond_the_largest_ratio_the_newest_admission_is_revoked() -> None:
    assert done(
        on_nodes("2P > 1P", "p0 on a0, p1 unbound, p2 unbound", name="a"), SERVES, nodes="a:8x6"
    ) == {"a-p2": "Revoke"}
    need = request()
    early = located("p2", need, ["u"], uid="a-p2", admitted_at=NOW - 500)
    late = located("p1", need, ["u"], uid="a-p1", admitted_at=NOW - 5)
    runs = located("p0", need, ["a0"], uid="a-p0")
    assert done(service("2P > 1P", (runs, late, early), key=LADDER.key), SERVES, nodes="a:8x6") == {
        "a-p1": "Revoke"
    }


def test_nothing_is_revoked_where_that_is_switched_off_and_it_keeps_its_room() -> None:
    made = decide(world(CLIMBS, SMALL, nodes="a:8x4", policy=Policy(revoke=False)))
    assert doings(made) == {}
    assert reasons(made)["a-p1"] is Reason.WAITING_FOR_SCHEDULER


def test_what_would_cost_a_restart_too_many_stays_and_says_so() -> None:
    need = request()
    found = (
        located("p0", need, ["a0"], uid="a-p0", made_by_us=False),
        located("d0", need, ["a1"], uid="a-d0", made_by_us=False),
        located("p1", need, ["u"], uid="a-p1", made_by_us=False, budget=RestartBudget(2, 1)),
    )
    made = decide(world(service("2P1D > 1P1D", found, key=LADDER.key), SMALL, nodes="a:8x4"))
    assert doings(made) == {}
    assert reasons(made)["a-p1"] is Reason.REVOKE_WOULD_COST_RESTARTS


def test_what_its_owner_has_not_made_yet_reserves_nothing() -> None:
    unmade = on_nodes("2P > 1P", "p0 on a0, p1 gone", name="a", others=True, age=9)
    assert done(unmade, on_nodes("2P > 1P", "p0 on a1, p1 held", name="b"), nodes="a:8x3") == {
        "b-p1": "Admit"
    }


def test_a_stranger_on_the_nodes_counts_like_anybody() -> None:
    assert done(LADDER, SERVES, nodes="a:8x5, a4 used 1") == {}
    shared = on_nodes("2P > 1P", "p0 on a0, p1 held", name="a", npus=4)
    assert done(shared, on_nodes("1P", "p0 on a1", name="b", npus=4), nodes="a:8x2, a1 used 4") == {
        "a-p1": "Admit"
    }


def test_of_what_is_with_the_scheduler_the_target_goes_before_what_is_beyond_it() -> None:
    waits = on_nodes("2P2D > 2P1D > 1P1D", "p0 on a0, p1 unbound, d0 on a1, d1 unbound")
    other = on_nodes("1P", "p0 on a2", name="b")
    assert done(waits, other, nodes="a:8x4") == {"a-d1": "Revoke"}
