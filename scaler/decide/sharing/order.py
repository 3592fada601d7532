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


class Rank(IntEnum):
    """2a: whom a minimum or a scale-up passes, and who passes it."""

    WAITED = 0
    """It waited for `backoff_max`, and either has a reservation since or had no attempt. It passes
    all that had an attempt, and those of its own priority of which nothing is bound."""
    WAITED_AGAIN = 1
    """It waited for `backoff_max` after an attempt of its own. It passes the same ones, behind the
    others that waited."""
    UNTRIED = 2
    """Nothing of it is bound, and it had no attempt. Those of its own priority may pass it."""
    TRIED = 3
    """It had an attempt since it last made progress. Everybody who waited passes it."""
    FIRM = 4
    """Nobody passes it: an eviction was made for it, or something of it is bound."""


class Place(NamedTuple):
    """The minimum or the scale-ups of a service, in an order."""

    draft: Draft
    rank: Rank
    last_attempt: float = 0.0
    """Of those that wait again, those with the least go first."""
    is_tried: bool = False
    """These are the scale-ups of the service of which an attempt has ended."""

    @property
    def priority(self) -> int:
        return self.draft.demand.priority

    @property
    def namespace(self) -> str:
        return self.draft.demand.service.key.namespace


def in_minimum_order(drafts: Iterable[Draft], now: float, policy: Policy) -> list[Draft]:
    """2: the order in which these minimums reserve."""
    in_order = []
    for draft in sorted(drafts, key=lambda draft: minimum_order(draft, now)):
        in_order.append(Place(draft, rank_of(draft, now, policy), draft.memory.ended_at))
    return [place.draft for place in _with_those_who_waited_first(in_order)]


def rank_of(draft: Draft, now: float, policy: Policy) -> Rank:
    """2a: whom the minimum passes, and who passes it."""
    memory = draft.memory
    tried = has_been_tried(draft)
    if not attempts.in_backoff(memory, now):
        if memory.goes_first:
            return Rank.WAITED
        if attempts.has_waited_long(memory, now, policy):
            return Rank.WAITED_AGAIN if tried else Rank.WAITED
    if memory.has_evicted:
        return Rank.FIRM
    if tried:
        return Rank.TRIED
    return Rank.FIRM if draft.demand.bound else Rank.UNTRIED


def has_been_tried(draft: Draft) -> bool:
    """2a: whether the minimum had an attempt, ended or swapped, since it last made progress."""
    if draft.memory.ended_at > 0:
        return True
    return any(draft.memory_of(member.uid).had_its_attempt for member in draft.demand.members)


def in_scale_up_order(drafts: Iterable[Draft], now: float, policy: Policy) -> list[Place]:
    """7a: the order of the scale-ups of these services, which are in `scale_up_order`. Those of
    which an attempt has ended go behind the others of their priority."""
    places = []
    for draft in drafts:
        waited = attempts.has_waited_long(draft.memory, now, policy)
        places.append(Place(draft, Rank.WAITED if waited else Rank.UNTRIED))
        failures = [one.failures for one in draft.memory.instances.values() if one.failures]
        if failures:
            rank = Rank.WAITED_AGAIN if waited else Rank.TRIED
            places.append(Place(draft, rank, min(failures), is_tried=True))
    places.sort(key=lambda place: (-place.priority, place.is_tried))
    return _with_those_who_waited_first(places)


def _with_those_who_waited_first(in_order: list[Place]) -> list[Place]:
    """2a: this order, in which those that waited come before whom they pass; first those that
    waited for the first time, then those that waited again.

    For example d waited, and may pass b and c, but not a, of which something is bound:

        a, b, c, d, e  ->  a, d, b, c, e"""
    waited = [place for place in in_order if place.rank is Rank.WAITED]
    again = [place for place in in_order if place.rank is Rank.WAITED_AGAIN]
    again.sort(key=lambda place: place.last_attempt)
    in_order = _passing(in_order, _oldest_and_youngest_alternate(in_order, waited))
    return _passing(in_order, again)


def _passing(in_order: list[Place], waited: list[Place]) -> list[Place]:
    """This order, in which each of one rank that waited comes before whom it passes. `waited`: all
    of that rank; they take each other's places, so that they come in the order given here."""
    if not waited:
        return in_order
    left = iter(waited)
    places = [next(left) if place.rank is waited[0].rank else place for place in in_order]
    behind = _last_that_passes(places, waited[0].rank)

    def sort_key(number: int) -> tuple[int, bool, int]:
        is_passed = behind[number] != number
        return behind[number], is_passed, number

    return [places[number] for number in sorted(range(len(places)), key=sort_key)]


def _last_that_passes(places: list[Place], waited: Rank) -> list[int]:
    """For each place the number of the last one of the rank `waited` that passes it: right behind
    that one it comes. Its own number where none does."""
    last = -1
    last_of_priority: dict[int, int] = {}
    for number, place in enumerate(places):
        if place.rank is waited:
            last = number
            last_of_priority[place.priority] = number
    behind = []
    for number, place in enumerate(places):
        passed_by = number
        if place.rank is Rank.UNTRIED:
            passed_by = last_of_priority.get(place.priority, number)
        elif place.rank in (Rank.TRIED, Rank.WAITED_AGAIN) and place.rank is not waited:
            passed_by = last
        behind.append(max(number, passed_by))
    return behind


def attempts_ended_in(drafts: Iterable[Draft]) -> Counter[str]:
    """Namespace -> the number of its services whose minimum had an attempt that ended since it last
    made progress."""
    ended = Counter[str]()
    for draft in drafts:
        ended[draft.demand.service.key.namespace] += draft.memory.ended_at > 0
    return ended


def _oldest_and_youngest_alternate(in_order: list[Place], waited: list[Place]) -> list[Place]:
    """2a: of those that waited and have one priority, those with a reservation go first, then those
    in whose namespace the fewest attempts have ended; of these the oldest, and after the next
    attempt the youngest. So a hundred services that nobody binds do not go before another one, one
    by one."""
    if not waited:
        return waited
    ended = attempts_ended_in([place.draft for place in in_order])
    for place in in_order:
        ended[place.namespace] += place.is_tried
    is_youngest_first = ended.total() % 2 == 1

    def sort_key(number: int) -> tuple[int, bool, int, int]:
        place = waited[number]
        has_ended = ended[place.namespace]
        last = -number if is_youngest_first else number
        return -place.priority, not place.draft.memory.goes_first, has_ended, last

    return [waited[number] for number in sorted(range(len(waited)), key=sort_key)]


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
