"""Blocks in the trial placement, against trying every way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.decide.nodes import Node, NodeClass, Nodes, PodRequest, PodRequests, Room
from scaler.decide.room.blocks import most_blocks_lost
from scaler.decide.room.classes import NodeIndex
from scaler.decide.room.placement import Placement, Reservation
from scaler.decide.room.shortage import Shortage

CHIPS = 16
ANY = NodeClass()
Free = tuple[int, ...]
"""Free nodes of each super-pod."""


def request(block: int) -> PodRequest:
    return PodRequest((("x/npu", CHIPS), ("pods", 1)), block=block)


def pods(blocks: Sequence[int]) -> PodRequests:
    """One pod or block for each number of nodes; 0 = a pod of its own."""
    counts = Counter(blocks)
    return tuple((request(size), max(1, size) * n) for size, n in sorted(counts.items()))


def placement(free: Free) -> Placement:
    found = []
    for number, nodes in enumerate(free):
        for index in range(nodes):
            whole = (CHIPS, 10)
            found.append(Node(f"s{number}n{index}", ANY, whole, whole, super_pod=number))
    return Placement(
        NodeIndex(Nodes(("x/npu", "pods"), tuple(sorted(found, key=lambda n: n.name))))
    )


def ways(free: Free, blocks: Sequence[int]) -> Iterator[Free]:
    """What is left, for every way to place these blocks, each where it fits."""
    if not blocks:
        yield free
        return
    size = max(1, blocks[0])
    for number, nodes in enumerate(free):
        if nodes >= size:
            left = (*free[:number], nodes - size, *free[number + 1 :])
            yield from ways(left, blocks[1:])


def can(free: Free, blocks: Sequence[int]) -> bool:
    return any(True for _ in ways(free, blocks))


FREE = st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple)
BLOCKS = st.lists(st.sampled_from([0, 2, 4]), max_size=4)


@given(FREE, BLOCKS)
@settings(max_examples=300, deadline=None)
def test_blocks_fit_exactly_where_a_way_exists(free: Free, blocks: list[int]) -> None:
    """Fits: sizes of which each is a multiple of the next are placed where any way exists."""
    found = placement(free).fits(pods(blocks))
    assert (found is None) == can(free, blocks)


@given(FREE, st.lists(st.sampled_from([0, 2, 3, 4]), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_what_is_said_to_fit_nowhere_fits_nowhere(free: Free, blocks: list[int]) -> None:
    found = placement(free).fits(pods(blocks))
    if found is None:
        assert can(free, blocks)
    elif not found.undecided:
        assert not can(free, blocks)


@given(FREE, BLOCKS, BLOCKS)
@settings(max_examples=300, deadline=None)
def test_one_by_one_and_together_is_the_same_room(
    free: Free, first: list[int], second: list[int]
) -> None:
    """Reserved blocks move where others fit only then."""
    trial = placement(free)
    if isinstance(trial.reserve(pods(first)), Shortage):
        return
    found = trial.fits(pods(second))
    assert (found is None) == can(free, [*first, *second])


@given(FREE, BLOCKS, BLOCKS)
@settings(max_examples=400, deadline=None)
def test_what_may_not_invalidate_a_reservation_never_does(
    free: Free, reserved: list[int], more: list[int]
) -> None:
    """6b, 7b: wherever the scheduler puts `more`, in any order, the others find their blocks."""
    trial = placement(free)
    if isinstance(trial.reserve(pods(reserved)), Shortage) or not more:
        return
    if isinstance(trial.reserve(pods(more)), Shortage):
        return
    if not trial.may_invalidate(pods(more), (), own=False):
        for some in set(combinations(more, len(more))):
            for left in ways(free, some):
                assert can(left, reserved), (free, reserved, more, left)


@given(FREE, st.integers(2, 4), st.lists(st.integers(1, 4), max_size=3))
@settings(max_examples=300, deadline=None)
def test_no_way_costs_more_blocks_than_are_counted(
    free: Free, block: int, takers: list[int]
) -> None:
    before = sum(nodes // block for nodes in free)
    spare = [nodes % block for nodes in free if nodes >= block]
    most = most_blocks_lost(block, spare, Counter(takers))
    for left in ways(free, takers):
        assert before - sum(nodes // block for nodes in left) <= most


def test_a_block_is_taken_of_the_super_pod_with_the_fewest_free_nodes() -> None:
    trial = placement((4, 3))
    assert isinstance(trial.reserve(pods([2])), Reservation)
    assert trial.fits(pods([4])) is None


def test_room_that_pods_leave_counts_for_blocks() -> None:
    found = []
    for number in range(4):
        free = (CHIPS, 10) if number < 2 else (0, 9)
        found.append(Node(f"s0n{number}", ANY, (CHIPS, 10), free, super_pod=0))
    trial = Placement(NodeIndex(Nodes(("x/npu", "pods"), tuple(found))))
    assert trial.fits(pods([4])) is not None
    victims = [("s0n2", request(0)), ("s0n3", request(0))]
    assert trial.fits_without(victims, pods([4]), Room.FREED) is None
    assert trial.fits_without(victims[:1], pods([4]), Room.FREED) is not None
    assert trial.places_gained(victims, pods([4]), Room.FREED) == 2
    assert trial.fits(pods([4])) is not None, "nothing is reserved"


def test_a_shortage_of_blocks_says_how_many_there_are() -> None:
    found = placement((4, 3)).fits(pods([4, 4]))
    assert str(found).startswith(
        "needs 2 blocks of 4 nodes of one super-pod, 1 free; each node with 16 free"
    )
