"""Judges decisions about services that compete, pass by pass, by what could be seen: S1, S3, S8 to S11, L1, L4 and L5.

A matching of pods to nodes of its own; it shares nothing with scaler.decide but the words in which decisions come.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set

from scaler.clock import Clock
from scaler.decide.world import Admit, Decision, Evict, Plan, Preempt, Reason, Revoke, State
from scaler.kube.api import ASCEND_JOBS, NODES, PODS, EventType
from scaler.sim.actors import objects
from scaler.sim.apiserver.store import Change
from scaler.sim.cluster import SimCluster
from tests.contention.services import FOREIGN, Service
from tests.contention.view import Job, Sight, fit

SETTLED = 1.0
"""Seconds for which what is seen may contradict S10: a loss is seen and answered within it."""
PATIENCE = 360.0
"""Seconds for which a minimum may wait beside nodes that are free for it: somebody else's may wait for what comes."""
ABLE = frozenset({Reason.MINIMUM_DOES_NOT_FIT, Reason.MINIMUM_TOO_LARGE, Reason.WAITING_FOR_CAPACITY, Reason.REVOKED,
                  Reason.WAITING_FOR_RATIO})  # fmt: skip
"""Why an instance is held that could start if there were room."""
TURN = 30.0
"""Seconds after which room may not be kept any more for what makes no progress."""
_MOST_WORDS = 5


class Witness:
    """`observe` looks in every pass, before what was decided is acted on; `sight` is what the controller has seen.

    `given_up`: keys of services that make no progress. `lag`: seconds by which watches may be late. `patience`: seconds
    for which a minimum may wait beside nodes that are free for it.
    """

    def __init__(
        self, cluster: SimCluster, clock: Clock, services: Iterable[Service], *, given_up: Set[str] = frozenset(),
        lag: float = 0.0, preempt: Preempt = Preempt.HIGHER_PRIORITY, honour: bool = True, patience: float = PATIENCE,
    ) -> None:  # fmt: skip
        self.sight = Sight(services)
        self._given_up = given_up
        self._cluster = cluster
        self._clock = clock
        self._preempt = preempt
        self._honour = honour
        self._settled = SETTLED + 2 * lag
        self._patience = patience
        self._since: dict[str, float] = {}
        """What has been wrong, in words -> since when."""
        self._lost: dict[int, tuple[str, str]] = {}
        """Version of a deletion -> owner and name of the pod, which was bound and had not ended."""
        self._evicted: set[str] = set()
        self._going: set[str] = set()
        """Instances that were revoked, and whose pods may still be seen."""
        self._part_since: dict[str, float] = {}
        """Since when instances are bound in part."""
        self._plans: dict[str, Plan] = {}
        self.admitted: Counter[str] = Counter()
        """Admissions by instance."""
        self.admissions_at: list[tuple[float, str]] = []
        """When which instance was admitted."""
        self.evictions: defaultdict[str, list[float]] = defaultdict(list)
        """When something was evicted for a service."""
        self.revocations = 0
        self.held_up = 0.0
        """Seconds for which, at most, a minimum waited beside nodes that were free for it."""
        self.wrong: list[str] = []
        """What broke a promise, in words."""
        cluster.observe(self._note_losses)

    @property
    def admissions(self) -> int:
        return self.admitted.total()

    def observe(self, decision: Decision) -> None:
        """One pass of the controller."""
        plans = {str(plan.key): plan for plan in decision.plans if str(plan.key) in self.sight.services}
        self._plans = plans
        self._check_targets(plans)
        self._check_evictions(plans)
        self._take_note(plans)
        reserved = self._reserved(plans)
        self._check_scale_ups(plans, reserved)
        self._check_minimums(plans, reserved)
        self._check_who_is_held_up(plans)

    def finish(self) -> None:
        """Ask once, at the end: what has been wrong until now, and everything that the controller wrote."""
        self._check_who_is_held_up(self._plans)
        for write in self._cluster.writes("scaler"):
            owner, pod = self._lost.get(int(write.version or 0), ("", ""))
            if pod and owner not in self._evicted:
                self.say(f"S3: {pod} is deleted though it is bound")
            if write.resource == NODES or write.namespace == FOREIGN:
                self.say(f"S8: {write.verb} {write.resource.kind} {write.namespace}/{write.name}")

    def say(self, what: str) -> None:
        """A promise is broken."""
        if len(self.wrong) < _MOST_WORDS:
            self.wrong.append(f"{self._clock.now() % 100_000:.3f}: {what}")

    def _lasts(self, what: str, longest: float, *, wrong: bool) -> bool:
        """Whether it has been wrong for longer than this."""
        now = self._clock.now()
        if not wrong:
            self._since.pop(what, None)
            return False
        return now - self._since.setdefault(what, now) > longest

    def _note_losses(self, change: Change) -> None:
        """Whose doing it was is in the audit, under the same version."""
        if change.resource != PODS or change.before is None:
            return
        before, after = change.before.object, change.after.object
        loses = change.type is EventType.DELETED or objects.terminating(after)
        lived = objects.node_of(before) and not objects.ended(before) and not objects.terminating(before)
        if loses and lived and self._is_wanted(objects.owner_uid(before)):
            self._lost[change.version] = objects.owner_uid(before), objects.name(before)

    def _is_wanted(self, owner: str) -> bool:
        """Its job is still there; pods of a job that is going away may be cleared away by anybody."""
        records = self._cluster.server.store.table(ASCEND_JOBS).records.values()
        return any(objects.uid(one.object) == owner and not objects.terminating(one.object) for one in records)

    def _take_note(self, plans: Mapping[str, Plan]) -> None:
        now = self._clock.now()
        parts = {job.uid for key in plans for job in self.sight.all_of(key) if self.sight.is_in_part(job)}
        self._part_since = {uid: self._part_since.get(uid, now) for uid in parts}
        for plan in plans.values():
            admitted, revoked = _uids(plan, Admit), _uids(plan, Revoke)
            self.admitted.update(admitted)
            self.admissions_at += [(now, uid) for uid in sorted(admitted)]
            self.revocations += len(revoked)
            self._going = (self._going | revoked) - admitted
            for action in plan.actions:
                if isinstance(action, Evict):
                    self._evicted.add(action.uid)
                    self.evictions[action.beneficiary].append(now)

    # S1

    def _check_targets(self, plans: Mapping[str, Plan]) -> None:
        """What runs, what waits for the scheduler and what is admitted now are never more than the target."""
        for key, plan in plans.items():
            admitted = _uids(plan, Admit)
            for group, target in plan.target.items() if admitted else ():
                jobs = self.sight.of(key, group)
                fresh = {job.uid for job in jobs if job.uid in admitted}
                there = {job.uid for job in jobs if self.sight.is_running(job)} | fresh
                there |= self._in_hands(key, plan).intersection(job.uid for job in jobs)
                if fresh and len(there) > target:
                    self.say(f"S1: {key} gets {len(there)} in {group}, above its target {target}")

    # S3 and S11

    def _check_evictions(self, plans: Mapping[str, Plan]) -> None:
        """Only what is beyond a minimum goes, of whom it may be taken, and what becomes free places the beneficiary."""
        gone: defaultdict[str, set[str]] = defaultdict(set)
        for key, plan in plans.items():
            for action in plan.actions:
                if isinstance(action, Evict):
                    gone[action.beneficiary].add(action.uid)
                    self._check_victim(key, action.beneficiary)
            self._check_kept(key, _uids(plan, Evict))
        for key, victims in gone.items():
            wanted = self.sight.missing(key, without=victims)
            room = self.sight.free(coming=True, without=victims | self._evicted)
            if not fit(wanted, room):
                self.say(f"S11: {len(victims)} go for {key}, and {_told(wanted)} still does not fit on {_told(room)}")
            if not wanted and self.sight.services[key].annotations.get("trade") != "always":
                self.say(f"S11: {len(victims)} go for {key}, which misses nothing")

    def _check_victim(self, key: str, beneficiary: str) -> None:
        victim, other = self.sight.services[key], self.sight.services[beneficiary]
        if victim is other:
            allowed = victim.annotations.get("trade") != "off"
        else:
            equal = self._preempt is Preempt.EQUAL_OR_HIGHER and victim.worth == other.worth
            open_to_it = not self._honour or victim.annotations.get("preemptable") != "false"
            allowed = self._preempt is not Preempt.NEVER and open_to_it and (victim.worth < other.worth or equal)
        if not allowed:
            self.say(f"S3: {key} ({victim.worth}) loses pods to {beneficiary} ({other.worth})")

    def _check_kept(self, key: str, victims: Set[str]) -> None:
        for group, least in self.sight.services[key].minimum.items() if victims else ():
            running = [job.uid for job in self.sight.of(key, group) if self.sight.is_running(job)]
            left = len([uid for uid in running if uid not in victims])
            if left < min(least, len(running)):
                self.say(f"S3: {key} keeps {left} of {len(running)} in {group}, its minimum is {least}")

    # S9 and S10

    def _in_hands(self, key: str, plan: Plan | None) -> set[str]:
        """Its instances that the scheduler may bind once this plan has taken effect. What is bound in part and has had
        its turn is none of them: it keeps what it has, and no more is kept for it."""
        jobs = {job.uid: job for job in self.sight.all_of(key)}
        seen = self.sight.released(key)
        self._going -= jobs.keys() - seen
        broken = {verdict.uid for verdict in plan.verdicts if verdict.state is State.BROKEN} if plan else set()
        over = {uid for uid in seen if self.sight.has_bound(jobs[uid]) and (uid in broken or self._is_over(uid))}
        return (seen - self._going - over) | (_uids(plan, Admit) if plan else set())

    def _is_over(self, uid: str) -> bool:
        """It has been bound in part for a turn."""
        return self._clock.now() - self._part_since.get(uid, math.inf) >= TURN

    def _reserved(self, plans: Mapping[str, Plan]) -> list[str]:
        """Services for whose minimum room is kept: it is on its way to a node, or waits for what becomes free."""
        waiting = [key for key in self.sight.waiting() if self.sight.has_neighbour(key)]
        return [key for key in waiting if key in plans and self._is_reserved(key, plans[key])]

    def _is_reserved(self, key: str, plan: Plan) -> bool:
        """While writes for it are under way its new jobs are not decided about."""
        held = {verdict.reason for verdict in plan.verdicts if verdict.state is State.HELD}
        waits = held & {Reason.WAITING_FOR_ROOM, Reason.WAITING_FOR_SCHEDULER}
        known = {verdict.uid for verdict in plan.verdicts}
        return known >= {job.uid for job in self.sight.all_of(key)} and bool(waits or self._in_hands(key, plan))

    def _check_scale_ups(self, plans: Mapping[str, Plan], reserved: Sequence[str]) -> None:
        """Wherever the scheduler puts a scale-up that is admitted, and what it has, every reservation still fits."""
        for key, plan in plans.items():
            if _uids(plan, Admit) and self.sight.serves(key):
                self._check_scale_up(key, plans, reserved)

    def _check_scale_up(self, key: str, plans: Mapping[str, Plan], reserved: Sequence[str]) -> None:
        own = self.sight.services[key].kind
        minimums = self._missing(reserved)
        hands = {other: self._in_hands(other, plan) for other, plan in plans.items()}
        others = [other for other in hands if other not in reserved]
        scale_ups = [kind for other in others for kind in self._kinds(other, hands[other])]
        flexible = [kind for other in hands for kind in self._kinds(other, hands[other]) if not kind]
        free, soon = self.sight.free(), self.sight.free(coming=True, away=True, without=self._evicted)
        kinds = {kind for kind in (set(soon) if not own else {own}) if kind in minimums}
        spoilt = [kind for kind in kinds if _most(kind, [*minimums, *scale_ups], flexible, free) > soon.count(kind)]
        if minimums and (spoilt or not fit([*minimums, *scale_ups], soon)):
            self.say(
                f"S9: {key} scales up, {_told(minimums)} are reserved on {_told(soon)}, {len(flexible)} may go anywhere"
            )

    def _kinds(self, key: str, uids: Set[str]) -> list[str]:
        jobs: list[Job] = [job for job in self.sight.all_of(key) if job.uid in uids]
        return [self.sight.services[key].kind] * sum(self.sight.unbound(job) for job in jobs)

    def _check_minimums(self, plans: Mapping[str, Plan], reserved: Sequence[str]) -> None:
        """Minimums in the scheduler's hands fit all together; who waits would not fit beside them."""
        parts = [self.sight.in_part(key) for key in plans if key not in reserved]
        hands = [key for key in reserved if self._in_hands(key, plans[key])]
        wanted = self._missing(hands)
        room = self.sight.free(coming=True, away=True)
        if self._lasts("S10", self._settled, wrong=not fit(wanted, room)):
            self.say(f"S10: minimums of {hands} do not fit together: {_told(wanted)} on {_told(room)}")
        self._check_release(plans, hands, reserved)
        kept = [self.sight.missing(key) for key in reserved]
        for key in self.sight.services:
            waits = key in plans and key not in reserved and self._could_start(key, plans[key])
            wrong = waits and self.sight.fits([*parts, *kept, self.sight.missing(key)])
            if self._lasts(f"L1 {key}", self._settled, wrong=wrong):
                beside = _told(kind for each in kept for kind in each)
                self.say(f"L1: {key} is held though it fits beside {beside} on {_told(self.sight.free())}")

    def _missing(self, keys: Iterable[str]) -> list[str]:
        return [kind for key in keys for kind in self.sight.missing(key)]

    def _check_release(self, plans: Mapping[str, Plan], hands: Sequence[str], reserved: Sequence[str]) -> None:
        """A minimum goes to the scheduler on room that is free beside all that the scheduler has, beside all that is
        reserved, and, where all nodes are alike, whole."""
        fresh = [key for key in hands if _uids(plans[key], Admit)]
        held = [kind for key, plan in plans.items() for kind in self._kinds(key, self._in_hands(key, plan))]
        if fresh and not self.sight.fits([held]):
            free = _told(self.sight.free())
            self.say(f"S10: the minimums of {fresh} are released, but {_told(held)} does not fit on {free}")
        soon, kept = self.sight.free(coming=True, away=True, without=self._evicted), self._missing(reserved)
        if fresh and not fit(kept, soon):
            self.say(f"S10: the minimums of {fresh} are released into {_told(soon)}, where {_told(kept)} are reserved")
        alike = len({node.kind for node in self.sight.nodes.values()}) == 1
        for key in fresh if alike else ():
            if Reason.CREATE_REFUSED not in _reasons(plans[key]):
                self._check_whole(key, plans[key])

    def _check_whole(self, key: str, plan: Plan) -> None:
        out = self._in_hands(key, plan)
        for group, least in self.sight.services[key].minimum.items():
            there = [job for job in self.sight.of(key, group) if job.uid in out or self.sight.has_bound(job)]
            if len(there) < least:
                self.say(f"S10: of the minimum of {key} only {len(there)} of {least} in {group} are released")

    def _could_start(self, key: str, plan: Plan) -> bool:
        """Its minimum waits, and for nothing but room."""
        held = [verdict.reason for verdict in plan.verdicts if verdict.reason not in (Reason.RUNNING, Reason.STARTING)]
        return key in self.sight.waiting() and not self.sight.ends(key) and set(held) <= ABLE and bool(held)

    # L5

    def _check_who_is_held_up(self, plans: Mapping[str, Plan]) -> None:
        """What makes no progress keeps nobody for long from nodes that are free."""
        waiting = set(self.sight.waiting())
        for key in self.sight.services.keys() - self._given_up:
            wrong = key in waiting and self.sight.fits([self.sight.missing(key)])
            what = f"L5 {key}"
            if self._lasts(what, self._patience, wrong=wrong):
                why = sorted(_reasons(plans[key])) if key in plans else []
                wanted, free = _told(self.sight.missing(key)), _told(self.sight.free())
                self.say(f"L5: {key} is held up though {wanted} fits on {free}: {', '.join(why)}")
                self._since[what] = self._clock.now()
            if what in self._since:
                self.held_up = max(self.held_up, self._clock.now() - self._since[what])


def _told(kinds: Iterable[str]) -> str:
    """`3x module-910b-8, 2x any`."""
    return ", ".join(f"{times}x {kind or 'any'}" for kind, times in sorted(Counter(kinds).items())) or "nothing"


def _uids(plan: Plan, kind: type[Admit | Revoke | Evict]) -> set[str]:
    return {action.uid for action in plan.actions if isinstance(action, kind)}


def _reasons(plan: Plan) -> set[Reason]:
    return {verdict.reason for verdict in plan.verdicts}


def _most(kind: str, picky: Sequence[str], flexible: Sequence[str], free: Sequence[str]) -> int:
    """So many nodes of this kind are needed at the worst."""
    return list(picky).count(kind) + min(len(flexible), list(free).count(kind))
