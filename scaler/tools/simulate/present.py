"""The result of a simulation as text and JSON, and its worlds as files.

Must not: run or judge anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from scaler.decide.decision import Decision
from scaler.decide.world import World
from scaler.sim.stories.timeline import (
    LoadSample,
    Moment,
    MomentKind,
    Sample,
    Timeline,
    counts_text,
)
from scaler.tools.common.output import for_programs
from scaler.tools.simulate.figures import Figures, table
from scaler.tools.simulate.verdicts import Verdict

_MOST_SAMPLES = 1000
MARKS = {
    MomentKind.EVENT: "*",
    MomentKind.FAILURE: "!",
    MomentKind.WARNING: "~",
    MomentKind.TARGET: ">",
}


def line(moment: Moment) -> str:
    """One event as one line."""
    subject = f"{moment.subject} " if moment.subject and moment.kind is MomentKind.INSTANCE else ""
    where = f"[{moment.service}] " if moment.service else ""
    return f"{moment.at:9.1f} s {MARKS.get(moment.kind, ' ')} {where}{subject}{moment.text}"


def summary(timeline: Timeline, verdicts: list[Verdict], loads: list[Figures]) -> str:
    """The final state of every service, the results of its requests, and of each expectation."""
    lines = ["", f"At the end ({timeline.end:g} s):"]
    lines += [f"  {service}: {standing(timeline.last(service))}" for service in timeline.samples]
    lines += ["", *table(loads)] if loads else []
    lines += ["", "Expected:", *(verdict_lines(verdicts))]
    return "\n".join(lines) + "\n"


def standing(sample: Sample) -> str:
    """`running group0=2 group1=1, target group0=2 group1=1, complete`."""
    state = "complete" if sample.complete else "not complete"
    return f"running {counts_text(sample.running)}, target {counts_text(sample.target)}, {state}"


def verdict_lines(verdicts: list[Verdict]) -> list[str]:
    lines = []
    for verdict in verdicts:
        lines.append(f"  {'ok    ' if verdict.ok else 'FAILED'} {verdict.expected}")
        if not verdict.ok:
            lines.append(f"         but {verdict.found}")
    return lines


def document(seed: int, timeline: Timeline, verdicts: list[Verdict], loads: list[Figures]) -> str:
    """The whole result as one JSON document."""
    services = {}
    for name, samples in timeline.samples.items():
        services[name] = [_sample(sample) for sample in samples]
    served = []
    for one in loads:
        thinned = {"samples": _thinned(timeline.loads[one.service])}
        served.append(for_programs(one) | thinned)
    content: dict[str, Any] = {
        "ok": all(verdict.ok for verdict in verdicts),
        "seed": seed,
        "passes": timeline.passes,
        "end": timeline.end,
        "expectations": for_programs(verdicts),
        "moments": for_programs(timeline.moments),
        "services": services,
        "loads": served,
    }
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def _thinned(samples: list[LoadSample]) -> list[dict[str, Any]]:
    """At most a thousand samples, at equal distances."""
    every = -(-len(samples) // _MOST_SAMPLES)
    return [for_programs(sample) for sample in samples[::every]]


def _sample(sample: Sample) -> dict[str, Any]:
    return {**for_programs(sample), "running": sample.running}


class WorldFiles:
    """Writes one file per decision into a folder, numbered in order, for `scaler explain
    --world`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._number = 0

    def __call__(self, world: World, _: Decision) -> None:
        self._number += 1
        (self._folder / f"{self._number:05d}.json").write_bytes(msgspec.json.encode(world) + b"\n")
