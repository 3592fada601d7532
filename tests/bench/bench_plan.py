"""How long the decision takes: 1,000 services with 10,000 instances, from scratch and for one dirty service; and the
answers of `scaler plan --cases`.

python -m tests.bench.bench_plan
"""

from __future__ import annotations

import gc
import time

import msgspec

from scaler.decide.counts import Case, decide
from scaler.decide.planner import plan
from scaler.decide.world import Snapshot
from tests.builders import instance, rule, snapshot

SERVICES = 1000
ROUNDS = 30


def service(number: int) -> Snapshot:
    """Ten instances: most run, a tenth of the services lacks something, each has a spare."""
    lacking = number % 10 == 0
    states = ["Running"] * 6 + ["Terminating" if lacking else "Running", "Running", "Running", "Held"]
    jobs = tuple(
        instance(f"{'p' if index % 3 else 'd'}{index}", state, uid=f"{number}-{index}")
        for index, state in enumerate(states)
    )
    return snapshot(rule("6P3D > 4P3D > 2P2D > 1P1D"), jobs)


def measure() -> dict[str, float]:
    """Milliseconds: all services at once (best and median of the rounds), and one service (median and p99)."""
    services = [service(number) for number in range(SERVICES)]
    services = [msgspec.structs.replace(seen, memory=plan(seen)[1]) for seen in services]
    gc.freeze()
    rounds = sorted(_timed_all(services) for _ in range(ROUNDS))
    single = sorted(_timed(seen) for _ in range(3) for seen in services)
    return {
        "plan_scratch_ms_best": rounds[0],
        "plan_scratch_ms_median": rounds[len(rounds) // 2],
        "plan_one_ms_median": single[len(single) // 2],
        "plan_one_ms_p99": single[len(single) * 99 // 100],
        "plan_100_000_cases_s": _cases(100_000),
    }


def _cases(number: int) -> float:
    """Seconds to decode, decide and encode so many cases."""
    ladder, decoder = rule("4P2D > 2P1D > 1P1D"), msgspec.json.Decoder(Case)
    lines = [
        msgspec.json.encode(Case({"group0": index % 5}, {"group1": index % 2}, {"group0": index % 3, "group1": 1}))
        for index in range(number)
    ]
    start = time.perf_counter()
    for line in lines:
        msgspec.json.encode(decide(ladder, decoder.decode(line)))
    return time.perf_counter() - start


def _timed_all(services: list[Snapshot]) -> float:
    start = time.perf_counter()
    for seen in services:
        plan(seen)
    return (time.perf_counter() - start) * 1e3


def _timed(seen: Snapshot) -> float:
    start = time.perf_counter()
    plan(seen)
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    for name, value in measure().items():
        print(f"{name} {value:.3f}")


if __name__ == "__main__":
    main()
