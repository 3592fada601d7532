"""The draft of the last decision, kept for a service that has changed in what no step of sharing
reads: a pod was restarted, its owner has another generation, a scheduler says other words. So one
pod does not cost a look at a thousand services. It saves time only.

    demand before, demand now -> equal but for what is not read -> the draft before, of the demand
                                                                   now

What is not read is named here. Everything else is compared, so what is added to a service is read
until it is named here."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from msgspec.structs import replace

from scaler.decide import attempts
from scaler.decide.draft import Draft
from scaler.decide.events import Event, JobsForgotten, JobsRead
from scaler.decide.memory import InstanceMemory, ServiceMemory
from scaler.decide.service.demand import Demand
from scaler.decide.service.groups import Group
from scaler.decide.service.states import Member
from scaler.decide.sharing import observed
from scaler.decide.world import Life, World
from scaler.rules.rule import Trade

NOT_READ: dict[str, Any] = {
    "kind": "",
    "generation": 0,
    "running": 0,
    "crashing": 0,
    "faulty": 0,
    "restarts": 0,
    "leftovers": False,
    "mislabelled": None,
    "trouble": "",
    "life": Life(),
    "warnings": (),
    "revision": "",
    "scheduler_says": "",
    "asks": "",
    "deletion_cost": 0,
}
"""Fields of `Instance` that no step of sharing reads, each with a value for all. What follows from
them, such as the state of the instance, is compared."""
NOT_READ_OF_MEMORY: dict[str, Any] = {
    "restarts": -1,
    "restarted_at": 0.0,
    "broken_since": 0.0,
    "bound_since": 0.0,
}
"""The same of `InstanceMemory`."""
_COMPARED_APART = frozenset(["service", "seen", "memory", "members", "groups", "until"])
_FIELDS_OF_MEMBER = [
    name for name in Member.__struct_fields__ if name not in ("instance", "memory")
]
_FIELDS = [name for name in Demand.__struct_fields__ if name not in _COMPARED_APART]


def kept_draft(before: Draft, now: Demand, world: World, *, any_victims: bool) -> Draft | None:
    """The draft of the last decision, of the service as it is now; None where it has to be made
    anew. `any_victims`: victims were looked for among all services."""
    old = before.demand
    if old.training or now.training:  # 3d reads more than is named here
        return None
    reads_ready = any_victims or not now.serves or now.service.options.trade is Trade.ALWAYS
    if not _is_read_alike(old, now, reads_ready=reads_ready):
        return None
    draft = copy(before)
    draft.demand = now
    draft.events = _events(before, now)
    draft.memory = attempts.after(now.memory, draft.events, now.policy)
    if not _is_alike(draft.memory, before.memory):
        return None
    if not _is_alike(draft.memory, now.memory) or observed.events_of_jobs(draft):
        return None  # a clock moves
    draft.groups = {}
    for name, group in before.groups.items():
        draft.groups[name] = _with_places_of(group, now.groups[name])
    moments = list(observed.moments(draft, world))
    return draft if moments == list(observed.moments(before, world)) else None


def _events(before: Draft, now: Demand) -> list[Event]:
    """What happened in the last decision happens again; only what people wrote is read anew."""
    events: list[Event] = []
    if attempts.has_news(now.memory, now.written):
        bound = [member.uid for member in now.members if member.instance.bound]
        events.append(JobsRead(now.written, tuple(bound)))
    for event in before.events:
        if not isinstance(event, JobsRead | JobsForgotten):
            events.append(event)
    return events


def _with_places_of(before: Group, now: Group) -> Group:
    """The group with the places that the last decision gave."""
    return replace(before, members=now.members, held=now.held, released=now.released)


def _is_read_alike(old: Demand, now: Demand, *, reads_ready: bool) -> bool:
    """Whether sharing finds the same in both."""
    if len(old.members) != len(now.members) or not _is_alike(old.memory, now.memory):
        return False
    for one, other in zip(old.members, now.members, strict=True):
        if not _are_alike(one, other, reads_ready=reads_ready):
            return False
    return (
        old.service.options == now.service.options
        and old.service.assumed == now.service.assumed
        and all(_named(getattr(old, name)) == _named(getattr(now, name)) for name in _FIELDS)
        and {name: _counts_of(group) for name, group in old.groups.items()}
        == {name: _counts_of(group) for name, group in now.groups.items()}
    )


def _are_alike(old: Member, now: Member, *, reads_ready: bool) -> bool:
    """Whether sharing finds the same in both instances."""
    one = old.instance
    other = now.instance
    if one is not other:
        if reads_ready and one.ready != other.ready:
            return False
        if replace(one, ready=0, **NOT_READ) != replace(other, ready=0, **NOT_READ):
            return False
    return all(getattr(old, name) == getattr(now, name) for name in _FIELDS_OF_MEMBER)


def _is_alike(old: ServiceMemory, now: ServiceMemory) -> bool:
    """Whether sharing finds the same in both memories. What was written is compared by the events
    that follow from it."""
    if old is now:
        return True
    if replace(old, written={}, instances={}) != replace(now, written={}, instances={}):
        return False
    if old.instances is now.instances:
        return True
    if old.instances.keys() != now.instances.keys():
        return False
    return all(_is_same(one, now.instances[uid]) for uid, one in old.instances.items())


def _is_same(old: InstanceMemory, now: InstanceMemory) -> bool:
    return old == now or replace(old, **NOT_READ_OF_MEMORY) == replace(now, **NOT_READ_OF_MEMORY)


def _counts_of(group: Group) -> object:
    """All of a group but its members, which are compared, and what follows from them alone."""
    counts = (group.running, group.in_flight, group.live, group.target, group.paired)
    return counts, (group.taken, group.admitted, group.beside), _named((group.held, group.released))


def _named(value: object) -> object:
    """The value, in which instances are named by their uid."""
    if isinstance(value, Member):
        return value.uid
    if isinstance(value, Mapping):
        return {name: _named(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_named(one) for one in value]
    return value
