"""What placing costs on 5,000 nodes of 20 kinds with 50,000 pods: events, memory of the index, a board, promises.

python -m tests.bench.bench_capacity
"""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import Callable

from scaler.observe.capacity import CapacityIndex, NodeFacts, PodLoad
from scaler.plan.room.capacity import Capacity, Need, Needs, Where, joined
from scaler.plan.room.placement import Board, Placement

NODES, KINDS, PODS = 5_000, 20, 50_000
FLOORS = 200
NPU = "huawei.com/Ascend910"


def need(kind: int, npus: int = 8, cpu: int = 64_000) -> Need:
    where = Where((("accelerator-type", f"type-{kind}"),))
    return Need((("cpu", cpu), (NPU, npus), ("memory", 256 << 30), ("pods", 1)), where)


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
        "floors_of_one_kind_each_ms": _floors(capacity, [((need(i % KINDS), 2),) for i in range(FLOORS)]),
        "floors_that_do_not_fit_ms": _floors(capacity, [((need(0), 2),) for _ in range(FLOORS * 5)]) / 5,
        "floors_that_may_sit_anywhere_ms": _floors(capacity, _mixed()),
        "floors_of_many_sizes_that_do_not_fit_ms": _floors(capacity, _many_sizes(10)),
        "which_of_the_promised_may_go_anywhere_ms": _disturbing(capacity),
        **_without_common_measure(index),
        "memory_of_the_index_mb": _memory(),
    }


def _mixed() -> list[Needs]:
    """Half of the floors may sit on any kind, half are bound to one: promises have to move."""
    anywhere = Need(need(0).requests)
    return [joined(((anywhere if i % 2 else need(i % KINDS), 2),)) for i in range(FLOORS)]


def _many_sizes(pods: int) -> list[Needs]:
    """No two floors ask for the same."""
    return [((need(i % KINDS, 4, 32_000 + 32_000 * i), pods),) for i in range(FLOORS)]


def _disturbing(capacity: Capacity) -> float:
    """Milliseconds to ask of every flexible floor whether it could spoil another; all are promised."""

    def ask() -> None:
        board = Board(capacity)
        for floor in _mixed():
            board.place(floor)
        for floor in _mixed()[1::2]:
            board.disturbs(floor)

    return _best(ask) * 1e3 - _floors(capacity, _mixed())


def _without_common_measure(index: CapacityIndex) -> dict[str, float]:
    """One pod that asks for an odd number of bytes: hardly two nodes have the same room then."""
    odd = Need((("memory", (1 << 30) + 1), ("pods", 1)))
    capacity = index.capacity([*NEEDS, odd])
    result = {
        "odd_rooms": len(capacity.rooms),
        "odd_capacity_after_an_event_ms": _best(lambda: _changed(index, PodLoad("node-1", odd.requests), odd)) * 1e3,
        "odd_board_ms": _best(lambda: Board(capacity)) * 1e3,
        "odd_floors_ms": _floors(capacity, [((need(i % KINDS), 2),) for i in range(FLOORS)]),
        "odd_floors_that_do_not_fit_ms": _floors(capacity, _many_sizes(500)),
    }
    index.capacity(NEEDS)
    return result


def _event(index: CapacityIndex, pod: PodLoad) -> float:
    def both() -> None:
        index.pod_changed(None, pod)
        index.pod_changed(pod, None)

    return _best(both, 1000) * 1e6 / 2


def _changed(index: CapacityIndex, pod: PodLoad, *more: Need) -> None:
    index.pod_changed(None, pod)
    index.capacity([*NEEDS, *more])
    index.pod_changed(pod, None)


def _places(capacity: Capacity, floors: list[Needs]) -> float:
    board = Board(capacity)

    def once() -> None:
        found = board.place(floors[0])
        if isinstance(found, Placement):
            board.give_back(found)

    return _best(once, 1000) * 1e6


def _floors(capacity: Capacity, floors: list[Needs]) -> float:
    """Milliseconds for all of them on one board."""
    return _best(lambda: list(map(Board(capacity).place, floors))) * 1e3


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
