"""Breaks the controller on purpose, one mistake at a time; `python -m tests.mutants` asks whether
its history notices.

docs/explanation/reliability.md has the table."""

from __future__ import annotations

from scaler import app, clock, controller, election, work_queue
from scaler.decide.service import groups
from scaler.decide.service import states as state
from scaler.decide.sharing import arbitration, attempt_end, preemption
from scaler.execute import assumed, executor, gates, writes
from scaler.informers import cache, indexes, informer, reflector, store
from scaler.kube import outbox, writer
from scaler.report import service_events
from scaler.state import instances
from tests.chaos import test_histories
from tests.chaos.aimed import HISTORIES
from tests.chaos.stage import play
from tests.contention.stage import play as play_story
from tests.mutants import Edit, Mutant

NEVER = "if False and "
BOUND_IN_HANDS = (Edit(state, " and not self.instance.bound", ""),)

MUTANTS = (
    Mutant(
        "own writes count as seen at once",
        assumed,
        "return key not in self._open",
        "return True",
        "watch behind",
    ),
    Mutant(
        "pods are deleted whatever their version",
        writes,
        'known.resource_version if resource is PODS else ""',
        '""',
        "race",
    ),
    Mutant(
        "pods are deleted whatever their uid",
        writes,
        "uid=known.uid",
        'uid=""',
        "name changes hands",
    ),
    Mutant(
        "a watch resumes at now",
        reflector,
        'self._watched.counts["watches"] += 1',
        "page = await self._page(limit=1)\n"
        "        self._store.advance(self._scope, version_of(page.resource_version))",
        "pods killed unseen",
    ),
    Mutant(
        "deletions are not heard",
        reflector,
        "self._store.remove(namespace, name, uid)",
        "pass",
        "pods killed",
    ),
    Mutant(
        "a new list forgets nothing",
        store,
        "for record in gone:",
        "for record in ():",
        "history gone",
    ),
    Mutant("a stale list is believed", reflector, "< RESTORED_AFTER", "< 0.0", "stale list"),
    Mutant(
        "repeated events are taken in again",
        reflector,
        "if version <=",
        f"{NEVER}version <=",
        "events repeated",
        also=(Edit(store, "if version and version <", f"{NEVER}version <"),),
    ),
    Mutant(
        "decides before everything is listed",
        app,
        "await informer.synced_or_absent.wait()",
        "pass",
        "listed late",
        also=(Edit(informer, "if names else", "if False else"),),
    ),
    Mutant(
        "revokes what is bound",
        state,
        "instance.bound or instance.unheld",
        "instance.unheld",
        "half-bound",
        also=BOUND_IN_HANDS,
    ),
    Mutant("never revokes", state, "policy.revoke\n", "False\n", "too much waits"),
    Mutant(
        "a PodGroup goes unseen pods or not",
        executor,
        "if controller_uid(pod)",
        f"{NEVER}controller_uid(pod)",
        "pods never shown",
    ),
    Mutant(
        "half-made instances stay", state, "return has_pods and", "return False and", "one pod gone"
    ),
    Mutant(
        "refused instances are not undone",
        executor,
        "gone = await self._undo(key, record, made)",
        "gone = True",
        "refused in part",
    ),
    Mutant(
        "failed actions are not tried again",
        controller,
        "settled=settled)\n                self.queue.add_after_backoff(key)",
        "settled=settled)",
        "failed once",
    ),
    Mutant(
        "what is dirtied while processed is lost", work_queue, "if key in", f"{NEVER}key in", "busy"
    ),
    Mutant(
        "the release before is thought to say how many are wanted",
        service_events,
        'before.get("wanted", "all")',
        'before["wanted"]',
        "upgrade",
    ),
    Mutant("rechecks never come", controller, "if moment:", "if False:", "broken for good"),
    Mutant(
        "nodes that change are not looked at",
        cache,
        "sorted({*on_node, *self.last_nodes.uids_on(node)})",
        "()",
        "node lost",
    ),
    Mutant(
        "what waits counts as running",
        state,
        "if state is State.RUNNING:\n        return counts_from",
        "if state in (State.RUNNING, State.ADMITTED):\n        return counts_from",
        "start",
    ),
    Mutant(
        "the newest ratio is aimed at first",
        groups,
        "Target(satisfied_from - 1,",
        "Target(reachable_from,",
        "one ratio up",
    ),
    Mutant(
        "writes after the deadline",
        writer,
        "if now >= self._deadline():",
        "if False:",
        "stopped process",
    ),
    Mutant(
        "leads for ever", election, "return self._deadline", "return math.inf", "stopped process"
    ),
    Mutant(
        "takes the Lease without waiting",
        election,
        "return self._state_since + self._duration_of(spec)",
        "return self._state_since",
        "lease held",
    ),
    Mutant("a failed report is not tried again", outbox, "if pause:", "if False:", "report failed"),
    Mutant(
        "an unknown outcome counts as refused",
        executor,
        "refusal = gravest(errors)",
        "refusal = NotFoundError(404, '', str(errors[0]))",
        "request lost",
    ),
    Mutant(
        "the API server's clock is not heard",
        clock,
        "now = self.now()",
        "return\n        now = self.now()",
        "clock stepped",
    ),
    # with pods that others make
    Mutant(
        "releases without a uid",
        gates,
        '{"uid": pod.uid, "annotations"',
        '{"annotations"',
        "gated rollout",
    ),
    Mutant(
        "releases one pod of an instance only",
        gates,
        "gated = [pod for pod in pods if pod.gated]",
        "gated = pods[:1] if all(pod.gated for pod in pods) else []",
        "gated 1",
    ),
    Mutant(
        "releases all that wait",
        gates,
        "gated = [pod for pod in pods if pod.gated]",
        "known = self._cache.pod_instances.membership\n        gated = [pod for one in known for"
        " pod in self._cache.pods_of(one).values() if pod.gated]",
        "gated rollout",
    ),
    Mutant(
        "takes every gate off", gates, '[{"$patch": "delete", "name": GATE}]', "None", "gated 3"
    ),
    Mutant(
        "admits one too many beside a pair of revisions",
        groups,
        "rollout.newest < rollout.outdated and lasting < self.target",
        "True",
        "gated rollout",
    ),
    Mutant("late members are forgotten", state, "i.gated > 0\n", "False\n", "gated 2"),
    Mutant(
        "takes back what got bound meanwhile",
        writes,
        "known.resource_version if resource is PODS",
        '"" if resource is PODS',
        "gated-race",
    ),
    Mutant(
        "revokes bound instances of others",
        state,
        "instance.bound or instance.unheld",
        "instance.unheld",
        "gated-half-bound",
        also=BOUND_IN_HANDS,
    ),
    Mutant(
        "forgets what a pod that has gone had said",
        indexes,
        "self.pods.drop(instance, record.name)",
        "pass",
        "gated rollout",
    ),
    Mutant(
        "revisions are not distinguished",
        instances,
        "newest != membership.revision",
        "False",
        "rollout",
    ),
    # where services are in each other's way
    Mutant(
        "an attempt never ends while others wait",
        attempt_end,
        "who = _who_waits(part, draft)",
        "return Outcome.GOES_ON",
        "story unbound 2 L5",
    ),
    Mutant(
        "evicts whom it may not",
        preemption,
        "other.demand.priority <= most and not protected",
        "not protected",
        "story preempting 4 S3",
    ),
    Mutant(
        "admits on expected room",
        arbitration,
        " and reserved.room is Room.FREE",
        "",
        "story preempting 2 S10",
    ),
    Mutant(
        "reserves nothing",
        arbitration,
        "minimum.reserve(part, draft)",
        "None",
        "story on-twenty 1 L1",
    ),
)


def failures_of(history: str, seed: int = 0) -> list[str]:
    """What a history finds wrong: a short one or a family (with this seed) by its name, `random N`,
    `gated N`, or `story NAME N PROMISE`, of which only what breaks this promise counts."""
    if short := getattr(test_histories, f"test_{history.replace(' ', '_')}", None):
        try:
            short()
        except Exception as error:  # a mistake may break anything
            return [str(error) or repr(error)]
        return []
    if history in HISTORIES:
        return play(HISTORIES[history](seed), family=history).failures
    match history.split():
        case ["story", name, number, promise]:
            return [
                failure for failure in play_story(name, int(number)).failures if promise in failure
            ]
        case [name, number]:
            return play(HISTORIES[name](int(number)), family=name).failures
    raise ValueError(history)
