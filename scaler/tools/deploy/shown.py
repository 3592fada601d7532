"""The output of `scaler deploy` about a rollout and about a state. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from scaler.kube.api import ASCEND_JOBS, Object
from scaler.tools.deploy.objects import diff, document
from scaler.tools.deploy.rollout import Change, Rollout
from scaler.tools.deploy.standing import Ladder, Part, Standing
from scaler.workloads.ascendjob import JOB_LABEL


def planned(rollout: Rollout, *, namespace: str = "") -> Iterator[str]:
    """The output of a dry run. `namespace`: the one that would be created, too."""
    if namespace:
        yield f"Namespace {namespace}: would be created"
        yield (
            "The API server checks no objects in a namespace that is not there: one may still be"
            " refused."
        )
    for change in rollout.changes:
        yield f"{change}: {'would be created' if change.before is None else changed(change)}"
        yield from difference(change)
    for found in rollout.pruned:
        yield f"{found}: would be deleted, the file has it no more"
    yield from rollout.notes
    yield from kept_by_pods(rollout)


def kept_by_pods(rollout: Rollout) -> Iterator[str]:
    """Jobs that change while their pods do not: no controller replaces a pod of an AscendJob for a
    new template."""
    jobs = []
    for change in rollout.changes:
        if change.resource == ASCEND_JOBS and _pods_differ(change):
            jobs.append(change)
    if jobs:
        names = ", ".join(job.name for job in jobs)
        space = jobs[0].body["metadata"]["namespace"]
        yield (
            "pods of these AscendJobs keep what they were made with until they are made anew:"
            f" {names}"
        )
        yield (
            f"  one after the other, as each runs again: kubectl delete pod -n {space} -l"
            f" {JOB_LABEL}={jobs[0].name}"
        )


def _pods_differ(change: Change) -> bool:
    return (
        change.before is not None
        and change.after is not None
        and _specs(change.before) != _specs(change.after)
    )


def _specs(job: Object | None) -> Any:
    return ((job or {}).get("spec") or {}).get("replicaSpecs")


def changed(change: Change) -> str:
    return "would be changed" if change.is_needed else "unchanged"


def difference(change: Change) -> Iterator[str]:
    """A new object as a whole, a changed one as a diff."""
    if change.before is None:
        for line in document(change.body).splitlines():
            yield f"  {line}"
    elif change.after is not None and change.is_needed:
        for line in diff(change.before, change.after):
            yield f"  {line}"


def status_lines(found: Standing) -> Iterator[str]:
    """The output of `scaler deploy status`."""
    yield (
        f"{found.name} in namespace {found.namespace}:"
        f" {'available' if found.available else 'NOT available'}"
    )
    for ladder in found.ladders:
        yield from _of_ladder(ladder)
    yield from _table([("KIND", "NAME", "READY", "STATE"), *map(_row, found.parts)])
    for part in found.parts:
        if part.why:
            yield f"{part.kind} {part.name}: {part.why}"
    yield from found.notes


def _of_ladder(ladder: Ladder) -> Iterator[str]:
    steps = []
    for index, step in enumerate(ladder.ratios):
        steps.append(f"{step} (runs)" if index == ladder.reached else step)
    yield f"ratios, ElasticService {ladder.name}: {', then '.join(steps) or 'not known yet'}"
    if ladder.why:
        yield f"  {ladder.why}"


def _row(part: Part) -> tuple[str, ...]:
    return (
        part.kind,
        part.name,
        "-" if part.wanted is None else f"{part.ready}/{part.wanted}",
        part.state,
    )


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = []
    for column in range(len(rows[0])):
        widths.append(max(len(row[column]) for row in rows))
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
