"""One service's decision against the oracle, the invariants of every decision, and deciding to a
fixpoint."""

from __future__ import annotations

import random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.decide.decide import decide
from scaler.decide.decision import Admit, Complete, Evict, Plan, Revoke
from scaler.decide.invariants import violations
from scaler.decide.memory import Memory, ServiceMemory
from scaler.decide.world import World
from scaler.reasons.reasons import Reason
from tests.builders import plan, service
from tests.decide.cluster import settle
from tests.decide.oracle import judge
from tests.strategies import worlds

MANY = settings(max_examples=100, deadline=None)


def uids(plan: Plan, action: type) -> frozenset[str]:
    return frozenset(one.uid for one in plan.actions if isinstance(one, action))


@MANY
@given(worlds())
def test_decision_and_oracle_agree(world: World) -> None:
    (made,) = decide(world).plans
    judged = judge(world)
    states = {one.uid: one.state for one in made.verdicts}
    moved = uids(made, Admit) | uids(made, Revoke) | uids(made, Evict)
    assert (made.target_index, made.complete, made.serves) == (
        judged.target_index,
        judged.complete,
        judged.serves,
    )
    assert {uid: state for uid, state in states.items() if uid not in moved} == {
        uid: state for uid, state in judged.states.items() if uid not in moved
    }
    assert uids(made, Admit) == judged.admit
    assert uids(made, Complete) == judged.complete_pods
    assert uids(made, Revoke) == judged.revoke
    assert uids(made, Evict) == judged.drain
    reasons = {one.uid: one.reason for one in made.verdicts}
    assert {uid: reasons[uid] for uid in judged.held} == judged.held
    costly = {uid for uid, reason in reasons.items() if reason is Reason.REVOKE_WOULD_COST_RESTARTS}
    assert costly == judged.unaffordable
    for name, group in made.groups.items():
        assert (group.running, group.in_flight) == judged.counts.get(
            name, (group.running, group.in_flight)
        )


@MANY
@given(worlds())
def test_no_decision_breaks_an_invariant(world: World) -> None:
    assert violations(world, decide(world)) == ()


@MANY
@given(worlds(), st.integers(0, 9))
def test_the_decision_does_not_depend_on_the_order_of_its_input(world: World, seed: int) -> None:
    first = decide(world)
    second = decide(shuffle(world, random.Random(seed)))
    assert first.plans[0].target == second.plans[0].target
    assert set(first.plans[0].actions) == set(second.plans[0].actions)
    by_uid = [sorted(made.plans[0].verdicts, key=lambda one: one.uid) for made in (first, second)]
    assert by_uid[0] == by_uid[1]
    assert first.memory == second.memory


@MANY
@given(worlds())
def test_a_recorded_world_replays_byte_for_byte(world: World) -> None:
    replayed = msgspec.json.decode(msgspec.json.encode(world), type=World)
    assert msgspec.json.encode(decide(replayed)) == msgspec.json.encode(decide(world))


@MANY
@given(worlds())
def test_deciding_again_after_it_took_effect_ends_within_three_passes(world: World) -> None:
    assert settle(world).passes <= 3


@MANY
@given(worlds())
def test_nothing_is_revoked_and_admitted_again(world: World) -> None:
    history = settle(world).history
    admitted = [
        one.uid for made in history for one in made.plans[0].actions if isinstance(one, Admit)
    ]
    assert len(admitted) == len(set(admitted))


@MANY
@given(worlds(), st.floats(0, 0.999))
def test_time_alone_changes_nothing_before_the_recheck(world: World, share: float) -> None:
    first = decide(world)
    wait = first.recheck_at - world.now if first.recheck_at else 1e6
    later = decide(
        msgspec.structs.replace(world, memory=first.memory, now=world.now + share * wait)
    )
    (made,) = first.plans
    (after,) = later.plans
    assert (after.target, after.actions) == (made.target, made.actions)
    assert after.verdicts == made.verdicts


def shuffle(world: World, chance: random.Random) -> World:
    """The same world with its instances and its memory in another order."""
    (seen,) = world.services
    found = chance.sample(seen.instances, len(seen.instances))
    memory = Memory({name: _shuffled(one, chance) for name, one in world.memory.services.items()})
    return msgspec.structs.replace(
        world, services=(msgspec.structs.replace(seen, instances=tuple(found)),), memory=memory
    )


def _shuffled(memory: ServiceMemory, chance: random.Random) -> ServiceMemory:
    instances = dict(chance.sample(list(memory.instances.items()), len(memory.instances)))
    return msgspec.structs.replace(memory, instances=instances)


def test_without_a_valid_rule_every_instance_says_so_and_nothing_moves() -> None:
    made = plan(service(None, "p0 Held, p1 Running"))
    assert made.actions == ()
    assert [one.reason for one in made.verdicts] == [Reason.RULE_MISSING, Reason.RUNNING]
