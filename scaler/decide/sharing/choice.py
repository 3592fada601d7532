"""Which instances are chosen for a minimum: 3b.1 of the contract. Chooses only: must not reserve,
admit or revoke."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, islice, product
from typing import TypeVar

from msgspec.structs import replace

from scaler.decide import attempts
from scaler.decide.decision import State
from scaler.decide.draft import Draft
from scaler.decide.nodes import PodRequests, Room, joined
from scaler.decide.room.placement import Placement
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.states import Member, is_made
from scaler.decide.sharing.budget import MOST_UNLIKE
from scaler.decide.world import World

Chosen = TypeVar("Chosen")

MOST_SETS = 16
"""1d: the largest number of sets of candidates that are tried on one source of room."""
LARGER_FIRST = "instances of larger blocks are bound first"


def sets_of_candidates(
    draft: Draft, placement: Placement, room: Room, *, frees: bool = False
) -> Iterator[list[Member]]:
    """1d: sets of candidates in their order, each with the instances that are bound in part. Of
    alike candidates one set is tried. Candidates that do not fit by themselves are left out, unless
    victims free room (`frees`)."""
    if draft.demand.room_key is not None and not draft.has_changes:
        yield draft.demand.first_candidates()  # all sets need the same room
        return
    by_group: list[Iterable[Sequence[Member]]] = []
    for name, number in draft.demand.minimum.items():
        candidates = draft.demand.candidates[name] if number else []
        if room < Room.EXPECTED:  # 1e: only while its room is ending
            candidates = [one for one in candidates if one.state is not State.TERMINATING]
        in_order = iter(candidates) if frees else _that_fit(candidates, placement, room)
        by_group.append(_sets_of(draft, in_order, number))
    for chosen in one_of_each(by_group):
        yield [*draft.demand.bound_in_part, *chosen]


def _sets_of(draft: Draft, candidates: Iterator[Member], number: int) -> Iterator[list[Member]]:
    """Sets of so many of the candidates, in their order: the next candidates are asked for only
    when a set before does not do."""
    some = list(islice(candidates, number))
    if len(some) < number:
        return
    yield list(some)
    some += islice(candidates, MOST_SETS - 1)
    if not _are_alike(draft, some):
        yield from map(list, islice(combinations(some, number), 1, MOST_SETS))


def _that_fit(members: Iterable[Member], placement: Placement, room: Room) -> Iterator[Member]:
    """The members that fit by themselves."""
    fitting: dict[PodRequests, bool] = {}
    for member in members:
        pods = member.instance.unbound
        if pods not in fitting:
            fitting[pods] = placement.fits(pods, room) is None
        if fitting[pods]:
            yield member


def _are_alike(draft: Draft, members: Sequence[Member]) -> bool:
    """Whether one set of these candidates is as good as any other."""
    kinds = set()
    for member in members:
        has_tried = draft.memory_of(member.uid).had_its_attempt
        kinds.add((member.instance.unbound, member.state is State.TERMINATING, has_tried))
    return len(kinds) < 2


def one_of_each(by_group: Iterable[Iterable[Sequence[Chosen]]]) -> Iterator[list[Chosen]]:
    """One set of each group, joined, in every combination; at most `MOST_SETS` sets of a group, and
    in all."""
    groups = [iter(sets) for sets in by_group]
    first = [list(islice(sets, 1)) for sets in groups]
    if not all(first):
        return
    yield list(chain(*[sets[0] for sets in first]))
    of_groups = [
        [*one, *islice(sets, MOST_SETS - 1)] for one, sets in zip(first, groups, strict=True)
    ]
    for chosen in islice(product(*of_groups), 1, MOST_SETS):
        yield list(chain(*chosen))


def why_too_large(draft: Draft, empty: Placement) -> Shortage | None:
    """1f: why no set of live instances fits on empty, healthy nodes as the minimum; None when one
    set fits. A resource that no node offers is left out: a minimum that needs one is not
    understood, rather than too large."""
    demand = draft.demand
    if demand.rule is None:
        return None
    by_group: list[Iterable[Sequence[Member]]] = []
    for name, number in demand.rule.smallest.counts.items():
        live = [member for member in demand.groups[name].members if member.is_live]
        alike = all(_all_pods(member) == _all_pods(live[0]) for member in live[1:])
        by_group.append([live[:number]] if alike else combinations(live, number))
    why = None
    for chosen in one_of_each(by_group):
        pods = joined(*map(_all_pods, chosen))
        if any(request.rounded for request, _ in pods) or len(pods) > MOST_UNLIKE:
            return None  # 10c: it may fit as it is, and the price of an answer has no bound
        shortage = empty.fits(empty.nodes.understood(pods))
        if shortage is None:
            return None
        why = why or replace(shortage, in_all=True)
    return why


def _all_pods(member: Member) -> PodRequests:
    """The requests of all its pods; as they are counted where none of them has a node."""
    instance = member.instance
    is_whole = sum(n for _, n in instance.unbound) == sum(n for _, n in instance.requests)
    return instance.unbound if is_whole else instance.requests


def replaced_by(draft: Draft, chosen: Sequence[Member]) -> list[Member]:
    """Instances with the scheduler that are not chosen, where a held instance of their group is: it
    takes their place."""
    uids = {member.uid for member in chosen}
    groups = {member.instance.group for member in chosen if member.state is State.HELD}
    waiting = draft.demand.with_the_scheduler
    replaced = []
    for member in waiting:
        if member.uid not in uids and member.instance.group in groups:
            replaced.append(member)
    return replaced


def held_beside(draft: Draft, chosen: Sequence[Member]) -> list[Member]:
    """5e, spares: held candidates in the groups of the chosen instances, the chosen ones left
    out."""
    beside: list[Member] = []
    for name in {member.instance.group or "" for member in chosen}:
        for member in draft.demand.candidates.get(name, ()):
            if member.state is State.HELD and not member.pauses and member not in chosen:
                beside.append(member)
    return beside


def startable(draft: Draft, group: str, world: World) -> Sequence[Member]:
    """7a, 7c: held candidates of the group that could start now, those with the fewest ended
    attempts first."""
    held = draft.demand.scale_up_candidates.get(group)
    if held is None:  # the service does not serve, or the group gets no place
        held = [m for m in draft.demand.candidates.get(group, ()) if m.state is State.HELD]
    if not held:
        return held
    had_attempts = draft.demand.has_attempts or draft.has_changes
    last_is_made = is_made(held[-1])  # of scale-ups those whose pods exist come first
    if last_is_made and not had_attempts:
        return held
    can_start = []
    for member in held:
        waits = attempts.in_backoff(draft.memory_of(member.uid), world.now)
        if is_made(member) and not waits and member.uid not in draft.admitted:
            can_start.append(member)
    return sorted(can_start, key=lambda member: draft.memory_of(member.uid).failures)


def after_larger_blocks(members: Sequence[Member]) -> list[Member]:
    """6b: those of the instances of one minimum, held ones, that an unbound one of a larger block
    goes before. The scheduler spreads small blocks over the super-pods: then no large one finds a
    place, be it of this service or of one that comes a moment later."""
    largest = 0
    for member in members:
        if member.instance.unbound:
            largest = max(largest, nodes_of_block(member))
    smaller = []
    for member in members:
        if member.state is State.HELD and nodes_of_block(member) < largest:
            smaller.append(member)
    return smaller


def takes_blocks(draft: Draft) -> bool:
    """Whether an instance of the service takes blocks of a super-pod."""
    return any(nodes_of_block(member) for member in draft.demand.members)


def nodes_of_block(member: Member) -> int:
    """The nodes of each block that the instance takes; 0 where it takes no blocks."""
    return max([request.block for request, _ in member.instance.requests], default=0)
