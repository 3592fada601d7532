"""What is sure about promises without trying: that moving them is in vain, that nothing or something spoils them.

Each is a shortcut: without it the answer would be the same, only later. Must not move anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from scaler.decide.room.pools import Amounts, Ask, Pool


def reach(pods: Iterable[Ask]) -> set[Pool]:
    """The pools of these pods, those of the pods that are promised seats there, and so on."""
    reached: set[Pool] = set()
    waiting = list(set(pods))
    seen = set(waiting)
    while waiting:
        found = set(waiting.pop().pools).difference(reached)
        reached |= found
        sitting = {ask for pool in found for ask in pool.occupants if ask not in seen}
        seen |= sitting
        waiting.extend(sitting)
    return reached


def may_help(pods: Sequence[Ask], pools: set[Pool]) -> bool:
    """False when moving is sure to be in vain: of some resource too little is left in all that can be reached, or
    there are too few seats for so much of it at once."""
    counts = Counter(pods)
    asking = dict(counts)
    for pool in pools:
        for ask, seats in pool.occupants.items():
            asking[ask] = asking.get(ask, 0) + len(seats)
    return all(
        _slots_suffice(*ask.amounts[0], asking, set(ask.pools))
        and _slots_suffice(*ask.amounts[0], asking, pools)
        and _sum_suffices(ask.amounts[0][0], counts, pools)
        for ask in counts
        if ask.amounts
    )


def _sum_suffices(index: int, counts: Mapping[Ask, int], pools: Iterable[Pool]) -> bool:
    asked = sum(ask.amount_of(index) * count for ask, count in counts.items())
    return asked <= sum(pool.sum(index) for pool in pools)


def _slots_suffice(index: int, amount: int, asking: Mapping[Ask, int], pools: set[Pool]) -> bool:
    """All pods that ask for at least so much and can sit nowhere else find a seat, were they alone."""
    wanted = sum([
        count for ask, count in asking.items() if ask.amount_of(index) >= amount and pools.issuperset(ask.pools)
    ])  # fmt: skip
    return wanted <= sum([pool.slots(index, amount) for pool in pools])


def all_alike(pools: set[Pool]) -> bool:
    """Every promised pod may sit wherever the others may and asks for as much: whichever seat one of them gets, the
    others lose the same. On nodes of one kind it is enough that they ask for as much of what is scarcest."""
    asks = {ask for pool in pools for ask in pool.occupants}
    return len({(ask.pools, ask.amounts[: 1 if len(pools) == 1 else None]) for ask in asks}) <= 1


def room_to_spare(pods: Sequence[Ask]) -> bool:
    """Of every sort of node that they could be bound to, enough are left that nothing was promised on."""
    for ask in set(pods):
        for pool in ask.pools:
            if any(ask.times(free) and pool.count(free) < len(pods) for free in pool.whole):
                return False
    return True


def one_sort_of_seat(pods: Sequence[Ask]) -> bool:
    """They can only be bound to nodes of one sort, each to another node: which of them it is makes no difference."""
    sorts = {(pool, free) for ask in set(pods) for pool in ask.pools for free in pool.whole if ask.times(free)}
    indices = {ask.amounts[0][0] for ask in pods}
    if len(sorts) != 1 or len(indices) != 1:
        return False
    index, (_, free) = indices.pop(), sorts.pop()
    return all(2 * ask.amounts[0][1] > free[index] for ask in pods)


def takes_too_much(pods: Sequence[Ask], pools: set[Pool]) -> bool:
    """The pods can be bound so that for some other promises there are too few seats, whatever their order."""
    counts = Counter(ask for pool in pools for ask, seats in pool.occupants.items() for _ in seats)
    counts.subtract(pods)
    asked = {ask.amounts[0] for ask, count in counts.items() if count > 0}
    return any(
        sum(count for ask, count in counts.items() if ask.amount_of(index) >= amount)
        > sum(pool.slots(index, amount) for pool in pools) - _most_lost(pods, index, amount)
        for index, amount in asked
    )


def _most_lost(pods: Sequence[Ask], index: int, amount: int) -> int:
    """Of so large seats, how many the pods take when each is bound to the node where it takes most."""
    lost, used = 0, Counter[tuple[Pool, Amounts]]()
    for ask in pods:
        own = ask.amount_of(index)
        options = (
            (free[index] // amount - (free[index] - own) // amount, pool.number, free, pool)
            for pool in ask.pools
            for free, count in pool.whole.items()
            if ask.times(free) and count > used[pool, free]
        )
        taken = max(options, key=lambda option: option[:3], default=None)
        if taken is not None:
            lost += taken[0]
            used[taken[3], taken[2]] += 1
    return lost
