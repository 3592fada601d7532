"""Own running surplus that is to be evicted later makes room once: 3.6, 3b.3 and 3b.4 of the
contract."""

from __future__ import annotations

import pytest

from scaler.decide.decide import decide
from scaler.decide.decision import Evict
from scaler.decide.world import Preempt, Service
from scaler.reasons.reasons import Reason
from tests.builders import doings, on_nodes, reasons, world

EQUAL = Preempt.EQUAL_OR_HIGHER
SHORT = on_nodes("2P1D > 1P1D", "p0 on a0, p1 on a1, d0 held", name="a", age=9)
"""Its p1 is to be evicted for d0, after a while."""


def others(text: str) -> Service:
    return on_nodes("1P", text, name="b")


@pytest.mark.parametrize("text", ["p0 held", "p0 unbound"])
def test_another_service_does_not_evict_it_for_room_that_is_reserved(text: str) -> None:
    made = decide(world(SHORT, others(text), nodes="a:8x2", preempt=EQUAL))
    assert not any(isinstance(action, Evict) for plan in made.plans for action in plan.actions)
    assert reasons(made)["a-d0"] is Reason.WAITING_FOR_ROOM
    assert doings(made) == ({"b-p0": "Revoke"} if text == "p0 unbound" else {})
    assert reasons(made)["b-p0"] is Reason.MINIMUM_DOES_NOT_FIT


def test_what_it_leaves_over_is_to_come_for_another_service() -> None:
    short = on_nodes("2P1D > 1P1D", "p0 on a0, p1 on a1 + on a2, d0 held", name="a", age=9)
    made = decide(world(short, others("p0 held"), nodes="a:8x3", preempt=EQUAL))
    assert doings(made) == {}
    assert reasons(made) == {
        **dict.fromkeys(("a-p0", "a-p1"), Reason.RUNNING),
        **dict.fromkeys(("a-d0", "b-p0"), Reason.WAITING_FOR_ROOM),
    }


def test_what_goes_leaves_a_node_for_what_is_missing_whatever_a_spare_could_use() -> None:
    text = "p0@b held, d0@b starts on b0, d1@a starts on a0, d2@ab held"
    assert doings(decide(world(on_nodes("1P1D", text), others("p0 on a1"), nodes="a:8x2 b:8"))) == {
        "a-d0": "Evict"
    }
