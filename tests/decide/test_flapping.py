"""Nobody is evicted for a node that is away for a moment: 3b.4f of the contract."""

from __future__ import annotations

import msgspec
import pytest

from scaler.decide.decide import decide
from scaler.decide.memory import Evictions, Memory
from scaler.decide.nodes import HOUR, Node, Return
from scaler.decide.world import Service
from scaler.reasons.reasons import Reason
from scaler.rules.rule import RuleOptions, Trade
from tests.builders import NOW, Story, doings, nodes_for, on_nodes, reasons, world

LOW = on_nodes("2P > 1P", "p0 on a0, p1 on a1", name="low")
GOLD = on_nodes("1P", "p0 held", name="gold", priority=1)
EVICTS = {"low-p1": "Evict"}


def done(nodes: str, *services: Service, **changes: object) -> dict[str, str]:
    return doings(decide(world(*(services or (LOW, GOLD)), nodes=nodes, **changes)))


@pytest.mark.parametrize("how", ["lost", "cordoned"])
@pytest.mark.parametrize(("seconds", "evicts"), [(0, {}), (29, {}), (30, EVICTS)])
def test_nobody_is_evicted_for_what_would_fit_on_a_node_that_is_away_for_a_moment(
    how: str, seconds: int, evicts: dict[str, str]
) -> None:
    """4f: nobody is evicted for what would fit without it if nodes away for less than flap_patience
    were there."""
    made = decide(world(LOW, GOLD, nodes=f"a:8x3, a2 {how} {seconds}"))
    assert doings(made) == evicts
    assert reasons(made)["gold-p0"] is Reason.WAITING_FOR_ROOM


def test_the_moment_is_named_and_the_node_that_it_waits_for() -> None:
    story = Story("a:8x3, a2 lost 0")
    assert story.at(0, LOW, GOLD) == {}
    assert story.recheck_in == 30
    assert "room on a2 is expected" in str(story.made)
    assert story.at(30, LOW, GOLD) == EVICTS


def test_an_eviction_is_made_where_the_node_would_not_do() -> None:
    two = on_nodes("2P", "p0 held, p1 held", name="gold", priority=1)
    three = on_nodes("3P > 1P", "p0 on a0, p1 on a1, p2 on a2", name="low")
    assert done("a:8x4, a3 lost 0", three, two) == {"low-p1": "Evict", "low-p2": "Evict"}
    elsewhere = on_nodes("1P", "p0@a held", name="gold", priority=1)
    assert done("a:8x2 b:8, b0 lost 0", LOW, elsewhere) == EVICTS


def test_who_came_first_gets_the_node_and_for_the_other_somebody_is_evicted() -> None:
    """Beside all reservations before it, the room of the node is given once."""
    silver = on_nodes("1P", "p0 held", name="silver", priority=1, age=-9)
    made = decide(world(LOW, GOLD, silver, nodes="a:8x3, a2 lost 0"))
    evictions = [one for plan in made.plans for one in plan.actions]
    assert [str(one) for one in evictions] == [
        "Evict(uid='low-p1', beneficiary='default/rule/silver')"
    ]


def flapping(seconds: float, *returns: Return) -> Node:
    """Node a2, away for so long."""
    found = nodes_for(f"a:8x3, a2 lost {seconds:g}", [LOW, GOLD])
    return msgspec.structs.replace(found.nodes[2], returns=returns)


@pytest.mark.parametrize(
    ("returns", "patience"),
    [
        ((), 30),
        ((Return(NOW - 50, 20.0),), 60),
        ((Return(NOW - 90, 20.0), Return(NOW - 50, 300.0)), 120),
        ((Return(NOW - 50, 301.0),), 30),
        ((Return(NOW - 50, 0.0),), 30),
        (tuple(Return(NOW - 900 + at, 1.0) for at in range(20)), 300),
    ],
)
def test_the_patience_of_a_node_doubles_each_time_it_returned_within_due_back(
    returns: tuple[Return, ...], patience: float
) -> None:
    """4f: a node's patience doubles, up to due_back, each time it returned within due_back."""
    nodes = nodes_for("a:8x3", [LOW, GOLD])
    for seconds, evicts in ((patience - 1, {}), (patience, EVICTS)):
        away = flapping(seconds, *returns)
        seen = msgspec.structs.replace(nodes, nodes=(*nodes.nodes[:2], away))
        assert doings(decide(world(LOW, GOLD, nodes=seen))) == evicts


@pytest.mark.parametrize(("seconds", "evicts"), [(29, {}), (30, EVICTS)])
def test_chips_that_are_away_for_a_moment_count_as_a_node_does(
    seconds: float, evicts: dict[str, str]
) -> None:
    """4f: if nodes and chips away for less than flap_patience were there."""
    nodes = nodes_for("a:8x3", [LOW, GOLD])
    node = nodes.nodes[2]
    faulty = msgspec.structs.replace(
        node, free=(0, *node.free[1:]), away=((NOW - seconds, (8, 0)),)
    )
    seen = msgspec.structs.replace(nodes, nodes=(*nodes.nodes[:2], faulty))
    assert doings(decide(world(LOW, GOLD, nodes=seen))) == evicts


def test_an_hour_is_what_a_node_has_to_stay() -> None:
    """4f: until it has stayed an hour; `Node.returns` are forgotten then (test_capacity)."""
    assert HOUR == 3600


def test_own_running_surplus_waits_as_long_and_trade_after_counts_meanwhile() -> None:
    """4f and 3.6 together: neither time is added to the other."""
    lost = on_nodes("2P1D > 1P1D", "p0 on a0, p1 on a1, d0 held", name="a")
    stranger = on_nodes("1P", "p0 on a2", name="b")
    story = Story("a:8x4, a3 lost 0")
    times = (0, 29, 30, 89, 90)
    assert [story.at(time, lost, stranger) for time in times] == [{}, {}, {}, {}, {"a-p1": "Evict"}]


def test_own_surplus_that_does_not_run_waits_too() -> None:
    starts = on_nodes("2P1D > 1P1D", "p0 on a0, p1 starts on a1, d0 held", name="a")
    stranger = on_nodes("1P", "p0 on a2", name="b")
    assert done("a:8x4, a3 lost 0", starts, stranger) == {}
    assert done("a:8x4, a3 lost 30", starts, stranger) == {"a-p1": "Evict"}


def test_a_scale_up_that_trades_waits_too() -> None:
    serves = on_nodes(
        "2P2D > 1P1D",
        "p0 on a0, p1 on a1, p2 on a2, d0 on a3, d1 held",
        name="a",
        options=RuleOptions(trade=Trade.ALWAYS),
    )
    stranger = on_nodes("1P", "p0 on a4", name="b")
    story = Story("a:8x6, a5 lost 0")
    assert [story.at(time, serves, stranger) for time in (0, 29, 30, 119, 120)] == [
        {},
        {},
        {},
        {},
        {"a-p2": "Evict"},
    ]


def test_the_patience_is_a_setting() -> None:
    assert done("a:8x3, a2 lost 5", flap_patience=5) == EVICTS
    assert done("a:8x3, a2 lost 5", flap_patience=6) == {}
    assert done("a:8x3, a2 lost 0", flap_patience=0) == EVICTS


def test_no_eviction_is_counted_while_a_node_may_come_back() -> None:
    story = Story("a:8x3, a2 lost 0")
    story.at(0, LOW, GOLD)
    assert story.remembered(GOLD).evictions == Evictions()
    assert story.at(10, LOW, GOLD, nodes="a:8x3") == {"gold-p0": "Admit"}
    assert story.memory != Memory()
