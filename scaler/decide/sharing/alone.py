"""A service that shares nodes with nobody: 3b.8 of the contract. It is admitted whether it fits or
not, and its pods wait. Not to be confused with a service that decides alone (`limits.py`): that one
is not weighed at all. Reserves room for what fits; must not admit."""

from __future__ import annotations

from collections.abc import Iterable

from scaler.decide.decision import State
from scaler.decide.draft import Draft
from scaler.decide.room.placement import Reservation
from scaler.decide.service.states import Member
from scaler.decide.sharing.part import Part


def chosen_for_minimum(part: Part, draft: Draft) -> list[Member]:
    """The instances of a minimum that has no room: candidates that fit first, then the others."""
    chosen: list[Member] = []
    for member in draft.demand.bound_in_part:
        if _reserve_if_it_fits(part, member):
            chosen.append(member)
    for name, number in draft.demand.minimum.items():
        candidates = draft.demand.candidates[name]
        fitting = _first_that_fit(part, candidates, number)
        others = [member for member in candidates if member not in fitting]
        chosen += (fitting + others)[:number]
    return chosen


def _first_that_fit(part: Part, candidates: Iterable[Member], number: int) -> list[Member]:
    fitting: list[Member] = []
    for member in candidates:
        if len(fitting) == number:
            break
        if member.state is not State.TERMINATING and _reserve_if_it_fits(part, member):
            fitting.append(member)
    return fitting


def _reserve_if_it_fits(part: Part, member: Member) -> bool:
    """Reserve room for the instance, if there is room. Says whether it has room now."""
    return isinstance(part.placement.reserve(member.instance.unbound), Reservation)


def any_fits(part: Part, members: Iterable[Member]) -> bool:
    """Whether one of these instances fits. An instance that does not is admitted only if none
    does."""
    return any(part.has_room_for(part.understood(member.instance.unbound)) for member in members)
