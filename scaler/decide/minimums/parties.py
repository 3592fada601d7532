"""Services as the arbiter sees them: what each still needs to serve at all (its minimum), and what it wants beyond.

Made of a snapshot and the plan that the service would follow alone. Must not know of nodes or of other services.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import msgspec

from scaler.decide.members import affords_revoke, natural
from scaler.decide.nodes import PodRequest, PodRequests, joined
from scaler.decide.state import is_in_flight
from scaler.decide.world import (
    Admit,
    Complete,
    Instance,
    InstanceMemory,
    MinimumMemory,
    Plan,
    Policy,
    Reason,
    Revoke,
    ServiceKey,
    Snapshot,
    State,
)

_NEVER = InstanceMemory()
NOT_WAITING = MinimumMemory()


class Part(msgspec.Struct):
    """One instance that has pods to bind, or is to get some."""

    instance: Instance
    uid: str
    needs: PodRequests
    """Of its pods that are not bound."""
    wanted: bool
    """Its service's own plan admits or completes it now."""
    released: bool
    """It has pods that the scheduler may bind at any moment."""


class Minimum(msgspec.Struct):
    """All that a service which does not serve still has to get bound to reach its smallest ratio."""

    parts: list[Part]
    needs: PodRequests
    whole: PodRequests
    """What all of its instances ask for, bound or not."""
    lacking: tuple[str, ...]
    """Groups with too few jobs that could start, in words; then no node would help."""
    bound: bool
    """Some pod of it is bound, be it of an instance that is whole."""
    admitted: bool
    """Some of it is in the scheduler's hands."""


class Party(msgspec.Struct):
    """One service in an arbitration."""

    snapshot: Snapshot
    plan: Plan
    memory: MinimumMemory
    key: ServiceKey
    name: str
    """The key in words."""
    standing: tuple[int, float, ServiceKey]
    """Its place in the order, whatever has happened to it: priority, age and name."""
    serves: bool
    paused: bool
    """Nothing of it may be moved; what is in the scheduler's hands keeps its room."""
    surplus: bool
    """Some group runs more than its target."""
    idle: PodRequests = ()
    """What bound pods of a service that does not serve ask for, and hold to no use."""
    minimum: Minimum | None = None
    """None when nothing of it is left to bind."""
    climbs: list[Part] = []
    vanishing: list[Part] = []
    """What its own plan takes back: still there for a moment."""

    def remembering(self, memory: MinimumMemory) -> Party:
        """One of its own for another arbitration."""
        return msgspec.structs.replace(self, memory=memory)


def is_arbitrated(snapshot: Snapshot) -> bool:
    """Whether the service takes part: it has a rule, and the rule does not say no."""
    return snapshot.rule is not None and snapshot.options.arbitration


def is_at_rest(snapshot: Snapshot, plan: Plan) -> bool:
    """The short cut for nearly all services at nearly all times: it serves, and nothing of it moves."""
    if plan.actions:
        return False
    smallest = _smallest(snapshot)
    for name, group in plan.groups.items():  # noqa: SIM110 - on the hot path
        if group.in_flight or group.running < smallest.get(name, 0):
            return False
    return True


def _smallest(snapshot: Snapshot) -> Mapping[str, int]:
    return snapshot.rule.smallest.counts if snapshot.rule else {}


def look_at(snapshot: Snapshot, plan: Plan, memory: MinimumMemory) -> Party:
    """What the service has to get bound, sorted into minimum and climbs. A paused one strives for no minimum."""
    smallest = _smallest(snapshot)
    party = _party(snapshot, plan, memory)
    serves = party.serves
    ranked = sorted(_ranked(snapshot, plan, unbound_only=serves), key=_rank_and_age)
    chosen: list[_Ranked] = []
    lacking: list[str] = []
    for name, number in () if serves or party.paused else smallest.items():
        nearest = [one for one in ranked if one.instance.group == name and one.rank < _NO_HOPE][:number]
        chosen += nearest
        if len(nearest) < number:
            lacking.append(f"{name} has {len(nearest)} of {number}")
    of_minimum = {one.instance.uid for one in chosen}
    _add_minimum(party, chosen, tuple(lacking))
    for one in ranked:
        if one.rank == _LEAVING:
            party.vanishing.append(one.part)
        elif one.instance.uid not in of_minimum and one.part.needs and (one.part.wanted or one.part.released):
            party.climbs.append(one.part)
    return party


def _party(snapshot: Snapshot, plan: Plan, memory: MinimumMemory) -> Party:
    """Nothing of it is sorted into minimum and climbs yet."""
    groups = plan.groups
    serves = all(groups[name].running >= number for name, number in _smallest(snapshot).items())
    return Party(
        snapshot, plan, memory, plan.key, str(plan.key),
        standing=(-_priority(snapshot), _oldest(snapshot), plan.key),
        serves=serves,
        paused=snapshot.options.paused,
        surplus=any(group.running > group.target for group in groups.values()),
        idle=() if serves else tuple(_bound_needs(snapshot)),
        climbs=[],
        vanishing=[],
    )  # fmt: skip


def _bound_needs(snapshot: Snapshot) -> Iterator[tuple[PodRequest, int]]:
    for instance in snapshot.instances:
        if instance.bound:
            unbound = dict(instance.unbound)
            yield from ((need, count - unbound.get(need, 0)) for need, count in instance.needs)


def order_of(party: Party) -> tuple[float, tuple[int, float, ServiceKey]]:
    """Who goes first: what failed goes last, a trade that was begun is ended, then priority, age and name."""
    memory = party.memory
    return -1.0 if memory.evicted else memory.failed_at, party.standing


def _priority(snapshot: Snapshot) -> int:
    asked = snapshot.options.service_priority
    if asked is not None:
        return min(asked, snapshot.policy.max_service_priority)
    return max([instance.priority for instance in snapshot.instances], default=0)


def _oldest(snapshot: Snapshot) -> float:
    return min([instance.created for instance in snapshot.instances if _is_live(instance)], default=0.0)


def may_be_taken_back(instance: Instance, policy: Policy) -> bool:
    """Whether taking back an admission of which nothing is bound costs the job nothing that it cannot spare."""
    return not instance.bound and affords_revoke(instance, policy)


# How near an instance is to running

_RUNS, _PARTLY_BOUND, _RELEASED, _TO_BE_COMPLETED, _TO_BE_ADMITTED, _STILL_GOING, _NO_HOPE, _LEAVING = range(8)


class _Ranked(msgspec.Struct):
    instance: Instance
    rank: int
    part: Part


def _rank_and_age(one: _Ranked) -> tuple[int, float, float, tuple[tuple[int, int, str], ...], str]:
    instance = one.instance
    return (one.rank, instance.admitted_at, instance.created, natural(instance.name), instance.uid)


def _ranked(snapshot: Snapshot, plan: Plan, *, unbound_only: bool) -> Iterator[_Ranked]:
    """Every live instance of a group of the rule; only those with something to bind, if nothing else matters."""
    moves = {action.uid: type(action) for action in plan.actions}
    groups = plan.groups
    for instance, verdict in zip(snapshot.instances, plan.verdicts, strict=True):
        if unbound_only and not instance.unbound:
            continue
        if instance.label_problem or instance.group not in groups or not _is_live(instance):
            continue
        move = moves.get(instance.uid)
        released = instance.pods - instance.gated > instance.bound
        part = Part(instance, instance.uid, instance.unbound, move is Admit or move is Complete, released)
        if move is Revoke:
            yield _Ranked(instance, _LEAVING if released else _NO_HOPE, part)
        elif verdict.state is State.HELD and verdict.reason is Reason.WAITING_FOR_SCHEDULER:
            # Others make its pods, and have not yet: it counts from the moment it exists.
            yield _Ranked(instance, _TO_BE_ADMITTED, part)
        else:
            yield _Ranked(instance, _rank(snapshot, instance, verdict.state, move), part)


def _rank(snapshot: Snapshot, instance: Instance, state: State, move: type | None) -> int:
    if move is Admit:
        return _TO_BE_ADMITTED
    match state:
        case State.RUNNING:
            return _RUNS
        case State.STARTING:
            return _PARTLY_BOUND
        case State.ADMITTED:
            return _PARTLY_BOUND if instance.bound else _RELEASED
        case State.TERMINATING:
            return _STILL_GOING
        case State.BROKEN if _has_slot(snapshot, instance):
            return _PARTLY_BOUND
        case State.BROKEN if move is Complete:
            return _TO_BE_COMPLETED
    return _NO_HOPE


def _has_slot(snapshot: Snapshot, instance: Instance) -> bool:
    memory = snapshot.memory.instances.get(instance.uid, _NEVER)
    if not memory.broken_since:  # seen broken for the first time in this very pass
        return True
    return is_in_flight(State.BROKEN, memory, snapshot.now, snapshot.policy)


def _is_live(instance: Instance) -> bool:
    return not (instance.owner_deleting or instance.owner_finished)


def _add_minimum(party: Party, chosen: Iterable[_Ranked], lacking: tuple[str, ...]) -> None:
    parts = [one.part for one in chosen]
    missing = [part for part in parts if part.needs]
    if missing:
        bound = any(part.instance.bound for part in parts)
        needs = _joined(*[part.needs for part in missing])
        whole = _joined(*[part.instance.needs for part in parts])
        party.minimum = Minimum(missing, needs, whole, lacking, bound, any(part.released for part in missing))


_joined = lru_cache(maxsize=1 << 14)(joined)
"""Minimums of the same make are many."""
