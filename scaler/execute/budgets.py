"""Keeps evictions away from the minimum: a PodDisruptionBudget that allows none, and a label that says of which pods.

    instance, rule, node or budget changed -> which instances to keep -> label onto their pods, off others

The budget of a namespace never changes: it allows no eviction of what has the label. A budget that counts pods would be
wrong for instances of several pods, and would know nothing of ratios. `kubectl drain` cordons the node first and tries
again every 5 s: the label moves to instances elsewhere as far as there are any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import structlog

from scaler.decide.keeping import Runs, to_keep
from scaler.decide.state import NEVER_SEEN, counts_as_running, state_of
from scaler.decide.world import Instance, Policy, Service, ServiceKey
from scaler.informers.changes import BudgetsChanged, InstanceChanged, NodeChanged, RuleChanged
from scaler.informers.pods import PodRecord
from scaler.kube.api import DISRUPTION_BUDGETS, PODS, Object, PatchType
from scaler.kube.errors import AlreadyExistsError, NotFoundError
from scaler.kube.outbox import Outbox
from scaler.kube.slots import Slots
from scaler.kube.writer import Writer
from scaler.names import KEEP_LABEL, MANAGED_BY, MANAGED_BY_LABEL
from scaler.state.cluster import ClusterState

ALL_OF_THEM = 2**31 - 1
"""More pods than there are. A whole number, because AscendJobs have no scale subresource: any other way to say it needs
one, and a budget without it allows nothing for the wrong reason."""
INTERVAL = 1.0
"""Seconds between two looks at one service."""
PARALLEL_WRITES, PARALLEL_WRITES_OF_ONE = 8, 2
_log = structlog.get_logger("budgets")


class Budgets:
    """Of one process. `acts` says whether anything is to be done about pods now; `unseen` why nobody knows the budgets,
    "" while they are known."""

    def __init__(
        self, writer: Writer, state: ClusterState, policy: Policy, *, name: str, now: Callable[[], float],
        acts: Callable[[], bool], unseen: Callable[[], str],
    ) -> None:  # fmt: skip
        self._writer, self._state, self._cache = writer, state, state.cache
        self._policy, self._name, self._now = policy, name, now
        self._acts, self._unseen = acts, unseen
        self._outbox: Outbox[ServiceKey] = Outbox(
            self._keep,
            interval=INTERVAL,
            slots=Slots(PARALLEL_WRITES, most_of_one=PARALLEL_WRITES_OF_ONE),
            namespace_of=lambda key: key.namespace,
        )
        self._making = asyncio.Lock()
        self._running = False
        self._cordoned: set[str] = set()
        self._said: dict[str, str] = {}
        """Namespace -> why nothing is kept there, as far as it was said."""

    async def run(self) -> None:
        """Keep until cancelled, beginning with a look at all. Errors are logged and tried again, never raised."""
        self._running = True
        try:
            self.look()
            await self._outbox.run()
        finally:
            self._running = False

    def look(self) -> None:
        """Look at every service, and at namespaces that have a budget and perhaps none any more."""
        namespaces = {budget.namespace for budget in self._cache.budgets.values()}
        for key in (*self._cache.service_keys(), *(ServiceKey(namespace, "", "") for namespace in namespaces)):
            self._outbox.mark(key)

    def on_service(self, change: InstanceChanged | RuleChanged) -> None:
        """While this process does not lead nothing is remembered: `run` looks at all."""
        if self._running and change.service is not None:
            self._outbox.mark(change.service)

    def on_node(self, change: NodeChanged) -> None:
        """A node that is cordoned, or not any more, matters to those who run on it."""
        cordoned = change.facts is not None and change.facts.unschedulable
        if cordoned == (change.name in self._cordoned):
            return
        (self._cordoned.add if cordoned else self._cordoned.discard)(change.name)
        for key in self._cache.services_on(change.name) if self._running else ():
            self._outbox.mark(key)

    def on_budgets(self, change: BudgetsChanged) -> None:
        """A budget came or went: ours may have to be made again, or to stand back."""
        for key in self._cache.service_keys() if self._running else ():
            if key.namespace == change.namespace:
                self._outbox.mark(key)

    async def _keep(self, key: ServiceKey) -> None:
        """Bring the labels of one service up to date; first onto what is kept, then off what is not."""
        if not self._acts():
            return
        if not self._cache.has_instances(key):
            await self._tidy(key.namespace)
            return
        service = self._state.service(key)
        kept = self._kept(service) if not self._foreign(key.namespace) else frozenset()
        if kept:
            await self._made(key.namespace)
        for wanted in (True, False):
            for one in service.instances:
                for pod in self._pods(one) if (one.uid in kept) is wanted else ():
                    if pod.kept is not wanted:
                        await self._label(pod, wanted=wanted)

    def _kept(self, service: Service) -> frozenset[str]:
        if service.rule is None:
            return frozenset()
        return to_keep(service.rule.limited(service.replicas).smallest, list(self._runs(service)))

    def _runs(self, service: Service) -> Iterator[Runs]:
        for one in service.instances:
            state = state_of(one, NEVER_SEEN, self._now(), self._policy)
            if one.group is not None and counts_as_running(one, state, service.options.counts_from):
                pods = self._pods(one)
                settled = not any(pod.node in self._cordoned for pod in pods)
                yield Runs(one.uid, one.group, settled, all(pod.kept for pod in pods))

    def _pods(self, instance: Instance) -> list[PodRecord]:
        pods = self._cache.pods_of(instance.uid)
        return [pods[name] for name in sorted(pods) if not pods[name].terminating]

    def _foreign(self, namespace: str) -> str:
        """Why nothing may be kept here, said once: a pod under two budgets cannot be evicted at all."""
        others = sorted(
            budget.name
            for budget in self._cache.budgets.values()
            if budget.namespace == namespace and budget.name != self._name
        )
        why = self._unseen() or (f"PodDisruptionBudget {', '.join(others[:5])}" if others else "")
        if why != self._said.get(namespace, ""):
            self._said[namespace] = why
            words = "evictions are not kept from minimums here" if why else "evictions are kept from minimums here"
            _log.warning(words, namespace=namespace, why=why or "no other PodDisruptionBudget is here any more")
        return why

    async def _made(self, namespace: str) -> None:
        async with self._making:
            if self._cache.budgets.get(namespace, self._name) is None:
                try:
                    made = await self._writer.create(DISRUPTION_BUDGETS, namespace, budget(namespace, self._name))
                except AlreadyExistsError:
                    return
                _log.info("budget made", namespace=namespace, name=made["metadata"]["name"])

    async def _tidy(self, namespace: str) -> None:
        """The budget goes with the last service of its namespace."""
        found = self._cache.budgets.get(namespace, self._name)
        if found is not None and not any(key.namespace == namespace for key in self._cache.service_keys()):
            await self._writer.delete(DISRUPTION_BUDGETS, namespace, found.name, uid=found.uid)

    async def _label(self, pod: PodRecord, *, wanted: bool) -> None:
        patch: dict[str, Any] = {"uid": pod.uid, "labels": {KEEP_LABEL: "true" if wanted else None}}
        try:
            await self._writer.patch(PODS, pod.namespace, pod.name, {"metadata": patch}, patch_type=PatchType.MERGE)
        except NotFoundError:
            return  # gone, which the watch tells


def budget(namespace: str, name: str) -> Object:
    """Allows no eviction of what has the label."""
    return {
        "apiVersion": DISRUPTION_BUDGETS.api_version,
        "kind": DISRUPTION_BUDGETS.kind,
        "metadata": {"namespace": namespace, "name": name, "labels": {MANAGED_BY_LABEL: MANAGED_BY}},
        "spec": {"minAvailable": ALL_OF_THEM, "selector": {"matchLabels": {KEEP_LABEL: "true"}}},
    }
