"""What must hold of every arbitration, whatever the services and nodes: section 6 of the contract beyond single plans.

The simulation and the tests ask after each pass, as they ask plan.invariants of each plan. Must not decide anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scaler.decide.arbiter import Arbitration
from scaler.decide.minimums.blockades import Blockades
from scaler.decide.minimums.parties import NOT_WAITING, Party, is_arbitrated, look_at, order_of
from scaler.decide.minimums.patience import is_muted
from scaler.decide.nodes import Capacity
from scaler.decide.world import Admit, ArbiterMemory, Evict, Plan, Revoke, Snapshot

Decided = Sequence[tuple[Snapshot, Plan]]


def arbitration_violations(decided: Decided, outcome: Arbitration, capacity: Capacity) -> tuple[str, ...]:
    """Every broken promise of an arbitration of these plans, each with its name in front; empty when all hold."""
    found: list[str] = []
    for (snapshot, alone), left in zip(decided, outcome.plans, strict=True):
        found += _only_takes_away(snapshot, alone, left)
    return (*found, *_climbs_yield(decided, outcome, capacity))


def _only_takes_away(snapshot: Snapshot, alone: Plan, left: Plan) -> Iterator[str]:
    """3b: it may turn admissions into holds and take back what is unbound; S3 with the one exception of a trade."""
    bound = {instance.uid for instance in snapshot.instances if instance.bound}
    for action in left.actions:
        if action in alone.actions:
            continue
        if not isinstance(action, Revoke | Evict):
            yield f"3b: the arbiter adds {type(action).__name__} of {action.uid}"
        elif snapshot.options.paused or not is_arbitrated(snapshot):
            yield f"3b: the arbiter touches {action.uid} of {snapshot.key}, which takes no part"
        elif isinstance(action, Revoke) and action.uid in bound:
            yield f"S3: {action.uid} is taken back though pods of it are bound"


def _climbs_yield(decided: Decided, outcome: Arbitration, capacity: Capacity) -> Iterator[str]:
    """S9: no climb is admitted while a waiting minimum blocks it."""
    taking_part = [pair for pair in decided if is_arbitrated(pair[0])]
    parties = sorted((_party(*pair, outcome.memory) for pair in taking_part), key=order_of)
    blockades = Blockades([party for party in parties if party.minimum and not is_muted(party.memory)], capacity)
    acted_on = {plan.key: plan.actions for plan in outcome.plans}
    for party in parties:
        for climb in party.climbs:
            blocking = blockades.of(climb) if Admit(climb.uid) in acted_on[party.key] else None
            if blocking is not None and blocking[1] != (party.name,):
                yield f"S9: {climb.uid} of {party.key} is admitted though the minimum of {blocking[1][0]} waits for room"


def _party(snapshot: Snapshot, plan: Plan, memory: ArbiterMemory) -> Party:
    return look_at(snapshot, plan, memory.minimums.get(str(plan.key), NOT_WAITING))
