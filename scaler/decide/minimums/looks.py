"""What the arbiter sees in each service, kept while its snapshot and plan are the very same values.

Nearly all services are as they were in the last pass. Saves time only: the answers are the same without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from scaler.decide.minimums.neighbours import Asks
from scaler.decide.minimums.parties import NOT_WAITING, Party, is_arbitrated, is_at_rest, look_at
from scaler.decide.minimums.rulings import Ruling, applied
from scaler.decide.nodes import PodRequests
from scaler.decide.world import Plan, ServiceKey, Snapshot


class Look(msgspec.Struct, frozen=True):
    """One service as far as it depends on nothing but itself."""

    snapshot: Snapshot
    plan: Plan
    takes_part: bool
    asks: Asks
    party: Party | None
    """None when nothing is to be decided about it."""


class _Ruled(msgspec.Struct, frozen=True):
    plan: Plan
    ruling: Ruling
    left: Plan


class Looks:
    """Of all services in the last pass."""

    def __init__(self) -> None:
        self._last: dict[ServiceKey, Look] = {}
        self._ruled: dict[ServiceKey, _Ruled] = {}

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

    def left(self, decided: Sequence[tuple[Snapshot, Plan]], rulings: Mapping[ServiceKey, Ruling]) -> tuple[Plan, ...]:
        """The plans that are left, in the same order: the very same values where plan and ruling are as they were."""
        last, ruled = self._ruled, {}
        for snapshot, plan in decided if rulings else ():
            ruling = rulings.get(plan.key)
            if ruling is not None:
                known = last.get(plan.key)
                if known is None or known.plan is not plan or known.ruling != ruling:
                    known = _Ruled(plan, ruling, applied(snapshot, plan, ruling))
                ruled[plan.key] = known
        self._ruled = ruled
        return tuple([ruled[plan.key].left if plan.key in ruled else plan for _, plan in decided])


def _look(snapshot: Snapshot, plan: Plan) -> Look:
    if not is_arbitrated(snapshot):
        return Look(snapshot, plan, False, Asks(()), None)
    party = None if is_at_rest(snapshot, plan) else look_at(snapshot, plan, NOT_WAITING)
    return Look(snapshot, plan, True, _asks(snapshot), party)


def _asks(snapshot: Snapshot) -> Asks:
    asks: list[PodRequests] = []
    for instance in snapshot.instances:
        if not asks or instance.needs is not asks[-1]:
            asks.append(instance.needs)
    return _shared(Asks(tuple(dict.fromkeys(asks))))


@lru_cache(maxsize=1 << 14)
def _shared(asks: Asks) -> Asks:
    """Equal ones are one object: they are compared and counted in every arbitration."""
    return asks
