"""The effect of a drain of nodes on the services of a cluster: decided by the controller's own
function, pass by pass, until nothing changes. Pure.

An instance with a pod on such a node ends whole: its other pods serve no requests. Must not add
rules of its own; the simulated scheduler puts each pod on the node where least room is left over,
and pods are created and start at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set

import msgspec

from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide
from scaler.decide.decision import Admit, Complete, Decision, Evict, Plan, Revoke, State, Verdict
from scaler.decide.explain import words
from scaler.decide.memory import Memory
from scaler.decide.nodes import Nodes
from scaler.decide.room.classes import NodeIndex
from scaler.decide.room.placement import Placement
from scaler.decide.world import Instance, Service, World
from scaler.tools.common.whatif import MOST_PASSES, TICK, BoundPods, Ground, ratio_of


class Standing(msgspec.Struct, frozen=True):
    """The state of a service: running instances per group, and the largest ratio that they make; -1
    = none."""

    counts: dict[str, int]
    ratio: int

    @property
    def serves(self) -> bool:
        return self.ratio >= 0


class Fate(msgspec.Struct, frozen=True):
    """One service that loses instances, or gains or gives some as a consequence."""

    service: str
    ratios: int
    """Number of ratios of its rule; 0 = it has none."""
    now: Standing
    then: Standing
    """After the pods are gone and before any instance has started."""
    later: Standing
    """When nothing changes any more."""
    ends: tuple[str, ...]
    evicted: tuple[str, ...]
    """Instances that end on other nodes, to make room for a minimum."""
    starts: dict[str, tuple[str, ...]]
    """Instances that start, and their nodes."""
    held: tuple[str, ...]
    """Why ended instances do not start again, in words."""

    @property
    def loses_minimum(self) -> bool:
        return self.now.serves and not self.then.serves


def _is_on(instance: Instance, nodes: Set[str]) -> bool:
    """Whether a pod of the instance is on one of the nodes."""
    return any(name in nodes for name, _ in instance.bound_pods)


class _Present:
    """One service during the passes, beginning after its pods are gone."""

    def __init__(self, service: Service, plan: Plan, nodes: Set[str]) -> None:
        self.service = service
        self.now = {verdict.uid for verdict in plan.verdicts if verdict.state is State.RUNNING}
        found = {one.uid: one for one in service.instances}
        self.ends = [one for one in found.values() if _is_on(one, nodes)]
        for one in self.ends:
            if one.irreplaceable:
                del found[one.uid]
            else:
                found[one.uid] = _held(one)
        self.instances: dict[str, Instance] = found
        self.bound_pods: dict[str, BoundPods] = {}
        self.released = set()
        for uid, one in found.items():
            if one.pods > one.gated and not one.bound:
                self.released.add(uid)
        self.evicted: dict[str, Instance] = {}
        self.plan = plan

    @property
    def running(self) -> Set[str]:
        """Instances that started during the passes."""
        return self.bound_pods.keys()

    @property
    def stays(self) -> set[str]:
        """Instances that ran before and still run."""
        return self.now - {one.uid for one in self.ends} - set(self.evicted)

    def seen(self) -> Service:
        return msgspec.structs.replace(
            self.service,
            instances=tuple(self._seen(one) for one in self.instances.values()),
            assumed=False,
        )

    def _seen(self, one: Instance) -> Instance:
        if (bound_pods := self.bound_pods.get(one.uid)) is not None:
            size = one.expected
            return msgspec.structs.replace(
                one,
                pods=size,
                gated=0,
                bound=size,
                running=size,
                ready=size,
                unbound=(),
                bound_pods=bound_pods,
            )
        if one.uid in self.released and not one.bound:
            return msgspec.structs.replace(one, pods=one.expected, gated=0)
        return one

    def follow(self, made: Plan, ground: Ground) -> Set[str]:
        """Carry out the plan. The instances that it changed."""
        self.plan = made
        changed = set()
        for action in made.actions:
            one = self.instances.get(action.uid)
            if one is None:
                continue
            if (
                isinstance(action, Admit | Complete)
                and not one.bound
                and one.uid not in self.released
            ):
                self.released.add(one.uid)
                changed.add(one.uid)
            elif isinstance(action, Revoke | Evict) and one.uid in self.released:
                self.released.discard(one.uid)
                changed.add(one.uid)
            elif isinstance(action, Evict) and one.bound:
                self.evicted[one.uid] = one
                self.instances[one.uid] = _held(one)
                leave(ground, one.bound_pods)
                changed.add(one.uid)
        return changed


def _held(one: Instance) -> Instance:
    """The instance without pods; if others make them, new ones have the gate."""
    again = 0 if one.made_by_us else one.expected
    return msgspec.structs.replace(
        one,
        pods=again,
        gated=again,
        bound=0,
        running=0,
        ready=0,
        ended=0,
        terminating=0,
        crashing=0,
        faulty=0,
        restarts=0,
        admitted_at=0.0,
        newest=0.0,
        ends_by=0.0,
        unheld=0,
        leftovers=False,
        stripped=False,
        trouble="",
        bound_pods=(),
        unbound=one.requests,
    )


def leave(ground: Ground, bound_pods: BoundPods) -> None:
    for name, need in bound_pods:
        ground.take(name, need, -1)


def foresee(world: World, decision: Decision, nodes: Set[str]) -> list[Fate]:
    """The effect on each service that a drain of these nodes touches, by namespace and name."""
    found = []
    for service, plan in zip(world.services, decision.plans, strict=True):
        found.append(_Present(service, plan, nodes))
    ground = Ground(_closed(world.nodes or Nodes(), nodes))
    for one in found:
        for ended in one.ends:
            leave(ground, _elsewhere(ended.bound_pods, nodes))
    _play(found, ground, world, decision.memory)
    board = Placement(NodeIndex(ground.nodes()))
    result: list[Fate] = []
    for item in found:
        if item.ends or item.evicted:
            result.append(_fate(item, board))
    return result


def _elsewhere(bound_pods: BoundPods, nodes: Set[str]) -> BoundPods:
    """The pods that are on none of these nodes."""
    return tuple((name, need) for name, need in bound_pods if name not in nodes)


def _play(found: Sequence[_Present], ground: Ground, world: World, memory: Memory) -> None:
    """Decide and bind, pass by pass, until a pass changes nothing."""
    cache = DecisionCache()
    for number in range(1, MOST_PASSES):
        made = decide(
            msgspec.structs.replace(
                world,
                now=world.now + number * TICK,
                services=tuple(one.seen() for one in found),
                nodes=None if world.nodes is None else ground.nodes(),
                memory=memory,
            ),
            cache,
        )
        memory = made.memory
        changed = False
        for one, plan in zip(found, made.plans, strict=True):
            if one.follow(plan, ground):
                changed = True
        for one in found:
            ground.leave(one)
        if world.nodes is not None:
            for one in found:
                if ground.bind(one):
                    changed = True
        if not changed:
            return


def _closed(known: Nodes, names: Set[str]) -> Nodes:
    """The nodes after a drain: these take no pods."""
    nodes = []
    for node in known.nodes:
        nodes.append(msgspec.structs.replace(node, cordoned=node.cordoned or node.name in names))
    return Nodes(known.resources, tuple(nodes))


def _fate(one: _Present, board: Placement) -> Fate:
    service = one.service
    ended = {each.uid for each in one.ends}
    gone = ended | set(one.evicted)
    held = []
    for verdict in one.plan.verdicts:
        if verdict.uid in gone and verdict.uid not in one.running:
            held.append(_why(verdict, one, board))
    starts = {}
    for uid, bound_pods in one.bound_pods.items():
        starts[one.instances[uid].name] = _where(bound_pods)
    return Fate(
        service=service.key.shown,
        ratios=len(service.rule.ratios) if service.rule is not None else 0,
        now=_standing(service, one.now),
        then=_standing(service, one.now - ended),
        later=_standing(service, one.stays | set(one.running)),
        ends=_names(one.ends),
        evicted=_names(one.evicted.values()),
        starts=starts,
        held=tuple(dict.fromkeys(held)),
    )


def _why(verdict: Verdict, one: _Present, board: Placement) -> str:
    if verdict.uid in one.released:
        shortage = board.fits(one.instances[verdict.uid].requests)
        if shortage:
            return f"{verdict.name}: nodes are missing: {shortage}"
    return f"{verdict.name}: {words(verdict, one.plan)}"


def _where(bound_pods: BoundPods) -> tuple[str, ...]:
    return tuple(sorted({name for name, _ in bound_pods}))


def _standing(service: Service, running: Set[str]) -> Standing:
    counts: Counter[str] = Counter()
    for one in service.instances:
        if one.uid in running:
            counts[one.group or ""] += 1
    rule = service.rule
    if rule is None:
        return Standing(dict(counts), -1)
    return Standing({group: counts[group] for group in rule.groups}, ratio_of(rule, counts))


def _names(instances: Iterable[Instance]) -> tuple[str, ...]:
    return tuple(one.name for one in instances)
