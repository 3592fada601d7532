"""How long the arbiter takes, and how good its order is: 1,000 services with 200 waiting minimums on 5,000 nodes of 20
kinds; and on random small worlds, how many services serve by the order of 3b, against the most that could.

python -m tests.bench.bench_arbiter
"""

from __future__ import annotations

import gc
import random
import time
from functools import lru_cache
from itertools import combinations

from scaler.decide.arbiter import Arbitration, arbitrate
from scaler.decide.minimums.looks import Looks
from scaler.decide.nodes import Capacity, NodeClass, PodRequest, Requirement, Room, Where
from scaler.decide.planner import plan
from scaler.decide.world import ArbiterMemory, Instance, Plan, Policy, ServiceKey, Snapshot
from tests.builders import NOW, instance, rule

SERVICES, WAITING, KINDS, NODES = 1000, 200, 20, 5000
RESOURCES = ("huawei.com/Ascend910", "cpu", "memory", "pods")
GIB = 1 << 30
ROUNDS = 40
WORLDS = 3000

Decided = list[tuple[Snapshot, Plan]]


def kind(number: int) -> NodeClass:
    return NodeClass((("accelerator-type", f"module-{number}"),))


@lru_cache
def need(number: int, npus: int) -> PodRequest:
    """A pod that may run on one kind of node, or on any for a negative number. Equal ones are one object, as the
    product makes them."""
    only = Requirement("accelerator-type", "In", (f"module-{number}",))
    where = Where(affinity=((only,),)) if number >= 0 else Where()
    amounts = (npus, npus * 12_000, npus * 64 * GIB, 1)
    return PodRequest(tuple(zip(RESOURCES, amounts, strict=True)), where)


def nodes(empty: int) -> Capacity:
    """Twenty kinds; of each most nodes are full, some half free, a few empty."""
    rooms = []
    whole = (8, 192_000, 1024 * GIB, 110)
    for number in range(KINDS):
        for npus, count in ((0, 210 - empty), (1, 12), (2, 10), (4, 16), (6, 2), (8, empty)):
            free = (npus, npus * 24_000, npus * 128 * GIB, 100)
            rooms.append(Room(kind(number), whole, free, (0, 0, 0, 0), count=count))
    assert sum(room.count for room in rooms) == NODES
    return Capacity(RESOURCES, tuple(room for room in rooms if room.count))


def jobs(number: int, *, waiting: bool, anywhere: bool) -> tuple[Instance, ...]:
    """Four prefill and four decode; a waiting service runs none of them, another all but a climb of each group."""
    where = -1 if anywhere else number % KINDS
    prefill, decode = need(where, 4), need(where, 8)
    found, needs = [], (((prefill, 1),), ((decode, 2),))
    for index in range(8):
        what = needs[index // 4]
        runs = not waiting and index % 4 < 3
        found.append(
            instance(
                f"{'p' if index < 4 else 'd'}{index % 4}",
                "Running" if runs else "Held",
                uid=f"{number}-{index}",
                created=NOW - 10_000 + number,
                needs=what,
                unbound=() if runs else what,
            )
        )
    return tuple(found)


def services(*, climbing: bool, anywhere: int = 0) -> Decided:
    """A fifth waits for its minimum; the others are complete, or (`climbing`) each wants one more of each group."""
    ratios = rule("4P4D > 3P3D > 2P1D" if climbing else "3P3D > 2P1D")
    made = []
    for number in range(SERVICES):
        waiting = (number + number // KINDS) % (SERVICES // WAITING) == 0
        everywhere = bool(anywhere) and number % anywhere == 0
        key = ServiceKey("default", "rule", f"s{number:04}")
        seen = Snapshot(key, NOW, jobs(number, waiting=waiting, anywhere=everywhere), ratios)
        made.append((seen, plan(seen)[0]))
    return made


def timed(decided: Decided, capacity: Capacity) -> tuple[float, float, Arbitration]:
    """Milliseconds of CPU time, best and median of the rounds; and what came out."""
    looks = Looks()
    outcome = arbitrate(decided, capacity, ArbiterMemory(), now=NOW, policy=Policy(), looks=looks)
    gc.freeze()
    took = sorted(_once(decided, capacity, outcome.memory, looks) for _ in range(ROUNDS))
    return took[0], took[len(took) // 2], outcome


def _once(decided: Decided, capacity: Capacity, memory: ArbiterMemory, looks: Looks) -> float:
    start = time.process_time()
    arbitrate(decided, capacity, memory, now=NOW + 1, policy=Policy(), looks=looks)
    return (time.process_time() - start) * 1e3


# Quality


def quality(worlds: int) -> str:
    """Minimums of random sizes on random nodes of one or two kinds: how many the order serves, and how many could."""
    worse, lost, best_sum = 0, 0, 0
    for seed in range(worlds):
        dice = random.Random(seed)
        rooms = tuple(dice.randint(1, 5) for _ in range(dice.choice((1, 2))))
        minimums = [_minimum(dice, len(rooms)) for _ in range(dice.randint(2, 7))]
        ordered = _in_order(minimums, rooms)
        best = next(n for n in range(len(minimums), -1, -1) if _can_serve(minimums, rooms, n))
        best_sum += best
        worse += ordered < best
        lost += best - ordered
    return (
        f"quality_worlds {worlds}\nquality_worse_worlds_percent {100 * worse / worlds:.1f}\n"
        f"quality_services_lost_percent {100 * lost / best_sum:.1f}"
    )


def _minimum(dice: random.Random, kinds: int) -> list[PodRequest]:
    where = dice.choice((-1, *range(kinds))) if kinds > 1 else -1
    return [need(where, 8)] * dice.choice((1, 2, 2, 2, 3, 4))


def _in_order(minimums: list[list[PodRequest]], rooms: tuple[int, ...]) -> int:
    """Services whose minimum is admitted, by the arbiter itself."""
    made = []
    for number, pods in enumerate(minimums):
        job = instance("p0", needs=((pods[0], len(pods)),), unbound=((pods[0], len(pods)),), created=NOW - 99 + number)
        seen = Snapshot(ServiceKey("default", "rule", f"s{number}"), NOW, (job,), rule("1P"))
        made.append((seen, plan(seen)[0]))
    memory = ArbiterMemory()
    free = (8, 192_000, 1024 * GIB, 110)
    capacity = Capacity(RESOURCES, tuple(Room(kind(at), free, free, (), count=n) for at, n in enumerate(rooms)))
    outcome = arbitrate(made, capacity, memory, now=NOW, policy=Policy())
    reasons = [verdict.reason.value for made in outcome.plans for verdict in made.verdicts]
    return len(minimums) - sum(reason.startswith("Minimum") for reason in reasons)


def _can_serve(minimums: list[list[PodRequest]], rooms: tuple[int, ...], number: int) -> bool:
    """Whether any so many of them fit together: every choice is tried."""
    return any(
        _fit([each for minimum in chosen for each in minimum], rooms) for chosen in combinations(minimums, number)
    )


def _fit(pods: list[PodRequest], rooms: tuple[int, ...]) -> bool:
    """Pods take a whole node: those of one kind first, the others where room is left."""
    left = list(rooms)
    anywhere = 0
    for pod in pods:
        if pod.where.affinity:
            left[int(pod.where.affinity[0][0].values[0].removeprefix("module-"))] -= 1
        else:
            anywhere += 1
    return min(left) >= 0 and sum(left) >= anywhere


def main() -> None:
    for name, decided, empty in (
        ("no_minimum_fits", services(climbing=False), 0),
        ("half_the_minimums_fit", services(climbing=False), 10),
        ("half_fit_a_third_anywhere", services(climbing=False, anywhere=3), 10),
        ("half_fit_the_rest_climbs", services(climbing=True), 10),
    ):
        first = _once(decided, nodes(empty), ArbiterMemory(), Looks())
        best, median, outcome = timed(decided, nodes(empty))
        admitted = sum(bool(made.actions) for made in outcome.plans)
        print(f"arbitrate_{name}_ms_from_scratch {first:.2f}")
        print(f"arbitrate_{name}_ms_best {best:.2f}\narbitrate_{name}_ms_median {median:.2f}")
        print(f"  {admitted} services may act, {outcome.tally}")
    print(quality(WORLDS))


if __name__ == "__main__":
    main()
