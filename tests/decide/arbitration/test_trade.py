"""The trade inside a service: section 3.6 of the contract."""

from __future__ import annotations

import msgspec
import pytest
from scaler.decide.arbiter import arbitrate
from scaler.decide.planner import plan

from scaler.decide.world import ArbiterMemory, MinimumMemory, Policy, Reason
from scaler.rules.rule import RuleOptions, Trade
from tests.builders import NOW
from tests.decide.arbitration import world as worlds
from tests.decide.arbitration.clauses import doings, reasons, state
from tests.decide.arbitration.view import Setting, alone, capacity, controller, homes, key
from tests.decide.arbitration.world import World, world

ALWAYS = Setting((RuleOptions(trade=Trade.ALWAYS),) * 2)
OFF = Setting((RuleOptions(trade=Trade.OFF),) * 2)
PLAIN = Setting()


def passes(w: World, s: worlds.State, setting: Setting, *times: float) -> list[dict[str, str]]:
    """What is done at these times while nothing else happens."""
    memory, done = ArbiterMemory(), []
    for time in times:
        made = controller(w, s, setting, memory, NOW + time)
        memory = made.outcome.memory
        done.append(doings(w, made.outcome))
    return done


def two_prefill() -> tuple[World, worlds.State]:
    """Two prefill instances run, the decode instance was lost with its node, and no node is free."""
    w = world((3,), "2P1D > 1P1D: p p d", "1P: p")
    return w, state(w, "0.p0 0, 0.p1 0, 1.p0 0")


def test_a_surplus_instance_goes_so_that_the_service_can_serve_but_not_too_soon() -> None:
    w, s = two_prefill()
    assert passes(w, s, PLAIN, 0, 89.9, 90) == [{}, {}, {"0.p1": "Evict"}]


def test_the_next_trade_takes_as_long_again_whatever_has_become_of_the_last() -> None:
    """The cache may not have seen yet that the evicted one is going."""
    w, s = two_prefill()
    done = passes(w, s, PLAIN, 0, 90, 91, 179.9, 180)
    assert done == [{}, {"0.p1": "Evict"}, {}, {}, {"0.p1": "Evict"}]


def test_the_evicted_one_is_on_its_way_out_and_says_why() -> None:
    w, s = two_prefill()
    memory = controller(w, s).outcome.memory
    outcome = controller(w, s, PLAIN, memory, NOW + 90).outcome
    assert reasons(w, outcome)["0.p1"] is Reason.TERMINATING
    assert outcome.tally is not None
    assert outcome.tally.evicted == 1


def test_alone_on_its_nodes_a_service_trades_as_well() -> None:
    w = world((2,), "2P1D > 1P1D: p p d")
    assert passes(w, state(w, "0.p0 0, 0.p1 0, 0.d0 u"), PLAIN, 0, 90) == [{}, {"0.p1": "Evict"}]


@pytest.mark.parametrize(("setting", "done"), [(ALWAYS, {"0.p1": "Evict"}), (OFF, {})])
def test_the_annotation_decides(setting: Setting, done: dict[str, str]) -> None:
    w, s = two_prefill()
    assert passes(w, s, setting, 0, 90) == [{}, done]


@pytest.mark.parametrize(("setting", "done"), [(PLAIN, {}), (ALWAYS, {"0.p2": "Evict"})])
def test_a_service_that_serves_trades_only_when_told_to(setting: Setting, done: dict[str, str]) -> None:
    w = world((5,), "3P2D > 2P2D > 1P1D: p p p d d", "1P: p")
    assert passes(w, state(w, "0.p0 0, 0.p1 0, 0.p2 0, 0.d0 0, 1.p0 0"), setting, 0, 90) == [{}, done]


def test_nothing_is_traded_where_it_would_not_help() -> None:
    w = world((2, 1), "2P1D > 1P1D: p@0 p@0 d@1", "1P: p@1")
    assert passes(w, state(w, "0.p0 0, 0.p1 0, 1.p0 1"), PLAIN, 0, 90, 900) == [{}, {}, {}]
    w = world((3,), "2P1D > 1P1D: p p d2", "1P: p")
    assert passes(w, state(w, "0.p0 0, 0.p1 0, 1.p0 0"), PLAIN, 0, 90, 900) == [{}, {}, {}]


def test_nothing_is_traded_while_jobs_are_missing_for_the_smallest_ratio() -> None:
    w = world((2,), "2P2D > 1P2D: p p d")
    assert passes(w, state(w, "0.p0 0, 0.p1 0, 0.d0 u"), PLAIN, 0, 90, 900) == [{}, {}, {}]


def test_several_go_one_after_the_other_where_it_takes_them_all() -> None:
    w = world((4,), "3P1D > 1P1D: p p p d2", "1P: p")
    assert passes(w, state(w, "0.p0 0, 0.p1 0, 0.p2 0, 1.p0 0"), PLAIN, 0, 90) == [{}, {"0.p2": "Evict"}]
    assert passes(w, state(w, "0.p0 0, 0.p1 0, 1.p0 0"), PLAIN, 0, 90) == [{}, {"0.p1": "Evict"}]


def test_a_free_node_counts_for_the_trade_but_not_what_is_promised_to_others() -> None:
    w = world((4,), "2P1D > 1P1D: p p d2", "1P: p")
    assert passes(w, state(w, "0.p0 0, 0.p1 0, 1.p0 0"), PLAIN, 0, 90) == [{}, {"0.p1": "Evict"}]
    w = world((4,), "2P1D > 1P1D: p p d2", "1P: p2")
    assert passes(w, state(w, "0.p0 0, 0.p1 0, 1.p0 0u"), PLAIN, 0, 90) == [{}, {}]
    assert passes(w, state(w, "0.p0 0, 0.p1 0, 1.p0 0u", up=(5,)), PLAIN, 0, 90) == [{}, {"0.p1": "Evict"}]


def test_what_fits_needs_no_trade() -> None:
    w = world((4,), "2P1D > 1P1D: p p d", "1P: p")
    s = state(w, "0.p0 0, 0.p1 0, 0.d0 u, 1.p0 0")
    assert passes(w, s, PLAIN, 0, 90, 900) == [{}, {}, {}]


def test_the_smallest_ratio_is_never_undercut() -> None:
    w = world((2,), "2P1D > 2P1D: p p d", "1P: p")
    assert "Evict" not in str(passes(w, state(w, "0.p0 0, 0.p1 0"), ALWAYS, 0, 90, 900))


def test_the_service_that_gave_one_goes_first_once_its_node_is_free() -> None:
    w = world((3,), "2P1D > 1P1D: p p d", "1P: p", "1P: p")
    setting = Setting((), (0, 0, 9))
    s = state(w, "0.p0 0, 0.p1 0, 1.p0 0")
    memory = controller(w, s, setting).outcome.memory
    made = controller(w, s, setting, memory, NOW + 90)
    assert doings(w, made.outcome) == {"0.p1": "Evict"}
    after = controller(w, made.after, setting, made.outcome.memory, NOW + 92)
    assert doings(w, after.outcome) == {"0.d0": "Admit"}


@pytest.mark.parametrize(("terminating", "evicts"), [(1, False), (0, True)])
def test_one_at_a_time_its_pods_must_be_gone_before_the_next(terminating: int, evicts: bool) -> None:
    w = world((4,), "3P1D > 1P1D: p p p d2", "1P: p")
    s = state(w, "0.p0 0, 0.p1 0, 1.p0 0")
    (seen, _), other = alone(w, s)
    jobs = list(seen.instances)
    jobs[2] = msgspec.structs.replace(jobs[2], terminating=terminating)
    seen = msgspec.structs.replace(seen, instances=tuple(jobs))
    memory = ArbiterMemory({str(key(0)): MinimumMemory(short_since=NOW - 90, evicted=jobs[2].uid)})
    pairs = [(seen, plan(seen)[0]), other]
    outcome = arbitrate(pairs, capacity(w, s), memory, now=NOW, policy=Policy(), homes=homes(w))
    assert (doings(w, outcome) == {"0.p1": "Evict"}) is evicts


def test_the_time_to_wait_is_a_setting() -> None:
    w, s = two_prefill()
    assert passes(w, s, Setting(policy=Policy(trade_after=5)), 0, 5) == [{}, {"0.p1": "Evict"}]
