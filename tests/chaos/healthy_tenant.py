"""Whether a healthy service of another tenant is served all the same, whatever is written and whatever fails.

Nobody touches its objects but `healthy hurt`. Judged from its pods alone. Must not: know of the controller.
"""

from __future__ import annotations

import asyncio

from scaler.clock import Clock
from scaler.kube.api import DEPLOYMENTS, PODS
from scaler.sim.actors import objects
from scaler.sim.actors.operator import NAMESPACE as OPERATOR_NAMESPACE
from scaler.sim.apiserver.store import Change
from scaler.sim.cluster import SimCluster
from tests.chaos.witness import Witness
from tests.chaos.world import HEALTHY

PODS_OF_IT = HEALTHY.nodes_for(HEALTHY.ladder[0])


class Onlooker:
    """Fails when the healthy service is not served from `by` seconds on, or is hurt by nobody."""

    def __init__(self, cluster: SimCluster, clock: Clock, witness: Witness, *, by: float) -> None:
        self._cluster = cluster
        self._clock = clock
        self._witness = witness
        self._served = False
        self._hurt_until = 0.0
        self._first_due = clock.now() + by
        self._check_at(self._first_due)
        cluster.observe(self._see)

    def expect(self, within: float, *, hurt: float = 5.0) -> None:
        """Something happens to it now, and for `hurt` seconds; it must be whole again `within` so many. Not before it
        is due for the first time: until then anything may be refused again and again."""
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
            self._check_at(self._clock.now() + patience)  # until that goes, its pods are the operator's to make
        elif not self._served:
            self._witness.fail(f"healthy: {HEALTHY.name} is not served though it had {patience:g} s")

    def _see(self, change: Change) -> None:
        if change.resource == PODS and change.key[0] == HEALTHY.namespace:
            self.look()

    def look(self) -> None:
        """Now: how many of its pods run on good nodes, and not whether it was so before."""
        pods = self._cluster.peek(PODS, HEALTHY.namespace)
        runs = [pod for pod in pods if objects.phase(pod) == "Running" and not objects.terminating(pod)]
        served = len(runs) == PODS_OF_IT
        if self._served and not served and self._clock.now() > self._hurt_until:
            self._witness.fail(f"healthy: {HEALTHY.name} lost {PODS_OF_IT - len(runs)} pods though nobody touched it")
        self._served = served
