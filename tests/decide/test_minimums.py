"""Minimums reserve room, whole or not at all, in order: 3b.1, 3b.2, 3b.3 and 3b.6 of the contract,
clause by clause."""

from __future__ import annotations

import msgspec
import pytest

from scaler.decide.decide import decide
from scaler.decide.decision import Decision
from scaler.decide.memory import InstanceMemory, Memory, ServiceMemory
from scaler.decide.world import Service, World
from scaler.reasons.reasons import Reason
from scaler.rules.rule import RuleOptions
from tests.builders import doings, on_nodes, reasons, world


def done(*services: Service, nodes: str, **changes: object) -> dict[str, str]:
    return doings(decide(world(*services, nodes=nodes, **changes)))


def said(made: Decision, uid: str) -> tuple[Reason, tuple[str, ...]]:
    return next((v.reason, v.about) for plan in made.plans for v in plan.verdicts if v.uid == uid)


SMALL = on_nodes("1P1D", "p0 held, d0 held", name="a", age=9)
OTHER = on_nodes("1P1D", "p0 held, d0 held", name="b")


# 1. choice


def test_when_the_oldest_instance_of_a_group_fits_nowhere_the_next_one_goes() -> None:
    spare = on_nodes("1P1D", "p0@b held, p1@a held, d0@a held", name="a")
    taken = on_nodes("1P", "p0@b on b0", name="b")
    assert done(spare, taken, nodes="a:8x2 b:8") == {"a-p1": "Admit", "a-d0": "Admit"}


def test_instances_with_the_scheduler_are_chosen_before_held_ones() -> None:
    assert done(on_nodes("1P", "p0 held, p1 unbound", name="a"), OTHER, nodes="a:8") == {}


def test_what_is_bound_counts_for_the_minimum_so_only_the_rest_is_missing() -> None:
    half = on_nodes("1P1D", "p0 starts on a0, d0 held", name="b")
    assert done(SMALL, half, nodes="a:8x2") == {"b-d0": "Admit"}


def test_an_instance_whose_old_pods_are_going_away_is_chosen_last_and_its_room_waited_for() -> None:
    only = on_nodes("1P", "p0 ends", name="a", age=9)
    made = decide(world(only, OTHER, nodes="a:8x2, a0 ending 8"))
    assert doings(made) == {}
    assert reasons(made)["b-p0"] is Reason.MINIMUM_DOES_NOT_FIT, (
        "of two nodes one is kept for what is missing"
    )


def test_a_minimum_without_all_its_jobs_is_held_blocks_nobody_and_gives_back_what_it_had() -> None:
    short = on_nodes("1P2D", "p0 unbound, d0 held", name="a", age=9)
    made = decide(world(short, OTHER, nodes="a:8x3"))
    assert doings(made)["a-p0"] == "Revoke"
    assert reasons(made)["a-d0"] is Reason.MINIMUM_INCOMPLETE
    after = on_nodes("1P2D", "p0 held, d0 held", name="a", age=9)
    assert done(after, OTHER, nodes="a:8x2") == {"b-p0": "Admit", "b-d0": "Admit"}


def test_a_minimum_that_would_not_fit_on_empty_nodes_is_held_and_blocks_nobody() -> None:
    large = on_nodes("1P1D", "p0 held 2, d0 held 2", name="a", age=9)
    made = decide(world(large, OTHER, nodes="a:8x3"))
    assert doings(made) == {"b-p0": "Admit", "b-d0": "Admit"}
    assert reasons(made)["a-p0"] is Reason.MINIMUM_TOO_LARGE


# 2. order


def test_the_older_service_goes_first_and_only_whole() -> None:
    made = decide(world(SMALL, OTHER, nodes="a:8x3"))
    assert doings(made) == {"a-p0": "Admit", "a-d0": "Admit"}
    assert reasons(made)["b-p0"] is Reason.MINIMUM_DOES_NOT_FIT


def test_a_service_of_which_something_is_with_the_scheduler_goes_before_an_older_one() -> None:
    begun = on_nodes("1P1D", "p0 unbound, d0 unbound", name="b")
    assert done(SMALL, begun, nodes="a:8x2") == {}


def test_a_smaller_minimum_goes_where_a_bigger_one_before_it_does_not_fit() -> None:
    big = on_nodes("1P", "p0 held 3", name="a", age=9)
    assert done(big, OTHER, nodes="a:8x3, a0 used 8") == {"b-p0": "Admit", "b-d0": "Admit"}


@pytest.mark.parametrize(
    ("annotations", "classes", "most", "first"),
    [
        ((None, None), (0, 5), None, "b"),
        ((None, -1), (0, 0), None, "a"),
        ((-1, None), (0, 0), None, "b"),
        ((None, 9), (0, 0), None, "a"),  # it may not raise itself
        ((None, 9), (0, 0), 100, "b"),
        ((100, 200), (0, 0), 100, "a"),  # both are worth the most that is allowed
        ((None, 7), (5, 9), None, "b"),
        ((7, None), (5, 6), 100, "a"),
    ],
)
def test_priority_goes_before_age_and_the_annotation_raises_it_only_as_far_as_allowed(
    annotations: tuple[int | None, ...], classes: tuple[int, ...], most: int | None, first: str
) -> None:
    services = [
        on_nodes(
            "1P1D",
            "p0 held, d0 held",
            name=name,
            age=age,
            priority=value,
            options=RuleOptions(service_priority=annotation),
        )
        for name, age, value, annotation in zip("ab", (9, 0), classes, annotations, strict=True)
    ]
    expected = {f"{first}-p0": "Admit", f"{first}-d0": "Admit"}
    assert done(*services, nodes="a:8x2", max_service_priority=most) == expected


def test_a_higher_priority_takes_the_room_of_a_minimum_that_is_not_bound() -> None:
    low = on_nodes("1P1D", "p0 unbound, d0 unbound", name="a")
    high = on_nodes("1P1D", "p0 held, d0 held", name="b", priority=1)
    made = decide(world(low, high, nodes="a:8x2"))
    assert doings(made) == {"a-p0": "Revoke", "a-d0": "Revoke"}, (
        "and what takes its place goes when they are gone"
    )
    assert reasons(made)["b-p0"] is Reason.WAITING_FOR_ROOM


@pytest.mark.parametrize("gone", ["a2 ending 8", "a2 cordoned 10", "a2 lost 10"])
def test_a_lower_one_with_the_scheduler_whose_room_is_expected_is_not_in_the_way_of_a_higher_one(
    gone: str,
) -> None:
    """It waits for the expected room; until then the scheduler could give it the room that
    is reserved."""
    high = on_nodes("1P1D", "p0 on a1, d0 held", name="a", priority=2)
    low = on_nodes("1P", "p0 unbound", name="b")
    assert done(high, low, nodes=f"a:8x3, {gone}") == {"b-p0": "Revoke"}
    assert done(high, on_nodes("1P", "p0 held", name="b"), nodes=f"a:8x3, {gone}") == {
        "a-d0": "Admit"
    }


# 3. reserve


def test_an_admitted_minimum_that_no_longer_fits_is_revoked_whole() -> None:
    made = decide(
        world(on_nodes("1P1D", "p0 unbound, d0 unbound", name="a"), OTHER, nodes="a:8x2, a0 used 8")
    )
    assert doings(made) == {"a-p0": "Revoke", "a-d0": "Revoke"}
    assert said(made, "a-p0")[0] is Reason.MINIMUM_DOES_NOT_FIT


def test_the_words_say_what_is_missing_on_which_nodes() -> None:
    restricted = on_nodes("1P1D", "p0@b held, d0@b held", name="b")
    (words,) = said(decide(world(SMALL, restricted, nodes="a:8x2 b:8x2, b0 used 8")), "b-d0")[1]
    assert "2 nodes" in words
    assert "1 free" in words
    assert "8" in words


@pytest.mark.parametrize(
    ("gone", "kept"),
    [
        ("a1 ending 8", True),
        ("a1 ending 8 -299", True),
        ("a1 ending 8 -300", False),
        ("a1 lost 299", True),
        ("a1 lost 300", False),
        ("a1 cordoned 299", True),
        ("a1 cordoned 300", False),
    ],
)
def test_room_that_is_to_come_is_kept_for_a_while(gone: str, kept: bool) -> None:
    """A minimum of two nodes has one and waits for the other; a smaller service would take the
    one."""
    one = on_nodes("1P", "p0 held", name="b")
    made = decide(world(SMALL, one, nodes=f"a:8x2, {gone}"))
    assert ("b-p0" not in doings(made)) is kept
    assert (reasons(made)["a-p0"] is Reason.WAITING_FOR_ROOM) is kept


def test_pods_that_end_on_a_node_that_is_not_ready_reserve_nothing() -> None:
    one = on_nodes("1P", "p0 held", name="b")
    assert done(SMALL, one, nodes="a:8x2, a1 ending 8, a1 lost 10") == {"b-p0": "Admit"}


def test_own_bound_surplus_that_does_not_run_makes_room_at_once() -> None:
    broken = on_nodes("2P1D > 1P1D", "p0 on a0, p1 starts on a1, d0 held", name="a")
    assert done(broken, OTHER, nodes="a:8x2") == {"a-p1": "Evict"}


def test_what_is_bound_in_part_keeps_room_for_the_rest_of_it_while_its_attempt_lasts() -> None:
    part = on_nodes("1P", "p0 on a0 + unbound", name="a")
    assert done(part, on_nodes("1P", "p0 held", name="b", priority=5), nodes="a:8x2") == {}


# 6. release


def test_what_is_revoked_keeps_its_room_until_it_is_gone() -> None:
    ladder = on_nodes("2P1D > 1P1D", "p0 on a0, d0 on a1, p1 unbound", name="a", age=9)
    assert done(ladder, OTHER, nodes="a:8x4") == {"a-p1": "Revoke"}
    after = on_nodes("2P1D > 1P1D", "p0 on a0, d0 on a1, p1 held", name="a", age=9)
    assert done(after, OTHER, nodes="a:8x4") == {"b-p0": "Admit", "b-d0": "Admit"}


def test_where_others_make_the_pods_a_minimum_goes_when_each_instance_has_one() -> None:
    both = on_nodes("1P1D", "p0 gated, d0 gated", name="a", others=True)
    half = on_nodes("1P1D", "p0 gated, d0 gone", name="a", others=True)
    assert done(both, OTHER, nodes="a:8x4")["a-p0"] == "Admit"
    assert "a-p0" not in done(half, OTHER, nodes="a:8x4")


def test_after_a_refused_creation_the_refused_one_goes_alone_first() -> None:
    refused = InstanceMemory(refused="exceeded quota", refused_until=1.0, refused_times=1)
    memory = Memory({str(SMALL.key): ServiceMemory(instances={"a-d0": refused})})
    assert done(SMALL, on_nodes("1P", "p0 on a3", name="b"), nodes="a:8x4", memory=memory) == {
        "a-d0": "Admit"
    }


def test_with_several_classes_of_nodes_the_most_restricted_instance_goes_first() -> None:
    flexible = on_nodes("1P", "p0 held", name="a", age=9)
    restricted = on_nodes("1P", "p0@a held", name="b")
    made = decide(world(flexible, restricted, nodes="a:8 b:8"))
    assert doings(made) == {"b-p0": "Admit"}
    assert reasons(made)["a-p0"] is Reason.WAITING_FOR_ROOM
    assert done(flexible, on_nodes("1P", "p0@a on a0", name="b"), nodes="a:8 b:8") == {
        "a-p0": "Admit"
    }
    assert done(flexible, restricted, nodes="a:8x2 b:8") == {"a-p0": "Admit", "b-p0": "Admit"}, (
        "room to spare"
    )


def test_where_each_could_spoil_the_other_one_of_them_begins() -> None:
    services = on_nodes("1P", "p0@ab held 2", name="a"), on_nodes("1P", "p0@bc held 2", name="b")
    assert list(done(*services, nodes="a:8 b:8x2 c:8").values()) == ["Admit"]


def test_a_minimum_goes_though_another_class_of_nodes_is_waited_for() -> None:
    """Nothing that is free could be needed for the expected room."""
    free = on_nodes("1P1D", "p0 held, d0 unbound", name="a", age=9)
    waits = on_nodes("2P", "p0@b held, p1 on a0", name="b")
    assert done(free, waits, nodes="a:8x4 b:8, b0 lost 10") == {"a-p0": "Admit"}


def test_minimums_are_placed_by_moving_what_is_reserved() -> None:
    services = [
        on_nodes("1P", f"p0@{kinds} held", name=name)
        for name, kinds in zip("abc", ("ab", "ac", "a"), strict=True)
    ]
    reasons_of_all = set(reasons(decide(world(*services, nodes="a:8 b:8 c:8"))).values())
    assert not {Reason.MINIMUM_DOES_NOT_FIT, Reason.MINIMUM_TOO_LARGE} & reasons_of_all


# 10. who takes part


def test_a_service_whose_rule_says_so_takes_no_part() -> None:
    out = msgspec.structs.replace(SMALL, options=RuleOptions(arbitration=False))
    assert len(done(out, OTHER, nodes="a:8x2")) == 4


def test_a_paused_service_is_not_touched_and_what_it_has_with_the_scheduler_keeps_its_room() -> (
    None
):
    paused = on_nodes("1P1D", "p0 unbound, d0 unbound", name="a", options=RuleOptions(paused=True))
    assert done(paused, OTHER, nodes="a:8x3") == {}
    held = on_nodes("1P1D", "p0 held, d0 held", name="a", options=RuleOptions(paused=True))
    assert done(held, OTHER, nodes="a:8x3") == {"b-p0": "Admit", "b-d0": "Admit"}


def test_without_sight_of_the_nodes_each_decides_alone() -> None:
    blind = world(SMALL, OTHER)
    assert len(doings(decide(blind))) == 4
    assert decide(blind).tally is None
    seen: World = world(
        SMALL, OTHER, nodes="a:8x2", alone="pods of other namespaces may not be read"
    )
    assert len(doings(decide(seen))) == 4


def test_the_tally_counts_who_serves_and_who_waits() -> None:
    serves = on_nodes("2P1D > 1P1D", "p0 on a0, d0 on a1, p1 held", name="a")
    half = on_nodes("1P1D", "p0 starts on a2, d0 held", name="c")
    tally = decide(world(serves, OTHER, half, nodes="a:8x3")).tally
    assert tally is not None
    assert (tally.serving, tally.minimums_waiting, tally.scale_ups_waiting) == (1, 2, 1)
    assert tally.idle == {"x/npu": 8, "pods": 1}
