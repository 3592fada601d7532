"""Services whose instances are blocks of nodes of a super-pod, and a scheduler that spreads them
as MindCluster's does."""

from __future__ import annotations

import random
from collections import Counter

from msgspec.structs import replace

from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide, decide_anew
from scaler.decide.decision import Admit, Complete, Decision, Evict, Revoke
from scaler.decide.invariants import violations
from scaler.decide.memory import Memory
from scaler.decide.nodes import Node, NodeClass, Nodes, PodRequest
from scaler.decide.world import Instance, Service, ServiceKey, World
from tests.builders import NOW, located, ratio, service, world

CHIPS = 16
RESOURCES = ("x/npu", "pods")
ANY = NodeClass()


def block_of(nodes: int) -> PodRequest:
    """A pod of a block of so many nodes; of one node it needs no other beside it."""
    return PodRequest((("x/npu", CHIPS), ("pods", 1)), block=nodes if nodes > 1 else 0)


class SuperPods:
    """`count` super-pods of so many nodes: `s0n0`, `s0n1`, ... Each instance is one block; `sizes`
    has the nodes of those of each group."""

    def __init__(self, count: int, nodes: int, sizes: dict[str, int], seed: int = 0) -> None:
        self.super_pods: list[list[str]] = []
        for number in range(count):
            self.super_pods.append([f"s{number}n{each}" for each in range(nodes)])
        self.sizes = sizes
        self.pods: dict[str, list[str]] = {}
        """Uid of an instance -> where its pods are, as `located` takes it."""
        self.ratios: dict[str, str] = {}
        self.gone: set[str] = set()
        """Nodes that do not exist any more."""
        self.now = NOW
        self.memory = Memory()
        self.history: list[Decision] = []
        self.evicted = Counter[str]()
        self._cache = DecisionCache()
        self._chance = random.Random(seed)

    def add(self, name: str, ratios: str) -> None:
        """A service with an instance for each place of its largest ratio."""
        self.ratios[name] = ratios
        for group, number in ratio(ratios.split(">", maxsplit=1)[0]).counts.items():
            letter = {"group0": "p", "group1": "d"}[group]
            for index in range(number):
                self.pods[f"{name}-{letter}{index}"] = ["."] * self.sizes[letter]

    def world(self) -> World:
        services = [self._service(name) for name in sorted(self.ratios)]
        return world(*services, nodes=self.nodes(), now=self.now, memory=self.memory)

    def _service(self, name: str) -> Service:
        found = []
        for uid, pods in self.pods.items():
            owner, _, short = uid.partition("-")
            if owner == name:
                found.append(self._instance(uid, short, pods))
        key = ServiceKey("default", "rule", name)
        return service(self.ratios[name], found, key=key)

    def _instance(self, uid: str, short: str, pods: list[str]) -> Instance:
        need = block_of(self.sizes[short[0]])
        made = located(short, need, pods, uid=uid, newest=self.now if "u" in pods else 0.0)
        return replace(made, requests=((need, len(pods)),))

    def nodes(self) -> Nodes:
        used = Counter[str]()
        for pods in self.pods.values():
            used.update(pods)
        found = []
        for number, names in enumerate(self.super_pods):
            for name in names:
                if name not in self.gone:
                    free = (CHIPS - CHIPS * used[name], 100)
                    found.append(Node(name, ANY, (CHIPS, 100), free, super_pod=number))
        return Nodes(RESOURCES, tuple(sorted(found, key=lambda node: node.name)))

    # what happens

    def decide(self) -> Decision:
        seen = self.world()
        made = decide_anew(seen)
        assert decide(seen, self._cache) == made
        assert list(violations(seen, made)) == []
        self.memory = made.memory
        for plan in made.plans:
            for action in plan.actions:
                if isinstance(action, Admit | Complete):
                    before = self.pods[action.uid]
                    self.pods[action.uid] = ["u" if pod == "." else pod for pod in before]
                elif isinstance(action, Revoke):
                    before = self.pods[action.uid]
                    self.pods[action.uid] = ["." if pod == "u" else pod for pod in before]
                elif isinstance(action, Evict):
                    self.evicted[action.uid] += 1
                    self.pods[action.uid] = ["."] * len(self.pods[action.uid])
        self.history.append(made)
        return made

    def schedule(self) -> None:
        """Bind what the scheduler has, in any order, each block where MindCluster's puts it: into a
        super-pod that keeps two free nodes beside it where there is one, and there into the one
        with the fewest free nodes."""
        waiting = sorted(uid for uid, pods in self.pods.items() if set(pods) == {"u"})
        self._chance.shuffle(waiting)
        for uid in waiting:
            size = len(self.pods[uid])
            nodes = self._chosen(size)
            if nodes:
                self.pods[uid] = nodes[:size]

    def _chosen(self, size: int) -> list[str]:
        free = self.free()
        able = [names for names in free if len(names) >= size]
        if not able:
            return []
        least = min(able, key=lambda names: (len(names) - size < 2, len(names)))
        alike = [names for names in able if len(names) == len(least)]
        return self._chance.choice(alike)

    def free(self) -> list[list[str]]:
        """The wholly free nodes of each super-pod."""
        taken = {pod for pods in self.pods.values() for pod in pods}
        found = []
        for names in self.super_pods:
            found.append([name for name in names if name not in taken and name not in self.gone])
        return found

    def settle(self, passes: int = 40, seconds: float = 5.0) -> None:
        """Decide and schedule in turn."""
        for _ in range(passes):
            self.decide()
            self.schedule()
            self.now += seconds

    def lose(self, node: str) -> None:
        """The node is gone, and the plugin deletes all pods of the jobs that were on it."""
        self.gone.add(node)
        for uid, pods in self.pods.items():
            if node in pods:
                self.pods[uid] = ["."] * len(pods)

    def running(self, name: str) -> str:
        """`1P1D`: what runs of a service."""
        counts = Counter[str]()
        for uid, pods in self.pods.items():
            owner, _, short = uid.partition("-")
            counts[short[0]] += owner == name and not set(pods) & {"u", "."}
        return f"{counts['p']}P{counts['d']}D"

    @property
    def serving(self) -> int:
        return sum(
            min(int(found[0]), int(found[2])) > 0 for found in map(self.running, self.ratios)
        )
