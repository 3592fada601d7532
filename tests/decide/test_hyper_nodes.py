"""HyperNodes of Volcano in the trial placement, against trying every way; and a service whose
instances each have to be in one HyperNode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.decide.nodes import HyperNode, Node, NodeClass, Nodes, PodRequest, PodRequests, Room
from scaler.decide.room.classes import NodeIndex
from scaler.decide.room.placement import Placement, Reservation
from scaler.decide.room.shortage import Shortage

CHIPS = 8
ANY = NodeClass()
Leaves = tuple[tuple[int, ...], ...]
"""The free places of each node of each HyperNode of tier 1. Two of these make one of tier 2; the
last one is in none of that tier where their number is odd."""
Left = tuple[int, ...]
"""Free places of each node."""


class Block(NamedTuple):
    size: int
    tier: str
    """ "" = a pod of its own."""


def request(size: int, tier: str, beside: str = "", npus: int = CHIPS) -> PodRequest:
    block = size if tier else 0
    return PodRequest((("x/npu", npus), ("pods", 1)), block=block, tier=tier, beside=beside)


def pods(blocks: Sequence[Block]) -> PodRequests:
    found = [(request(*one), one.size * number) for one, number in Counter(blocks).items()]
    return tuple(sorted(found))


def chain(leaf: int, leaves: Leaves) -> tuple[HyperNode, ...]:
    found = [HyperNode(1, f"leaf{leaf}", "rack")]
    if leaf // 2 * 2 + 1 < len(leaves):
        found.append(HyperNode(2, f"spine{leaf // 2}", "zone"))
    return tuple(found)


def placement(leaves: Leaves, *, hyper: bool = True) -> Placement:
    found = []
    for leaf, nodes in enumerate(leaves):
        for index, places in enumerate(nodes):
            whole = (CHIPS * places, 10)
            hyper_nodes = chain(leaf, leaves) if hyper else ()
            name = f"l{leaf}n{index}"
            found.append(Node(name, ANY, whole, whole, hyper_nodes=hyper_nodes))
    return Placement(NodeIndex(Nodes(("x/npu", "pods"), tuple(found))))


def sets(leaves: Leaves, tier: str) -> list[list[int]]:
    """The indexes of the nodes that a block of this tier may take, for each HyperNode."""
    of_leaf: dict[tuple[int, int], list[int]] = {}
    index = 0
    for leaf, nodes in enumerate(leaves):
        for _ in nodes:
            has_spine = leaf // 2 * 2 + 1 < len(leaves)
            number = (2, leaf // 2) if tier in ("2", "=zone") and has_spine else (1, leaf)
            of_leaf.setdefault(number, []).append(index)
            index += 1
    return list(of_leaf.values())


def ways(leaves: Leaves, free: Left, blocks: Sequence[Block]) -> Iterator[Left]:
    """What is left, for every way to place these blocks."""
    if not blocks:
        yield free
        return
    size, tier = blocks[0]
    groups = sets(leaves, tier) if tier else [list(range(len(free)))]
    for group in groups:
        for chosen in combinations_with_replacement(group, size):
            taken = Counter(chosen)
            left = tuple([number - taken[index] for index, number in enumerate(free)])
            if min(left) >= 0:
                yield from ways(leaves, left, blocks[1:])


def first_way(leaves: Leaves, free: Left, blocks: Sequence[Block]) -> Left | None:
    return next(ways(leaves, free, blocks), None)


def all_free(leaves: Leaves) -> Left:
    return tuple([places for nodes in leaves for places in nodes])


LEAVES = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=2).map(tuple), min_size=1, max_size=3
).map(tuple)
BLOCKS = st.lists(
    st.sampled_from([Block(1, ""), Block(2, "1"), Block(2, "2"), Block(3, "=zone")]), max_size=3
)


@given(LEAVES, BLOCKS, BLOCKS)
@settings(max_examples=250, deadline=None)
def test_what_fits_has_a_way_and_what_does_not_has_none(
    leaves: Leaves, first: list[Block], second: list[Block]
) -> None:
    """Fits: all pods of a block are in one HyperNode of a tier that is no higher than allowed."""
    trial = placement(leaves)
    if isinstance(trial.reserve(pods(first)), Shortage):
        return
    found = trial.fits(pods(second))
    if found is None or not found.undecided:
        way = first_way(leaves, all_free(leaves), [*first, *second])
        assert (found is None) == (way is not None)


@given(LEAVES, BLOCKS, BLOCKS)
@settings(max_examples=250, deadline=None)
def test_what_may_not_invalidate_a_reservation_never_does(
    leaves: Leaves, reserved: list[Block], more: list[Block]
) -> None:
    """6b, 7b: wherever the scheduler puts `more`, the others find their HyperNodes."""
    trial = placement(leaves)
    if isinstance(trial.reserve(pods(reserved)), Shortage) or not more:
        return
    if isinstance(trial.reserve(pods(more)), Shortage):
        return
    if not trial.may_invalidate(pods(more), (), own=False):
        for left in set(ways(leaves, all_free(leaves), more)):
            found = first_way(leaves, left, reserved)
            assert found is not None, (leaves, reserved, more, left)


def test_pods_of_an_instance_share_nodes_of_a_hyper_node() -> None:
    trial = placement(((2, 1), (1, 1)))
    assert isinstance(trial.reserve(pods([Block(3, "1")])), Reservation)
    assert trial.fits(pods([Block(2, "1")])) is None
    assert trial.fits(pods([Block(2, "1"), Block(1, "")])) is not None


def test_a_larger_hyper_node_takes_what_no_small_one_holds() -> None:
    trial = placement(((1, 1), (1, 0)))
    assert trial.fits(pods([Block(3, "1")])) is not None
    assert trial.fits(pods([Block(3, "2")])) is None
    assert trial.fits(pods([Block(3, "=zone")])) is None
    assert trial.fits(pods([Block(3, "=rack")])) is not None


def test_bound_pods_say_which_hyper_node() -> None:
    """Its first pod is in leaf 0, where one more has room, not two."""
    trial = placement(((0, 1), (2, 2)))
    beside = request(1, "1", "l0n0")
    assert trial.fits(((beside, 1),)) is None
    assert trial.fits(((beside, 2),)) is not None
    assert trial.fits(((request(1, "1", "l1n0"), 4),)) is None
    assert trial.fits(((request(1, "1", "gone"), 1),)) is not None


def test_a_topology_that_is_not_known_asks_for_nothing() -> None:
    """What is not understood counts as met: there are no HyperNodes, or no tier of that name."""
    leaves = ((1,), (1,))
    assert placement(leaves, hyper=False).fits(pods([Block(2, "1")])) is None
    assert placement(leaves).fits(pods([Block(2, "1")])) is not None
    assert placement(leaves).fits(pods([Block(2, "=row")])) is None


def test_room_that_pods_leave_counts_in_a_hyper_node() -> None:
    trial = placement(((0, 1), (0, 0)))
    wanted = pods([Block(2, "1")])
    assert trial.fits_without([("l0n0", request(1, ""))], wanted, Room.FREED) is None
    assert trial.fits_without([("l1n0", request(1, ""))], wanted, Room.FREED) is not None
    assert trial.fits(wanted) is not None, "nothing is reserved"


def test_a_shortage_says_that_one_hyper_node_has_to_hold_all() -> None:
    found = placement(((1, 1), (1,))).fits(pods([Block(3, "1")]))
    words = "needs 1 block of 3 pods in one HyperNode, 0 free; each with 8 free"
    assert str(found).startswith(words), str(found)
