"""Probes: 3b.9a of the contract. The fit can be wrong, so a minimum that fits nowhere is released
all the same from time to time, one at a time. Asks only: must not write."""

from __future__ import annotations

from scaler.decide import attempts
from scaler.decide.draft import Draft, requests_of
from scaler.decide.events import FitsNowhere, ProbeBegan, ProbeEnded
from scaler.decide.nodes import PodRequests, joined
from scaler.decide.sharing.part import Part

WORDS = "it seems not to fit; the scheduler is asked all the same"


def next_event(part: Part, draft: Draft) -> FitsNowhere | ProbeBegan | ProbeEnded | None:
    """What begins or ends for a minimum that fits nowhere; None while it waits or is probed."""
    memory = draft.memory
    now = part.now
    if attempts.is_probing(memory, now, part.policy):
        return None
    if memory.probe_began:
        return ProbeEnded(now)
    if not memory.fits_nowhere_since:
        return FitsNowhere(now)
    waits = now - memory.fits_nowhere_since < attempts.probe_after(memory, part.policy)
    if waits or part.is_probed:
        return None
    return ProbeBegan(now) if part.placement.sums_suffice(_missing(draft)) else None


def awaits_first(part: Part, draft: Draft) -> bool:
    """7b: whether a minimum needs a resource that no node offers, and no probe of it has ended."""
    missing = _missing(draft)
    return not draft.memory.probes and part.understood(missing) != missing


def first_that_needs(part: Part, draft: Draft, pods: PodRequests) -> Draft | None:
    """7b: of the minimums that wait for their first probe, one that would fit, what is not
    understood left out, and not beside these pods of a scale-up of `draft`. They have no
    reservation, and scale-ups would take singly what they need together. None for a scale-up that
    has waited for `backoff_max`."""
    if draft in part.waited_long:
        return None
    for other in part.not_understood:
        missing = part.understood(_missing(other))
        if part.has_room_for(missing) and not part.has_room_for(joined(missing, pods)):
            return other
    return None


def _missing(draft: Draft) -> PodRequests:
    return requests_of([*draft.demand.bound_in_part, *draft.demand.first_candidates()])
