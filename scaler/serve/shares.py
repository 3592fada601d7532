"""A bounded number of something, shared out by address so that none can take what another needs.

When all of it is taken, the address that holds most gives way, its oldest holder first, to one that would hold no more;
who holds most is refused itself. So a flood from one address costs that address, however many connections it opens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

H = TypeVar("H")


class Shares(Generic[H]):
    """`most` units: of connections, bytes or anything else. `evict` is called with who has lost all of theirs."""

    def __init__(self, most: int, evict: Callable[[H], None]) -> None:
        self._free = most
        self._evict = evict
        self._held: dict[str, dict[H, int]] = {}
        self._sums: dict[str, int] = {}

    def take(self, address: str, holder: H, units: int) -> bool:
        """Give `holder`, who belongs to `address`, so many units more; False when it is refused."""
        wanted = self._sums.get(address, 0) + units
        while units > self._free:
            richest = max(self._sums, key=self._sums.__getitem__, default=address)
            if richest == address or self._sums[richest] < wanted:
                return False
            loser = next(iter(self._held[richest]))
            self.give_back(richest, loser)
            self._evict(loser)
        held = self._held.setdefault(address, {})
        held[holder] = held.get(holder, 0) + units
        self._sums[address] = wanted
        self._free -= units
        return True

    def give_back(self, address: str, holder: H) -> None:
        """All that `holder` has; nothing when it has nothing."""
        held = self._held.get(address, {})
        units = held.pop(holder, 0)
        self._free += units
        if held:
            self._sums[address] -= units
        else:
            self._held.pop(address, None)
            self._sums.pop(address, None)
