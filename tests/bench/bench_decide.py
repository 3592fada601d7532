"""How long one decision takes: 1,000 services on 5,000 nodes that are all unlike (odd free
amounts), 200 of them with a waiting minimum and 800 with scale-ups waiting; and 10,000 services at
rest of which one changed.

    python -m tests.bench.bench_decide

Beside them 700 services of blocks on 5,000 nodes in 100 super-pods, where 100 wait for a minimum.

Milliseconds of CPU. `event`: a pod of one service changed since the last decision, the cache is
kept. `node_event`: what is free on one node did. `rest`: nothing changed. `cold`: without a cache.
`unlike_pods`: one instance has pods of which no two ask for the same. Also: the answers of `scaler
plan --cases`."""

from __future__ import annotations

import gc
import itertools
import random
import time
from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec

from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide
from scaler.decide.decision import State
from scaler.decide.nodes import Node, NodeClass, Nodes, PodRequest, Requirement, Where
from scaler.decide.world import Instance, Service, ServiceKey, World
from scaler.tools.common.counts import Case
from scaler.tools.common.counts import decide as decide_counts
from tests.builders import NOW, instance, rule
from tests.decide.cluster import settle
from tests.decide.super_pods import SuperPods

SERVICES = 1000
WAITING = 200
NODES = 5000
CLASSES = 20
RESOURCES = ("huawei.com/Ascend910", "cpu", "memory", "pods")
GIB = 1 << 30
EVENTS = 600
COLD = 5
WHOLE = (8, 192_000, 1024 * GIB, 110)


@lru_cache
def request(kind: int, npus: int) -> PodRequest:
    """A pod that may run on nodes of one class, or on any for a negative number. Equal ones are one
    object, as the product makes them."""
    only = Requirement("accelerator-type", "In", (f"module-{kind}",))
    amounts = (npus, npus * 12_000, npus * 64 * GIB, 1)
    return PodRequest(
        tuple(zip(RESOURCES, amounts, strict=True)),
        Where(affinity=((only,),)) if kind >= 0 else Where(),
    )


def unlike(dice: random.Random, empty: float) -> Nodes:
    """No two nodes have the same free amounts; a few are empty, most are full or nearly so."""
    found = []
    for number in range(NODES):
        kind = NodeClass((("accelerator-type", f"module-{number % CLASSES}"),))
        npus = 8 if dice.random() < empty else dice.choice((0, 0, 0, 0, 1, 2, 3))
        free = (
            npus,
            npus * 24_000 + 13 * number,
            npus * 128 * GIB + 4096 * number,
            60 + number % 50,
        )
        found.append(Node(f"node-{number:05}", kind, WHOLE, free))
    return Nodes(RESOURCES, tuple(found))


def service(number: int, *, waits: bool, anywhere: bool) -> Service:
    """Four prefill and four decode; a waiting one runs none of them, another all but one of each
    group."""
    kind = -1 if anywhere else number % CLASSES
    needs = (((request(kind, 4), 1),), ((request(kind, 8), 2),))
    found: list[Instance] = []
    for index in range(8):
        runs = not waits and index % 4 < 3
        what = needs[index // 4]
        found.append(
            instance(
                f"{'pd'[index // 4]}{index % 4}",
                State.RUNNING if runs else State.HELD,
                uid=f"{number}-{index}",
                created=NOW - 10_000 + number,
                requests=what,
                unbound=() if runs else what,
                bound_pods=(
                    tuple((f"node-{(number * 7 + pod) % NODES:05}", what[0][0]) for pod in range(2))
                    if runs
                    else ()
                ),
            )
        )
    return Service(
        ServiceKey("default", "rule", f"s{number:05}"), tuple(found), rule("4P4D > 3P3D > 2P1D")
    )


def crowded(*, empty: float, anywhere: int) -> World:
    """A fifth of the services waits for its minimum, every other one wants to scale up."""
    services = (
        service(
            number,
            waits=(number + number // CLASSES) % (SERVICES // WAITING) == 0,
            anywhere=bool(anywhere) and number % anywhere == 0,
        )
        for number in range(SERVICES)
    )
    world = World(NOW, tuple(services), unlike(random.Random(1), empty))
    return settle(world).world


def in_super_pods() -> World:
    """2P1D of blocks of 2 and 4 nodes. Six services run in each super-pod of 50 nodes, and leave
    two nodes free; the others wait, as no block of 4 is free."""
    on = SuperPods(100, 50, {"p": 2, "d": 4})
    for number in range(700):
        name = f"s{number:04}"
        on.add(name, "2P1D > 1P1D")
        if number < 600:
            nodes = iter(on.super_pods[number // 6][number % 6 * 8 :])
            for uid in (f"{name}-p0", f"{name}-p1", f"{name}-d0"):
                on.pods[uid] = [next(nodes) for _ in on.pods[uid]]
    world = on.world()
    return msgspec.structs.replace(world, memory=decide(world).memory)


def resting(number: int) -> World:
    """Services that run all that there is of them."""
    what = ((request(-1, 4), 1),)
    ladder = rule("2P1D > 1P1D")

    def one(index: int) -> Service:
        found = tuple(
            instance(
                name,
                State.RUNNING,
                uid=f"{index}-{name}",
                requests=what,
                bound_pods=((f"node-{index % NODES:05}", what[0][0]),),
            )
            for name in ("p0", "p1", "d0")
        )
        return Service(ServiceKey("default", "rule", f"s{index:05}"), found, ladder)

    return World(NOW, tuple(one(index) for index in range(number)), unlike(random.Random(1), 0.1))


def changed(world: World, number: int) -> World:
    """A pod of one service restarted, or is ready again."""
    at = number % len(world.services)
    one = world.services[at]
    first = one.instances[0]
    other = msgspec.structs.replace(
        first, crashing=0 if first.crashing else min(1, first.bound), restarts=first.restarts
    )
    if not first.bound:
        other = msgspec.structs.replace(first, generation=first.generation + 1)
    after = msgspec.structs.replace(one, instances=(other, *one.instances[1:]))
    return msgspec.structs.replace(
        world, services=(*world.services[:at], after, *world.services[at + 1 :])
    )


def events(world: World, step: int) -> Iterator[float]:
    """Milliseconds of each decision when one pod event after the other changes one service."""
    cache = DecisionCache()
    made = decide(world, cache)
    gc.freeze()
    for number in range(EVENTS):
        world = msgspec.structs.replace(
            changed(world, number * step), memory=made.memory, now=world.now + 0.005
        )
        start = time.process_time()
        made = decide(world, cache)
        yield (time.process_time() - start) * 1e3


def with_unlike_pods(number: int) -> World:
    """200 services at rest, and one that waits: an instance of it has so many pods, no two of which
    ask for the same."""
    pods = []
    for index in range(number):
        amounts = (1, 1_000 + index, GIB, 1)
        pods.append((PodRequest(tuple(zip(RESOURCES, amounts, strict=True))), 1))
    of_prefill = tuple(sorted(pods))
    of_decode = of_prefill[:1]
    waiting = Service(
        ServiceKey("default", "rule", "s"),
        (
            instance("p0", State.HELD, uid="p", requests=of_prefill, unbound=of_prefill),
            instance("d0", State.HELD, uid="d", requests=of_decode, unbound=of_decode),
        ),
        rule("1P1D"),
    )
    world = resting(200)
    return msgspec.structs.replace(world, services=(waiting, *world.services))


def node_events(world: World) -> Iterator[float]:
    """Milliseconds of each decision when one pod more or less of others is bound to one node after
    the other."""
    cache = DecisionCache()
    made = decide(world, cache)
    gc.freeze()
    for number in range(EVENTS // 10):
        nodes = world.nodes or Nodes()
        at = number * 37 % len(nodes.nodes)
        one = nodes.nodes[at]
        amount = 1_000 if one.free[1] > 1_000 else 1
        more = -amount if number % 2 else amount
        free = (one.free[0], one.free[1] + more, *one.free[2:])
        after = msgspec.structs.replace(one, free=free)
        nodes = msgspec.structs.replace(
            nodes, nodes=(*nodes.nodes[:at], after, *nodes.nodes[at + 1 :])
        )
        world = msgspec.structs.replace(
            world, nodes=nodes, memory=made.memory, now=world.now + 0.005
        )
        start = time.process_time()
        made = decide(world, cache)
        yield (time.process_time() - start) * 1e3


def at_rest(world: World) -> Iterator[float]:
    cache = DecisionCache()
    made = decide(world, cache)
    for _ in range(EVENTS // 5):
        world = msgspec.structs.replace(world, memory=made.memory, now=world.now + 0.005)
        start = time.process_time()
        made = decide(world, cache)
        yield (time.process_time() - start) * 1e3


def cold(world: World) -> Iterator[float]:
    for _ in range(COLD):
        start = time.process_time()
        decide(world)
        yield (time.process_time() - start) * 1e3


def say(name: str, times: Iterator[float]) -> None:
    took = sorted(times)
    p50 = took[len(took) // 2]
    p99 = took[min(len(took) - 1, len(took) * 99 // 100)]
    print(
        f"decide_{name}_ms_p50 {p50:.2f}\ndecide_{name}_ms_p99 {p99:.2f}\ndecide_{name}_ms_worst"
        f" {took[-1]:.2f}"
    )


def cases(number: int) -> float:
    """Seconds to decode, decide and encode so many bare counts."""
    ladder = rule("4P2D > 2P1D > 1P1D")
    decoder = msgspec.json.Decoder(Case)
    lines = [
        msgspec.json.encode(
            Case({"group0": index % 5}, {"group1": index % 2}, {"group0": index % 3, "group1": 1})
        )
        for index in range(number)
    ]
    start = time.process_time()
    for line in lines:
        msgspec.json.encode(decide_counts(ladder, decoder.decode(line)))
    return time.process_time() - start


def main() -> None:
    worlds: tuple[tuple[str, Callable[[], World]], ...] = (
        ("nothing_fits", lambda: crowded(empty=0.0, anywhere=0)),
        ("half_fits", lambda: crowded(empty=0.04, anywhere=0)),
        ("half_fits_a_third_anywhere", lambda: crowded(empty=0.04, anywhere=3)),
        ("in_super_pods", in_super_pods),
    )
    for name, make in worlds:
        world = make()
        print(f"  {name}: {decide(world).tally}")
        say(f"{name}_event", events(world, 37))
        say(f"{name}_node_event", node_events(world))
        say(f"{name}_rest", at_rest(world))
        say(f"{name}_cold", cold(world))
    for number in (1_000, 10_000):
        say(f"{number}_resting_event", events(resting(number), 37))
        say(f"{number}_resting_rest", at_rest(resting(number)))
    for number in (100, 500):
        say(
            f"{number}_unlike_pods_event", itertools.islice(events(with_unlike_pods(number), 0), 20)
        )
    print(f"plan_100_000_cases_s {cases(100_000):.3f}")


if __name__ == "__main__":
    main()
