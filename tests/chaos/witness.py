"""What judgements find wrong, and the trace of all that happened. Each judgement is a class that is
given a witness.

Of commits and requests: tests.chaos.writes; of decisions: tests.chaos.decisions,
tests.contention.passes; of a world at rest: tests.chaos.judge; of a tenant that is left alone:
here."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter

import msgspec

from scaler.clock import Clock
from scaler.kube.api import DEPLOYMENTS, PODS
from scaler.sim.actors import objects
from scaler.sim.actors.operator import NAMESPACE as OPERATOR_NAMESPACE
from scaler.sim.apiserver.store import Change
from scaler.sim.cluster import SimCluster
from tests.chaos.inventory import HEALTHY


class Witness:
    """`failures` in words, at most `most`; `counts` of what was seen."""

    def __init__(self, clock: Clock, *, keep_trace: bool = False, most: int = 1000) -> None:
        self.failures: list[str] = []
        self.counts: Counter[str] = Counter()
        self.trace: list[str] | None = [] if keep_trace else None
        self.clock = clock
        self._most = most
        self._origin = clock.now()
        self._since: dict[str, float] = {}
        """What has been wrong, in words -> since when."""
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def note(self, line: str) -> None:
        line = f"{self.clock.now() - self._origin:10.3f} {line}"
        self._digest.update(line.encode())
        if self.trace is not None:
            self.trace.append(line)

    def fail(self, what: str) -> None:
        if len(self.failures) < self._most:
            self.failures.append(f"{self.clock.now() - self._origin:.3f} s: {what}")
        self.note(f"FAILURE {what}")

    def since(self, what: str, *, wrong: bool) -> float:
        """Seconds for which it has been wrong."""
        if not wrong:
            self._since.pop(what, None)
            return 0.0
        return self.clock.now() - self._since.setdefault(what, self.clock.now())


PODS_OF_IT = HEALTHY.nodes_for(HEALTHY.ladder[0])


class HealthyTenant:
    """Fails when the healthy service is not served from `by` seconds on, or loses pods of
    itself."""

    def __init__(self, cluster: SimCluster, witness: Witness, *, by: float) -> None:
        self._cluster = cluster
        self._clock = witness.clock
        self._witness = witness
        self._served = False
        self._hurt_until = 0.0
        self._first_due = self._clock.now() + by
        self._check_at(self._first_due)
        cluster.observe(self._see)

    def expect(self, within: float, *, hurt: float = 5.0) -> None:
        """Something happens to it now, and for `hurt` seconds; it must be whole again `within` so
        many. Not before it is due for the first time: until then anything may be refused again and
        again."""
        self._hurt_until = max(self._hurt_until, self._clock.now() + hurt)
        self._served = False
        self._check_at(max(self._clock.now() + within, self._first_due))
        self.look()

    def _check_at(self, due: float) -> None:
        delay = due - self._clock.now()
        asyncio.get_running_loop().call_later(delay, self._check, delay)

    def _check(self, patience: float) -> None:
        self.look()
        if not self._served and self._cluster.peek(DEPLOYMENTS, OPERATOR_NAMESPACE):
            # until that goes, its pods are the operator's to make
            self._check_at(self._clock.now() + patience)
        elif not self._served:
            self._witness.fail(
                f"healthy: {HEALTHY.name} is not served though it had {patience:g} s"
            )

    def _see(self, change: Change) -> None:
        if change.resource == PODS and change.key[0] == HEALTHY.namespace:
            self.look()

    def look(self) -> None:
        """Now: how many of its pods run on good nodes, and not whether it was so before."""
        pods = self._cluster.peek(PODS, HEALTHY.namespace)
        runs = [
            pod for pod in pods if objects.phase(pod) == "Running" and not objects.terminating(pod)
        ]
        served = len(runs) == PODS_OF_IT
        if self._served and not served and self._clock.now() > self._hurt_until:
            self._witness.fail(
                f"healthy: {HEALTHY.name} lost {PODS_OF_IT - len(runs)} pods of itself"
            )
        self._served = served


class Played(msgspec.Struct, omit_defaults=True):
    """What is left of one history; `failures` name broken promises, `gaps` what is known not to be
    promised."""

    seed: int
    failures: list[str]
    gaps: list[str] = []
    counts: dict[str, int] = {}
    admissions: int = 0
    """Of the instance that was admitted most often, in a story."""
    digest: str = ""
    """Differs where anything happened at another moment or in another order."""
    trace: list[str] = []
    said: dict[str, dict[str, str]] = {}
    """Service -> instance -> reason, as the status says at rest."""
