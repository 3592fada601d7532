"""python -m tests.campaign [--gated | --aimed FAMILY] --seeds 0-99 | --seed 7 -v"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable

from tests.campaign.aimed import FAMILIES
from tests.campaign.gated_schedule import GatedSchedule, describe_gated, gated_schedule
from tests.campaign.gated_stage import play_any
from tests.campaign.schedule import Schedule, describe, schedule
from tests.campaign.stage import Result


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description="The fault campaign in virtual time.")
    parser.add_argument("--seeds", metavar="A-B", default="0-99", help="play these schedules")
    parser.add_argument("--seed", type=int, help="play this one only")
    parser.add_argument("--gated", action="store_true", help="services whose pods others make")
    parser.add_argument("--aimed", choices=FAMILIES, default="", help="histories aimed at what random ones rarely meet")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no schedule after so many minutes")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the schedule and its whole trace")
    args = parser.parse_args()
    if args.seed is not None:
        return _one(args.seed, _schedules(args), verbose=args.verbose)
    first, _, last = args.seeds.partition("-")
    return _many(range(int(first), int(last or first) + 1), _schedules(args), seconds=args.minutes * 60)


def _schedules(args: argparse.Namespace) -> Callable[[int], Schedule]:
    if args.aimed:
        return FAMILIES[args.aimed]
    return gated_schedule if args.gated else schedule


def _one(seed: int, schedules: Callable[[int], Schedule], *, verbose: bool) -> int:
    made = schedules(seed)
    result = play_any(made, keep_trace=verbose)
    print(describe_gated(made) if isinstance(made, GatedSchedule) else describe(made))
    print("\n".join(result.trace))
    _tell(result)
    print(f"trace {result.digest}")
    return bool(result.failures)


def _tell(result: Result) -> None:
    for failure in result.failures:
        print(f"seed {result.seed}: FAILED {failure}", flush=True)
    for gap in result.gaps:
        print(f"seed {result.seed}: known gap: {gap}", flush=True)


def _many(seeds: range, schedules: Callable[[int], Schedule], *, seconds: float) -> int:
    began, counts, played = time.perf_counter(), Counter[str](), 0
    failed = gaps = busiest = 0
    slowest = 0.0
    for seed in seeds:
        if time.perf_counter() - began > seconds:
            break
        result = play_any(schedules(seed))
        _tell(result)
        played += 1
        counts += result.counts
        failed += bool(result.failures)
        gaps += len(result.gaps)
        busiest = max(busiest, result.busiest)
        slowest = max(slowest, result.rest_after)
    wall = time.perf_counter() - began
    for what, number in sorted(counts.items()):
        print(f"{number:10,} {what}")
    print(f"{played} schedules, {played / wall:.2f}/s; {failed} failed, {gaps} known gaps")
    print(f"most writes of one life in a minute: {busiest}; at rest at most {slowest:.0f} s after the storm")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
