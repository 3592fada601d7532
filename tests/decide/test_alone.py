"""A service that shares its nodes with nobody is admitted whether it fits or not: 3b.8 of the
contract."""

from __future__ import annotations

from scaler.decide.decide import decide
from scaler.decide.world import Service
from scaler.reasons.reasons import Reason
from tests.builders import Story, doings, on_nodes, world


def done(*services: Service, nodes: str) -> dict[str, str]:
    return doings(decide(world(*services, nodes=nodes)))


def test_its_minimum_is_admitted_though_it_does_not_fit() -> None:
    assert done(on_nodes("1P1D", "p0 held, d0 held"), nodes="a:8") == {
        "a-p0": "Admit",
        "a-d0": "Admit",
    }
    assert done(on_nodes("1P", "p0 held 3"), nodes="a:8") == {"a-p0": "Admit"}, (
        "not even on empty nodes"
    )


def test_what_there_is_of_its_minimum_is_admitted_though_jobs_are_missing() -> None:
    assert done(on_nodes("1P2D", "p0 held, d0 held"), nodes="a:8x3") == {
        "a-p0": "Admit",
        "a-d0": "Admit",
    }


def test_its_scale_ups_are_admitted_while_its_minimum_misses_nothing() -> None:
    assert done(on_nodes("2P1D > 1P1D", "p0 on a0, d0 on a1, p1 held"), nodes="a:8x2") == {
        "a-p1": "Admit"
    }
    waits = on_nodes("2P1D > 1P1D", "p0 on a0, p1 held, d0 unbound")
    assert done(waits, nodes="a:8") == {}


def test_of_its_candidates_those_that_fit_go_first() -> None:
    assert done(on_nodes("1P", "p0@b held, p1@a held"), nodes="a:8 b:8, b0 used 8") == {
        "a-p1": "Admit"
    }
    assert done(
        on_nodes("2P > 1P", "p0 on a0, p1@b held, p2@a held"), nodes="a:8x2 b:8, b0 used 8"
    ) == {"a-p2": "Admit"}


def test_one_that_does_not_fit_gives_way_to_one_that_does() -> None:
    assert done(
        on_nodes("2P > 1P", "p0 on a0, p1@b unbound, p2@a held"), nodes="a:8x2 b:8, b0 used 8"
    ) == {"a-p1": "Revoke"}
    assert (
        done(on_nodes("2P > 1P", "p0 on a0, p1@b unbound, p2@b held"), nodes="a:8x2 b:8, b0 used 8")
        == {}
    )


def test_what_is_with_the_scheduler_without_room_says_what_is_missing_and_what_is_away() -> None:
    """3b.8, 3b.3d: the same words at the admission and as long as its pods wait."""
    for since, words in (
        (9999, ("needs 2 nodes, 1 free; a1 NotReady; each with 8 free x/npu",)),
        (9, ("room on a1 is expected: a1 NotReady",)),
    ):
        for states in ("p0 held, d0 held", "p0 unbound, d0 unbound"):
            found = decide(world(on_nodes("1P1D", states), nodes=f"a:8x2, a1 lost {since}"))
            assert [verdict.about for verdict in found.plans[0].verdicts] == [words] * 2


def test_a_scale_up_that_is_with_the_scheduler_without_room_says_so() -> None:
    for state in ("held", "unbound"):
        grows = on_nodes("2P1D > 1P1D", f"p0 on a0, d0 on a1, p1 {state}")
        (plan,) = decide(world(grows, nodes="a:8x2")).plans
        (waits,) = [verdict for verdict in plan.verdicts if verdict.name == "p1"]
        assert waits.reason is Reason.WAITING_FOR_SCHEDULER
        assert waits.about == ("needs 1 node, 0 free; with 8 free x/npu",)


def test_it_waits_for_ever() -> None:
    story = Story("a:8")
    assert story.at(0, on_nodes("1P1D", "p0 held, d0 held")) == {"a-p0": "Admit", "a-d0": "Admit"}
    waits = on_nodes("1P1D", "p0 unbound, d0 unbound")
    assert [story.at(time, waits) for time in (1, 30, 300, 3000, 30_000)] == [{}] * 5


def test_sharing_is_a_static_fact_whatever_the_other_does_now() -> None:
    small = on_nodes("1P1D", "p0@a held, d0@a held")
    assert done(small, on_nodes("1P", "p0@b on b0", name="b"), nodes="a:8 b:8") == {
        "a-p0": "Admit",
        "a-d0": "Admit",
    }
    assert done(small, on_nodes("1P", "p0@ab on b0", name="b"), nodes="a:8 b:8") == {}


def test_what_is_beyond_the_target_and_does_not_fit_makes_way_for_what_the_target_misses() -> None:
    """An instance that was thought lost runs again: a node that comes is for the instance that is
    missing."""
    waits = on_nodes("2P2D > 1P2D > 1P1D", "p0 on a0, p1 unbound, d0 on a1, d1 unbound")
    assert done(waits, nodes="a:8x2") == {"a-p1": "Revoke"}
    assert done(waits, nodes="a:8x4") == {}


def test_who_asks_for_the_same_nodes_shares_them_before_there_are_any() -> None:
    """3b, words: "as long as no node could run either, they ask for the same". Nothing is released
    that has to be revoked when the first node comes."""
    first = on_nodes("1P1D", "p0@a held, d0@a held")
    second = on_nodes("1P", "p0@a held", name="b")
    for nodes in ("", "b:8x9"):
        assert done(first, second, nodes=nodes) == {}
        assert set(done(first, nodes=nodes).values()) == {"Admit"}, "nobody else asks for them"
    elsewhere = on_nodes("1P", "p0@c held", name="b")
    assert done(first, elsewhere, nodes="b:8") == {
        "a-p0": "Admit",
        "a-d0": "Admit",
        "b-p0": "Admit",
    }


def test_who_shares_one_kind_of_nodes_that_are_not_there_shares_nodes() -> None:
    """3b, words: of each pod for itself, so that prefills that could run do not go before decodes
    that could not."""
    first = on_nodes("1P1D", "p0@a held, d0@b held")
    assert done(first, on_nodes("1P", "p0@b held", name="b"), nodes="a:8") == {}
    assert set(done(first, on_nodes("1P", "p0@c held", name="b"), nodes="a:8").values()) == {
        "Admit"
    }


def test_nodes_that_come_one_by_one_go_to_one_minimum_after_the_other() -> None:
    """What waits while no node is there is not released and taken back when nodes come."""
    held = [on_nodes("1P1D", "p0 held, d0 held", name=name) for name in "abc"]
    story = Story("")
    assert story.at(0, *held) == {}
    story.nodes = "a:8"
    assert story.at(1, *held) == {}
    story.nodes = "a:8x2"
    assert story.at(2, *held) == {"a-p0": "Admit", "a-d0": "Admit"}
