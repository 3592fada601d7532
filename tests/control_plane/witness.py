"""An outside check of what must always hold: one watch of the API server, independent of the
controller's cache.

It follows pods, jobs and nodes, counts instances by itself and keeps every broken promise in words.
A decision was made on a slightly older state than the newest, so S1 is judged against every state
of the last `WINDOW` seconds (section 6 of the contract). Must not: read anything that the
controller wrote about itself."""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from scaler.kube import api as kube
from scaler.kube.api import KubeApi, Object, Resource
from scaler.names import RULE_KEY
from scaler.sim.actors import objects
from scaler.sim.actors.stand_in import StandIn
from scaler.sim.stories.instances import SHOWING, Condition, InstanceView, census, gathered, running
from tests.decide.contract import Counts, covers, target_of

WINDOW = 3.0
"""Seconds in which a decision becomes a pod that this watch shows."""
LAG = 2.0
"""Seconds that a pod may come or go after it was ordered to, as the cluster shows it."""
SHARE = 0.05
"""By which the NPUs held may differ from those that the ladder needs, besides."""


class Watcher(StandIn):
    """Looks at every change, and at least once a second; `broken` is what went wrong, in words."""

    def __init__(self, api: KubeApi, *resources: Resource) -> None:
        super().__init__(api, *SHOWING, *resources)
        self.broken: list[str] = []
        self.past: deque[tuple[float, Any]] = deque()
        """What `remember` was given in the last `WINDOW` seconds, and when."""

    async def _round(self) -> float:
        self.look(asyncio.get_running_loop().time())
        return 1.0

    def remember(self, now: float, what: Any) -> None:
        self.past.append((now, what))
        while self.past[0][0] < now - WINDOW and len(self.past) > 1:
            self.past.popleft()

    @abstractmethod
    def look(self, now: float) -> None:
        """Judge the cluster as it is now. `now`: the loop's time."""

    @abstractmethod
    def settle(self) -> list[str]:
        """What went wrong, and what is wrong with a cluster at rest."""


class Witness(Watcher):
    """`most` is what each group ever occupied at once. While `pairs` is True twice the target is no
    over-admission: one of the newest revision beside each outdated one."""

    def __init__(self, api: KubeApi) -> None:
        super().__init__(api, kube.CONFIG_MAPS)
        self.most: dict[str, Counter[str]] = {}
        self.pairs = False
        self._last: dict[tuple[str, str], Condition] = {}
        self._ratios: dict[str, list[Counts]] = {}

    def settle(self) -> list[str]:
        """At rest every instance is whole or empty."""
        return self.broken + [
            f"S2: {service} {view.name} is {view.condition} at rest"
            for service, views in census(self.mirror.all).items()
            for view in views
            if view.condition not in (Condition.EMPTY, Condition.RUNNING, Condition.WAITING)
        ]

    def look(self, now: float) -> None:
        found = census(self.mirror.all)
        self.remember(
            now, {service: _targets(self._rule(service), views) for service, views in found.items()}
        )
        before = self._last
        self._last = {}
        for service, views in found.items():
            self._last |= {(service, view.name): view.condition for view in views}
            self._judge(
                service,
                views,
                {name: was for (known, name), was in before.items() if known == service},
            )

    def _judge(
        self, service: str, views: list[InstanceView], before: Mapping[str, Condition]
    ) -> None:
        """S1 for every instance that was admitted since the last look."""
        counts = Counter(view.group for view in views if _occupies(view.condition))
        self.most[service] = self.most.get(service, Counter()) | counts
        for view in views:
            was = before.get(view.name, Condition.EMPTY)
            # Its node returned: it was not admitted. A pod that is made waits for a node first.
            came_back = was is Condition.BROKEN and view.condition in (
                Condition.STARTING,
                Condition.RUNNING,
            )
            if not _occupies(view.condition) or _occupies(was) or came_back:
                continue
            allowed = [past[service].get(view.group, 0) for _, past in self.past if service in past]
            if counts[view.group] > max(allowed, default=0) * (2 if self.pairs else 1):
                self.broken.append(
                    f"S1: {service} {view.name} is admitted as number {counts[view.group]} of"
                    f" {view.group}, whose target was at most {max(allowed, default=0)} in the last"
                    f" {WINDOW:g} s; it was {was}, now"
                    f" {[(one.name, str(one.condition)) for one in views]}, before {before}"
                )

    def _rule(self, service: str) -> list[Counts]:
        """The ratios of the rule as it is, else as it last was, largest first."""
        namespace, name, _ = service.split("/")
        found = self.mirror.get(kube.CONFIG_MAPS, namespace, name)
        with suppress(ValueError, KeyError, TypeError):
            if found:
                document = json.loads(found["data"][RULE_KEY])
                self._ratios[service] = list(map(_counts, document["elastic_scaling_list"]))
        return self._ratios.get(service, [])


def _counts(ratio: Object) -> Counts:
    """Instances per group of one ratio of a rule's document."""
    return {group["group_name"]: int(group["group_num"]) for group in ratio["group_list"]}


def _occupies(condition: Condition) -> bool:
    """A broken instance loses its slot after a while; from outside it is given the benefit of the
    doubt."""
    return condition in (Condition.WAITING, Condition.STARTING, Condition.RUNNING)


def _targets(ratios: list[Counts], views: list[InstanceView]) -> Counts:
    live = Counter(view.group for view in views)
    return ratios[target_of(ratios, running(views), live)[0]] if ratios else {}


class Orders(Watcher):
    """What was ordered of one service, and what its pods did."""

    def __init__(
        self,
        api: KubeApi,
        service: str,
        sizes: Mapping[str, int],
        ladder: Sequence[tuple[int, int]],
    ) -> None:
        super().__init__(api, kube.ELASTIC_SERVICES)
        self.counts: Counter[str] = Counter()
        self.held = self.needed = 0.0
        """Nodes times seconds: each pod takes a whole node."""
        groups = list(sizes)
        self._rungs = [
            dict(zip(groups, ratio, strict=True)) for ratio in ((0, 0), *reversed(ladder))
        ]
        self._sizes = sizes
        self._service = service
        self._last: tuple[float, int, int] | None = None
        """When it was looked at last, the rung that was ordered then, and how many nodes were
        held."""
        self._whole = False
        """Whether the ratio ordered has been reached, since it rose or a node failed."""
        self._alive: dict[str, tuple[Object, str]] = {}
        self._excused: set[str] = set()
        """Pods of instances under which a node failed."""

    def settle(self) -> list[str]:
        for group, size in self._sizes.items():
            drained = self.counts[f"pods of {group} drained"]
            ordered = self.counts[f"{group} ordered away"] * size
            if drained > ordered:
                self.broken.append(
                    f"{drained} pods of {group} were drained, ordered were {ordered}"
                )
        return self.broken

    def account(self) -> str:
        """What the NPUs held differ by from those that the ladder needs."""
        return (
            f"held {self.held:.0f} node seconds, the ladder needs {self.needed:.0f} +-"
            f" {self._slack():.0f}"
        )

    def needed_all(self) -> bool:
        """Whether that is not too much. Of real seconds, so for a machine with nothing else to
        do."""
        return abs(self.held - self.needed) <= self._slack()

    def _slack(self) -> float:
        moved = sum(
            self.counts[f"{group} ordered {way}"]
            for group in self._sizes
            for way in ("away", "back")
        )
        return SHARE * self.needed + LAG * (
            moved * max(self._sizes.values()) + self.counts["pods lost to faults"]
        )

    def _rung(self) -> int:
        """The ratio that is ordered now."""
        found = [
            int(objects.spec(obj)["replicas"])
            for obj in self.mirror.all(kube.ELASTIC_SERVICES)
            if f"{objects.namespace(obj)}/{obj['spec']['rule']}/{obj['spec']['jobID']}"
            == self._service
        ]
        wanted = found[0] if found else 1_000_000
        sums = [sum(rung.values()) for rung in self._rungs]
        return next(
            (number for number, instances in enumerate(sums) if instances >= wanted), len(sums) - 1
        )

    def look(self, now: float) -> None:
        rung = self._rung()
        self.remember(now, rung)
        mine = [one for one in gathered(self.mirror.all) if one.service == self._service]
        groups = {
            objects.uid(pod): one.group for one in mine for pod in one.pods if objects.node_of(pod)
        }
        pods = [pod for pod in self.mirror.all(kube.PODS) if objects.uid(pod) in groups]
        lost = {
            objects.name(node)
            for node in self.mirror.all(kube.NODES)
            if not objects.node_ready(node)
        }
        self._account(
            now,
            rung,
            sum(not objects.ended(pod) and objects.node_of(pod) not in lost for pod in pods),
        )
        views = census(self.mirror.all).get(self._service, [])
        under = {node for view in views if lost.intersection(view.nodes) for node in view.nodes}
        self._excused |= {objects.uid(pod) for pod in pods if objects.node_of(pod) in under}
        there = running(views)
        self._judge_running(there, rung, faulty=bool(under))
        alive = {
            objects.uid(pod): (pod, groups[objects.uid(pod)])
            for pod in pods
            if not objects.terminating(pod)
        }
        for uid in self._alive.keys() - alive.keys():
            self._judge_end(*self._alive[uid], there)
        self._alive = alive

    def _account(self, now: float, rung: int, held: int) -> None:
        if self._last is not None:
            then, before, nodes = self._last
            need = sum(self._rungs[before][group] * size for group, size in self._sizes.items())
            self.held += nodes * (now - then)
            self.needed += need * (now - then)
            self.counts["orders"] += rung != before
            for group in self._sizes:
                more = self._rungs[rung][group] - self._rungs[before][group]
                self.counts[f"{group} ordered {'back' if more > 0 else 'away'}"] += abs(more)
        self._last = now, rung, held

    def _judge_running(self, there: Mapping[str, int], rung: int, *, faulty: bool) -> None:
        """Never below the least ratio that was ordered a moment ago, once what is ordered was
        reached."""
        least = self._rungs[min(number for _, number in self.past)]
        rose = len(self.past) > 1 and rung > self.past[-2][1]
        if self._whole and not rose and not faulty and not covers(there, least):
            self.broken.append(f"{there} runs, and {least} was ordered")
        self._whole = (self._whole and not rose and not faulty) or covers(there, self._rungs[rung])

    def _judge_end(self, pod: Object, group: str, there: Mapping[str, int]) -> None:
        if objects.uid(pod) in self._excused:
            self.counts["pods lost to faults"] += 1
            return
        least = self._rungs[min(number for _, number in self.past)]
        self.counts[f"pods of {group} drained"] += 1
        if objects.phase(pod) == "Running" and there.get(group, 0) < least[group]:
            self.broken.append(
                f"{objects.name(pod)} was deleted, {there} runs and {least} was ordered"
            )


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
