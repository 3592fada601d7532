"""The answer of a what-if as text for people: a line for each service, and a sentence for each
reason.

Must not decide anything; tools.common.whatif does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from scaler.decide.explain import counts_in_words
from scaler.rules.rule import ALL
from scaler.tools.common.whatif import Answer, ServiceOutcome, Share


def in_words(answer: Answer) -> str:
    """The text of the answer; neighbours with the same result share a line."""
    number = len(answer.services)
    closed = f" ({answer.closed:,} cordoned or not Ready)" if answer.closed else ""
    what = f"{_count(answer.nodes, 'node')}{closed}, {_count(number, 'service')}"
    largest = (
        "the largest ratio"
        if answer.replicas == ALL
        else f"the ratio for {_count(answer.replicas, 'instance')}"
    )
    lines = [f"{what}: {answer.serving} of {number} serve, {answer.complete} of them at {largest}"]
    if answer.guessed:
        lines.append(
            f"pods of {_count(answer.guessed, 'service')} say more than is understood here; it"
            " counts as fitting"
        )
    for block, alike in itertools.groupby(answer.services, key=_block):
        lines += ["", f"{_names(list(alike))}: {block[0]}", *block[1:]]
    return "\n".join(lines) + "\n"


def _block(one: ServiceOutcome) -> tuple[str, ...]:
    standing = f"runs {counts_in_words(one.counts)}" if one.serves else "does not serve"
    lines = [standing]
    for group, share in one.groups.items():
        lines.extend(_group(group, share))
    return tuple(lines)


def _group(group: str, share: Share) -> Iterator[str]:
    yield f"  {group}: {share.admitted} admitted, {share.held} held"
    for sentence in share.words:
        yield f"    {sentence}"


def _names(services: Sequence[ServiceOutcome]) -> str:
    first = services[0].service
    last = services[-1].service
    return first if len(services) == 1 else f"{first} to {last} ({len(services)} services)"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
