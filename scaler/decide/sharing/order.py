"""The order in which services are served: 3b.2 of the contract for minimums, 3b.7a for scale-ups.
Pure: reads drafts only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from scaler.decide import attempts
from scaler.decide.decision import State
from scaler.decide.draft import Draft
from scaler.decide.service.demand import Demand
from scaler.decide.world import Policy


class Turn(IntEnum):
    """2a: whom a minimum or a scale-up passes, and who passes it."""

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


class Place(NamedTuple):
    """The minimum or the scale-ups of a service, in an order."""

    draft: Draft
    turn: Turn
    last_attempt: float = 0.0
    """Of those that wait again, those with the least go first."""
    is_tried: bool = False
    """These are the scale-ups of the service of which an attempt has ended."""


def in_minimum_order(drafts: Iterable[Draft], now: float, policy: Policy) -> list[Draft]:
    """2: the order in which these minimums reserve."""
    in_order = []
    for draft in sorted(drafts, key=lambda draft: minimum_order(draft, now)):
        in_order.append(Place(draft, turn_of(draft, now, policy), draft.memory.ended_at))
    return [place.draft for place in _with_those_who_waited_first(in_order)]


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


def in_scale_up_order(drafts: Iterable[Draft], now: float, policy: Policy) -> list[Place]:
    """7a: the order of the scale-ups of these services, which are in `scale_up_order`. Those of
    which an attempt has ended go behind the others of their priority."""
    places = []
    for draft in drafts:
        waited = attempts.has_waited_long(draft.memory, now, policy)
        places.append(Place(draft, Turn.GOES_FIRST if waited else Turn.NEW))
        failures = [one.failures for one in draft.memory.instances.values() if one.failures]
        if failures:
            turn = Turn.AGAIN if waited else Turn.BEHIND
            places.append(Place(draft, turn, min(failures), is_tried=True))
    places.sort(key=lambda place: (-place.draft.demand.priority, place.is_tried))
    return _with_those_who_waited_first(places)


def _with_those_who_waited_first(in_order: list[Place]) -> list[Place]:
    """2a: each comes right behind the last one that passes it, or stays where it is. Those that
    waited again come behind the others that waited."""
    numbers = range(len(in_order))
    first = [number for number in numbers if in_order[number].turn is Turn.GOES_FIRST]
    again = [number for number in numbers if in_order[number].turn is Turn.AGAIN]
    if not (first or again):
        return in_order
    again.sort(key=lambda number: in_order[number].last_attempt)
    after = list(numbers)
    for number, ranked in zip(first, _by_turns(in_order, first), strict=True):
        after[ranked] = number
    last = max(first, default=-1)
    for number in again:
        last = max(last, number)
        after[number] = last
    last_of_priority: dict[int, int] = {}
    for number in (*first, *again):
        priority = in_order[number].draft.demand.priority
        last_of_priority[priority] = max(after[number], last_of_priority.get(priority, -1))
    for number, place in enumerate(in_order):
        passed_by = -1
        if place.turn is Turn.BEHIND:
            passed_by = last
        elif place.turn is Turn.NEW:
            passed_by = last_of_priority.get(place.draft.demand.priority, -1)
        after[number] = max(after[number], passed_by)

    def sort_key(number: int) -> tuple[int, bool, Turn, float, int]:
        place = in_order[number]
        is_passed = after[number] > number and place.turn is not Turn.GOES_FIRST
        return after[number], is_passed, place.turn, place.last_attempt, number

    return [in_order[number] for number in sorted(numbers, key=sort_key)]


def _by_turns(in_order: list[Place], first: list[int]) -> list[int]:
    """2a: of those that waited and have one priority, those with a reservation go first, then those
    in whose namespace the fewest attempts have ended; of these the oldest and the youngest by
    turns. So a hundred services that nobody binds do not go before another one, one by one."""
    ended = Counter[str]()
    for place in in_order:
        had_attempt = place.is_tried or place.draft.memory.ended_at > 0
        ended[place.draft.demand.service.key.namespace] += had_attempt
    is_turn_of_youngest = ended.total() % 2 == 1

    def sort_key(number: int) -> tuple[int, bool, int, int]:
        draft = in_order[number].draft
        has_ended = ended[draft.demand.service.key.namespace]
        last = -number if is_turn_of_youngest else number
        return -draft.demand.priority, not draft.memory.goes_first, has_ended, last

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
