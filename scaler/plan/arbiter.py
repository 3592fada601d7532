"""The second pure function: all services' plans together, before anything is acted on.

Each service decides alone today, so this returns the plans as they are. It is the one place where services may be
weighed against each other (section 3b of the contract): it may hold or reclaim, never admit.
"""

from __future__ import annotations

from collections.abc import Sequence

from scaler.plan.model import Plan


def arbitrate(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """The plans to act on, in the same order."""
    return tuple(plans)
