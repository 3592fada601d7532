"""A combination that no ratio names, 4P1D of 4P2D > 2P2D > 1P1D: when it runs, and each thing that
ends it."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.decide.decide import decide
from scaler.decide.world import Preempt, Service
from scaler.reasons.reasons import Reason
from scaler.rules.rule import RuleOptions, Trade
from tests.builders import Story, doings, on_nodes, reasons, world

LADDER = "4P2D > 2P2D > 1P1D"
LATER = 10_000.0


def lost_a_decode(
    prefill: str = "p0 on a0, p1 on a1, p2 on a2, p3 on a3", **changes: Any
) -> Service:
    return on_nodes(LADDER, f"{prefill}, d0 on a4, d1 held", name="a", **changes)


STRANGER = on_nodes("1P", "p0 on a5", name="b")
"""So that the service is not alone, and finds no free node."""


@pytest.mark.parametrize("trade", [Trade.WHEN_NOT_SERVING, Trade.OFF])
def test_it_runs_for_as_long_as_the_missing_instance_finds_no_room(trade: Trade) -> None:
    story = Story("a:8x6")
    service = lost_a_decode(options=RuleOptions(trade=trade))
    assert [story.at(time, service, STRANGER) for time in (0, 90, LATER)] == [{}, {}, {}]
    (plan, _) = decide(world(service, STRANGER, nodes="a:8x6")).plans
    assert plan.target == {"group0": 2, "group1": 2}


def test_it_ends_when_the_missing_instance_has_room() -> None:
    assert doings(decide(world(lost_a_decode(), STRANGER, nodes="a:8x7"))) == {"a-d1": "Admit"}


def test_an_instance_beyond_the_target_that_is_lost_with_its_node_is_not_made_again() -> None:
    made = decide(
        world(
            lost_a_decode("p0 on a0, p1 on a1, p2 on a2, p3 held"), STRANGER, nodes="a:8x6, a3 lost"
        )
    )
    assert doings(made) == {}
    assert reasons(made)["a-p3"] is Reason.WAITING_FOR_RATIO


def test_with_trade_always_the_service_gives_up_surplus_by_itself() -> None:
    story = Story("a:8x6")
    service = lost_a_decode(options=RuleOptions(trade=Trade.ALWAYS))
    assert [story.at(time, service, STRANGER) for time in (0, 89.9, 90)] == [
        {},
        {},
        {"a-p3": "Evict"},
    ]


@pytest.mark.parametrize(
    ("priority", "preempt", "evicted"),
    [
        (1, Preempt.HIGHER_PRIORITY, {"a-p3": "Evict"}),
        (0, Preempt.HIGHER_PRIORITY, {}),
        (0, Preempt.EQUAL_OR_HIGHER, {"a-p3": "Evict"}),
        (1, Preempt.NEVER, {}),
    ],
)
def test_a_minimum_of_another_service_may_take_the_room_of_its_surplus(
    priority: int, preempt: Preempt, evicted: dict[str, str]
) -> None:
    other = on_nodes("1P", "p0 held", name="b", priority=priority)
    assert doings(decide(world(lost_a_decode(), other, nodes="a:8x5", preempt=preempt))) == evicted


def test_it_also_comes_about_while_scaling_up_with_too_little_room() -> None:
    grows = on_nodes(LADDER, "p0 on a0, p1 on a1, p2 held, p3 held, d0 on a2, d1 on a3", name="a")
    assert doings(decide(world(grows, STRANGER, nodes="a:8x6"))) == {"a-p2": "Admit"}, (
        "3P2D, which no ratio names"
    )


def test_what_has_not_its_minimum_in_every_group_is_no_mixture_that_lasts() -> None:
    story = Story("a:8x5")
    not_serving = on_nodes(
        LADDER, "p0 on a0, p1 on a1, p2 on a2, p3 on a3, d0 held, d1 held", name="a"
    )
    stranger = on_nodes("1P", "p0 on a4", name="b")
    assert [story.at(time, not_serving, stranger) for time in (0, 90)] == [{}, {"a-p3": "Evict"}]
