"""What to do where an instance waits for room: who has it, and the commands that give some back.
Pure.

The commands fit the case: a cordoned node, a node that is not Ready, another service that runs
more than its minimum, one that is not of a lower priority. Must not decide anything."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from scaler.decide.decision import Decision, Plan
from scaler.decide.nodes import Node, PodRequest, accepts, joined
from scaler.decide.service.demand import priority_of
from scaler.decide.world import Preempt, Service, ServiceKey, World
from scaler.names import PREFIX
from scaler.reasons.steps import (
    ADD_NODES,
    GO_FIRST,
    LOWER_MINIMUM,
    NOT_READY,
    PROTECTED,
    SCALE_HOLDER,
    SCALE_UP_WAITS,
    UNCORDON,
)
from scaler.tools.why.room import instances_that_wait, nodes_of_services
from scaler.tools.why.subject import Subject

_MOST = 2
"""Nodes, and services, of each kind that get a command."""


def room_advice(
    world: World, decision: Decision, subject: Subject, names: Mapping[ServiceKey, str]
) -> tuple[str, ...]:
    """What to do next, the cheapest first; () where nothing of it waits for room. `names`: of the
    ElasticServices."""
    plan = subject.plan
    if world.nodes is None or plan is None or subject.service is None:
        return ()
    requests = joined(*(one.unbound for one in instances_that_wait(subject)))
    if not requests:
        return ()
    able = _able(world.nodes.nodes, [request for request, _ in requests])
    lines = [*_about_nodes(able)]
    if not plan.serves:
        lines += _about_holders(world, decision, subject.service, able, names)
        if _can_be_lowered(subject.service):
            lines.append(LOWER_MINIMUM.en)
    else:
        lines.append(SCALE_UP_WAITS.en)
    lines.append(ADD_NODES.en)
    return tuple(lines)


def _able(nodes: Sequence[Node], requests: Sequence[PodRequest]) -> list[Node]:
    """The nodes that take one of these pods when they are empty."""
    found = []
    for node in nodes:
        if any(accepts(request.where, node.node_class) for request in requests):
            found.append(node)
    return found


def _about_nodes(able: Sequence[Node]) -> Iterator[str]:
    cordoned = [node.name for node in able if node.ready and node.cordoned]
    lost = [node.name for node in able if not node.ready]
    if cordoned:
        yield UNCORDON.en
        yield f"kubectl uncordon {' '.join(cordoned[:_MOST])}"
    if lost:
        yield NOT_READY.en
        yield f"kubectl describe node {' '.join(lost[:_MOST])}"


def _about_holders(
    world: World,
    decision: Decision,
    waiting: Service,
    able: Sequence[Node],
    names: Mapping[ServiceKey, str],
) -> Iterator[str]:
    """The services that run more than their minimum on these nodes."""
    holders = nodes_of_services(world, able)
    shown = 0
    for service, plan in zip(world.services, decision.plans, strict=True):
        if service.key == waiting.key or not holders.get(service.key) or shown == _MOST:
            continue
        smallest = _size_of_minimum(service)
        if _surplus(service, plan) and smallest:
            shown += 1
            yield from _about_holder(world, waiting, service, names, smallest)


def _about_holder(
    world: World,
    waiting: Service,
    holder: Service,
    names: Mapping[ServiceKey, str],
    smallest: int,
) -> Iterator[str]:
    key = holder.key
    annotate = f"kubectl -n {key.namespace} annotate --overwrite configmap {key.rule}"
    if names.get(key):
        yield SCALE_HOLDER.en
        yield f"kubectl -n {key.namespace} scale esvc/{names[key]} --replicas={smallest}"
    # what the annotations of a shared rule say holds for both
    same_rule = (key.namespace, key.rule) == (waiting.key.namespace, waiting.key.rule)
    if world.policy.preempt is not Preempt.HIGHER_PRIORITY or same_rule:
        return
    mine = priority_of(waiting, world.policy)
    if not holder.options.preemptable:
        yield PROTECTED.en
        yield f"kubectl -n {key.namespace} annotate configmap {key.rule} {PREFIX}preemptable-"
    if priority_of(holder, world.policy) >= mine:
        yield GO_FIRST.en
        yield f"{annotate} {shlex.quote(f'{PREFIX}service-priority={mine - 1}')}"


def _surplus(service: Service, plan: Plan) -> int:
    """Instances that occupy a slot beyond the minimum."""
    if service.rule is None:
        return 0
    least = service.rule.smallest.counts
    number = 0
    for name, group in plan.groups.items():
        number += max(0, group.running + group.in_flight - least.get(name, 0))
    return number


def _size_of_minimum(service: Service) -> int:
    return sum(service.rule.smallest.counts.values()) if service.rule is not None else 0


def _can_be_lowered(service: Service) -> bool:
    """Whether a smaller ratio with an instance of each group is thinkable."""
    return service.rule is not None and max(service.rule.smallest.counts.values()) > 1
