"""Keeps evictions away from the minimum: a PodDisruptionBudget that allows none, and a label of the pods it is about.

    instance, rule, node or budget changed -> which instances to keep -> label onto their pods, off others

The budget of a namespace never changes: it allows no eviction of what has the label. A budget that counts pods would be
wrong for instances of several pods, and would know nothing of ratios. `kubectl drain` cordons the node first and tries
again every 5 s: the label moves to instances elsewhere as far as there are any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import structlog

from scaler.decide.memory import NEVER_SEEN
from scaler.decide.state import counts_as_running, state_of
from scaler.decide.world import Instance, Policy, Service, ServiceKey
from scaler.informers.changes import BudgetsChanged, InstanceChanged, NodeChanged, RuleChanged
from scaler.informers.informer import Informer
from scaler.informers.pods import PodRecord
from scaler.informers.records import BudgetObject, BudgetRecord
from scaler.kube.api import DISRUPTION_BUDGETS, PODS, Object, PatchType
from scaler.kube.errors import AlreadyExistsError, ConflictError, ForbiddenError, NotFoundError
from scaler.kube.outbox import Outbox
from scaler.kube.writer import Writer
from scaler.names import KEEP_LABEL, MANAGED_BY, MANAGED_BY_LABEL
from scaler.rules.rule import Ratio
from scaler.rules.values import at
from scaler.state.cluster import ClusterState

ALL_OF_THEM = 2**31 - 1
"""More pods than there are. A whole number, because AscendJobs have no scale subresource: any other way to say it needs
one, and a budget without it allows nothing for the wrong reason."""
INTERVAL = 1.0
"""Seconds between two looks at one service."""
PARALLEL_WRITES, PARALLEL_WRITES_OF_ONE = 8, 2
PATIENCE = 30.0
"""Seconds in which the budgets should have been listed."""
AGAIN = 300.0
"""Seconds after which a right that was missing is tried again."""
_log = structlog.get_logger("budgets")


class Runs(NamedTuple):
    """A running instance."""

    uid: str
    group: str
    settled: bool
    """None of its nodes is cordoned."""
    kept: bool
    """It is kept already, whole."""


class Budgets:
    """Of one process. `acts`: whether anything is to be done about pods now; `watched`: the informer of the budgets."""

    def __init__(
        self, writer: Writer, state: ClusterState, policy: Policy, *, name: str, now: Callable[[], float],
        acts: Callable[[], bool], watched: Informer[BudgetObject, BudgetRecord],
    ) -> None:  # fmt: skip
        self._writer, self._state, self._cache = writer, state, state.cache
        self._policy, self._name, self._now = policy, name, now
        self._acts, self._watched = acts, watched
        self._outbox: Outbox[ServiceKey] = Outbox(
            self._keep,
            interval=INTERVAL,
            most=PARALLEL_WRITES,
            most_of_one=PARALLEL_WRITES_OF_ONE,
            namespace_of=lambda key: key.namespace,
        )
        self._running = False
        self._cordoned: set[str] = set()
        self._covered: dict[ServiceKey, dict[str, str]] = {}
        """Pod uid -> another budget than ours that covers it, "" for none; only beside such budgets."""
        self._refused: dict[str, float] = {}
        """Namespace -> loop time until which nothing is tried there, because a right is missing."""

    async def run(self) -> None:
        """Keep until cancelled, beginning with a look at all once the budgets are known. Errors are logged and tried
        again, never raised."""
        synced = self._watched.synced
        try:
            await asyncio.wait_for(synced.wait(), PATIENCE)
        except TimeoutError:
            _log.warning("evictions are not kept from minimums", why=self._watched.problem)
            await synced.wait()
        self._running = True
        try:
            self.look()
            await self._outbox.run()
        finally:
            self._running = False

    def look(self) -> None:
        """Look at every service, and at namespaces that have a budget and perhaps none any more."""
        if not self._running:
            return
        namespaces = sorted({found.namespace for found in self._cache.budgets.values() if found.name == self._name})
        for key in (*self._cache.service_keys(), *(ServiceKey(namespace, "", "") for namespace in namespaces)):
            self._outbox.mark(key)

    def on_service(self, change: InstanceChanged | RuleChanged) -> None:
        """While this process does not lead nothing is remembered: `run` looks at all."""
        if self._running and change.service is not None:
            self._outbox.mark(change.service)

    def on_node(self, change: NodeChanged) -> None:
        """A node that is cordoned, or not any more, matters to the services that run on it."""
        cordoned = change.facts is not None and change.facts.unschedulable
        if cordoned == (change.name in self._cordoned):
            return
        (self._cordoned.add if cordoned else self._cordoned.discard)(change.name)
        for key in self._cache.services_on(change.name) if self._running else ():
            self._outbox.mark(key)

    def on_budgets(self, change: BudgetsChanged) -> None:
        """A budget came or went: ours may have to be made again, or others may be about our pods."""
        for key in self._cache.services_within(change.namespace):
            self._covered.pop(key, None)
            if self._running:
                self._outbox.mark(key)

    async def _keep(self, key: ServiceKey) -> None:
        """Bring the labels of one service up to date. What is kept so far stays so until all that is to be kept is."""
        if not self._acts() or self._refused.get(key.namespace, 0.0) > asyncio.get_running_loop().time():
            return
        try:
            if self._cache.has_instances(key):
                await self._relabel(key)
            else:
                self._covered.pop(key, None)
                mine = self._cache.budgets.get(key.namespace, self._name)
                if mine is not None and not self._cache.services_within(key.namespace):  # it goes with the last service
                    await self._writer.delete(DISRUPTION_BUDGETS, key.namespace, mine.name, uid=mine.uid)
            self._refused.pop(key.namespace, None)
        except ForbiddenError as error:
            if key.namespace not in self._refused:
                _log.warning("evictions are not kept from minimums here", namespace=key.namespace, why=str(error))
            self._refused[key.namespace] = asyncio.get_running_loop().time() + AGAIN

    async def _relabel(self, key: ServiceKey) -> None:
        service = self._state.service(key)
        if service.rule is None:
            return  # what is kept stays so until it is known how much is needed
        smallest = service.rule.limited(service.replicas).smallest
        kept = to_keep(smallest, list(self._runs(service)))
        onto = [pod for one in service.instances if one.uid in kept for pod in self._pods(one)]
        covered = await self._covered_of(key, onto)
        labelled = {pod.uid for pod in onto if not covered.get(pod.uid)}
        if labelled and self._cache.budgets.get(key.namespace, self._name) is None:
            with suppress(AlreadyExistsError):
                await self._writer.create(DISRUPTION_BUDGETS, key.namespace, budget(key.namespace, self._name))
                _log.info("budget made", namespace=key.namespace, name=self._name)
        for pod in onto:
            if pod.uid in labelled and not pod.kept and not await self._label(pod, keep=True):
                return  # it is gone, which the watch will show: another takes its place, and no label is lost meanwhile
        for pod in [pod for one in service.instances for pod in self._pods(one)]:
            if pod.kept and pod.uid not in labelled:
                await self._label(pod, keep=False)

    async def _covered_of(self, key: ServiceKey, pods: list[PodRecord]) -> dict[str, str]:
        """The budgets of others over these pods: a pod under two cannot be evicted at all. Labels of pods are not in
        memory, so each is read, once."""
        others = [found for found in self._cache.budgets.within(key.namespace) if found.name != self._name]
        if not others:
            self._covered.pop(key, None)
            return {}
        before, found = self._covered.get(key, {}), dict[str, str]()
        for pod in pods:
            if pod.uid in before:
                found[pod.uid] = before[pod.uid]
                continue
            try:
                labels = at(await self._writer.get(PODS, pod.namespace, pod.name), "metadata", "labels")
            except NotFoundError:
                continue
            found[pod.uid] = next((other.name for other in others if other.covers(labels)), "")
            if found[pod.uid]:
                words = "a pod of a minimum is left to another budget"
                _log.info(words, namespace=pod.namespace, pod=pod.name, budget=found[pod.uid])
        self._covered[key] = found
        return found

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

    async def _label(self, pod: PodRecord, *, keep: bool) -> bool:
        """Whether it is done; not so of a pod that is gone."""
        patch: dict[str, Any] = {"uid": pod.uid, "labels": {KEEP_LABEL: "true" if keep else None}}
        try:
            await self._writer.patch(PODS, pod.namespace, pod.name, {"metadata": patch}, patch_type=PatchType.MERGE)
        except (NotFoundError, ConflictError):
            return False
        return True


def to_keep(smallest: Ratio, running: Sequence[Runs]) -> frozenset[str]:
    """Uids of as many of each group as the smallest ratio needs: first what no drain is about to take, then what is
    kept already. None of a service that does not serve."""
    kept: set[str] = set()
    for group, number in smallest.counts.items():
        found = sorted((not one.settled, not one.kept, one.uid) for one in running if one.group == group)
        if len(found) < number:
            return frozenset()
        kept.update(uid for _, _, uid in found[:number])
    return frozenset(kept)


def budget(namespace: str, name: str) -> Object:
    """Allows no eviction of what has the label."""
    return {
        "apiVersion": DISRUPTION_BUDGETS.api_version,
        "kind": DISRUPTION_BUDGETS.kind,
        "metadata": {"namespace": namespace, "name": name, "labels": {MANAGED_BY_LABEL: MANAGED_BY}},
        "spec": {"minAvailable": ALL_OF_THEM, "selector": {"matchLabels": {KEEP_LABEL: "true"}}},
    }
