"""What an instance of a minimum loses is kept for it: 3b.1a, 1b, 1c and 5e of the contract, as
whole decisions in virtual seconds.

Service `a` runs its minimum on all the nodes that it needs. Service `b` runs its own, and one more
of its instances waits for a node."""

from __future__ import annotations

import msgspec
import pytest

from scaler.decide.memory import HadAttempt
from scaler.decide.world import Service
from tests.builders import NOW, Story, on_nodes

RUNS = on_nodes("1P1D", "p0 on a0, d0 on a1", age=9)
FAILED = on_nodes("1P1D", "p0 on a0, d0 failed on a1", age=9)
HELD = on_nodes("1P1D", "p0 on a0, d0 held", age=9)
TRIED = on_nodes("1P1D", "p0 on a0, d0 unbound", age=9)
CLIMBS = on_nodes("2P > 1P", "p0 on a2, p1 held", name="b")
COMES = on_nodes("1P", "p0 held", name="c")
FULL = "a:8x3"


def serving(*services: Service, nodes: str = FULL, since: float = -1000) -> Story:
    """A story in which these services have served."""
    story = Story(nodes)
    story.at(since, *services)
    return story


def test_the_room_of_a_failed_pod_stays_with_its_minimum() -> None:
    """3b.1b: what an instance of the minimum loses is missing from that moment on. While it is
    Broken it is itself the instance asked for, and no scale-up takes its room."""
    story = serving(RUNS, CLIMBS)
    assert story.at(0, FAILED, CLIMBS) == {}
    assert story.reasons["a-d0"] == "Broken"
    assert story.reasons["b-p1"] == "WaitingForCapacity"
    assert story.at(5, HELD, CLIMBS) == {"a-d0": "Admit"}
    assert story.at(6, TRIED, CLIMBS) == {}


def test_it_stays_after_the_grace_of_the_broken_instance_too() -> None:
    """3b.1b: whatever its state: a Broken instance without a slot is asked for where no other can
    start."""
    story = serving(RUNS, CLIMBS)
    assert [story.at(time, FAILED, CLIMBS) for time in (0, 30, 59, 60, 61, 200)] == [{}] * 6
    assert story.at(205, HELD, CLIMBS) == {"a-d0": "Admit"}


@pytest.mark.parametrize("then", [FAILED, HELD, TRIED])
def test_it_is_given_up_for_a_scale_up_after_the_longest_backoff_only(then: Service) -> None:
    """3b.5e: what a service that served has lost is given up for scale-ups after backoff_max."""
    story = serving(RUNS, CLIMBS)
    story.at(0, FAILED, CLIMBS)
    for time in (1, 29, 31, 65, 150, 299):
        assert "b-p1" not in story.at(time, then, CLIMBS, bound=time == 29), time
    story.at(302, then, CLIMBS)
    assert story.at(302.1, then if then is FAILED else HELD, CLIMBS) == {"b-p1": "Admit"}


def test_a_service_that_never_served_keeps_nothing_that_long() -> None:
    """3b.5e: only what a service that served has lost."""
    story = Story(FULL)
    assert story.at(0, HELD, CLIMBS) == {"a-d0": "Admit"}
    story.at(1, TRIED, CLIMBS, bound=True)
    assert story.at(31, TRIED, CLIMBS) == {"a-d0": "Revoke"}
    assert story.at(31.1, HELD, CLIMBS) == {"b-p1": "Admit"}


@pytest.mark.parametrize("priority", [0, 5, -5])
def test_it_is_given_up_for_a_minimum_that_waits_when_its_attempt_is_over(priority: int) -> None:
    """3b.5e: what a service that served has lost is given up so only for a waiting minimum."""
    waits = on_nodes("1P", "p0 held", name="c", priority=priority)
    story = serving(RUNS, CLIMBS)
    if priority > 0:
        assert story.at(0, FAILED, CLIMBS, waits) == {"c-p0": "Admit"}
        return
    assert story.at(0, FAILED, CLIMBS, waits) == {}
    assert story.at(29, FAILED, CLIMBS, waits, bound=True) == {}
    assert story.at(30, FAILED, CLIMBS, waits) == {"c-p0": "Admit"}


def test_a_scale_up_that_waited_before_the_loss_waits_as_long_after_it() -> None:
    """3b.5e: for scale-ups after backoff_max: nobody has waited for this room before the loss."""
    story = serving(RUNS, CLIMBS)
    waits = msgspec.structs.replace(story.remembered(CLIMBS), waiting_since=NOW - 400)
    services = {**story.memory.services, str(CLIMBS.key): waits}
    story.memory = msgspec.structs.replace(story.memory, services=services)
    for time in (0, 31, 62, 200):
        assert story.at(time, FAILED, CLIMBS, bound=time == 31) == {}, time


def test_several_services_that_lose_an_instance_at_once_all_keep_their_room() -> None:
    """3b.1b, 3b.2e: each reserves in the same pass."""
    runs = [RUNS, on_nodes("1P1D", "p0 on a3, d0 on a4", name="c")]
    lost = [FAILED, on_nodes("1P1D", "p0 failed on a3, d0 failed on a4", name="c")]
    story = serving(*runs, CLIMBS, nodes="a:8x5")
    assert story.at(0, *lost, CLIMBS) == {}
    assert story.at(70, *lost, CLIMBS) == {}
    back = [HELD, on_nodes("1P1D", "p0 held, d0 held", name="c")]
    assert story.at(71, *back, CLIMBS) == dict.fromkeys(["a-d0", "c-p0", "c-d0"], "Admit")


def test_a_pod_of_several_that_fails_keeps_its_room() -> None:
    """3b.1a: a service needs its minimum less what has a slot and of which every pod is on a node
    and has not ended."""
    runs = on_nodes("1P", "p0 on a0 + on a1")
    story = serving(runs, CLIMBS)
    lost = on_nodes("1P", "p0 on a0 + failed on a1")
    assert story.at(0, lost, CLIMBS) == {}
    assert story.at(200, lost, CLIMBS) == {}


def test_a_node_that_is_not_ready_is_no_loss() -> None:
    """3b.1b: a node that is merely NotReady is no loss: nothing is asked for."""
    story = serving(RUNS, CLIMBS, nodes="a:8x4")
    away = on_nodes("1P1D", "p0 on a0, d0 on a1", age=9)
    down = "a:8x4, a1 lost 5"
    assert story.at(0, away, CLIMBS, nodes=down) == {"b-p1": "Admit"}


def test_a_scale_up_that_fails_keeps_nothing() -> None:
    """3b.7c: what its owner has not made yet reserves nothing."""
    climbed = on_nodes("2P > 1P", "p0 on a0, p1 on a1", age=9)
    failed = on_nodes("2P > 1P", "p0 on a0, p1 failed on a1", age=9)
    story = serving(climbed, CLIMBS)
    assert story.at(0, failed, CLIMBS) == {"b-p1": "Admit"}


def test_a_spare_takes_the_place_when_the_broken_instance_has_no_slot() -> None:
    """3b.5d: a spare goes before what is lost, with a new clock, and the room stays reserved."""
    runs = on_nodes("1P1D", "p0 on a0, d0 on a1, d1 held", age=9)
    failed = on_nodes("1P1D", "p0 on a0, d0 failed on a1, d1 held", age=9)
    story = serving(runs, CLIMBS)
    assert [story.at(time, failed, CLIMBS) for time in (0, 29, 31, 59)] == [{}] * 4
    assert story.at(60, failed, CLIMBS) == {"a-d1": "Admit"}
    tried = on_nodes("1P1D", "p0 on a0, d0 failed on a1, d1 unbound", age=9)
    assert story.at(60.5, tried, CLIMBS, COMES) == {}
    assert [story.at(time, tried, CLIMBS) for time in (61, 89, 91, 120)] == [{}] * 4


def test_spares_of_the_service_do_not_end_its_attempt_at_once() -> None:
    """3b.5e: no backoff gives the room away while the service has somebody else to try."""
    runs = on_nodes("1P1D", "p0 on a0, d0 on a1, d1 held", age=9)
    tried = on_nodes("1P1D", "p0 on a0, d0 unbound, d1 held", age=9)
    other = on_nodes("1P1D", "p0 on a0, d0 held, d1 unbound", age=9)
    story = serving(runs, CLIMBS)
    for time in (0, 29):
        assert story.at(time, tried, CLIMBS, bound=time == 29) == {}
    assert story.at(30, tried, CLIMBS) == {"a-d0": "Revoke"}
    waits = on_nodes("1P1D", "p0 on a0, d0 held, d1 held", age=9)
    assert story.at(30.1, waits, CLIMBS) == {"a-d1": "Admit"}
    for time in (31, 61, 62, 200):
        assert story.at(time, other, CLIMBS) == {}, time


def test_a_spare_goes_before_what_is_lost_whatever_their_age() -> None:
    """3b.1b: what is lost and has no slot is asked for after all that can start."""
    runs = on_nodes("1P1D", "p0 on a0, d0 on a1, d1 held", age=9)
    failed = on_nodes("1P1D", "p0 on a0, d0 failed on a1, d1 held", age=9)
    story = serving(runs, CLIMBS)
    for time in (0, 29, 31, 59, 61):
        assert story.at(time, failed, CLIMBS, nodes=f"{FULL}, a1 ending 8 90") == {}
    assert story.at(70, failed, CLIMBS) == {"a-d1": "Admit"}


def test_a_spare_that_fits_nowhere_takes_no_place() -> None:
    """3b.1d: of the candidates the first set that fits: the lost instance itself."""
    runs = on_nodes("1P1D", "p0 on a0, d0 on a1, d1@b held", age=9)
    failed = on_nodes("1P1D", "p0 on a0, d0 failed on a1, d1@b held", age=9)
    story = serving(runs, CLIMBS)
    assert [story.at(time, failed, CLIMBS) for time in (0, 59, 61, 120, 200)] == [{}] * 5


def test_what_is_bound_in_part_gives_its_place_to_a_spare_without_a_pause() -> None:
    """3b.5d: the attempt of an instance of a service that served is over: it is Broken, and after
    its grace a spare is admitted. No backoff gives the room away meanwhile."""
    runs = on_nodes("1P", "p0 on a0 + on a1, p1 held")
    part = on_nodes("1P", "p0 on a0 + unbound, p1 held")
    story = serving(runs, CLIMBS)
    for time in (0, 29, 31, 31.1, 60, 91):
        assert story.at(time, part, CLIMBS, bound=time == 29) == {}, time
    assert story.reasons["a-p0"] == "Broken"
    assert story.at(92, part, CLIMBS)["a-p1"] == "Admit"


@pytest.mark.parametrize("rest", ["lost 5", "cordoned 5", "ending 8 90", "faulty 8 5"])
def test_what_is_free_of_a_loss_is_kept_while_the_rest_is_expected(rest: str) -> None:
    """3b.1b, 3b.3: the loss is reserved whole, on what is free and what comes: no scale-up takes
    the part that is free. Its clock is that of expected room (5a)."""
    lost = on_nodes("1P1D", "p0 held, d0 held", age=9)
    story = serving(RUNS, CLIMBS)
    for time in (0, 1, 31, 61, 200, 290):
        assert story.at(time, lost, CLIMBS, nodes=f"{FULL}, a1 {rest}") == {}, time
        assert story.reasons["a-p0"] == "WaitingForRoom"
    assert story.at(301, lost, CLIMBS, nodes=f"{FULL}, a1 {rest}") == {"b-p1": "Admit"}


def test_another_minimum_takes_what_is_free_of_a_loss_that_has_no_room() -> None:
    """3b.3d: nobody is blocked by what fits nowhere and is not expected."""
    lost = on_nodes("1P1D", "p0 held, d0 held", age=9)
    story = serving(RUNS, CLIMBS)
    assert story.at(0, lost, CLIMBS, COMES, nodes="a:8x3, a1 lost 400") == {"c-p0": "Admit"}


def test_it_is_not_given_up_for_a_minimum_whose_own_pods_are_ending() -> None:
    """3b.5e, 1e: that minimum will fit in the room of its own pods."""
    served = on_nodes("1P", "p0 on a2, p1 held", name="c")
    ends = on_nodes("1P", "p0 ends, p1 held", name="c")
    story = serving(RUNS, served)
    story.at(0, FAILED, served)
    assert story.at(5, HELD, served) == {"a-d0": "Admit"}
    story.at(6, TRIED, served)
    assert story.at(40, TRIED, ends, nodes=f"{FULL}, a2 ending 8 90") == {}
    assert "a-d0" in story.at(41, TRIED, ends, nodes="a:8x2")  # its own room does not come


@pytest.mark.parametrize("priority", [-5, 0, 5])
def test_it_is_not_given_up_for_a_minimum_that_needs_more_than_its_room(priority: int) -> None:
    """3b.5e: the scale-up would have it, and nobody would serve for it."""
    needs_two = on_nodes("2P", "p0 held, p1 held", name="c", priority=priority)
    story = serving(RUNS, CLIMBS)
    story.at(0, FAILED, CLIMBS, needs_two)
    for time in (5, 29, 31, 61, 150, 299):
        assert story.at(time, FAILED, CLIMBS, needs_two, bound=time == 29) == {}, time
    story.at(301, FAILED, CLIMBS, needs_two)
    assert story.at(302, FAILED, CLIMBS, needs_two) == {"b-p1": "Admit"}


def test_losses_of_two_are_given_up_for_a_minimum_that_needs_both_when_it_has_waited() -> None:
    """3b.5e, L5: it has waited backoff_max because of both."""
    other = on_nodes("1P1D", "p0 on a3, d0 on a4", name="b", age=9)
    lost = on_nodes("1P1D", "p0 on a3, d0 failed on a4", name="b", age=9)
    needs_two = on_nodes("2P", "p0 held, p1 held", name="c")
    story = serving(RUNS, other, nodes="a:8x5, a2 cordoned 900")
    for time in (0, 5, 31, 150, 299):
        assert story.at(time, FAILED, lost, needs_two, bound=time == 5) == {}, time
    story.at(301, FAILED, lost, needs_two)
    story.at(301.1, FAILED, lost, needs_two)
    assert story.at(301.2, FAILED, lost, needs_two) == {"c-p0": "Admit", "c-p1": "Admit"}


@pytest.mark.parametrize("rest", ["lost 5", "cordoned 5", "ending 8 90", "faulty 8 5"])
def test_it_is_not_given_up_for_a_minimum_whose_room_is_expected(rest: str) -> None:
    """3b.5e: that minimum has room when its node returns, and waits `backoff_max` for that."""
    served = on_nodes("1P1D", "p0 on a2, d0 on a3", name="c")
    half = on_nodes("1P1D", "p0 held, d0 held", name="c")
    story = serving(RUNS, served, nodes="a:8x4")
    story.at(0, FAILED, served)
    assert story.at(5, HELD, served) == {"a-d0": "Admit"}
    story.at(6, TRIED, served)
    for time in (40, 41, 100, 290):
        assert "a-d0" not in story.at(time, TRIED, half, nodes=f"a:8x4, a2 {rest}"), time
        assert story.reasons["c-p0"] == "WaitingForRoom"


def test_it_is_not_given_up_for_a_minimum_that_goes_before_it() -> None:
    """3b.5e: what goes before the loss has had the first choice of all that is free."""
    served = on_nodes("1P1D", "p0 on a2, d0 on a3", name="c", priority=5)
    ends = on_nodes("1P1D", "p0 ends, d0 ends", name="c", priority=5)
    story = serving(RUNS, served, nodes="a:8x4")
    story.at(0, FAILED, served)
    assert story.at(5, HELD, served) == {"a-d0": "Admit"}
    story.at(6, TRIED, served)
    ending = "a:8x4, a2 ending 8 90, a3 ending 8 90"
    assert story.at(40, TRIED, ends, nodes=ending) == {}
    assert story.at(41, TRIED, ends, nodes=ending) == {}


def refused(story: Story, of: Service, uid: str, *, until: float) -> None:
    """The API server refuses the creation of this instance, which is due again at that time."""
    seen = story.remembered(of)
    one = msgspec.structs.replace(
        seen.instances[uid],
        refused="exceeded quota",
        refused_until=NOW + until,
        refused_times=1,
        had_attempt=HadAttempt.FOR_GOOD,
    )
    changed = msgspec.structs.replace(seen, instances={**seen.instances, uid: one})
    services = {**story.memory.services, str(of.key): changed}
    story.memory = msgspec.structs.replace(story.memory, services=services)


def test_a_ratio_that_only_a_refused_creation_could_fill_gets_no_partners() -> None:
    """1, live; 3.7: when it is due again, it is tried alone."""
    climbs = on_nodes("2P2D > 1P1D", "p0 on a0, d0 on a1, p1 held, d1 held")
    story = serving(climbs, nodes="a:8x4")
    refused(story, climbs, "a-p1", until=50)
    assert [story.at(time, climbs) for time in (0, 49)] == [{}] * 2
    assert (story.reasons["a-p1"], story.reasons["a-d1"]) == ("CreateRefused", "WaitingForRatio")
    assert story.at(50, climbs) == {"a-p1": "Admit"}
    started = on_nodes("2P2D > 1P1D", "p0 on a0, d0 on a1, p1 unbound, d1 held")
    assert story.at(51, started) == {"a-d1": "Admit"}


def test_a_loss_whose_creation_is_refused_keeps_its_room_in_the_pauses_too() -> None:
    """3b.1b, 3b.5a: it is not made yet by us, pauses included; no scale-up takes its room."""
    story = serving(RUNS, CLIMBS)
    story.at(0, FAILED, CLIMBS)
    assert story.at(5, HELD, CLIMBS) == {"a-d0": "Admit"}
    refused(story, HELD, "a-d0", until=50)
    assert [story.at(time, HELD, CLIMBS) for time in (6, 36, 49)] == [{}] * 3
    assert story.reasons["a-d0"] == "CreateRefused"
    assert story.at(50, HELD, CLIMBS) == {"a-d0": "Admit"}


def test_one_of_whose_pods_the_creation_was_refused_says_so_while_it_waits_for_the_scheduler() -> (
    None
):
    """5: a reason for whatever is refused: by the API server here, not by a kubelet."""
    story = serving(RUNS, CLIMBS)
    story.at(0, FAILED, CLIMBS)
    story.at(5, HELD, CLIMBS)
    refused(story, HELD, "a-d0", until=50)
    tried = msgspec.structs.replace(TRIED, assumed=True)  # writes are under way
    assert story.at(6, tried, CLIMBS) == {}
    assert story.reasons["a-d0"] == "WaitingForScheduler"


def test_of_a_service_that_never_served_a_refused_creation_keeps_no_room() -> None:
    """3.3: not a candidate: refused and not yet due again."""
    story = Story(FULL)
    assert story.at(0, HELD, CLIMBS) == {"a-d0": "Admit"}
    refused(story, HELD, "a-d0", until=50)
    assert story.at(1, HELD, CLIMBS) == {"b-p1": "Admit"}


def test_another_that_can_start_goes_before_one_whose_creation_was_refused() -> None:
    """5: the next held instance gets its attempt."""
    runs = on_nodes("1P1D", "p0 on a0, d0 on a1, d1 held", age=9)
    lost = on_nodes("1P1D", "p0 on a0, d0 held, d1 held", age=9)
    story = serving(runs, CLIMBS)
    assert story.at(0, lost, CLIMBS) == {"a-d0": "Admit"}
    refused(story, lost, "a-d0", until=50)
    assert story.at(1, lost, CLIMBS) == {"a-d1": "Admit"}


def test_what_its_owner_had_not_made_when_its_attempt_ended_is_no_candidate() -> None:
    """3.3: until it is made."""
    unmade = on_nodes("1P1D", "p0 on a0, d0 gone", others=True, age=9)
    made = on_nodes("1P1D", "p0 on a0, d0 gated", others=True, age=9)
    waits = on_nodes("1P", "p0 held", name="c")
    story = Story(FULL)
    assert story.at(0, unmade, waits) == {"c-p0": "Admit"}
    story = Story("a:8x2")
    assert story.at(0, unmade, waits) == {}
    assert story.at(30, unmade, waits) == {"c-p0": "Admit"}
    assert story.at(70, unmade) == {}
    assert story.reasons["a-d0"] == "MinimumIncomplete"
    assert story.at(71, made) == {"a-d0": "Admit"}


# jobs that are deleted and applied again

WITHOUT_D0 = on_nodes("1P1D", "p0 on a0", age=9)
APPLIED_AGAIN = on_nodes("1P1D", "p0 on a0, d1 held", age=9)


def test_the_room_of_a_deleted_job_is_kept_for_the_one_that_is_applied_in_its_place() -> None:
    """3b.1b: deleted and applied 5 s later, in a full cluster: the neighbour's scale-up does not
    take its node for good."""
    story = serving(RUNS, CLIMBS)
    assert story.at(0, WITHOUT_D0, CLIMBS) == {}
    assert story.reasons["b-p1"] == "WaitingForCapacity"
    assert story.at(4, WITHOUT_D0, CLIMBS) == {}
    assert story.at(5, APPLIED_AGAIN, CLIMBS) == {"a-d1": "Admit"}


def test_while_its_old_pods_end_too() -> None:
    """3b.1b: what ends is expected by nobody else."""
    story = serving(RUNS, CLIMBS)
    assert story.at(0, WITHOUT_D0, CLIMBS, nodes="a:8x3, a1 ending 8") == {}
    assert story.at(3, WITHOUT_D0, CLIMBS) == {}
    assert story.at(5, APPLIED_AGAIN, CLIMBS) == {"a-d1": "Admit"}


def test_nor_by_a_minimum_that_waits() -> None:
    """3b.1b, L10: one of the same priority."""
    story = serving(RUNS, CLIMBS)
    assert story.at(0, WITHOUT_D0, CLIMBS, COMES, nodes="a:8x3, a1 ending 8") == {}
    assert story.reasons["c-p0"] == "MinimumDoesNotFit"


def test_a_job_that_was_deleted_for_good_keeps_its_room_for_broken_grace() -> None:
    """3b.1b: and the moment is named, so that nobody waits longer."""
    story = serving(RUNS, CLIMBS)
    assert story.at(0, WITHOUT_D0, CLIMBS) == {}
    assert story.recheck_in == 60
    assert story.at(59, WITHOUT_D0, CLIMBS) == {}
    assert story.at(60, WITHOUT_D0, CLIMBS) == {"b-p1": "Admit"}


def test_each_deletion_has_a_time_of_its_own() -> None:
    story = serving(RUNS, CLIMBS)
    story.at(0, WITHOUT_D0, CLIMBS)
    story.at(50, RUNS, CLIMBS)
    assert story.remembered(RUNS).lacks_jobs_since == 0.0
    assert story.at(100, WITHOUT_D0, CLIMBS) == {}
    assert story.recheck_in == 160


def test_of_a_service_that_never_served_nothing_is_kept() -> None:
    """3b.1f: a minimum with too few jobs blocks nobody."""
    story = Story(FULL)
    assert story.at(0, WITHOUT_D0, CLIMBS) == {"b-p1": "Admit"}


def test_a_service_all_of_whose_jobs_are_deleted_keeps_nothing() -> None:
    story = serving(RUNS, CLIMBS)
    assert story.at(0, CLIMBS) == {"b-p1": "Admit"}


@pytest.mark.parametrize(("priority", "takes"), [(0, {}), (1, {"c-p0": "Admit"})])
def test_a_minimum_of_a_higher_priority_takes_it(priority: int, takes: dict[str, str]) -> None:
    """L10: but from a minimum of a higher priority or one that waits."""
    comes = on_nodes("1P", "p0 held", name="c", priority=priority)
    story = serving(RUNS, CLIMBS)
    assert story.at(0, WITHOUT_D0, CLIMBS, comes) == takes


def test_what_its_owner_had_not_made_is_tried_again_after_the_pause_of_evictions() -> None:
    """3.3, 4e: its PodGroup is not enqueued in a full cluster, so its owner makes no pods: nothing
    but an eviction would ever let it be made."""
    unmade = on_nodes("1P1D", "p0 on a0, d0 gone", others=True, age=9, priority=9)
    waits = on_nodes("1P", "p0 held", name="c", priority=9)
    full = on_nodes("2P > 1P", "p0 on a1, p1 on a2", name="e", others=True)
    story = Story("a:8x3")
    stranger = on_nodes("1P", "p0 on a2", name="s")
    assert story.at(0, unmade, waits, stranger) == {}
    assert story.at(30, unmade, waits, stranger) == {"c-p0": "Admit"}
    assert story.at(629, unmade, full) == {}
    assert story.at(630, unmade, full) == {"e-p1": "Evict"}
