"""python -m tests.contention [--seeds 1-50] [--story on-twenty] [--mode create|beside|both] [--alone] [--jobs 2]"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial

from tests.contention.judge import Outcome, play
from tests.contention.stories import STORIES

MODES = {"create": (False,), "beside": (True,), "both": (False, True)}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.contention", description="Many services on scarce nodes, with many seeds."
    )
    parser.add_argument("--seeds", metavar="A-B", default="1-20")
    parser.add_argument("--story", choices=[*STORIES], action="append", help="only this one; may be repeated")
    parser.add_argument("--mode", choices=[*MODES], default="both", help="who makes the pods")
    parser.add_argument("--alone", action="store_true", help="without arbitration, to compare; nothing is judged")
    parser.add_argument("--closely", action="store_true", help="make every decision twice, too")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    args = parser.parse_args()
    first, _, last = args.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    failed = 0
    with ProcessPoolExecutor(args.jobs) as pool:
        for beside in MODES[args.mode]:
            for story in args.story or STORIES:
                one = partial(play, story, beside=beside, arbitration=not args.alone, closely=args.closely)
                what = f"{story}, {'beside Ascend Operator' if beside else 'own pods'}"
                failed += _sweep(pool, one, seeds, f"{what}{', each alone' if args.alone else ''}")
    return bool(failed and not args.alone)


def _sweep(pool: Executor, one: partial[Outcome], seeds: Sequence[int], what: str) -> int:
    """Play one story with all seeds; how many failed."""
    outcomes = []
    for outcome in pool.map(one, seeds):
        outcomes.append(outcome)
        for words in outcome.wrong:
            print(f"{what}, seed {outcome.seed}: FAILED {words}", flush=True)
    print(_summary(outcomes, what), flush=True)
    return sum(bool(outcome.wrong) for outcome in outcomes)


def _summary(outcomes: Sequence[Outcome], what: str) -> str:
    serving = Counter(one.serving for one in outcomes)
    good = sum(not one.wrong for one in outcomes)
    return (
        f"{what}: {good} of {len(outcomes)} seeds as promised, in {len({one.history for one in outcomes})} histories\n"
        f"    serving in the end: {', '.join(f'{number} ({times}x)' for number, times in sorted(serving.items()))}; "
        f"after at most {max(one.settled for one in outcomes):.0f} s; "
        f"at rest after at most {max(one.rested for one in outcomes):.0f} s\n"
        f"    revoked: {sum(one.revocations for one in outcomes)}, at most {max(one.revocations for one in outcomes)} "
        f"with one seed; evicted: {sum(one.evictions for one in outcomes)}; "
        f"at most {max(one.most_admissions for one in outcomes)} admissions of one instance\n"
        f"    a minimum was held up beside free nodes for at most {max(one.held_up for one in outcomes):.0f} s; "
        f"{sum(one.seconds for one in outcomes) / len(outcomes):.2f} s of CPU each"
    )


if __name__ == "__main__":
    sys.exit(main())
