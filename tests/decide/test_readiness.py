"""Instances that run and are not Ready, where `counts-from` is `ready`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.decide import decide
from scaler.decide.decision import Admit, Decision, State
from scaler.decide.explain import words
from scaler.decide.invariants import violations
from scaler.decide.memory import HadAttempt, InstanceMemory
from scaler.decide.nodes import PodRequest, Where
from scaler.decide.service.readiness import fits_in_place_of
from scaler.decide.world import Instance, KubeletRefusal, World
from scaler.reasons.reasons import Reason
from scaler.rules.rule import CountsFrom, RuleOptions
from tests.builders import NOW, SIZE, instance, remembering, service, world
from tests.decide.oracle import judge

READY = RuleOptions(counts_from=CountsFrom.READY)
LATE = InstanceMemory(restarts=0, bound_since=NOW - 1800, ran=True)
NOT_YET = InstanceMemory(restarts=0, bound_since=NOW - 1799, ran=True)


def unready(name: str, **changes: Any) -> Instance:
    return instance(name, State.RUNNING, ready=0, **changes)


def seen(*found: Instance, ratios: str = "1P1D", **memories: InstanceMemory) -> World:
    one = service(ratios, found, options=READY)
    remembered = [(f"uid-{name}", memory) for name, memory in memories.items()]
    return world(one, memory=remembering(one, *remembered))


def states(made: Decision) -> dict[str, State]:
    return {verdict.name: verdict.state for verdict in made.plans[0].verdicts}


def test_an_instance_that_is_never_ready_gives_its_place_to_a_spare() -> None:
    """Contract section 2: with `counts-from: ready` it was last Ready `start_timeout` ago, or
    never, a spare that fits in its place has not had its attempt, and another instance is Ready."""
    at = seen(unready("p0"), instance("p1"), instance("d0", State.RUNNING), p0=LATE)
    made = decide(at)
    assert states(made)["p0"] is State.BROKEN
    assert made.plans[0].actions == ()
    assert made.recheck_at == NOW + 60
    memory = made.memory.services[str(at.services[0].key)].instances["uid-p0"]
    assert (memory.gave_place, memory.broken_since) == (True, NOW)
    assert words(made.plans[0].verdicts[0], made.plans[0]) == (
        "A pod of it is lost or does not run: not all its pods were Ready for 1800 s; its place is"
        " kept for a grace period."
    )
    after = decide(world(*at.services, memory=made.memory, now=NOW + 60))
    assert Admit("uid-p1") in after.plans[0].actions


def test_it_is_looked_at_again_when_the_time_is_over() -> None:
    at = seen(unready("p0"), instance("p1"), instance("d0", State.RUNNING), p0=NOT_YET)
    made = decide(at)
    assert states(made)["p0"] is State.RUNNING
    assert made.recheck_at == NOW + 1


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([instance("d0", State.RUNNING)], id="no spare"),
        pytest.param([instance("p1"), unready("d0")], id="nobody is Ready"),
        pytest.param(
            [instance("d1"), instance("d0", State.RUNNING)], id="the spare is of another group"
        ),
        pytest.param(
            [
                instance("p1", refusals=(KubeletRefusal("npu-0", 1, NOW),)),
                instance("d0", State.RUNNING),
            ],
            id="the spare cannot start",
        ),
        pytest.param(
            [instance("p1", name_taken="Pod p1"), instance("d0", State.RUNNING)],
            id="the spare cannot be made",
        ),
    ],
)
def test_where_that_would_not_help_it_keeps_its_place(others: list[Instance]) -> None:
    made = decide(seen(unready("p0"), *others, p0=LATE))
    assert states(made)["p0"] is State.RUNNING


def test_a_spare_that_was_tried_is_none() -> None:
    tried = InstanceMemory(had_attempt=HadAttempt.FOR_GOOD)
    at = seen(unready("p0"), instance("p1"), instance("d0", State.RUNNING), p0=LATE, p1=tried)
    assert states(decide(at))["p0"] is State.RUNNING


def test_each_needs_a_spare_of_its_own_and_what_has_a_place_is_none() -> None:
    late = InstanceMemory(restarts=0, bound_since=NOW - 1900, ran=True)
    found = (unready("p0"), unready("p1"), instance("p2"), instance("d0", State.RUNNING))
    at = seen(*found, ratios="2P1D", p0=LATE, p1=late)
    made = decide(at)
    assert states(made) == {
        "p0": State.RUNNING,
        "p1": State.BROKEN,
        "p2": State.HELD,
        "d0": State.RUNNING,
    }
    again = decide(world(*at.services, memory=made.memory, now=NOW + 1))
    assert states(again)["p0"] is State.RUNNING
    lost_its_slot = decide(world(*at.services, memory=again.memory, now=NOW + 60))
    assert states(lost_its_slot)["p0"] is State.RUNNING


def test_what_gave_its_place_keeps_its_spare_when_it_runs_no_more() -> None:
    """Contract section 2: the one spare takes the place of p1 when its grace is over, so p0 keeps
    its own."""
    gave = InstanceMemory(
        restarts=0, bound_since=NOW - 2000, gave_place=True, broken_since=NOW - 59, ran=True
    )
    found = (unready("p0"), instance("p1", State.STARTING), instance("p2"))
    d0 = instance("d0", State.RUNNING)
    at = seen(*found, d0, ratios="2P1D", p0=LATE, p1=gave)
    assert states(decide(at)) == {
        "p0": State.RUNNING,
        "p1": State.BROKEN,
        "p2": State.HELD,
        "d0": State.RUNNING,
    }
    assert judge(at).states["uid-p0"] is State.RUNNING


def test_it_is_broken_until_it_is_ready() -> None:
    gave = InstanceMemory(restarts=0, bound_since=NOW - 2000, gave_place=True, ran=True)
    d0 = instance("d0", State.RUNNING)
    assert states(decide(seen(unready("p0"), d0, p0=gave)))["p0"] is State.BROKEN
    ready = decide(seen(instance("p0", State.RUNNING), d0, p0=gave))
    assert states(ready)["p0"] is State.RUNNING
    assert ready.plans[0].groups["group0"].running == 1


@pytest.mark.parametrize("counts", [CountsFrom.BOUND, CountsFrom.RUNNING])
def test_elsewhere_what_runs_is_never_late(counts: CountsFrom) -> None:
    found = (unready("p0"), instance("p1"), instance("d0", State.RUNNING))
    one = service("1P1D", found, options=RuleOptions(counts_from=counts))
    at = world(one, memory=remembering(one, ("uid-p0", LATE)))
    assert states(decide(at))["p0"] is State.RUNNING


NPU = "huawei.com/Ascend910"
FULL = PodRequest(((NPU, 8),))
HALF = PodRequest(((NPU, 4),))
ELSEWHERE = PodRequest(((NPU, 8),), Where(selector=(("pool", "b"),)))


@pytest.mark.parametrize(
    ("spare", "there", "fits"),
    [
        (((FULL, 2),), ((FULL, 2),), True),
        (((HALF, 2),), ((FULL, 2),), True),
        (((HALF, 1), (FULL, 1)), ((FULL, 2),), True),
        (((FULL, 2),), ((FULL, 1), (HALF, 1)), False),
        (((FULL, 3),), ((FULL, 2),), False),
        (((ELSEWHERE, 1),), ((FULL, 1),), False),
        ((), ((FULL, 1),), True),
    ],
)
def test_a_spare_has_to_fit_in_the_place(spare: Any, there: Any, fits: bool) -> None:
    found = (unready("p0", requests=there), instance("p1", requests=spare))
    assert fits_in_place_of(found[1], found[0]) is fits
    made = decide(seen(*found, instance("d0", State.RUNNING), p0=LATE))
    assert (states(made)["p0"] is State.BROKEN) is fits


members = st.sampled_from(
    (
        {"state": State.RUNNING, "ready": 0},
        {"state": State.RUNNING, "ready": 0},
        {"state": State.RUNNING},
        {"state": State.HELD},
        {"state": State.HELD},
        {"state": State.STARTING},
        {"state": State.RUNNING, "ready": 1, "crashing": 1},
    )
)
memories = st.sampled_from(
    (
        LATE,
        LATE,
        NOT_YET,
        InstanceMemory(),
        InstanceMemory(had_attempt=HadAttempt.FOR_GOOD),
        InstanceMemory(restarts=0, bound_since=NOW - 2000, gave_place=True, broken_since=NOW - 59),
        InstanceMemory(restarts=0, bound_since=NOW - 2000, gave_place=True, broken_since=NOW - 60),
    )
)


@given(
    st.lists(st.tuples(st.sampled_from("pd"), members, memories), max_size=7),
    st.sampled_from(("1P1D", "2P1D", "2P2D > 1P1D", "3P1D > 1P1D")),
)
def test_the_oracle_agrees(drawn: list[Any], ratios: str) -> None:
    found = []
    remembered = {}
    for number, (letter, shape, memory) in enumerate(drawn):
        name = f"{letter}{number}"
        found.append(instance(name, **{"expected": SIZE, **shape}))
        if shape["state"] is not State.HELD or not memory.bound_since:
            remembered[name] = memory
    at = seen(*found, ratios=ratios, **remembered)
    made = decide(at)
    judged = judge(at)
    by_uid = {verdict.uid: verdict.state for verdict in made.plans[0].verdicts}
    for uid, state in judged.states.items():
        admitted = uid in judged.admit
        assert by_uid[uid] is (State.ADMITTED if admitted else state), (uid, by_uid, judged)
    assert violations(at, made) == ()


def test_a_pause_after_a_kubelets_refusal_is_not_taken_for_that_of_a_creation_before() -> None:
    """3.3, 5: the creation is due again; a kubelet has refused a pod since."""
    refusals = (KubeletRefusal("npu-0", 1, NOW),)
    p0 = instance("p0", made_by_us=False, refusals=refusals)
    due = InstanceMemory(refused="exceeded quota", refused_until=NOW - 1, refused_times=1)
    one = service("1P", [p0])
    (made,) = decide(world(one, memory=remembering(one, ("uid-p0", due)))).plans
    (verdict,) = made.verdicts
    assert verdict.reason is Reason.WAITING_FOR_SCHEDULER
    assert "refused a pod of it" in verdict.about[0]
