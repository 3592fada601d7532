"""What holds for any services on any nodes, tidy or not."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from scaler.decide.arbiter import Arbitration, arbitrate
from scaler.decide.minimums.invariants import arbitration_violations
from scaler.decide.minimums.looks import Looks
from scaler.decide.planner import plan

from scaler.decide.explain import words
from scaler.decide.invariants import violations
from scaler.decide.nodes import Capacity, NodeClass, PodRequest, Requirement, Room, Taint, Where
from scaler.decide.world import (
    ArbiterMemory,
    Instance,
    MinimumMemory,
    Plan,
    Policy,
    ServiceKey,
    Snapshot,
)
from scaler.rules.rule import RuleOptions, Trade
from tests.builders import NOW
from tests.decide.arbitration.clauses import state
from tests.decide.arbitration.view import alone, capacity
from tests.decide.arbitration.world import world
from tests.strategies import snapshots

RESOURCES = ("x/npu", "pods")
KINDS = (NodeClass(), NodeClass((("type", "a"),)), NodeClass((("type", "b"),)), NodeClass((), (Taint("gone"),)))
ONLY_A = Where(affinity=((Requirement("type", "In", ("a",)),),))
NOT_B = Where(affinity=((Requirement("type", "NotIn", ("b",)),),))
STRANGE = Where(affinity=((Requirement("type", "Resembles", ("c",)),),), opaque=True)
NEEDS = tuple(
    PodRequest((("x/npu", npus), ("pods", 1)), where)
    for npus in (1, 2, 8)
    for where in (Where(), ONLY_A, NOT_B, STRANGE)
)  # fmt: skip
TIMES = (0.0, 0.0, NOW - 1000, NOW - 45, NOW - 1, NOW + 50)

amounts = st.tuples(st.sampled_from((-3, 0, 1, 2, 8)), st.sampled_from((0, 1, 110)))
rooms = st.builds(
    Room, st.sampled_from(KINDS), st.just((8, 110)), amounts, amounts, st.booleans(), st.just(()), st.integers(1, 3)
)
capacities = st.builds(Capacity, st.just(RESOURCES), st.lists(rooms, max_size=5).map(tuple))
memories = st.builds(
    MinimumMemory,
    admitted_since=st.sampled_from(TIMES), failures=st.integers(0, 3), failed_at=st.sampled_from(TIMES),
    retry_at=st.sampled_from(TIMES), mark=st.just(7), room=st.just((1, 1)), held_since=st.sampled_from(TIMES),
    probe_since=st.sampled_from(TIMES), probes=st.integers(0, 40), short_since=st.sampled_from(TIMES),
    evicted=st.sampled_from(("", "uid-1")),
)  # fmt: skip


@st.composite
def asking(draw: st.DrawFn, one: Instance) -> Instance:
    """The instance, with needs that fit its pods; rarely none at all, as for a job that cannot be read."""
    need = draw(st.sampled_from(NEEDS))
    if not one.expected or draw(st.integers(0, 9)) == 0:
        return one
    unbound = max(0, one.expected - one.bound)
    return msgspec.structs.replace(
        one,
        needs=((need, one.expected),),
        unbound=((need, unbound),) if unbound else (),
        priority=draw(st.integers(0, 2)),
        seats=tuple((f"node-{at}", need) for at in range(one.bound)),
    )


class Case(NamedTuple):
    decided: list[tuple[Snapshot, Plan]]
    capacity: Capacity
    memory: ArbiterMemory
    homes: dict[str, Room]

    def arbitrate(self, *, backwards: bool = False, looks: Looks | None = None) -> Arbitration:
        decided = self.decided[::-1] if backwards else self.decided
        return arbitrate(decided, self.capacity, self.memory, now=NOW, policy=Policy(), homes=self.homes, looks=looks)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    decided = []
    for number in range(draw(st.integers(1, 4))):
        seen = draw(snapshots(most=5))
        options = RuleOptions(
            paused=seen.options.paused,
            counts_from=seen.options.counts_from,
            trade=draw(st.sampled_from(Trade)),
            arbitration=draw(st.integers(0, 4)) > 0,
            service_priority=draw(st.none() | st.integers(-1, 1)),
        )
        seen = msgspec.structs.replace(
            seen,
            key=ServiceKey("default", seen.key.rule, f"s{number}"),
            options=options if seen.key.rule else seen.options,
            instances=tuple(draw(asking(one)) for one in seen.instances),
        )
        decided.append((seen, plan(seen)[0]))
    remembered = {str(seen.key): draw(memories) for seen, _ in decided if draw(st.booleans())}
    nodes = draw(capacities)
    homes = {f"node-{at}": room for at, room in enumerate(nodes.rooms)}
    return Case(decided, nodes, ArbiterMemory(remembered), homes)


@given(cases())
@settings(max_examples=120, deadline=None)
def test_an_arbitration_only_ever_takes_away(case: Case) -> None:
    outcome = case.arbitrate()
    assert arbitration_violations(case.decided, outcome, case.capacity) == ()
    for (seen, _), left in zip(case.decided, outcome.plans, strict=True):
        assert violations(seen, left) == ()


@given(cases())
@settings(max_examples=80, deadline=None)
def test_the_order_in_which_services_are_given_does_not_matter(case: Case) -> None:
    assert case.arbitrate(backwards=True).plans == case.arbitrate().plans[::-1]


@given(st.lists(cases(), min_size=1, max_size=4), st.data())
@settings(max_examples=50, deadline=None)
def test_what_is_kept_from_other_arbitrations_changes_no_answer(made: list[Case], data: st.DataObject) -> None:
    looks = Looks()
    nodes, decided = made[0].capacity, made[0].decided
    for case in made:
        decided = [new if data.draw(st.booleans()) else old for old, new in zip(decided, case.decided, strict=False)]
        nodes = case.capacity if data.draw(st.booleans()) else nodes
        mixed = case._replace(decided=decided, capacity=nodes)
        assert mixed.arbitrate(looks=looks) == mixed.arbitrate()


@given(cases())
@settings(max_examples=40, deadline=None)
def test_a_service_that_is_ruled_upon_as_before_has_the_very_same_plan(case: Case) -> None:
    looks = Looks()
    before, again = case.arbitrate(looks=looks), case.arbitrate(looks=looks)
    assert all(new is old for new, old in zip(again.plans, before.plans, strict=True))


@given(cases())
@settings(max_examples=60, deadline=None)
def test_everything_can_be_said_and_written_down(case: Case) -> None:
    outcome = case.arbitrate()
    assert all(words(verdict, made) for made in outcome.plans for verdict in made.verdicts)
    written = msgspec.json.encode((outcome.plans, outcome.memory))
    assert msgspec.json.decode(written, type=tuple[tuple[Plan, ...], ArbiterMemory]) == (outcome.plans, outcome.memory)
    assert outcome.recheck_at == 0.0 or outcome.recheck_at > NOW


def test_services_that_are_as_they_were_are_told_what_nodes_are_like_now() -> None:
    worlds = [world((nodes,), "1P1D: p d", "1P1D: p d") for nodes in (2, 3, 8)]
    pairs, looks = alone(worlds[0], state(worlds[0], "")), Looks()
    said = []
    for w in worlds:
        nodes = capacity(w, state(w, ""))
        plans = arbitrate(pairs, nodes, ArbiterMemory(), now=NOW, policy=Policy(), looks=looks).plans
        said.append((len(plans[1].actions), plans[1].verdicts[0].about))
    words_ = "needs 2 nodes with 1 free x/npu, {} there"
    assert said == [(0, (words_.format(0),)), (0, (words_.format(1),)), (2, ())]


def test_a_climb_that_overtakes_a_minimum_is_called_what_it_is() -> None:
    w = world((4,), "2P1D > 1P1D: p p d", "1P1D: p d")
    s = state(w, "0.p0 0, 0.d0 0")
    pairs = alone(w, s)
    without = Arbitration(tuple(made for _, made in pairs), ArbiterMemory())
    (words_,) = arbitration_violations(pairs, without, capacity(w, s))
    assert words_.startswith("S9: 1 of default/rule/s0 is admitted")
