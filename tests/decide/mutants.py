"""Breaks the decision on purpose, one sentence of the contract at a time: the tests of this folder should notice.

    nice python -m tests.decide.mutants [PART OF A NAME]

Not part of the suite: each mutant is a file changed in a copy of the code, and takes as long as its tests need to
notice: about 2 s of processor time, all of them a minute and a half (20 to 40 s each on two cores that 20 others use).
Each names the few files that should notice, the quickest first. A survivor takes as long as these need to pass. The
exit code is 1 when one survives. That each can still be made is in `test_mutants`.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.mutants import ask

ROOT = Path(__file__).parents[2]
HANGS = 900
"""Seconds after which a mutant counts as noticed: no tests of this folder take that long."""


class Mutant(NamedTuple):
    """In `scaler/decide/<module>.py`, `new` stands instead of `old`, which is there exactly once."""

    mistake: str
    sentence: str
    """Where the contract says otherwise."""
    module: str
    old: str
    new: str
    tests: str
    """Who should notice: words that name files of this folder, `turns` for test_turns.py."""

    @property
    def file(self) -> Path:
        return Path("scaler", "decide", f"{self.module}.py")

    @property
    def test_files(self) -> list[Path]:
        return [Path("tests", "decide", f"test_{name}.py") for name in self.tests.split()]

    def broken(self) -> str:
        """The module with the mistake in it."""
        source = (ROOT / self.file).read_text()
        if (found := source.count(self.old)) != 1:
            raise ValueError(f"{self.mistake}: {self.file} has {found} of {self.old!r}")
        return source.replace(self.old, self.new)


MUTANTS = (
    # what a service asks for
    Mutant("the target counts what is in flight", "3.2", "groups",
           "running = {name: group.running for", "running = {name: group.running + group.in_flight for",
           "examples gate counts"),
    Mutant("places forget what is in flight", "3.3", "groups",
           "self.taken = self.running + self.in_flight", "self.taken = self.running",
           "examples minimums scale_ups"),
    Mutant("what is JobInvalid counts as live", "3.2, 5", "state",
           " or (i.faults and self.state is State.HELD))", ")", "examples minimums planner"),
    Mutant("the newest job goes first", "3.3", "state",
           "return i.outdated, i.created,", "return i.outdated, -i.created,", "examples planner"),
    Mutant("start_timeout is ignored", "2", "state",
           "return memory.bound_since > 0 and now - memory.bound_since >= policy.start_timeout", "return False",
           "examples"),
    Mutant("revokes beyond the target instead of the largest ratio", "3.5", "arbitration",
           'draft.demand.largest(member.instance.group or "")',
           'draft.demand.groups[member.instance.group or ""].target', "scale_ups"),
    Mutant("what is refused is not tried alone where nodes are not known", "3.7", "alone",
           "return next((m for members in chosen.values() for m in members if m.memory.refused and is_made(m)), None)",
           "return None", "examples refused"),
    Mutant("of a service that serves all wait for what was refused", "3.7", "alone",
           "alone = None if demand.serves else _refused_before(chosen)", "alone = _refused_before(chosen)", "refused"),
    Mutant("a spare is told by age alone", "3.3, 5", "plan",
           "(m.uid not in named, candidate_order(m))", "(m.uid not in named, m.instance.created)", "refused"),
    Mutant("what is spoilt counts in a rollout", "5", "groups", "owner), member.is_live", "owner), True",
           "invalid_jobs"),
    # minimums
    Mutant("the order of minimums ignores priority", "3b.2", "arbitration",
           "-demand.priority, memory.ended_at,", "0, memory.ended_at,", "minimums"),
    Mutant("whose turn has ended does not go behind the others", "3b.2", "arbitration",
           "-demand.priority, memory.ended_at,", "-demand.priority, 0.0,", "turns minimums"),
    Mutant("what is bound in part is not reserved first", "3b, words", "arbitration",
           "self._keep_in_hands()", "pass", "minimums scale_ups"),
    Mutant("lost nodes are to come for ever", "3b, words", "nodes",
           "none if now >= self.since + due_back else to_come", "to_come", "minimums placement"),
    Mutant("pods that end on a lost node are to come", "3b, words", "nodes",
           "if ending and self.ready else self.free", "if ending else self.free",
           "minimums placement"),
    Mutant("scale-ups in hands go before minimums", "3b.2", "arbitration",
           "self._reserve_minimums()\n        self._revoke_scale_ups()",
           "self._revoke_scale_ups()\n        self._reserve_minimums()", "scale_ups"),
    # preemption
    Mutant("evicts for what has had its turn", "3b.4", "reservations",
           "if victims and any(draft.of(member.uid).turns is not Turns.NONE", "if False and any(True",
           "preemption"),
    Mutant("trade_after is ignored", "3.6", "minimum",
           "if now - since < policy.trade_after:", "if False:", "preemption"),
    Mutant("never evicts others of a lower priority", "3b.4", "reservations",
           "return theirs < own or (theirs == own and", "return (theirs == own and", "preemption"),
    Mutant("evicts what runs below the minimum", "3b.4", "reservations",
           "[: max(0, len(runs) - least - group.paired)]", "[: len(runs)]", "preemption"),
    Mutant("equal-or-higher counts as never", "3b.4", "reservations",
           "if policy.preempt is Preempt.NEVER:", "if policy.preempt is not Preempt.HIGHER_PRIORITY:", "preemption"),
    Mutant("own surplus that goes later makes room twice", "3.6, 3b.4", "reservations",
           "victim.draft.nominated.add(victim.member.uid)", "pass", "own_surplus"),
    Mutant("what victims leave over is not to come for others", "3b.3", "reservations",
           "self.room_to_come = self.room_to_come or bool(few)", "pass", "own_surplus"),
    Mutant("an instance is evicted for the pod that it misses itself", "3b.3", "reservations",
           " if victim.member not in draft.demand.fixed", "", "preemption"),
    Mutant("surplus goes that only a spare could use the node of", "3b.4", "reservations",
           "if minimum.get(name) or draft.demand.serves for", "for", "own_surplus"),
    # turns
    Mutant("a turn never ends", "3b.5", "turn",
           "return memory.turn_since > 0 and world.now - memory.turn_since >= world.policy.minimum_timeout",
           "return False", "turns"),
    Mutant("the backoff never grows", "3b.5", "turn",
           "world.policy.backoff * 2.0 ** min(max(0, failures - 1), 16)", "world.policy.backoff", "turns"),
    Mutant("a node that returns ends no backoff", "3b.5", "turn", "if not node_back_at:", "if True:", "turns"),
    Mutant("a bind of anybody pardons every time", "3b.5", "turn",
           "if not memory.pardoned and (late or failed or waited):", "if late or failed or waited:", "turns"),
    Mutant("a turn ends for anybody though nothing is bound anywhere", "3b.5", "turn",
           "(for_any and begins_anew(memory, world))", "for_any", "turns"),
    Mutant("what is in backoff reserves", "3b.2, 3b.5", "minimum",
           "if turn.in_backoff(draft.memory, self.world) and not lacking:", "if False:", "turns"),
    Mutant("bound in part it is never of no use", "2, 3b.5", "state",
           "if 0 < instance.bound < instance.expected and memory.turn_over:", "if False:", "turns"),
    Mutant("what an owner makes again inherits nothing", "3b.5", "demand",
           "known = inherited(service, seen.instances, now)", "known = seen.instances",
           "turns made_by_others"),
    # release
    Mutant("what is swapped in is admitted in the same pass", "3b.6", "arbitration",
           "minimum.unmade or minimum.swaps or", "minimum.unmade or", "turns"),
    Mutant("what is refused is not tried alone", "3b.6", "arbitration",
           "alone = refused[:1] or new", "alone = new", "minimums"),
    Mutant("the least restricted is released first", "3b.6", "arbitration",
           "queue.sort(key=lambda each: self.placement", "queue.sort(key=lambda each: -self.placement",
           "release"),
    Mutant("who is most restricted is told by what is not reserved", "3b.6", "placement",
           "len(self.nodes.fitting(each.classes, each.amounts).entries) for each in classes",
           "self._there(each, Room.FREE, 10_000) for each in classes", "release"),
    Mutant("a scale-up counts on none like it", "3b.7", "placement",
           "wanted = sum(pod.reserved[: room + 1])", "wanted = sum(pod.reserved[: room + 1]) - less", "release"),
    Mutant("a minimum is released though it may spoil another", "3b.6", "arbitration",
           "if self._spoils(member, own=True):", "if False:", "minimums"),
    Mutant("nothing spoils a reservation", "3b.6, 3b.7", "arbitration",
           "return self.placement.spoils(", "return False and self.placement.spoils(", "scale_ups minimums"),
    # as many instances as are wanted
    Mutant("drains below the target", "3c", "scale",
           "beyond = len(bound) - most - pairs", "beyond = len(bound) - most - pairs + (len(bound) > most)", "scale"),
    Mutant("drains with a smaller rule", "3.7, 3c", "demand",
           "if weighs and self.replicas < ALL and not", "if weighs and not", "scale"),
    Mutant("more than the rule allows is a limit", "3c", "scale",
           "return ALL if replicas > rule.largest.total else", "return", "scale"),
    Mutant("drains the oldest", "3c", "scale", "key=age, reverse=True)", "key=age)", "scale"),
    Mutant("drains what is dearest to delete", "3c", "scale",
           "m.instance.deletion_cost))", "-m.instance.deletion_cost))", "scale"),
    Mutant("drains what runs before what does not", "3c", "scale",
           "found.sort(key=lambda m: (_use(m),", "found.sort(key=lambda m: (-_use(m),", "scale"),
    Mutant("what runs goes for what cannot be spared", "3c", "scale",
           "min(number - len(idle), running))]", "number - len(idle))]", "scale"),
    Mutant("drains though the rule is paused", "3c", "demand",
           "if weighs and self.replicas", "if self.replicas", "scale"),
    Mutant("spends restarts that are kept for faults", "3.5, 3c", "scale",
           "[m for m in able if affords_revoke(m.instance, policy)]", "able", "scale"),
    Mutant("a pair stays for ever", "3.8, 3c", "scale",
           "if newest or not rollout.wanted or", "if True or", "scale"),
    Mutant("ends a rollout that goes on by itself", "3.8, 3c", "scale",
           "if newest or not rollout.wanted or len(mine) > rollout.wanted:", "if False:", "scale"),
    Mutant("room that is drained is nobody's", "3c", "decide",
           "placement.grant([*self.evicted, *drained])", "placement.grant(self.evicted)", "scale"),
    Mutant("the delay is ignored", "3c", "scale", "if rule is None or not delay:", "if True:", "scale"),
    Mutant("a failover ends the delay", "3c", "scale",
           "in seen or ((_bound_in_all(rule, service), now),)]", "in seen]", "scale"),
    Mutant("what was wanted is forgotten when it serves", "3c", "turn", "wanted=memory.wanted", "wanted=()", "scale"),
    Mutant("rests with what is in hands", "3c", "demand",
           "self.rule = service.rule.limited(replicas)", "self.rule = service.rule.limited(max(1, replicas))", "scale"),
    # alone, probes
    Mutant("alone it is held when it does not fit", "3b.8", "minimum", "if draft.shares:\n", "if True:\n", "alone"),
    Mutant("two are probed at once", "3b.9", "minimum", "not (patient or self.probing)", "not patient", "probe"),
    Mutant("probes without fit_patience", "3b.9", "minimum", "not (patient or self.probing)", "not self.probing",
           "probe"),
)  # fmt: skip


def failure(copy: Path, tests: Iterable[Path]) -> str:
    """The first test that fails on this copy of the code; "" when all pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
    try:
        done = subprocess.run(
            [*command, *map(str, tests)], cwd=copy, capture_output=True, check=False, text=True, timeout=HANGS
        )
    except subprocess.TimeoutExpired:
        return f"no end within {HANGS} s"
    if done.returncode not in (0, 1):
        raise RuntimeError(f"the tests cannot be run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    lines = done.stdout.splitlines()
    failed = next((line.split()[1] for line in lines if line.startswith("FAILED")), "a test without a name")
    return failed if done.returncode else ""


def main() -> int:
    """1 if any mutant survives. SystemExit when a test fails without one: it would notice them all."""
    parser = argparse.ArgumentParser(prog="python -m tests.decide.mutants")
    parser.add_argument("part", nargs="*", help="of a name; all if none is given")
    part = " ".join(parser.parse_args().part)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("scaler", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        named = {file for mutant in MUTANTS if part in mutant.mistake for file in mutant.test_files}
        if named and (failed := failure(copy, sorted(named))):
            raise SystemExit(f"fails without any mistake: {failed}")

        def noticed_by(mutant: Mutant) -> str:
            (copy / mutant.file).write_text(mutant.broken())
            test = failure(copy, mutant.test_files)
            shutil.copy(ROOT / mutant.file, copy / mutant.file)
            shutil.rmtree(copy / ".hypothesis", ignore_errors=True)  # its examples would fail with others too
            return f"{test} ({mutant.sentence})" if test else ""

        return 1 if ask(MUTANTS, [part], noticed_by) else 0


if __name__ == "__main__":
    sys.exit(main())
