"""Breaks the planner on purpose, one mistake at a time, and expects the tests of this folder to notice each.

    python -m tests.decide.mutants [NUMBER ...]

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


NAMES = ("planner", "members", "groups", "rollouts", "state", "verdicts", "lifecycle")
PLANNER, MEMBERS, GROUPS, ROLLOUTS, STATE, VERDICTS, LIFECYCLE = (f"scaler/decide/{name}.py" for name in NAMES)

MUTANTS = (
    Mutant(
        "forgets what is in flight", GROUPS, "self.taken = self.running + self.in_flight", "self.taken = self.running"
    ),
    Mutant("climbs from the largest ratio down", PLANNER, "Target(satisfied_from - 1,", "Target(reachable_from,"),
    Mutant("admits one too many", GROUPS, "fits = self.taken < self.target", "fits = self.taken <= self.target"),
    Mutant("forgets instances that rejoin", PLANNER, "else group.seat(member))", "else group.places < group.target)"),
    Mutant("takes the oldest admission back first", MEMBERS, "-m.instance.admitted_at", "m.instance.admitted_at"),
    Mutant("revocations though nothing is missing", PLANNER, "if missing or _is_incomplete(m)", "if True"),
    Mutant("never revocations", PLANNER, "if missing or _is_incomplete(m)", "if _is_incomplete(m)"),
    Mutant("revocations what is bound", PLANNER, "for m in admitted if not m.instance.bound", "for m in admitted"),
    Mutant(
        "waits for in-flight instances to be missing",
        PLANNER,
        "group.running < group.target for",
        "group.occupied < group.target for",
    ),
    Mutant("newest job first", MEMBERS, "outdated, m.instance.created,", "outdated, -m.instance.created,"),
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
    Mutant("makes what others make", PLANNER, "(i.made_by_us and (i.stripped", "(True and (i.stripped"),
    Mutant(
        "gives a place to what has no pods first", PLANNER, "candidates.sort(key=can_be_released, reverse=True)", "pass"
    ),
    Mutant("admits what has no pods", MEMBERS, "instance.made_by_us or member.instance.gated > 0", "pods >= 0"),
    Mutant("tidies what others made", PLANNER, "leftovers and member.instance.made_by_us and", "leftovers and"),
    Mutant("serves what others make without a rule", PLANNER, "or not member.instance.made_by_us:", "or False:"),
    Mutant("lives the life of what others make", LIFECYCLE, " or not instance.made_by_us", ""),
    Mutant("takes pods to come for lost ones", STATE, " and (instance.made_by_us or memory.whole)", ""),
    Mutant("forgets that it was whole", STATE, "(memory.whole or instance.pods == instance.expected)", "False"),
    Mutant(
        "spends a restart of the reserve", MEMBERS, "budget.used > restart_reserve", "budget.used >= restart_reserve"
    ),
    Mutant("asks those first who cannot pay", PLANNER, "affords_revoke(m.instance, policy), reverse=True", "0"),
    Mutant("counts pairs twice", ROLLOUTS, "return min(self.outdated, self.newest)", "return 0"),
    Mutant("lets any number stand beside", GROUPS, "(rollout.newest < rollout.outdated and", "(True and"),
    Mutant("makes surplus anew", GROUPS, "and lasting < self.target)", "and True)"),
    Mutant("takes one of a pair back", GROUPS, "if rollout.newest <= rollout.outdated:", "if False:"),
    Mutant(
        "leaves one of a pair half released",
        GROUPS,
        " or (rollout is not None and rollout.newest <=",
        " or (False and rollout.newest <=",
    ),
    Mutant("pairs beside what does not run", ROLLOUTS, "if member.running and member", "if member"),
    Mutant("builds on what is about to go", ROLLOUTS, "return min(self.outdated, self.live_newest,", "return min(0,"),
    Mutant("counts pairs once where there is place for two", GROUPS, "max(0, self.taken - target))", "self.taken)"),
    Mutant("outdated ones first", MEMBERS, "(m.instance.outdated, m", "(not m.instance.outdated, m"),
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
    sys.exit(survivors(MUTANTS, "tests/decide", [int(number) for number in sys.argv[1:]]))
