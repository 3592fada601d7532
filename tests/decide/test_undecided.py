"""A fault of ours about one service costs that service only, wherever in a decision it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from scaler.decide.again import PAUSE, DecisionCache, why_not_decided
from scaler.decide.decide import decide
from scaler.decide.decision import Decision
from scaler.decide.invariants import violations
from scaler.decide.plan import plan_of
from scaler.decide.service.demand import demand_of
from scaler.decide.sharing.arbitration import Arbitration
from scaler.decide.sharing.limits import decide_alone
from scaler.decide.work import Steps
from scaler.decide.world import Service, ServiceKey, World
from tests.builders import doings, on_nodes, service, world

NODES = "a:8x4 b:8x3"


def bad(key: ServiceKey) -> bool:
    return "bad" in str(key)


def fails_at(call: Callable[..., Any], key_of: Callable[..., ServiceKey]) -> Callable[..., Any]:
    def wrapped(*args: Any) -> Any:
        if bad(key_of(*args)):
            raise OverflowError("too many digits")
        return call(*args)

    return wrapped


def in_a_look(patch: pytest.MonkeyPatch) -> None:
    """The fault is in the instances: the demand for nothing, which takes the place of the other,
    has none."""
    nobody = ServiceKey("", "", "")
    failing = fails_at(demand_of, lambda service, *_: service.key if service.instances else nobody)
    patch.setattr("scaler.decide.again.demand_of", failing)


def in_the_plan(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "scaler.decide.again.plan_of",
        fails_at(plan_of, lambda draft, *_: draft.demand.service.key),
    )


def in_the_weighing(patch: pytest.MonkeyPatch) -> None:
    run = Arbitration.run

    def wrapped(self: Arbitration) -> Steps[None]:
        yield from run(self)
        if any(bad(draft.demand.service.key) for draft in self.part.drafts):
            raise RecursionError("too deep")

    patch.setattr(Arbitration, "run", wrapped)


def undecided(made: Decision) -> set[str]:
    return {plan.key.job_id for plan in made.plans if why_not_decided(plan)}


def instead(seen: World, other: Service) -> World:
    """The world with this service in place of the one with its key."""
    services = tuple(other if each.key == other.key else each for each in seen.services)
    return msgspec.structs.replace(seen, services=services)


def five() -> World:
    """Four that share the nodes a, of which b is at fault, and one on the nodes b."""
    names = ("a", "bad", "c", "d")
    return world(
        *(on_nodes("1P", "p0@a held", name=name) for name in names),
        on_nodes("1P", "p0@b held", name="e"),
        nodes=NODES,
    )


@pytest.mark.parametrize("fault", [in_a_look, in_the_plan, in_the_weighing])
def test_all_others_are_decided_about(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[..., None]
) -> None:
    fault(monkeypatch)
    made = decide(five())
    assert undecided(made) == {"bad"}
    assert doings(made) == {"a-p0": "Admit", "c-p0": "Admit", "d-p0": "Admit", "e-p0": "Admit"}
    (plan,) = [plan for plan in made.plans if plan.key.job_id == "bad"]
    assert (plan.actions, plan.verdicts) == ((), ())
    assert "Error: too" in why_not_decided(plan)
    (words,) = violations(five(), made)
    assert words == f"L2: {plan.key} has no verdicts: {why_not_decided(plan)}"


@pytest.mark.parametrize("fault", [in_a_look, in_the_plan, in_the_weighing])
def test_it_is_tried_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[..., None]
) -> None:
    cache = DecisionCache()
    start = five()
    with monkeypatch.context() as patch:
        fault(patch)
        made = decide(start, cache)
        assert start.now < made.recheck_at <= start.now + PAUSE
    soon = decide(msgspec.structs.replace(start, memory=made.memory, now=start.now + 1), cache)
    assert undecided(soon) == {"bad"}
    later = decide(msgspec.structs.replace(start, memory=soon.memory, now=start.now + PAUSE), cache)
    assert undecided(later) == set()


def test_services_that_decide_alone_are_apart_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    two = [
        msgspec.structs.replace(service("1P", "p0"), key=ServiceKey("ns", "r", name))
        for name in ("bad", "good")
    ]
    cache = DecisionCache()
    start = world(*two)
    with monkeypatch.context() as patch:
        failing = fails_at(decide_alone, lambda demand, *_: demand.service.key)
        patch.setattr("scaler.decide.again.decide_alone", failing)
        made = decide(start, cache)
    assert undecided(made) == {"bad"}
    assert [len(plan.actions) for plan in made.plans] == [0, 1]
    assert made.recheck_at == start.now + PAUSE
    later = decide(msgspec.structs.replace(start, memory=made.memory, now=made.recheck_at), cache)
    assert [len(plan.actions) for plan in later.plans] == [1, 1]


@pytest.mark.parametrize("fault", [in_a_look, in_the_plan, in_the_weighing])
@pytest.mark.parametrize(
    "mended",
    [
        on_nodes("1P", "p0@a held, p1@a held", name="bad"),
        on_nodes("2P > 1P", "p0@a held", name="bad"),
        on_nodes("1P", "p0@a held", name="bad", replicas=0),
    ],
    ids=["another job", "another rule", "fewer replicas"],
)
def test_what_people_change_is_taken_up_at_once(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[..., None], mended: Service
) -> None:
    cache = DecisionCache()
    start = five()
    with monkeypatch.context() as patch:
        fault(patch)
        made = decide(start, cache)
    changed = decide(msgspec.structs.replace(instead(start, mended), memory=made.memory), cache)
    assert undecided(changed) == set()


def test_who_changes_by_itself_is_looked_at_again_at_once_and_weighed_again_after_the_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for fault, still in (
        (in_a_look, set[str]()),
        (in_the_plan, {"bad"}),
        (in_the_weighing, {"bad"}),
    ):
        cache = DecisionCache()
        start = five()
        with monkeypatch.context() as patch:
            fault(patch)
            made = decide(start, cache)
        bound = on_nodes("1P", "p0@a starts on a0", name="bad")
        changed = decide(msgspec.structs.replace(instead(start, bound), memory=made.memory), cache)
        assert undecided(changed) == still


def test_nobody_is_evicted_for_a_service_without_a_plan_and_it_has_had_no_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_the_plan(monkeypatch)
    runs = on_nodes("2P > 1P", "p0 on a0, p1 on a1", name="a")
    made = decide(world(runs, on_nodes("1P", "p0 held", name="bad", priority=1), nodes="a:8x2"))
    assert (undecided(made), doings(made)) == ({"bad"}, {})
    made = decide(world(runs, on_nodes("1P", "p0 held", name="bad"), nodes="a:8x3"))
    assert (undecided(made), doings(made)) == ({"bad"}, {})
    assert not any(of.began for of in made.memory.services.values())


def test_a_fault_that_is_about_no_service_leaves_the_part_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OverflowError("too many nodes")

    with monkeypatch.context() as patch:
        patch.setattr("scaler.decide.sharing.weigh.Placement", fails)
        made = decide(five(), cache := DecisionCache())
    assert undecided(made) == {"a", "bad", "c", "d", "e"}
    later = decide(
        msgspec.structs.replace(five(), memory=made.memory, now=five().now + PAUSE), cache
    )
    assert undecided(later) == set()


def test_a_part_with_many_at_fault_waits_as_a_whole_and_the_other_parts_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_the_weighing(monkeypatch)
    many = [on_nodes("1P", "p0@a held", name=f"bad{number}") for number in range(9)]
    made = decide(
        world(
            *many,
            on_nodes("1P", "p0@a held", name="c"),
            on_nodes("1P", "p0@b held", name="e"),
            nodes=NODES,
        )
    )
    assert undecided(made) == {f"bad{number}" for number in range(9)} | {"c"}
    assert doings(made) == {"e-p0": "Admit"}
