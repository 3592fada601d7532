"""Volcano's count of the retries that each job has left, as its NPU plugin publishes it. Pure, never raises."""

from __future__ import annotations

import msgspec

from scaler.rules.values import at

NAMESPACE, CONFIG_MAP, KEY = "volcano-system", "vcjob-fault-npu-cm", "remain-retry-times"


def read_retries(text: str) -> dict[str, int]:
    """`<namespace>/<job>-<uid>` -> retries left; entries of another shape are left out."""
    try:
        entries = at(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}
    found = {name: at(entry).get("Times") for name, entry in entries.items()}
    return {name: times for name, times in found.items() if isinstance(times, int) and not isinstance(times, bool)}
