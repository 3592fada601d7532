"""python -m tests.chaos [--gated | --aimed FAMILY] --seeds 0-9999 --jobs 2 --record FILE | --seed 7 -v"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from tests.chaos.aimed import FAMILIES
from tests.chaos.plugin import faults
from tests.chaos.schedule import Schedule, describe, gated_schedule, schedule
from tests.chaos.stage import Played, play


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Chaos tests in virtual time.")
    parser.add_argument("--seeds", metavar="A-B", default="0-99", help="play these schedules")
    parser.add_argument("--seed", type=int, help="play this one only")
    parser.add_argument("--gated", action="store_true", help="services whose pods others make")
    parser.add_argument("--aimed", choices=FAMILIES, default="", help="histories aimed at what random ones rarely meet")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--record", type=Path, help="what was played goes here at once, and is not played again")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no schedule after so many minutes")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the schedule and its whole trace")
    args = parser.parse_args()
    if args.seed is not None:
        return _one(args.seed, _schedules(args), verbose=args.verbose)
    first, _, last = args.seeds.partition("-")
    return _many(range(int(first), int(last or first) + 1), args)


def _schedules(args: argparse.Namespace) -> Callable[[int], Schedule]:
    if args.aimed:
        return FAMILIES[args.aimed]
    return gated_schedule if args.gated else schedule


def _one(seed: int, schedules: Callable[[int], Schedule], *, verbose: bool) -> int:
    made = schedules(seed)
    result = play(made, keep_trace=verbose)
    print(describe(made))
    print("\n".join(result.trace))
    _tell(msgspec.convert(result, Played, from_attributes=True))
    print(f"trace {result.digest}")
    return bool(result.failures)


def _many(seeds: range, args: argparse.Namespace) -> int:
    """An interrupted run says what it has played, and goes on from its record when it is started again."""
    before = [one for one in _recorded(args.record) if one.seed in seeds]
    done = {one.seed for one in before}
    began, played = time.perf_counter(), list(before)
    todo = [seed for seed in seeds if seed not in done]
    try:
        for one in _played(todo, partial(_play, _schedules(args)), args.jobs):
            played.append(one)
            _tell(one)
            if args.record:
                with args.record.open("ab") as record:
                    record.write(msgspec.json.encode(one) + b"\n")
            if time.perf_counter() - began > args.minutes * 60:
                break
    except KeyboardInterrupt:
        print("interrupted")
    wall = time.perf_counter() - began
    _sum_up(played)
    print(f"{len(played)} of {len(seeds)} schedules; {len(played) - len(before)} now, in {wall / 60:.1f} min")
    return any(one.failures for one in played)


def _recorded(record: Path | None) -> Iterator[Played]:
    """The last line may be half written."""
    lines = record.read_bytes().splitlines(keepends=True) if record and record.exists() else []
    return (msgspec.json.decode(line, type=Played) for line in lines if line.endswith(b"\n"))


def _played(seeds: Iterable[int], play: Callable[[int], Played], jobs: int) -> Iterator[Played]:
    if jobs == 1:
        _settle_down()
        yield from map(play, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs, _begin, maxtasksperchild=200) as pool:
        yield from pool.imap_unordered(play, seeds)


def _begin() -> None:
    """Of a process beside the first: who interrupts means the first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _settle_down()


def _settle_down() -> None:
    """Garbage is looked for after each history, not in it, and not among what was loaded before."""
    gc.freeze()
    gc.disable()


def _play(schedules: Callable[[int], Schedule], seed: int) -> Played:
    """One that cannot be played to its end has failed."""
    try:
        return msgspec.convert(play(schedules(seed)), Played, from_attributes=True)
    except Exception as error:
        return Played(seed, [f"not played to its end: {error!r}"], [], {}, 0, 0.0, 0.0)
    finally:
        gc.collect()


def _tell(played: Played) -> None:
    for failure in played.failures:
        print(f"seed {played.seed}: FAILED {failure}", flush=True)
    for gap in played.gaps:
        print(f"seed {played.seed}: known gap: {gap}", flush=True)


def _sum_up(played: list[Played]) -> None:
    counts = Counter[str]()
    for one in played:
        counts.update(one.counts)
    for what, number in sorted(counts.items()):
        print(f"{number:10,} {what}")
    failed = sorted(one.seed for one in played if one.failures)
    print(f"{faults(counts.items()).total():,} faults; {sum(len(one.gaps) for one in played)} known gaps")
    print(f"{len(failed)} schedules failed: {', '.join(map(str, failed)) or 'none'}")
    most = [max((getattr(one, what) for one in played), default=0) for what in ("busiest", "rest_after", "longest")]
    print(f"most writes of one life in a minute: {most[0]}; at rest at most {most[1]:.0f} s after the storm")
    print(f"longest turn of the loop: {most[2]:.2f} s of CPU")


if __name__ == "__main__":
    sys.exit(main())
