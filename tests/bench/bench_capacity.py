"""What the index of free room costs on 5,000 nodes of 20 kinds with 50,000 pods: events, the nodes
after one, memory.

python -m tests.bench.bench_capacity; tests.bench.bench_placement measures what is done with it."""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import Callable

from msgspec.structs import replace

from scaler.decide.nodes import PodRequest, Where
from scaler.informers.pods import PodRecord, read_pod
from scaler.informers.records import NodeFacts
from scaler.state.capacity import CapacityIndex
from scaler.workloads.pod_requests import Requests

NODES = 5_000
KINDS = 20
PODS = 50_000
NPU = "huawei.com/Ascend910"


def need(kind: int, npus: int = 8, cpu: int = 64_000) -> PodRequest:
    where = Where((("accelerator-type", f"type-{kind}"),))
    return PodRequest((("cpu", cpu), (NPU, npus), ("memory", 256 << 30), ("pods", 1)), where)


NEEDS = [need(kind, npus, 8_000 * npus) for kind in range(KINDS) for npus in (4, 8)]


def node(number: int) -> NodeFacts:
    labels = {f"label.example/{i}": f"value-{i}" for i in range(12)} | {
        "kubernetes.io/hostname": f"node-{number}"
    }
    amounts = {
        NPU: 8,
        "cpu": 191_000,
        "memory": (1500 << 30) + number % 7,
        "pods": 110,
        "ephemeral-storage": 1 << 40,
    }
    labels["accelerator-type"] = f"type-{number % KINDS}"
    return NodeFacts(f"node-{number}", labels, (), amounts, amounts)


NO_POD = read_pod({"metadata": {}})


def takes(node: str, requests: Requests) -> PodRecord:
    return replace(NO_POD, node=node, requests=requests)


def load(number: int, chance: random.Random) -> PodRecord:
    """Nine of ten are small and of all sizes, the tenth is an NPU pod; a tenth of the nodes keeps
    its NPUs free."""
    name = f"node-{number % NODES}"
    if number < NODES * 9 // 10:
        npus = chance.choice((4, 8, 8))
        return takes(
            name,
            tuple(sorted(((NPU, npus), ("cpu", 8_000 * npus), ("memory", 256 << 30), ("pods", 1)))),
        )
    return takes(
        name,
        (("cpu", chance.randrange(10, 500)), ("memory", chance.randrange(1 << 29)), ("pods", 1)),
    )


def filled() -> CapacityIndex:
    index = CapacityIndex()
    chance = random.Random(0)
    index.nodes(NEEDS)
    for number in range(NODES):
        facts = node(number)
        index.node_changed(facts.name, facts)
    for number in range(PODS):
        index.pod_changed(None, load(number, chance))
    return index


def measure() -> dict[str, float]:
    index = filled()
    gc.collect()
    gc.freeze()
    pod = takes("node-1", (("cpu", 100), (NPU, 8), ("pods", 1)))
    odd = PodRequest((("memory", (1 << 30) + 1), ("pods", 1)))
    return {
        "nodes": len(index.nodes(NEEDS).nodes),
        "event_us": _event(index, pod),
        "nodes_after_an_event_ms": _best(lambda: _changed(index, pod)) * 1e3,
        "nodes_at_rest_us": _best(lambda: index.nodes(NEEDS)) * 1e6,
        "tell_apart_anew_ms": _best(lambda: (index.nodes(NEEDS[:1]), index.nodes(NEEDS))) * 500,
        "beside_an_odd_amount_ms": _best(
            lambda: _changed(index, takes("node-1", odd.requests), odd)
        )
        * 1e3,
        "memory_of_the_index_mb": _memory(),
    }


def _event(index: CapacityIndex, pod: PodRecord) -> float:
    def both() -> None:
        index.pod_changed(None, pod)
        index.pod_changed(pod, None)

    return _best(both, 1000) * 1e6 / 2


def _changed(index: CapacityIndex, pod: PodRecord, *more: PodRequest) -> None:
    index.pod_changed(None, pod)
    index.nodes([*NEEDS, *more])
    index.pod_changed(pod, None)


def _memory() -> float:
    """Megabytes of an index, without the facts of nodes and pods that are kept elsewhere anyway."""
    nodes = [node(number) for number in range(NODES)]
    chance = random.Random(0)
    pods = [load(number, chance) for number in range(PODS)]
    tracemalloc.start()
    index = CapacityIndex()
    index.nodes(NEEDS)
    for facts in nodes:
        index.node_changed(facts.name, facts)
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
