"""The release of reserved minimums: 3b.6 of the contract. Asks only: must not admit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from scaler.decide.decision import State
from scaler.decide.draft import Draft, Why, not_made
from scaler.decide.service.states import Member, age, is_made
from scaler.decide.sharing.choice import LARGER_FIRST, after_larger_blocks, replaced_by
from scaler.decide.sharing.part import Part, ReservedMinimum
from scaler.reasons.reasons import Reason

BEING_REVOKED = "pods of revoked instances are not gone yet"
UNMADE = "pods of another instance of the minimum do not exist yet"
AFTER_ANOTHER = "its owner makes its pods when instances of another role are ready"
REFUSED_FIRST = "another instance, whose creation was refused, is tried first"
NARROWER_FIRST = "instances that may use fewer of the nodes are bound first"


class Releasable(msgspec.Struct, frozen=True, eq=False):
    """Held instances of one minimum: those that may be admitted now, and why the others wait."""

    members: list[Member]
    waits: dict[str, Why]


def releasable(part: Part, draft: Draft, minimum: ReservedMinimum) -> Releasable:
    """6a: the minimum is released whole, when its pods fit beside all that is with the scheduler or
    is being revoked and its owners have made them; after a refused creation the refused one alone.
    6b: of several sizes of blocks the largest first. Whether a reservation is invalidated is asked
    later."""
    held = [one for one in minimum.members if one.state is State.HELD and not one.follows]
    waits = _waits_for_another_role(minimum)
    if not held:
        return Releasable([], waits)
    words = ""
    if minimum.has_unmade:
        words = UNMADE
    elif replaced_by(draft, minimum.members) or part.is_crowded(draft):
        words = BEING_REVOKED
    if words:
        for member in held:
            if is_made(member):
                waits[member.uid] = Why(Reason.WAITING_FOR_ROOM, (words,))
            else:
                waits[member.uid] = not_made(member)
        return Releasable([], waits)
    refused = [member for member in held if draft.memory_of(member.uid).refused]
    if refused:
        first = refused[:1]
        words = REFUSED_FIRST
    else:
        smaller = after_larger_blocks(minimum.members)
        first = [member for member in held if member not in smaller]
        words = LARGER_FIRST
    for member in held:
        if member not in first:
            waits[member.uid] = Why(Reason.WAITING_FOR_ROOM, (words,))
    return Releasable(first, waits)


def _waits_for_another_role(minimum: ReservedMinimum) -> dict[str, Why]:
    """2: the instances that their owner makes later: no other instance waits for them."""
    why = Why(Reason.WAITING_FOR_SCHEDULER, (AFTER_ANOTHER,))
    return {member.uid: why for member in minimum.members if member.follows}


def most_restricted_first(
    part: Part, chosen: Iterable[tuple[Draft, Sequence[Member]]]
) -> list[tuple[Draft, Member]]:
    """6b: the order of release: first what fewest nodes have room for, of one minimum the
    oldest."""
    held = []
    for draft, members in chosen:
        held += [(draft, member) for member in sorted(members, key=age)]
    return sorted(held, key=lambda each: part.placement.breadth(each[1].instance.unbound))


def waits_for_narrower(part: Part, draft: Draft) -> bool:
    """6b: whether an instance that may invalidate a reservation waits: something that shares nodes
    is with the scheduler, or a more restricted minimum waits for its owner. When nothing is, the
    most restricted goes anyway."""
    for other in part.reserved_with_scheduler.drafts:
        if draft.shares_nodes_with(other):
            return True
    for other, minimum in part.on_free_room:
        is_narrower = minimum.has_unmade and other.classes < draft.classes
        if is_narrower and draft.shares_nodes_with(other):
            return True
    return False


def clock_runs(draft: Draft, minimum: ReservedMinimum) -> bool:
    """5a: whether the clock of the reservation runs: something of it is with the scheduler, bound
    in part, or not yet made, by its owner or by us, pauses included. Not while it only waits for
    its release."""
    if minimum.has_unmade:
        return True
    for member in minimum.members:
        has_begun = member.state is not State.HELD and not member.awaits_owner
        if member.uid in draft.admitted or (has_begun and member.instance.unbound):
            return True
    return False
