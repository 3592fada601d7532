"""The rule as frozen integers, for the decision. Made by rules.document from a valid document
only."""

from __future__ import annotations

from bisect import bisect_left
from enum import StrEnum

import msgspec

ALL = 1_000_000
"""The default of `spec.replicas`: all instances of the rule's largest ratio."""


class Ratio(msgspec.Struct, frozen=True, gc=False):
    """One entry of `elastic_scaling_list`: how many instances of each group, and pods per
    instance."""

    counts: dict[str, int]
    sizes: dict[str, int]

    def of(self, group: str) -> int:
        """Instances of `group`; 0 for a group that this ratio does not name."""
        return self.counts.get(group, 0)

    @property
    def total(self) -> int:
        """Instances of all groups."""
        return sum(self.counts.values())


class Rule(msgspec.Struct, frozen=True, gc=False):
    """`ratios[0]` is the largest, the last is the smallest; ratios of only zeros are removed. Never
    empty."""

    ratios: tuple[Ratio, ...]

    @property
    def largest(self) -> Ratio:
        return self.ratios[0]

    @property
    def smallest(self) -> Ratio:
        return self.ratios[-1]

    @property
    def groups(self) -> tuple[str, ...]:
        """Every group of any ratio. The largest ratio has them all: each next ratio may have fewer
        groups, not more."""
        return tuple(self.ratios[0].counts)

    def limited(self, replicas: int) -> Rule:
        """The rule without the ratios that are larger than the smallest one with so many instances
        in all; the smallest ratio always stays. 0 instances: one ratio of only zeros. The first
        ratio names the groups of the full rule."""
        too_few = bisect_left(self.ratios, True, key=lambda ratio: ratio.total < replicas)
        if replicas and too_few <= 1:
            return self
        kept = self.ratios[too_few - 1 :] if replicas else (Ratio({}, {}),)
        counts = {group: kept[0].of(group) for group in self.groups}
        return Rule((Ratio(counts, self.largest.sizes), *kept[1:]))


class CountsFrom(StrEnum):
    """The state from which on an instance counts as running (annotation
    `mind-cluster/counts-from`)."""

    BOUND = "bound"
    RUNNING = "running"
    READY = "ready"


class Trade(StrEnum):
    """When a running surplus instance may be evicted for a missing one (annotation
    `mind-cluster/trade`)."""

    WHEN_NOT_SERVING = "when-not-serving"
    ALWAYS = "always"
    OFF = "off"


class RuleOptions(msgspec.Struct, frozen=True, gc=False):
    """The values of the `mind-cluster/` annotations of the rule; the default for absent or unusable
    ones."""

    paused: bool = False
    counts_from: CountsFrom = CountsFrom.RUNNING
    trade: Trade = Trade.WHEN_NOT_SERVING
    arbitration: bool = True
    service_priority: int | None = None
    preemptable: bool = True
    scale_down_delay: float = 0.0
    """Seconds without a higher number before a lower one counts (annotation
    `mind-cluster/scale-down-delay`)."""
