"""What did not change costs nothing: the plan of a service that rests is the object of the decision
before."""

from __future__ import annotations

import msgspec
import pytest

from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide
from tests.builders import on_nodes, world

RESTS = on_nodes("2P1D > 1P1D", "p0 on a0, p1 on a1, d0 on a2", name="a")
CHANGES = on_nodes("2P1D > 1P1D", "p0 on a3, p1 held, d0 on a4", name="b")
LATER = on_nodes("2P1D > 1P1D", "p0 on a3, p1 held, d0 starts on a4", name="b")


def test_the_plan_of_a_service_that_did_not_change_is_the_same_object() -> None:
    cache = DecisionCache()
    seen = world(RESTS, CHANGES, nodes="a:8x5")
    first = decide(seen, cache)
    second = decide(msgspec.structs.replace(seen, memory=first.memory, now=seen.now + 1), cache)
    third = decide(
        msgspec.structs.replace(seen, services=(RESTS, LATER), memory=second.memory), cache
    )
    assert third.plans[0] is second.plans[0]
    assert third.plans[1] is not second.plans[1]


def test_what_is_remembered_of_a_service_alone_is_no_reason_to_look_at_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = DecisionCache()
    seen = world(RESTS, CHANGES, nodes="a:8x5")
    first = decide(seen, cache)
    monkeypatch.setattr("scaler.decide.again.Demand", lambda *_: pytest.fail("looked at again"))
    assert first.memory is not seen.memory
    decide(msgspec.structs.replace(seen, memory=first.memory), cache)
