"""How many schedules of the fault campaign are played per second, and how much trouble is in them.

python -m tests.bench.bench_campaign
"""

from __future__ import annotations

import time
from collections import Counter

from tests.campaign.schedule import schedule
from tests.campaign.stage import play

SCHEDULES = 60


def main() -> None:
    play(schedule(0))  # imports and caches
    began, counts, failed = time.process_time(), Counter[str](), 0
    for seed in range(SCHEDULES):
        result = play(schedule(seed))
        counts += result.counts
        failed += bool(result.failures)
    used = time.process_time() - began
    weather = sum(number for what, number in counts.items() if what.startswith("weather"))
    events = sum(number for what, number in counts.items() if what.startswith("event"))
    print(
        f"fault campaign: {SCHEDULES / used:.1f} schedules/s of CPU, {counts['decision'] / used:,.0f} decisions/s; "
        f"per schedule {events / SCHEDULES:.0f} events and {weather / SCHEDULES:.0f} faults of the API; {failed} failed"
    )


if __name__ == "__main__":
    main()
