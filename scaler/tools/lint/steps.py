"""The steps of a ladder that are too high for clients that set the number of instances. Counts in,
findings out.

A number between two ratios means the larger one, so an autoscaler gets far more instances at such a
step than it set."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from scaler.decide.explain import counts_in_words
from scaler.rules.finding import Finding
from scaler.rules.rule import Ratio, Rule
from scaler.rules.shape import LIST

TOO_HIGH = 3
"""From this multiple of the instances of the next smaller ratio on, a step is too high."""


def step_faults(rule: Rule) -> Iterator[Finding]:
    """A warning for each ratio that has `TOO_HIGH` times as many instances as the next smaller one,
    or more."""
    for index, (large, small) in enumerate(itertools.pairwise(rule.ratios)):
        most, least = (sum(ratio.counts.values()) for ratio in (large, small))
        if most >= TOO_HIGH * least:
            message = (
                f"a high step: {most} instances here, {least} in the next ratio; "
                f"whoever scales the service to {least + 1} gets {most}"
            )
            hint = (
                "write ratios between the two, such as"
                f" {counts_in_words(_between(rule, large, small))}"
            )
            yield Finding("HighStep", (LIST, index), message, hint, "warning")


def _between(rule: Rule, large: Ratio, small: Ratio) -> dict[str, int]:
    """Half way in every group, and more than the smaller ratio."""
    found = {name: (large.of(name) + small.of(name)) // 2 for name in rule.groups}
    if all(found[name] == small.of(name) for name in rule.groups):
        grown = next(name for name in rule.groups if large.of(name) > small.of(name))
        found[grown] += 1
    result: dict[str, int] = {}
    for name, number in found.items():
        if number:
            result[name] = number
    return result
