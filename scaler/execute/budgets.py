"""Keeps evictions from the pods of a minimum: a label on these pods, and a PodDisruptionBudget that
selects it.

    instance, rule, node or budget changed -> which instances to keep -> label onto their pods, off
    others

The budget of a namespace never changes: it allows no eviction of a pod with the label. A budget
that counts pods would be wrong for instances of several pods, and knows nothing of ratios. `kubectl
drain` cordons the node first and repeats its evictions every 5 s: meanwhile the label moves to
instances on other nodes, as far as there are any."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import structlog

from scaler.clock import loop_time
from scaler.decide.memory import NEVER_SEEN
from scaler.decide.service.states import counts_as_running, state_of
from scaler.decide.world import Instance, Policy, Service, ServiceKey
from scaler.informers.changes import BudgetsChanged, ServiceChanged
from scaler.informers.informer import Informer
from scaler.informers.mode import CurrentMode, ModeInForce
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
"""`minAvailable` of the budget: more pods than any namespace has. For a percentage or
`maxUnavailable` Kubernetes needs the scale subresource of the owner; AscendJobs have none, and only
an error would keep evictions away."""
PATIENCE = 30.0
"""Seconds for the first list of the budgets; after that a warning is logged."""
AGAIN = 300.0
"""Seconds for which a namespace where a right was missing is left alone; then the next change or
full pass tries."""
_log = structlog.get_logger("budgets")


class RunningInstance(NamedTuple):
    """A running instance: whether none of its nodes is cordoned, and whether all of its pods have
    the label already."""

    uid: str
    group: str
    settled: bool
    kept: bool


class Budgets:
    """One per process. `stale`: why the cluster is not seen as it is now, "" while it is; nothing
    is labelled meanwhile. `watched`: the informer of the budgets."""

    def __init__(  # noqa: PLR0913 - wiring
        self,
        writer: Writer,
        state: ClusterState,
        policy: Policy,
        *,
        name: str,
        now: Callable[[], float],
        mode: CurrentMode,
        stale: Callable[[], str],
        watched: Informer[BudgetObject, BudgetRecord],
    ) -> None:
        self._writer = writer
        self._state = state
        self._cache = state.cache
        self._policy = policy
        self._name = name
        self._now = now
        self._mode = mode
        self._stale = stale
        self._watched = watched
        self._outbox: Outbox[ServiceKey] = Outbox(self._update_labels)
        self._running = False
        self._covered: dict[ServiceKey, dict[str, str]] = {}
        """Pod uid -> the budget of another owner that selects the pod, "" for none; empty without
        such budgets."""
        self._refused: dict[str, float] = {}
        """Namespace -> loop time until which nothing is written there, because a right is
        missing."""

    async def run(self) -> None:
        """Update labels until cancelled, beginning with every service once budgets are listed.
        Errors are logged and retried, never raised."""
        synced = self._watched.synced
        try:
            await asyncio.wait_for(synced.wait(), PATIENCE)
        except TimeoutError:
            _log.warning("evictions are not kept from minimums", why=self._watched.problem)
            await synced.wait()
        self._running = True
        self.mark_all()
        await self._outbox.run()

    def mark_all(self) -> None:
        """Mark every service, and every namespace with a budget, where perhaps no service is
        left."""
        if not self._running:
            return
        for key in self._state.service_keys():
            self._outbox.mark(key)
        budgets = self._cache.budgets.values()
        for namespace in sorted({one.namespace for one in budgets if one.name == self._name}):
            self._outbox.mark(ServiceKey(namespace, "", ""))

    def on_service(self, change: ServiceChanged) -> None:
        """Mark the service. Without leadership nothing is marked: `run` begins with all
        services."""
        if self._running:
            self._outbox.mark(change.service)

    def on_budgets(self, change: BudgetsChanged) -> None:
        """Mark the services of the namespace: our budget may be missing, or another budget may
        select our pods."""
        for key in self._cache.services_within(change.namespace):
            self._covered.pop(key, None)
            if self._running:
                self._outbox.mark(key)

    async def _update_labels(self, key: ServiceKey) -> None:
        """Update the labels of one service. An instance keeps the label until all instances to keep
        have it."""
        acts = self._mode.now in (ModeInForce.MAKES, ModeInForce.RELEASES) and not self._stale()
        if not acts or self._refused.get(key.namespace, 0.0) > loop_time():
            return
        try:
            if self._state.has_instances(key):
                await self._relabel(key)
            else:
                self._covered.pop(key, None)
                mine = self._cache.budgets.get(key.namespace, self._name)
                # the last service has gone
                if mine is not None and not self._cache.services_within(key.namespace):
                    await self._writer.delete(
                        DISRUPTION_BUDGETS, key.namespace, mine.name, uid=mine.uid
                    )
            self._refused.pop(key.namespace, None)
        except ForbiddenError as error:
            if key.namespace not in self._refused:
                _log.warning(
                    "evictions are not kept from minimums here",
                    namespace=key.namespace,
                    why=str(error),
                )
            self._refused[key.namespace] = loop_time() + AGAIN

    async def _relabel(self, key: ServiceKey) -> None:
        service = self._state.service(key)
        if service.rule is None:
            return  # no label changes while no rule is in force: the minimum is unknown
        smallest = service.rule.limited(service.replicas).smallest
        kept = to_keep(smallest, list(self._running_of(service)))
        onto = self._pods_of([one for one in service.instances if one.uid in kept])
        covered = await self._covered_of(key, onto)
        labelled = {pod.uid for pod in onto if not covered.get(pod.uid)}
        if labelled and self._cache.budgets.get(key.namespace, self._name) is None:
            with suppress(AlreadyExistsError):
                await self._writer.create(
                    DISRUPTION_BUDGETS, key.namespace, budget(key.namespace, self._name)
                )
                _log.info("budget made", namespace=key.namespace, name=self._name)
        for pod in onto:
            if pod.uid in labelled and not pod.kept and not await self._label(pod, keep=True):
                # the pod is gone, and another takes its place; no label is removed meanwhile
                return
        for pod in self._pods_of(service.instances):
            if pod.kept and pod.uid not in labelled:
                await self._label(pod, keep=False)

    def _pods_of(self, instances: Iterable[Instance]) -> list[PodRecord]:
        found = list[PodRecord]()
        for one in instances:
            found += self._cache.present_pods(one.uid)
        return found

    async def _covered_of(self, key: ServiceKey, pods: list[PodRecord]) -> dict[str, str]:
        """The budgets of others that select these pods: Kubernetes never evicts a pod under two
        budgets. The cache has no labels of pods, so each pod is read from the API server, once."""
        budgets = self._cache.budgets.values(key.namespace)
        others = [one for one in budgets if one.name != self._name]
        if not others:
            self._covered.pop(key, None)
            return {}
        before = self._covered.get(key, {})
        found = dict[str, str]()
        for pod in pods:
            if pod.uid in before:
                found[pod.uid] = before[pod.uid]
                continue
            with suppress(NotFoundError):
                labels = at(
                    await self._writer.get(PODS, pod.namespace, pod.name), "metadata", "labels"
                )
                found[pod.uid] = _first_that_covers(others, labels)
                if found[pod.uid]:
                    words = "a pod of a minimum is left to another budget"
                    _log.info(words, namespace=pod.namespace, pod=pod.name, budget=found[pod.uid])
        self._covered[key] = found
        return found

    def _running_of(self, service: Service) -> Iterator[RunningInstance]:
        for one in service.instances:
            state = state_of(one, NEVER_SEEN, self._now(), self._policy)
            if one.group is not None and counts_as_running(one, state, service.options.counts_from):
                pods = self._cache.present_pods(one.uid)
                settled = not any(self._is_cordoned(pod.node) for pod in pods)
                yield RunningInstance(one.uid, one.group, settled, all(pod.kept for pod in pods))

    def _is_cordoned(self, node: str) -> bool:
        known = self._cache.nodes.get("", node)
        return known is not None and known.facts.unschedulable

    async def _label(self, pod: PodRecord, *, keep: bool) -> bool:
        """Set or remove the label; False when the pod is gone."""
        patch: dict[str, Any] = {"uid": pod.uid, "labels": {KEEP_LABEL: "true" if keep else None}}
        try:
            await self._writer.patch(
                PODS, pod.namespace, pod.name, {"metadata": patch}, patch_type=PatchType.MERGE
            )
        except (NotFoundError, ConflictError):
            return False
        return True


def _first_that_covers(budgets: Sequence[BudgetRecord], labels: Mapping[str, str]) -> str:
    """The name of the first budget that selects a pod with these labels; "" when none does."""
    for one in budgets:
        if one.covers(labels):
            return one.name
    return ""


def to_keep(smallest: Ratio, running: Sequence[RunningInstance]) -> frozenset[str]:
    """Uids of as many instances of each group as the smallest ratio needs: first those on nodes
    that are not cordoned, then those that are kept already. Empty for a service that does not
    serve."""
    kept: set[str] = set()
    for group, number in smallest.counts.items():
        found = [one for one in running if one.group == group]
        if len(found) < number:
            return frozenset()
        found.sort(key=lambda one: (not one.settled, not one.kept, one.uid))
        kept.update([one.uid for one in found[:number]])
    return frozenset(kept)


def budget(namespace: str, name: str) -> Object:
    metadata = {"namespace": namespace, "name": name, "labels": {MANAGED_BY_LABEL: MANAGED_BY}}
    spec = {"minAvailable": ALL_OF_THEM, "selector": {"matchLabels": {KEEP_LABEL: "true"}}}
    return DISRUPTION_BUDGETS.object(metadata, spec=spec)
