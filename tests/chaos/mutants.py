"""Breaks the controller on purpose, one mistake at a time: does the history that is named for it notice?

    python -m tests.chaos.mutants [--random N] [WORDS ...]

WORDS choose mistakes by name. A name of a history is that of a short one (tests.chaos.histories), of a family
(tests.chaos.aimed), or `gated N`, the random history of that seed. docs/explanation/reliability.md has the table.
"""

from __future__ import annotations

import argparse
import sys

from scaler import app, clock, controller, election
from scaler.decide import demand, draft, groups, state
from scaler.execute import executor as actuator
from scaler.execute import gates, writes
from scaler.informers import cache, indexes, informer, reflector, store
from scaler.kube import outbox, writer
from scaler.report import service_events
from scaler.state import expectations, instances, queue
from tests.chaos.aimed import FAMILIES
from tests.chaos.histories import HISTORIES, tell
from tests.chaos.schedule import gated_schedule, schedule
from tests.chaos.stage import play
from tests.mutants import Edit, Mutant, ask, broken

NEVER = "if False and "
BOUND_IN_HANDS = (Edit(state, "Member.in_hands", " and not self.instance.bound", ""),)

MUTANTS = (
    Mutant("own writes count as seen at once", expectations, "Expectations.settled", "key not in self._open", "True",
           "watch behind"),
    Mutant("pods are deleted whatever their version", writes, "ExpectedWrites.delete",
           'known.resource_version if exactly else ""', '""', "race"),
    Mutant("pods are deleted whatever their uid", writes, "ExpectedWrites.delete", "uid=known.uid", 'uid=""',
           "name changes hands"),
    Mutant("410 never lists again", reflector, "Reflector._delay", "self._must_list = True", "self._must_list = False",
           "pods killed unseen, history gone"),
    Mutant("a watch resumes at now", reflector, "Reflector._watch", "self.watches += 1",
           "page = await self._page(limit=1)\n"
           "    self._store.advance(self._scope, version_of(page.resource_version))", "pods killed unseen"),
    Mutant("deletions are not heard", reflector, "Reflector._drop", "self._store.remove(namespace, name, uid)", "pass",
           "pods killed"),
    Mutant("a new list forgets nothing", store, "Store.retain", "for record in gone:", "for record in ():",
           "pods killed unseen, history gone"),
    Mutant("a stale list is believed", reflector, "Reflector._look_back", "< RESTORED_AFTER", "< 0.0",
           "stale list"),
    Mutant("repeated events are taken in again", reflector, "Reflector._take", "if version <=", f"{NEVER}version <=",
           "events repeated",
           (Edit(store, "Store.apply", "if version and version <", f"{NEVER}version <"),)),
    Mutant("decides before everything is listed", app, "App._synced",
           "await informer.synced_or_absent.wait()", "pass", "listed late",
           (Edit(informer, "Freshness.words", "if names else", "if False else"),)),
    Mutant("revokes what is bound", draft, "may_be_revoked", "instance.bound or ", "", "half-bound", BOUND_IN_HANDS),
    Mutant("never revokes", draft, "may_be_revoked", "return policy.revoke and", "return False and", "too much waits"),
    Mutant("a PodGroup goes unseen pods or not", actuator, "Executor._none_there", "if pod:", f"{NEVER}pod:",
           "pods never shown"),
    Mutant("half-made instances stay", demand, "is_incomplete", "return has_pods and", "return False and",
           "one pod gone"),
    Mutant("refused instances are not undone", actuator, "Executor._make", "if undo and", "if True or",
           "refused in part"),
    Mutant("failed actions are not tried again", controller, "Controller._take_outcomes",
           "self._queue.add_after_backoff(key)", "pass", "failed once"),
    Mutant("what is dirtied while processed is lost", queue, "WorkQueue.done", "if key in", f"{NEVER}key in", "busy"),
    Mutant("the release before is thought to say how many are wanted", service_events, "_of_scale",
           'before.get("wanted", "all")', 'before["wanted"]', "upgrade"),
    Mutant("rechecks never come", controller, "Controller._recheck", "if moment:", "if False:", "broken for good"),
    Mutant("nodes that change are not looked at", cache, "Cache._on_faults", "self.mark(uid)", "pass", "node lost"),
    Mutant("what waits counts as running", state, "counts_as_running",
           "if state is State.RUNNING:", "if state in (State.RUNNING, State.ADMITTED):", "start"),
    Mutant("the newest ratio is aimed at first", groups, "choose_target", "Target(satisfied_from - 1,",
           "Target(reachable_from,", "one ratio up"),
    Mutant("writes after the deadline", writer, "Writer._until", "if now >= self._deadline():", "if False:",
           "stopped process"),
    Mutant("leads for ever", election, "Election.deadline", "return self._deadline", "return math.inf",
           "stopped process"),
    Mutant("takes the Lease without waiting", election, "Election._free_at", "return self._state_since + max",
           "return self._state_since + 0 * max", "lease held"),
    Mutant("a failed report is not tried again", outbox, "Outbox._write", "if pause or again:", "if again:",
           "report failed"),
    Mutant("an unknown outcome counts as refused", actuator, "Executor._make", "if refusal is None:",
           "refusal = refusal or errors[0]\n    if refusal is None:", "request lost"),
    Mutant("the API server's clock is not heard", clock, "Clock.saw", "now = self.now()",
           "return\n    now = self.now()", "clock stepped"),
    # with pods that others make
    Mutant("releases without a uid", gates, "_named", '{"uid": pod.uid, "annotations"', '{"annotations"',
           "gated rollout"),
    Mutant("releases one pod of an instance only", gates, "Gates.release", "gated = [pod for pod in pods if pod.gated]",
           "gated = pods[:1] if all(pod.gated for pod in pods) else []", "gated 1"),
    Mutant("takes every gate off", gates, "_release", '[{"$patch": "delete", "name": GATE}]', "None", "gated 3"),
    Mutant("admits one too many beside a pair of revisions", groups, "Group.has_place_for",
           "(rollout.newest < rollout.outdated and lasting < self.target)", "True", "gated rollout"),
    Mutant("late members are forgotten", demand, "is_incomplete", "lacks = i.gated > 0 or", "lacks =", "gated 2"),
    Mutant("takes back what got bound meanwhile", writes, "ExpectedWrites.delete", "known.resource_version if exactly",
           '"" if exactly', "gated-race"),
    Mutant("revokes bound instances of others", draft, "may_be_revoked", "instance.bound or ", "", "gated-half-bound",
           BOUND_IN_HANDS),
    Mutant("forgets what was told by a pod that has gone", indexes, "PodInstances._remove",
           "del pods[record.name]", "pass", "gated rollout"),
    Mutant("revisions are not told apart", instances, "_is_outdated", "newest != membership.revision", "False",
           "rollout"),
)  # fmt: skip


def noticed_by(mutant: Mutant, seed: int = 0) -> str:
    """What the history that is named for it finds, "" when it survives. `seed` is for families."""
    with broken(mutant):
        failures = failures_of(mutant.aimed, seed)
    return f"{mutant.aimed}: {failures[0]}" if failures else ""


def failures_of(history: str, seed: int = 0) -> list[str]:
    """What one history finds wrong with the controller as it is."""
    if history in HISTORIES:
        return tell(history)
    if history in FAMILIES:
        return play(FAMILIES[history](seed), family=history).failures
    return play(gated_schedule(int(history.removeprefix("gated ")))).failures


def _noticed_at_random(mutant: Mutant, most: int) -> str:
    """The first random schedule of created pods that notices."""
    with broken(mutant):
        for number in range(most):
            failures = play(schedule(number)).failures
            if failures:
                return f"schedule {number}: {failures[0]}"
    return ""


def main() -> int:
    """1 if any mutant survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.mutants")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="ask the random schedules below N instead")
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()

    def who(mutant: Mutant) -> str:
        return _noticed_at_random(mutant, args.random) if args.random else noticed_by(mutant)

    return bool(ask(MUTANTS, args.words, who))


if __name__ == "__main__":
    sys.exit(main())
