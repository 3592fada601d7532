"""What is recorded of a service's last decision: its snapshot, and beside it what came of it together with all others.

A recorded snapshot is enough to plan the service again, alone. The arbitration depends on all services at once, so its
outcome is kept instead. Readers that know snapshots only read this as well. Must not decide anything.
"""

from __future__ import annotations

from scaler.decide.world import Plan, Snapshot


class Recorded(Snapshot, frozen=True):
    """A snapshot with one member more."""

    together: Plan | None = None
    """The plan that was acted on; None where the service decided alone, or an older version recorded it."""


def recorded(snapshot: Snapshot, together: Plan | None) -> Recorded:
    """The snapshot with what came of it."""
    fields = {name: getattr(snapshot, name) for name in Snapshot.__struct_fields__}
    return Recorded(**fields, together=together)
