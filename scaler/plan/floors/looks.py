"""What the arbiter sees in each service, kept while its snapshot and plan are the very same values.

Nearly all services are as they were in the last pass. Saves time only: the answers are the same without it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from scaler.plan.floors.parties import NOT_WAITING, Party, is_arbitrated, is_at_rest, look_at
from scaler.plan.model import Plan, ServiceKey, Snapshot
from scaler.plan.room.capacity import Needs


class Look(msgspec.Struct, frozen=True):
    """One service as far as it depends on nothing but itself."""

    snapshot: Snapshot
    plan: Plan
    takes_part: bool
    asks: tuple[Needs, ...]
    """What its instances need, each once where like follows like."""
    party: Party | None
    """None when nothing is to be decided about it."""


class Looks:
    """Of all services in the last pass."""

    def __init__(self) -> None:
        self._last: dict[ServiceKey, Look] = {}

    def at(self, decided: Sequence[tuple[Snapshot, Plan]]) -> list[Look]:
        """One for each, in the same order."""
        last = self._last
        looks = []
        for snapshot, plan in decided:
            look = last.get(plan.key)
            if look is None or look.plan is not plan or look.snapshot is not snapshot:
                look = _look(snapshot, plan)
            looks.append(look)
        self._last = {look.plan.key: look for look in looks}
        return looks


def _look(snapshot: Snapshot, plan: Plan) -> Look:
    if not is_arbitrated(snapshot):
        return Look(snapshot, plan, False, (), None)
    party = None if is_at_rest(snapshot, plan) else look_at(snapshot, plan, NOT_WAITING)
    return Look(snapshot, plan, True, _asks(snapshot), party)


def _asks(snapshot: Snapshot) -> tuple[Needs, ...]:
    asks: list[Needs] = []
    for instance in snapshot.instances:
        if not asks or instance.needs is not asks[-1]:
            asks.append(instance.needs)
    return tuple(dict.fromkeys(asks))
