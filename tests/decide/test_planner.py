"""The planner against the oracle, the invariants of every plan, and planning to a fixpoint."""

from __future__ import annotations

import random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.decide.invariants import violations
from scaler.decide.planner import plan
from scaler.decide.world import Admit, Complete, Plan, Reason, Revoke, Snapshot
from tests.builders import service
from tests.decide.cluster import settle
from tests.decide.oracle import judge
from tests.strategies import snapshots

MANY = settings(max_examples=100, deadline=None)


def uids(plan: Plan, action: type) -> frozenset[str]:
    return frozenset(one.uid for one in plan.actions if isinstance(one, action))


@MANY
@given(snapshots())
def test_planner_and_oracle_agree(snapshot: Snapshot) -> None:
    made, _ = plan(snapshot)
    judged = judge(snapshot)
    states = {one.uid: one.state for one in made.verdicts}
    moved = uids(made, Admit) | uids(made, Revoke)
    assert (made.target_index, made.complete) == (judged.target_index, judged.complete)
    assert {uid: state for uid, state in states.items() if uid not in moved} == {
        uid: state for uid, state in judged.states.items() if uid not in moved
    }
    assert uids(made, Admit) == judged.admit
    assert uids(made, Complete) == judged.complete_pods
    assert uids(made, Revoke) == judged.revoke | judged.tidy
    reasons = {one.uid: one.reason for one in made.verdicts}
    assert {uid: reasons[uid] for uid in judged.held} == judged.held
    costly = {uid for uid, reason in reasons.items() if reason is Reason.REVOKE_WOULD_COST_RESTARTS}
    assert costly == judged.unaffordable
    for name, group in made.groups.items():
        assert (group.running, group.in_flight) == judged.counts.get(name, (group.running, group.in_flight))


@MANY
@given(snapshots())
def test_no_plan_breaks_an_invariant(snapshot: Snapshot) -> None:
    made, _ = plan(snapshot)
    assert violations(snapshot, made) == ()


@MANY
@given(snapshots(), st.integers(0, 9))
def test_plan_does_not_depend_on_the_order_of_its_input(snapshot: Snapshot, seed: int) -> None:
    shuffled = shuffle(snapshot, random.Random(seed))
    first, first_memory = plan(snapshot)
    second, second_memory = plan(shuffled)
    assert first.target == second.target
    assert set(first.actions) == set(second.actions)
    assert sorted(first.verdicts, key=lambda one: one.uid) == sorted(second.verdicts, key=lambda one: one.uid)
    assert first_memory == second_memory


@MANY
@given(snapshots())
def test_a_recorded_snapshot_replays_byte_for_byte(snapshot: Snapshot) -> None:
    replayed = msgspec.json.decode(msgspec.json.encode(snapshot), type=Snapshot)
    assert msgspec.json.encode(plan(replayed)) == msgspec.json.encode(plan(snapshot))


@MANY
@given(snapshots())
def test_planning_again_after_the_plan_took_effect_ends_within_three_passes(snapshot: Snapshot) -> None:
    assert settle(snapshot).passes <= 3


@MANY
@given(snapshots())
def test_nothing_is_admitted_and_revoked_in_turns(snapshot: Snapshot) -> None:
    history = settle(snapshot).history
    admitted = [one.uid for made in history for one in made.actions if isinstance(one, Admit)]
    assert len(admitted) == len(set(admitted))


@MANY
@given(snapshots(), st.floats(0, 0.999))
def test_time_alone_changes_nothing_before_the_recheck(snapshot: Snapshot, share: float) -> None:
    made, memory = plan(snapshot)
    wait = made.recheck_at - snapshot.now if made.recheck_at else 1e6
    later, _ = plan(msgspec.structs.replace(snapshot, memory=memory, now=snapshot.now + share * wait))
    assert (later.target, later.actions) == (made.target, made.actions)
    assert later.verdicts == made.verdicts


def shuffle(snapshot: Snapshot, chance: random.Random) -> Snapshot:
    """The same snapshot with its instances and its memory in another order."""
    found = chance.sample(snapshot.instances, len(snapshot.instances))
    memory = dict(chance.sample(list(snapshot.memory.instances.items()), len(snapshot.memory.instances)))
    return msgspec.structs.replace(
        snapshot, instances=tuple(found), memory=msgspec.structs.replace(snapshot.memory, instances=memory)
    )


def test_without_a_valid_rule_every_instance_says_so_and_nothing_moves() -> None:
    made, _ = plan(msgspec.structs.replace(service("1P", "p0 Held, p1 Running"), rule=None))
    assert made.actions == ()
    assert [one.reason for one in made.verdicts] == [Reason.RULE_MISSING, Reason.RUNNING]
