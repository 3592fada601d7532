"""Minimum and room: the target of the service, what its waiting instances lack, and the users of
the nodes. Pure.

The input is the world and the decision of the controller's own code for what is seen; must not
decide anything. What is missing is said as the decision says it (`scaler.decide.room.shortage`),
so the headline of an instance and the answer have the same numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from scaler.decide.decision import Decision, Plan, State
from scaler.decide.explain import counts_in_words, target_in_words
from scaler.decide.nodes import Node, Nodes, PodRequest, accepts, joined
from scaler.decide.room.classes import NodeIndex
from scaler.decide.room.placement import Placement
from scaler.decide.room.shortage import Shortage
from scaler.decide.world import Instance, Service, ServiceKey, World
from scaler.reasons import checks
from scaler.reasons.reasons import ROWS, Reason
from scaler.reasons.said import COMMA, NOTHING_SAID, SEMICOLON, Said, as_is, in_one
from scaler.reasons.words import explained
from scaler.rules.values import at
from scaler.tools.common.check_result import CheckResult, Level, checked
from scaler.tools.common.detail import is_true
from scaler.tools.why.shortage_words import in_both
from scaler.tools.why.subject import Subject

_FEW = 4
_LACKS = "needs "
"""How the words of a shortage begin in a verdict."""


class Supply(msgspec.Struct, frozen=True):
    """The nodes for pods of one request. `spoken_for`: how many pods of others are to be placed
    there first, by service; `used`: nodes without room, by service ("" = others)."""

    nodes: int
    spoken_for: Mapping[str, int]
    used: Mapping[str, int]


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
        why = as_is(world.alone) if world.alone else checks.ARBITRATION_OFF
        yield checked(Level.NOTE, checks.NOT_WEIGHED.of(why=why), about="nodes")
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
    less = checks.RUNS_LESS if plan.replicas else checks.RESTS
    runs = checks.RUNS.of(counts=counts_in_words(current)) if current else less
    works = NOTHING_SAID if plan.complete else checks.WORKS_TOWARDS.of(target=_target(plan))
    available = (
        bool(current) if subject.view is None else is_true(subject.view, "Available") is not False
    )
    found = []
    for name, group in plan.groups.items():
        target = plan.target.get(name, 0)
        if group.live < target:
            found.append(checks.LACKS_JOBS.of(group=name, live=group.live, target=target))
    missing = in_one(found, COMMA)
    cure = checks.APPLY_OR_FIX.of(missing=missing) if found else NOTHING_SAID
    return checked(
        Level.OK if plan.complete else Level.NOTE if available else Level.ERROR,
        in_one((runs, works, cure), as_is("")),
        about="service",
    )


def _target(plan: Plan) -> Said:
    """As the decision says it; in Chinese the same counts."""
    awaited = []
    for name, group in plan.groups.items():
        if group.running < group.target:
            awaited.append(f"{name}（运行 {group.running}/{group.target}）")
    if not plan.replicas or plan.target_index < 0 or not awaited:
        return as_is(target_in_words(plan))
    chinese = f"{counts_in_words(plan.target)}，等待 {'、'.join(awaited)}"
    return Said(target_in_words(plan), chinese)


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
    """What all these instances together lack, and who has it."""
    requests = joined(*(instance.unbound for instance in waiting))
    if world.nodes is None or not requests:
        return
    missing = _missing(world, decision, plan, waiting)
    decided = _as_decided(plan, waiting)
    if missing is None and not decided:
        yield checked(Level.OK, checks.HAS_ROOM, about="nodes")
        return
    headline = NOTHING_SAID if missing is None else in_both(missing)
    if decided not in ("", headline.en):
        headline = explained(checks.LACKS_ROOM, decided)
    request = requests[0][0] if missing is None else missing.request
    found = supply(world, decision, plan, request, names)
    yield checked(
        Level.ERROR, in_one((headline, _supply_in_words(found)), SEMICOLON), about="nodes"
    )


def _missing(
    world: World, decision: Decision, plan: Plan, waiting: Sequence[Instance]
) -> Shortage | None:
    """What these instances lack beside all that is reserved for other services."""
    placement = Placement(NodeIndex(world.nodes or Nodes()))
    for service, other in zip(world.services, decision.plans, strict=True):
        if service.key != plan.key:
            for instance in _reserved(service, other):
                placement.reserve(placement.nodes.understood(instance.unbound))
    requests = joined(*(instance.unbound for instance in waiting))
    return placement.fits(placement.nodes.understood(requests))


def _as_decided(plan: Plan, waiting: Sequence[Instance]) -> str:
    """The words of the decision about what one of them lacks; "" for none."""
    uids = {instance.uid for instance in waiting}
    for verdict in plan.verdicts:
        if verdict.uid in uids:
            for words in verdict.about:
                if words.startswith(_LACKS):
                    return words
    return ""


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
    used: Counter[str] = Counter()
    for node in able:
        if node.schedulable and not _times(nodes.resources, node.free, request):
            used[" and ".join(sorted(users.get(node.name, {""})))] += 1
    spoken_for = _reserved_by_others(world, decision, plan, able, names)
    return Supply(len(able), spoken_for, used)


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
        if service.key != plan.key:
            for instance in _reserved(service, other):
                reserved[_name(service, names)] += _pods_for(instance, able)
    return +reserved


def _reserved(service: Service, plan: Plan) -> Iterator[Instance]:
    """The instances of another service for which room is kept."""
    verdicts = {verdict.uid: verdict for verdict in plan.verdicts}
    for instance in service.instances:
        verdict = verdicts.get(instance.uid)
        if verdict is not None and _is_reserved(verdict.reason, verdict.state):
            yield instance


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


def _times(resources: Sequence[str], amounts: Sequence[int], request: PodRequest) -> int:
    """How many such pods fit into these amounts."""
    free = dict(zip(resources, amounts, strict=True))
    return max(0, min(free.get(name, 0) // amount for name, amount in request.requests if amount))


def _supply_in_words(found: Supply) -> Said:
    """`of 4 such nodes: 1 reserved for mindie/chat-7, 1 used by mindie/chat`."""
    if not found.nodes:
        return checks.NO_NODE_TAKES
    parts = in_one(_users_in_words(found), COMMA)
    if parts == NOTHING_SAID:
        return NOTHING_SAID
    row = checks.OF_SUCH_NODE if found.nodes == 1 else checks.OF_SUCH_NODES
    return row.of(count=found.nodes, parts=parts)


def _users_in_words(found: Supply) -> Iterator[Said]:
    """What is reserved for others, and the nodes without room: used by services, by other pods."""
    for name, number in sorted(found.spoken_for.items())[:_FEW]:
        yield checks.PODS_FIRST.of(count=number, name=name)
    ours = sorted((name, number) for name, number in found.used.items() if name)
    for name, number in ours[:_FEW]:
        yield checks.USED_BY.of(count=number, name=name)
    others = sum(number for _, number in ours[_FEW:])
    if others:
        yield checks.USED_BY_OURS.of(count=others)
    if found.used.get(""):
        yield checks.USED_BY_OTHERS.of(count=found.used[""])
