"""At which size a training job starts: 3d.1 to 3d.3 and 3d.10 of the contract, and those of the
examples of 3e that are about starts."""

from __future__ import annotations

import msgspec
import pytest

from scaler.decide.decide import decide
from scaler.decide.decision import Admit, Cause, Restart
from scaler.decide.world import Instance, Service, World
from scaler.reasons.reasons import Reason
from tests.builders import on_nodes, reasons, world
from tests.decide.training_jobs import Told, doings_of, done, job, on, on_one_server

EIGHT = "8 > 4 > 2"


# 3d.2: the largest size that fits


@pytest.mark.parametrize(
    ("nodes", "size"), [(9, "8"), (8, "8"), (7, "4"), (5, "4"), (4, "4"), (3, "2"), (2, "2")]
)
def test_a_job_starts_at_the_largest_size_that_fits_whole(nodes: int, size: str) -> None:
    assert done(job(EIGHT, "held"), nodes=f"a:8x{nodes}") == {"j-0": f"Admit {size}"}


def test_a_job_whose_smallest_size_does_not_fit_is_held() -> None:
    other = on_nodes("1P", "p0 on a0", name="b")
    made = decide(world(job(EIGHT, "held"), other, nodes="a:8x2"))
    assert reasons(made)["j-0"] is Reason.MINIMUM_DOES_NOT_FIT
    assert not [action for plan in made.plans for action in plan.actions]


def test_every_size_between_may_be_in_the_ladder() -> None:
    every = "8 > 7 > 6 > 5 > 4 > 3 > 2"
    assert done(job(every, "held"), nodes="a:8x5") == {"j-0": "Admit 5"}


def test_a_job_with_one_size_is_started_whole_or_not_at_all() -> None:
    other = on_nodes("1P", "p0 on a0", name="b")
    assert done(job("8", "held"), other, nodes="a:8x8") == {}
    assert done(job("8", "held"), other, nodes="a:8x9") == {"j-0": "Admit 8"}


@pytest.mark.parametrize(("faulty", "size"), [(0, "8"), (1, "4"), (4, "4"), (5, "2"), (7, "1")])
def test_a_job_of_one_server_starts_with_the_npus_that_are_healthy(faulty: int, size: str) -> None:
    left = f"a:8, a0 faulty {faulty} 40" if faulty else "a:8"
    assert done(on_one_server("8 > 4 > 2 > 1", "held"), nodes=left) == {"j-0": f"Admit {size}"}


def test_a_job_of_one_server_prefers_another_node_with_all_npus() -> None:
    healthy = on_one_server("8 > 4 > 2 > 1", "held")
    assert done(healthy, nodes="a:8x2, a0 faulty 1 40") == {"j-0": "Admit 8"}


# 3d.2: rounds


def test_three_jobs_share_the_nodes_evenly() -> None:
    """Minimums 1 + 1 + 1; one round: 2 + 2 + 2; of 7 nodes one is left, and 4 fit for nobody."""
    jobs = [job("4 > 2 > 1", "held", name=name) for name in "ijk"]
    assert done(*jobs, nodes="a:8x7") == dict.fromkeys(("i-0", "j-0", "k-0"), "Admit 2")


def test_where_two_minimums_fit_the_first_two_jobs_run_and_the_third_says_what_it_lacks() -> None:
    jobs = [job("4 > 2 > 1", "held", name=name) for name in "ijk"]
    made = decide(world(*jobs, nodes="a:8x2"))
    assert doings_of(made, jobs) == {"i-0": "Admit 1", "j-0": "Admit 1"}
    assert reasons(made)["k-0"] is Reason.MINIMUM_DOES_NOT_FIT


def test_the_job_of_the_higher_priority_is_enlarged_first_in_each_round() -> None:
    low = job("4 > 2 > 1", "held", name="i")
    high = job("4 > 2 > 1", "held", name="j", priority=1)
    assert done(low, high, nodes="a:8x3") == {"i-0": "Admit 1", "j-0": "Admit 2"}


# 3d.2: minimums, the recorded size, scale-ups, beyond


LADDER = on_nodes("2P > 1P", "p0 on a0, p1 held", name="b")
CREATED = {"made_by_us": True}


def test_minimums_of_all_go_before_a_larger_size_of_anybody() -> None:
    minimum = on_nodes("3P", "p0 held, p1 held, p2 held", name="b", priority=-1)
    made = done(job(EIGHT, "held"), minimum, nodes="a:8x8")
    assert made == {"j-0": "Admit 4", "b-p0": "Admit", "b-p1": "Admit", "b-p2": "Admit"}


def test_a_job_gets_its_recorded_size_before_scale_ups() -> None:
    assert done(job(EIGHT, "held", recorded="4"), LADDER, nodes="a:8x5") == {"j-0": "Admit 4"}


def test_scale_ups_go_before_sizes_beyond_the_recorded_one() -> None:
    made = done(job(EIGHT, "held", recorded="2"), LADDER, nodes="a:8x5")
    assert made == {"j-0": "Admit 2", "b-p1": "Admit"}
    made = done(job(EIGHT, "held", recorded="2"), LADDER, nodes="a:8x6")
    assert made == {"j-0": "Admit 4", "b-p1": "Admit"}


def test_a_larger_size_of_a_job_invalidates_no_reservation() -> None:
    """The scheduler could bind its pods on the only nodes that the minimum may use."""
    minimum = on_nodes("1P", "p0@b held 2", name="c", others=True)
    unmade = msgspec.structs.replace(
        minimum, instances=tuple([_unmade(one) for one in minimum.instances])
    )
    made = done(job("4 > 2", "held"), unmade, nodes="a:8x3 b:8x4")
    assert made == {"j-0": "Admit 2"}


def _unmade(one: Instance) -> Instance:
    return msgspec.structs.replace(one, pods=0, gated=0)


@pytest.mark.parametrize(
    ("replicas", "size"), [(8, "8"), (7, "4"), (4, "4"), (3, "2"), (2, "2"), (1, "2")]
)
def test_no_size_is_larger_than_what_is_wanted_in_all(replicas: int, size: str) -> None:
    """3d.1: servers; never below the minimum."""
    assert done(job(EIGHT, "held", replicas=replicas), nodes="a:8x9") == {"j-0": f"Admit {size}"}


def test_a_job_of_which_none_is_wanted_rests() -> None:
    assert done(job(EIGHT, "held", replicas=0), nodes="a:8x9") == {}


# 3d.2: where its owner makes the pods


def test_a_size_is_recorded_before_the_pods_exist() -> None:
    story = Told("a:8x5")
    assert story.at(0, job(EIGHT, "held 0")) == {"j-0": "Restart 4 start"}
    assert story.at(1, job(EIGHT, "held 0", recorded="4")) == {}, "its owner makes them"
    assert story.at(2, job(EIGHT, "held 4", recorded="4")) == {"j-0": "Admit 4"}


def test_gated_pods_of_another_size_are_made_anew() -> None:
    assert done(job(EIGHT, "held 8"), nodes="a:8x5") == {"j-0": "Restart 4 start"}
    assert done(job(EIGHT, "held 8"), nodes="a:8x8") == {"j-0": "Admit 8"}
    assert done(job(EIGHT, "held 3", recorded="4"), nodes="a:8x4") == {}, "one is not made yet"


def test_no_pod_is_released_while_an_old_one_has_its_name() -> None:
    ends = job(EIGHT, "held 4", recorded="4", awaited=1)
    assert done(ends, nodes="a:8x5") == {}


def test_a_chosen_size_stays_as_long_as_it_fits() -> None:
    story = Told("a:8x5")
    story.at(0, job(EIGHT, "held 0"))
    assert story.at(1, job(EIGHT, "held 0", recorded="4"), nodes="a:8x9") == {}
    assert story.at(2, job(EIGHT, "held 0", recorded="4"), nodes="a:8x3") == {
        "j-0": "Restart 2 start"
    }


def test_a_job_with_the_scheduler_keeps_the_room_of_its_size_from_scale_ups() -> None:
    released = job(EIGHT, " + ".join(["unbound"] * 4), recorded="4", made_by_us=False)
    assert done(released, LADDER, nodes="a:8x5") == {}
    assert done(released, LADDER, nodes="a:8x6") == {"b-p1": "Admit"}


def test_a_minimum_takes_the_room_of_a_larger_size_with_the_scheduler() -> None:
    """2e: it is revoked, and starts at what is left."""
    released = job(EIGHT, " + ".join(["unbound"] * 4), recorded="4", made_by_us=False)
    minimum = on_nodes("2P", "p0 held, p1 held", name="b", priority=-1)
    assert done(released, minimum, nodes="a:8x4") == {"j-0": "Revoke"}
    held = job(EIGHT, "held 4", recorded="4")
    made = done(held, minimum, nodes="a:8x4")
    assert made == {"j-0": "Restart 2 start", "b-p0": "Admit", "b-p1": "Admit"}


# 3d.3: an attempt for each size


def _released(size: int) -> Service:
    return job(EIGHT, " + ".join(["unbound"] * size), recorded=str(size), made_by_us=False)


def test_a_size_that_is_not_bound_in_time_gives_way_to_the_next_smaller_one() -> None:
    story = Told("a:8x8")
    assert story.at(0, job(EIGHT, "held 8")) == {"j-0": "Admit 8"}
    assert story.at(29, _released(8)) == {}
    assert story.at(30, _released(8)) == {"j-0": "Revoke"}
    assert story.at(31, job(EIGHT, "held 8")) == {"j-0": "Restart 4 start"}
    assert story.at(32, job(EIGHT, "held 4", recorded="4")) == {"j-0": "Admit 4"}
    assert story.at(61, _released(4)) == {}, "it has a clock of its own"
    assert story.at(62, _released(4)) == {"j-0": "Revoke"}
    assert story.at(63, job(EIGHT, "held 4", recorded="4")) == {"j-0": "Restart 2 start"}
    assert story.at(64, job(EIGHT, "held 2", recorded="2")) == {"j-0": "Admit 2"}


def test_a_size_whose_pods_its_owner_never_makes_gives_way_too() -> None:
    story = Told("a:8x8")
    assert story.at(0, job(EIGHT, "held 0")) == {}
    assert story.at(30, job(EIGHT, "held 0")) == {"j-0": "Restart 4 start"}


def test_time_alone_ends_the_attempt_of_a_size() -> None:
    story = Told("a:8x8")
    story.at(0, job(EIGHT, "held 8"))
    story.at(5, _released(8))
    assert story.recheck_in == 30


@pytest.mark.parametrize("ends", ["runs", "edited", "node"])
def test_a_size_is_tried_again_only_after_it_ran_was_edited_or_got_nodes(ends: str) -> None:
    story = Told("a:8x8")
    story.at(0, job(EIGHT, "held 8"))
    story.at(30, _released(8))
    held = job(EIGHT, "held 4", recorded="4")
    assert story.at(31, held) == {"j-0": "Admit 4"}, "8 is not tried again"
    nodes = "a:8x8"
    match ends:
        case "runs":
            story.at(40, job(EIGHT, on("a", 4), recorded="4", made_by_us=False), bound=True)
        case "edited":
            held = msgspec.structs.replace(held, instances=(_edited(held.instances[0]),))
        case "node":
            nodes = "a:8x9, a8 since -40"
    again = held if ends == "edited" else job(EIGHT, "held 8")
    assert story.at(41, again, nodes=nodes).get("j-0", "").endswith("8") or ends == "edited"
    sizes = story.remembered(held).instances["j-0"].sizes
    assert sizes is msgspec.UNSET or not sizes.tried


def _edited(one: Instance) -> Instance:
    return msgspec.structs.replace(one, revision="2")


def test_the_next_bind_of_anybody_takes_back_what_ended_while_nothing_was_bound() -> None:
    """5h: the scheduler was away, once."""
    story = Told("a:8x8")
    story.at(0, job(EIGHT, "held 8"))
    story.at(30, _released(8))
    assert story.at(31, job(EIGHT, "held 8"), bound=True) == {"j-0": "Admit 8"}


# 3d.10


def test_where_nodes_are_not_known_a_job_starts_at_its_recorded_size() -> None:
    alone = decide(world(job(EIGHT, "held 4", recorded="4")))
    assert [action for plan in alone.plans for action in plan.actions] == [Admit("j-0", 1)]


def test_a_job_alone_on_its_nodes_starts_unseen_at_its_smallest_size_only() -> None:
    """8: its minimum is admitted whether it fits or not."""
    made = decide(world(job(EIGHT, "held"), nodes="a:8"))
    assert [action for plan in made.plans for action in plan.actions] == [Admit("j-0", 2)]


# nothing else changes


def test_a_world_with_training_jobs_is_replayed() -> None:
    seen = world(job(EIGHT, "held 8"), LADDER, nodes="a:8x5")
    again = msgspec.json.decode(msgspec.json.encode(seen), type=World)
    assert again == seen
    assert decide(again) == decide(seen)
    assert decide(seen).plans[0].actions == (Restart("j-0", 1, Cause.START),)


def test_nothing_of_sizes_is_written_where_there_are_none() -> None:
    made = decide(world(LADDER, nodes="a:8x5"))
    written = msgspec.json.encode((world(LADDER, nodes="a:8x5"), made)).decode()
    assert '"training"' not in written
    assert '"sizes":{}' not in written.replace('"sizes":{"group0":2}', "")
    assert msgspec.json.encode(Admit("b-p1")) == b'{"action":"Admit","uid":"b-p1"}'
