"""One seed gives one history; another seed gives another history with the same outcome."""

from __future__ import annotations

import os
import subprocess
import sys

from scaler.tools.simulate.present import document
from scaler.tools.simulate.scenario_file import load_scenario
from tests.simulation.worlds import ROOT, played

PATH = ROOT / "tests" / "scenarios" / "api-server-trouble.yaml"


def history(seed: int) -> str:
    return document(seed, played(load_scenario(PATH), seed=seed), [], [])


def test_the_same_seed_gives_the_same_history() -> None:
    assert history(7) == history(7)


def test_other_seeds_give_other_histories_and_the_same_outcome() -> None:
    timelines = [played(load_scenario(PATH), seed=seed) for seed in range(1, 6)]
    assert len({str(timeline.moments) for timeline in timelines}) == 5
    ends = [timeline.last("mindie/scaling-rule/mindie") for timeline in timelines]
    assert [(end.running, end.complete) for end in ends] == [({"group0": 2, "group1": 1}, True)] * 5


def test_the_hash_seed_of_the_process_changes_nothing() -> None:
    command = [
        sys.executable,
        "-m",
        "scaler",
        "simulate",
        str(PATH),
        "-o",
        "json",
        "--seed",
        "3",
    ]
    outputs = {
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            cwd=ROOT,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
