"""python -m tests.chaos [--gated | --aimed FAMILY | --story STORY] --seeds 0-9 --jobs 2
python -m tests.chaos [--gated | --aimed FAMILY | --story STORY] --seed 7 -v"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tests.chaos.aimed import HISTORIES
from tests.chaos.stage import play
from tests.chaos.witness import Played
from tests.contention.stage import play as play_story
from tests.contention.stories import STORIES

MODES = {"create": (False,), "beside": (True,), "both": (False, True)}
HARM = ("event: ", "api fault: ", "lingering write", "stale list")
"""How the names of those counts begin that are faults."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description="Faults in virtual time."
    )
    parser.add_argument("--seeds", "--seed", metavar="A[-B]", default="0-99", help="play these")
    parser.add_argument(
        "--aimed", choices=HISTORIES, default="random", help="at what: an attack, a race, anything"
    )
    parser.add_argument(
        "--gated", action="store_const", dest="aimed", const="gated", help="pods that others make"
    )
    parser.add_argument(
        "--story",
        choices=("all", *STORIES),
        action="append",
        help="services on scarce nodes instead",
    )
    parser.add_argument(
        "--mode", choices=MODES, default="both", help="of stories: who makes the pods"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="print each schedule and its whole trace"
    )
    args = parser.parse_args()
    first, _, last = args.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    failed = [_many(what, history, seeds, args.jobs) for what, history in _histories(args).items()]
    return any(failed)


def _histories(args: argparse.Namespace) -> dict[str, Callable[[int], Played]]:
    if not args.story:
        return {args.aimed: partial(_play, args.aimed, args.verbose)}
    return {
        f"{story}, {'beside Ascend Operator' if beside else 'own pods'}": partial(
            play_story, story, beside=beside
        )
        for beside in MODES[args.mode]
        for story in (STORIES if "all" in args.story else args.story)
    }


def _play(aimed: str, verbose: bool, seed: int) -> Played:
    made = HISTORIES[aimed](seed)
    one = play(made, keep_trace=verbose, family=aimed)
    if verbose:
        print(
            *made.inventory.services,
            *made.api_faults,
            *made.events,
            *one.trace,
            f"trace {one.digest}",
            sep="\n",
        )
    return one


def _many(what: str, history: Callable[[int], Played], seeds: Sequence[int], jobs: int) -> bool:
    """Whether one has failed. An interrupted run says what it has played."""
    played: list[Played] = []
    try:
        for one in _each(partial(_to_its_end, history), seeds, jobs):
            played.append(one)
            found = [
                *(f"FAILED {failure}" for failure in one.failures),
                *(f"known gap: {gap}" for gap in one.gaps),
            ]
            for words in found:
                print(f"{what} seed {one.seed}: {words}", flush=True)
    except KeyboardInterrupt:
        print("interrupted")
    _sum_up(what, played)
    return any(one.failures for one in played)


def _each(history: Callable[[int], Played], seeds: Sequence[int], jobs: int) -> Iterator[Played]:
    if jobs == 1:
        _begin(signal.default_int_handler)
        yield from map(history, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs, _begin, maxtasksperchild=200) as pool:
        yield from pool.imap_unordered(history, seeds)


def _begin(interrupt: signal._HANDLER = signal.SIG_IGN) -> None:
    """Of a process: an interrupt means the first one. Garbage is collected after each history, what
    is older never."""
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


def _sum_up(what: str, played: list[Played]) -> None:
    counts = sum((Counter(one.counts) for one in played), Counter[str]())
    for counted, number in sorted(counts.items()):
        print(f"{number:10,} {counted}")
    faults = sum(number for counted, number in counts.items() if counted.startswith(HARM))
    gaps = sum(len(one.gaps) for one in played)
    failed = sorted(one.seed for one in played if one.failures)
    print(
        f"{what}: {len(played)} histories, {faults:,} faults, {gaps} known gaps; failed:"
        f" {failed or 'none'}"
    )


if __name__ == "__main__":
    sys.exit(main())
