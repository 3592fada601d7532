"""What a service lost: instances that ran and do not run now, each with the time, the node and the
cause. Events and the condition Degraded speak of the same losses. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from scaler.decide.decision import State
from scaler.kube.api import Object
from scaler.reasons.reasons import Reason
from scaler.timestamps import minute_of

MOST = 20
"""Losses that a status has room for, the newest."""
LONGEST_CAUSE = 500
"""Characters of the cause."""
GONE = "it is deleted, or its labels name another service now"
NAMED = 3
"""Lost instances that one message names."""


def losses(
    before: Object, instances: Sequence[Object], causes: Mapping[str, str], now: str
) -> list[Object]:
    """The losses of a status, the oldest first: those of the status before that are not made good,
    and those since. `instances`: all of the next status; `causes`: uid of an instance -> what is
    wrong with its pods."""
    runs = {found["name"] for found in instances if found["state"] == State.RUNNING}
    unwanted = {found["name"] for found in instances if _is_not_wanted(found)}
    kept: dict[str, Object] = {}
    for loss in before.get("lost") or ():
        if loss["name"] not in runs | unwanted:
            kept[loss["name"]] = loss
    for was, found in lost_between(before, instances):
        if was["name"] in runs:  # another object of the same name took its place
            continue
        cause = causes.get(was["uid"]) or as_cause(found)
        loss = {"name": was["name"], "at": now, "cause": cause[:LONGEST_CAUSE]}
        kept[was["name"]] = loss | ({"nodes": was["nodes"]} if was.get("nodes") else {})
    return list(kept.values())[-MOST:]


def lost_between(
    before: Object, instances: Iterable[Object]
) -> Iterator[tuple[Object, Object | None]]:
    """Instances that ran in the status before and do not run now: what they were, and what they are
    now, None where they are gone. What `spec.replicas` leaves out is not lost."""
    now = {found["uid"]: found for found in instances}
    for was in before.get("instances") or ():
        found = now.get(was["uid"])
        ran = was["state"] == State.RUNNING
        runs = found is not None and found["state"] == State.RUNNING
        if ran and not runs and not (found is not None and _is_not_wanted(found)):
            yield was, found


def as_cause(found: Object | None) -> str:
    """Why an instance does not run, from what the status says of it now; None: it is gone."""
    if found is None:
        return GONE
    return f"{found['reason']}, {found['message']}".rstrip(".")


def _is_not_wanted(found: Object) -> bool:
    return bool(found["reason"] == Reason.SCALED_DOWN)


def in_words(lost: Sequence[Object]) -> str:
    """`lost p0 on npu-1 at 2026-01-01 20:13 UTC: pod p0-0 is on node npu-1, which is ...`, the
    newest first."""
    parts = []
    for loss in reversed(lost[-NAMED:]):
        on = f" on {', '.join(loss['nodes'])}" if loss.get("nodes") else ""
        parts.append(f"{loss['name']}{on} at {minute_of(loss['at'])}: {loss['cause']}")
    more = f"; and {len(lost) - NAMED} more" if len(lost) > NAMED else ""
    return f"lost {'; '.join(parts)}{more}"
