"""Breaks the controller on purpose, one mistake at a time, and counts the schedules until the campaign notices.

    python -m tests.campaign.mutants [--most N] [--gated] [WORDS ...]

WORDS choose mutants by name. Not part of the suite: a survivor costs all N schedules.
"""

from __future__ import annotations

import argparse
import sys

from scaler import app, controller, election
from scaler.decide import demand, draft, groups, members
from scaler.execute import executor as actuator
from scaler.execute import gates
from scaler.informers import cache, pod_instances, store
from scaler.informers import informer as watch
from scaler.kube import outbox, writer
from scaler.state import expectations, instances, queue
from tests.campaign.aimed import FAMILIES
from tests.campaign.gated_schedule import ROLLOUT, gated_schedule
from tests.campaign.gated_stage import play_any, play_gated
from tests.campaign.schedule import schedule
from tests.campaign.stage import Result, play
from tests.mutants import Edit, Mutant, ask, broken

NEVER = "if False and "
BOUND_IN_HANDS = (Edit(members, "Member.in_hands", " and not self.instance.bound", ""),)

MUTANTS = (
    Mutant("own writes count as seen at once", expectations, "Expectations.settled", "key not in self._open", "True"),
    Mutant("pods are deleted whatever their version", actuator, "Executor._delete",
           'meta["resourceVersion"] if exactly else ""', '""', aimed="race"),
    Mutant("pods are deleted whatever their uid", actuator, "Executor._delete", 'uid=meta["uid"]', 'uid=""'),
    Mutant("410 never lists again", watch, "_Feed._delay", "self._must_list = True", "self._must_list = False"),
    Mutant("a watch resumes at now", watch, "_Feed._watch", "self.watches += 1",
           "page = await self._api.list(self._resource, self._scope, limit=1, decode=self._decode)\n"
           "    self._store.advance(self._scope, version_of(page.resource_version))"),
    Mutant("deletions are not heard", watch, "_Feed._take", "self._store.remove(*_identity(event.object))", "pass"),
    Mutant("a new list forgets nothing", store, "Store.retain", "for name in gone:", "for name in ():"),
    Mutant("a stale list is believed", watch, "_Feed._look_back", "< RESTORED_AFTER", "< 0.0"),
    Mutant("repeated events are taken in again", watch, "_Feed._take", "if version <=", f"{NEVER}version <="),
    Mutant("an older record replaces a newer", store, "Store.apply", "if version and version <", f"{NEVER}version <"),
    Mutant("decides before everything is listed", app, "App._synced",
           "await informer.synced_or_absent.wait()", "pass"),
    Mutant("revokes what is bound", draft, "may_be_revoked", "instance.bound or ", "", "half-bound", BOUND_IN_HANDS),
    Mutant("deletes what is bound", actuator, "Executor._revoke", "if not pod.node and", "if"),
    Mutant("never revokes", draft, "may_be_revoked", "return policy.revoke and", "return False and"),
    Mutant("a PodGroup goes unseen pods or not", actuator, "Executor._delete_group", "if pod:", f"{NEVER}pod:"),
    Mutant("half-made instances stay", demand, "is_incomplete", "return has_pods and", "return False and"),
    Mutant("refused instances are not undone", actuator, "Executor._make", "if undo and", "if True or"),
    Mutant("failed actions are not tried again", controller, "Controller._act", "self._queue.add_after_backoff(key)",
           "pass"),
    Mutant("what is dirtied while processed is lost", queue, "WorkQueue.done", "if key in", f"{NEVER}key in"),
    Mutant("rechecks never come", controller, "Controller._recheck", "if moment:", "if False:"),
    Mutant("nodes that change are not looked at", cache, "Cache._on_faults", "self.mark(uid)", "pass"),
    Mutant("what waits counts as running", members, "counts_as_running",
           "if state is State.RUNNING:", "if state in (State.RUNNING, State.ADMITTED):"),
    Mutant("the newest ratio is aimed at first", groups, "choose_target", "Target(satisfied_from - 1,",
           "Target(reachable_from,"),
    Mutant("writes after the deadline", writer, "Writer._until", "if now >= self._deadline():", "if False:"),
    Mutant("leads for ever", election, "Election.deadline", "return self._deadline", "return math.inf"),
    Mutant("takes the Lease without waiting", election, "Election._free_at", "return self._state_since + max",
           "return self._state_since + 0 * max"),
    Mutant("a failed report is not tried again", outbox, "Outbox._work", "if pause or again:", "if again:"),
    Mutant("an unknown outcome counts as refused", actuator, "Executor._make", "if refusal is None:",
           "refusal = refusal or errors[0]\n    if refusal is None:"),
)  # fmt: skip


GATED = (
    Mutant("releases without a uid", gates, "_named", '{"uid": pod.uid, "annotations"', '{"annotations"'),
    Mutant("releases one pod of an instance only", gates, "Gates.release", "gated = [pod for pod in pods if pod.gated]",
           "gated = pods[:1] if all(pod.gated for pod in pods) else []"),
    Mutant("takes every gate off", gates, "_release", '[{"$patch": "delete", "name": GATE}]', "None"),
    Mutant("admits one too many beside a pair of revisions", groups, "Places.has_place_for",
           "(rollout.newest < rollout.outdated and lasting < self.target)", "True"),
    Mutant("late members are forgotten", demand, "is_incomplete", "lacks = i.gated > 0 or", "lacks ="),
    Mutant("takes back what got bound meanwhile", gates, "Gates._delete", "resource_version=pod.resource_version",
           'resource_version=""', aimed="gated-race"),
    Mutant("revokes bound instances of others", draft, "may_be_revoked", "instance.bound or ", "", "gated-half-bound",
           BOUND_IN_HANDS),
    Mutant("forgets what was told by a pod that has gone", pod_instances, "PodInstances._remove",
           "del pods[record.name]", "pass"),
    Mutant("an instance comes back admitted", demand, "look_at", "state = state_of(instance, memory, now, policy)",
           "state = state_of(instance, memory, now, policy)\n"
           "    state = State.ADMITTED if state is State.HELD and instance.pods and remembered.ran else state"),
    Mutant("revisions are not told apart", instances, "_is_outdated", "newest != place.revision", "False",
           aimed="rollout"),
)  # fmt: skip
"""Played on services whose pods others make."""


def killed_by(mutant: Mutant, *, most: int, first: int = 0) -> tuple[int, str]:
    """How many schedules it took and what was found; (0, "") for a survivor."""
    with broken(mutant):
        for number in range(first, first + most):
            failures = _result(mutant, number, is_first=number == first).failures
            if failures:
                return number - first + 1, failures[0]
    return 0, ""


def _result(mutant: Mutant, number: int, *, is_first: bool) -> Result:
    """Mistakes with gates first meet a rollout, which few schedules have room for."""
    if mutant.aimed:
        return play_any(FAMILIES[mutant.aimed](number), family=mutant.aimed)
    if mutant in GATED:
        return play_gated(ROLLOUT if is_first else gated_schedule(number))
    return play(schedule(number))


def main() -> int:
    """1 if any mutant survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.mutants")
    parser.add_argument("--most", type=int, default=300, help="schedules for each mutant at most")
    parser.add_argument("--gated", action="store_true", help="the mistakes with gates only")
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()

    def noticed_by(mutant: Mutant) -> str:
        schedules, found = killed_by(mutant, most=args.most)
        return f"schedule {schedules}: {found}" if schedules else ""

    return bool(ask(GATED if args.gated else (*MUTANTS, *GATED), args.words, noticed_by))


if __name__ == "__main__":
    sys.exit(main())
