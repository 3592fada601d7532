"""What the contract says of one instance of a service whose nodes are not known: for the oracle (oracle.py).

Must not: share code with the decision.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from scaler.decide.memory import InstanceMemory, ServiceMemory
from scaler.decide.world import Instance, Policy, Reason, Service, State, Warning
from scaler.rules.rule import CountsFrom
from tests.decide.contract import Counts, limited


class Seen(NamedTuple):
    """The one service of a world, and what the decision about it depends on."""

    service: Service
    memory: ServiceMemory
    now: float
    policy: Policy

    @property
    def instances(self) -> tuple[Instance, ...]:
        return self.service.instances

    @property
    def full(self) -> list[Counts]:
        """Ratios of the rule; empty where there is none."""
        return [ratio.counts for ratio in self.service.rule.ratios] if self.service.rule else []

    @property
    def ratios(self) -> list[Counts]:
        """As if the larger ones were not there, where fewer instances are wanted."""
        return limited(self.full, self.service.replicas) if self.full else []


def state(one: Instance, seen: Seen) -> State:
    return next(state for state, holds in STATES.items() if holds(one, seen))


def troubled(one: Instance, seen: Seen) -> bool:
    memory = remembered(one, seen)
    restarted = memory.restarts >= 0 and one.restarts > memory.restarts
    lately = memory.restarted_at > 0 and seen.now - memory.restarted_at < seen.policy.stable_after
    return bool(one.crashing or one.faulty or one.ended or one.terminating) or restarted or lately


STATES: dict[State, Callable[[Instance, Seen], bool]] = {
    State.FINISHED: lambda one, _: one.owner_finished,
    State.TERMINATING: lambda one, _: one.owner_deleting or (one.pods == 0 and one.terminating > 0),
    State.HELD: lambda one, _: one.pods == one.gated,
    State.RUNNING: lambda one, s: one.pods == one.running == one.expected and not troubled(one, s),
    State.BROKEN: lambda one, s: one.bound > 0 and (lost_some(one, s) or troubled(one, s) or never_ran(one, s)),
    State.STARTING: lambda one, _: one.pods == one.bound == one.expected,
    State.ADMITTED: lambda *_: True,
}


def lost_some(one: Instance, seen: Seen) -> bool:
    """Others may take their time to make the rest, counted from the newest pod; some wait for the first to be ready."""
    if one.pods >= one.expected:
        return False
    in_time = one.more_to_come or seen.now - one.newest < seen.policy.minimum_timeout
    return one.made_by_us or not in_time


def never_ran(one: Instance, seen: Seen) -> bool:
    """It has been bound for the start timeout, as far as we saw it; or its first pods have, and its owner waits."""
    since = remembered(one, seen).bound_since
    waits = one.more_to_come or one.bound == one.pods == one.expected > one.running
    return waits and since > 0 and seen.now - since >= seen.policy.start_timeout


def remembered(one: Instance, seen: Seen) -> InstanceMemory:
    return seen.memory.instances.get(one.uid, InstanceMemory())


def counts_as_running(one: Instance, seen: Seen) -> bool:
    found = state(one, seen)
    if seen.service.options.counts_from is CountsFrom.BOUND:
        return found in (State.RUNNING, State.STARTING)
    ready = one.ready >= one.expected or seen.service.options.counts_from is not CountsFrom.READY
    return found is State.RUNNING and ready


def is_in_flight(one: Instance, seen: Seen) -> bool:
    found = state(one, seen)
    since = remembered(one, seen).broken_since or seen.now
    in_grace = found is State.BROKEN and seen.now - since < seen.policy.broken_grace
    occupies = in_grace or found in (State.ADMITTED, State.STARTING, State.RUNNING)
    return occupies and not counts_as_running(one, seen)


def is_live(one: Instance, seen: Seen) -> bool:
    """What no pods can be made of is not live."""
    spoilt = bool(one.faults) and state(one, seen) is State.HELD
    return not (one.owner_deleting or one.owner_finished or spoilt)


def has_no_slot(one: Instance, seen: Seen) -> bool:
    return not is_in_flight(one, seen) and not counts_as_running(one, seen)


def is_passing(one: Instance, seen: Seen) -> bool:
    return one.outdated and one.owner != "" and counts_as_running(one, seen)


def is_ready_to_go(one: Instance) -> bool:
    return one.made_by_us or one.gated > 0


def is_partial(one: Instance, seen: Seen) -> bool:
    """It has live pods, and lacks members or what belongs to them (those still terminating are not missing yet). What
    others make can only be released."""
    unmade = one.stripped or one.pods + one.terminating < one.expected
    lacks = one.gated > 0 or one.misplaced or (one.made_by_us and unmade)
    alive = state(one, seen) not in (State.HELD, State.TERMINATING, State.FINISHED)
    return lacks and alive and not one.label_problem and not one.faults


def affordable(one: Instance, seen: Seen) -> bool:
    if one.budget is None:
        return True
    half = max(one.budget.limit / 2, 2)
    reserve = half if seen.policy.restart_reserve == -1 else seen.policy.restart_reserve
    return one.budget.limit - one.budget.used > reserve


def barred(one: Instance, seen: Seen) -> Reason | None:
    """What keeps this instance from being admitted whatever the counts are."""
    problem = seen.service.problem.kind if seen.service.problem else Warning.RULE_MISSING
    memory = remembered(one, seen)
    refused = memory.refused and seen.now < memory.refused_until and one.generation == memory.refused_generation
    causes = {
        one.label_problem: one.label_problem is not None,
        Reason(problem.value): not seen.full and seen.service.key.rule != "",
        Reason.GROUP_UNKNOWN: bool(seen.full) and one.group not in seen.full[0],
        Reason.PAUSED: seen.service.options.paused and bool(seen.full),
        Reason.JOB_INVALID: bool(one.faults),
        Reason.NAME_TAKEN: bool(one.name_taken),
        Reason.CREATE_REFUSED: bool(refused),
    }
    return next((reason for reason, applies in causes.items() if applies), None)


def age(one: Instance) -> tuple[object, ...]:
    """Outdated revisions last; oldest job first, then natural name order: p2 before p10."""
    words = enumerate(re.split(r"(\d+)", one.name))
    name = [(0, int(word), "") if index % 2 else (1, 0, word) for index, word in words]
    return one.outdated, one.created, name
