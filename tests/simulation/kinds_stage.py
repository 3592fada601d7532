"""A service of any workload kind with every controller that takes part, and witnesses that look at every change.

Must not: look into the controller, or share code with it in what judges it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

from scaler.kube.api import NAMESPACES, PODS, Object
from scaler.names import BESIDE_LABEL, NAMESPACE_LABEL
from scaler.settings import Mode
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import NodeFate, NodeSpec, change_node, node_object
from scaler.sim.apiserver.client import Interceptor
from scaler.sim.stories.play import ADMISSION, real_controller
from tests.chaos.decisions import Decisions
from tests.chaos.replica import Life
from tests.chaos.view import Instance, held, taken, view_of
from tests.chaos.witness import Witness
from tests.chaos.writes import Writes
from tests.deployed_operator import deployment
from tests.jobs import QUEUE, manifest
from tests.rig import at_work
from tests.sim.manifests import apply_pruned
from tests.sim.stage import Stage
from tests.simulation.actors import machines, owners
from tests.simulation.kinds import ASCEND_JOBS, GROUPS, Kind, Ratio, Spot, rule

LOOK, MOMENT = 0.5, 3.0
"""Seconds between two looks, and how long an instance may be half released, or held without a reason."""
LONG = 180.0
"""Seconds within which everything ends that only waits for machines."""


class KindsStage(Stage):
    """One service on nodes that are just enough, unless the test adds some."""

    def __init__(self, kind: Kind, seed: int) -> None:
        super().__init__(*ADMISSION, seed=seed)
        self.kind = kind
        self.spot = Spot()
        self.witness = Witness(self.clock)
        self.writes = Writes(self.cluster, self.witness, storm_bound=500)
        self.writes.released = self._on_release
        self.decisions = Decisions(self.witness, self.writes)
        self._chance = random.Random(f"kinds-{seed}")
        self._seed = seed
        self._wrong: set[str] = set()
        self._applied: Sequence[Object] = ()
        self._nodes: dict[str, NodeSpec] = {}

    # what happens

    def furnish(self, *, admission: bool) -> None:
        beside = self.kind is ASCEND_JOBS
        labels = {NAMESPACE_LABEL: "enabled", **({BESIDE_LABEL: "true"} if beside else {})} if admission else {}
        namespace = manifest(NAMESPACES, self.spot.namespace, labels=labels)
        self.cluster.apply([QUEUE, namespace, node_object(NodeSpec("cpu-0", npu=0))])
        self.cluster.apply([deployment()] if beside else [])

    def add_nodes(self, number: int) -> None:
        for _ in range(number):
            spec = NodeSpec(f"npu-{len(self._nodes)}")
            self._nodes[spec.name] = spec
            self.cluster.apply([node_object(spec)])

    async def rule(self, *ratios: Ratio) -> None:
        self.cluster.apply([rule(self.spot, self.kind, *ratios)])

    async def apply(self, prefills: int, decodes: int, *, image: str = "server:1") -> None:
        """`kubectl apply --prune` of the user's files."""
        spot = Spot(image=image)
        await self.apply_all(self.kind.objects(spot, (prefills, decodes)))

    async def apply_all(self, made: Sequence[Object]) -> None:
        """Like `apply`, with anything at all."""
        await apply_pruned(self.cluster, made, self._applied)
        self._applied = made

    async def lose_node_of(self, group: str) -> str:
        """A node under a running instance of the group is no longer ready; its name."""
        on = [one for one in self.instances(group) if one.running]
        name = objects.node_of(self._chance.choice(self._chance.choice(on).pods))
        await change_node(self.cluster, self._nodes[name], NodeFate.NOT_READY)
        return name

    async def give_back(self, name: str) -> None:
        await change_node(self.cluster, self._nodes[name], NodeFate.READY)

    async def kill(self, group: str, *, whole: bool) -> None:
        """Somebody deletes the pods of a running instance, or one of them, at once."""
        on = [one for one in self.instances(group) if one.running]
        pods = self._chance.choice(on).pods
        for pod in pods if whole else pods[:1]:
            await self.cluster.delete(PODS, self.spot.namespace, objects.name(pod), grace_period_seconds=0)

    # what there is

    def instances(self, group: str) -> list[Instance]:
        return [one for one in view_of(self.cluster).instances if one.group == group]

    def counts(self) -> Ratio:
        """Running instances of prefill and decode."""
        prefill, decode = (sum(one.running for one in self.instances(group)) for group in GROUPS)
        return prefill, decode

    def reasons(self, group: str) -> list[str]:
        said = view_of(self.cluster).reasons
        return [said.get((one.service, one.name), "") for one in self.instances(group)]

    def running_uids(self) -> set[str]:
        return {objects.uid(pod) for pod in self.cluster.peek(PODS) if objects.phase(pod) == "Running"}

    async def runs(self, prefills: int, decodes: int) -> None:
        """Until so many run, and stay."""
        await self.until(lambda: self.counts() == (prefills, decodes), f"{prefills}P{decodes}D")
        await asyncio.sleep(10)
        assert self.counts() == (prefills, decodes), self.words()

    async def until(self, holds: Callable[[], bool], what: str, *, within: float = LONG) -> None:
        end = self.clock.now() + within
        while not holds():
            assert self.clock.now() < end, f"never {what}: {self.words()}"
            await asyncio.sleep(1)
        assert self.witness.failures == [], self.words()

    def words(self) -> str:
        said = view_of(self.cluster).reasons
        lines = [
            f"{one.name} [{said.get((one.service, one.name))}]: "
            + ", ".join(
                f"{objects.name(pod)} {objects.phase(pod)} on {objects.node_of(pod) or '-'}"
                f"{' held' if held(pod) else ''}{' terminating' if objects.terminating(pod) else ''}"
                for pod in one.pods
            )
            for one in view_of(self.cluster).instances
        ]
        return "\n".join([f"{self.counts()} {self.decisions.targets} {self.witness.failures}", *lines])

    # the witnesses

    def _on_release(self, pod: Object, what: str) -> None:
        """S1: no admission takes a group above the target of its last decision, a pair of revisions counted once."""
        seen = view_of(self.cluster).instances
        mine = next(one for one in seen if any(objects.uid(p) == objects.uid(pod) for p in one.pods))
        own = [one for one in seen if (one.service, one.group) == (mine.service, mine.group)]
        target = self.decisions.targets[mine.service].get(mine.group, 0)
        if len(mine.released) > 1 or mine.disturbed:
            return  # it had its place before
        before = taken([one for one in own if one is not mine])
        after = taken(own)
        if after > max(target, before):
            self.witness.fail(f"S1: {what}: {after} of {mine.group}, the target is {target}")

    async def look(self) -> None:
        """S2 and L2: nothing is half released, and nothing is held without a reason, for longer than a moment."""
        while True:
            await asyncio.sleep(LOOK)
            view = view_of(self.cluster)
            wrong = {f"S2: {one.name} is half released" for one in view.instances if one.half}
            wrong |= {f"L2: {name} is held without a reason" for name in view.unexplained()}
            for what in self._wrong | wrong:
                if self.witness.lasts(what, MOMENT, wrong=what in wrong):
                    self.witness.fail(what)
            self._wrong = wrong

    def life(self) -> Life:
        return Life(self.cluster, "scaler", self.writes, faults=Interceptor(), seed=self._seed)


@asynccontextmanager
async def kinds_stage(
    kind: Kind, seed: int = 0, *, admission: bool = True, force_enqueue: bool = True
) -> AsyncIterator[KindsStage]:
    """Everybody at work; nothing applied yet. At the end no witness has anything to say, and all are still alive.

    `admission`: the namespace has opted in to it. `force_enqueue`: as MindCluster installs Volcano."""
    on = KindsStage(kind, seed)
    on.furnish(admission=admission)
    api = on.cluster.client("world")
    actors = (*owners(api, on.clock), *machines(api, on.clock, seed, force_enqueue=force_enqueue))
    controller = real_controller(seed, mode=Mode.AUTO)(on.life(), on.clock, partial(on.decisions.judge, "scaler"))
    async with at_work(*(actor.run() for actor in actors), on.look(), controller):
        yield on
        assert on.witness.failures == []
