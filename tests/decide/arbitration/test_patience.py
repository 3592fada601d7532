"""What the arbiter does when the scheduler does not agree with it, and when time passes: virtual seconds throughout."""

from __future__ import annotations

import pytest
from scaler.decide.arbiter import Arbitration, arbitrate
from scaler.decide.minimums.patience import LONGEST_PAUSE
from scaler.decide.planner import plan

from scaler.decide.nodes import Capacity, NodeClass, PodRequest, Room
from scaler.decide.world import ArbiterMemory, MinimumMemory, Policy, Reason, ServiceKey, Snapshot, State
from scaler.rules.rule import RuleOptions
from tests.builders import NOW, instance, rule
from tests.decide.arbitration import world as worlds
from tests.decide.arbitration.clauses import decide, doings, reasons, state
from tests.decide.arbitration.view import PLAIN, Setting, controller, key
from tests.decide.arbitration.world import World, world

SMALL = "1P1D: p d"
LADDER = "2P1D > 1P1D: p p d"


class Story:
    """Passes one after the other over a world in which the scheduler binds nothing by itself."""

    def __init__(self, w: World, s: worlds.State, setting: Setting = PLAIN) -> None:
        self.w, self.s, self.setting = w, s, setting
        self.memory = ArbiterMemory()
        self.time = 0.0
        self.outcome: Arbitration = self.at(0.0)

    def at(self, time: float, s: worlds.State | None = None) -> Arbitration:
        """One pass at this time, which takes effect; of another world if one is given."""
        self.time = time
        made = controller(self.w, s or self.s, self.setting, self.memory, NOW + time)
        self.memory, self.s, self.outcome = made.outcome.memory, made.after, made.outcome
        return made.outcome

    def did(self, time: float, s: worlds.State | None = None) -> dict[str, str]:
        return doings(self.w, self.at(time, s))

    def remembered(self, service: int) -> MinimumMemory:
        return self.memory.minimums.get(str(key(service)), MinimumMemory())


def never_bound() -> Story:
    """Two services, room for one: the scheduler binds nothing of the first."""
    w = world((3,), SMALL, SMALL)
    return Story(w, state(w, ""))


def test_a_minimum_that_is_not_bound_in_time_gives_back_everything_and_lets_others_go_first() -> None:
    story = never_bound()
    assert story.did(29.9) == {}
    assert story.did(30) == {"0.p0": "Revoke", "0.d0": "Revoke"}
    assert story.did(30.1) == {"1.p0": "Admit", "1.d0": "Admit"}
    assert reasons(story.w, story.outcome)["0.p0"] is Reason.MINIMUM_DOES_NOT_FIT


def test_the_controller_is_told_when_to_look_again() -> None:
    story = never_bound()
    assert story.outcome.recheck_at == NOW + 30
    story.at(30)
    story.at(30.1)
    assert story.outcome.recheck_at == NOW + 60


def test_it_goes_to_the_end_of_the_order() -> None:
    story = never_bound()
    story.at(30)
    story.at(30.1)
    both_free = state(story.w, "")
    assert story.did(61, both_free) == {"1.p0": "Admit", "1.d0": "Admit"}


def test_what_is_taken_back_because_it_no_longer_fits_keeps_its_place() -> None:
    story = never_bound()
    assert story.did(1, state(story.w, "0.p0 u, 0.d0 u", up=(1,), down=(2,))) == {"0.p0": "Revoke", "0.d0": "Revoke"}
    assert story.did(2, state(story.w, "")) == {"0.p0": "Admit", "0.d0": "Admit"}


def test_the_pauses_grow_and_have_an_end() -> None:
    w = world((2,), SMALL, SMALL)
    story = Story(w, state(w, "1.p0 0, 1.d0 0", up=(4,)))
    pauses, time = [], 0.0
    for _ in range(7):
        time += 30
        assert set(story.did(time).values()) == {"Revoke"}
        pauses.append(story.remembered(0).retry_at - (NOW + time))
        assert story.did(time + pauses[-1] - 0.1) == {}
        time += pauses[-1]
        assert set(story.did(time).values()) == {"Admit"}
    assert pauses == [30, 60, 120, 240, 300, 300, 300]
    assert pauses[-1] == LONGEST_PAUSE


def test_a_minimum_with_a_bound_pod_is_left_alone_while_the_rest_fits() -> None:
    w = world((4,), SMALL, SMALL)
    story = Story(w, state(w, "0.p0 0, 0.d0 u, 1.p0 0, 1.d0 0"))
    assert story.did(1000) == {}


@pytest.mark.parametrize("between", ["0.p0 0, 0.d0 0", "0.p0 0, 0.d0 u", "paused"])
def test_the_clock_starts_anew_after_a_minimum_was_bound_or_paused(between: str) -> None:
    story = never_bound()
    if between == "paused":
        story.setting = Setting((RuleOptions(paused=True), RuleOptions()))
    story.at(10, None if between == "paused" else state(story.w, between))
    story.setting = PLAIN
    assert story.did(40, state(story.w, "0.p0 u, 0.d0 u")) == {}
    assert story.did(70, state(story.w, "0.p0 u, 0.d0 u")) == {"0.p0": "Revoke", "0.d0": "Revoke"}


def test_the_clock_does_not_run_while_nothing_is_in_the_schedulers_hands() -> None:
    w = world((1, 1), "1P: p", "1P: p@0")
    story = Story(w, state(w, ""))
    assert reasons(w, story.outcome)["0.p0"] is Reason.YIELDS_TO_MINIMUM
    assert story.did(29, state(w, "1.p0 0")) == {"0.p0": "Admit"}
    assert story.did(58) == {}
    assert story.did(59) == {"0.p0": "Revoke"}


def test_a_pod_that_is_bound_at_the_last_moment_saves_its_minimum() -> None:
    story = never_bound()
    assert story.did(31, state(story.w, "0.p0 0, 0.d0 u")) == {}
    assert story.did(1000, state(story.w, "0.p0 0, 0.d0 u")) == {}


def test_a_minimum_alone_on_its_nodes_waits_for_ever() -> None:
    w = world((2,), SMALL)
    story = Story(w, state(w, ""))
    assert story.did(1000) == {}


def test_after_the_second_failure_a_minimum_is_reported_and_blocks_nobody() -> None:
    w = world((3,), "1P: p2", LADDER)
    story = Story(w, state(w, "1.p0 0, 1.d0 0", up=(4,)))
    assert reasons(w, story.outcome)["1.p1"] is Reason.YIELDS_TO_MINIMUM
    story.at(30)
    assert reasons(w, story.at(31))["1.p1"] is Reason.YIELDS_TO_MINIMUM
    assert story.did(60) == {"0.p0": "Admit"}
    outcome = story.at(90)
    assert reasons(w, outcome)["0.p0"] is Reason.MINIMUM_NOT_SCHEDULED
    assert outcome.tally is not None
    assert outcome.tally.minimums_not_scheduled == 1
    assert story.did(91) == {"1.p1": "Admit"}


def muted() -> Story:
    """A minimum that failed twice, on three nodes of which it needs two; another service that serves on a fourth."""
    w = world((4,), "1P: p2", "2P > 1P: p p")
    story = Story(w, state(w, "1.p0 0"))
    for time in (30, 60, 90):
        story.at(time)
    assert story.remembered(0).failures == 2
    return story


def test_it_still_tries_again() -> None:
    story = muted()
    assert story.did(150, state(story.w, "1.p0 0")) == {"0.p0": "Admit", "1.p1": "Admit"}


def test_a_change_on_its_nodes_starts_the_count_anew() -> None:
    story = muted()
    assert story.did(95, state(story.w, "1.p0 0", up=(5,))) == {"0.p0": "Admit"}
    assert story.remembered(0).failures == 0


def test_more_room_ends_the_pause() -> None:
    story = muted()
    assert story.did(95, state(story.w, ""))["0.p0"] == "Admit"


def test_less_room_starts_the_count_anew_but_does_not_end_the_pause() -> None:
    story = muted()
    assert "0.p0" not in story.did(95, state(story.w, "1.p0 0, 1.p1 0"))
    assert story.remembered(0).failures == 0


def test_the_same_room_changes_nothing() -> None:
    story = muted()
    assert story.did(95, state(story.w, "1.p0 0")) == {"1.p1": "Admit"}
    assert story.remembered(0).failures == 2


def test_everything_is_forgotten_once_it_serves() -> None:
    story = muted()
    story.at(95, state(story.w, "0.p0 00, 1.p0 0"))
    assert story.remembered(0) == MinimumMemory()
    w = world((4,), "2P > 1P: p p", "1P: p2")
    failed = ArbiterMemory({str(key(0)): MinimumMemory(failures=2, failed_at=NOW - 9, retry_at=NOW + 9)})
    assert decide(w, state(w, "0.p0 0"), PLAIN, failed).memory.minimums.keys() == {str(key(1))}, "it wants to climb"


def test_the_settings_are_those_of_the_policy() -> None:
    w = world((3,), SMALL, SMALL)
    story = Story(w, state(w, ""), Setting(policy=Policy(minimum_timeout=5)))
    assert story.did(5) == {"0.p0": "Revoke", "0.d0": "Revoke"}


# Probes: what does not fit as far as can be seen, though there is room enough in all


class Scattered:
    """Two services with one job of 8 devices each; nodes with so many free each. Nothing is ever bound."""

    def __init__(self, *free: int) -> None:
        kind = NodeClass()
        rooms = (Room(kind, (8, 110), (npus, 110), (0, 0)) for npus in free)
        self.capacity = Capacity(("x/npu", "pods"), tuple(rooms))
        self.memory = ArbiterMemory()
        self.admitted: set[str] = set()

    def snapshot(self, name: str) -> Snapshot:
        needs = ((PodRequest((("x/npu", 8), ("pods", 1))), 1),)
        state = State.ADMITTED if name in self.admitted else State.HELD
        job = instance("p0", state, uid=name, expected=1, pods=int(name in self.admitted), needs=needs, unbound=needs)
        return Snapshot(ServiceKey("default", "rule", name), NOW, (job,), rule("1P"))

    def did(self, time: float) -> dict[str, str]:
        pairs = [(seen, plan(seen)[0]) for seen in map(self.snapshot, ("a", "b"))]
        outcome = arbitrate(pairs, self.capacity, self.memory, now=NOW + time, policy=Policy())
        self.memory = outcome.memory
        done = {action.uid: type(action).__name__ for made in outcome.plans for action in made.actions}
        self.admitted |= {uid for uid, doing in done.items() if doing == "Admit"}
        self.admitted -= {uid for uid, doing in done.items() if doing == "Revoke"}
        return done


def test_what_does_not_fit_is_tried_once_patience_ends_one_at_a_time_and_not_for_long() -> None:
    nodes = Scattered(4, 4, 4, 4)
    assert [nodes.did(time) for time in (0, 59.9)] == [{}, {}]
    assert nodes.did(60) == {"a": "Admit"}
    assert nodes.did(89.9) == {}, "one probe at a time"
    assert nodes.did(90) == {"a": "Revoke", "b": "Admit"}
    assert nodes.did(120) == {"b": "Revoke"}


def test_each_probe_in_vain_makes_the_next_one_rarer() -> None:
    nodes = Scattered(4, 4)
    for time in (0, 60, 90, 120):
        nodes.did(time)
    assert nodes.did(209.9) == {}
    assert nodes.did(210) == {"a": "Admit"}


def test_nothing_is_tried_where_not_even_the_sum_would_do() -> None:
    nodes = Scattered(4, 3)
    assert [nodes.did(time) for time in (0, 100, 10_000)] == [{}, {}, {}]
