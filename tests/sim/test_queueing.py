"""Requests through prefill and decode: none appears or vanishes, and more capacity never serves
fewer."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.sim.load.queueing import Capacity, Flow, step, total

SECONDS = 5.0
amounts = st.floats(0, 500)
capacities = st.builds(
    Capacity,
    prefill=st.floats(0, 40),
    places=st.floats(0, 400),
    answer=st.floats(15, 60),
    patience=st.sampled_from((20.0, 60.0, 1e9)),
    bound=st.sampled_from((0.0, 50.0, 1e9)),
)
stories = st.lists(
    st.tuples(capacities, amounts, st.sampled_from((0.0, 0.0, 0.5, 1.0))), min_size=1, max_size=30
)


def played(story: list[tuple[Capacity, float, float]]) -> list[Flow]:
    flows = [Flow()]
    for capacity, arriving, broken in story:
        flows.append(step(flows[-1], capacity, arriving, SECONDS, broken=broken))
    return flows


def steady(capacity: Capacity, rate: float, steps: int = 400) -> Flow:
    return played([(capacity, rate * SECONDS, 0.0)] * steps)[-1]


@settings(max_examples=200, deadline=None)
@given(stories)
def test_what_arrived_is_served_lost_or_still_there(
    story: list[tuple[Capacity, float, float]],
) -> None:
    for flow in played(story):
        there = flow.queue + flow.decoding
        assert flow.arrived == pytest.approx(flow.served + flow.lost + there, abs=1e-6)
        assert (
            min(
                flow.queue,
                flow.decoding,
                *(cohort.requests for cohort in (*flow.waiting, *flow.prefilled)),
            )
            >= 0
        )


@settings(max_examples=200, deadline=None)
@given(stories)
def test_nobody_who_was_served_or_lost_comes_back(
    story: list[tuple[Capacity, float, float]],
) -> None:
    flows = played(story)
    for before, after in itertools.pairwise(flows):
        assert before.served <= after.served
        assert before.lost <= after.lost


@settings(max_examples=200, deadline=None)
@given(stories)
def test_limits_are_kept(story: list[tuple[Capacity, float, float]]) -> None:
    flows = played(story)
    for (capacity, arriving, _), before, after in zip(story, flows, flows[1:], strict=False):
        assert after.decoding <= max(capacity.places, before.decoding) + 1e-9
        assert (
            after.queue
            <= capacity.bound + total(before.prefilled) + capacity.prefill * SECONDS + 1e-6
        )
        assert after.oldest <= capacity.patience
        assert after.queue <= before.queue + arriving + 1e-6


@settings(max_examples=200, deadline=None)
@given(stories, st.sampled_from(("prefill", "places", "patience")), st.floats(0, 100))
def test_more_capacity_never_serves_fewer(
    story: list[tuple[Capacity, float, float]], what: str, more: float
) -> None:
    whole = [
        (msgspec.structs.replace(capacity, answer=20.0), arriving, 0.0)
        for capacity, arriving, _ in story
    ]
    larger = [
        (msgspec.structs.replace(one, **{what: getattr(one, what) + more}), came, 0.0)
        for one, came, _ in whole
    ]
    for less, greater in zip(played(whole), played(larger), strict=True):
        assert greater.served >= less.served - 1e-6


@settings(max_examples=200, deadline=None)
@given(stories, st.integers(0, 29), st.floats(0, 100))
def test_more_requests_are_never_fewer_served_or_lost(
    story: list[tuple[Capacity, float, float]], where: int, more: float
) -> None:
    whole = [(capacity, arriving, 0.0) for capacity, arriving, _ in story]
    larger = [
        (one, came + more * (index == where), 0.0) for index, (one, came, _) in enumerate(whole)
    ]
    for less, greater in zip(played(whole), played(larger), strict=True):
        assert greater.lost >= less.lost - 1e-6


@pytest.mark.parametrize("rate", [1.0, 7.9])
def test_below_what_can_be_served_nobody_waits(rate: float) -> None:
    flow = steady(Capacity(prefill=8.0, places=128, answer=16.0), rate)
    assert (flow.queue, flow.lost) == (0, 0)
    assert flow.decoding == pytest.approx(rate * 16.0, rel=0.01)


@pytest.mark.parametrize(
    ("capacity", "where"),
    [
        (Capacity(8.0, 320, 16.0, patience=60.0), "waiting"),
        (Capacity(20.0, 128, 16.0, patience=60.0), "prefilled"),
    ],
)
def test_above_it_the_slower_stage_has_the_queue_and_the_rest_is_lost(
    capacity: Capacity, where: str
) -> None:
    flow = steady(capacity, 10.0)
    assert capacity.able == 8.0
    assert flow.served / flow.at == pytest.approx(8.0, rel=0.02)
    assert total(getattr(flow, where)) == pytest.approx(flow.queue)
    assert flow.oldest == pytest.approx(60.0, abs=SECONDS)


def test_what_breaks_off_is_lost_and_the_rest_goes_on() -> None:
    flow = steady(Capacity(8.0, 128, 16.0), 8.0)
    after = step(flow, Capacity(8.0, 64, 16.0), 0.0, SECONDS, broken=0.5)
    assert after.lost - flow.lost == pytest.approx(flow.decoding / 2)


def test_without_a_break_what_is_decoded_ends_although_there_is_no_place_any_more() -> None:
    flow = steady(Capacity(8.0, 128, 16.0), 8.0)
    for _ in range(40):
        flow = step(flow, Capacity(0.0, 0, 16.0, patience=60.0), 0.0, SECONDS)
    assert flow.decoding == pytest.approx(0.0, abs=1e-3)
    assert flow.lost == 0
