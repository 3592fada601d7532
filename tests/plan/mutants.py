"""Breaks the planner on purpose, one mistake at a time, and expects the tests of this folder to notice each.

    python -m tests.plan.mutants [NUMBER ...]

Not part of the suite: it takes a few seconds per mutant. Each mutant is a copy of the code in a temporary folder.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Mutant(NamedTuple):
    mistake: str
    file: str
    old: str
    new: str


PLANNER, MEMBERS, STATE, VERDICTS = (f"scaler/plan/{name}.py" for name in ("planner", "members", "state", "verdicts"))

MUTANTS = (
    Mutant("forgets what is in flight", MEMBERS, "return self.running + self.in_flight", "return self.running"),
    Mutant("climbs from the largest ratio down", PLANNER, "Target(satisfied_from - 1,", "Target(reachable_from,"),
    Mutant("admits one too many", PLANNER, "free = group.target -", "free = 1 + group.target -"),
    Mutant("forgets instances that rejoin", PLANNER, "group.occupied - group.rejoining\n", "group.occupied\n"),
    Mutant("takes the oldest admission back first", MEMBERS, "-m.instance.admitted_at", "m.instance.admitted_at"),
    Mutant("reclaims though nothing is missing", PLANNER, "if missing or _is_incomplete(m)", "if True"),
    Mutant("never reclaims", PLANNER, "if missing or _is_incomplete(m)", "if _is_incomplete(m)"),
    Mutant("reclaims what is bound", PLANNER, "State.ADMITTED and not m.instance.bound", "State.ADMITTED"),
    Mutant(
        "waits for in-flight instances to be missing",
        PLANNER,
        "group.running < group.target for",
        "group.occupied < group.target for",
    ),
    Mutant("newest job first", MEMBERS, "(m.instance.created,", "(-m.instance.created,"),
    Mutant("p10 before p2", MEMBERS, "natural(m.instance.name)", "m.instance.name"),
    Mutant(
        "ignores that jobs are missing",
        PLANNER,
        "choose_target(rule.ratios, running, live)",
        "choose_target(rule.ratios, running, dict.fromkeys(live, 9**9))",
    ),
    Mutant("acts while paused", PLANNER, "[] if snapshot.options.paused else", "[] if False else"),
    Mutant(
        "counts owners that go away as live",
        PLANNER,
        "if not (member.instance.owner_deleting or member.instance.owner_finished):",
        "if True:",
    ),
    Mutant(
        "a broken instance keeps its slot for ever",
        STATE,
        "return now - memory.broken_since < policy.broken_grace",
        "return True",
    ),
    Mutant(
        "a broken instance loses its slot at once",
        STATE,
        "return now - memory.broken_since < policy.broken_grace",
        "return False",
    ),
    Mutant(
        "crash-looping counts as running", STATE, "not (i.terminating or i.crashing or i", "not (i.terminating or i"
    ),
    Mutant("the short cut takes crash-looping for running", STATE, "i.crashing or i.faulty or i.owner", "i.owner"),
    Mutant("the short cut takes a job without pods for running", STATE, "== i.expected > 0", "== i.expected"),
    Mutant("gated pods count as admitted", STATE, "if i.pods == i.gated:", "if i.pods == 0:"),
    Mutant("admits what the API server refused", MEMBERS, "if memory.refused and", "if False and memory.refused and"),
    Mutant("keeps a held instance's PodGroup", PLANNER, "member.instance.leftovers and", "False and"),
    Mutant(
        "every held instance waits for the ratio",
        VERDICTS,
        "if beyond:\n        return Reason.NOT_IN_RATIO",
        "if False:\n        return Reason.NOT_IN_RATIO",
    ),
)


UNCHANGED = (PLANNER, "def plan(", "def plan(")


def killed(mutant: Mutant, tests: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("scaler", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        source = (copy / mutant.file).read_text()
        assert source.count(mutant.old) == 1, f"{mutant.file} has {source.count(mutant.old)} of: {mutant.old}"
        (copy / mutant.file).write_text(source.replace(mutant.old, mutant.new))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", tests]
        return subprocess.run(command, cwd=copy, capture_output=True, check=False).returncode == 1


def survivors(mutants: Sequence[Mutant], tests: str, numbers: Sequence[int]) -> int:
    """Plays these mutants, all if no number is given, against these tests; 1 if any is not noticed."""
    found = 0
    assert not killed(Mutant("none", *UNCHANGED), tests), "the tests fail without any mistake"
    for number, mutant in enumerate(mutants):
        if numbers and number not in numbers:
            continue
        dead = killed(mutant, tests)
        found += not dead
        print(f"{number:>3} {'killed' if dead else 'SURVIVED':<9} {mutant.mistake}", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(survivors(MUTANTS, "tests/plan", [int(number) for number in sys.argv[1:]]))
