"""Judges what the controller does with a crowd, pass by pass, by what it could see: S1, S3, S8, S9, S10 and L4.

A matching of pods to nodes of its own; it shares nothing with scaler.decide but the words in which decisions come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set

from scaler.clock import Clock
from scaler.decide.world import Admit, Evict, Plan, Revoke, Snapshot
from scaler.kube.api import ASCEND_JOBS, NODES, PODS, EventType
from scaler.sim.actors import objects
from scaler.sim.apiserver.store import Change
from scaler.sim.cluster import SimCluster
from tests.crowds.services import FOREIGN, Service
from tests.crowds.sight import Sight

SETTLED = 1.0
"""Seconds for which what is seen may contradict S10: a loss is seen and answered within it."""
_MOST_WORDS = 5


class Witness:
    """`observe` looks in every pass, before what was decided is acted on; `sight` is what the controller has seen.

    `given_up`: keys of services that are never bound, and block nobody. `lag`: seconds by which watches may be late.
    """

    def __init__(
        self, cluster: SimCluster, clock: Clock, services: Iterable[Service], *, given_up: Set[str] = frozenset(),
        lag: float = 0.0,
    ) -> None:  # fmt: skip
        self.sight = Sight(services)
        self._given_up = given_up
        self._cluster = cluster
        self._clock = clock
        self._patience = SETTLED + 2 * lag
        self._crowded_since: float | None = None
        self._lost: dict[int, tuple[str, str]] = {}
        """Version of a deletion -> owner and name of the pod, which was bound and had not ended."""
        self._evicted: set[str] = set()
        self.admitted: Counter[str] = Counter()
        """Admissions by instance."""
        self.revocations = 0
        self.wrong: list[str] = []
        """What broke a promise, in words."""
        cluster.observe(self._note_losses)

    @property
    def admissions(self) -> int:
        return self.admitted.total()

    def observe(self, decisions: Sequence[tuple[Snapshot, Plan]]) -> None:
        """One pass of the controller."""
        for _, plan in decisions:
            self.admitted.update(action.uid for action in plan.actions if isinstance(action, Admit))
            self.revocations += sum(isinstance(action, Revoke) for action in plan.actions)
            self._evicted.update(action.uid for action in plan.actions if isinstance(action, Evict))
        plans = {str(plan.key): plan for _, plan in decisions if str(plan.key) in self.sight.services}
        self._check_targets(plans)
        self._check_climbs(plans)
        self._check_minimums(plans)

    def check_writes(self) -> None:
        """S3 and S8, of everything that the controller wrote; ask once, at the end."""
        for write in self._cluster.writes("scaler"):
            owner, pod = self._lost.get(int(write.version or 0), ("", ""))
            if pod and owner not in self._evicted:
                self._say(f"S3: {pod} is deleted though it is bound")
            if write.resource == NODES or write.namespace == FOREIGN:
                self._say(f"S8: {write.verb} {write.resource.kind} {write.namespace}/{write.name}")

    def _say(self, what: str) -> None:
        if len(self.wrong) < _MOST_WORDS:
            self.wrong.append(f"{self._clock.now() % 100_000:.3f}: {what}")

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

    def _check_targets(self, plans: Mapping[str, Plan]) -> None:
        """S1: what runs, what waits for the scheduler and what is admitted now are never more than the target."""
        for key, plan in plans.items():
            admitted = {action.uid for action in plan.actions if isinstance(action, Admit)}
            for group, target in plan.target.items() if admitted else ():
                jobs = self.sight.of(key, group)
                fresh = {job.uid for job in jobs if job.uid in admitted}
                there = {job.uid for job in jobs if self.sight.is_running(job)} | fresh
                there |= self.sight.released(key).intersection(job.uid for job in jobs)
                if fresh and len(there) > target:
                    self._say(f"S1: {key} gets {len(there)} in {group}, above its target {target}")

    def _check_climbs(self, plans: Mapping[str, Plan]) -> None:
        """S9: nobody that serves gets more while a minimum waits that would fit on what is, or soon will be, free."""
        for key, plan in plans.items():
            if any(isinstance(action, Admit) for action in plan.actions) and self.sight.serves(key):
                self._check_climb(key)

    def _check_climb(self, key: str) -> None:
        kind = self.sight.services[key].kind
        for other in self.sight.waiting():
            if other == key or other in self._given_up:
                continue
            meets = self.sight.meet(kind, self.sight.services[other].kind)
            if meets and self.sight.fits([self.sight.missing(other)], soon=True):
                self._say(f"S9: {key} climbs while {other} waits")

    def _check_minimums(self, plans: Mapping[str, Plan]) -> None:
        """S10: minimums in the scheduler's hands fit all together, whole; a loss is answered within a moment."""
        waiting = [key for key in self.sight.waiting() if self._is_reserved(key, plans.get(key))]
        reserved = [self.sight.missing(key) for key in waiting if self.sight.has_neighbour(key)]
        if self.sight.fits(reserved):
            self._crowded_since = None
        elif self._crowded_since is None:
            self._crowded_since = self._clock.now()
        elif self._clock.now() - self._crowded_since > self._patience:
            self._say(f"S10: {len(reserved)} minimums do not fit together: {self.sight.free()}")

    def _is_reserved(self, key: str, plan: Plan | None) -> bool:
        """Some of its minimum is on its way to a node, or is sent there now."""
        actions = plan.actions if plan else ()
        back = {action.uid for action in actions if isinstance(action, Revoke)}
        return bool(self.sight.released(key) - back) or any(isinstance(action, Admit) for action in actions)
