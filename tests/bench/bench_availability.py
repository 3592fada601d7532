"""For how long services do not serve that could, in a simulated month: Ascend Operator's gate, this
product, and bounds that decide each moment exactly.

python -m tests.bench.bench_availability [--services 10 40] [--days 30] [--seed 1] [--faults 1]

What happens in the month is in `tests/bench/availability/month.py`, how often parts fail and who
says so in `study.py`, what is counted in `minutes.py`, and what the bounds may do in `planner.py`.
All are played on the lean cluster of `lean.py`, the gate on the simulated API server. `--check`
plays the product on both and prints the two beside each other; let it have a few `--days`."""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Sequence
from typing import NamedTuple

from tests.bench.availability.arms import BOUND_OF, PRODUCT, Arm, Played
from tests.bench.availability.lean import play_lean
from tests.bench.availability.minutes import (
    BINDS,
    EVICTION_PAUSE,
    FAULT,
    HELD_BY_OTHERS,
    SCALE_UPS,
    SCATTERED,
    START,
    TRADE_AFTER,
)
from tests.bench.availability.month import month
from tests.bench.availability.play import play

CLAUSES = {
    START: "none: pods start",
    FAULT: "none: a fault is noticed",
    BINDS: "3b.9a, a probe that nothing binds; else a session of the scheduler",
    f"MinimumDoesNotFit: {SCALE_UPS}": "3b.4a, whose scale-ups may be evicted",
    f"MinimumDoesNotFit: {SCATTERED}": "none: what is bound is not moved",
    "MinimumDoesNotFit: it fits": "3b.3d, not reserved yet",
    f"{HELD_BY_OTHERS}: it fits": "none: the decision follows",
    "MinimumIncomplete": "3b.1f, a job of the minimum is not there",
    "MinimumNotScheduled": "3b.5f, the pause after an attempt",
    "WaitingForRoom": "3b.3c, pods of others end",
    EVICTION_PAUSE: "3b.4e, no second eviction before a pause",
    TRADE_AFTER: "3.6, own running surplus goes after trade_after",
    "WaitingForScheduler": "3b.9a or 3b.5, a part of it has no room at the scheduler",
    "Broken": "2, what is broken keeps its slot",
    "Terminating": "3b.1e, its own pods end",
}
"""Cause of lost minutes -> the clause of docs/reference/contract.md that decides so."""


class Run(NamedTuple):
    """One arm in one month. Not `lean`: on the simulated API server."""

    arm: Arm
    services: int
    days: float
    seed: int
    faults: float
    lean: bool = True


def played(run: Run) -> Played:
    what = month(run.services, run.days, run.seed, faults=run.faults)
    by = play_lean if run.lean else play
    return by(what, run.arm, seed=run.seed)


def table(runs: Sequence[Run], results: Sequence[Played]) -> str:
    """In Markdown."""
    lost = {run.arm: result.numbers.lost for run, result in zip(runs, results, strict=True)}
    lines = [
        "| who decides | lost, min | of all | by its bound | evictions | NPU-h idle | serving |",
        "|---|---|---|---|---|---|---|",
    ]
    for run, result in zip(runs, results, strict=True):
        numbers = result.numbers
        bound = lost.get(BOUND_OF.get(run.arm, run.arm), 0.0)
        ratio = f"{numbers.lost / bound:.2f}" if run.arm in BOUND_OF and bound else ""
        share = numbers.lost / numbers.there if numbers.there else 0.0
        cells = [
            run.arm.value,
            f"{numbers.lost / 60:,.1f}",
            f"{share:.4%}",
            ratio,
            str(numbers.evictions),
            f"{numbers.occupied / 3600:,.0f}",
            f"{numbers.serving_chips / 3600:,.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def clauses(results: Sequence[Played]) -> str:
    """The lost minutes of the product by the clause that they come of, in Markdown."""
    lines = ["| lost minutes of | by default | `equal-or-higher` |", "|---|---|---|"]
    causes = {Arm[result.arm]: result.numbers.causes for result in results}
    default, equal = (causes.get(arm, {}) for arm in PRODUCT)
    for cause in sorted({*default, *equal}, key=lambda one: -default.get(one, 0.0)):
        cells = [f"{said.get(cause, 0.0) / 60:,.1f}" for said in (default, equal)]
        if cells != ["0.0", "0.0"]:
            lines.append(f"| {CLAUSES.get(cause, cause)} ({cause}) | {' | '.join(cells)} |")
    return "\n".join(lines)


def longest(result: Played) -> str:
    numbers = result.numbers
    words = [
        f"{seconds / 60:,.1f} min of {service} until {end:,.0f} s ({cause})"
        for seconds, end, service, cause in numbers.longest[:3]
    ]
    return (
        f"{result.arm} ({result.cpu:.0f} s of CPU, {result.passes} decisions): {'; '.join(words)}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, nargs="+", default=[10, 40])
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=float, default=1.0, help="times as many as in the study")
    parser.add_argument("--arms", nargs="+", choices=[arm.name for arm in Arm])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--check", action="store_true", help="on the simulated API server as well")
    given = parser.parse_args(arguments)
    arms = [Arm[name] for name in given.arms] if given.arms else list(Arm)
    month_of = (given.days, given.seed, given.faults)
    # a process for each: nothing is remembered from one to the next
    with multiprocessing.get_context("spawn").Pool(given.jobs, maxtasksperchild=1) as pool:
        for services in given.services:
            runs = [Run(arm, services, *month_of, lean=arm is not Arm.GATE) for arm in arms]
            if given.check:
                for arm in arms:
                    if arm is not Arm.GATE:
                        runs.append(Run(arm, services, *month_of, lean=False))
            results = pool.map(played, runs, chunksize=1)
            print(f"\n{services} services, {3 * services} nodes, {given.days:g} days, ", end="")
            print(f"seed {given.seed}, faults x {given.faults:g}\n")
            print(table(runs[: len(arms)], results[: len(arms)]))
            print(f"\n{clauses(results[: len(arms)])}\n")
            if given.check:
                print("the same on the simulated API server\n")
                print(table(runs[len(arms) :], results[len(arms) :]))
            for result in results:
                print(longest(result))


if __name__ == "__main__":
    main()
