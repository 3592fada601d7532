"""A training job after a fault: 3d.4 of the contract, and those of the examples of 3e that are
about faults."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.decide.world import MIXED, OnFault, Service
from scaler.reasons.reasons import Reason
from scaler.rules.rule import RuleOptions
from tests.builders import on_nodes, reasons
from tests.decide.training_jobs import Told, done, job, on, on_one_server

EIGHT = "8 > 4 > 2"
OTHERS: dict[str, Any] = {"made_by_us": False}


def lost(size: int, *, of: str = EIGHT, gone: int = 1, **changes: Any) -> Service:
    """A job of so many servers that lost pods."""
    pods = [on("a", size - gone), *["gone"] * gone]
    return job(of, " + ".join(pods), recorded=str(size), **{**OTHERS, **changes})


def runs(size: int, **changes: Any) -> Service:
    return job(EIGHT, on("a", size), recorded=str(size), **{**OTHERS, **changes})


def ending(size: int, **changes: Any) -> Service:
    """All its pods end."""
    pods = " + ".join(["ends"] * size)
    return job(EIGHT, pods, recorded=str(size), awaited=size, **{**OTHERS, **changes})


def test_a_job_that_lost_a_pod_is_restarted_whole_when_it_is_no_flap() -> None:
    story = Told("a:8x8")
    story.at(0, runs(8))
    assert story.at(1, lost(8)) == {}
    assert story.recheck_in == 11
    assert story.at(10, lost(8)) == {}
    assert story.at(11, lost(8)) == {"j-0": "Restart 8 fault"}
    assert story.reasons["j-0"] == Reason.RESTARTED_FOR_FAULT
    story.at(12, ending(8), nodes="a:8x8")
    assert story.reasons["j-0"] == Reason.RESTARTED_FOR_FAULT


def test_a_pod_that_flaps_restarts_nothing() -> None:
    story = Told("a:8x8")
    for time in range(0, 100, 10):
        assert story.at(time, runs(8)) == {}
        assert story.at(time + 5, lost(8)) == {}


def test_a_job_on_a_faulty_chip_is_restarted() -> None:
    story = Told("a:8x8")
    story.at(0, runs(8))
    story.at(1, runs(8, faulty=1))
    assert story.at(11, runs(8, faulty=1)) == {"j-0": "Restart 8 fault"}


@pytest.mark.parametrize("changes", [{}, {"is_marked": True}, {"started": MIXED}])
def test_what_others_delete_and_a_restart_that_is_not_over_are_completed_at_once(
    changes: dict[str, Any],
) -> None:
    """T1: a mixture ends in the next decision."""
    where = on("a", 7) + (" + ends" if not changes else " + on a7")
    story = Told("a:8x8")
    story.at(0, runs(8))
    broken = job(EIGHT, where, recorded="8", **OTHERS, **changes)
    if "is_marked" in changes:
        broken = lost(8, is_marked=True)
    assert story.at(1, broken) == {"j-0": "Restart 8 fault"}


def test_pods_of_another_size_than_the_recorded_one_are_a_restart_that_is_not_over() -> None:
    story = Told("a:8x8")
    story.at(0, runs(8))
    other = job(EIGHT, on("a", 8), recorded="4", started=0, **OTHERS)
    assert story.at(1, other) == {"j-0": "Restart 4 fault"}


OFF: dict[str, Any] = {"on_fault": OnFault.OFF}


@pytest.mark.parametrize("changes", [{"has_exited": True}, OFF, {**OFF, "faulty": 1}])
def test_what_its_owner_heals_is_not_restarted(changes: dict[str, Any]) -> None:
    """T8: an exit changes no size."""
    story = Told("a:8x8")
    story.at(0, runs(8))
    for time in (1, 11, 61, 300):
        assert "Restart" not in str(story.at(time, lost(8, **changes)))


def test_a_paused_job_is_not_restarted() -> None:
    story = Told("a:8x8")
    story.at(1, lost(8, options=RuleOptions(paused=True)))
    assert story.at(60, lost(8, options=RuleOptions(paused=True))) == {}


def test_clusterd_has_its_time_to_repair_processes() -> None:
    story = Told("a:8x8")
    repaired = lost(8, repair=330.0)
    story.at(1, repaired)
    assert story.at(330, repaired) == {}
    assert story.at(331, repaired) == {"j-0": "Restart 8 fault"}


def test_no_pod_of_a_broken_job_is_made_or_released_again() -> None:
    story = Told("a:8x8")
    story.at(0, runs(8))
    gated = job(EIGHT, f"{on('a', 7)} + gated", recorded="8", **OTHERS)
    assert story.at(1, gated) == {}
    assert story.at(11, gated) == {"j-0": "Restart 8 fault"}


def test_its_other_pods_keep_the_room_of_the_smallest_size() -> None:
    """3b.1b: no scale-up takes what it needs to run at all."""
    scales = on_nodes("2P > 1P", "p0 on b0, p1@a held", name="b")
    story = Told("a:8x3 b:8")
    alone = job("2 > 1", "on a0 + gone", recorded="2", **OTHERS)
    assert story.at(1, alone, scales) == {"b-p1": "Admit"}
    all_lost = job("2 > 1", "on a0 + gone", recorded="2", faulty=1, **OTHERS)
    story = Told("a:8x2 b:8")
    assert story.at(1, all_lost, scales) == {}, "the free node is kept"


def test_a_release_that_broke_off_is_completed_at_the_same_size() -> None:
    """A gated pod has no size yet: what is released is of one size, and nothing is bound."""
    part = " + ".join([*["unbound"] * 3, "gated"])
    assert done(job(EIGHT, part, recorded="4", **OTHERS), nodes="a:8x8") == {"j-0": "Complete"}


# then it competes


def test_it_starts_at_what_fits_when_no_room_is_to_come() -> None:
    """8 servers, 3 nodes lost for good: 4."""
    story = Told("a:8x5")
    story.at(0, lost(8, gone=3))
    assert story.at(10, lost(8, gone=3)) == {"j-0": "Restart 8 fault"}
    story.at(11, ending(8))
    assert story.at(40, job(EIGHT, "held 8"), nodes="a:8x5") == {"j-0": "Restart 4 start"}
    assert story.at(41, job(EIGHT, "held 4", recorded="4"), nodes="a:8x5") == {"j-0": "Admit 4"}


def test_it_waits_for_a_node_that_may_return_and_then_starts_at_what_fits() -> None:
    """Spare patience: from its first lost pod."""
    away = "a:8x8, a7 lost 1"
    story = Told("a:8x8")
    story.at(0, lost(8), nodes=away)
    assert story.at(10, lost(8), nodes=away) == {"j-0": "Restart 8 fault"}
    held = job(EIGHT, "held 8")
    assert story.at(20, held, nodes=away) == {}
    assert story.reasons["j-0"] == Reason.WAITING_FOR_ROOM
    assert story.recheck_in <= 60
    assert story.at(59, held, nodes=away) == {}
    assert story.at(60, held, nodes=away) == {"j-0": "Restart 4 start"}


def test_it_starts_whole_when_the_node_returns_in_time() -> None:
    away = "a:8x8, a7 lost 1"
    story = Told("a:8x8")
    story.at(0, lost(8), nodes=away)
    story.at(10, lost(8), nodes=away)
    assert story.at(20, job(EIGHT, "held 8"), nodes=away) == {}
    assert story.at(30, job(EIGHT, "held 8")) == {"j-0": "Admit 8"}


def test_a_node_without_its_chips_and_no_spare_lets_a_job_of_two_servers_go_on_with_one() -> None:
    """2 servers, minReplicas 1; an NPU network fault on node a1."""
    two = "2 > 1"
    faulty = "a:8x2, a1 faulty 8 1"
    story = Told("a:8x2")
    broken = job(two, "on a0 + on a1", recorded="2", faulty=1, **OTHERS)
    story.at(0, broken)
    assert story.at(10, broken) == {"j-0": "Restart 2 fault"}
    held = job(two, "held 2")
    story.at(20, held, nodes=faulty)
    assert story.at(60, held, nodes=faulty) == {"j-0": "Restart 1 start"}
    assert story.at(61, job(two, "held 1", recorded="1"), nodes=faulty) == {"j-0": "Admit 1"}


def test_chips_of_its_one_server_fail_and_it_goes_on_with_those_that_are_left() -> None:
    ladder = "8 > 4 > 2 > 1"
    story = Told("a:8")
    broken = on_one_server(ladder, "on a0", faulty=1, **OTHERS)
    other = on_nodes("1P", "p0:1 on b0", name="b")
    story.at(0, broken, other, nodes="a:8 b:8")
    assert story.at(10, broken, other, nodes="a:8 b:1")["j-0"] == "Restart 8 fault"
    held = on_one_server(ladder, "held 1")
    faulty = "a:8 b:1, a0 faulty 5 600"
    assert story.at(80, held, other, nodes=faulty) == {"j-0": "Restart 2 start"}


def test_another_fault_while_its_pods_end_needs_no_special_case() -> None:
    """It ran at 4; when its pods have gone, 3 nodes are left: 2."""
    story = Told("a:8x4")
    story.at(0, lost(4))
    story.at(10, lost(4))
    story.at(11, ending(4))
    assert story.at(80, job(EIGHT, "held 4", recorded="4"), nodes="a:8x3") == {
        "j-0": "Restart 2 start"
    }


def test_three_jobs_that_lost_a_rack_share_what_is_left() -> None:
    ladder = "4 > 2 > 1"
    story = Told("a:8x7")
    held = [job(ladder, "held 4", name=name) for name in "ijk"]
    made = story.at(0, *held)
    assert made == dict.fromkeys(("i-0", "j-0", "k-0"), "Restart 2 start")


def test_a_job_at_a_smaller_size_says_so() -> None:
    story = Told("a:8x9")
    story.at(0, runs(4))
    assert story.reasons["j-0"] == Reason.RUNNING_SMALLER
    story.at(1, runs(8))
    assert story.reasons["j-0"] == Reason.RUNNING


def test_where_nodes_are_not_known_a_broken_job_is_restarted_too() -> None:
    """3d.10."""
    story = Told(None)  # type: ignore[arg-type]
    story.at(0, lost(8))
    assert story.at(10, lost(8)) == {"j-0": "Restart 8 fault"}
    assert reasons(story.made)["j-0"] is Reason.RESTARTED_FOR_FAULT
