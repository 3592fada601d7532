"""Records the timeline of a simulation: the census of the cluster, and the controller's plans.

Must not: influence anything; it only reads."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

import msgspec

from scaler.clock import Clock
from scaler.decide import explain
from scaler.decide.decision import Decision, Plan
from scaler.decide.invariants import violations
from scaler.decide.world import ServiceKey, World
from scaler.kube.api import ASCEND_JOBS, PODS, KubeApi, Object
from scaler.reasons.warnings import Warning
from scaler.report.reporter import PATIENCE
from scaler.rules.rule import Rule
from scaler.sim.actors import objects
from scaler.sim.actors.stand_in import StandIn
from scaler.sim.stories.instances import SHOWING, census, instance_of, labelled, service_of
from scaler.sim.stories.timeline import Moment, MomentKind, Timeline, counts_text
from scaler.workloads.volcanojob import VOLCANO_JOBS

_MAX_FAILURES = 20


class Recorder(StandIn):
    """`observe` is the controller's observer; `run` follows the cluster. Times count from
    `start()`."""

    def __init__(
        self, api: KubeApi, clock: Clock, timeline: Timeline, ungoverned: Mapping[str, str]
    ) -> None:
        super().__init__(api, *SHOWING)
        self._clock = clock
        self._timeline = timeline
        self._ungoverned = ungoverned
        """Namespace -> jobID of a service without a rule."""
        self._start = 0.0
        self._owned: dict[str, tuple[str, str, Object]] = {}
        """Pod uid -> service, instance and the pod as last seen, for every existing pod of a
        service."""
        self._notes: dict[str, tuple[str, ...]] = {}
        self._said: set[tuple[str, str]] = set()
        """Notes that have been recorded, by service."""
        self._ladders: dict[str, str] = {}
        self._plans: dict[ServiceKey, Plan] = {}
        """The last recorded plan of each service."""
        self._failures = 0
        self._counted = -1

    def start(self) -> None:
        """Set time zero of the timeline to now."""
        self._start = self._clock.now()

    @property
    def elapsed(self) -> float:
        return self._clock.now() - self._start

    def say(self, kind: MomentKind, text: str, service: str = "", subject: str = "") -> None:
        self._timeline.say(Moment(self.elapsed, kind, text, service, subject))

    async def _round(self) -> None:
        self._take_census()

    def _take_census(self) -> None:
        """Count again, unless nothing has changed since the last time."""
        if not self.mirror.synced or self.mirror.revision == self._counted:
            return
        self._counted = self.mirror.revision
        jobs = [*self.mirror.all(ASCEND_JOBS), *self.mirror.all(VOLCANO_JOBS)]
        pods = [labelled(pod, self._ungoverned) for pod in self.mirror.all(PODS)]
        service_of_job = {objects.uid(job): service_of(job) for job in jobs}
        lost = self._count_losses(pods)
        self._note_pods(pods, service_of_job)
        found = census(lambda kind: pods if kind is PODS else self.mirror.all(kind))
        for service in sorted({*found, *self._timeline.samples}):
            last = self._timeline.last(service)
            sample = msgspec.structs.replace(
                last,
                at=self.elapsed,
                instances=tuple(found.get(service, ())),
                pods_deleted=last.pods_deleted + lost["pods", service],
                revocations=last.revocations + lost["revoked instances", service],
                evictions=last.evictions + lost["bound pods", service],
            )
            self._timeline.add(service, sample)

    def _count_losses(self, pods: list[Object]) -> Counter[tuple[str, str]]:
        """(Kind of loss since the last look, service) -> number."""
        present = {objects.uid(pod): pod for pod in pods}
        lost = Counter[tuple[str, str]]()
        revoked = set()
        for uid, (service, instance, before) in self._owned.items():
            now = present.get(uid)
            if now is None:
                lost["pods", service] += 1
            if objects.terminating(before) or (now and not objects.terminating(now)):
                continue
            if objects.node_of(before):
                lost["bound pods", service] += 1
            elif not objects.gated(before) and not objects.ended(before):
                # it lost a pod for which the scheduler sought a node
                revoked.add((service, instance))
        for service, _ in revoked:
            lost["revoked instances", service] += 1
        return lost

    def _note_pods(self, pods: list[Object], service_of_job: dict[str, str]) -> None:
        """Remember the pods of services, to count losses at the next look."""
        known = self._owned
        self._owned = {}
        for pod in pods:
            uid = objects.uid(pod)
            job = objects.owner_uid(pod)
            service = known[uid][0] if uid in known else service_of_job.get(job) or service_of(pod)
            if service:
                instance = job if job in service_of_job else instance_of(pod, {})[0]
                self._owned[uid] = (service, instance, pod)

    def observe(self, world: World, decision: Decision) -> None:
        """Take in the decision of one pass of the controller, and check the invariants."""
        self._timeline.passes += 1
        self._take_census()  # so that plan and cluster are of the same time
        for violation in violations(world, decision):
            self._failures += 1
            if self._failures <= _MAX_FAILURES:
                self.say(MomentKind.FAILURE, f"invariant broken: {violation}")
        for service, plan in zip(world.services, decision.plans, strict=True):
            if plan.key.rule and not service.assumed and self._plans.get(plan.key) is not plan:
                self._plans[plan.key] = plan
                self._say_plan(plan, service.rule)

    def _say_plan(self, plan: Plan, rule: Rule | None) -> None:
        service = str(plan.key)
        ladder = " > ".join(counts_text(ratio.counts) for ratio in rule.ratios) if rule else ""
        said = self._ladders.get(service, "")
        self._ladders[service] = ladder or said
        if said and ladder and ladder != said:
            self.say(MomentKind.TARGET, f"rule {ladder}; before: {said}", service)
        smallest = dict(rule.smallest.counts) if rule else {}
        before = self._timeline.last(service)
        reasons = {verdict.name: str(verdict.reason) for verdict in plan.verdicts}
        after = msgspec.structs.replace(
            before,
            at=self.elapsed,
            target=plan.target,
            complete=plan.complete,
            smallest=smallest,
            reasons=reasons,
        )
        self._timeline.add(service, after)
        if before.target != after.target:
            self.say(MomentKind.TARGET, f"target {counts_text(after.target)}", service)
        if after.complete and not before.complete:
            self.say(MomentKind.TARGET, f"complete at {counts_text(after.target)}", service)
        for verdict in plan.verdicts:
            if before.reasons.get(verdict.name) != verdict.reason:
                text = f"{verdict.reason}: {explain.words(verdict, plan)}"
                self.say(MomentKind.INSTANCE, text, service, verdict.name)
        self._say_notes(service, plan)

    def _say_notes(self, service: str, plan: Plan) -> None:
        notes = tuple(dict.fromkeys(f"{note.warning}: {note.message}" for note in plan.notes))
        before = self._notes.get(service, ())
        self._notes[service] = notes
        for note in notes:
            if note not in before and Warning(note.partition(":")[0]).row.passing:
                asyncio.get_running_loop().call_later(PATIENCE, self._say_note, service, note)
            elif note not in before:
                self._say_note(service, note)
        for note in before:
            if note not in notes and (service, note) in self._said:
                self._said.discard((service, note))
                self.say(MomentKind.WARNING, f"resolved: {note.partition(':')[0]}", service)

    def _say_note(self, service: str, note: str) -> None:
        """Record a note, as the cluster's events do; not what comes and goes while jobs are applied
        one by one."""
        if note in self._notes[service] and (service, note) not in self._said:
            self._said.add((service, note))
            self.say(MomentKind.WARNING, note, service)
