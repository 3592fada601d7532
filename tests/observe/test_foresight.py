"""What a service is taken for while admissions of it are under way."""

from __future__ import annotations

from scaler.decide.planner import plan
from scaler.decide.world import Snapshot
from scaler.observe.foresight import admitted_by, as_known_now, foreseen
from tests.builders import SIZE, service
from tests.observe.test_snapshot import Seen


def test_what_is_admitted_or_completed_is_under_way_and_nothing_else() -> None:
    alone = plan(service("1P1D", "p0 Held, d0 Running, p1 Held"))[0]
    assert admitted_by(alone) == {"uid-p0"}


def test_an_admission_under_way_needs_no_second_one() -> None:
    held = service("2P1D > 1P1D", "p0 Held, d0 Held, p1 Held")
    after = foreseen(held, held.instances, admitted_by(plan(held)[0]))
    assert plan(after)[0].actions == ()
    assert {one.name: one.pods for one in after.instances} == {"p0": SIZE, "d0": SIZE, "p1": 0}


def test_pods_that_have_come_and_found_a_node_meanwhile_are_not_counted_again() -> None:
    seen = Seen()
    seen.job("p0", pods=2)
    seen.node("node", ready=True)
    before = seen.snapshot()
    assert as_known_now(seen.cache, before) == before.instances
    seen.pod("p0-master-0", node="node", phase="Running")
    (after,) = _foreseen(seen, before).instances
    assert (after.pods, after.bound) == (2, 1)


def test_an_instance_that_is_gone_meanwhile_stays_until_its_service_is_looked_at() -> None:
    seen = Seen()
    before = service("1P1D", "p0 Held")
    assert as_known_now(seen.cache, before) == before.instances


def _foreseen(seen: Seen, before: Snapshot) -> Snapshot:
    return foreseen(before, as_known_now(seen.cache, before), {"uid-p0"})
