"""Waiting minimums gather the nodes that come: 3b.7d of the contract, as whole decisions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.decide import decide
from scaler.decide.memory import HadAttempt, InstanceMemory, Memory, ServiceMemory
from scaler.decide.nodes import HOUR, MOST_RETURNS, Node, NodeClass, Return
from scaler.decide.sharing.gathering import most_kept_until
from scaler.decide.world import Policy, Service
from tests.builders import NOW, Story, doings, on_nodes, reasons, world

MISSES = on_nodes("1P1D", "p0 held, d0 held", name="a")
"""A minimum of two nodes."""
GROWS = on_nodes("2P > 1P", "p0 on a0, p1 held", name="b")
"""A service that serves, with one instance more to start."""
TO_BE_BOUND = on_nodes("2P > 1P", "p0 on a0, p1 unbound", name="b")
ADMITTED = {"b-p1": "Admit"}


def done(*services: Service, nodes: str, **more: Any) -> dict[str, str]:
    return doings(decide(world(*services, nodes=nodes, **more)))


def test_a_node_that_became_usable_takes_no_scale_up_while_a_minimum_misses_room() -> None:
    """3b.7d: for `gather` after a node became usable, it takes no scale-up, held or with the
    scheduler."""
    assert done(MISSES, GROWS, nodes="a:8x2, a1 since 59") == {}
    assert done(MISSES, TO_BE_BOUND, nodes="a:8x2, a1 since 59") == {"b-p1": "Revoke"}
    assert done(MISSES, GROWS, nodes="a:8x2, a1 healed 59") == {}
    assert done(MISSES, GROWS, nodes="a:8x2, a1 since 60") == ADMITTED
    assert done(MISSES, GROWS, nodes="a:8x2, a1 since 20", gather=20) == ADMITTED
    assert done(MISSES, GROWS, nodes="a:8x2, a1 since 0", gather=0) == ADMITTED
    # what stood there when the scaler began to watch
    assert done(MISSES, GROWS, nodes="a:8x2") == ADMITTED


def test_it_is_said_for_whom_the_node_is_kept_and_decided_again_in_time() -> None:
    story = Story("a:8x2, a1 since -100")
    assert story.at(110, MISSES, GROWS) == {}
    assert story.recheck_in == 160
    (verdict,) = [one for one in story.made.plans[1].verdicts if one.uid == "b-p1"]
    assert verdict.reason == "WaitingForCapacity"
    (words,) = verdict.about
    kept = "node a1 became usable lately; until 13:49:20 UTC it is kept for the minimum of"
    assert words == f"{kept} default/rule-a"
    assert story.at(160, MISSES, GROWS) == ADMITTED


def test_a_second_node_lets_the_minimum_go_and_then_the_scale_up_waits_for_nothing() -> None:
    both = "a:8x3, a1 since 40, a2 since 0"
    assert done(MISSES, GROWS, nodes=both) == {"a-p0": "Admit", "a-d0": "Admit"}
    serves = on_nodes("1P1D", "p0 on a1, d0 on a2", name="a")
    assert done(serves, GROWS, nodes="a:8x4, a3 since 1") == ADMITTED


def test_other_minimums_may_take_it() -> None:
    """3b.7d: other minimums may take it."""
    small = on_nodes("1P", "p0 held", name="c")
    assert done(MISSES, GROWS, small, nodes="a:8x2, a1 since 1") == {"c-p0": "Admit"}


def test_a_scale_up_of_a_higher_priority_waits_for_no_minimum() -> None:
    """3b.7d: no scale-up of the same or a lower priority."""
    first = on_nodes("2P > 1P", "p0 on a0, p1 held", name="b", priority=1)
    assert done(MISSES, first, nodes="a:8x2, a1 since 1") == ADMITTED
    last = on_nodes("1P1D", "p0 held, d0 held", name="a", priority=1)
    assert done(last, GROWS, nodes="a:8x2, a1 since 1") == {}


def test_several_minimums_gather_and_the_highest_priority_counts() -> None:
    first = on_nodes("2P > 1P", "p0 on a0, p1 held", name="b", priority=1)
    gold = on_nodes("1P1D", "p0 held, d0 held", name="c", priority=2)
    assert done(MISSES, first, gold, nodes="a:8x2, a1 since 1") == {}
    assert done(MISSES, first, nodes="a:8x2, a1 since 1") == ADMITTED


def test_no_minimum_gathers_that_is_too_large_incomplete_or_in_backoff() -> None:
    """3b.7d: while a minimum is neither too large nor incomplete nor in backoff, and has not had
    its attempt."""
    nodes = "a:8x2, a1 since 1"
    large = on_nodes("3P", "p0 held, p1 held, p2 held", name="a")
    assert done(large, GROWS, nodes=nodes) == ADMITTED
    incomplete = on_nodes("1P1D", "p0 held", name="a")
    assert done(incomplete, GROWS, nodes=nodes) == ADMITTED
    waits = remembered(ServiceMemory(failures=1, backoff_until=NOW + 20, began=0.0))
    assert done(MISSES, GROWS, nodes="a:8x2, a1 since 15", memory=waits) == ADMITTED
    tried = remembered(
        ServiceMemory({"a-d0": InstanceMemory(had_attempt=HadAttempt.SINCE_LAST_BIND)})
    )
    assert done(MISSES, GROWS, nodes=nodes, memory=tried) == ADMITTED


def test_one_that_waited_long_is_asked_first_and_answers_for_its_own_priority_alone() -> None:
    """3b.2a, 3b.7a; S5: the same with what is answered once."""
    higher = on_nodes("2P > 1P", "p0 on a2, p1 held", name="c", priority=1)
    tried = ServiceMemory({"c-p1": InstanceMemory(failures=1, failures_before_bind=1)})
    waited = ServiceMemory(waiting_since=NOW - 400)
    memory = Memory({str(GROWS.key): waited, str(higher.key): tried})
    nodes = "a:8x3, a1 since 1"
    assert done(MISSES, GROWS, higher, nodes=nodes, memory=memory) == {"c-p1": "Admit"}


def remembered(of_a: ServiceMemory) -> Memory:
    return Memory({str(MISSES.key): of_a})


def test_only_nodes_that_the_minimum_could_use_are_kept() -> None:
    """3b.7d: while a minimum that could use it misses room. Mixed hardware, and sizes."""
    on_b = on_nodes("1P1D", "p0@b held, d0@b held", name="a")
    assert done(on_b, GROWS, nodes="a:8x2 b:8x2, a1 since 1, b0 lost 400") == ADMITTED
    large = on_nodes("1P1D", "p0 held, d0 held", name="a", npus=16)
    assert done(large, GROWS, nodes="a:8x2 b:16x2, a1 since 1, b1 used 16") == ADMITTED


def test_only_a_scale_up_that_could_land_there_waits() -> None:
    on_a = on_nodes("1P1D", "p0@a held, d0@a held", name="a")
    elsewhere = on_nodes("2P > 1P", "p0@b on b0, p1@b held", name="b")
    anywhere = on_nodes("2P > 1P", "p0 on b0, p1 held", name="b")
    between = on_nodes("1P", "p0 on b1", name="c")
    nodes = "a:8x2 b:8x3, a0 since 1, a1 lost 400"
    assert done(on_a, elsewhere, between, nodes=nodes) == ADMITTED
    assert done(on_a, anywhere, between, nodes=nodes) == {}, "the scheduler may choose a0"


def test_a_full_node_is_kept_from_nobody() -> None:
    assert done(MISSES, GROWS, nodes="a:8x3, a1 since 1, a1 used 8") == ADMITTED


def test_chips_that_heal_one_by_one_are_kept_together() -> None:
    """3b.7d: or chips of one."""
    small = on_nodes("2P > 1P", "p0 on a0, p1 held", name="b", npus=1)
    healing = "a:8x3, a1 used 8, a2 faulty 6 400, a2 healed 5"
    assert done(on_nodes("1P1D", "p0 held, d0 held", name="a"), small, nodes=healing) == {}


def label_came(minimum: Service) -> dict[str, str]:
    """What is done 5 s after node a1 was labelled class=a; it was labelled class=z before."""
    seen = world(minimum, GROWS, nodes="a:8x2")
    assert seen.nodes is not None
    first, second = seen.nodes.nodes
    before = NodeClass((("class", "z"),))
    changed = msgspec.structs.replace(second, returns=(Return(NOW - 5, node_class=before),))
    nodes = msgspec.structs.replace(seen.nodes, nodes=(first, changed))
    return doings(decide(msgspec.structs.replace(seen, nodes=nodes)))


def test_a_label_that_the_minimum_does_not_name_keeps_nothing() -> None:
    """3b.5f, 3b.7d: became usable: a taint or label that kept it off gone."""
    assert label_came(MISSES) == ADMITTED
    assert label_came(on_nodes("1P1D", "p0@a held, d0@a held", name="a")) == {}


# The limit for each node


def flapping(*at: float) -> Node:
    return Node("n", NodeClass(), (8,), (8,), returns=tuple([Return(one, 1.0) for one in at]))


def test_a_node_that_flaps_is_kept_for_backoff_max_in_any_hour_at_most() -> None:
    """3b.7d: each node at most `backoff_max` in any hour, whoever gathers."""
    policy = Policy()
    assert most_kept_until(flapping(), policy) == 0.0
    assert most_kept_until(flapping(0, 100), policy) == 160
    assert most_kept_until(flapping(0, 100, 200, 300, 400), policy) == 460
    assert most_kept_until(flapping(0, 100, 200, 300, 400, 500), policy) == 500
    assert most_kept_until(flapping(0, 30, 60, 90, 120, 150, 180, 210, 240, 270), policy) == 300
    assert most_kept_until(flapping(0, 100, 200, 300, 400, 3640), policy) == 3680
    assert most_kept_until(flapping(0, 100, 200, 300, 400, 3700), policy) == 3760
    assert most_kept_until(flapping(*range(MOST_RETURNS)), policy) == 0.0


@given(
    st.lists(st.integers(1, 600), min_size=1, max_size=40),
    st.sampled_from([20.0, 60.0, 400.0]),
    st.sampled_from([60.0, 300.0]),
)
def test_in_no_hour_is_a_node_kept_longer_whatever_it_does(
    pauses: list[int], gather: float, most: float
) -> None:
    """3b.7d, second by second."""
    policy = Policy(gather=gather, backoff_max=most)
    at = [sum(pauses[: number + 1]) for number in range(len(pauses))]
    kept = [False] * (at[-1] + 700)
    for number, came in enumerate(at):
        node = flapping(*at[: number + 1])
        until = most_kept_until(node, policy)
        end = at[number + 1] if number + 1 < len(at) else len(kept)
        for second in range(came, min(end, len(kept))):
            kept[second] = second < until
    in_hour = 0
    for second, is_kept in enumerate(kept):
        in_hour += is_kept
        if second >= HOUR:
            in_hour -= kept[second - int(HOUR)]
        assert in_hour <= most


@pytest.mark.parametrize("lost", ["", ", a2 lost 10"])
def test_a_minimum_that_waits_for_expected_room_needs_no_gathering(lost: str) -> None:
    """What is reserved is kept anyway; a scale-up on other nodes goes on."""
    made = decide(world(MISSES, GROWS, nodes=f"a:8x3, a1 since 1{lost or ', a2 used 8'}"))
    assert doings(made) == {}
    assert reasons(made)["a-p0"] == ("WaitingForRoom" if lost else "MinimumDoesNotFit")
