"""The known history of one service: counts over time, and events. Bounded; values only.

Filled from the status of the ElasticService on each change. What happened before the first look is
derived from the times in the status. Must not send requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scaler.rules.values import as_count, as_list, as_text, at
from scaler.timestamps import seconds_of

MOST_SAMPLES = 300
MOST_MOMENTS = 200


class Sample(msgspec.Struct, frozen=True):
    """Counts from `at` on (seconds since the epoch): group -> running, target, in flight, held."""

    at: float
    groups: dict[str, tuple[int, int, int, int]]


class Moment(msgspec.Struct, frozen=True):
    """One event. `kind`: event, condition, ratio or instance; `level`: good, bad, warning or
    plain."""

    at: float
    kind: str
    level: str
    subject: str
    reason: str
    text: str
    count: int = 1
    source: str = ""


class History:
    """The history of one service, in the order of its notes."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=MOST_SAMPLES)
        self.moments: deque[Moment] = deque(maxlen=MOST_MOMENTS)
        self._known: dict[str, Any] = {}

    def note(self, status: Mapping[str, Any], now: float) -> None:
        """Note the status from now on."""
        first = not self._known
        before = self._known
        self._known = dict(status)
        self._sample(status, (seconds_of(as_text(status.get("since"))) or now) if first else now)
        self.moments += sorted(
            [
                *_conditions(before, status),
                *_ratios(before, status, now),
                *_instances(before, status),
            ],
            key=lambda moment: moment.at,
        )

    def _sample(self, status: Mapping[str, Any], moment: float) -> None:
        groups = {}
        for group in as_list(status.get("groups")):
            groups[as_text(at(group).get("name"))] = _counts(at(group))
        if not self.samples or self.samples[-1].groups != groups:
            self.samples.append(Sample(moment, groups))


def _counts(group: Mapping[str, Any]) -> tuple[int, int, int, int]:
    running, target, in_flight, held = (
        as_count(group.get(name)) for name in ("running", "target", "inFlight", "held")
    )
    return running, target, in_flight, held


_LEVELS = {"Broken": "bad", "Running": "good"}
"""State of an instance -> level of its moment; plain for every other state."""
_GOOD = {"Available": "True", "Complete": "True", "Degraded": "False", "RuleValid": "True"}


def _conditions(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[Moment]:
    known = {}
    for item in as_list(before.get("conditions")):
        known[as_text(at(item).get("type"))] = at(item).get("status")
    for one in map(at, as_list(after.get("conditions"))):
        kind = as_text(one.get("type"))
        status = as_text(one.get("status"))
        if (
            known.get(kind) != status
            and kind in _GOOD
            and (before or status != _GOOD[kind] or kind == "Available")
        ):
            level = "good"
            if status != _GOOD[kind]:
                level = "warning" if kind == "Complete" else "bad"
            since = seconds_of(as_text(one.get("lastTransitionTime")))
            yield Moment(since, "condition", level, kind, status, as_text(one.get("message")))


def _ratios(before: Mapping[str, Any], after: Mapping[str, Any], now: float) -> Iterable[Moment]:
    if before and before.get("running") != after.get("running"):
        words = f"{as_text(before.get('running'))} → {as_text(after.get('running'))}"
        yield Moment(now, "ratio", "plain", "running", "", words)
    if before and before.get("target") != after.get("target"):
        words = f"{as_text(before.get('target'))} → {as_text(after.get('target'))}"
        yield Moment(now, "ratio", "plain", "target", "", words)


def _instances(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[Moment]:
    known = {}
    for item in _all(before):
        known[at(item).get("uid")] = (at(item).get("state"), at(item).get("reason"))
    for one in map(at, _all(after)):
        state = as_text(one.get("state"))
        reason = as_text(one.get("reason"))
        if known.pop(one.get("uid"), None) != (state, reason):
            level = _LEVELS.get(state, "plain")
            since = seconds_of(as_text(one.get("since")))
            yield Moment(
                since,
                "instance",
                level,
                as_text(one.get("name")),
                reason,
                as_text(one.get("message")),
            )


def _all(status: Mapping[str, Any]) -> list[Any]:
    return as_list(status.get("instances"))
