"""Ascend Operator's gate for elastic scaling, and when it looks again at a job that was refused. Values only.

Written from the description of its behaviour and apart from scaler.rules and scaler.decide, so that it can contradict
them. Must not be better than the original: its weaknesses are what the scaler is compared with.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from typing import Any

BASE_DELAY, LONGEST_DELAY = 0.005, 20.0
RATE, BURST = 10.0, 100
"""Retries per second of all jobs together, after so many at once."""

Counts = Mapping[str, int]
_INTEGER = re.compile(r"[+-]?[0-9]+")


class OperatorCrashError(Exception):
    """The original dereferences nil here: its process ends, and ends again at the next start."""


def may_create(document: str, running: Counts, group: str) -> bool:
    """Whether the missing pods of one replica type may be created now.

    Raises OperatorCrashError when the ratio that is to be reached does not name the job's group.
    """
    ratios = read_ratios(document)
    for ratio in reversed(ratios):
        if any(running.get(name, 0) < number for name, number in ratio.items()):
            if group not in ratio:
                raise OperatorCrashError(f"group {group!r} is not in the ratio that is to be reached")
            return ratio[group] > running.get(group, 0)
    return False


def read_ratios(document: str) -> list[dict[str, int]]:
    """Instances per group and ratio, as listed; empty for everything that the original refuses to read."""
    try:
        entries = [_entry(entry) for entry in json.loads(document)["elastic_scaling_list"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
    for larger, smaller in itertools.pairwise(entries):
        for name, (number, servers) in smaller.items():
            if name not in larger or number > larger[name][0] or servers > larger[name][1]:
                return []
    return [{name: number for name, (number, _) in entry.items()} for entry in entries]


def _entry(entry: Any) -> dict[str, tuple[int, int]]:
    """The last duplicate of a group wins."""
    return {
        group["group_name"]: (_number(group["group_num"]), _number(group["server_num_per_group"]))
        for group in entry["group_list"]
    }


def _number(text: Any) -> int:
    if not isinstance(text, str) or not _INTEGER.fullmatch(text):
        raise ValueError(text)
    return int(text)


class Retries:
    """Delays before a job that was refused is looked at again: its own, doubling, and one share of a common rate."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._next_share = float("-inf")

    def delay(self, job: str, now: float) -> float:
        """Seconds to wait from `now`; every call counts as one more refusal."""
        times = self._times.get(job, 0)
        self._times[job] = times + 1
        own = min(LONGEST_DELAY, BASE_DELAY * 2.0 ** min(times, 20))
        share = max(self._next_share, now - (BURST - 1) / RATE)
        self._next_share = share + 1 / RATE
        return max(own, share - now)

    def forget(self, job: str) -> None:
        """It was reconciled without an error."""
        self._times.pop(job, None)
