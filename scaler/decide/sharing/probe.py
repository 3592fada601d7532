"""Probes: 3b.9a of the contract. The fit can be wrong, so a minimum that fits nowhere is released
all the same from time to time, one at a time. Asks only: must not write."""

from __future__ import annotations

from scaler.decide import attempts
from scaler.decide.draft import Draft, requests_of
from scaler.decide.events import FitsNowhere, ProbeBegan, ProbeEnded
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
    missing = [*draft.demand.bound_in_part, *draft.demand.first_candidates()]
    return ProbeBegan(now) if part.placement.sums_suffice(requests_of(missing)) else None
