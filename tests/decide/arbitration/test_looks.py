"""What is kept of services from pass to pass never changes a decision."""

from __future__ import annotations

import msgspec

from scaler.decide.arbiter import arbitrate
from scaler.decide.minimums.looks import Looks
from scaler.decide.world import ArbiterMemory, Policy
from tests.builders import NOW
from tests.decide.arbitration.clauses import state
from tests.decide.arbitration.view import alone, capacity, controller
from tests.decide.arbitration.world import bindings, world

LADDER = "2P1D > 1P1D: p p d"


def test_a_service_is_looked_at_again_only_when_its_snapshot_or_its_plan_is_another() -> None:
    w, looks = world((2,), LADDER), Looks()
    ((seen, made),) = alone(w, state(w, ""))
    (first,) = looks.at([(seen, made)])
    assert looks.at([(seen, made)]) == [first]
    assert looks.at([(seen, made)])[0] is first
    other_seen, other_plan = msgspec.structs.replace(seen), msgspec.structs.replace(made)
    assert looks.at([(other_seen, made)])[0].snapshot is other_seen
    assert looks.at([(other_seen, other_plan)])[0].plan is other_plan


def test_with_what_is_kept_each_pass_decides_as_without() -> None:
    w, looks, memory = world((4,), LADDER, LADDER, "1P: p"), Looks(), ArbiterMemory()
    s, passes = state(w, ""), 0
    while passes < 12:
        pairs, nodes = alone(w, s), capacity(w, s)
        fresh = arbitrate(pairs, nodes, memory, now=NOW + passes, policy=Policy())
        assert arbitrate(pairs, nodes, memory, now=NOW + passes, policy=Policy(), looks=looks) == fresh
        memory, passes = fresh.memory, passes + 1
        after = controller(w, s).after
        s = next(bindings(w, after), after)
