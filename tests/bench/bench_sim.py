"""How many whole scenarios per second the simulation plays: the speed at which schedules can be
explored.

python -m tests.bench.bench_sim

One schedule is fifteen minutes of the example service with a fault and a return: cluster,
stand-ins, real controller."""

from __future__ import annotations

import time
from pathlib import Path

from scaler.sim.stories.play import play, silence_logs
from scaler.tools.simulate.scenario_file import load_scenario

SCENARIO = Path(__file__).resolve().parents[1] / "scenarios" / "start-degrade-climb.yaml"
SCHEDULES = 40


def main() -> None:
    silence_logs()
    scenario = load_scenario(SCENARIO)
    play(scenario, seed=0)  # imports and caches
    began = time.perf_counter()
    used = time.process_time()
    passes = sum(play(scenario, seed=seed).passes for seed in range(SCHEDULES))
    wall = time.perf_counter() - began
    cpu = time.process_time() - used
    per_second = SCHEDULES / cpu
    print(
        f"simulated schedules: {per_second:.1f}/s of CPU ({SCHEDULES / wall:.1f}/s wall),"
        f" {passes / cpu:,.0f} passes/s"
    )
    print(f"virtual time: {per_second * scenario.until:,.0f} times as fast as real time")


if __name__ == "__main__":
    main()
