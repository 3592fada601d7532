"""python -m tests.crowds [--seeds 1-50] [--story on-twenty] [--mode create|beside|both] [--alone]"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.crowds.judge import Outcome, play
from tests.crowds.stories import STORIES

MODES = {"create": (False,), "beside": (True,), "both": (False, True)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crowds", description="Crowds, with many seeds.")
    parser.add_argument("--seeds", metavar="A-B", default="1-20")
    parser.add_argument("--story", choices=[*STORIES], action="append", help="only this one; may be repeated")
    parser.add_argument("--mode", choices=[*MODES], default="both", help="who makes the pods")
    parser.add_argument("--alone", action="store_true", help="without arbitration, to compare; nothing is judged")
    args = parser.parse_args()
    first, _, last = args.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    failed = 0
    for beside in MODES[args.mode]:
        for story in args.story or STORIES:
            failed += _sweep(story, seeds, beside=beside, alone=args.alone)
    return bool(failed)


def _sweep(story: str, seeds: range, *, beside: bool, alone: bool) -> int:
    began, outcomes = time.process_time(), list[Outcome]()
    for seed in seeds:
        outcome = play(story, seed, beside=beside, arbitration=not alone)
        outcomes.append(outcome)
        for words in () if alone else outcome.wrong:
            print(f"FAILED {story} {'beside' if beside else 'create'} seed {seed}: {words}", flush=True)
    _tell(outcomes, f"{story} {'beside' if beside else 'create'}", time.process_time() - began)
    return 0 if alone else sum(bool(outcome.wrong) for outcome in outcomes)


def _tell(outcomes: list[Outcome], what: str, seconds: float) -> None:
    counts = Counter(outcome.serving for outcome in outcomes)
    serving = ", ".join(f"{number} x{times}" for number, times in sorted(counts.items()))
    good = sum(not outcome.wrong for outcome in outcomes)
    print(
        f"{what}: {good} of {len(outcomes)} seeds as promised; serving {serving}; "
        f"settled within {max(one.settled for one in outcomes):.0f} s, at rest within "
        f"{max(one.rested for one in outcomes):.0f} s; {sum(one.reclaims for one in outcomes)} taken back "
        f"(most {max(one.reclaims for one in outcomes)}), at most {max(one.most_admissions for one in outcomes)} "
        f"admissions of one instance; {len({one.history for one in outcomes})} histories; "
        f"{seconds / len(outcomes):.2f} s each",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
