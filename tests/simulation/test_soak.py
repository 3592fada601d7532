"""A busy cluster for days: whatever came and went, nothing is left of it.

Services with AscendJobs, rank tables and rules, services of Deployments, training jobs and nodes
come under fresh names and go again; rules break and are fixed, pods die, creations are refused,
watches break. Now and then everything is taken away: then every container of the controller holds
what it held the first time that happened."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from scaler.app import App
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    EVENTS,
    NODES,
    POD_GROUPS,
    PODS,
    SERVICES,
    Object,
    PatchType,
    Resource,
)
from scaler.kube.errors import ConflictError, ForbiddenError, NotFoundError
from scaler.settings import Settings
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.loop import run
from scaler.sim.stories.play import silence_logs
from tests.jobs import NAMESPACE, TWO_P_ONE_D, job, node, rule_config_map
from tests.rig import Rig

CYCLE = 300.0
"""Seconds from one service to the next."""
ALIVE = 4
"""Services at a time."""
REST = 1200.0
"""Seconds after which nothing may be left of what has gone: longer than every patience and
backoff."""
HOURS = 3600.0
SPARE = 8
"""Entries by which what is forgotten late may differ, beside twice what there was: one for each
service is more."""
LABELS = {"mind-cluster/scaling-rule": "", "mind-cluster/group-name": "group0", "jobID": ""}


class Refusing(Interceptor):
    """Refuses to create pods whose names say so."""

    async def before(self, request: Request) -> None:
        if (
            request.verb == "create"
            and request.resource is PODS
            and "refused" in json.dumps(request.body["metadata"])
        ):
            raise ForbiddenError(403, "Forbidden", "a quota of somebody")


class Soak(Rig):
    """`seed` draws what happens to whom."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.dice = random.Random(seed)
        self.alive: list[int] = []
        self.made = 0

    async def cycle(self) -> None:
        """One service comes and lives; something happens; the oldest goes."""
        self.come(self.made)
        self.alive.append(self.made)
        self.made += 1
        await self.run_pods()
        await self.happen()
        await self.run_pods()
        if len(self.alive) > ALIVE:
            self.go(self.alive.pop(0))
        await self.sweep()

    def come(self, number: int) -> None:
        """Every seventh is refused; every other one has pods that somebody else made, too."""
        rule = f"rule-{number}"
        refused = "-refused" if number % 7 == 3 else ""
        self.apply(rule_config_map(TWO_P_ONE_D, rule))
        for name in (f"p0-{number}{refused}", f"p1-{number}", f"d0-{number}"):
            made = job(name, rule=rule)
            made["metadata"]["labels"]["jobID"] = rule
            table = {
                "metadata": {"name": f"rings-config-{name}"},
                "data": {"hccl.json": '{"status":"initializing"}'},
            }
            self.apply({"apiVersion": "v1", "kind": "ConfigMap", **table}, made)
        self.apply(
            job(f"train-{number}", rule=None, labels={"framework": "pytorch"}),
            node(f"node-{number}", roomy=True),
        )
        for index in range(2 * (number % 2)):
            self.apply(self.lone_pod(f"lone-{number}-{index}", rule))

    @staticmethod
    def lone_pod(name: str, rule: str) -> Object:
        labels = {
            "mind-cluster/scaling-rule": rule,
            "mind-cluster/group-name": "group0",
            "jobID": f"lone-{rule}",
        }
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "schedulingGates": [{"name": "mind-cluster/hold"}],
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
        }

    async def run_pods(self) -> None:
        """Scheduler, device plugin and kubelet at once: whatever may run, runs."""
        await asyncio.sleep(CYCLE / 6)
        for pod in self.cluster.peek(PODS, NAMESPACE):
            if (
                pod["spec"].get("schedulingGates")
                or pod.get("status", {}).get("phase") == "Running"
            ):
                continue
            with suppress(NotFoundError, ConflictError):  # it is being revoked at this moment
                await self.run_pod(pod)

    async def run_pod(self, pod: Object) -> None:
        if not pod["spec"].get("nodeName"):
            await self.bind(pod, self.dice.choice([f"node-{number}" for number in self.alive]))
        chips = {"server_id": "10.0.0.1", "devices": [{"device_id": "0", "device_ip": "10.0.0.2"}]}
        told = {"ascend.kubectl.kubernetes.io/ascend-910-configuration": json.dumps(chips)}
        name = pod["metadata"]["name"]
        patch = {"metadata": {"annotations": told}}
        await self.cluster.patch(PODS, NAMESPACE, name, patch, patch_type=PatchType.MERGE)
        await self.status(
            pod, phase="Running", podIP="10.0.0.3", conditions=[{"type": "Ready", "status": "True"}]
        )

    async def happen(self) -> None:
        """One or two of the things that happen."""
        number = self.dice.choice(self.alive)
        if self.dice.random() < 0.3:
            self.apply(rule_config_map("{", f"rule-{number}"))
            await asyncio.sleep(20)
            self.apply(rule_config_map(TWO_P_ONE_D, f"rule-{number}"))
        if self.dice.random() < 0.5:
            await self.kill(f"d0-{number}")
        if self.dice.random() < 0.3:
            for state in ("False", "True"):
                flaps = node(f"node-{number}", roomy=True)
                flaps["status"]["conditions"] = [{"type": "Ready", "status": state}]
                self.apply(flaps)
                await asyncio.sleep(10)
        if self.dice.random() < 0.1:
            self.cluster.compact()
            self.cluster.cut_all_watches()

    def go(self, number: int) -> None:
        """All of it at once, with what belongs to it."""
        ours = (
            f"p0-{number}",
            f"p1-{number}",
            f"d0-{number}",
            f"train-{number}",
            f"lone-{number}-",
            f"rule-{number}",
        )
        named = (*ours, *(f"rings-config-{name}" for name in ours), f"node-{number}")
        for resource in (ASCEND_JOBS, PODS, POD_GROUPS, SERVICES, CONFIG_MAPS, NODES):
            for obj in self.cluster.peek(resource):
                name = obj["metadata"]["name"]
                if (
                    name in named
                    or name.removesuffix("-refused") in named
                    or name.startswith(f"lone-{number}-")
                ):
                    self.delete(resource, obj)

    def delete(self, resource: Resource, obj: Object) -> None:
        meta = obj["metadata"]
        self.cluster.remove(resource, meta.get("namespace"), meta["name"])

    async def sweep(self) -> None:
        """The garbage collector, and the API server that keeps events for an hour."""
        uids = {obj["metadata"]["uid"] for obj in self.cluster.peek(ASCEND_JOBS)}
        for resource in (PODS, POD_GROUPS, SERVICES):
            for obj in self.cluster.peek(resource):
                if any(
                    owner["uid"] not in uids for owner in obj["metadata"].get("ownerReferences", ())
                ):
                    self.delete(resource, obj)
        for event in self.cluster.peek(EVENTS):
            self.delete(EVENTS, event)
        await asyncio.sleep(CYCLE / 3)

    async def rest(self) -> None:
        """Take everything away, and wait until it is forgotten."""
        while self.alive:
            self.go(self.alive.pop())
        await self.sweep()
        await asyncio.sleep(REST)


def soaked(hours: float, rests: int, seed: int) -> list[Counter[str]]:
    """What the controller holds, each time that everything had been taken away."""
    found: list[Counter[str]] = []

    async def story() -> None:
        on = Soak(seed)
        api = on.cluster.client("scaler", Refusing())
        settings = Settings(leader_election=False, http_port=0)
        app = App(api, settings, on.clock, observer=on.observe, seed=seed)
        task = asyncio.create_task(app.run())
        for _ in range(rests):
            for _ in range(int(hours * HOURS / CYCLE / rests)):
                await on.cycle()
                assert not task.done(), task.exception()
                assert on.broken == [], on.broken[0]
            await on.rest()
            found.append(held(app))
        task.cancel()
        await asyncio.wait([task])

    silence_logs()
    run(story(), seed=seed)
    return found


def held(app: App) -> Counter[str]:
    found = contents(
        app,
        within=("scaler.", "collections", "functools"),
        without=("scaler.sim", "scaler.settings"),
    )
    found["series of metrics"] = sum(
        len(family.samples) for family in app.metrics.registry.collect()
    )
    found["tasks"] = len(asyncio.all_tasks())
    found["timers"] = sum(not timer.cancelled() for timer in asyncio.get_running_loop()._scheduled)  # type: ignore[attr-defined]
    return found


@pytest.mark.long("two days", first=True)
def test_nothing_is_left_of_what_has_gone() -> None:
    found = soaked(42.0, rests=6, seed=1)
    early = found[0] | found[1]
    late = found[-2] | found[-1]
    allowed = Counter({name: 2 * early[name] + SPARE for name in late})
    assert late - allowed == Counter(), "grows for ever"


# how much is in every container that can be reached from an object

CONTAINERS = (dict, list, set, deque, tuple, frozenset)


def contents(
    root: object, *, within: tuple[str, ...], without: tuple[str, ...] = ()
) -> Counter[str]:
    """Entries by `Class.attribute` of all objects whose classes come from these modules and from
    none of `without`; containers inside containers are counted under the same name. Functions are
    not looked into, bound methods are."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("root", root)]
    while waiting:
        place, value = waiting.pop()
        if id(value) in seen or isinstance(value, str | bytes | int | float | type(None)):
            continue
        seen.add(id(value))
        if isinstance(value, asyncio.Queue):
            value = value._queue  # type: ignore[attr-defined]
        if isinstance(value, CONTAINERS):
            found[place] += len(value)
            parts = (*value.keys(), *value.values()) if isinstance(value, Mapping) else tuple(value)
            waiting += [(place, part) for part in parts]
            continue
        owner = getattr(value, "__self__", None)
        module = type(value).__module__
        if owner is not None and not isinstance(owner, type):
            waiting.append((place, owner))
        elif module.startswith(within) and not module.startswith(without):
            waiting += [
                (f"{type(value).__name__}.{name}", part) for name, part in _attributes(value)
            ]
    return +found


def _attributes(value: object) -> Iterator[tuple[str, Any]]:
    names = list(getattr(value, "__dict__", ()))
    if isinstance(value, msgspec.Struct):
        names += value.__struct_fields__
    for kind in type(value).__mro__:
        names += getattr(kind, "__slots__", ())
    for name in dict.fromkeys(names):
        if hasattr(value, name):
            yield name, getattr(value, name)
