"""Promises on the board: against trying every node for every pod, and the words for what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.decide.nodes import (
    Capacity,
    NodeClass,
    PodRequest,
    PodRequests,
    Requirement,
    Room,
    Taint,
    Toleration,
    Where,
    joined,
    terms_of,
)
from scaler.decide.room.placement import Board, emptied
from scaler.decide.room.promises import Placement
from scaler.decide.room.shortage import Shortage

NPU = "huawei.com/Ascend910"
A, B = NodeClass((("kind", "a"),)), NodeClass((("kind", "b"),))
ANYWHERE = Where()
ON_A, ON_B = Where((("kind", "a"),)), Where((("kind", "b"),))
RESOURCES = (NPU, "cpu", "pods")


def need(npus: int, where: Where = ANYWHERE, *, cpu: int = 0) -> PodRequest:
    asked = ((NPU, npus), ("cpu", cpu), ("pods", 1))
    return PodRequest(tuple((name, amount) for name, amount in asked if amount), where)


def nodes(kind: NodeClass, free: int, count: int = 1, *, cpu: int = 100, **more: object) -> Room:
    return msgspec.structs.replace(Room(kind, (8, 100, 10), (free, cpu, 10), (0, 0, 0), count=count), **more)


def board(*rooms: Room, due_back: bool = False) -> Board:
    return Board(Capacity(RESOURCES, rooms), due_back=due_back)


def fits(of: Board, *needs: PodRequest) -> bool:
    return of.fits(joined(*(((one, 1),) for one in needs))) is None


# What follows is written a second time, slowly: a node is a list of what is free on it, a seating is one node per pod.


def tried(rooms: Sequence[Room], pods: Sequence[PodRequest]) -> bool:
    """Some choice of a node for every pod exceeds no node."""
    free = [(room.kind, list(room.free)) for room in rooms for _ in range(room.count)]
    return _tried(free, list(pods))


def _tried(free: list[tuple[NodeClass, list[int]]], pods: list[PodRequest]) -> bool:
    if not pods:
        return True
    for kind, amounts in free:
        if _sits(amounts, kind, pods[0], -1):
            found = _tried(free, pods[1:])
            _sits(amounts, kind, pods[0], 1)
            if found:
                return True
    return False


def _sits(amounts: list[int], kind: NodeClass, pod: PodRequest, sign: int) -> bool:
    if any(pair not in kind.labels for pair in pod.where.selector):
        return False
    asked = {RESOURCES.index(name): amount for name, amount in pod.requests}
    if sign < 0 and any(amounts[index] < amount for index, amount in asked.items()):
        return False
    for index, amount in asked.items():
        amounts[index] += sign * amount
    return True


def spoilt(rooms: Sequence[Room], pods: Sequence[PodRequest], rest: Sequence[PodRequest]) -> bool:
    """Some choice of nodes for `pods`, made by a scheduler that knows nothing of the rest, leaves no room for it."""
    single = [msgspec.structs.replace(room, count=1) for room in rooms for _ in range(room.count)]
    for choice in product(range(len(single)), repeat=len(pods)):
        free = [(room.kind, list(room.free)) for room in single]
        seated = all(_sits(free[at][1], free[at][0], pod, -1) for at, pod in zip(choice, pods, strict=True))
        if seated and not _tried(free, list(rest)):
            return True
    return False


def pods_of(placements: Sequence[Placement]) -> list[PodRequest]:
    return [one for placement in placements for one, count in placement.needs for _ in range(count)]


rooms_strategy = st.lists(
    st.builds(
        nodes, st.sampled_from([A, B]), st.integers(0, 4), st.integers(1, 2), cpu=st.sampled_from([-1, 2, 3, 100])
    ),
    min_size=1,
    max_size=4,
)
where_strategy = st.sampled_from([ANYWHERE, ON_A, ON_B])
need_strategy = st.builds(need, st.integers(1, 3), where_strategy, cpu=st.sampled_from([0, 1, 2]))
needs_strategy = st.lists(st.tuples(need_strategy, st.integers(1, 2)), min_size=1, max_size=2).map(
    lambda parts: joined(tuple(parts))
)
steps_strategy = st.lists(st.tuples(needs_strategy, st.integers(0, 5)), min_size=1, max_size=5)


@settings(max_examples=300, deadline=None)
@given(rooms_strategy, steps_strategy)
def test_something_is_promised_exactly_when_all_promises_can_be_kept_together(
    rooms: list[Room], steps: list[tuple[PodRequests, int]]
) -> None:
    of, kept = board(*rooms), list[Placement]()
    for needs, given_back in steps:
        if given_back < len(kept):
            of.give_back(kept.pop(given_back))
        pods = [one for one, count in needs for _ in range(count)]
        found = of.place(needs)
        assert isinstance(found, Placement) == tried(rooms, [*pods_of(kept), *pods]), found
        if isinstance(found, Placement):
            kept.append(found)
        else:
            assert not found.undecided


@settings(max_examples=300, deadline=None)
@given(rooms_strategy, st.lists(needs_strategy, min_size=1, max_size=3))
def test_what_is_given_back_leaves_no_trace(rooms: list[Room], asked: list[PodRequests]) -> None:
    of = board(*rooms)
    first = [of.fits(needs) for needs in asked]
    promised = [of.place(needs) for needs in asked]
    for found in promised:
        if isinstance(found, Placement):
            of.give_back(found)
            of.give_back(found)
    assert [of.fits(needs) for needs in asked] == first


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.builds(nodes, st.sampled_from([A, B]), st.integers(0, 4), st.integers(1, 2)), min_size=1, max_size=3),
    st.lists(st.tuples(st.builds(need, st.integers(1, 3), where_strategy), st.integers(1, 2)), min_size=1, max_size=3),
)
def test_promised_pods_disturb_exactly_when_nodes_that_they_may_get_spoil_another_promise(
    rooms: list[Room], asked: list[tuple[PodRequest, int]]
) -> None:
    of = board(*rooms)
    found = [of.place(((one, count),)) for one, count in asked]
    kept = [placement for placement in found if isinstance(placement, Placement)]
    for size in (1, 2):
        for chosen in combinations(kept, size):
            rest = pods_of([other for other in kept if other not in chosen])
            part = joined(*(placement.needs for placement in chosen))
            assert of.disturbs(part) == spoilt(rooms, pods_of(chosen), rest)


@settings(max_examples=200, deadline=None)
@given(rooms_strategy, needs_strategy)
def test_what_fits_fits_by_sums_as_well(rooms: list[Room], needs: PodRequests) -> None:
    of = board(*rooms)
    if of.fits(needs) is None:
        assert of.sums_suffice(needs)


def test_sums_are_taken_for_every_set_of_kinds() -> None:
    of = board(nodes(A, 4, 2), nodes(B, 8, 2))
    assert of.fits(((need(8, ON_A), 1),)) is not None
    assert of.sums_suffice(((need(8, ON_A), 1),))
    assert not of.sums_suffice(((need(8, ON_A), 2),))
    assert of.sums_suffice(((need(8, ON_A), 1), (need(8), 2)))
    assert not of.sums_suffice(((need(8, ON_A), 1), (need(8), 3)))


def test_a_flexible_promise_makes_way_for_a_restricted_need() -> None:
    of = board(nodes(A, 8), nodes(B, 8))
    assert isinstance(of.place(((need(8), 1),)), Placement)
    assert isinstance(of.place(((need(8, ON_A), 1),)), Placement)
    assert not fits(of, need(1))


def crowded() -> Board:
    """Two promises; another of two NPUs fits only when both change places."""
    of = board(nodes(A, 4), nodes(A, 3))
    assert all(isinstance(of.place(((need(npus), 1),)), Placement) for npus in (2, 3))
    return of


def test_promises_change_places_where_something_fits_only_so() -> None:
    assert fits(crowded(), need(2))


def test_a_board_that_has_spent_its_effort_says_so_and_keeps_what_it_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.decide.room.promises.EFFORT", 0)
    of = crowded()
    found = of.fits(((need(2), 1),))
    assert str(found).endswith(", 0 there; not every placement was tried")
    assert of.disturbs(((need(2), 1),))
    assert fits(of, need(1), need(1))


def test_a_search_that_is_given_up_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.decide.room.placement.STEPS", 2)
    asked = ((need(2), 2), (need(3), 2))
    found = board(nodes(A, 4), nodes(A, 3), nodes(A, 2)).fits(asked)
    assert str(found).endswith("no placement holds all of it; not every placement was tried")


def test_a_shortage_names_the_resource_the_nodes_and_how_many_there_are() -> None:
    where = Where((("accelerator-type", "module-910b-8"),))
    kind = NodeClass(where.selector)
    found = board(nodes(kind, 8), nodes(kind, 4)).fits(((need(8, where), 2),))
    assert str(found) == "needs 2 nodes with 8 free huawei.com/Ascend910 (accelerator-type=module-910b-8), 1 there"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (((need(8, cpu=64_500), 1),), "needs 1 node with 64.5 free cpu, 0 there"),
        (((need(4), 3),), "needs room for 3 times 4 free huawei.com/Ascend910, 2 there"),
        (((PodRequest((("pods", 1),)), 12),), "needs room for 12 more pods, 10 there"),
        (
            ((PodRequest((("example.com/gpu", 1), ("pods", 1))), 1),),
            "needs 1 node with 1 free example.com/gpu, 0 there",
        ),
        (
            ((need(5), 1), (need(6), 1)),
            "needs 1 node with 5 free huawei.com/Ascend910 and more beside it, no placement holds all of it",
        ),
    ],
)
def test_the_words_of_other_shortages(asked: PodRequests, words: str) -> None:
    assert str(board(nodes(A, 8, cpu=50)).fits(asked)) == words


def test_affinity_is_named_in_a_shortage() -> None:
    term = (Requirement("pool", "In", ("x", "y")), Requirement("old", "DoesNotExist"))
    found = board().fits(((need(8, Where(affinity=(term,))), 1),))
    assert "(pool In x, y and old DoesNotExist)" in str(found)


def test_room_that_comes_back_counts_only_where_asked_for() -> None:
    rooms = (
        nodes(A, 0, due_back=(4, 0, 0)),
        nodes(A, 4, due_back=(4, 0, 0)),
        nodes(B, 8, schedulable=False, due_back=(8, 100, 10)),
    )
    assert not fits(board(*rooms), need(8))
    assert fits(board(*rooms, due_back=True), need(8), need(8), need(4))
    assert not fits(board(*rooms, due_back=True), need(8), need(8), need(5))


def test_a_passing_taint_repels_until_it_passes_and_only_who_does_not_tolerate_it() -> None:
    pressure = Taint("node.kubernetes.io/memory-pressure")
    patient = Where(tolerations=(Toleration(pressure.key, "Exists"),))
    room = nodes(A, 8, passing=(pressure,))
    assert not fits(board(room), need(8))
    assert fits(board(room), need(8, patient))
    assert fits(board(room, due_back=True), need(8))


def test_candidates_are_a_static_fact() -> None:
    of = board(nodes(A, 0), nodes(B, 8, schedulable=False))
    assert of.candidates(((need(1), 1),)) == {A, B}
    assert of.candidates(((need(1, ON_A), 1), (need(1, ON_B), 1))) == {A, B}
    assert of.candidates(((need(1, ON_A), 1),)) == {A}


def test_what_would_never_fit_is_known_from_empty_nodes() -> None:
    of = emptied(Capacity(RESOURCES, (nodes(A, -3, 2),)))
    assert of.fits(((need(8), 2),)) is None
    assert of.fits(((need(8), 3),)) is not None
    assert of.fits(((need(9), 1),)) is not None


def test_needs_meet_where_a_node_has_room_for_either() -> None:
    of = board(nodes(A, 8), nodes(B, 4))
    assert of.contended(((need(8), 1),), ((need(2), 1),))
    assert not of.contended(((need(8), 1),), ((need(2, ON_B), 1),))
    assert not of.contended(((need(9), 1),), ((need(2), 1),))


def test_absurd_numbers_of_pods_are_short_at_once() -> None:
    found = board(nodes(A, 8)).fits(((need(1), 10**12),))
    assert isinstance(found, Shortage)
    assert (found.wanted, found.there) == (10**12, 8)


def test_more_pods_than_are_ever_placed_count_as_finding_no_place() -> None:
    huge = Room(A, (1 << 40, 0, 1 << 40), (1 << 40, 0, 1 << 40))
    found = board(huge).fits(((need(1), 20_000),))
    assert isinstance(found, Shortage)
    assert found.undecided


def test_needs_of_nothing_always_fit() -> None:
    assert board().fits(()) is None
    assert board().fits(((need(1), 0),)) is None
    assert terms_of([]).resources == ("pods",)
