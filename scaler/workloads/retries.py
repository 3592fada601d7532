"""Volcano's count of the retries that each job has left, as its NPU plugin publishes it. Pure, never raises."""

from __future__ import annotations

from typing import Any

import msgspec

NAMESPACE, CONFIG_MAP, KEY = "volcano-system", "vcjob-fault-npu-cm", "remain-retry-times"


class _Entry(msgspec.Struct):
    times: int = msgspec.field(name="Times")


def read_retries(text: str) -> dict[str, int]:
    """`<namespace>/<job>-<uid>` -> retries left; entries of another shape are left out."""
    try:
        entries: dict[str, msgspec.Raw] = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {}
    found: dict[str, Any] = {name: _times(entry) for name, entry in entries.items()}
    return {name: times for name, times in found.items() if times is not None}


def _times(entry: msgspec.Raw) -> int | None:
    try:
        return msgspec.json.decode(entry, type=_Entry).times
    except msgspec.DecodeError:
        return None
