"""Whether a scheduler that knows of no reservations can spoil one: section 3b.6 and 3b.7 of the contract.

Counts places, and what takes them at the least and at the most; says that something may be spoilt when it is unsure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter

from scaler.decide.asks import Ask, Slack, least_taken
from scaler.decide.nodes import PodRequest, Room
from scaler.decide.pools import times
from scaler.decide.seating import Seating

_rank = attrgetter("rank")


def spoils(seating: Seating, mine: Mapping[Ask, int], in_hands: Iterable[tuple[PodRequest, int]], *, own: bool) -> bool:
    """Whether pods that are wherever a scheduler likes may take a place of a reservation within reach of `mine`; that
    of these themselves counts if `own`. `in_hands`: all pods that a scheduler may put somewhere, `mine` as well."""
    involved = seating.reach(mine)
    if len(involved) > 1:
        hands, before = seating.counted(in_hands), dict[Ask, int]()
        for ask in sorted(involved, key=_rank):
            later = {hand: count for hand, count in hands.items() if hand not in before and hand is not ask}
            if not _is_safe(seating, ask, before, later, less=0 if own else mine.get(ask, 0)):
                return True
            before[ask] = sum(ask.seated)
    return False


def _is_safe(seating: Seating, ask: Ask, before: Mapping[Ask, int], hands: Mapping[Ask, int], *, less: int) -> bool:
    """Whether these pods find their places, wherever those in hands sit on what is free, beside those that are
    placed before them. No more than `less` of them: nobody counts on their places."""
    everybody = {**before, **hands}
    for room in [room for room in Room if ask.seated[room]]:
        wanted = sum(ask.seated[: room + 1])
        spare = seating.places(ask, room) - wanted
        if wanted <= less or ask.lost(everybody) <= spare:
            continue
        within = _within_reach(seating, ask, room, hands)
        slack = _slack(seating, ask, room)
        if ask.lost(before) + min(within, ask.lost(hands)) > spare and ask.lost(everybody, slack) > spare:
            return False
    return True


def _within_reach(seating: Seating, ask: Ask, room: Room, hands: Iterable[Ask]) -> int:
    """Places for such pods on nodes on which one of those in hands finds room that is free now."""
    closed = (
        times(ask.asked, state.whole[room])
        for index, state in seating.states.items()
        if state.whole[room] is not state.whole[Room.FREE] and seating.pools.pool_of[index] in ask.pools
        and not any(times(hand.asked, state.whole[Room.FREE]) for hand in hands)
    )  # fmt: skip
    return seating.places(ask, room) - sum(closed)


def _slack(seating: Seating, ask: Ask, room: Room) -> Slack:
    if room not in ask.slack:
        states, pool_of = seating.states, seating.pools.pool_of
        wholes = [free for free, at in seating.pools.fitting(ask.pools, ask.asked).entries if at not in states]
        wholes += [state.whole[room] for at, state in states.items() if pool_of[at] in ask.pools]
        counted = [(whole, number) for whole in wholes if (number := times(ask.asked, whole))]
        ask.slack[room] = Slack(max([number for _, number in counted], default=0), {
            index: min([least_taken(whole[index], amount, number) for whole, number in counted], default=0.0)
            for index, amount in ask.asked
        })  # fmt: skip
    return ask.slack[room]
