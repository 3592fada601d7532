"""A minimum takes sizes from a training job: 3d.6 of the contract."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.decide.decide import decide
from scaler.decide.decision import Cause, Restart
from scaler.decide.explain import words
from scaler.decide.memory import HadAttempt, InstanceMemory
from scaler.decide.world import Preempt, RestartBudget, Service
from scaler.reasons.reasons import Reason
from scaler.rules.rule import RuleOptions
from tests.builders import NOW, on_nodes, reasons, remembering, world
from tests.decide.training_jobs import Told, done, job, on

EIGHT = "8 > 4 > 2"


def runs(size: int = 8, *, name: str = "j", first: int = 0, **changes: Any) -> Service:
    where = on("a", size, first)
    return job(EIGHT, where, name=name, recorded=str(size), **{"made_by_us": False, **changes})


def missing(number: int, **changes: Any) -> Service:
    held = ", ".join([f"p{at} held" for at in range(number)])
    return on_nodes(f"{number}P", held, name="b", **{"priority": 1, **changes})


@pytest.mark.parametrize(
    ("number", "size"), [(1, "4"), (3, "4"), (4, "4"), (5, "2"), (6, "2"), (7, None), (8, None)]
)
def test_a_job_is_shrunk_to_the_largest_size_that_leaves_the_room(
    number: int, size: str | None
) -> None:
    made = done(runs(), missing(number), nodes="a:8x8")
    assert made == ({"j-0": f"Restart {size} preemption"} if size else {})


def test_free_nodes_count_too() -> None:
    assert done(runs(4), missing(3), nodes="a:8x5") == {"j-0": "Restart 2 preemption"}
    assert done(runs(4), missing(1), nodes="a:8x5") == {"b-p0": "Admit"}, "nobody has to go"


def test_the_smallest_size_is_never_offered() -> None:
    assert done(runs(2), missing(1), nodes="a:8x2") == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"priority": 1},
        {"options": RuleOptions(preemptable=False)},
        {"options": RuleOptions(paused=True)},
        {"grace": 1600.0},
        {"budget": RestartBudget(limit=4, used=2)},
    ],
    ids=["priority", "protected", "paused", "grace", "restarts"],
)
def test_what_protects_an_instance_protects_a_job(changes: dict[str, Any]) -> None:
    """4a, 4b, 4g, 3d.8."""
    assert done(runs(**changes), missing(2), nodes="a:8x8") == {}


def test_the_setting_says_whose_sizes_a_minimum_may_take() -> None:
    same = missing(2, priority=0)
    assert done(runs(), same, nodes="a:8x8") == {}
    equal = done(runs(), same, nodes="a:8x8", preempt=Preempt.EQUAL_OR_HIGHER)
    assert equal == {"j-0": "Restart 4 preemption"}
    assert done(runs(), missing(2), nodes="a:8x8", preempt=Preempt.NEVER) == {}


ENDING = job(
    EIGHT,
    " + ".join(["ends"] * 8),
    recorded="4",
    awaited=4,
    ends_by=NOW + 30,
    made_by_us=False,
)
"""The job when all its pods end, and it is to go on at 4."""
SURPLUS = on_nodes("2P > 1P", "p0 on b0, p1 on a8", name="c")


def test_in_one_priority_surplus_of_services_goes_before_jobs() -> None:
    assert done(runs(), SURPLUS, missing(1), nodes="a:8x9 b:8") == {"c-p1": "Evict"}


def test_a_job_of_a_lower_priority_goes_before_surplus_of_services() -> None:
    low = runs(priority=-1)
    assert done(low, SURPLUS, missing(1), nodes="a:8x9 b:8") == {"j-0": "Restart 4 preemption"}


def test_of_two_jobs_the_one_with_the_shorter_grace_period_goes() -> None:
    i = runs(name="i", grace=30.0)
    j = runs(name="j", first=8, grace=900.0)
    assert done(i, j, missing(2), nodes="a:8x16") == {"i-0": "Restart 4 preemption"}


def test_two_jobs_give_room_together() -> None:
    """S11: only if it places the whole minimum."""
    i = runs(4, name="i")
    j = runs(4, name="j", first=4)
    made = done(i, j, missing(4), nodes="a:8x8")
    assert made == {"i-0": "Restart 2 preemption", "j-0": "Restart 2 preemption"}
    assert done(i, j, missing(5), nodes="a:8x8") == {}


def test_a_job_that_is_broken_or_starts_anew_is_left_alone() -> None:
    broken = runs(faulty=1)
    assert done(broken, missing(2), nodes="a:8x8") == {}


def test_a_scale_up_shrinks_no_job() -> None:
    """3d.6, 3b.4h."""
    scales = on_nodes("2P > 1P", "p0 on b0, p1@a held", name="b", priority=1)
    assert done(runs(), scales, nodes="a:8x8 b:8") == {}


def test_the_victim_says_for_whom_and_at_which_size_it_goes_on() -> None:
    made = decide(world(runs(), missing(3), nodes="a:8x8"))
    assert reasons(made)["j-0"] is Reason.PREEMPTED
    assert reasons(made)["b-p0"] is Reason.WAITING_FOR_ROOM
    plan = next(plan for plan in made.plans if plan.key.job_id == "vcjob/j")
    assert plan.actions == (Restart("j-0", 1, Cause.PREEMPTION, "default/rule/b"),)
    said = words(plan.verdicts[0], plan)
    assert said.startswith("Started anew at size 4 of 8, so that default/")


def test_the_room_of_both_is_kept_until_all_old_pods_have_gone() -> None:
    """T6: a scale-up of a third service takes none of it."""
    other = on_nodes("2P > 1P", "p0 on b0, p1 held", name="c", priority=2)
    story = Told("a:8x8 b:8")
    assert story.at(0, runs(), missing(3), other) == {"j-0": "Restart 4 preemption"}
    going = "a:8x8 b:8, " + ", ".join([f"a{at} ending 8 30" for at in range(8)])
    assert story.at(1, ENDING, missing(3), other, nodes=going) == {}
    assert story.reasons["j-0"] == Reason.PREEMPTED
    held = job(EIGHT, "held 4", recorded="4")
    made = story.at(31, held, missing(3), other)
    assert made == {
        "j-0": "Admit 4",
        **dict.fromkeys(("b-p0", "b-p1", "b-p2"), "Admit"),
        "c-p1": "Admit",
    }


def test_while_the_pods_of_a_victim_end_nobody_else_is_shrunk() -> None:
    """3b.4d."""
    story = Told("a:8x16")
    i = runs(8, name="i", first=8)
    assert story.at(0, i, runs(), missing(3)) == {"j-0": "Restart 4 preemption"}
    going = "a:8x16, " + ", ".join([f"a{at} ending 8 30" for at in range(8)])
    assert story.at(1, i, ENDING, missing(3), nodes=going) == {}


def test_no_job_is_shrunk_for_what_has_had_its_attempt() -> None:
    """3b.4e, S11."""
    tried = InstanceMemory(had_attempt=HadAttempt.FOR_GOOD)
    memory = remembering(missing(3), ("b-p0", tried))
    assert done(runs(), missing(3), nodes="a:8x8", memory=memory) == {}
