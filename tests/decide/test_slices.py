"""3b.10c, the price of a decision: too much work for one call is done in several, and what comes of
it is what one call would have decided."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, note, settings
from msgspec.structs import replace

from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide, decide_anew
from scaler.decide.decision import Decision
from scaler.decide.world import Service, World
from tests.bench.bench_worst import Genes
from tests.bench.bench_worst import world as dear_world
from tests.builders import on_nodes, world
from tests.decide.test_decision_cache import History, after, histories, without_words
from tests.steps import calls_of

STEP = 1
"""Units of work after which each call stops: after its first step."""
MANY = 10_000
"""Calls in which every decision about these worlds ends."""


def waiting(number: int) -> Service:
    """A service that needs one node to serve."""
    return on_nodes("1P", "p0 held", name=f"s{number:02}")


def in_slices(now: World, cache: DecisionCache) -> tuple[Decision, int]:
    """The decision, and the number of calls."""
    under_way = cache.begin(now, STEP)
    for calls in range(1, MANY):
        made = under_way.go_on()
        if made is not None:
            return made, calls
        assert under_way.waiting
    raise AssertionError("the decision does not end")


@settings(max_examples=20, deadline=None)
@given(histories())
def test_after_the_last_slice_the_decision_is_that_of_one_call(history: History) -> None:
    """10c, S5: in however many slices, the same decision."""
    cache = DecisionCache()
    now = history.sources[0]
    for change in history.changes:
        made, calls = in_slices(now, cache)
        note(f"{change}, {calls} calls")
        alone = decide(now)
        assert msgspec.json.encode(made) == msgspec.json.encode(alone)
        assert without_words(made) == without_words(decide_anew(now))
        now = after(replace(now, memory=made.memory), change, history.sources)


def test_services_at_rest_are_looked_at_in_slices_too() -> None:
    """10c: nothing is to be weighed, and the decision is not whole before each has its plan."""
    three = [on_nodes("1P", f"p0 on a{number}", name=f"s{number}") for number in range(3)]
    at_rest = world(*three, nodes="a:8x3")
    made, calls = in_slices(at_rest, DecisionCache())
    assert calls > 3
    assert made == decide_anew(at_rest)


def test_who_is_not_weighed_yet_is_counted() -> None:
    """10c: nobody is decided about before the last slice."""
    three = world(waiting(0), waiting(1), waiting(2), nodes="a:8x2")
    under_way = DecisionCache().begin(three, STEP)
    assert under_way.go_on() is None
    assert under_way.waiting == 3


def test_a_decision_that_is_given_up_leaves_nothing_behind() -> None:
    """However far it had come, the next one of the same cache is right."""
    placed = [on_nodes("1P", f"p0 on a{number}", name=f"s0{number}") for number in range(3)]
    at_rest = world(*placed, nodes="a:8x3")
    held = world(waiting(0), waiting(1), waiting(2), nodes="a:8x3")
    for calls in range(30):
        cache = DecisionCache()
        memory = decide(at_rest, cache).memory
        memory = decide(replace(at_rest, memory=memory), cache).memory
        later = replace(held, memory=memory)
        under_way = cache.begin(later, STEP)
        for _ in range(calls):
            if under_way.go_on() is not None:
                break
        assert decide(later, cache) == decide_anew(later)


def test_a_decision_that_fails_is_not_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a failure left behind is used by nobody: the next decision begins anew."""
    three = world(waiting(0), waiting(1), waiting(2), nodes="a:8x2")
    cache = DecisionCache()
    decide(replace(three, services=three.services[:2]), cache)
    with monkeypatch.context() as patch:
        patch.setattr("scaler.decide.again.Neighbours", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            in_slices(three, cache)
    made, _ = in_slices(three, cache)
    assert made == decide_anew(three)


def test_no_call_does_much_more_than_its_share() -> None:
    """10c: of a world that costs several slices, none costs much more than its part."""
    dear = dear_world(Genes(services=150, instances=4, tenants=150, shapes=150, minimum=2, full=20))
    whole = calls_of(lambda: decide(dear, DecisionCache()))
    under_way = DecisionCache().begin(dear)
    calls = []
    made: list[Decision | None] = [None]
    while made[-1] is None:
        calls.append(calls_of(lambda: made.append(under_way.go_on())))
    assert len(calls) > 4
    assert max(calls) < whole / 3
    assert without_words(made[-1]) == without_words(decide_anew(dear))
