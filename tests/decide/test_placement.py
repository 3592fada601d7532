"""Reservations: against trying every node for every pod, and the words for what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scaler.decide.nodes import (
    Amounts,
    Node,
    NodeClass,
    Nodes,
    PodRequest,
    PodRequests,
    Requirement,
    Room,
    Taint,
    Toleration,
    Where,
    joined,
)
from scaler.decide.room.amounts import smallest_that_costs_a_place
from scaler.decide.room.classes import NodeIndex
from scaler.decide.room.placement import Placement, Reservation
from scaler.decide.room.shortage import Shortage

NPU = "huawei.com/Ascend910"
A = NodeClass((("kind", "a"),))
B = NodeClass((("kind", "b"),))
ANYWHERE = Where()
ON_A = Where((("kind", "a"),))
ON_B = Where((("kind", "b"),))
RESOURCES = (NPU, "cpu", "pods")


def ask(npus: int, where: Where = ANYWHERE, *, cpu: int = 0) -> PodRequest:
    asked = ((NPU, npus), ("cpu", cpu), ("pods", 1))
    return PodRequest(tuple((name, amount) for name, amount in asked if amount), where)


def node(kind: NodeClass, free: int, *, cpu: int = 100, **more: object) -> Node:
    return msgspec.structs.replace(Node("", kind, (8, 100, 10), (free, cpu, 10)), **more)


def nodes(*some: Node) -> Nodes:
    named = (
        msgspec.structs.replace(each, name=f"n{number:03}") for number, each in enumerate(some)
    )
    return Nodes(RESOURCES, tuple(named))


def placement(
    *some: Node, now: float = 0.0, due_back: float = 0.0, flap_patience: float = 0.0
) -> Placement:
    return Placement(node_index(*some), now=now, due_back=due_back, flap_patience=flap_patience)


def node_index(*some: Node) -> NodeIndex:
    return NodeIndex(nodes(*some))


def fits(of: Placement, *requests: PodRequest, room: Room = Room.FREE) -> bool:
    return of.fits(joined(*(((one, 1),) for one in requests)), room) is None


def reserved(of: Placement, *pods: tuple[PodRequest, int], room: Room = Room.FREE) -> Reservation:
    found = of.reserve(pods, room)
    assert isinstance(found, Reservation), found
    return found


def placed_on(of: Placement, found: Reservation) -> tuple[str, ...]:
    """The names of the nodes on which its pods are placed now."""
    numbers = {pod.node for pod in found.placed}
    return tuple(of.nodes.nodes[number].name for number in sorted(numbers))


# What follows is written a second time, slowly: a node has a list of what is left for each room,
# and pods are tried on every node.

Pod = tuple[PodRequest, Room]
Left = list[list[int]]


def plus(some: Sequence[int], more: Sequence[int]) -> list[int]:
    return [one + other for one, other in zip(some, more, strict=True)]


def levels(
    of: Node,
    now: float,
    due_back: float,
    granted: Sequence[PodRequest] = (),
    flap_patience: float = 0.0,
) -> Left:
    free = list(of.free)
    none = [0, 0, 0]
    patience = min(flap_patience, due_back)
    if of.schedulable:
        freed = free
        for pod in granted:
            freed = plus(freed, [dict(pod.requests).get(name, 0) for name in RESOURCES])
        to_come = freed
        for deadline, amounts in of.ending:
            if deadline + due_back > now:
                to_come = plus(to_come, amounts)
        soon = with_chips(of, to_come, now, patience)
        return [
            list(free),
            list(freed),
            list(to_come),
            soon,
            with_chips(of, to_come, now, due_back),
        ]
    for _, amounts in of.ending if of.ready else ():
        free = plus(free, amounts)
    soon = with_chips(of, free, now, patience) if now < of.since + patience else list(none)
    well = with_chips(of, free, now, due_back) if now < of.since + due_back else list(none)
    return [list(none), list(none), list(none), soon, well]


def with_chips(of: Node, left: Sequence[int], now: float, seconds: float) -> list[int]:
    """With the chips that are away for less than so many seconds."""
    well = list(left)
    for since, amounts in of.away:
        if now < since + seconds:
            well = plus(well, amounts)
    return well


def allowed(of: Node, pod: PodRequest) -> bool:
    tolerated = {one.key for one in pod.where.tolerations}
    repelled = any(taint.key not in tolerated for taint in of.passing)
    return not repelled and all(pair in of.node_class.labels for pair in pod.where.selector)


def sits(left: Left, pod: Pod) -> Left | None:
    """What is left with the pod; None when it has no room."""
    amounts = [dict(pod[0].requests).get(name, 0) for name in RESOURCES]
    less = [-amount for amount in amounts]
    result = [plus(one, less) if at >= pod[1] else one for at, one in enumerate(left)]
    enough = all(one[i] >= 0 for one in result[pod[1] :] for i, a in enumerate(amounts) if a)
    return result if enough else None


def placements(some: Sequence[Node], left: list[Left], pods: Sequence[Pod]) -> Iterator[list[Left]]:
    """Every way to put all pods on nodes, as what is left then."""
    if not pods:
        yield left
        return
    tried = []
    for at, each in enumerate(some):
        mark = (each.node_class, each.passing, left[at])
        after = sits(left[at], pods[0]) if mark not in tried and allowed(each, pods[0][0]) else None
        tried.append(mark)
        if after is not None:
            yield from placements(some, [*left[:at], after, *left[at + 1 :]], pods[1:])


def possible(some: Sequence[Node], left: list[Left], pods: Sequence[Pod]) -> bool:
    return (
        next(
            placements(
                some,
                left,
                sorted(
                    pods,
                    key=lambda pod: (-len(pod[0].where.selector), pod),
                ),
            ),
            None,
        )
        is not None
    )


def one_by_one(pods: PodRequests, room: Room = Room.FREE) -> list[Pod]:
    return [(pod, room) for pod, count in pods for _ in range(count)]


def is_invalidated(some: Sequence[Node], unbound: Sequence[Pod], rest: Sequence[Pod]) -> bool:
    """Some of the pods with the scheduler can be put where the others find no room any more."""
    left = [levels(each, 0.0, 0.0) for each in some]
    for chosen in product((False, True), repeat=len(unbound)):
        put = [pod for pod, taken in zip(unbound, chosen, strict=True) if taken]
        others = [*rest, *(pod for pod, taken in zip(unbound, chosen, strict=True) if not taken)]
        if any(not possible(some, after, others) for after in placements(some, left, put)):
            return True
    return False


classes = st.sampled_from([A, B])
node_strategy = st.builds(node, classes, st.integers(0, 4), cpu=st.sampled_from([-1, 2, 3, 100]))
nodes_strategy = st.lists(node_strategy, min_size=1, max_size=6)
where_strategy = st.sampled_from([ANYWHERE, ON_A, ON_B])
ask_strategy = st.builds(ask, st.integers(1, 3), where_strategy, cpu=st.sampled_from([0, 1, 2]))
pods_strategy = st.lists(st.tuples(ask_strategy, st.integers(1, 2)), min_size=1, max_size=2).map(
    lambda parts: joined(tuple(parts))
)
steps_strategy = st.lists(st.tuples(pods_strategy, st.integers(0, 5)), min_size=1, max_size=5)


@settings(max_examples=300, deadline=None)
@given(nodes_strategy, steps_strategy)
def test_something_is_reserved_exactly_when_all_reservations_can_be_kept_together(
    some: list[Node], steps: list[tuple[PodRequests, int]]
) -> None:
    of = placement(*some)
    kept = list[tuple[Reservation, PodRequests]]()
    left = [levels(each, 0.0, 0.0) for each in some]
    for pods, cancelled in steps:
        if cancelled < len(kept):
            of.cancel(kept.pop(cancelled)[0])
        everything = one_by_one(pods)
        for _, others in kept:
            everything += one_by_one(others)
        found = of.reserve(pods)
        assert isinstance(found, Reservation) == possible(some, left, everything), found
        if isinstance(found, Reservation):
            kept.append((found, pods))
        else:
            assert not found.undecided


PRESSURE = Taint("node.kubernetes.io/memory-pressure")
PATIENT = Where(tolerations=(Toleration(PRESSURE.key, "Exists"),))
ending_strategy = st.lists(
    st.tuples(
        st.sampled_from([1.0, 7.0]),
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 1)),
    ),
    max_size=2,
).map(tuple)
any_node_strategy = st.builds(
    node,
    classes,
    st.integers(-1, 4),
    cpu=st.sampled_from([-1, 2, 3, 100]),
    ending=ending_strategy,
    ready=st.sampled_from([True, True, False]),
    cordoned=st.sampled_from([False, False, True]),
    since=st.sampled_from([1.0, 7.0, 9.0]),
    passing=st.sampled_from([(), (), (PRESSURE,)]),
    away=st.sampled_from(
        [(), (), ((1.0, (1, 0, 0)),), ((1.0, (2, 0, 0)), (7.0, (1, 0, 0))), ((9.0, (1, 0, 0)),)]
    ),
)
any_ask_strategy = st.builds(
    ask, st.integers(1, 3), st.sampled_from([ANYWHERE, ON_A, PATIENT]), cpu=st.integers(0, 1)
)
any_pods_strategy = st.lists(
    st.tuples(any_ask_strategy, st.integers(1, 2)), min_size=1, max_size=2
).map(lambda parts: joined(tuple(parts)))
any_steps_strategy = st.lists(
    st.tuples(any_pods_strategy, st.sampled_from(Room), st.integers(0, 5)), min_size=1, max_size=4
)
grants_strategy = st.lists(st.tuples(st.integers(0, 4), any_ask_strategy), max_size=2)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(any_node_strategy, min_size=1, max_size=5),
    any_steps_strategy,
    grants_strategy,
    grants_strategy,
)
def test_each_sort_of_room_is_reserved_exactly_when_all_reservations_can_be_kept_together(
    some: list[Node],
    steps: list[tuple[PodRequests, Room, int]],
    granted: list[tuple[int, PodRequest]],
    withdrawn: list[tuple[int, PodRequest]],
) -> None:
    of = placement(*some, now=10.0, due_back=5.0, flap_patience=2.0)
    kept = list[tuple[Reservation, PodRequests, Room]]()
    of.fits(*steps[0][:2])
    of.count_freed([(f"n{at:03}", pod) for at, pod in [*granted, *withdrawn]])
    of.count_freed([(f"n{at:03}", pod) for at, pod in withdrawn], -1)
    left = []
    for number, each in enumerate(some):
        here = [pod for at, pod in granted if at == number]
        left.append(levels(each, 10.0, 5.0, here, 2.0))
    for pods, room, cancelled in steps:
        if cancelled < len(kept):
            of.cancel(kept.pop(cancelled)[0])
        everything = [
            pod for _, mine, level in kept for pod in one_by_one(mine, level)
        ] + one_by_one(pods, room)
        found = of.reserve(pods, room)
        wanted = possible(some, left, everything)
        if isinstance(found, Reservation):
            assert wanted
            kept.append((found, pods, room))
        else:
            assert not wanted
            assert not found.undecided


@settings(max_examples=200, deadline=None)
@given(st.lists(any_node_strategy, min_size=1, max_size=5), any_steps_strategy)
def test_what_is_cancelled_leaves_no_trace(
    some: list[Node], steps: list[tuple[PodRequests, Room, int]]
) -> None:
    of = placement(*some, now=10.0, due_back=5.0)
    first = [of.fits(pods, room) for pods, room, _ in steps]
    found = [of.reserve(pods, room) for pods, room, _ in steps]
    for each in found:
        if isinstance(each, Reservation):
            of.cancel(each)
            of.cancel(each)
    assert [of.fits(pods, room) for pods, room, _ in steps] == first


@settings(max_examples=200, deadline=None)
@given(
    st.lists(any_node_strategy, min_size=8, max_size=20),
    st.lists(st.tuples(st.integers(0, 19), any_node_strategy), max_size=3),
    any_steps_strategy,
)
def test_a_cache_changes_no_answer(
    some: list[Node], changes: list[tuple[int, Node]], steps: list[tuple[PodRequests, Room, int]]
) -> None:
    before = nodes(*some)
    now = list(before.nodes)
    for at, changed in changes:
        old = now[at % len(now)]
        same = {"name": old.name, "node_class": old.node_class, "passing": old.passing}
        now[at % len(now)] = msgspec.structs.replace(
            changed, **(same if at % 4 else {"name": old.name})
        )
    after = Nodes(RESOURCES, tuple(now))
    index = NodeIndex(before)
    first = played(Placement(index, now=10.0, due_back=5.0), steps)
    index = index.after(after)
    assert played(Placement(index, now=10.0, due_back=5.0), steps) == played(
        Placement(NodeIndex(after), now=10.0, due_back=5.0), steps
    )
    assert played(Placement(index.after(before), now=10.0, due_back=5.0), steps) == first


def test_a_node_that_lost_chips_concerns_the_services_of_its_class_alone() -> None:
    before = nodes(node(A, 8), node(B, 8))
    whole, other = before.nodes
    smaller = msgspec.structs.replace(whole, allocatable=(4, 100, 10))
    assert NodeIndex(before).after(Nodes(RESOURCES, (smaller, other))).changed == frozenset({A})


def played(of: Placement, steps: Sequence[tuple[PodRequests, Room, int]]) -> list[object]:
    seen = list[object]()
    for pods, room, _ in steps:
        seen += [of.breadth(pods), of.sums_suffice(pods), of.fits(pods, room)]
        found = of.reserve(pods, room)
        seen.append(
            (placed_on(of, found), of.waits_for(found)) if isinstance(found, Reservation) else found
        )
        seen += [of.may_invalidate(pods, joined(*(earlier for earlier, _, _ in steps)))]
    return seen


unbound_strategy = st.lists(
    st.tuples(
        st.builds(ask, st.integers(1, 3), where_strategy, cpu=st.integers(0, 2)),
        st.integers(1, 2),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=300, deadline=None)
@given(nodes_strategy, unbound_strategy)
def test_what_is_said_to_invalidate_nothing_invalidates_nothing(
    some: list[Node], asked: list[tuple[PodRequest, int, bool]]
) -> None:
    of = placement(*some)
    with_the_scheduler = list[PodRequests]()
    rest = list[Pod]()
    for pod, count, unbound in asked:
        pods: PodRequests = ((pod, count),)
        if isinstance(of.reserve(pods), Reservation):
            if unbound:
                with_the_scheduler.append(pods)
            else:
                rest += one_by_one(pods)
    for at, pods in enumerate(with_the_scheduler):
        others = [*with_the_scheduler[:at], *with_the_scheduler[at + 1 :]]
        before = [pod for part in others for pod in one_by_one(part)]
        if not of.may_invalidate(pods, joined(*others)) and not is_invalidated(
            some, before, [*rest, *one_by_one(pods)]
        ):
            assert not is_invalidated(
                some, [pod for part in with_the_scheduler for pod in one_by_one(part)], rest
            )


@settings(max_examples=200, deadline=None)
@given(nodes_strategy, pods_strategy)
def test_what_fits_fits_by_sums_as_well(some: list[Node], pods: PodRequests) -> None:
    of = placement(*some)
    if of.fits(pods) is None:
        assert of.sums_suffice(pods)


def test_pods_of_one_class_invalidate_nothing() -> None:
    of = placement(*[node(A, 8)] * 3)
    for _ in range(3):
        reserved(of, (ask(8), 1))
    assert not of.may_invalidate(((ask(8), 1),), ((ask(8), 1),))


def test_pods_of_mixed_sizes_invalidate_nothing_where_there_is_a_node_for_each() -> None:
    of = placement(*[node(A, 8)] * 200)
    mixed = [((ask(size, cpu=size), 5),) for size in range(1, 9)] * 5
    for pods in mixed:
        reserved(of, *pods)
    assert not of.may_invalidate(mixed[0], joined(*mixed[1:20]))
    assert not of.may_invalidate(mixed[7], joined(*mixed[8:]))


def test_restricted_pods_with_the_scheduler_invalidate_no_flexible_ones_that_fit_after_them() -> (
    None
):
    of = placement(node(A, 8), node(A, 8), node(B, 8), node(B, 8))
    reserved(of, (ask(8), 2))
    reserved(of, (ask(8, ON_A), 2))
    assert not of.may_invalidate(((ask(8, ON_A), 1),), ((ask(8, ON_A), 1),))
    assert of.may_invalidate(((ask(8), 2),), ())


def test_pods_that_take_what_nobody_is_short_of_invalidate_nothing() -> None:
    of = placement(*[node(A, 8)] * 4)
    reserved(of, (ask(8, cpu=10), 4))
    reserved(of, (ask(0, cpu=5), 6))
    assert not of.may_invalidate(((ask(0, cpu=5), 2),), ((ask(0, cpu=5), 4),))
    reserved(of, (ask(0, cpu=20), 5))
    assert of.may_invalidate(((ask(0, cpu=20), 5),), ())


@pytest.mark.parametrize(("number", "expected"), [(1, False), (2, True)])
def test_small_pods_with_the_scheduler_invalidate_once_they_can_take_more_than_is_to_spare(
    number: int, expected: bool
) -> None:  # 3b.6b; the example of `invalidation.py`
    of = placement(*[node(A, 8)] * 3)
    reserved(of, (ask(8), 2))
    reserved(of, (ask(4), number))

    assert of.may_invalidate(((ask(4), number),), ()) is expected


def test_other_pods_cost_a_place_once_they_take_more_than_is_left_over() -> None:
    # two places for pods of 8 and 4 left over; one place of 8 and 7 left over; no pod fits twice
    assert smallest_that_costs_a_place(20, 8, places=2) == 4
    assert smallest_that_costs_a_place(15, 8, places=1) == 7
    assert smallest_that_costs_a_place(23, 8, places=2) == 7
    assert smallest_that_costs_a_place(16, 8, places=2) == 0


@given(st.integers(1, 60), st.integers(1, 20))
def test_no_pods_cost_places_with_less_than_the_smallest_for_each(free: int, request: int) -> None:
    places = free // request
    assume(places)
    smallest = smallest_that_costs_a_place(free, request, places)

    costs = []
    for taken in range(free + 1):
        lost = places - (free - taken) // request
        assert taken >= lost * smallest
        if lost:
            costs.append((taken - 1) / lost)  # one less did not cost that place
    assert min(costs) == smallest


def test_a_reserved_pod_makes_way_and_a_count_ends_a_search_in_vain() -> None:
    # the example of `search.py`
    of = placement(node(A, 4), node(B, 8))
    flexible = reserved(of, (ask(4), 1))
    assert placed_on(of, flexible) == ("n000",)

    restricted = reserved(of, (ask(4, ON_A), 1))

    assert placed_on(of, restricted) == ("n000",)
    assert placed_on(of, flexible) == ("n001",)
    missing = of.fits(((ask(8), 1),))
    assert missing is not None
    assert not missing.undecided


def test_sums_are_taken_for_every_set_of_candidate_nodes() -> None:
    of = placement(node(A, 6), node(A, 6), node(B, 8), node(B, 8))
    crossed = ((ask(4, ON_A), 2), (ask(2, ON_A), 2))
    assert of.sums_suffice(crossed)
    assert not of.sums_suffice(((ask(4, ON_A), 2), (ask(2, ON_A), 3)))
    assert of.sums_suffice((*crossed, (ask(8), 2)))
    assert not of.sums_suffice((*crossed, (ask(8), 3)))


@pytest.mark.parametrize(
    ("free", "pods", "suffices"),
    [
        ((8, 8, 8, 7, 4), ((8, 4),), False),
        ((8, 8, 8, 8, 4), ((8, 4),), True),
        ((8, 8, 7, 7, 7), ((8, 3), (2, 4)), False),
        ((8, 8), ((6, 2), (4, 1)), True),
    ],
)
def test_of_each_node_counts_what_whole_pods_can_take(
    free: tuple[int, ...], pods: tuple[tuple[int, int], ...], suffices: bool
) -> None:
    """3b.9a: the rest of a node that no pod of the minimum can take is in no sum."""
    of = placement(*[node(A, each) for each in free])
    asked = tuple([(ask(size), count) for size, count in pods])
    assert of.sums_suffice(asked) is suffices


def test_a_flexible_reservation_makes_way_for_a_restricted_request() -> None:
    of = placement(node(A, 8), node(B, 8))
    flexible = reserved(of, (ask(8), 1))
    assert placed_on(of, flexible) == ("n000",)
    assert placed_on(of, reserved(of, (ask(8, ON_A), 1))) == ("n000",)
    assert placed_on(of, flexible) == ("n001",)
    assert not fits(of, ask(1))


def crowded() -> Placement:
    """Two reservations; another of two NPUs fits only when both change places."""
    of = placement(node(A, 4), node(A, 3))
    for npus in (2, 3):
        reserved(of, (ask(npus), 1))
    return of


def test_reservations_change_places_where_something_fits_only_so() -> None:
    assert fits(crowded(), ask(2))


def test_a_placement_that_has_spent_its_effort_says_so_and_keeps_what_is_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scaler.decide.room.search.EFFORT", 0)
    of = crowded()
    assert str(of.fits(((ask(2), 1),))).endswith("; not every placement was tried")
    assert fits(of, ask(1), ask(1))


def test_a_search_that_is_given_up_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.decide.room.search.STEPS", 2)
    found = placement(node(A, 5), node(A, 4)).fits(((ask(2), 3), (ask(3), 1)))
    assert str(found).endswith("no placement holds all of it; not every placement was tried")


def test_a_long_chain_of_reservations_moves_for_one_pod() -> None:
    kinds = [NodeClass((("kind", str(number)),)) for number in range(30)]
    of = placement(*[node(kind, 8) for kind in kinds])
    for number in range(29):
        term = (Requirement("kind", "In", (str(number), str(number + 1))),)
        reserved(of, (ask(8, Where(affinity=(term,))), 1))
    reserved(of, (ask(8, Where((("kind", "0"),))), 1))


def test_room_to_come_is_not_taken_from_what_is_free() -> None:
    of = placement(node(A, 4, ending=((1.0, (8, 0, 0)),)), node(B, 0), due_back=5.0)
    first = reserved(of, (ask(8), 1), room=Room.EXPECTED)
    assert (placed_on(of, first), of.waits_for(first)) == (("n000",), ("n000",))
    assert fits(of, ask(4))
    second = reserved(of, (ask(4), 1), room=Room.EXPECTED)
    assert of.waits_for(second) == ()
    assert not fits(of, ask(4))
    of.cancel(second)
    assert fits(of, ask(4))


def test_room_counts_as_to_come_until_it_is_overdue() -> None:
    some = (
        node(A, 0, ending=((10.0, (4, 0, 0)), (2.0, (4, 0, 0)))),
        node(B, 4, ready=False, since=10.0, ending=((2.0, (4, 0, 0)),)),
        node(B, 8, cordoned=True, since=2.0),
    )
    of = placement(*some, now=12.0, due_back=5.0)
    assert not fits(of, ask(1))
    assert fits(of, ask(4), room=Room.EXPECTED)
    assert not fits(of, ask(4), ask(1), room=Room.EXPECTED)
    assert fits(of, ask(4), ask(4), room=Room.AWAY)
    assert not fits(of, ask(4), ask(4), ask(1), room=Room.AWAY), (
        "what ends on a node that is not Ready is nothing"
    )
    assert placement(*some, now=15.0, due_back=5.0).fits(((ask(1), 1),), Room.AWAY) is not None


def test_faulty_chips_count_as_absent_nodes_do_until_they_are_overdue() -> None:
    """3b, words: expected room is that of chips known as faulty, until `due_back` after that was
    first seen."""
    some = (
        node(A, 4, away=((2.0, (2, 0, 0)), (10.0, (2, 0, 0)))),
        node(B, 0, cordoned=True, since=10.0, away=((2.0, (8, 0, 0)),)),
    )
    of = placement(*some, now=6.0, due_back=5.0)
    assert not fits(of, ask(8), room=Room.EXPECTED)
    assert fits(of, ask(8), ask(8), room=Room.AWAY)
    of = placement(*some, now=12.0, due_back=5.0)
    assert not fits(of, ask(8), room=Room.AWAY)
    assert fits(of, ask(6), room=Room.AWAY)
    assert some[0].overdue_from(5.0, 1.0) == [7.0, 15.0, 3.0, 11.0]
    assert NodeIndex(Nodes(RESOURCES, (some[0],))).unusual == [0]


def test_granted_room_counts_until_it_is_withdrawn() -> None:
    of = placement(node(A, 0), node(A, 0, cordoned=True))
    victims = [("n000", ask(8)), ("n001", ask(8)), ("unknown", ask(8))]
    assert not fits(of, ask(8), room=Room.FREED)
    of.count_freed(victims)
    assert not fits(of, ask(8))
    assert of.waits_for(reserved(of, (ask(8), 1), room=Room.FREED)) == ("n000",)
    of = placement(node(A, 0))
    of.count_freed(victims)
    of.count_freed(victims, -1)
    assert not fits(of, ask(8), room=Room.FREED)


def test_a_passing_taint_repels_who_does_not_tolerate_it() -> None:
    of = placement(node(A, 8, passing=(PRESSURE,)))
    assert not fits(of, ask(8))
    assert fits(of, ask(8, PATIENT))
    assert node_index(node(A, 8, passing=(PRESSURE,))).classes_for(((ask(8), 1),)) == {A}


def test_node_classes_are_a_static_fact() -> None:
    of = node_index(node(A, 0), node(B, 8, ready=False))
    assert of.classes_for(((ask(1), 1),)) == {A, B}
    assert of.classes_for(((ask(1, ON_A), 1), (ask(1, ON_B), 1))) == {A, B}
    assert of.classes_for(((ask(1, ON_A), 1),)) == {A}


def test_breadth_is_that_of_the_most_restricted_pod_whatever_is_reserved() -> None:
    of = placement(node(A, 8), node(A, 4), node(B, 8))
    assert of.breadth(((ask(4), 1), (ask(8), 1))) == 2
    assert of.breadth(((ask(4), 1), (ask(8, ON_A), 1))) == 1
    reserved(of, (ask(8, ON_A), 1))
    assert of.breadth(((ask(4), 1), (ask(8), 1))) == 2


def test_what_would_never_fit_is_known_from_empty_nodes() -> None:
    of = Placement(node_index(node(A, -3, ready=False), node(A, -3, passing=(PRESSURE,))).emptied)
    assert of.fits(((ask(8), 2),)) is None
    assert of.fits(((ask(8), 3),)) is not None
    assert of.fits(((ask(9), 1),)) is not None


def test_a_shortage_names_the_resource_the_nodes_and_how_many_there_are() -> None:
    where = Where((("accelerator-type", "module-910b-8"),))
    kind = NodeClass(where.selector)
    found = placement(node(kind, 8), node(kind, 4)).fits(((ask(8, where), 2),))
    assert (
        str(found) == "needs 2 nodes, 1 free; each with 8 free huawei.com/Ascend910"
        " (accelerator-type=module-910b-8)"
    )


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        (((ask(8, cpu=64_500), 1),), "needs 1 node, 0 free; with 64.5 free cpu"),
        (((ask(4), 3),), "needs room for 3 pods, 2 free; each with 4 free huawei.com/Ascend910"),
        (
            ((PodRequest((("pods", 1),)), 12),),
            "needs room for 12 pods, 10 free",
        ),
        (
            ((PodRequest((("example.com/gpu", 1), ("pods", 1))), 1),),
            "needs 1 node with 1 free example.com/gpu, and no node offers it",
        ),
        (
            ((ask(5), 1), (ask(6), 1)),
            (
                "needs 1 node with 5 free huawei.com/Ascend910 and more beside it, no placement"
                " holds all of it"
            ),
        ),
    ],
)
def test_the_words_of_other_shortages(pods: PodRequests, words: str) -> None:
    assert str(placement(node(A, 8, cpu=50)).fits(pods)) == words


def test_a_shortage_names_the_nodes_that_are_away_before_the_details() -> None:
    away = [
        node(A, 8, ready=False, not_ready_since=1_767_298_380.0),
        node(A, 8, cordoned=True),
        node(B, 8, ready=False),
        node(A, 4, ready=False),
    ]
    assert str(placement(node(A, 8), *away).fits(((ask(8, ON_A), 2),))) == (
        "needs 2 nodes, 1 free; n001 NotReady since 2026-01-01 20:13 UTC, n002 cordoned; each with"
        " 8 free huawei.com/Ascend910 (kind=a)"
    )


def test_affinity_is_named_in_a_shortage() -> None:
    term = (Requirement("pool", "In", ("x", "y")), Requirement("old", "DoesNotExist"))
    found = placement().fits(((ask(8, Where(affinity=(term,))), 1),))
    assert "(pool In x, y and old DoesNotExist)" in str(found)


def test_absurd_numbers_of_pods_are_short_at_once() -> None:
    found = placement(node(A, 8)).fits(((ask(1), 10**12),))
    assert isinstance(found, Shortage)
    assert (found.wanted, found.there, found.undecided) == (10**12, 8, False)


def test_more_pods_than_are_ever_placed_count_as_finding_no_place() -> None:
    huge: Amounts = (1 << 40, 0, 1 << 40)
    found = Placement(NodeIndex(Nodes(RESOURCES, (Node("huge", A, huge, huge),)))).fits(
        ((ask(1), 20_000),)
    )
    assert isinstance(found, Shortage)
    assert found.undecided


def test_requests_for_nothing_are_no_mistake() -> None:
    assert placement().fits(()) is None
    assert placement().fits(((ask(1), 0),)) is None
    assert placement(node(A, 8)).fits(((PodRequest(()), 1),)) is not None


@settings(max_examples=100, deadline=None)
@given(st.lists(any_node_strategy, min_size=1, max_size=5), any_steps_strategy)
def test_the_same_calls_give_the_same_answers(
    some: list[Node], steps: list[tuple[PodRequests, Room, int]]
) -> None:
    once, again = (placement(*some, now=10.0, due_back=5.0) for _ in range(2))
    assert played(once, steps) == played(again, steps)
