"""The order in which services are served: 3b.2 of the contract for minimums, 3b.7a for scale-ups.
Pure: reads drafts only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import IntEnum

from scaler.decide import attempts
from scaler.decide.decision import State
from scaler.decide.draft import Draft
from scaler.decide.service.demand import Demand
from scaler.decide.world import Policy


class Turn(IntEnum):
    """2a: whom a minimum passes, and who passes it."""

    GOES_FIRST = 0
    """It waited for `backoff_max`, and either has a reservation since or had no attempt. It passes
    all that had an attempt, and is passed by nobody."""
    AGAIN = 1
    """It waited for `backoff_max` after an attempt of its own. The others that waited go first."""
    NEW = 2
    """Nothing of it is bound, and it had no attempt. Those of its own priority may pass it."""
    BEHIND = 3
    """It had an attempt since it last made progress. Everybody who waited passes it."""
    AS_EVER = 4
    """Nobody passes it: an eviction was made for it, or something of it is bound."""


def in_minimum_order(drafts: Iterable[Draft], now: float, policy: Policy) -> list[Draft]:
    """2: the order in which these minimums reserve."""
    in_order = sorted(drafts, key=lambda draft: minimum_order(draft, now))
    turns = [turn_of(draft, now, policy) for draft in in_order]
    if min(turns, default=Turn.NEW) > Turn.AGAIN:
        return in_order
    return _with_those_who_waited_first(in_order, turns)


def turn_of(draft: Draft, now: float, policy: Policy) -> Turn:
    """2a: whom the minimum passes, and who passes it."""
    memory = draft.memory
    tried = memory.ended_at > 0
    for member in draft.demand.members:
        tried = tried or draft.memory_of(member.uid).had_its_attempt
    if not attempts.in_backoff(memory, now):
        if memory.goes_first:
            return Turn.GOES_FIRST
        if attempts.has_waited_long(memory, now, policy):
            return Turn.AGAIN if tried else Turn.GOES_FIRST
    if memory.has_evicted:
        return Turn.AS_EVER
    if tried:
        return Turn.BEHIND
    return Turn.AS_EVER if draft.demand.bound else Turn.NEW


def _with_those_who_waited_first(in_order: list[Draft], turns: list[Turn]) -> list[Draft]:
    """2a: each minimum comes right behind the last one that passes it, or stays where it is. Those
    that waited again come behind the others that waited, least recently ended first."""
    numbers = range(len(in_order))
    first = [number for number in numbers if turns[number] is Turn.GOES_FIRST]
    again = [number for number in numbers if turns[number] is Turn.AGAIN]
    again.sort(key=lambda number: in_order[number].memory.ended_at)
    places = list(numbers)
    for place, number in zip(first, _by_namespace(in_order, first), strict=True):
        places[number] = place
    last = max(first, default=-1)
    for number in again:
        last = max(last, number)
        places[number] = last
    last_of_priority: dict[int, int] = {}
    for number in (*first, *again):
        priority = in_order[number].demand.priority
        last_of_priority[priority] = max(places[number], last_of_priority.get(priority, -1))
    for number in numbers:
        passed_by = -1
        if turns[number] is Turn.BEHIND:
            passed_by = last
        elif turns[number] is Turn.NEW:
            passed_by = last_of_priority.get(in_order[number].demand.priority, -1)
        places[number] = max(places[number], passed_by)

    def sort_key(number: int) -> tuple[int, bool, Turn, float, int]:
        has_moved = places[number] > number and turns[number] is not Turn.GOES_FIRST
        ended_at = in_order[number].memory.ended_at
        return places[number], has_moved, turns[number], ended_at, number

    return [in_order[number] for number in sorted(numbers, key=sort_key)]


def _by_namespace(in_order: list[Draft], first: list[int]) -> list[int]:
    """2a: of those that waited and have one priority, those with a reservation go first, then those
    in whose namespace the fewest attempts have ended: a hundred services of one namespace that
    nobody binds do not go before one of another namespace, one by one."""
    ended = Counter(
        draft.demand.service.key.namespace for draft in in_order if draft.memory.ended_at
    )

    def sort_key(number: int) -> tuple[int, bool, int, int]:
        draft = in_order[number]
        has_ended = ended[draft.demand.service.key.namespace]
        return -draft.demand.priority, not draft.memory.goes_first, has_ended, number

    return sorted(first, key=sort_key)


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
