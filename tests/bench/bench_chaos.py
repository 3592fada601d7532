"""How many schedules of the chaos tests are played per second, and how much trouble is in them.

python -m tests.bench.bench_chaos"""

from __future__ import annotations

import time
from collections import Counter

from tests.chaos.schedule import schedule
from tests.chaos.stage import play

SCHEDULES = 60


def main() -> None:
    play(schedule(0))  # imports and caches
    began = time.process_time()
    counts = Counter[str]()
    failed = 0
    for seed in range(SCHEDULES):
        result = play(schedule(seed))
        counts += result.counts
        failed += bool(result.failures)
    used = time.process_time() - began
    faults = sum(number for what, number in counts.items() if what.startswith("api fault"))
    events = sum(number for what, number in counts.items() if what.startswith("event"))
    print(
        f"chaos tests: {SCHEDULES / used:.1f} schedules/s of CPU, {counts['decision'] / used:,.0f}"
        f" decisions/s; per schedule {events / SCHEDULES:.0f} events and {faults / SCHEDULES:.0f}"
        f" faults of the API; {failed} failed"
    )


if __name__ == "__main__":
    main()
