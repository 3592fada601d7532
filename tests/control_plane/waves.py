"""A load that rises and falls, an autoscaler that follows it, nodes that fail meanwhile: one service on a real plane.

    python -m tests.control_plane.waves --seconds 600 [--platform ascend-jobs] [--shape noise] [--seed 1]

A watch of its own judges three things: does the service ever fall below the ratio ordered, is a pod ever deleted
without an order, what do the NPUs held differ from those that the ladder needs. Must not: read what the scaler says.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, ELASTIC_SERVICES, NODES, PODS, KubeApi, Object
from scaler.names import GROUP_LABEL, RULE_KEY
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import NodeFate
from scaler.sim.stories.instances import running, service_of
from tests.control_plane.autoscaler import OPTIONS, Autoscaler, autoscaling
from tests.control_plane.build import VERSIONS
from tests.control_plane.plane import ControlPlane, PlaneOptions, temporary
from tests.control_plane.services import Platform, PlatformStage, ascend_jobs, played
from tests.control_plane.stage import EXAMPLE, kinds_definitions
from tests.control_plane.test_kinds import PLATFORMS as OTHERS
from tests.control_plane.witness import WINDOW, Watcher, census_of, watched
from tests.decide.contract import covers

LADDER = ((3, 1), (2, 1), (1, 1))
MOST = 4
LAG = 2.0
"""Seconds that a pod may come or go after it was ordered to, as the cluster shows it."""
SHARE = 0.05
"""By which the NPUs held may differ from those that the ladder needs, besides."""
PLATFORMS: dict[str, Platform] = {
    "ascend-jobs": ascend_jobs(2, EXAMPLE, by_operator=False),
    "beside-ascend-operator": ascend_jobs(2, EXAMPLE),
    **{name: OTHERS[name] for name in ("ome-deployment", "ome-leaderworkerset")},
}


SHAPES: dict[str, Callable[[random.Random], Iterator[float]]] = {
    "square": lambda _: itertools.cycle((4, 2, 4, 0)),
    "sawtooth": lambda _: itertools.cycle((0, 1, 2, 2.5, 3.5, 6)),
    "noise": lambda die: (die.choice((0, die.uniform(0, 5), 4)) for _ in itertools.count()),
}
"""Loads, one after the other."""


class Orders(Watcher):
    """What was ordered of one service, and what its pods did."""

    def __init__(self, api: KubeApi, service: str, sizes: Mapping[str, int]) -> None:
        super().__init__(api, ELASTIC_SERVICES)
        self.counts: Counter[str] = Counter()
        self.held = self.needed = 0.0
        """Nodes times seconds: each pod takes a whole node."""
        groups = list(sizes)
        self._rungs = [dict(zip(groups, ratio, strict=True)) for ratio in ((0, 0), *reversed(LADDER))]
        self._sizes = sizes
        self._service = service
        self._past: deque[tuple[float, int]] = deque()
        self._last: tuple[float, int, int] | None = None
        """When it was looked at last, the rung that was ordered then, and how many nodes were held."""
        self._whole = False
        """Whether the ratio ordered has been reached, since it rose or a node failed."""
        self._alive: dict[str, tuple[Object, str]] = {}
        self._excused: set[str] = set()
        """Pods of instances under which a node failed."""

    def settle(self) -> list[str]:
        for group, size in self._sizes.items():
            drained, ordered = self.counts[f"pods of {group} drained"], self.counts[f"{group} ordered away"] * size
            if drained > ordered:
                self.broken.append(f"{drained} pods of {group} were drained, ordered were {ordered}")
        return self.broken

    def unneeded(self) -> str:
        """What the NPUs held differ by from those that the ladder needs, where that is too much. Of real seconds, so
        for a machine with nothing else to do."""
        moved = sum(self.counts[f"{group} ordered {way}"] for group in self._sizes for way in ("away", "back"))
        most = SHARE * self.needed + LAG * (moved * max(self._sizes.values()) + self.counts["pods lost to faults"])
        words = f"held {self.held:.0f} node seconds, the ladder needs {self.needed:.0f} +- {most:.0f}"
        return words if abs(self.held - self.needed) > most else ""

    def _rung(self) -> int:
        """The ratio that is ordered now."""
        found = [
            int(objects.spec(obj)["replicas"])
            for obj in self.mirror.all(ELASTIC_SERVICES)
            if f"{objects.namespace(obj)}/{obj['spec']['rule']}/{obj['spec']['jobID']}" == self._service
        ]
        wanted = found[0] if found else 1_000_000
        sums = [sum(rung.values()) for rung in self._rungs]
        return next((number for number, instances in enumerate(sums) if instances >= wanted), len(sums) - 1)

    def look(self, now: float) -> None:
        rung = self._rung()
        self._past.append((now, rung))
        while self._past[0][0] < now - WINDOW and len(self._past) > 1:
            self._past.popleft()
        groups = self._bound()
        pods = [pod for pod in self.mirror.all(PODS) if objects.uid(pod) in groups]
        lost = {objects.name(node) for node in self.mirror.all(NODES) if not objects.node_ready(node)}
        self._account(now, rung, sum(not objects.ended(pod) and objects.node_of(pod) not in lost for pod in pods))
        views = census_of(self.mirror).get(self._service, [])
        under = {node for view in views if lost.intersection(view.nodes) for node in view.nodes}
        self._excused |= {objects.uid(pod) for pod in pods if objects.node_of(pod) in under}
        there = running(views)
        self._judge_running(there, rung, faulty=bool(under))
        alive = {objects.uid(pod): (pod, groups[objects.uid(pod)]) for pod in pods if not objects.terminating(pod)}
        for uid in self._alive.keys() - alive.keys():
            self._judge_end(*self._alive[uid], there)
        self._alive = alive

    def _bound(self) -> dict[str, str]:
        """Groups of the service's pods that have a node, by uid."""
        jobs = {objects.uid(job): job for job in self.mirror.all(ASCEND_JOBS)}
        found = [(pod, jobs.get(objects.owner_uid(pod), pod)) for pod in self.mirror.all(PODS) if objects.node_of(pod)]
        return {
            objects.uid(pod): objects.scaling_labels(about).get(GROUP_LABEL, "")
            for pod, about in found
            if service_of(about) == self._service
        }

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
        """Never below the least ratio that was ordered a moment ago, once what is ordered was reached."""
        least = self._rungs[min(number for _, number in self._past)]
        rose = len(self._past) > 1 and rung > self._past[-2][1]
        if self._whole and not rose and not faulty and not covers(there, least):
            self.broken.append(f"{there} runs, and {least} was ordered")
        self._whole = (self._whole and not rose and not faulty) or covers(there, self._rungs[rung])

    def _judge_end(self, pod: Object, group: str, there: Mapping[str, int]) -> None:
        """A pod goes, or has gone."""
        if objects.uid(pod) in self._excused:
            self.counts["pods lost to faults"] += 1
            return
        least = self._rungs[min(number for _, number in self._past)]
        self.counts[f"pods of {group} drained"] += 1
        if objects.phase(pod) == "Running" and there.get(group, 0) < least[group]:
            self.broken.append(f"{objects.name(pod)} was deleted, {there} runs and {least} was ordered")


@asynccontextmanager
async def followed(
    plane: ControlPlane, folder: Path, platform: Platform
) -> AsyncIterator[tuple[PlatformStage, Autoscaler, Orders]]:
    """The service at its largest ratio, one node more than it needs, an autoscaler that wants it so, and a judge.

    `plane` was started with OPTIONS. AssertionError at the end when something went wrong.
    """
    async with played(plane, platform, folder) as stage, autoscaling(plane) as autoscaler:
        stage.kubectl("apply")
        await stage.runs_both(1, 1)
        await stage.edit_rule(*LADDER)
        await stage.add_npu_nodes(3)
        await asyncio.to_thread(platform.scale, stage, LADDER[0][0])
        await stage.runs_both(*LADDER[0])
        autoscaler.load = MOST
        found = (await stage.api.list(ELASTIC_SERVICES, platform.namespace)).items
        await asyncio.to_thread(autoscaler.follow, platform.namespace, objects.name(found[0]), MOST)
        rule = json.loads((await stage.api.get(CONFIG_MAPS, platform.namespace, "scaling-rule"))["data"][RULE_KEY])
        groups = rule["elastic_scaling_list"][0]["group_list"]
        sizes = {group["group_name"]: int(group["server_num_per_group"]) for group in groups}
        async with watched(Orders(stage.api, platform.service, sizes)) as orders:
            yield stage, autoscaler, orders


async def play(
    plane: ControlPlane, folder: Path, platform: Platform, *, shape: str, seconds: float, seed: int
) -> Orders:
    """So long a wave; then the service must run whole. AssertionError where it does not, or something went wrong."""
    die = random.Random(f"waves-{seed}")
    async with followed(plane, folder, platform) as (stage, autoscaler, orders):
        await _waves(stage, autoscaler, die, SHAPES[shape](die), seconds)
        autoscaler.load = MOST
        await stage.runs_both(*LADDER[0])
    return orders


async def _waves(
    stage: PlatformStage, autoscaler: Autoscaler, die: random.Random, loads: Iterator[float], seconds: float
) -> None:
    """One load after the other; at a random moment of half of them a node that runs something fails for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        autoscaler.load = next(loads)
        pause = die.uniform(5, 10)
        moment, away, fails = die.uniform(0, pause / 2), die.uniform(1, pause / 2), die.random() < 0.5
        await asyncio.sleep(moment)
        used = sorted(node for nodes in stage.nodes_by_instance().values() for node in nodes)
        if fails and used:
            lost = die.choice(used)
            await stage.node(lost, NodeFate.NOT_READY)
            await asyncio.sleep(away)
            await stage.node(lost, NodeFate.READY)
            moment += away
        await asyncio.sleep(pause - moment)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.control_plane.waves", description="A load that changes.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--platform", choices=PLATFORMS, default="ascend-jobs")
    parser.add_argument("--shape", choices=SHAPES, default="noise")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--volcano", action="store_true", help="the real one (VOLCANO_BIN_DIR)")
    parser.add_argument("--ascend-operator", action="store_true", help="the real one (ASCEND_OPERATOR_BIN_DIR)")
    parser.add_argument("--kubernetes", choices=VERSIONS, default="1.36.3")
    args = parser.parse_args()
    platform = PLATFORMS[args.platform]
    planned = PlaneOptions(
        crds=kinds_definitions(), volcano=args.volcano, ascend_operator=args.ascend_operator,
        lws=args.platform == "ome-leaderworkerset", **OPTIONS,
    )  # fmt: skip
    with temporary("waves", args.kubernetes, planned) as plane:
        run = play(plane, plane.folder, platform, shape=args.shape, seconds=args.seconds, seed=args.seed)
        orders = asyncio.run(run)
    for what, number in sorted(orders.counts.items()):
        print(f"{number:8,} {what}")
    print(f"held {orders.held:.0f} node seconds, the ladder needs {orders.needed:.0f}")
    print("never below what was ordered, and nothing deleted that was not")
    if orders.unneeded():
        print(orders.unneeded())
    return bool(orders.unneeded())


if __name__ == "__main__":
    sys.exit(main())
