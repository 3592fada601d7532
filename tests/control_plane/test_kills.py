"""kill -9 at random moments of a real control plane run: no pod twice, none lost, no bound pod
deleted.

    KILLS=500 .venv/bin/python -m pytest -s tests/control_plane/test_kills.py

Replicas of `scaler run` are killed from the first moment of their lives on, while instances and
nodes are lost and come back. The API server's own audit log and a watch are judged. Must not: read
what the scaler says."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest

from scaler.kube.api import PODS, EventType, KubeApi, Object
from scaler.kube.errors import KubeError, NotFoundError
from scaler.names import GROUP_LABEL
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import NodeFate, NodeSpec
from scaler.sim.apiserver.crds import definitions
from scaler.sim.stories.manifests import apply, ensure_namespace
from tests.chaos import inventory
from tests.control_plane.plane import ControlPlane, PlaneOptions
from tests.control_plane.plugin import FreshPlane
from tests.control_plane.scaler_process import ALONE, LEASE, USER, ScalerProcess, install
from tests.control_plane.stage import Stage, staged, until
from tests.control_plane.witness import Witness, watched

SERVICES = (
    inventory.Service("a", "ns-a", "a", ((2, 1), (1, 1)), jobs=(2, 1), pods=(1, 1), mindie=False),
    inventory.Service("b", "ns-b", "b", ((2, 2), (1, 1)), jobs=(2, 2), pods=(2, 1), mindie=False),
    inventory.Service(
        "c", "ns-c", "c", ((3, 1), (2, 1), (1, 1)), jobs=(3, 1), pods=(1, 2), mindie=False
    ),
)
KILLS = int(os.environ.get("KILLS", "20"))
QUICK = (*LEASE, "--lease-duration", "4", "--renew-deadline", "3", "--retry-period", "0.3")
CHECK_EVERY = 25
"""Kills between two looks at whether all is as it should be while none is killed."""
LIFE = 5.0
"""Seconds that a life lasts at most: starting takes about one of them."""
REST = 180.0
"""Seconds in which every service must run whole when the kills pause: a second or two on a machine
at leisure."""
_DELETIONS = {
    "level": "Request",
    "verbs": ["delete", "deletecollection"],
    "resources": [{"group": "", "resources": ["pods"]}],
}
OPTIONS = PlaneOptions(crds=definitions(), audit=True, audit_rules=(_DELETIONS, {"level": "None"}))
"""Of a plane that records every deletion of a pod, with its preconditions."""


class Ledger:
    """Every pod that ever was, by uid: its last words, and whether two stood in one place."""

    def __init__(self, api: KubeApi) -> None:
        self.broken: list[str] = []
        self.seen: dict[str, Object] = {}
        self._api = api
        self._there: dict[str, dict[str, Object]] = {}
        """By uid of the owner, by uid."""

    async def run(self) -> None:
        """Watch until cancelled, from before anything is made."""
        version = (await self._api.list(PODS)).resource_version
        while True:
            with suppress(KubeError):
                async for event in self._api.watch(PODS, resource_version=version):
                    version = event.resource_version
                    if event.object is not None:
                        self._take(event.type, event.object)

    def _take(self, kind: EventType, pod: Object) -> None:
        self.seen[objects.uid(pod)] = pod
        own = self._there.setdefault(objects.owner_uid(pod), {})
        if kind is EventType.DELETED:
            own.pop(objects.uid(pod), None)
            return
        own[objects.uid(pod)] = pod
        owner = str(objects.controller(pod).get("name", ""))
        for service in (one for one in SERVICES if one.namespace == objects.namespace(pod)):
            name = objects.labels_of(pod).get(GROUP_LABEL) or inventory.group_of(owner)
            size = service.pods[inventory.GROUPS.index(name)]
            if len(own) > size:
                self.broken.append(
                    f"twice: {owner} has {sorted(map(objects.name, own.values()))}, its size is"
                    f" {size}"
                )

    def deletions(self, audit: Iterable[dict[str, Any]]) -> Counter[str]:
        """What the scaler deleted, as the API server recorded its requests; a bound pod is a broken
        promise."""
        found: Counter[str] = Counter()
        for entry in audit:
            if entry["responseStatus"]["code"] >= 300:
                continue
            uid = str((entry.get("requestObject") or {}).get("preconditions", {}).get("uid", ""))
            pod = self.seen.get(uid)
            found["pods taken back by the scaler"] += 1
            if pod is None:
                self.broken.append(
                    f"S3: deleted {entry['objectRef']['name']} without naming a known uid ({uid!r})"
                )
            elif objects.node_of(pod):
                self.broken.append(
                    f"S3: deleted {objects.name(pod)}, bound to {objects.node_of(pod)}"
                )
        return found


class Killing:
    """One run. `counts` of what was done."""

    def __init__(
        self, plane: ControlPlane, stage: Stage, folder: Path, die: random.Random, replicas: int
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._kubeconfig = install(plane)
        self._stage = stage
        self._folder = folder
        self._die = die
        self._flags = [*(QUICK if replicas > 1 else ALONE), "--broken-grace", "3"]
        self._running: list[ScalerProcess] = []
        self._replicas = replicas
        self._born = 0

    async def furnish(self) -> None:
        """Services, and nodes for the largest ratio of each."""
        for service in SERVICES:
            await ensure_namespace(self._stage.api, service.namespace)
            for number in range(service.nodes_for(service.ladder[0])):
                await self._stage.add_node(
                    NodeSpec(f"{service.pool}-{number}", labels={"pool": service.pool})
                )
            jobs = [inventory.server_job(service, name) for name in service.job_names()]
            # Without trade nothing that is bound may ever be deleted by the scaler.
            for obj in (inventory.rule(service, trade="off"), *jobs):
                await apply(self._stage.api, obj)

    async def kill_one(self) -> None:
        """Some moment of a replica's life, from its first on, is its last."""
        self._fill_up()
        await self._shake()
        await asyncio.sleep(self._die.uniform(0.0, LIFE))
        self._fill_up()
        victim = self._running.pop(self._die.randrange(len(self._running)))
        self.counts[
            "killed before it was synced" if not victim.lines("caches synced") else "killed at work"
        ] += 1
        victim.stop()
        victim.log.unlink()
        self.counts["kills"] += 1

    async def at_rest(self) -> None:
        """All nodes are back: every service runs whole, and no replica logs an error."""
        for node in self._nodes():
            await self._stage.node(node, NodeFate.READY)
        self._fill_up()
        for service in SERVICES:
            wanted = dict(zip(inventory.GROUPS, service.ladder[0], strict=True))
            runs = partial(self._runs, service.key, wanted)
            show = partial(self._show, service.key)
            await until(runs, f"{service.key} runs {wanted}", show, REST)
        self._fill_up()
        errors = [error for process in self._running for error in process.errors()]
        assert errors == [], errors
        self.counts["times at rest"] += 1

    async def _runs(self, key: str, wanted: dict[str, int]) -> bool:
        self._fill_up()  # as Kubernetes would
        return await self._stage.running(key) == wanted

    async def _show(self, key: str) -> tuple[Any, ...]:
        return await self._stage.views(key), *(process.tail() for process in self._running)

    async def stop(self) -> None:
        for process in self._running:
            await asyncio.to_thread(process.stop, SIGTERM)

    def _fill_up(self) -> None:
        """Start what is missing. Only one that lost its leadership may have ended itself."""
        for process in [process for process in self._running if process.exit_code is not None]:
            assert "LeadershipLost" in process.tail(), process.tail()
            self.counts["leadership lost"] += 1
            self._running.remove(process)
        while len(self._running) < self._replicas:
            self._born += 1
            process = ScalerProcess(
                f"victim-{self._born}", self._folder, self._kubeconfig, self._flags
            )
            process.start()
            self._running.append(process)

    def _nodes(self) -> list[str]:
        return [
            f"{one.pool}-{number}"
            for one in SERVICES
            for number in range(one.nodes_for(one.ladder[0]))
        ]

    async def _shake(self) -> None:
        """Lose some pods, now and then a node, so that there always is something to climb back
        to."""
        spaces = {service.namespace for service in SERVICES}
        pods = [
            pod
            for pod in (await self._stage.api.list(PODS)).items
            if objects.namespace(pod) in spaces
        ]
        for pod in self._die.sample(pods, k=min(len(pods), self._die.randint(0, 4))):
            with suppress(NotFoundError):
                await self._stage.api.delete(
                    PODS, objects.namespace(pod), objects.name(pod), grace_period_seconds=0
                )
                self.counts["pods lost"] += 1
        if self._die.random() < 0.5:
            fate = self._die.choice([NodeFate.NOT_READY, NodeFate.READY, NodeFate.READY])
            await self._stage.node(self._die.choice(self._nodes()), fate)
            self.counts[f"node {fate.value}"] += 1


@pytest.mark.long("a minute in real time")
@pytest.mark.parametrize("replicas", [1, 2])
async def test_what_is_killed_at_any_moment_makes_no_pod_twice_and_loses_none(
    replicas: int, fresh_plane: FreshPlane, tmp_path: Path
) -> None:
    """Two replicas: with leader election."""
    plane = fresh_plane(OPTIONS)
    async with staged(plane) as stage, watched(Witness(stage.api)):
        ledger = Ledger(stage.api)
        watching = asyncio.create_task(ledger.run())
        killing = Killing(plane, stage, tmp_path, random.Random(f"kills-{replicas}"), replicas)
        try:
            await killing.furnish()
            for number in range(1, KILLS + 1):
                await killing.kill_one()
                if number % CHECK_EVERY == 0 or number == KILLS:
                    await killing.at_rest()
                    print(
                        f"{time.strftime('%H:%M:%S')} {dict(killing.counts)}, broken:"
                        f" {ledger.broken}",
                        flush=True,
                    )
        finally:
            await killing.stop()

        async def caught_up() -> bool:
            return all(
                objects.uid(pod) in ledger.seen for pod in (await stage.api.list(PODS)).items
            )

        await until(caught_up, "the watch has caught up")
        assert not watching.done(), watching
        watching.cancel()
        print(f"{dict(ledger.deletions(plane.audit_events(USER)))} of {len(ledger.seen)} pods")
        assert ledger.broken == []
