"""What trial placement costs on 5,000 nodes that are all unlike, of 20 classes; milliseconds, best
of several rounds.

python -m tests.bench.bench_placement"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable
from itertools import chain

import msgspec

from scaler.decide.nodes import Node, NodeClass, Nodes, PodRequest, PodRequests, Where
from scaler.decide.room.classes import NodeIndex
from scaler.decide.room.placement import Placement, Reservation

NODES = 5_000
CLASSES = 20
RESERVATIONS = 200
FAILURES = 1_000
SUPER_PODS = 100
NPU = "huawei.com/Ascend910"
RESOURCES = (NPU, "cpu", "memory", "pods")
ROUNDS = 10


def request(npus: int, node_class: int | None = None, cpu: int = 8_000) -> PodRequest:
    where = Where() if node_class is None else Where((("type", str(node_class)),))
    return PodRequest(
        ((NPU, npus), ("cpu", cpu * npus), ("memory", npus << 35), ("pods", 1)), where
    )


REQUESTS = [
    request(8),
    request(4),
    request(2),
    request(1),
    *(request(4, number) for number in range(4)),
]
MISSING = [(request(8, number, 23_800), 3) for number in range(8)]


def unlike(*, full: bool = False) -> Nodes:
    """Odd free amounts. `full`: no node has eight devices."""
    chance = random.Random(0)
    some = list[Node]()
    whole = (8, 191_000, 1500 << 30, 110)
    for number in range(NODES):
        npus = chance.choice((0, 1, 2, 3, 4, 6) if full else (0, 0, 2, 4, 8, 8))
        free = (
            npus,
            chance.randrange(40_000, 191_000),
            chance.randrange(400 << 30, 1500 << 30),
            chance.randrange(30, 110),
        )
        some.append(
            Node(f"n{number:04}", NodeClass((("type", str(number % CLASSES)),)), whole, free)
        )
    return Nodes(RESOURCES, tuple(some))


def changed(nodes: Nodes, number: int) -> Nodes:
    """So many nodes have a little less free."""
    now = list(nodes.nodes)
    for at in range(0, NODES, NODES // number):
        free = now[at].free
        now[at] = msgspec.structs.replace(now[at], free=(*free[:3], free[3] - 1))
    return Nodes(RESOURCES, tuple(now))


def decision(nodes: NodeIndex) -> None:
    """200 reservations of three pods, and 1,000 questions that are answered with no."""
    of = Placement(nodes)
    for number in range(RESERVATIONS):
        found = of.reserve(((REQUESTS[number % len(REQUESTS)], 3),))
        assert isinstance(found, Reservation)
    for number in range(FAILURES):
        assert of.fits((MISSING[number % 8],)) is not None


def cold_and_warm() -> dict[str, float]:
    nodes = unlike()
    worlds = [nodes, changed(nodes, 10)]
    index = NodeIndex(nodes)
    turn = iter(range(1 << 30))

    def after() -> NodeIndex:
        nonlocal index
        index = index.after(worlds[next(turn) % 2])
        return index

    return {
        "decision_without_cache_ms": best(lambda: decision(NodeIndex(nodes))),
        "decision_nothing_changed_ms": best(lambda: decision(index)),
        "decision_ten_nodes_changed_ms": best(lambda: decision(after())),
        "construction_ten_nodes_changed_ms": best(lambda: Placement(after())),
    }


def full() -> dict[str, float]:
    """Everything that fits is reserved; then 1,000 that differ and do not fit, and whether any
    spoils another."""
    nodes = NodeIndex(unlike(full=True))
    kept = list[PodRequests]()

    def fill() -> Placement:
        of = Placement(nodes)
        kept.clear()
        for number in range(RESERVATIONS):
            pods = ((request(4, number % CLASSES), 2), (request(1 + number % 3), 1))
            if isinstance(of.reserve(pods), Reservation):
                kept.append(pods)
        return of

    def misses() -> None:
        for number in range(FAILURES):
            of.fits(((request(4), 1), (request(8, number % CLASSES, 1_000 + number), 1)))

    of = fill()
    return {
        "reserve_200_mixed_ms": best(fill),
        "1000_different_failures_ms": best(misses, 1),
        "may_invalidate_each_ms": best(lambda: of.may_invalidate(kept[0], chain(*kept[1:20]))),
    }


def in_super_pods() -> dict[str, float]:
    """5,000 nodes in 100 super-pods, of which a tenth is taken. 200 services reserve a block of
    four nodes and one of two each, and 200 ask for a block that no super-pod has."""
    chance = random.Random(0)
    whole = (16, 191_000, 1500 << 30, 110)
    some = []
    for number in range(NODES):
        free = (0, *whole[1:]) if chance.random() < 0.1 else whole
        made = Node(f"n{number:04}", NodeClass(), whole, free, super_pod=number % SUPER_PODS)
        some.append(made)
    nodes = Nodes(RESOURCES, tuple(some))
    index = NodeIndex(nodes)
    decode = msgspec.structs.replace(request(16, cpu=1_000), block=4)
    prefill = msgspec.structs.replace(request(16, cpu=1_000), block=2)
    minimum = ((decode, 4), (prefill, 2))
    of = Placement(index)

    def decide(nodes: NodeIndex) -> None:
        nonlocal of
        of = Placement(nodes)
        for _ in range(RESERVATIONS):
            assert isinstance(of.reserve(minimum), Reservation)
        for number in range(RESERVATIONS):
            large = msgspec.structs.replace(decode, block=51)
            assert of.fits(((large, 51), (request(1 + number % 8), 1 + number))) is not None

    return {
        "blocks_without_cache_ms": best(lambda: decide(NodeIndex(nodes))),
        "blocks_nothing_changed_ms": best(lambda: decide(index)),
        "blocks_may_invalidate_ms": best(
            lambda: of.may_invalidate(((prefill, 2),), [(decode, 4)] * 20, own=False)
        ),
    }


def moving() -> dict[str, float]:
    """200 flexible pods sit on all nodes of two classes; 100 restricted ones push half of them
    away. And in vain."""
    some = [
        Node(
            f"n{number:04}",
            NodeClass((("type", str(number % 2)),)),
            (8, 191_000, 1 << 40, 110),
            (8, 191_000 - number, 1 << 40, 110),
        )
        for number in range(300)
    ]
    nodes = NodeIndex(Nodes(RESOURCES, tuple(some)))

    def push() -> None:
        of = Placement(nodes)
        for _ in range(150):
            assert isinstance(of.reserve(((request(8), 1),)), Reservation)
        for _ in range(150):
            assert isinstance(of.reserve(((request(8, 0), 1),)), Reservation)
        assert of.fits(((request(4, 1), 2),)) is not None

    return {"moves_150_ms": best(push)}


def best(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def main() -> None:
    gc.freeze()
    for name, value in (cold_and_warm() | full() | in_super_pods() | moving()).items():
        print(f"{name} {value:.3f}")


if __name__ == "__main__":
    main()
