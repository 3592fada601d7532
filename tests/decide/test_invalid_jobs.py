"""A job that no pods can be made of is not live, in a rollout either: section 5 of the contract,
`JobInvalid`."""

from __future__ import annotations

import msgspec
import pytest

from scaler.decide import attempts
from scaler.decide.memory import HadAttempt, InstanceMemory
from scaler.decide.world import Instance
from scaler.reasons.reasons import Reason
from tests.builders import NOW, decision, instance, instances, plan, remembering, rolling, service


def test_of_a_newest_one_that_is_spoilt_the_outdated_one_is_not_taken_as_passing() -> None:
    old, new = rolling("p0 Running old, p1 Held new", wanted=1)
    spoilt = msgspec.structs.replace(
        new, faults=("InvalidContainer: there is no container named ascend",)
    )
    made = plan(service("2P > 1P", [old, spoilt, *service(None, "p2 Held").instances]))
    assert (made.groups["group0"].live, made.target_index, made.complete) == (2, 0, False)


def test_a_ratio_that_only_an_instance_could_fill_whose_name_is_taken_is_not_aimed_at() -> None:
    """1, live: not while it is NameTaken."""
    taken = instance("p1", name_taken="Pod p1-master-0")
    one = service("2P2D > 1P1D", [*instances("p0 Running, d0 Running, d1 Held"), taken])
    made = plan(one)
    assert (made.groups["group0"].live, made.target_index, made.actions) == (1, 1, ())


WORDS = "JobValidateFailed: InvalidArgument: sp-block(8) is not mutiple of node npu (16)"


def refused_by_scheduler(name: str, **changes: object) -> Instance:
    """With the scheduler, which says that it never places it."""
    said = {"scheduler_says": WORDS, "never_placed": WORDS, "newest": NOW - 3, **changes}
    return instance(name, "Admitted", **said)


def test_what_the_scheduler_never_places_gives_its_place_to_another_at_once() -> None:
    """3.3: no attempt is spent on it; it is JobInvalid."""
    seen = service("1P", [refused_by_scheduler("p0", asks="8"), instance("p1", "Held")])
    first = decision(seen)
    assert {type(one).__name__: one.uid for one in first.plans[0].actions} == {
        "Revoke": "uid-p0",
        "Admit": "uid-p1",
    }
    held = service("1P", [instance("p0", "Held", asks="8"), instance("p1", "Admitted")])
    second = decision(held, memory=first.memory)
    reasons = {one.name: (one.reason, one.about) for one in second.plans[0].verdicts}
    assert reasons["p0"] == (Reason.JOB_INVALID, (WORDS,))
    assert second.plans[0].actions == ()


def test_what_the_scheduler_said_before_it_saw_all_pods_is_not_final() -> None:
    seen = service("1P", [refused_by_scheduler("p0", newest=NOW - 2), instance("p1", "Held")])
    made = decision(seen)
    assert made.plans[0].actions == ()
    assert made.recheck_at == NOW + 1


def test_what_the_scheduler_never_places_is_not_aimed_at() -> None:
    """1, live: as a job that no pods can be made of."""
    held = instance("p1", "Held", asks="8")
    seen = service("2P1D > 1P1D", [*instances("p0 Running, d0 Running"), held])
    known = InstanceMemory(
        never_placed=WORDS, never_placed_as=attempts.written_as(held), had_attempt=HadAttempt.NO
    )
    made = plan(seen, memory=remembering(seen, (held.uid, known)))
    assert (made.target_index, made.complete, made.actions) == (1, True, ())


@pytest.mark.parametrize("edit", [{"generation": 2}, {"asks": "32"}, {"revision": "b"}])
def test_what_the_scheduler_never_placed_is_tried_again_after_an_edit(
    edit: dict[str, object],
) -> None:
    written = {"generation": 1, "asks": "8", "revision": "a"}
    first = decision(service("1P", [refused_by_scheduler("p0", **written)]))
    same = service("1P", [instance("p0", "Held", **written)])
    edited = service("1P", [instance("p0", "Held", **{**written, **edit})])
    assert plan(same, memory=first.memory).actions == ()
    made = plan(edited, memory=first.memory)
    assert [type(one).__name__ for one in made.actions] == ["Admit"]


def test_an_owner_that_makes_its_pods_anew_has_not_edited_them() -> None:
    """The pods of a Deployment come back under another uid after their revocation."""
    made_by = {"made_by_us": False, "owner": "Deployment/default/p", "revision": "a", "asks": "8"}
    first = decision(service("1P", [refused_by_scheduler("p0", **made_by)]))
    again = instance("p0-new", "Held", pods=1, gated=1, **made_by)
    assert plan(service("1P", [again]), memory=first.memory).actions == ()


def test_one_with_a_bound_pod_is_not_invalid_whatever_was_said() -> None:
    first = decision(service("1P", [refused_by_scheduler("p0")]))
    bound = service("1P", [instance("p0", "Starting")])
    second = decision(bound, memory=first.memory)
    held = service("1P", [instance("p0", "Held")])
    made = plan(held, memory=second.memory)
    assert [type(one).__name__ for one in made.actions] == ["Admit"]
