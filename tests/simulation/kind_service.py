"""A service of any workload kind in a rig with every controller that takes part, and witnesses of
every change.

Must not: look into the controller, or share code with it in what judges it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

from scaler.defaults import Mode
from scaler.kube.api import NAMESPACES, Object
from scaler.names import NAMESPACE_LABEL
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import NodeFate
from scaler.sim.apiserver.client import Interceptor
from scaler.sim.stories.play import ADMISSION, real_controller
from tests.chaos import inventory
from tests.chaos.decisions import Decisions
from tests.chaos.inventory import OPTED_IN, Service
from tests.chaos.replica import Life
from tests.chaos.view import Instance, view_of
from tests.chaos.witness import Witness
from tests.chaos.writes import Writes
from tests.jobs import QUEUE, manifest
from tests.rig import Rig, at_work
from tests.sim.manifests import apply_pruned
from tests.simulation.kinds import ASCEND_JOBS, GROUPS, Kind, Ratio, Spot
from tests.stand_ins import deployment, machines, owners

LOOK = 0.5
MOMENT = 3.0
"""Seconds between two looks, and how long an instance may be half released, or held without a
reason."""
LONG = 180.0
"""Seconds within which everything ends that only waits for machines."""


class KindService:
    """One service on nodes that are just enough, unless the test adds some."""

    def __init__(self, kind: Kind, seed: int) -> None:
        self.rig = Rig(*ADMISSION, seed=seed)
        self.cluster = self.rig.cluster
        self.clock = self.rig.clock
        self.kind = kind
        spot = Spot()
        self.service = Service(
            spot.name, spot.namespace, spot.pool, ((1, 1),), (1, 1), kind.pods, kind=kind
        )
        self.witness = Witness(self.clock)
        self.writes = Writes(self.cluster, self.witness, storm_bound=500)
        self.decisions = Decisions(self.witness, self.writes)
        self.chance = random.Random(f"kinds-{seed}")
        self._wrong: set[str] = set()
        self._applied: Sequence[Object] = ()

    # what happens

    def furnish(self, *, admission: bool) -> None:
        labels = OPTED_IN if self.kind is ASCEND_JOBS else {NAMESPACE_LABEL: "enabled"}
        namespace = manifest(NAMESPACES, self.service.namespace, labels=labels if admission else {})
        self.cluster.apply(
            [QUEUE, namespace, *([deployment()] if self.kind is ASCEND_JOBS else ())]
        )
        self.rig.nodes("cpu-0", npu=0)

    def add_nodes(self, number: int) -> None:
        first = len(self.rig.machines)
        self.rig.nodes(*(f"npu-{index}" for index in range(first, first + number)))

    async def rule(self, *ratios: Ratio) -> None:
        self.cluster.apply([inventory.rule(self.service, ratios)])

    async def apply(self, prefills: int, decodes: int, *, image: str = "server:1") -> None:
        """`kubectl apply --prune` of the user's files."""
        await self.apply_all(inventory.made_by_others(self.service, (prefills, decodes), image))

    async def apply_all(self, made: Sequence[Object]) -> None:
        """Like `apply`, with anything at all."""
        await apply_pruned(self.cluster, made, self._applied)
        self._applied = made

    async def lose_node_of(self, group: str) -> str:
        """A node under a running instance of the group is no longer ready; its name."""
        on = [one for one in self.instances(group) if one.running]
        name = objects.node_of(self.chance.choice(self.chance.choice(on).pods))
        await self.rig.node(name, NodeFate.NOT_READY)
        return name

    async def give_back(self, name: str) -> None:
        await self.rig.node(name, NodeFate.READY)

    # what there is

    def instances(self, group: str) -> list[Instance]:
        return [one for one in view_of(self.cluster).instances if one.group == group]

    def counts(self) -> Ratio:
        prefill, decode = GROUPS
        return self._running(prefill), self._running(decode)

    def _running(self, group: str) -> int:
        return len([one for one in self.instances(group) if one.running])

    def reasons(self, group: str) -> list[str]:
        said = view_of(self.cluster).reasons
        return [said.get((one.service, one.name), "") for one in self.instances(group)]

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
        view = view_of(self.cluster)
        lines = [f"{one}: {view.reasons.get((one.service, one.name))}" for one in view.instances]
        return "\n".join([f"{self.counts()} {self.witness.failures}", *lines])

    # the witnesses

    async def look(self) -> None:
        """S2 and L2: nothing is half released, and nothing is held without a reason, for longer
        than a moment."""
        while True:
            await asyncio.sleep(LOOK)
            view = view_of(self.cluster)
            wrong = {f"S2: {one.name} is half released" for one in view.instances if one.half}
            wrong |= {f"L2: {name} is held without a reason" for name in view.unexplained()}
            for what in self._wrong | wrong:
                if self.witness.since(what, wrong=what in wrong) > MOMENT:
                    self.witness.fail(what)
            self._wrong = wrong


@asynccontextmanager
async def served(
    kind: Kind, seed: int = 0, *, admission: bool = True, force_enqueue: bool = True
) -> AsyncIterator[KindService]:
    """Everybody at work; nothing applied yet. At the end no witness has anything to say, and all
    are still alive.

    `admission`: the namespace has opted in to it. `force_enqueue`: as MindCluster installs
    Volcano."""
    on = KindService(kind, seed)
    on.furnish(admission=admission)
    api = on.cluster.client("world")
    actors = (*owners(api, on.clock), *machines(api, on.clock, seed, force_enqueue=force_enqueue))
    life = Life(on.cluster, "scaler", on.writes, faults=Interceptor(), seed=seed)
    controller = real_controller(seed, mode=Mode.AUTO)(
        life, on.clock, partial(on.decisions.judge, "scaler")
    )
    async with at_work(*(actor.run() for actor in actors), on.look(), controller):
        yield on
        assert on.witness.failures == []
