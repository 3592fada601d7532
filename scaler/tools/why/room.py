"""Minimum and room: the target of the service, the nodes that each waiting instance needs, and the
users of these. Pure.

The input is the world and the decision of the controller's own code for what is seen; must not
decide anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from scaler.decide.decision import Decision, Plan, State
from scaler.decide.explain import (
    amount_in_words,
    counts_in_words,
    target_in_words,
    where_in_words,
)
from scaler.decide.nodes import PODS, Node, Nodes, PodRequest, accepts, joined
from scaler.decide.world import Instance, Service, ServiceKey, World
from scaler.reasons.reasons import ROWS, Reason
from scaler.rules.values import at
from scaler.tools.common.check_result import CheckResult, Level
from scaler.tools.common.detail import is_true
from scaler.tools.why.subject import Subject

_FEW = 4


class Supply(msgspec.Struct, frozen=True):
    """The nodes for pods of one request. `free`: how many of these pods fit now; `spoken_for`: how
    many pods of others are to be placed there first, by service; `used`: nodes without room, by
    service ("" = others)."""

    nodes: int
    free: int
    spoken_for: Mapping[str, int]
    used: Mapping[str, int]
    away: Sequence[str]
    shared: bool
    """A node has room for several of these pods, so nodes cannot be counted."""


def room_checks(
    world: World, decision: Decision, subject: Subject, names: Mapping[ServiceKey, str]
) -> Iterator[CheckResult]:
    """How far the service is, then what its waiting instances need. `names`: of the
    ElasticServices."""
    plan = subject.plan
    if plan is None or subject.service is None or not plan.key.rule:
        return
    yield _standing(subject, plan)
    if world.alone or subject.service.options.arbitration is False:
        why = world.alone or 'annotation mind-cluster/arbitration is "off"'
        yield CheckResult(Level.NOTE, f"free nodes are not weighed here: {why}", about="nodes")
    yield from _needs(world, decision, plan, instances_that_wait(subject), names)


def instances_that_wait(subject: Subject) -> list[Instance]:
    """Those of the subject that more room would help: of each group as many as its target lacks.
    Beyond the target nobody is started, however much room there is."""
    waiting = [instance for instance in subject.instances if _waits_for_room(subject, instance)]
    if subject.plan is None:
        return waiting
    lacks = {}
    for name, group in subject.plan.groups.items():
        lacks[name] = group.target - group.running
    found = []
    for instance in waiting:
        if lacks.get(instance.group or "", 0) > 0:
            lacks[instance.group or ""] -= 1
            found.append(instance)
    return found or waiting


def _standing(subject: Subject, plan: Plan) -> CheckResult:
    status = subject.view.status if subject.view is not None else {}
    current = at(status, "currentRatio", "counts")
    less = "runs less than its smallest ratio" if plan.replicas else "rests"
    runs = f"runs {counts_in_words(current)}" if current else less
    works = "" if plan.complete else f"; works towards {target_in_words(plan)}"
    available = (
        bool(current) if subject.view is None else is_true(subject.view, "Available") is not False
    )
    found = []
    for name, group in plan.groups.items():
        if group.live < plan.target.get(name, 0):
            found.append(
                f"{name} has {group.live} of {plan.target.get(name, 0)} jobs that can be used"
            )
    missing = ", ".join(found)
    words = f"{runs}{works}" + (f"; {missing}: apply or fix them" if missing else "")
    return CheckResult(
        Level.OK if plan.complete else Level.NOTE if available else Level.ERROR,
        words,
        about="service",
    )


def _waits_for_room(subject: Subject, instance: Instance) -> bool:
    standing = subject.standings.get(instance.uid)
    row = ROWS.get(standing.reason) if standing is not None else None
    return row is not None and row.room_may_end_it and bool(instance.unbound)


def _needs(
    world: World,
    decision: Decision,
    plan: Plan,
    waiting: Sequence[Instance],
    names: Mapping[ServiceKey, str],
) -> Iterator[CheckResult]:
    """Each different request once, for all of the instances together."""
    if world.nodes is None:
        return
    for request, count in joined(*(instance.unbound for instance in waiting)):
        found = supply(world, decision, plan, request, names)
        yield CheckResult(
            _judged(found, count),
            _supply_in_words(world.nodes, request, count, found),
            about="nodes",
        )


def supply(
    world: World,
    decision: Decision,
    plan: Plan,
    request: PodRequest,
    names: Mapping[ServiceKey, str],
) -> Supply:
    """The nodes for these pods, and the services that use them."""
    nodes = world.nodes or Nodes()
    able = [node for node in nodes.nodes if accepts(request.where, node.node_class)]
    users = _users_of_nodes(world, names)
    free = 0
    used: Counter[str] = Counter()
    away = []
    shared = False
    for node in able:
        if _times(nodes.resources, node.allocatable, request) > 1:
            shared = True
        if not node.schedulable:
            away.append(f"{node.name} ({'cordoned' if node.ready else 'not Ready or faulty'})")
            continue
        room = _times(nodes.resources, node.free, request)
        free += room
        if not room:
            used[" and ".join(sorted(users.get(node.name, {""})))] += 1
    spoken_for = _reserved_by_others(world, decision, plan, able, names)
    return Supply(len(able), free, spoken_for, used, away, shared)


def _users_of_nodes(world: World, names: Mapping[ServiceKey, str]) -> dict[str, set[str]]:
    """Node -> the names of the services that have a pod on it."""
    users: dict[str, set[str]] = {}
    for service in world.services:
        for node in _nodes_of(service):
            users.setdefault(node, set()).add(_name(service, names))
    return users


def nodes_of_services(world: World, nodes: Sequence[Node]) -> dict[ServiceKey, set[str]]:
    """Service -> those of these nodes on which it has a pod."""
    among = {node.name for node in nodes}
    found = {}
    for service in world.services:
        found[service.key] = _nodes_of(service) & among
    return found


def _nodes_of(service: Service) -> set[str]:
    found: set[str] = set()
    for instance in service.instances:
        found.update(node for node, _ in instance.bound_pods)
    return found


def _reserved_by_others(
    world: World,
    decision: Decision,
    plan: Plan,
    able: Sequence[Node],
    names: Mapping[ServiceKey, str],
) -> Counter[str]:
    """Service -> how many of its pods are to be placed on these nodes first."""
    reserved: Counter[str] = Counter()
    for service, other in zip(world.services, decision.plans, strict=True):
        if service.key == plan.key:
            continue
        verdicts = {verdict.uid: verdict for verdict in other.verdicts}
        for instance in service.instances:
            verdict = verdicts.get(instance.uid)
            if verdict is not None and _is_reserved(verdict.reason, verdict.state):
                reserved[_name(service, names)] += _pods_for(instance, able)
    return +reserved


def _name(service: Service, names: Mapping[ServiceKey, str]) -> str:
    """NAMESPACE/NAME, as commands take it."""
    key = service.key
    return f"{key.namespace}/{names.get(key) or key.job_id or key.rule}"


def _is_reserved(reason: Reason, state: State) -> bool:
    return reason.row.room_is_kept or state is State.ADMITTED


def _pods_for(instance: Instance, nodes: Sequence[Node]) -> int:
    """The pods of the instance that are not bound yet and may run on one of these nodes."""
    classes = {node.node_class for node in nodes}
    pods = 0
    for request, number in instance.unbound:
        if any(accepts(request.where, one) for one in classes):
            pods += number
    return pods


def _pods_in_words(count: int, what: str, *, shared: bool) -> str:
    if shared:
        return f"room for {count} times {what}"
    return f"{count} node{'s' if count > 1 else ''} with {what}"


def _times(resources: Sequence[str], amounts: Sequence[int], request: PodRequest) -> int:
    """How many such pods fit into these amounts."""
    free = dict(zip(resources, amounts, strict=True))
    return max(0, min(free.get(name, 0) // amount for name, amount in request.requests if amount))


def _judged(found: Supply, count: int) -> Level:
    return Level.OK if found.free - sum(found.spoken_for.values()) >= count else Level.ERROR


def _main_amount(nodes: Nodes, request: PodRequest) -> str:
    """The amount of the first resource that the pod asks for, in the order of the nodes."""
    amounts = dict(request.requests)
    for name in nodes.resources:
        if name in amounts and name != PODS:
            return amount_in_words(name, amounts[name])
    return "room"


def _supply_in_words(nodes: Nodes, request: PodRequest, count: int, found: Supply) -> str:
    """`needs 2 nodes with 8 free huawei.com/Ascend910 (accelerator-type=a3), 1 there, 3 reserved by
    chat-7; ...`."""
    what = _main_amount(nodes, request) + where_in_words(request.where)
    needed_nodes = _pods_in_words(count, what, shared=found.shared)
    parts = [f"needs {needed_nodes}, {found.free} there"]
    for name, number in sorted(found.spoken_for.items())[:_FEW]:
        parts.append(f"{number} reserved by {name}")
    if not found.nodes:
        return (
            f"{parts[0]}: no node takes such pods at all; look at the pods' selector and the nodes'"
            " labels and taints"
        )
    needed = ", ".join(parts)
    busy = ", ".join(_without_room(found))
    if not busy:
        return needed
    return f"{needed}; of {found.nodes} such node{'s' if found.nodes > 1 else ''}: {busy}"


def _without_room(found: Supply) -> Iterator[str]:
    """The nodes without room: used by services, by other pods, or away."""
    others = 0
    shown = 0
    for name, number in sorted(found.used.items()):
        if name and shown < _FEW:
            shown += 1
            yield f"{number} used by {name}"
        elif name:
            others += number
    if others:
        yield f"{others} by others of ours"
    if found.used.get(""):
        yield f"{found.used['']} used by other pods or too small"
    if found.away:
        few = ", ".join(found.away[:_FEW])
        more = " ..." if len(found.away) > _FEW else ""
        yield f"{len(found.away)} away: {few}{more}"
