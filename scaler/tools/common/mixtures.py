"""The combinations that a rule allows and that none of its ratios names. Counts in, counts out;
nothing is decided here.

A service that serves keeps its bound instances, so between the smallest and the largest ratio every
combination of running instances is possible: after losses, or because a scale-up finds no room."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from scaler.rules.rule import Rule

Counts = dict[str, int]


class Mixtures(msgspec.Struct, frozen=True):
    """The combinations of a rule."""

    number: int
    """Combinations between the smallest and the largest ratio that are no ratio."""
    example: Counts
    """One of them, if possible an unbalanced one: a group at its largest, the others at their
    smallest."""


def mixtures(rule: Rule) -> Mixtures | None:
    """None if the ratios of the rule are all combinations between its smallest and its largest."""
    named = {_key(rule, ratio.counts) for ratio in rule.ratios}
    most = math.prod(rule.largest.of(name) - rule.smallest.of(name) + 1 for name in rule.groups)
    if most <= len(named):
        return None
    example = next(counts for counts in _candidates(rule) if _key(rule, counts) not in named)
    return Mixtures(most - len(named), example)


def _candidates(rule: Rule) -> Iterator[Counts]:
    """If there is any combination, one of these is one: single steps lead from the ratios to every
    combination."""
    smallest = {name: rule.smallest.of(name) for name in rule.groups}
    for name in rule.groups:
        yield {**smallest, name: rule.largest.of(name)}
    for ratio in rule.ratios:
        counts = {name: ratio.of(name) for name in rule.groups}
        for name, number in counts.items():
            if number > smallest[name]:
                yield {**counts, name: number - 1}
            if number < rule.largest.of(name):
                yield {**counts, name: number + 1}


def _key(rule: Rule, counts: Counts) -> tuple[int, ...]:
    return tuple(counts.get(name, 0) for name in rule.groups)


def in_words(found: Mixtures) -> str:
    """One sentence, the same for every command: `2 combinations that ... can run ..., such as 2
    prefill + 1 decode`."""
    number, link = (
        ("1 combination", ":")
        if found.number == 1
        else (f"{found.number:,} combinations", ", such as")
    )
    example = " + ".join(f"{count} {name}" for name, count in found.example.items())
    return (
        f"{number} that no ratio names can run while instances are lost or find no room{link}"
        f" {example}"
    )
