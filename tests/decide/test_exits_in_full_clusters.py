"""L10: an exit of one instance never ends a service for the sake of a scale-up. Random clusters
without a free node, in which pods exit one after the other and owners take seconds to make them
again."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from scaler.decide.invariants import violations
from scaler.decide.world import Service
from tests.builders import NOW, Story, on_nodes, world

LADDER = "3P1D > 2P1D > 1P1D"
NAMES = ("p0", "p1", "p2", "d0")
STARTS_IN = 3
"""Seconds from a bind until a pod runs."""
REMOVED_IN = 5
"""Seconds from an exit until the pod is deleted."""
QUIET = 150
"""Seconds without an exit at the end."""


class Pod:
    """The only pod of an instance: what it does, and from when on."""

    def __init__(self) -> None:
        self.does = "held"
        self.node = ""
        self.since = 0

    def becomes(self, does: str, now: int, node: str = "") -> None:
        self.does = does
        self.node = node
        self.since = now

    def __str__(self) -> str:
        if self.does == "runs":
            return f"on {self.node}"
        return f"{self.does} on {self.node}" if self.node else self.does


class Cluster:
    """Services whose minimums have room, and no node more than all of them use. A scheduler that
    binds each pod within a second."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.names = [f"s{number}" for number in range(self.dice.randint(2, 4))]
        self.of_others = {name: self.dice.random() < 0.5 for name in self.names}
        number = 2 * len(self.names) + self.dice.randint(0, len(self.names) - 1)
        self.nodes = [f"a{index}" for index in range(number)]
        self.story = Story(f"a:8x{number}")
        self.pods: dict[str, dict[str, Pod]] = {}
        for name in self.names:
            self.pods[name] = {one: Pod() for one in NAMES}
        self.now = 0
        self.due = NOW
        """When the last decision is to be made again; 0.0 = only after a change."""
        self.slow: dict[int, int] = {}
        """Pod -> seconds that its owner takes to make it again."""

    def services(self) -> list[Service]:
        found = []
        for age, name in enumerate(self.names):
            places = [f"{one} {pod}" for one, pod in self.pods[name].items()]
            others = self.of_others[name]
            found.append(on_nodes(LADDER, ", ".join(places), name=name, others=others, age=-age))
        return found

    def every(self) -> Iterator[tuple[str, Pod]]:
        for name in self.names:
            for pod in self.pods[name].values():
                yield name, pod

    def second(self) -> None:
        """All that happens by itself in one second, and the decisions after it."""
        self.now += 1
        for name, pod in self.every():
            self._move(name, pod)
        bound = any(pod.does == "starts" and pod.since == self.now for _, pod in self.every())
        changed = max(pod.since for _, pod in self.every())
        if changed < self.now - 1 and not 0 < self.due <= NOW + self.now:
            return  # nothing has changed since the last decision, and nothing is due
        for _ in range(4):
            services = self.services()
            seen = world(
                *services,
                nodes=self.story.nodes,
                now=NOW + self.now,
                memory=self.story.memory,
                last_bind=NOW + self.now if bound else self.story.last_bind,
            )
            done = self.story.at(self.now, *services, bound=bound)
            assert not violations(seen, self.story.made)
            self.due = self.story.made.recheck_at
            bound = False
            for uid, action in done.items():
                name, one = uid.split("-")
                assert action in ("Admit", "Revoke"), f"{action} of {uid}"
                self.pods[name][one].becomes("unbound" if action == "Admit" else "held", self.now)
            if not done:
                return

    def _move(self, name: str, pod: Pod) -> None:
        """One pod goes on: its owner, its kubelet or the scheduler."""
        took = self.now - pod.since
        taken = {other.node for _, other in self.every() if other.does in ("runs", "starts")}
        free = [node for node in self.nodes if node not in taken]
        if pod.does == "failed" and took >= REMOVED_IN:
            pod.becomes("gone" if self.of_others[name] else "held", self.now)
        elif pod.does == "gone" and took >= self.slow.get(id(pod), 0):
            pod.becomes("held", self.now)
        elif pod.does == "starts" and took >= STARTS_IN:
            pod.becomes("runs", self.now, pod.node)
        elif pod.does == "unbound" and free:
            pod.becomes("starts", self.now, self.dice.choice(free))

    def exits(self, pod: Pod) -> None:
        """Its container exits; its owner takes up to a minute to make it again."""
        pod.becomes("failed", self.now, pod.node)
        self.slow[id(pod)] = self.dice.choice((0, 3, 20, 60))

    def serves(self, name: str) -> bool:
        running = [one[0] for one, pod in self.pods[name].items() if pod.does == "runs"]
        return "p" in running and "d" in running


@pytest.mark.parametrize("seed", range(20))
def test_whoever_served_serves_again_after_exits_in_a_full_cluster(seed: int) -> None:
    """L10, 3b.1b, 3b.5e: what an exit takes from a service is kept for it."""
    cluster = Cluster(seed)
    for _ in range(60):
        cluster.second()
    assert all(map(cluster.serves, cluster.names))
    for _ in range(cluster.dice.randint(1, 6)):
        running = [pod for _, pod in cluster.every() if pod.does == "runs"]
        for pod in cluster.dice.sample(running, min(len(running), cluster.dice.randint(1, 2))):
            cluster.exits(pod)
        for _ in range(cluster.dice.randint(1, 90)):
            cluster.second()
    for _ in range(QUIET):
        cluster.second()
    assert [name for name in cluster.names if not cluster.serves(name)] == []
