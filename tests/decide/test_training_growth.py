"""A job that runs is restarted at another size: 3d.5 and 3d.1 of the contract, and those of the
examples of 3e that are about growth."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.decide.world import RestartBudget, Service
from scaler.reasons.reasons import Reason
from scaler.rules.rule import RuleOptions
from tests.builders import NOW, on_nodes
from tests.decide.training_jobs import Told, job, on

EIGHT = "8 > 4 > 2"
MINUTE = 60.0


def runs(
    size: int, *, name: str = "j", first: int = 0, since: float = 0, **changes: Any
) -> Service:
    """A job whose pods were created at that time, seconds from the start."""
    usual: dict[str, Any] = {"made_by_us": False, "grows": True, "newest": NOW + since}
    where = on("a", size, first)
    return job(EIGHT, where, name=name, recorded=str(size), **{**usual, **changes})


def ends(size: int, recorded: str, **changes: Any) -> Service:
    pods = " + ".join(["ends"] * size)
    return job(EIGHT, pods, recorded=recorded, awaited=1, made_by_us=False, grows=True, **changes)


def grown(story: Told, running: Service, until: int, *others: Service, **changes: Any) -> float:
    """When the job is restarted for growth, if nothing else happens; 0.0 = not before that."""
    for time in range(0, until + 1, 60):
        if "growth" in str(story.at(time, running, *others, **changes)):
            return float(time)
    return 0.0


def test_a_job_grows_when_room_was_there_for_a_while_and_its_interval_is_over() -> None:
    """G1 to G4; sizes are skipped."""
    story = Told("a:8x8")
    assert grown(story, runs(2), 700) == 10 * MINUTE
    assert story.reasons["j-0"] == Reason.GROWING
    assert story.made.plans[0].actions[0].size == 0  # type: ignore[union-attr]


def test_time_alone_lets_it_grow() -> None:
    story = Told("a:8x8")
    story.at(0, runs(4))
    assert story.recheck_in == 600
    story.at(550, runs(4), nodes="a:8x7")
    story.at(560, runs(4))
    assert story.recheck_in == 620


def test_room_has_to_last_without_interruption() -> None:
    """G4: a node that flaps every 30 s is not used."""
    story = Told("a:8x8")
    for time in range(0, 1200, 30):
        flaps = "a:8x8" if time % 60 else "a:8x8, a7 lost 1"
        assert story.at(time, runs(4), nodes=flaps) == {}


def test_room_that_came_late_has_its_patience() -> None:
    story = Told("a:8x7")
    story.at(1000, runs(4), nodes="a:8x7")
    assert story.at(1010, runs(4), nodes="a:8x8") == {}
    assert story.at(1060, runs(4), nodes="a:8x8") == {}
    assert story.at(1070, runs(4), nodes="a:8x8") == {"j-0": "Restart 8 growth"}


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({}, 600.0),
        ({"restart_cost": 120.0}, 1200.0),
        ({"grows": False}, 0.0),
        ({"options": RuleOptions(paused=True)}, 0.0),
        ({"replicas": 7}, 0.0),
        ({"budget": RestartBudget(limit=4, used=1)}, 0.0),
        ({"budget": RestartBudget(limit=4, used=0)}, 600.0),
    ],
    ids=["usual", "cost", "grows", "paused", "limit", "restarts", "has restarts"],
)
def test_its_cost_and_those_who_own_it_have_a_say(changes: dict[str, Any], at: float) -> None:
    """G2, G5, 3d.8."""
    assert grown(Told("a:8x8"), runs(4, **changes), 1300) == at


def test_it_grows_into_nothing_that_others_want() -> None:
    """G3: minimums, scale-ups, and what is with the scheduler."""
    scales = on_nodes("2P > 1P", "p0 on b0, p1 unbound", name="b")
    assert grown(Told("a:8x8 b:8"), runs(4), 700, scales) == 0
    assert grown(Told("a:8x9 b:8"), runs(4), 700, scales) == 600


def test_one_job_at_a_time_grows() -> None:
    """G6."""
    story = Told("a:8x16")
    i = runs(4, name="i")
    j = runs(4, name="j", first=4)
    for time in range(0, 600, 60):
        assert story.at(time, i, j) == {}
    assert story.at(600, i, j) == {"i-0": "Restart 8 growth"}
    ending = ends(4, "8", name="i", uid="i-0")
    assert story.at(610, ending, j) == {}
    assert story.at(630, job(EIGHT, "held 8", name="i"), j) == {"i-0": "Admit 8"}
    again = runs(8, name="i", first=8, since=630)
    story.at(640, again, j)
    assert story.at(710, again, j) == {}, "there is no room for it now"


def test_what_it_grows_into_is_kept_from_scale_ups_while_its_pods_end() -> None:
    """3d.2: its recorded size is its first goal."""
    scales = on_nodes("2P > 1P", "p0 on b0, p1 held", name="b")
    story = Told("a:8x8 b:8")
    complete = on_nodes("2P > 1P", "p0 on b0", name="b")
    assert grown(story, runs(4), 700, complete) == 600
    going = "a:8x8 b:8, " + ", ".join([f"a{at} ending 8 700" for at in range(4)])
    ending = ends(4, "8", ends_by=NOW + 700)
    assert story.at(601, ending, scales, nodes=going) == {}
    assert story.reasons["j-0"] == Reason.GROWING
    assert story.at(620, job(EIGHT, "held 8"), scales) == {"j-0": "Admit 8"}


def test_a_growth_that_did_not_last_doubles_the_interval() -> None:
    """The eighth node flaps: it grows after 10, 20, 40 minutes."""
    story = Told("a:8x8")
    start = 0.0
    intervals = []
    for _ in range(3):
        grew = start
        while "growth" not in str(story.at(grew, runs(4, since=start))):
            grew += 60
        intervals.append(grew - start)
        story.at(grew + 1, ends(4, "8"))
        large = runs(8, since=grew + 5)
        story.at(grew + 10, large)
        hurt = runs(8, since=grew + 5, faulty=1)
        story.at(grew + 300, hurt, nodes="a:8x8, a7 lost 1")
        story.at(grew + 310, hurt, nodes="a:8x8, a7 lost 11")
        start = grew + 400
    assert intervals == [600, 1200, 2400]


@pytest.mark.parametrize(("after", "interval"), [(1199, 1200), (1200, 600)])
def test_a_growth_that_lasted_sets_the_interval_back(after: float, interval: float) -> None:
    """It grew twice; the first one did not last, the second one until then."""
    story = Told("a:8x8")
    story.at(0, runs(4))
    assert story.at(600, runs(4)) == {"j-0": "Restart 8 growth"}
    hurt = runs(8, since=605, faulty=1)
    story.at(700, hurt)
    story.at(800, runs(4, since=800))
    assert story.at(2000, runs(4, since=800)) == {"j-0": "Restart 8 growth"}, "1200 s"
    story.at(2010, runs(8, since=2005))
    story.at(2000 + after, runs(8, since=2005, faulty=1))
    start = 2100 + after
    story.at(start, runs(4, since=start))
    assert story.at(start + 599, runs(4, since=start)) == {}
    grows = story.at(start + 600, runs(4, since=start)) == {"j-0": "Restart 8 growth"}
    assert grows is (interval == 600)


def test_growth_needs_room_that_no_minimum_took() -> None:
    """L8: what was given to a minimum does not come back while the minimum runs."""
    minimum = on_nodes("3P", "p0 on a4, p1 on a5, p2 on a6", name="b", priority=1)
    assert grown(Told("a:8x8"), runs(4), 1300, minimum) == 0


# 3d.1: fewer are wanted


def test_a_job_that_runs_with_more_than_is_wanted_is_shrunk_at_once() -> None:
    story = Told("a:8x8")
    story.at(0, runs(8))
    assert story.at(10, runs(8, replicas=5)) == {"j-0": "Restart 4 limit"}
    assert story.at(20, runs(4, replicas=5)) == {}


@pytest.mark.parametrize(("used", "shrinks"), [(1, True), (2, False)])
def test_it_stays_as_it_is_without_restarts_to_spare(used: int, shrinks: bool) -> None:
    """3d.8."""
    story = Told("a:8x8")
    counted = runs(8, replicas=5, budget=RestartBudget(limit=4, used=used))
    assert bool(story.at(0, counted)) is shrinks


def test_a_size_that_the_ladder_lost_runs_on() -> None:
    """3d.9."""
    story = Told("a:8x8")
    other = job(EIGHT, on("a", 6), recorded="8", started=-3, made_by_us=False, grows=True)
    for time in (0, 60, 700, 1400):
        assert story.at(time, other) == {}
