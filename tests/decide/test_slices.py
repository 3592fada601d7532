"""3b.10c, the price of a decision: too much work for one call is done in several, and what comes of
it is what one call would have decided."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, note, settings
from msgspec.structs import replace

from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide, decide_anew, decide_whole
from scaler.decide.decision import Decision
from scaler.decide.memory import InstanceMemory, ServiceMemory
from scaler.decide.world import Service, World
from tests.bench.bench_worst import Genes
from tests.bench.bench_worst import world as dear_world
from tests.builders import NOW, doings, on_nodes, world
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
    """The whole decision about a world that does not change, and the number of calls."""
    for calls in range(1, MANY):
        made = decide(now, cache)
        if not made.not_weighed_yet:
            return made, calls
        assert not any(plan.actions for plan in made.plans)
        assert made.memory is now.memory
        assert made.recheck_at > now.now
    raise AssertionError("the decision does not end")


@settings(max_examples=20, deadline=None)
@given(histories())
def test_after_the_last_slice_the_decision_is_that_of_one_call(history: History) -> None:
    """10c, S5: in however many slices, the same decision."""
    cache = DecisionCache(STEP)
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
    made, calls = in_slices(at_rest, DecisionCache(STEP))
    assert calls > 3
    assert made == decide_anew(at_rest)


def test_whoever_is_not_weighed_yet_keeps_what_it_has() -> None:
    """10c: nothing is admitted, revoked or evicted in the first slices, and nothing is noted; what
    was said of a service is said on."""
    cache = DecisionCache(STEP)
    three = world(waiting(0), waiting(1), waiting(2), nodes="a:8x2")
    made = decide(three, cache)
    assert made.not_weighed_yet == 3
    assert doings(made) == {}
    whole, calls = in_slices(three, cache)
    assert calls > 3
    assert sorted(doings(whole).values()) == ["Admit", "Admit"]
    later = replace(three, memory=whole.memory, now=NOW + 1, last_bind=NOW + 1)
    made = decide(replace(later, services=(waiting(0), *three.services[1:])), cache)
    assert made.not_weighed_yet
    assert [plan.verdicts for plan in made.plans] == [plan.verdicts for plan in whole.plans]
    assert doings(made) == {}


@pytest.mark.parametrize("flood", ["first services", "nodes", "a service comes and goes"])
def test_a_flood_of_changes_starves_nobody(flood: str) -> None:
    """10c, L5: something changes before each slice, and everybody is weighed all the same."""
    services = tuple([waiting(number) for number in range(8)])
    one = world(*services, nodes="a:8x9")
    cache = DecisionCache(STEP)
    released = set[str]()
    for number in range(600):
        nodes = one.nodes
        now = replace(one, now=NOW + number / 100)
        match flood:
            case "first services":
                edited = []
                for service in services[:6]:
                    first = replace(service.instances[0], generation=number)
                    edited.append(replace(service, instances=(first,)))
                now = replace(now, services=(*edited, *services[6:]))
            case "nodes":
                assert nodes is not None
                free = (8, 1 + number % 2, *nodes.nodes[0].free[2:])
                other = replace(nodes.nodes[0], free=free[: len(nodes.nodes[0].free)])
                now = replace(now, nodes=replace(nodes, nodes=(other, *nodes.nodes[1:])))
            case _:
                now = replace(now, services=services[number % 2 :])
        made = decide(now, cache)
        one = replace(one, memory=made.memory)
        for plan in made.plans:
            if plan.actions:
                released.add(plan.key.job_id)
    assert released >= {service.key.job_id for service in services[1:]}
    assert len(released) == len(services)


def test_an_action_stands_only_while_its_instance_is_as_it_was() -> None:
    """10c, S3: what was bound, or is gone, while the decision was under way is left alone; the next
    decision is due at once."""
    before = world(waiting(0), waiting(1), waiting(2), nodes="a:8x3")
    for other in (
        on_nodes("1P", "p0 on a0", name="s00"),
        on_nodes("1P", "p1 held", name="s00"),
        replace(waiting(0), replicas=0),
    ):
        cache = DecisionCache(STEP)
        assert decide(before, cache).not_weighed_yet
        now = replace(before, services=(other, *before.services[1:]), now=NOW + 1)
        made = decide(now, cache)
        while not doings(made):
            made = decide(now, cache)
        assert [bool(plan.actions) for plan in made.plans] == [False, True, True]
        assert made.not_weighed_yet
        assert made.recheck_at > now.now
        whole = decide_whole(replace(now, memory=made.memory), cache)
        assert whole == decide_anew(replace(now, memory=made.memory))


def test_what_is_noted_meanwhile_stays() -> None:
    """10c: a refused creation is noted while a decision is under way: the decision does not take it
    back."""
    before = world(waiting(0), waiting(1), nodes="a:8x2")
    cache = DecisionCache(STEP)
    decide(before, cache)
    refused = ServiceMemory(instances={"s01-p0": InstanceMemory(refused="quota")})
    memory = replace(before.memory, services={str(before.services[1].key): refused})
    now = replace(before, memory=memory)
    made = decide(now, cache)
    while not doings(made):
        made = decide(now, cache)
    assert made.memory.services[str(now.services[1].key)] is refused


def test_a_decision_that_fails_is_not_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a failure left behind is used by nobody: the next call begins anew."""
    three = world(waiting(0), waiting(1), waiting(2), nodes="a:8x2")
    cache = DecisionCache(STEP)
    decide(three, cache)
    with monkeypatch.context() as patch:
        patch.setattr("scaler.decide.again.Neighbours", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            in_slices(three, cache)
    made, _ = in_slices(three, cache)
    assert made == decide_anew(three)


def test_no_call_does_much_more_than_its_share() -> None:
    """10c: of a world that costs several slices, none costs much more than its part."""
    dear = dear_world(Genes(services=150, instances=4, tenants=150, shapes=150, minimum=2, full=20))
    whole = calls_of(lambda: decide_whole(dear, DecisionCache()))
    cache = DecisionCache()
    calls = []
    made: list[Decision] = []
    while not made or made[-1].not_weighed_yet:
        calls.append(calls_of(lambda: made.append(decide(dear, cache))))
    assert len(calls) > 4
    assert max(calls) < whole / 3
    assert without_words(made[-1]) == without_words(decide_anew(dear))
