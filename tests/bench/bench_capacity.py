"""What placing costs on 5,000 nodes of 20 kinds with 50,000 pods: events, memory of the index, a board, promises.

python -m tests.bench.bench_capacity
"""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import Callable

from scaler.decide.nodes import Capacity, PodRequest, PodRequests, Where, joined
from scaler.decide.room.placement import Board, Placement
from scaler.observe.capacity import CapacityIndex, NodeFacts, PodLoad

NODES, KINDS, PODS = 5_000, 20, 50_000
MINIMUMS = 200
NPU = "huawei.com/Ascend910"


def need(kind: int, npus: int = 8, cpu: int = 64_000) -> PodRequest:
    where = Where((("accelerator-type", f"type-{kind}"),))
    return PodRequest((("cpu", cpu), (NPU, npus), ("memory", 256 << 30), ("pods", 1)), where)


NEEDS = [need(kind, npus, 8_000 * npus) for kind in range(KINDS) for npus in (4, 8)]


def node(number: int) -> NodeFacts:
    labels = {f"label.example/{i}": f"value-{i}" for i in range(12)} | {"kubernetes.io/hostname": f"node-{number}"}
    amounts = {NPU: 8, "cpu": 191_000, "memory": (1500 << 30) + number % 7, "pods": 110, "ephemeral-storage": 1 << 40}
    labels["accelerator-type"] = f"type-{number % KINDS}"
    return NodeFacts(f"node-{number}", labels, (), amounts, amounts)


def load(number: int, chance: random.Random) -> PodLoad:
    """Nine of ten are small and of all sizes, the tenth is an NPU pod; a tenth of the nodes keeps its NPUs free."""
    name = f"node-{number % NODES}"
    if number < NODES * 9 // 10:
        npus = chance.choice((4, 8, 8))
        return PodLoad(name, tuple(sorted(((NPU, npus), ("cpu", 8_000 * npus), ("memory", 256 << 30), ("pods", 1)))))
    return PodLoad(name, (("cpu", chance.randrange(10, 500)), ("memory", chance.randrange(1 << 29)), ("pods", 1)))


def filled() -> CapacityIndex:
    index, chance = CapacityIndex(), random.Random(0)
    index.capacity(NEEDS)
    for number in range(NODES):
        index.node_changed(None, node(number))
    for number in range(PODS):
        index.pod_changed(None, load(number, chance))
    return index


def measure() -> dict[str, float]:
    index = filled()
    gc.collect()
    gc.freeze()
    capacity = index.capacity(NEEDS)
    pod = PodLoad("node-1", (("cpu", 100), (NPU, 8), ("pods", 1)))
    return {
        "rooms": len(capacity.rooms),
        "event_us": _event(index, pod),
        "capacity_after_an_event_ms": _best(lambda: _changed(index, pod)) * 1e3,
        "tell_apart_anew_ms": _best(lambda: (index.capacity(NEEDS[:1]), index.capacity(NEEDS))) * 500,
        "board_ms": _best(lambda: Board(capacity)) * 1e3,
        "place_2_pods_us": _places(capacity, [((need(3), 2),)]),
        "minimums_of_one_kind_each_ms": _minimums(capacity, [((need(i % KINDS), 2),) for i in range(MINIMUMS)]),
        "minimums_that_do_not_fit_ms": _minimums(capacity, [((need(0), 2),) for _ in range(MINIMUMS * 5)]) / 5,
        "minimums_that_may_sit_anywhere_ms": _minimums(capacity, _mixed()),
        "minimums_of_many_sizes_that_do_not_fit_ms": _minimums(capacity, _many_sizes(10)),
        "which_of_the_promised_may_go_anywhere_ms": _disturbing(capacity),
        **_without_common_measure(index),
        "memory_of_the_index_mb": _memory(),
    }


def _mixed() -> list[PodRequests]:
    """Half of the minimums may sit on any kind, half are bound to one: promises have to move."""
    anywhere = PodRequest(need(0).requests)
    return [joined(((anywhere if i % 2 else need(i % KINDS), 2),)) for i in range(MINIMUMS)]


def _many_sizes(pods: int) -> list[PodRequests]:
    """No two minimums ask for the same."""
    return [((need(i % KINDS, 4, 32_000 + 32_000 * i), pods),) for i in range(MINIMUMS)]


def _disturbing(capacity: Capacity) -> float:
    """Milliseconds to ask of every flexible minimum whether it could spoil another; all are promised."""

    def ask() -> None:
        board = Board(capacity)
        for minimum in _mixed():
            board.place(minimum)
        for minimum in _mixed()[1::2]:
            board.disturbs(minimum)

    return _best(ask) * 1e3 - _minimums(capacity, _mixed())


def _without_common_measure(index: CapacityIndex) -> dict[str, float]:
    """One pod that asks for an odd number of bytes: hardly two nodes have the same room then."""
    odd = PodRequest((("memory", (1 << 30) + 1), ("pods", 1)))
    capacity = index.capacity([*NEEDS, odd])
    result = {
        "odd_rooms": len(capacity.rooms),
        "odd_capacity_after_an_event_ms": _best(lambda: _changed(index, PodLoad("node-1", odd.requests), odd)) * 1e3,
        "odd_board_ms": _best(lambda: Board(capacity)) * 1e3,
        "odd_minimums_ms": _minimums(capacity, [((need(i % KINDS), 2),) for i in range(MINIMUMS)]),
        "odd_minimums_that_do_not_fit_ms": _minimums(capacity, _many_sizes(500)),
    }
    index.capacity(NEEDS)
    return result


def _event(index: CapacityIndex, pod: PodLoad) -> float:
    def both() -> None:
        index.pod_changed(None, pod)
        index.pod_changed(pod, None)

    return _best(both, 1000) * 1e6 / 2


def _changed(index: CapacityIndex, pod: PodLoad, *more: PodRequest) -> None:
    index.pod_changed(None, pod)
    index.capacity([*NEEDS, *more])
    index.pod_changed(pod, None)


def _places(capacity: Capacity, minimums: list[PodRequests]) -> float:
    board = Board(capacity)

    def once() -> None:
        found = board.place(minimums[0])
        if isinstance(found, Placement):
            board.give_back(found)

    return _best(once, 1000) * 1e6


def _minimums(capacity: Capacity, minimums: list[PodRequests]) -> float:
    """Milliseconds for all of them on one board."""
    return _best(lambda: list(map(Board(capacity).place, minimums))) * 1e3


def _memory() -> float:
    """Megabytes of an index, without the facts of nodes and pods that are kept elsewhere anyway."""
    nodes, chance = [node(number) for number in range(NODES)], random.Random(0)
    pods = [load(number, chance) for number in range(PODS)]
    tracemalloc.start()
    index = CapacityIndex()
    index.capacity(NEEDS)
    for facts in nodes:
        index.node_changed(None, facts)
    for pod in pods:
        index.pod_changed(None, pod)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size / 1e6


def _best(call: Callable[[], object], rounds: int = 10) -> float:
    """Seconds of the fastest round."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    for name, value in measure().items():
        print(f"{name} {value:.3f}")


if __name__ == "__main__":
    main()
