"""The order in which services are served: 3b.2 of the contract for minimums, 3b.7a for scale-ups.
Pure: reads drafts only."""

from __future__ import annotations

from scaler.decide import attempts
from scaler.decide.decision import State
from scaler.decide.draft import Draft
from scaler.decide.service.demand import Demand


def minimum_order(draft: Draft, now: float) -> tuple[bool, int, float, bool, float, str]:
    """Sort key of minimums: what is in backoff last (2d); then by priority (2b); those whose
    attempt has ended behind the others, least recently ended first (2c); those of which something
    is bound or admitted first; then age and name."""
    demand = draft.demand
    is_in_backoff = attempts.in_backoff(draft.memory, now)
    has_begun = demand.bound > 0 or _is_admitted(demand)
    ended_at = draft.memory.ended_at
    return (
        is_in_backoff,
        -demand.priority,
        ended_at,
        not has_begun,
        demand.oldest,
        demand.name,
    )


def scale_up_order(draft: Draft) -> tuple[int, float, str]:
    """Sort key of services that scale up (7a): priority, age, name."""
    return -draft.demand.priority, draft.demand.oldest, draft.demand.name


def _is_admitted(demand: Demand) -> bool:
    """Whether the scheduler has an instance of the service."""
    for member in demand.members:
        if member.state is State.ADMITTED:
            return True
    return False
