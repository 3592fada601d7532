"""A cache saves time only: whatever happens between two decisions, the next one is the same without
it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide, decide_anew
from scaler.decide.decision import Decision
from scaler.decide.memory import InstanceMemory, Memory, ServiceMemory
from scaler.decide.nodes import Node
from scaler.decide.world import Policy, Preempt, Service, World
from scaler.rules.rule import RuleOptions
from tests.builders import NOW, nodes_for, on_nodes, world
from tests.decide.cluster import apply

NAMES = "abcdef"
NODES = "a:8x3 b:8x3 c:16x2"
PLACES = {"a": ("a0", "a1", "a2"), "b": ("b0", "b1", "b2"), "c": ("c0", "c1")}
POLICIES = (
    Policy(),
    Policy(preempt=Preempt.EQUAL_OR_HIGHER),
    Policy(trade_after=0.0, fit_patience=1.0),
)

PODS = (
    "held",
    "held",
    "unbound",
    "on here",
    "on here",
    "starts on here",
    "ends",
    "unbound + on here",
)
pod_strategy = st.sampled_from(PODS)
Change = tuple[str, int, int]
changes_strategy = st.lists(
    st.tuples(
        st.sampled_from(
            (
                "service",
                "edit",
                "edit",
                "node",
                "later",
                "bind",
                "goes",
                "comes",
                "done",
                "back",
                "nothing",
            )
        ),
        st.integers(0, 5),
        st.integers(0, 7),
    ),
    min_size=1,
    max_size=8,
)


@st.composite
def service_strategy(draw: st.DrawFn, name: str) -> Service:
    """Of class a, b or c alone, or of two of them."""
    classes = draw(st.sampled_from(("a", "b", "c", "ab", "")))
    written = []
    for member in ("p0", "p1", "d0"):
        where = draw(st.sampled_from(PLACES[(classes or "c")[0]]))
        written.append(
            f"{member}{'@' + classes if classes else ''}"
            f" {draw(pod_strategy).replace('here', where)}"
        )
    return on_nodes(
        draw(st.sampled_from(("2P1D > 1P1D", "1P1D"))),
        ", ".join(written),
        name=name,
        priority=draw(st.sampled_from((0, 0, 1))),
        others=draw(st.booleans()),
    )


class History:
    """Some worlds to take services from, and what happens."""

    def __init__(self, sources: list[World], changes: list[Change]) -> None:
        self.sources = sources
        self.changes = changes

    def __repr__(self) -> str:
        return str(self.changes)


@st.composite
def histories(draw: st.DrawFn) -> History:
    policy = draw(st.sampled_from(POLICIES))
    worlds = []
    for _ in range(3):
        services = [draw(service_strategy(name)) for name in NAMES]
        worlds.append(world(*services, nodes=NODES, policy=policy))
    return History(worlds, draw(changes_strategy))


def after(now: World, change: Change, sources: Sequence[World]) -> World:
    """The world after one thing happened."""
    what, which, how = change
    source = sources[how % len(sources)]
    services = list(now.services)
    match what:
        case "service" | "comes":
            other = source.services[which]
            kept = [each for each in services if each.key != other.key]
            return msgspec.structs.replace(
                now, services=tuple(sorted([*kept, other], key=lambda one: one.key))
            )
        case "goes" if services:
            services.pop(which % len(services))
            return msgspec.structs.replace(now, services=tuple(services))
        case "edit" if services:
            at = which % len(services)
            services[at] = edited(services[at], how)
            return msgspec.structs.replace(now, services=tuple(services))
        case "node" if now.nodes is not None:
            found = list(now.nodes.nodes)
            at = (which + how) % len(found)
            found[at] = other_node(found[at], how)
            return msgspec.structs.replace(
                now, nodes=msgspec.structs.replace(now.nodes, nodes=tuple(found))
            )
        case "later":
            return msgspec.structs.replace(
                now, now=now.now + (0.5, 5.0, 31.0, 61.0, 301.0, 1801.0, 0.01, 90.0)[how]
            )
        case "bind":
            return msgspec.structs.replace(now, last_bind=now.now)
        case "done":
            return apply(now, decide(now))
        case "back":
            return msgspec.structs.replace(now, memory=Memory())
        case _:
            return now


def edited(service: Service, how: int) -> Service:
    """One instance changed a little: most of that no other service can see."""
    one = service.instances[how % len(service.instances)]
    edits: list[dict[str, Any]] = [
        {"generation": one.generation + 1},
        {"restarts": one.restarts + 1, "trouble": "a pod was restarted"},
        {"ready": 0 if one.ready else one.running},
        {"scheduler_says": "0/8 nodes are available", "warnings": ()},
        {"running": 0, "ready": 0},
        {"created": one.created - 1.0},
        {"grace": one.grace + 10.0},
        {"priority": one.priority + 1},
    ]
    first = msgspec.structs.replace(one, **edits[how % len(edits)])
    others = [each for each in service.instances if each is not one]
    return msgspec.structs.replace(
        service, instances=tuple(sorted([first, *others], key=lambda each: each.uid))
    )


def other_node(node: Node, how: int) -> Node:
    match how % 4:
        case 0:
            return msgspec.structs.replace(node, free=node.allocatable)
        case 1:
            return msgspec.structs.replace(node, free=(0, *node.free[1:]))
        case 2:
            return msgspec.structs.replace(node, cordoned=not node.cordoned, since=NOW)
        case _:
            return msgspec.structs.replace(node, ready=not node.ready, since=NOW)


@settings(max_examples=150, deadline=None)
@given(histories())
def test_whatever_happens_the_next_decision_is_the_same_without_a_cache(history: History) -> None:
    sources = history.sources
    changes = history.changes
    cache = DecisionCache()
    now = sources[0]
    made = decide(now, cache)
    assert made == decide(now)
    for change in changes:
        remembered = now.memory if change[2] == 7 else made.memory
        now = after(msgspec.structs.replace(now, memory=remembered), change, sources)
        made = decide(now, cache)
        alone = decide(now)
        note(f"{change}")
        assert made == alone
        assert msgspec.json.encode(made) == msgspec.json.encode(alone)


@settings(max_examples=150, deadline=None)
@given(histories())
def test_a_decision_is_the_same_without_all_that_saves_time(history: History) -> None:
    """Shortcuts within one decision, too: `scaler/decide/again.py` could be deleted."""
    now = history.sources[0]
    for change in history.changes:
        made = decide(now)
        assert without_words(made) == without_words(decide_anew(now))
        now = after(msgspec.structs.replace(now, memory=made.memory), change, history.sources)


def without_words(made: Decision) -> Decision:
    """How many places there are may be counted before or after the reservation of another
    service."""
    plans = []
    for plan in made.plans:
        verdicts = [msgspec.structs.replace(verdict, about=()) for verdict in plan.verdicts]
        plans.append(msgspec.structs.replace(plan, verdicts=tuple(verdicts)))
    return msgspec.structs.replace(made, plans=tuple(plans))


@settings(max_examples=50, deadline=None)
@given(
    histories(),
    st.integers(0, 4),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), min_size=1),
)
def test_nodes_change_nothing_where_a_decision_heeds_no_room(
    history: History, which: int, others: list[tuple[int, int]]
) -> None:
    for source in history.sources:
        one = msgspec.structs.replace(source, services=source.services[which : which + 2])
        one = other = msgspec.structs.replace(one, memory=decide(one).memory)
        for at, how in others:
            other = after(other, ("node", at, how), history.sources)
        made = decide(one)
        assert made.heeds_room or decide(other).plans == made.plans


def test_what_nobody_changed_is_the_same_plan() -> None:
    many = world(
        *(on_nodes("1P1D", "p0@a on a0, d0@a on a1", name=name) for name in NAMES), nodes=NODES
    )
    cache = DecisionCache()
    first = decide(many, cache)
    again = decide(msgspec.structs.replace(many, memory=first.memory, now=NOW + 1), cache)
    assert all(one is other for one, other in zip(first.plans, again.plans, strict=True))
    assert again.memory is first.memory


def test_what_is_remembered_of_an_instance_that_is_gone_is_forgotten_when_its_pause_is_over() -> (
    None
):
    one = world(on_nodes("1P1D", "p0@a on a0, d0@a on a1", name="a"), nodes=NODES)
    seen = decide(one).memory.services["default/rule/a"].instances
    gone = InstanceMemory(restarts=0, failures=1, backoff_until=NOW + 5)
    now = msgspec.structs.replace(
        one, memory=Memory({"default/rule/a": ServiceMemory({**seen, "gone": gone})})
    )
    cache = DecisionCache()
    for later in (0, 1, 4, 6):
        now = msgspec.structs.replace(now, now=NOW + later)
        made = decide(now, cache)
        assert made == decide(now)
        assert ("gone" in made.memory.services["default/rule/a"].instances) is (later < 5)
        now = msgspec.structs.replace(now, memory=made.memory)


def test_a_broken_instance_without_grace_is_remembered_the_same_with_a_cache() -> None:
    crashing = on_nodes("1P1D", "p0@a crashes on a0, d0@a crashes on a1", name="a")
    now = world(crashing, nodes=NODES, policy=Policy(broken_grace=0.0))
    cache = DecisionCache()
    for _ in range(3):
        made = decide(now, cache)
        assert made == decide(now)
        now = msgspec.structs.replace(now, now=now.now + 1, memory=made.memory)


def test_a_decision_that_fails_leaves_nothing_behind() -> None:
    good = world(on_nodes("1P1D", "p0@a held, d0@a held", name="a"), nodes=NODES)
    bad = msgspec.structs.replace(good, nodes=nodes_for("b:8"), services=(None,))
    cache = DecisionCache()
    decide(good, cache)
    with pytest.raises(AttributeError):
        decide(bad, cache)
    assert decide(good, cache) == decide(good)


def test_nothing_is_remembered_of_a_service_that_is_gone() -> None:
    """Another service came in its place, of which there is nothing to remember."""
    waits = on_nodes("1P1D", "p0@a unbound, d0@a held", name="a")
    nothing = on_nodes("1P1D", "", name="b", options=RuleOptions(paused=True))
    cache = DecisionCache()
    first = decide(world(waits, nodes=NODES), cache)
    now = world(nothing, nodes=NODES, memory=first.memory)
    assert list(first.memory.services) == [str(waits.key)]
    for made in (decide(now, cache), decide(now), decide_anew(now)):
        assert made.memory.services == {}


def test_an_entry_that_did_not_change_stays_though_it_says_nothing() -> None:
    nothing = on_nodes("1P1D", "", name="b", options=RuleOptions(paused=True))
    now = world(nothing, nodes=NODES, memory=Memory({str(nothing.key): ServiceMemory()}))
    for made in (decide(now), decide_anew(now)):
        assert made.memory == now.memory
