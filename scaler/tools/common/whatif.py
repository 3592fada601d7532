"""The outcome of several services on given nodes: decided by the controller's own function, pass by
pass, until nothing changes. Every admitted instance is bound if it fits, and runs at once. Prints
nothing.

Must not add rules of its own; the simulated scheduler puts each pod on the node where least room is
left over, and blocks where MindCluster's scheduler or Volcano puts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from operator import ge, sub
from typing import Protocol

import msgspec

from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide
from scaler.decide.decision import Admit, Evict, Plan, Revoke
from scaler.decide.explain import words
from scaler.decide.memory import Memory
from scaler.decide.nodes import Node, Nodes, PodRequest, PodRequests, accepts, tolerates
from scaler.decide.room.classes import NodeIndex
from scaler.decide.room.placement import Placement
from scaler.decide.world import Instance, Policy, Service, ServiceKey, World
from scaler.informers.records import NodeFacts
from scaler.rules.rule import ALL, Ratio, Rule, RuleOptions
from scaler.state.capacity import CapacityIndex
from scaler.tools.common.counts import aimed_at

MOST_PASSES = 10_000
TICK = 0.001
"""Seconds between two passes, so short that no time limit ends an attempt."""
POLICY = Policy()
_KEPT_FREE = 2
"""Nodes of a super-pod that MindCluster's scheduler gives out last."""
BoundPods = tuple[tuple[str, PodRequest], ...]
"""The node of each pod of an instance, and the request of the pod."""


class Asked(msgspec.Struct, frozen=True):
    """One service in question; it has as many jobs as its largest ratio has instances."""

    key: ServiceKey
    rule: Rule
    options: RuleOptions
    needs: Mapping[str, PodRequests]
    """Group -> the requests of all pods of one instance."""
    replicas: int = ALL
    """Instances wanted in all."""
    guessed: bool = False
    """Its pods say what is not understood here, which counts as fitting."""


class Share(msgspec.Struct, frozen=True):
    """The result of one group. `reasons`: reason -> instances held for it."""

    admitted: int
    held: int
    reasons: dict[str, int]
    words: tuple[str, ...]
    """One sentence for each different reason."""


class ServiceOutcome(msgspec.Struct, frozen=True):
    """The result of one service; `ratio` counts from 0 = the largest, -1 = the service does not
    serve."""

    service: str
    serves: bool
    ratio: int
    counts: dict[str, int]
    groups: dict[str, Share]


class Answer(msgspec.Struct, frozen=True):
    nodes: int
    closed: int
    """Nodes that take no pods now: cordoned or not Ready."""
    serving: int
    complete: int
    """Services that run their largest ratio, or the one that `replicas` means."""
    guessed: int
    """Services with pod constraints that are not understood here, such as topology spread: these
    count as fitting."""
    services: tuple[ServiceOutcome, ...]
    replicas: int = ALL
    """Instances wanted in all of each service."""


class _Service:
    """One service during the passes: its released instances, and the nodes of those that run."""

    def __init__(self, asked: Asked, age: int) -> None:
        self.asked = asked
        self.age = age
        self.released: set[str] = set()
        self.bound_pods: dict[str, BoundPods] = {}
        self.plan: Plan | None = None
        self.instances: dict[str, Instance] = {}
        for group in asked.rule.groups:
            for number in range(asked.rule.largest.of(group)):
                one = _instance(asked, group, number, age)
                self.instances[one.uid] = one

    @property
    def running(self) -> set[str]:
        return set(self.bound_pods)

    def service(self) -> Service:
        asked = self.asked
        found = tuple(map(self._now, self.instances.values()))
        return Service(asked.key, found, asked.rule, asked.options, replicas=asked.replicas)

    def _now(self, one: Instance) -> Instance:
        bound_pods = self.bound_pods.get(one.uid)
        if bound_pods is not None:
            size = one.expected
            return msgspec.structs.replace(
                one,
                pods=size,
                bound=size,
                running=size,
                ready=size,
                unbound=(),
                bound_pods=bound_pods,
            )
        return msgspec.structs.replace(one, pods=one.expected) if one.uid in self.released else one

    def follow(self, made: Plan) -> Set[str]:
        """Carry out the plan. The instances that it changed."""
        self.plan = made
        to_admit = set()
        to_revoke = set()
        for action in made.actions:
            if isinstance(action, Admit):
                to_admit.add(action.uid)
            elif isinstance(action, Revoke | Evict):
                to_revoke.add(action.uid)
        admitted = to_admit - self.released
        revoked = to_revoke & self.released
        self.released = (self.released | admitted) - revoked
        return admitted | revoked


def _instance(asked: Asked, group: str, number: int, age: int) -> Instance:
    name = f"{group}-{number}"
    needs = asked.needs[group]
    size = sum(count for _, count in needs)
    uid = f"{asked.key}/{name}"
    return Instance(
        uid, name, group, created=float(age), expected=size, requests=needs, unbound=needs
    )


def what_if(services: Sequence[Asked], nodes: Iterable[NodeFacts]) -> Answer:
    """The result of all these services; earlier ones count as older."""
    by_age = [_Service(asked, age) for age, asked in enumerate(services, start=1)]
    ground = Ground(_known(nodes, by_age))
    _play(by_age, ground)
    board = Placement(NodeIndex(ground.nodes()))
    outcomes = tuple(_outcome(one, board) for one in by_age)
    serving = 0
    complete = 0
    guessed = 0
    for outcome, asked in zip(outcomes, services, strict=True):
        serving += outcome.serves
        complete += outcome.serves and outcome.ratio <= aimed_at(asked.rule, asked.replicas)
        guessed += asked.guessed
    replicas = min((one.replicas for one in services), default=ALL)
    return Answer(ground.count, ground.closed, serving, complete, guessed, outcomes, replicas)


def _play(by_age: Sequence[_Service], ground: Ground) -> None:
    """Decide and bind, pass by pass, until a pass changes nothing. Older services bind first."""
    by_key = sorted(by_age, key=lambda one: one.asked.key)
    memory = Memory()
    cache = DecisionCache()
    for number in range(1, MOST_PASSES):
        world = World(
            number * TICK,
            tuple(one.service() for one in by_key),
            ground.nodes(),
            memory=memory,
            policy=POLICY,
        )
        made = decide(world, cache)
        memory = made.memory
        changed = False
        for one, plan in zip(by_key, made.plans, strict=True):
            if one.follow(plan):
                changed = True
        for one in by_key:
            ground.leave(one)
        for one in by_age:
            if ground.bind(one):
                changed = True
        if not changed:
            return


def _known(nodes: Iterable[NodeFacts], services: Iterable[_Service]) -> Nodes:
    index = CapacityIndex()
    for facts in nodes:
        index.node_changed(facts.name, facts)
    requests: set[PodRequest] = set()
    for one in services:
        for part in one.asked.needs.values():
            for need, _ in part:
                requests.add(need)
    return index.nodes(requests)


class Seated(Protocol):
    """One service during the passes: uids of its released and of its running instances, and the
    nodes of these."""

    @property
    def instances(self) -> Mapping[str, Instance]: ...
    @property
    def released(self) -> Set[str]: ...
    @property
    def running(self) -> Set[str]: ...
    @property
    def bound_pods(self) -> dict[str, BoundPods]: ...


class Ground:
    """The nodes, with the pods on them."""

    def __init__(self, known: Nodes) -> None:
        self._resources = known.resources
        self._nodes = {node.name: node for node in known.nodes}
        self.count = len(self._nodes)
        self.closed = sum(not node.schedulable for node in known.nodes)

    def nodes(self) -> Nodes:
        return Nodes(self._resources, tuple(self._nodes.values()))

    def leave(self, one: Seated) -> None:
        """Remove instances from their nodes that are no longer released."""
        for uid in one.running - one.released:
            for name, need in one.bound_pods.pop(uid):
                self.take(name, need, -1)

    def bind(self, one: Seated) -> Set[str]:
        """Bind each released instance that fits, whole. Those that were bound."""
        bound = set()
        waiting = one.released - one.running
        for uid, instance in one.instances.items():
            bound_pods = self._bound(instance.requests) if uid in waiting else None
            if bound_pods is not None:
                one.bound_pods[uid] = bound_pods
                bound.add(uid)
        return bound

    def _bound(self, needs: PodRequests) -> BoundPods | None:
        """A node for each of these pods; None, and nothing is taken, if one of them has none."""
        bound_pods: list[tuple[str, PodRequest]] = []
        for need, count in needs:
            # of a job that takes blocks, one block at a time; of any other, one pod
            size = max(1, need.block)
            for _ in range(count // size):
                names = self._places_for(need)
                if not names:
                    for taken, other in bound_pods:
                        self.take(taken, other, -1)
                    return None
                for name in names:
                    self.take(name, need, 1)
                    bound_pods.append((name, need))
        return tuple(bound_pods)

    def _places_for(self, need: PodRequest) -> Sequence[str]:
        """The node of each pod of one block, or of one pod; none where it does not fit."""
        if need.block > 1 and need.tier:
            return self._hyper_node_that_fits(need)
        return self._block_that_fits(need) if need.block > 1 else self._one_that_fits(need)

    def _hyper_node_that_fits(self, need: PodRequest) -> Sequence[str]:
        """Nodes of one HyperNode, as Volcano chooses them: those of the lowest tier come first.
        A tier that nobody knows counts as met."""
        index = NodeIndex(self.nodes())
        if not index.knows_tier(need.tier):
            return self._first_places(list(self._nodes.values()), need)
        for tier in index.tiers_up_to(need.tier):
            members: dict[int, list[Node]] = {}
            for number, node in zip(index.sets(str(tier)), index.nodes, strict=True):
                if number >= 0:
                    members.setdefault(number, []).append(node)
            for nodes in members.values():
                if names := self._first_places(nodes, need):
                    return names
        return []

    def _first_places(self, nodes: Sequence[Node], need: PodRequest) -> Sequence[str]:
        """So many places on these nodes; none where there are fewer."""
        names: list[str] = []
        for node in nodes:
            left = node
            while len(names) < need.block and self._fits(left, need):
                names.append(node.name)
                free = tuple(map(sub, left.free, self._amounts(need)))
                left = msgspec.structs.replace(left, free=free)
        return names if len(names) == need.block else []

    def _one_that_fits(self, need: PodRequest) -> Sequence[str]:
        name = self._fullest_that_fits(need)
        return [] if name is None else [name]

    def _block_that_fits(self, need: PodRequest) -> Sequence[str]:
        """Nodes of one super-pod for a block, as MindCluster's scheduler chooses them: super-pods
        that keep two free nodes beside it come first, then those with the fewest."""
        free: dict[int, list[Node]] = {}
        for node in self._nodes.values():
            if node.super_pod >= 0 and self._fits(node, need):
                free.setdefault(node.super_pod, []).append(node)
        enough = [one for one, nodes in free.items() if len(nodes) >= need.block]
        if not enough:
            return []
        chosen = min(
            enough,
            key=lambda one: (len(free[one]) - _KEPT_FREE < need.block, len(free[one]), one),
        )
        return [node.name for node in free[chosen][: need.block]]

    def _fullest_that_fits(self, need: PodRequest) -> str | None:
        """Of the nodes with room for the pod, the one where least is left."""
        fitting = [node for node in self._nodes.values() if self._fits(node, need)]
        if not fitting:
            return None
        return min(fitting, key=lambda node: (node.free, node.name)).name

    def _fits(self, node: Node, need: PodRequest) -> bool:
        if not node.schedulable or not self._resources_are_known(need):
            return False
        if not accepts(need.where, node.node_class) or not tolerates(need.where, node.passing):
            return False
        return all(map(ge, node.free, self._amounts(need)))

    def _resources_are_known(self, need: PodRequest) -> bool:
        return all(name in self._resources for name, _ in need.requests)

    def _amounts(self, need: PodRequest) -> tuple[int, ...]:
        asked = dict(need.requests)
        return tuple(asked.get(name, 0) for name in self._resources)

    def take(self, name: str, need: PodRequest, sign: int) -> None:
        """Add a pod to a node (sign 1) or remove it (-1)."""
        node = self._nodes[name]
        taken = tuple(sign * amount for amount in self._amounts(need))
        self._nodes[name] = msgspec.structs.replace(node, free=tuple(map(sub, node.free, taken)))


def _outcome(one: _Service, board: Placement) -> ServiceOutcome:
    assert one.plan is not None  # noqa: S101 - there is at least one pass
    running: Counter[str] = Counter()
    for uid in one.bound_pods:
        running[one.instances[uid].group or ""] += 1
    ratio = ratio_of(one.asked.rule, running)
    counts = dict(one.asked.rule.ratios[ratio].counts) if ratio >= 0 else {}
    shares = {group: _share(one, one.plan, group, board) for group in one.asked.rule.groups}
    key = one.asked.key
    return ServiceOutcome(f"{key.namespace}/{key.job_id}", ratio >= 0, ratio, counts, shares)


def ratio_of(rule: Rule, running: Counter[str]) -> int:
    """The largest ratio whose counts all groups run; -1 when even the smallest is not reached."""
    for index, ratio in enumerate(rule.ratios):
        if _is_met(ratio, running):
            return index
    return -1


def _is_met(ratio: Ratio, running: Counter[str]) -> bool:
    return all(running[group] >= number for group, number in ratio.counts.items())


def _share(one: _Service, made: Plan, group: str, board: Placement) -> Share:
    reasons: Counter[str] = Counter()
    held_words = []
    waiting_words = []
    admitted = 0
    for verdict in made.verdicts:
        if verdict.group != group:
            continue
        reason = verdict.reason.value
        if verdict.uid not in one.released:
            reasons[reason] += 1
            held_words.append(f"{reason}: {words(verdict, made)}")
            continue
        admitted += 1
        if verdict.uid not in one.bound_pods:
            waiting_words.append(f"{reason}: {_unbound(one.instances[verdict.uid], board)}")
    once = tuple(dict.fromkeys([*held_words, *waiting_words]))
    return Share(admitted, reasons.total(), dict(reasons), once)


def _unbound(instance: Instance, board: Placement) -> str:
    """Why the scheduler binds no admitted instance: a service that is alone on its nodes is not
    held."""
    shortage = board.fits(instance.requests)
    return (
        f"Admitted, but nodes are missing: {shortage}."
        if shortage
        else "Admitted; waits for the scheduler."
    )
