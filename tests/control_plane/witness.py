"""An outside check of what must always hold: one watch of the API server, independent of the controller's cache.

It follows pods, jobs and nodes, counts instances by itself and keeps every broken promise in words. A decision was
made on a slightly older state than the newest, so S1 is judged against every state of the last `WINDOW` seconds
(section 6 of the contract). Must not: read anything that the controller wrote about itself.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    NODES,
    PODS,
    STATEFUL_SETS,
    VOLCANO_JOBS,
    KubeApi,
    Object,
    Resource,
)
from scaler.sim.actors import objects
from scaler.sim.actors.mindie import RULE_KEY
from scaler.sim.actors.mirror import Mirror
from scaler.sim.stories.instances import Condition, InstanceView, census

WINDOW = 3.0
"""Seconds in which a decision becomes a pod that this watch shows."""
Counts = dict[str, int]
JOBS: tuple[Resource, ...] = (PODS, NODES, ASCEND_JOBS)
"""What tells the instances when the scaler makes the pods."""
WATCHED = (*JOBS, VOLCANO_JOBS, STATEFUL_SETS)
"""And whoever makes them."""


def census_of(mirror: Mirror) -> dict[str, list[InstanceView]]:
    """Every service's instances."""
    volcano, sets = (mirror.all(kind) if kind in mirror else [] for kind in (VOLCANO_JOBS, STATEFUL_SETS))
    sizes = {objects.uid(made): int(objects.spec(made).get("replicas", 1)) for made in sets}
    return census([*mirror.all(ASCEND_JOBS), *volcano], mirror.all(PODS), mirror.all(NODES), sizes)


class Witness:
    """`broken` is what went wrong, in words; `most` what each group ever occupied at once.

    While `pairs` is True twice the target is no over-admission: one of the newest revision beside each outdated one.
    """

    def __init__(self, api: KubeApi, resources: Sequence[Resource] = JOBS) -> None:
        self.broken: list[str] = []
        self.most: dict[str, Counts] = {}
        self.pairs = False
        self._mirror = Mirror(api, *resources, CONFIG_MAPS)
        self._past: deque[tuple[float, dict[str, Counts]]] = deque()
        self._last: dict[tuple[str, str], Condition] = {}
        self._ratios: dict[str, list[Counts]] = {}

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._mirror.run())
            tasks.create_task(self._follow())

    def settle(self) -> list[str]:
        """What is wrong with a cluster at rest: instances that are neither whole nor empty."""
        broken = list(self.broken)
        for service, views in census_of(self._mirror).items():
            broken += [
                f"S2: {service} {view.name} is {view.condition} at rest"
                for view in views
                if view.condition not in (Condition.EMPTY, Condition.RUNNING, Condition.WAITING)
            ]
        return broken

    async def _follow(self) -> None:
        while True:
            await self._mirror.wait()
            if self._mirror.synced:
                self._look()

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        found = census_of(self._mirror)
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
            if not _occupies(view.condition) or _occupies(was) or _came_back(was, view.condition):
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
        found = self._mirror.get(CONFIG_MAPS, namespace, name)
        with suppress(ValueError, KeyError, TypeError):
            self._ratios[service] = _ratios(found) if found else self._ratios[service]
        return self._ratios.get(service, [])


def _ratios(config_map: Object) -> list[Counts]:
    document = json.loads(config_map["data"][RULE_KEY])
    return [
        {group["group_name"]: int(group["group_num"]) for group in ratio["group_list"]}
        for ratio in document["elastic_scaling_list"]
    ]


def _occupies(condition: Condition) -> bool:
    """A broken instance loses its slot after a while; from outside it is given the benefit of the doubt."""
    return condition in (Condition.WAITING, Condition.STARTING, Condition.RUNNING)


def _came_back(was: Condition, now: Condition) -> bool:
    """Its node returned: nobody admitted it. A pod that is made waits for a node first."""
    return was is Condition.BROKEN and now in (Condition.STARTING, Condition.RUNNING)


def _targets(ratios: list[Counts], views: list[InstanceView]) -> Counts:
    """Section 3.2 of the contract, written once more: the first ratio from below that something is missing for."""
    running = Counter(view.group for view in views if view.condition is Condition.RUNNING)
    live = Counter(view.group for view in views)
    attainable = [ratio for ratio in ratios if covers(live, ratio)] or ratios[-1:]
    for ratio in reversed(attainable):
        if not covers(running, ratio):
            return ratio
    return attainable[0] if attainable else {}


def covers(counts: Mapping[str, int], ratio: Mapping[str, int]) -> bool:
    """Whether there are so many of every group."""
    return all(counts.get(group, 0) >= number for group, number in ratio.items())


@asynccontextmanager
async def witnessed(api: KubeApi, resources: Sequence[Resource] = JOBS) -> AsyncIterator[Witness]:
    """Watch for as long as the block lasts; AssertionError at its end when a promise was broken."""
    witness = Witness(api, resources)
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
