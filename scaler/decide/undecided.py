"""A service at which deciding fails, for a fault of ours, costs nobody else anything: it is named, left as it is and
tried again when it changes or after a pause; all others are decided about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from scaler.decide.demand import Demand
from scaler.decide.world import Note, Plan, Policy, Service, ServiceKey, ServiceMemory, Warning

PAUSE = 300.0
"""Seconds until it is tried again although nothing of it changed."""
MOST_AT_FAULT = 4
"""Services that are looked for in one part at a time; then the whole part waits."""
_LONGEST = 500


class Fault(msgspec.Struct, frozen=True):
    """Why deciding about a service failed, and until when it is not tried again."""

    words: str = ""
    until: float = 0.0


def fault_of(error: Exception, now: float) -> Fault:
    """With the innermost place in our code."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"
        trace = trace.tb_next
    return Fault(f"{type(error).__name__}: {error}"[:_LONGEST] + f" (at {place})", now + PAUSE)


def nothing_of(service: Service, seen: ServiceMemory, fault: Fault, policy: Policy) -> Demand:
    """It asks for nothing, and what was remembered of it stays."""
    demand = Demand(Service(service.key, ()), ServiceMemory(), fault.until - PAUSE, policy)
    demand.service, demand.seen, demand.memory, demand.until = service, seen, seen, fault.until
    return demand


def left_alone(key: ServiceKey, fault: Fault) -> Plan:
    """The plan that does and says nothing else."""
    words = f"deciding about this service failed, it is left as it is: {fault.words}"
    return Plan(key, -1, {}, False, {}, (), notes=(Note(Warning.NOT_DECIDED, words),))


def fault_in(plan: Plan) -> str:
    """Why nothing was decided about the service; "" when something was."""
    return next((note.message for note in plan.notes if note.warning is Warning.NOT_DECIDED), "")


def at_fault(positions: Sequence[int], attempt: Callable[[Sequence[int]], object]) -> int:
    """The first of these without which all before it can be decided about, given that all together cannot."""
    good, bad = 0, len(positions)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            attempt(positions[:middle])
        except Exception:
            bad = middle
        else:
            good = middle
    return positions[good]
