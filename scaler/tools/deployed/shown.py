"""What `scaler deploy` prints of a rollout and of a standing. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scaler.tools.deployed.objects import diff, document
from scaler.tools.deployed.rollout import Change, Rollout
from scaler.tools.deployed.standing import Ladder, Part, Standing


def planned(rollout: Rollout, *, namespace: str = "") -> Iterator[str]:
    """What a dry run shows. `namespace`: the one that would be created, too."""
    if namespace:
        yield f"Namespace {namespace}: would be created"
        yield "The API server checks no objects in a namespace that is not there: one may still be refused."
    for change in rollout.changes:
        yield f"{change}: {'would be created' if change.before is None else changed(change)}"
        yield from difference(change)
    for found in rollout.pruned:
        yield f"{found}: would be deleted, the file has it no more"
    yield from rollout.notes


def changed(change: Change) -> str:
    return "would be changed" if change.is_needed else "unchanged"


def difference(change: Change) -> Iterator[str]:
    """A new object whole, a changed one as a diff."""
    if change.before is None:
        yield from (f"  {line}" for line in document(change.body).splitlines())
    elif change.after is not None and change.is_needed:
        yield from (f"  {line}" for line in diff(change.before, change.after))


def told(found: Standing) -> Iterator[str]:
    """`scaler deploy status`."""
    yield f"{found.name} in namespace {found.namespace}: {'available' if found.available else 'NOT available'}"
    for ladder in found.ladders:
        yield from _of_ladder(ladder)
    yield from _table([("KIND", "NAME", "READY", "STATE"), *map(_row, found.parts)])
    yield from (f"{part.kind} {part.name}: {part.why}" for part in found.parts if part.why)
    yield from found.notes


def _of_ladder(ladder: Ladder) -> Iterator[str]:
    steps = [f"{step} (runs)" if index == ladder.reached else step for index, step in enumerate(ladder.ratios)]
    yield f"ratios, ElasticService {ladder.name}: {', then '.join(steps) or 'not known yet'}"
    if ladder.why:
        yield f"  {ladder.why}"


def _row(part: Part) -> tuple[str, ...]:
    return part.kind, part.name, "-" if part.wanted is None else f"{part.ready}/{part.wanted}", part.state


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
