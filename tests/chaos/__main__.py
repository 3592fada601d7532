"""python -m tests.chaos [--gated | --aimed FAMILY | --story STORY] --seeds 0-9 --jobs 2 --record FILE | --seed 7 -v"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from tests.chaos.aimed import FAMILIES
from tests.chaos.plugin import faults
from tests.chaos.schedule import Schedule, describe, gated_schedule, schedule
from tests.chaos.stage import play
from tests.chaos.witness import Played
from tests.contention.stage import play as play_story
from tests.contention.stories import STORIES

MODES = {"create": (False,), "beside": (True,), "both": (False, True)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Faults in virtual time.")
    parser.add_argument("--seeds", metavar="A-B", default="0-99", help="play these")
    parser.add_argument("--seed", type=int, help="play this one only, and print its schedule")
    parser.add_argument("--gated", action="store_true", help="services whose pods others make")
    parser.add_argument("--aimed", choices=FAMILIES, default="", help="histories aimed at what random ones rarely meet")
    parser.add_argument("--story", choices=("all", *STORIES), action="append", help="services on scarce nodes instead")
    parser.add_argument("--mode", choices=MODES, default="both", help="of stories: who makes the pods")
    parser.add_argument("--alone", action="store_true", help="of stories: no arbitration, to compare; never fails")
    parser.add_argument("--closely", action="store_true", help="of stories: make every decision twice")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--record", type=Path, help="what was played goes here at once, and is not played again")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no history after so many minutes")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the schedule and its whole trace")
    args = parser.parse_args()
    if args.seed is not None and not args.story:
        return _one(args)
    failed = [_many(what, history, args) for what, history in _histories(args).items()]
    return any(failed) and not args.alone


def _histories(args: argparse.Namespace) -> dict[str, Callable[[int], Played]]:
    """What is played with every seed."""
    if not args.story:
        return {args.aimed or ("gated" if args.gated else "random"): partial(_play, args.gated, args.aimed)}
    return {
        f"{story}, {'beside Ascend Operator' if beside else 'own pods'}{', each alone' if args.alone else ''}": partial(
            play_story, story, beside=beside, arbitration=not args.alone, closely=args.closely
        )
        for beside in MODES[args.mode]
        for story in (STORIES if "all" in args.story else args.story)
    }


def _schedule(gated: bool, aimed: str, seed: int) -> Schedule:
    return FAMILIES[aimed](seed) if aimed else gated_schedule(seed) if gated else schedule(seed)


def _play(gated: bool, aimed: str, seed: int) -> Played:
    return play(_schedule(gated, aimed, seed), family=aimed)


def _one(args: argparse.Namespace) -> bool:
    made = _schedule(args.gated, args.aimed, args.seed)
    result = play(made, keep_trace=args.verbose, family=args.aimed)
    print(describe(made))
    print("\n".join(result.trace))
    _tell("", result)
    print(f"trace {result.digest}")
    return bool(result.failures)


def _many(what: str, history: Callable[[int], Played], args: argparse.Namespace) -> bool:
    """An interrupted run says what it has played, and goes on from its record when it is started again."""
    first, _, last = args.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1) if args.seed is None else range(args.seed, args.seed + 1)
    lines = args.record.read_bytes().splitlines(keepends=True) if args.record and args.record.exists() else []
    recorded = (msgspec.json.decode(line, type=Played) for line in lines if line.endswith(b"\n"))  # else half written
    before = [one for one in recorded if one.seed in seeds]
    began, all_played = time.perf_counter(), list(before)
    todo = [seed for seed in seeds if seed not in {one.seed for one in before}]
    try:
        for one in _each(partial(_to_its_end, history), todo, args.jobs):
            all_played.append(one)
            _tell(what, one)
            if args.record:
                with args.record.open("ab") as record:
                    record.write(msgspec.json.encode(one) + b"\n")
            if time.perf_counter() - began > args.minutes * 60:
                break
    except KeyboardInterrupt:
        print("interrupted")
    _sum_up(what, all_played)
    minutes = (time.perf_counter() - began) / 60
    print(f"{len(all_played)} of {len(seeds)} histories; {len(all_played) - len(before)} now, in {minutes:.1f} min")
    return any(one.failures for one in all_played)


def _each(history: Callable[[int], Played], seeds: Sequence[int], jobs: int) -> Iterator[Played]:
    if jobs == 1:
        _begin(signal.default_int_handler)
        yield from map(history, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs, _begin, maxtasksperchild=200) as pool:
        yield from pool.imap_unordered(history, seeds)


def _begin(interrupt: signal._HANDLER = signal.SIG_IGN) -> None:
    """Of a process: an interrupt means the first one. Garbage is collected after each history, not in it, and not among
    what was loaded before."""
    signal.signal(signal.SIGINT, interrupt)
    gc.freeze()
    gc.disable()


def _to_its_end(history: Callable[[int], Played], seed: int) -> Played:
    """One that cannot be played to its end has failed."""
    try:
        return history(seed)
    except Exception as error:
        return Played(seed, [f"not played to its end: {error!r}"])
    finally:
        gc.collect()


def _tell(what: str, one: Played) -> None:
    for failure in one.failures:
        print(f"{what} seed {one.seed}: FAILED {failure}".lstrip(), flush=True)
    for gap in one.gaps:
        print(f"{what} seed {one.seed}: known gap: {gap}".lstrip(), flush=True)


def _sum_up(what: str, played: list[Played]) -> None:
    counts = Counter[str]()
    for one in played:
        counts.update(one.counts)
    for counted, number in sorted(counts.items()):
        print(f"{number:10,} {counted}")
    failed = sorted(one.seed for one in played if one.failures)
    gaps, digests = sum(len(one.gaps) for one in played), {one.digest for one in played}
    print(f"{faults(counts.items()).total():,} faults; {gaps} known gaps; {len(digests)} different histories")
    for measured in dict.fromkeys(name for one in played for name in one.most):
        print(f"{max(one.most.get(measured, 0.0) for one in played):10,.2f} {measured}, at most")
    print(f"{what}: {len(failed)} failed: {', '.join(map(str, failed)) or 'none'}")


if __name__ == "__main__":
    sys.exit(main())
