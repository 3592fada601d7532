"""Instances that run and are not Ready, where `counts-from` is `ready`: section 2 of the contract.

Such an instance takes a place as long as it exists, although nobody is served by it. After
`start_timeout` it gives its place to a spare, where that can help: another instance of the service
is Ready, so what they share is well, and the spare has not had its attempt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from scaler.decide.decision import State
from scaler.decide.nodes import PodRequest, PodRequests
from scaler.decide.service import states
from scaler.decide.service.groups import Group
from scaler.decide.service.states import Member
from scaler.decide.world import Instance, Policy


def give_their_place(groups: Mapping[str, Group], now: float, policy: Policy) -> frozenset[str]:
    """Uids of the instances that are Broken from now on, each for a spare of its own."""
    found: set[str] = set()
    is_another_ready = any(group.running for group in groups.values())
    for group in groups.values():
        late = [member for member in group.members if _is_late(member, now, policy)]
        if late and is_another_ready:
            found.update(_with_a_spare(group, late, now))
    return frozenset(found)


def _is_late(member: Member, now: float, policy: Policy) -> bool:
    """Whether the instance runs, and was last Ready so long ago, or never since it was bound."""
    since = member.memory.bound_since
    is_unready = member.state is State.RUNNING and not member.running
    return is_unready and since > 0 and now - since >= policy.start_timeout


def _with_a_spare(group: Group, late: Iterable[Member], now: float) -> Iterator[str]:
    """Those of the instances for which there is a spare, the first that was not Ready first."""
    spares = _spares(group, now)
    for member in sorted(late, key=lambda one: (one.memory.bound_since, states.age(one))):
        for spare in spares:
            if fits_in_place_of(spare.instance, member.instance):
                spares.remove(spare)
                yield member.uid
                break


def _spares(group: Group, now: float) -> list[Member]:
    """Held instances that have not had their attempt and could start, without those for which there
    is a place, or will be one when what is broken has lost its own."""
    ready_to_start = []
    for member in states.in_order(group.held):
        may_start = states.is_made(member) and states.why_not_admissible(member, now) is None
        if may_start and not (member.memory.had_its_attempt or member.memory.gives_way):
            ready_to_start.append(member)
    places = max(0, group.target - group.running - group.in_flight)
    for member in group.members:
        places += member.memory.gave_place and member.in_flight
    return ready_to_start[places:]


def fits_in_place_of(spare: Instance, instance: Instance) -> bool:
    """Whether each pod of the spare, the largest first, fits where a pod of the other instance is.
    What is not known counts as fitting."""
    if spare.requests == instance.requests or not (spare.requests and instance.requests):
        return True
    pods = _pods(spare.requests)
    places = _pods(instance.requests)
    if len(pods) > len(places):
        return False
    return all(_takes(place, pod) for place, pod in zip(places, pods, strict=False))


def _takes(place: PodRequest, pod: PodRequest) -> bool:
    amounts = dict(place.requests)
    for name, amount in pod.requests:
        if amounts.get(name, 0) < amount:
            return False
    return pod.where == place.where


def _pods(requests: PodRequests) -> list[PodRequest]:
    """Each pod, the largest first."""
    pods: list[PodRequest] = []
    for request, number in sorted(requests, reverse=True):
        pods += [request] * number
    return pods
