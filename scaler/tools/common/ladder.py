"""Decisions on bare counts as text for people: one answer in words, or the whole ladder as a table.

Must not decide anything; tools.common.counts does."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from scaler.decide.explain import counts_in_words
from scaler.rules.rule import Rule
from scaler.rules.short import in_short
from scaler.tools.common.counts import Case, CountsDecision, GroupDecision, aimed_at, decide
from scaler.tools.common.mixtures import in_words as mixtures_in_words
from scaler.tools.common.mixtures import mixtures

MOST_ROWS = 200


def in_words(rule: Rule, decision: CountsDecision) -> str:
    """Target, counts and a sentence per group."""
    rows: list[Sequence[str]] = [
        ("group", "target", "running", "in flight", "held", "admit", "revoke")
    ]
    for name, group in decision.groups.items():
        rows.append((name, *map(str, _numbers(group))))
    lines = [_target_line(rule, decision), "", *_aligned(rows), ""]
    awaited = _awaited(decision) or _next_in_words(rule, decision)
    for name, group in decision.groups.items():
        lines.append(f"{name}: {_sentence(group, awaited)}")
    return "\n".join(lines) + "\n"


def _numbers(group: GroupDecision) -> tuple[int, ...]:
    return group.target, group.running, group.in_flight, group.held, group.admit, group.revoke


def _target_line(rule: Rule, decision: CountsDecision) -> str:
    if decision.target.index < 0:
        return "target: none: the service rests"
    ratio = counts_in_words(decision.target.counts)
    line = decision.target.index + 1
    steps = f"line {line} of {len(rule.ratios)} of the rule, the largest first"
    standing = (
        "complete: every group runs what it asks for"
        if decision.complete
        else f"waits for {_awaited(decision)}"
    )
    return f"target: {ratio}; {steps}\n        {standing}"


def _awaited(decision: CountsDecision) -> str:
    names = []
    for name, group in decision.groups.items():
        if group.running < group.target:
            names.append(f"{name} ({group.running} of {group.target} running)")
    return " and ".join(names)


def _next_in_words(rule: Rule, decision: CountsDecision) -> str:
    """The jobs that the next larger ratio lacks, where the target is complete."""
    if decision.target.index < 1:
        return "more jobs"
    larger = rule.ratios[decision.target.index - 1]
    lacking = []
    for name, group in decision.groups.items():
        missing = larger.of(name) - group.running - group.in_flight - group.held
        if missing > 0:
            lacking.append(f"{missing} more {'job' if missing == 1 else 'jobs'} of {name}")
    return " and ".join(lacking) or "more jobs"


def _sentence(group: GroupDecision, awaited: str) -> str:
    parts = [f"admit {group.admit}"] if group.admit else []
    if group.revoke:
        parts.append(f"take {group.revoke} unbound back, {awaited} comes first")
    if group.drain:
        parts.append(f"drain {group.drain} of those that run, they are more than is wanted")
    for reason, number in group.reasons.items():
        parts.append(f"hold {number} ({reason}): {reason.row.of_counts.format(awaited=awaited)}")
    if group.in_flight > group.revoke:
        parts.append(f"wait for {group.in_flight - group.revoke} in flight")
    return "; ".join(parts) or "nothing to do"


def table(rule: Rule) -> str:
    """A row for each state of running instances on the ladder, from none to all, and what this
    state admits.

    As many jobs exist as the largest ratio has instances; none is in flight. Cut after MOST_ROWS
    rows."""
    names = rule.groups
    found = mixtures(rule)
    most = [rule.largest.of(name) for name in names]
    states = math.prod(number + 1 for number in most)
    rows = [_row(rule, running) for running in itertools.islice(_states(most), MOST_ROWS)]
    runs = [f"{name} runs" for name in names]
    admits = [f"admit {name}" for name in names]
    head = [*runs, "target", *admits, "held back until"]
    lines = ["ratios, the largest first:"]
    for ratio in rule.ratios:
        lines.append(f"  {_short(rule, ratio.counts)}  {counts_in_words(ratio.counts)}")
    lines += ["", "spec.replicas of its ElasticService, and the ratio aimed at:"]
    for line in _numbers_mean(rule):
        lines.append(f"  {line}")
    lines += [
        "",
        f"with {counts_in_words(rule.largest.counts)} applied and none in flight:",
        "",
        *_aligned([head, *rows]),
    ]
    if found is not None:
        lines += ["", mixtures_in_words(found)]
    if states > MOST_ROWS:
        cut = f"cut: {MOST_ROWS} of {states:,} states are shown"
        lines += ["", f"{cut}; ask for one with --running and --held"]
    return "\n".join(lines) + "\n"


def _numbers_mean(rule: Rule) -> list[str]:
    """Which numbers of wanted instances mean which ratio, from 0 up; equal ratios share a row."""
    totals = sorted({ratio.total for ratio in rule.ratios})
    rows = [("0", "none: the service rests")]
    for before, total in zip([0, *totals], totals, strict=False):
        index = aimed_at(rule, total)
        numbers = str(total)
        if total == totals[-1]:
            numbers = f"{before + 1} and more"
        elif total > before + 1:
            numbers = f"{before + 1} to {total}"
        least = " (the minimum)" if total == totals[0] else ""
        rows.append((numbers, f"{counts_in_words(rule.ratios[index].counts)}{least}"))
    return _aligned(rows)


def _states(most: Sequence[int]) -> Iterable[tuple[int, ...]]:
    return itertools.product(*(range(number + 1) for number in most))


def _row(rule: Rule, running: Sequence[int]) -> list[str]:
    counts = dict(zip(rule.groups, running, strict=True))
    held = {name: rule.largest.of(name) - number for name, number in counts.items()}
    decision = decide(rule, Case(counts, {}, held))
    target = "complete" if decision.complete else _short(rule, decision.target.counts)
    admits = []
    waits = []
    for name, group in decision.groups.items():
        admits.append(str(group.admit) if group.admit else ".")
        if group.held > group.admit:
            waits.append(name)
    return [*map(str, running), target, *admits, _waits(waits, decision)]


def _short(rule: Rule, counts: Mapping[str, int]) -> str:
    return in_short({name: counts.get(name, 0) for name in rule.groups})


def _waits(waiting: list[str], decision: CountsDecision) -> str:
    """`group0 until group1 runs 1`."""
    if not waiting:
        return ""
    found = []
    for name, group in decision.groups.items():
        if group.running < group.target:
            found.append(f"{name} runs {group.target}")
    awaited = " and ".join(found)
    return f"{' and '.join(waiting)} until {awaited}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = []
    for column in zip(*rows, strict=True):
        widths.append(max(len(cell) for cell in column))
    found: list[str] = []
    for row in rows:
        padded = map(str.ljust, row, widths)
        found.append("  ".join(padded).rstrip())
    return found
