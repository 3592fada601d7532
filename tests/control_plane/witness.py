"""An outside check of what must always hold: one watch of the API server, independent of the controller's cache.

It follows pods, jobs and nodes, counts instances by itself and keeps every broken promise in words. A decision was
made on a slightly older state than the newest, so S1 is judged against every state of the last `WINDOW` seconds
(section 6 of the contract). Must not: read anything that the controller wrote about itself.
"""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, NODES, PODS, STATEFUL_SETS, VOLCANO_JOBS, KubeApi, Resource
from scaler.names import RULE_KEY
from scaler.sim.actors import objects
from scaler.sim.actors.stand_in import Mirror, StandIn
from scaler.sim.stories.instances import Condition, InstanceView, census
from tests.decide.contract import target_of

WINDOW = 3.0
"""Seconds in which a decision becomes a pod that this watch shows."""
Counts = dict[str, int]
WATCHED: tuple[Resource, ...] = (PODS, NODES, ASCEND_JOBS, VOLCANO_JOBS, STATEFUL_SETS)
"""What shows instances, and their sizes."""


def census_of(mirror: Mirror) -> dict[str, list[InstanceView]]:
    """Every service's instances."""
    sizes = {objects.uid(made): int(objects.spec(made).get("replicas", 1)) for made in mirror.all(STATEFUL_SETS)}
    jobs = [*mirror.all(ASCEND_JOBS), *mirror.all(VOLCANO_JOBS)]
    return census(jobs, mirror.all(PODS), mirror.all(NODES), sizes)


class Watcher(StandIn):
    """Looks at every change, and at least once a second; `broken` is what went wrong, in words."""

    def __init__(self, api: KubeApi, *resources: Resource) -> None:
        super().__init__(api, *WATCHED, *resources)
        self.broken: list[str] = []

    async def _round(self) -> float:
        self.look(asyncio.get_running_loop().time())
        return 1.0

    @abstractmethod
    def look(self, now: float) -> None:
        """Judge the cluster as it is now. `now`: the loop's time."""

    @abstractmethod
    def settle(self) -> list[str]:
        """What went wrong, and what is wrong with a cluster at rest."""


class Witness(Watcher):
    """`most` is what each group ever occupied at once.

    While `pairs` is True twice the target is no over-admission: one of the newest revision beside each outdated one.
    """

    def __init__(self, api: KubeApi) -> None:
        super().__init__(api, CONFIG_MAPS)
        self.most: dict[str, Counts] = {}
        self.pairs = False
        self._past: deque[tuple[float, dict[str, Counts]]] = deque()
        self._last: dict[tuple[str, str], Condition] = {}
        self._ratios: dict[str, list[Counts]] = {}

    def settle(self) -> list[str]:
        """At rest every instance is whole or empty."""
        return self.broken + [
            f"S2: {service} {view.name} is {view.condition} at rest"
            for service, views in census_of(self.mirror).items()
            for view in views
            if view.condition not in (Condition.EMPTY, Condition.RUNNING, Condition.WAITING)
        ]

    def look(self, now: float) -> None:
        found = census_of(self.mirror)
        self._past.append((now, {service: _targets(self._rule(service), views) for service, views in found.items()}))
        while self._past[0][0] < now - WINDOW and len(self._past) > 1:
            self._past.popleft()
        before, self._last = self._last, {}
        for service, views in found.items():
            self._last |= {(service, view.name): view.condition for view in views}
            self._judge(service, views, {name: was for (known, name), was in before.items() if known == service})

    def _judge(self, service: str, views: list[InstanceView], before: Mapping[str, Condition]) -> None:
        """S1 for every instance that was admitted since the last look."""
        counts = Counter(view.group for view in views if _occupies(view.condition))
        most = self.most.setdefault(service, {})
        for group, count in counts.items():
            most[group] = max(most.get(group, 0), count)
        for view in views:
            was = before.get(view.name, Condition.EMPTY)
            # Its node returned: it was not admitted. A pod that is made waits for a node first.
            came_back = was is Condition.BROKEN and view.condition in (Condition.STARTING, Condition.RUNNING)
            if not _occupies(view.condition) or _occupies(was) or came_back:
                continue
            allowed = [past[service].get(view.group, 0) for _, past in self._past if service in past]
            if counts[view.group] > max(allowed, default=0) * (2 if self.pairs else 1):
                self.broken.append(
                    f"S1: {service} {view.name} is admitted as number {counts[view.group]} of {view.group}, "
                    f"whose target was at most {max(allowed, default=0)} in the last {WINDOW:g} s; it was {was}, now "
                    f"{[(one.name, str(one.condition)) for one in views]}, before {before}"
                )

    def _rule(self, service: str) -> list[Counts]:
        """The ratios of the rule as it is, else as it last was, largest first."""
        namespace, name, _ = service.split("/")
        found = self.mirror.get(CONFIG_MAPS, namespace, name)
        with suppress(ValueError, KeyError, TypeError):
            if found:
                self._ratios[service] = [
                    {group["group_name"]: int(group["group_num"]) for group in ratio["group_list"]}
                    for ratio in json.loads(found["data"][RULE_KEY])["elastic_scaling_list"]
                ]
        return self._ratios.get(service, [])


def _occupies(condition: Condition) -> bool:
    """A broken instance loses its slot after a while; from outside it is given the benefit of the doubt."""
    return condition in (Condition.WAITING, Condition.STARTING, Condition.RUNNING)


def _targets(ratios: list[Counts], views: list[InstanceView]) -> Counts:
    running = Counter(view.group for view in views if view.condition is Condition.RUNNING)
    live = Counter(view.group for view in views)
    return ratios[target_of(ratios, running, live)[0]] if ratios else {}


_Watcher = TypeVar("_Watcher", bound=Watcher)


@asynccontextmanager
async def watched(witness: _Watcher) -> AsyncIterator[_Watcher]:
    """Watch for as long as the block lasts; AssertionError at its end when a promise was broken."""
    task = asyncio.create_task(witness.run())
    try:
        yield witness
        await asyncio.sleep(0.2)
        assert not task.done(), f"the witness died: {task}"
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    broken = witness.settle()
    assert broken == [], broken
