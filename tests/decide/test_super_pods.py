"""Blocks of nodes of super-pods in the decision: "fits" in the words of 3b, and 3b.6b and 3b.7b,
where the scheduler may destroy the last block of a reserved instance."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from scaler.decide.decide import decide_anew
from scaler.decide.memory import InstanceMemory
from scaler.decide.world import World
from scaler.reasons.reasons import Reason
from tests.builders import NOW, doings, reasons, remembering
from tests.decide.super_pods import SuperPods

SIZES = {"p": 2, "d": 4}
LADDER = "2P1D > 1P1D"


@pytest.mark.parametrize("seed", range(6))
def test_six_services_on_nine_super_pods_all_serve(seed: int) -> None:
    on = SuperPods(9, 4, SIZES, seed)
    for name in "abcdef":
        on.add(name, LADDER)
    on.settle()
    assert [on.running(name) for name in "abcdef"] == ["1P1D"] * 6
    assert not on.evicted


@pytest.mark.parametrize("seed", range(6))
def test_on_five_super_pods_as_many_serve_as_can(seed: int) -> None:
    on = SuperPods(5, 4, SIZES, seed)
    for name in "abcdef":
        on.add(name, LADDER)
    on.settle()
    assert on.serving == 3


def test_a_decode_goes_before_a_prefill_that_could_take_its_last_block() -> None:
    on = SuperPods(2, 4, SIZES)
    on.add("a", "1P1D")
    on.add("z", "9D")
    on.gone = {"s1n2", "s1n3"}
    assert doings(on.decide()) == {"a-d0": "Admit"}
    on.settle(3)
    assert on.running("a") == "1P1D"


def test_nodes_that_a_super_pod_has_to_spare_cost_no_block() -> None:
    on = SuperPods(1, 6, SIZES)
    on.add("a", "1P")
    on.add("b", "1D")
    assert doings(on.decide()) == {"a-p0": "Admit", "b-d0": "Admit"}


def test_services_that_come_within_one_session_of_the_scheduler_all_serve() -> None:
    on = SuperPods(9, 4, SIZES)
    for name in "abcdef":
        on.add(name, LADDER)
        on.decide()
    on.settle()
    assert on.serving == 6


def test_the_largest_block_of_a_minimum_is_bound_first() -> None:
    """A service that comes a moment later may need what the small one would take."""
    on = SuperPods(3, 4, SIZES)
    on.add("a", "1P1D")
    on.add("z", "9D")
    made = on.decide()
    assert doings(made) == {"a-d0": "Admit"}
    assert reasons(made)["a-p0"] is Reason.WAITING_FOR_ROOM
    on.schedule()
    assert doings(on.decide()) == {"a-p0": "Admit"}


def test_a_prefill_waits_while_it_could_take_the_last_block_of_another_service() -> None:
    on = SuperPods(2, 4, {"p": 2, "d": 4})
    on.add("a", "1P")
    on.add("b", "1D")
    on.gone = {"s1n3"}
    assert doings(on.decide()) == {"b-d0": "Admit"}
    on.schedule()
    assert doings(on.decide()) == {"a-p0": "Admit"}


def test_free_nodes_in_several_super_pods_are_no_block() -> None:
    on = SuperPods(2, 4, SIZES)
    on.add("a", "1P1D")
    on.add("b", "1P")
    on.pods["b-p0"] = ["s0n0", "s1n0"]
    made = on.decide()
    assert reasons(made)["a-d0"] is Reason.MINIMUM_DOES_NOT_FIT
    words = next(verdict.about[0] for verdict in made.plans[0].verdicts if verdict.uid == "a-d0")
    assert "needs 1 block of 4 nodes of one super-pod, 0 free; each node with 16" in words


def lost(super_pods: int) -> SuperPods:
    """A service at 2P1D whose decode has lost a node, and a neighbour that asks for too much. The
    scheduler has spread the prefills."""
    on = SuperPods(super_pods, 4, SIZES)
    on.add("a", LADDER)
    on.add("z", "9D")
    on.pods["a-d0"] = ["s0n0", "s0n1", "s0n2", "s0n3"]
    on.pods["a-p0"] = ["s1n0", "s1n1"]
    on.pods["a-p1"] = ["s2n0", "s2n1"] if super_pods > 2 else ["s1n2", "s1n3"]
    on.settle(3)
    on.lose("s0n3")
    return on


def test_without_a_block_left_own_surplus_makes_one_for_the_lost_decode() -> None:
    on = lost(3)
    on.settle()
    assert sum(on.evicted.values()) == 1
    assert on.running("a") == "2P1D", "the prefill that gave way fits beside what is left"


def test_no_prefill_is_evicted_where_that_makes_no_block() -> None:
    on = lost(2)
    on.settle(60, seconds=20)
    assert not on.evicted
    assert on.running("a") == "2P0D"


def test_with_a_spare_super_pod_the_lost_decode_takes_it() -> None:
    on = lost(4)
    on.settle()
    assert on.running("a") == "2P1D"
    assert not on.evicted


def test_a_service_that_is_alone_admits_no_block_before_its_minimum_is_complete() -> None:
    """8: its jobs are seen one after another, and the small block is bound where the large one has
    its only place."""
    on = SuperPods(2, 4, SIZES)
    on.gone = {"s1n2", "s1n3"}
    on.add("a", LADDER)
    decode = on.pods.pop("a-d0")
    made = on.decide()
    assert doings(made) == {}
    assert reasons(made)["a-p0"] is Reason.MINIMUM_INCOMPLETE
    on.pods["a-d0"] = decode
    on.settle(6)
    assert on.running("a") == "1P1D"


def test_a_service_that_is_alone_and_has_no_block_yet_keeps_its_nodes_for_it() -> None:
    on = SuperPods(2, 4, SIZES)
    on.gone = {"s0n3", "s1n3"}
    on.add("a", LADDER)
    on.settle(4)
    assert on.running("a") == "0P0D"
    on.gone = {"s1n3"}
    on.settle(6)
    assert on.running("a") == "1P1D"


def displaced(*, since: float) -> World:
    """A decode of four nodes that has lost a pod for so long. The pod cannot return to its node."""
    on = SuperPods(3, 4, SIZES)
    on.add("a", "1P1D")
    on.add("b", "1D")
    on.pods["a-p0"] = ["s1n0", "s1n1"]
    on.pods["a-d0"] = ["s0n0", "s0n1", "s0n2", "."]
    seen = on.world()
    (service, other) = seen.services
    lost = [replace(one, displaced=one.uid == "a-d0") for one in service.instances]
    broken = ("a-d0", InstanceMemory(broken_since=NOW - since, ran=True))
    service = replace(service, instances=tuple(lost))
    return replace(seen, services=(service, other), memory=remembering(service, broken))


@pytest.mark.parametrize("since", [5.0, 100.0])
def test_what_cannot_return_to_its_block_is_not_made_whole_beside_its_bound_pods(
    since: float,
) -> None:
    """2: not within its grace period, nor for the minimum afterwards."""
    made = decide_anew(displaced(since=since))
    assert "a-d0" not in doings(made)
    assert reasons(made)["a-d0"] is Reason.BROKEN


def test_what_cannot_return_to_its_block_keeps_no_other_block() -> None:
    assert doings(decide_anew(displaced(since=100.0))) == {"b-d0": "Admit"}
