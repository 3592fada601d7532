"""A reservation that waits for expected room has a clock of its own: 3b.5a of the contract, as
whole decisions in virtual seconds. `a` needs three nodes, `b` waits to scale up on one of them."""

from __future__ import annotations

import msgspec
import pytest

from scaler.decide.decide import decide
from scaler.decide.memory import HadAttempt
from scaler.decide.world import Service
from scaler.reasons.reasons import Reason
from tests.builders import NOW, Story, doings, nodes_for, on_nodes, reasons, world

YEAR = 31_536_000
WAITS = on_nodes("3P", "p0 held, p1 held, p2 held", name="a", age=9)
GROWS = on_nodes("2P > 1P", "p0 on a3, p1 held", name="b")
GROWN = on_nodes("2P > 1P", "p0 on a3, p1 on a0", name="b")
ALL_OF_A = {"a-p0": "Admit", "a-p1": "Admit", "a-p2": "Admit"}
NODES = "a:8x4"
A_YEAR_OF_GRACE = f"{NODES}, a2 ending 8 {YEAR}"


def waiting(nodes: str = A_YEAR_OF_GRACE) -> Story:
    """Since 0 s two nodes are free, and the room of a third is expected."""
    story = Story(nodes)
    assert story.at(0, WAITS, GROWS) == {}
    assert story.reasons["a-p0"] == "WaitingForRoom"
    return story


def test_a_pod_with_a_grace_period_of_a_year_keeps_no_free_nodes_from_others() -> None:
    """3b.5a: `due_back` from when it began to wait; then it reserves nothing for one backoff."""
    story = waiting()
    assert story.recheck_in == 300
    assert story.at(299, WAITS, GROWS) == {}
    assert story.at(300, WAITS, GROWS) == {"b-p1": "Admit"}
    assert story.reasons["a-p0"] == "MinimumDoesNotFit"
    assert story.recheck_in == 330
    (words,) = story.made.plans[0].verdicts[0].about
    assert words.startswith("the expected room did not become free in time; it may reserve room")
    assert words.endswith("again at 13:52:10 UTC")


def test_it_waits_again_after_the_backoff_and_the_next_backoff_is_longer() -> None:
    story = waiting()
    nobody = on_nodes("1P", "p0 on a3", name="b")
    pauses = []
    time = 0.0
    for _ in range(6):
        assert story.at(time, WAITS, nobody) == {}
        assert story.at(time + 300, WAITS, nobody) == {}
        pauses.append(story.remembered(WAITS).backoff_until - (NOW + time + 300))
        time += 300 + pauses[-1]
    assert pauses == [30, 60, 120, 240, 300, 300]


def test_pods_that_end_one_after_another_keep_no_free_nodes_from_others() -> None:
    """3b.5a: whoever's pods end next."""
    story = waiting(f"{NODES}, a2 ending 8 60")
    for time, node in ((60, "a1"), (120, "a0"), (180, "a2"), (240, "a1")):
        assert story.at(time, WAITS, GROWS, nodes=f"{NODES}, {node} ending 8 {time + 60}") == {}
    last = f"{NODES}, a0 ending 8 360"
    assert story.at(300, WAITS, GROWS, nodes=last) == {"b-p1": "Admit"}


def test_short_times_on_free_room_do_not_set_the_clock_back() -> None:
    """3b.5a: `due_back` from when it began to wait."""
    with_scheduler = on_nodes("3P", "p0 unbound, p1 unbound, p2 unbound", name="a", age=9)
    revoked = dict.fromkeys(ALL_OF_A, "Revoke")
    story = waiting()
    assert story.at(100, WAITS, GROWS, nodes=NODES) == ALL_OF_A
    again = f"{NODES}, a1 ending 8 {YEAR}"
    assert story.at(120, with_scheduler, GROWS, nodes=again) == revoked
    assert story.at(299, WAITS, GROWS, nodes=again) == {}
    assert story.at(300, WAITS, GROWS, nodes=again) == {"b-p1": "Admit"}


def test_its_attempt_goes_on_where_it_stopped_when_it_waits_in_between() -> None:
    """3b.5a: so what comes and goes every few seconds does not keep the attempt from its end."""
    with_scheduler = on_nodes("3P", "p0 unbound, p1 unbound, p2 unbound", name="a", age=9)
    story = waiting()
    assert story.at(100, WAITS, GROWS, nodes=NODES, bound=True) == ALL_OF_A
    again = f"{NODES}, a1 ending 8 {YEAR}"
    assert set(story.at(120, with_scheduler, GROWS, nodes=again, bound=True)) == set(ALL_OF_A)
    assert story.at(130, WAITS, GROWS, nodes=NODES) == ALL_OF_A
    assert story.recheck_in == 140
    assert story.at(139, with_scheduler, GROWS, nodes=NODES, bound=True) == {}
    assert set(story.at(140, with_scheduler, GROWS, nodes=NODES)) >= set(ALL_OF_A)
    assert story.reasons["a-p0"] == "MinimumNotScheduled"


def test_progress_and_an_attempt_of_its_own_set_the_clock_back() -> None:
    """3b.5b: progress sets it back."""
    story = waiting()
    assert story.at(100, WAITS, GROWS, nodes=NODES) == ALL_OF_A
    bound = on_nodes("3P", "p0 on a0, p1 unbound, p2 unbound", name="a", age=9)
    assert story.at(110, bound, GROWS, nodes=NODES, bound=True) == {}
    again = f"{NODES}, a1 ending 8 {YEAR}"
    assert set(story.at(120, bound, GROWS, nodes=again)) == {"a-p1", "a-p2"}
    held = on_nodes("3P", "p0 on a0, p1 held, p2 held", name="a", age=9)
    assert story.at(300, held, GROWS, nodes=again) == {}
    assert story.at(420, held, GROWS, nodes=again) == {"b-p1": "Admit"}


def test_room_that_becomes_free_in_time_is_used_and_after_it_as_well() -> None:
    assert waiting().at(299, WAITS, GROWS, nodes=NODES) == ALL_OF_A
    assert waiting().at(300, WAITS, GROWS, nodes=NODES) == ALL_OF_A, "what is free needs no clock"


def test_where_nothing_is_expected_any_more_it_has_no_backoff() -> None:
    """3b, words: a node that is away counts until `due_back` after that was first seen."""
    story = waiting(f"{NODES}, a2 lost 0")
    assert story.at(300, WAITS, GROWS) == {"b-p1": "Admit"}
    assert story.reasons["a-p0"] == "MinimumDoesNotFit"
    assert story.remembered(WAITS).failures == 0


def test_a_bind_takes_that_backoff_not_back() -> None:
    """3b.5h: a clock that reached `minimum_timeout` without any bind. This one awaited none."""
    story = waiting()
    assert story.at(300, WAITS, GROWS) == {"b-p1": "Admit"}
    freed = f"{NODES}, a0 used 8, a0 ending 0 {YEAR}, a2 ending 8 {YEAR}"
    assert story.at(301, WAITS, GROWN, nodes=freed, bound=True) == {}
    assert story.remembered(WAITS).backoff_until == NOW + 330


def test_a_node_that_becomes_usable_ends_that_backoff() -> None:
    """3b.5f."""
    story = waiting()
    assert story.at(300, WAITS, GROWN, nodes=A_YEAR_OF_GRACE) == {}
    new = f"a:8x6, a2 ending 8 {YEAR}, a4 since -305, a5 since -305"
    assert story.at(306, WAITS, GROWN, nodes=new) == ALL_OF_A


# what it loses while it waits

SERVES = on_nodes("3P", "p0 on a0, p1 on a1, p2 on a2", name="a", age=9)
LOST_ONE = on_nodes("3P", "p0 held, p1 on a1, p2 on a2", name="a", age=9)
LOST_TWO = on_nodes("3P", "p0 held, p1 held, p2 on a2", name="a", age=9)


def test_what_it_loses_while_it_waits_is_kept_as_long_as_what_it_lost_first() -> None:
    """3b.5a, L10: a0 is away from 10 s to 250 s, a1 from 200 s to 480 s: no scale-up gets a0."""
    story = Story(NODES)
    assert story.at(0, SERVES, GROWS, bound=True) == {}
    assert story.at(10, LOST_ONE, GROWS, nodes=f"{NODES}, a0 lost -10") == {}
    assert story.remembered(SERVES).expects_until == NOW + 310
    assert story.at(200, LOST_TWO, GROWS, nodes=f"{NODES}, a0 lost -10, a1 lost -200") == {}
    assert story.remembered(SERVES).expects_until == NOW + 500
    assert story.at(250, LOST_TWO, GROWS, nodes=f"{NODES}, a1 lost -200") == {}
    assert story.at(310, LOST_TWO, GROWS, nodes=f"{NODES}, a1 lost -200") == {}
    assert story.at(480, LOST_TWO, GROWS, nodes=NODES) == {"a-p0": "Admit", "a-p1": "Admit"}


def test_of_two_lost_nodes_one_is_kept_until_the_other_has_been_away_for_due_back() -> None:
    """L10, as long as L5 allows; 3b.3d: then its loss blocks nobody."""
    story = Story(NODES)
    assert story.at(0, SERVES, GROWS, bound=True) == {}
    both = f"{NODES}, a0 lost -10, a1 lost -10"
    assert story.at(10, LOST_TWO, GROWS, nodes=both) == {}
    one = f"{NODES}, a1 lost -10"
    assert story.at(60, LOST_TWO, GROWS, nodes=one) == {}
    assert story.at(309, LOST_TWO, GROWS, nodes=one) == {}
    assert story.at(310, LOST_TWO, GROWS, nodes=one) == {"b-p1": "Admit"}


def test_each_number_of_instances_that_it_misses_sets_the_clock_back_once() -> None:
    """3b.5a: what comes and goes does not: it holds up others for a bounded time."""
    story = Story(NODES)
    assert story.at(0, SERVES, GROWS, bound=True) == {}
    assert story.at(10, LOST_ONE, GROWS, nodes=f"{NODES}, a0 lost -10") == {}
    both = f"{NODES}, a0 lost -10, a1 lost -100"
    assert story.at(100, LOST_TWO, GROWS, nodes=both) == {}
    for time in (150, 250, 350):
        again = f"{NODES}, a0 lost -{time}"
        assert story.at(time, LOST_ONE, GROWS, nodes=again) == {}
        assert story.at(time + 20, LOST_TWO, GROWS, nodes=f"{again}, a1 lost -{time}") == {}
        assert story.remembered(SERVES).expects_until == NOW + 400
    freed = f"{NODES}, a1 lost -350"
    assert story.at(399, LOST_TWO, GROWS, nodes=freed) == {}
    assert story.at(400, LOST_TWO, GROWS, nodes=freed) == {"b-p1": "Admit"}


def test_what_it_loses_one_by_one_is_kept_for_start_timeout_in_all() -> None:
    """3b.5a, L5."""
    names = [f"p{number}" for number in range(9)]
    story = Story("a:8x10")
    neighbour = on_nodes("1P", "p0 on a9", name="b")

    def without(number: int) -> Service:
        found = [f"{one} held" for one in names[:number]]
        found += [f"{one} on a{one[1:]}" for one in names[number:]]
        return on_nodes("9P", ", ".join(found), name="a", age=9)

    story.at(0, without(0), neighbour, bound=True)
    for number in range(1, 9):
        time = number * 250
        away = ", ".join(f"a{one} lost -{time}" for one in range(number))
        until = min(time + 300, 250 + 1800)
        assert story.at(time, without(number), neighbour, nodes=f"a:8x10, {away}") == {}
        assert story.remembered(SERVES).expects_until == NOW + until


def test_a_service_that_never_served_waits_no_longer_for_more() -> None:
    """3b.5a: nothing is kept for it."""
    story = Story(NODES)
    in_part = on_nodes("3P", "p0 held, p1 on a1, p2 on a2", name="a", age=9)
    assert story.at(0, in_part, GROWS, nodes=f"{NODES}, a0 lost 0", bound=True) == {}
    assert story.at(200, LOST_TWO, GROWS, nodes=f"{NODES}, a1 lost -200") == {}
    assert story.remembered(SERVES).expects_until == NOW + 300


# victims, and its own pods

HIGHER = on_nodes("2P", "p0 held, p1 held", name="a", priority=1, age=9)


def victim(ends_by: float | None) -> Service:
    """The neighbour, which keeps one instance of two; the other ends, if it ends."""
    found = on_nodes("2P > 1P", "p0 on a2, p1 ends", name="b")
    if ends_by is None:
        return on_nodes("2P > 1P", "p0 on a2, p1 on a1", name="b")
    last = msgspec.structs.replace(found.instances[1], ends_by=NOW + ends_by)
    return msgspec.structs.replace(found, instances=(found.instances[0], last))


OTHER = on_nodes("2P > 1P", "p0 on a3, p1 held", name="c")


@pytest.mark.parametrize(
    ("grace", "over"), [(30, 330), (900, 1200), (YEAR, 1800)], ids=["short", "long", "a year"]
)
def test_it_waits_for_victims_until_due_back_after_their_grace_period(
    grace: int, over: int
) -> None:
    """3b.5a: at most `start_timeout`. Its instances have had their attempt where it waited for
    victims."""
    story = Story("a:8x4")
    assert story.at(0, HIGHER, victim(None), OTHER) == {"b-p1": "Evict"}
    ending = f"a:8x4, a1 ending 8 {YEAR}"  # it does not end for others either
    assert story.at(1, HIGHER, victim(grace), OTHER, nodes=ending) == {}
    assert story.remembered(HIGHER).expects_until == NOW + over
    assert story.at(over - 1, HIGHER, victim(grace), OTHER, nodes=ending) == {}
    assert had_attempt(story) == set()
    assert story.at(over, HIGHER, victim(grace), OTHER, nodes=ending) == {"c-p1": "Admit"}
    assert had_attempt(story) == {"a-p0", "a-p1"}


def had_attempt(story: Story) -> set[str]:
    memory = story.remembered(HIGHER)
    return {uid for uid, one in memory.instances.items() if one.had_attempt is not HadAttempt.NO}


def test_who_waited_for_others_pods_has_not_had_its_attempt() -> None:
    """3b.5a: its instances have had their attempt only where it waited for victims."""
    story = waiting()
    story.at(300, WAITS, GROWS)
    assert not any(one.had_its_attempt for one in story.remembered(WAITS).instances.values())


def test_it_waits_for_its_own_pods_until_due_back_after_their_grace_period() -> None:
    ends = on_nodes("2P", "p0 ends, p1 held", name="a", age=9)
    first = msgspec.structs.replace(ends.instances[0], ends_by=NOW + 600)
    own = msgspec.structs.replace(ends, instances=(first, ends.instances[1]))
    story = Story("a:8x2, a0 ending 0 600")
    other = on_nodes("1P", "p0 held", name="b")
    assert story.at(0, own, other) == {}
    assert story.reasons["a-p1"] == "WaitingForRoom"
    assert story.remembered(own).expects_until == NOW + 900


def test_a_service_that_serves_has_forgotten_that_it_waited() -> None:
    story = waiting()
    serves = on_nodes("3P", "p0 on a0, p1 on a1, p2 on a2", name="a")
    story.at(10, serves, GROWS, nodes=NODES, bound=True)
    assert story.remembered(serves).expects_until == 0.0


def test_a_node_that_was_removed_is_not_expected_back() -> None:
    """3b, words: "away: of nodes that are NotReady or cordoned". While the node is not Ready its
    room is expected, and the scale-up waits."""
    lost = nodes_for(f"{NODES}, a2 lost 10", [GROWS])
    assert doings(decide(world(WAITS, GROWS, nodes=lost))) == {}
    others = tuple([node for node in lost.nodes if node.name != "a2"])
    removed = msgspec.structs.replace(lost, nodes=others)
    made = decide(world(WAITS, GROWS, nodes=removed))
    assert doings(made) == {"b-p1": "Admit"}
    assert reasons(made)["a-p0"] is Reason.MINIMUM_DOES_NOT_FIT
