"""Rounds, failures and endings of one instance, on bare values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.decide import decide
from scaler.decide.decision import (
    Admit,
    Complete,
    Expire,
    Finish,
    Record,
    Remove,
    Resize,
    State,
)
from scaler.decide.explain import words
from scaler.decide.invariants import violations
from scaler.decide.service.lifecycle import next_step, recheck_at
from scaler.decide.world import (
    CleanPods,
    FailedPod,
    Instance,
    KubeletRefusal,
    Life,
    RestartBudget,
    RunPolicy,
    ServiceKey,
)
from scaler.reasons.reasons import Reason
from tests.builders import NOW, instance, others, plan, service, world

CRASHED = FailedPod("p0-master-0", 3)
NO_RULE = ServiceKey("default", "", "mindie")


def living(
    state: State = State.RUNNING, *, policy: dict[str, Any] | None = None, **life: Any
) -> Instance:
    return instance("p0", state, life=Life(policy=RunPolicy(**(policy or {})), **life))


def finished(policy: dict[str, Any] | None = None, **life: Any) -> Instance:
    made = Life(policy=RunPolicy(**{"finished_at": NOW - 10, **(policy or {})}), **life)
    return instance("p0", State.FINISHED, life=made, leftovers=life.pop("leftovers", False))


def ending(of: Instance, now: float = NOW) -> tuple[str, str] | None:
    step = next_step(of, now)
    return (step.reason.outcome, step.reason) if isinstance(step, Finish) else None


def test_an_instance_that_is_whole_is_noted_once() -> None:
    assert next_step(living(version=0), NOW) == Record("uid-p0", 1)
    assert next_step(living(version=0, policy={"rounds": 1}), NOW) is None


def test_the_count_of_ascend_operator_is_carried_on() -> None:
    assert next_step(living(version=4), NOW) == Record("uid-p0", 5)


@pytest.mark.parametrize(
    "of", [{"ratios": "1P"}, {"ratios": None, "key": ServiceKey("default", "", "mindie")}]
)
def test_an_instance_with_a_step_to_take_gets_back_what_it_lacks_after_that(
    of: dict[str, Any],
) -> None:
    lacks_its_pod_group = instance("p0", State.RUNNING, life=Life(version=0), stripped=True)
    made = plan(service(found=[lacks_its_pod_group], **of))
    assert made.actions == (Record("uid-p0", 1),)


def test_what_was_never_whole_is_no_round_so_a_revoke_costs_none() -> None:
    assert next_step(living(State.ADMITTED, version=0), NOW) is None


@pytest.mark.parametrize(("rounds", "fails"), [(2, False), (3, False), (4, True)])
def test_a_limit_of_three_allows_three_restarts(rounds: int, fails: bool) -> None:
    lost = living(State.HELD, policy={"rounds": rounds, "backoff_limit": 3})
    assert (ending(lost) == ("Failed", "BackoffLimitExceeded")) is fails
    assert ending(living(version=rounds - 1, policy={"rounds": rounds, "backoff_limit": 3})) is None


@pytest.mark.parametrize(
    ("pod", "policy", "remaining", "expected"),
    [
        (CRASHED, {}, None, "PodFailed"),
        (CRASHED, {"retries": True}, 0, "PodFailed"),
        (CRASHED, {"retries": True}, 2, "wait"),
        (CRASHED, {"retries": True}, None, "wait"),
        (FailedPod("p0-master-0", 3, exit_code_decides=True), {}, None, "PodFailed"),
        (FailedPod("p0-master-0", 137, exit_code_decides=True), {}, None, "replace"),
        (FailedPod("p0-master-0", -1, exit_code_decides=True), {}, None, "replace"),
        (FailedPod("p0-master-0", 137), {}, None, "PodFailed"),
        (FailedPod("p0-master-0", -1, disrupted=True), {}, None, "replace"),
    ],
)
def test_a_failed_pod_ends_the_job_waits_for_volcano_or_is_replaced(
    pod: FailedPod, policy: dict[str, Any], remaining: int | None, expected: str
) -> None:
    broken = living(
        State.BROKEN, policy={"rounds": 1, **policy}, version=0, failed=(pod,), remaining=remaining
    )
    step = next_step(broken, NOW)
    match expected:
        case "wait":
            assert step is None
        case "replace":
            assert step == Remove("uid-p0", (pod.name,))
        case reason:
            assert ending(broken) == ("Failed", reason)


def test_a_pod_that_cannot_live_is_replaced_with_growing_pauses() -> None:
    pod = FailedPod("p0-master-0", 137, exit_code_decides=True)
    young = instance(
        "p0",
        State.BROKEN,
        admitted_at=NOW,
        life=Life(RunPolicy(rounds=4), version=3, failed=(pod,)),
    )
    assert next_step(young, NOW + 39) is None
    assert list(recheck_at(young)) == [NOW + 40]
    assert next_step(young, NOW + 40) == Remove("uid-p0", (pod.name,))


def refused(rounds: int = 1, version: int = 0, **changes: Any) -> Instance:
    """An instance whose leader was refused by its kubelet, the second time in a row."""
    failed = (FailedPod("p0-master-0", -1),)
    return instance(
        "p0",
        State.BROKEN,
        life=Life(RunPolicy(rounds=rounds, backoff_limit=1), version=version, failed=failed),
        refused=("p0-master-0",),
        **{
            "pods": 2,
            "bound": 2,
            "ended": 1,
            "refusals": (KubeletRefusal("npu-0", 2, NOW),),
            **changes,
        },
    )


def test_a_pod_that_its_kubelet_refused_is_made_anew_after_a_pause() -> None:
    """Contract section 2: it is deleted and made anew like a lost one, with a pause per instance
    and node that grows from 10 s to 5 min."""
    assert next_step(refused(version=1), NOW + 19) is None
    assert next_step(refused(version=1), NOW + 20) == Remove("uid-p0", ("p0-master-0",))
    one = service("1P", [refused(version=1)])
    assert decide(world(one)).recheck_at == NOW + 20


def test_a_refusal_is_no_restart_and_ends_no_job() -> None:
    """Contract section 2: it counts neither as a restart nor as the end of a job."""
    taken_back = next_step(refused(rounds=2, version=1), NOW)
    assert taken_back == Record("uid-p0", 1)
    assert next_step(refused(rounds=1, version=1), NOW) is None


def test_a_pod_that_others_make_is_removed_when_its_kubelet_refused_it() -> None:
    theirs = refused(made_by_us=False)
    assert next_step(theirs, NOW + 19) is None
    assert next_step(theirs, NOW + 20) == Remove("uid-p0", ("p0-master-0",))
    spent = refused(made_by_us=False, budget=RestartBudget(limit=2, used=2))
    assert next_step(spent, NOW + 20) is None
    assert next_step(refused(made_by_us=False, refusals=()), NOW) == Remove(
        "uid-p0", ("p0-master-0",)
    )


@pytest.mark.parametrize("of", [{"ratios": "1P"}, {"ratios": None, "key": NO_RULE}])
def test_nothing_is_made_of_an_instance_while_it_pauses(of: dict[str, Any]) -> None:
    """The removed pod may be gone before the pause is over: then the pause holds all the same."""
    gone = instance("p0", refusals=(KubeletRefusal("npu-0", 1, NOW - 9),))
    lost_one = instance(
        "p0", State.BROKEN, pods=1, bound=1, refusals=(KubeletRefusal("npu-0", 1, NOW - 9),)
    )
    for one in (gone, lost_one):
        waits = decide(world(service(found=[one], **of)))
        assert waits.plans[0].actions == ()
        assert waits.recheck_at == NOW + 1
        later = world(service(found=[one], **of), now=NOW + 1)
        assert [type(action) for action in decide(later).plans[0].actions] in ([Admit], [Complete])


def test_the_words_name_the_kubelet_of_an_instance_that_runs_in_part() -> None:
    """An owner has made a pod anew, which stays gated while the instance pauses."""
    gated: dict[str, Any] = {"pods": 2, "gated": 1, "bound": 1, "running": 1, "newest": NOW}
    half = others("p0", refusals=(KubeletRefusal("npu-0", 1, NOW),), **gated)
    made = plan(service("1P", [half]))
    assert made.actions == ()
    assert words(made.verdicts[0], made) == (
        "Admitted; waits for the scheduler to bind its pods: the kubelet of npu-0 refused a pod of"
        " it, so it pauses for 10 s."
    )


def test_the_words_name_the_kubelet() -> None:
    held = others("p0", refusals=(KubeletRefusal("npu-0", 3, NOW),))
    made = plan(service("1P", [held]))
    assert made.verdicts[0].reason is Reason.WAITING_FOR_SCHEDULER
    assert words(made.verdicts[0], made) == (
        "Chosen to start: the kubelet of npu-0 refused a pod of it 3 times in a row, so it pauses"
        " for 40 s before it is made again."
    )


def test_a_pod_that_its_owner_has_replaced_is_no_finished_job() -> None:
    """Contract section 2: an evicted pod that its owner has replaced is no finished job."""
    over = others("p0", State.FINISHED, replaced=True, trouble="pod p0 has ended (Failed, Evicted)")
    made = plan(service("1P", [over, others("p1")]))
    assert words(made.verdicts[0], made) == (
        "It has ended: pod p0 has ended (Failed, Evicted); its owner has replaced it."
    )
    assert made.actions == (Admit("uid-p1"),)


def test_the_deadline_counts_from_the_first_start() -> None:
    policy = {"deadline": 60, "started_at": NOW - 59, "rounds": 1}
    assert ending(living(policy=policy)) is None
    assert list(recheck_at(living(policy=policy))) == [NOW + 1]
    assert ending(living(policy=policy), NOW + 1) == ("Failed", "DeadlineExceeded")


def test_success_is_all_pods_or_all_workers() -> None:
    done = ("Succeeded", "JobSucceeded")
    assert ending(living(State.STARTING, succeeded=2)) == done
    assert ending(living(State.STARTING, succeeded=1, version=-1)) is None
    workers: dict[str, Any] = {
        "succeeded": 1,
        "workers": 1,
        "workers_succeeded": 1,
        "policy": {"all_workers": True},
    }
    assert ending(living(State.STARTING, **workers)) == done


def test_lowered_replicas_resize_the_gang_and_then_remove_the_surplus() -> None:
    surplus = ("p0-worker-3", "p0-worker-2")
    assert next_step(living(outgrown=True, surplus=surplus), NOW) == Resize("uid-p0")
    assert next_step(living(surplus=surplus), NOW) == Remove("uid-p0", surplus)


@pytest.mark.parametrize(
    ("clean", "removed", "pod_group"),
    [
        (CleanPods.RUNNING, ("waits", "runs"), True),
        (CleanPods.ALL, ("waits", "runs", "ended"), True),
        (CleanPods.NONE, ("waits",), False),
    ],
)
def test_the_clean_policy_says_which_pods_of_a_finished_job_go(
    clean: CleanPods, removed: tuple[str, ...], pod_group: bool
) -> None:
    over = finished({"clean": clean}, unbound=("waits",), running_on=("runs",), over=("ended",))
    assert next_step(over, NOW) == Remove("uid-p0", removed, pod_group)


def test_a_finished_job_goes_when_its_time_is_over() -> None:
    over = finished({"ttl": 30}, over=("ended",))
    assert next_step(over, NOW) is None
    assert list(recheck_at(over)) == [NOW + 20]
    assert next_step(over, NOW + 20) == Expire("uid-p0")


_names = st.lists(st.sampled_from(["p0-master-0", "p0-worker-0", "p0-worker-1"]), unique=True).map(
    tuple
)
_policies = st.builds(
    RunPolicy,
    backoff_limit=st.integers(0, 3),
    retries=st.booleans(),
    clean=st.sampled_from(CleanPods),
    ttl=st.none() | st.integers(0, 20),
    deadline=st.none() | st.integers(0, 20),
    all_workers=st.booleans(),
    started_at=st.just(0.0) | st.floats(NOW - 20, NOW),
    finished_at=st.floats(NOW - 20, NOW),
    rounds=st.integers(0, 4),
)
_failed = st.builds(
    FailedPod,
    st.just("p0-master-0"),
    st.sampled_from([-1, 0, 1, 127, 128, 137]),
    st.booleans(),
    st.booleans(),
)
_lives = st.builds(
    Life,
    policy=_policies,
    version=st.integers(-1, 4),
    remaining=st.none() | st.integers(-1, 2),
    failed=st.lists(_failed, max_size=1).map(tuple),
    succeeded=st.integers(0, 2),
    workers=st.integers(0, 1),
    workers_succeeded=st.integers(0, 1),
    surplus=_names,
    outgrown=st.booleans(),
    unbound=_names,
    running_on=_names,
    over=_names,
)


@given(
    life=_lives,
    state=st.sampled_from(State),
    spoilt=st.booleans(),
    problem=st.none() | st.sampled_from([Reason.NOT_SERVED, Reason.JOB_ID_MISSING]),
    going=st.booleans(),
)
def test_no_step_touches_what_runs_or_is_not_ours(
    life: Life, state: State, spoilt: bool, problem: Reason | None, going: bool
) -> None:
    faults = ("InvalidSpecs: words",) if spoilt else ()
    one = instance(
        "p0", state, life=life, faults=faults, label_problem=problem, owner_deleting=going
    )
    seen = world(service("1P", [one]))
    decided = decide(seen)
    assert violations(seen, decided) == ()
    (made,) = decided.plans
    steps = [action for action in made.actions if action == next_step(one, NOW)]
    if problem or going or (spoilt and not one.owner_finished):
        assert steps == []
    if isinstance(next_step(one, NOW), Finish):
        assert not one.owner_finished
        assert [type(action) for action in made.actions] == [Finish]
