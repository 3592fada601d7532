"""The ConfigMap `rings-config-<job>` of a rank table: what stands in the way of a write, and what a write says. Pure.

It belongs to the user: it is never created here, and only its keys `hccl.json` and `version` are ever written.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from scaler.decide.world import Warning
from scaler.informers.config_maps import RankTableMap, digest_of
from scaler.kube.api import Object
from scaler.names import RANK_TABLE_KEY, RANK_TABLE_PREFIX, RANK_TABLE_VERSION_KEY
from scaler.ranktables.table import RankTable
from scaler.workloads.kind import Job, number_in

MAX_BYTES = 1_000_000
"""Of all values together; the API server takes 1 MiB."""


class Obstacle(msgspec.Struct, frozen=True):
    """Why the table is not, or cannot be, what people expect: a named reason and words with a way out."""

    warning: Warning
    message: str


def obstacle(table_map: RankTableMap | None, job: Job, mounted: bool, table: RankTable) -> Obstacle | None:
    """The one thing to say about the rank table of `job`, None when all is well or nobody asked for a table. `mounted`:
    its pods mount it."""
    name = RANK_TABLE_PREFIX + job.name
    if table_map is None:
        if not mounted:
            return None
        words = f"ConfigMap {name}, which its pods mount, does not exist; create it, it is filled at once"
        return Obstacle(Warning.RANK_TABLE_MISSING, words)
    blocked = blocked_by(table_map, job.uid, table)
    if blocked is None and table.problem:
        return Obstacle(Warning.DEVICE_DATA_INVALID, f"no rank table can be made: {table.problem}")
    return blocked


def blocked_by(table_map: RankTableMap, job_uid: str, table: RankTable) -> Obstacle | None:
    """Why the ConfigMap cannot be written, None when it can."""

    def because(warning: Warning, words: str) -> Obstacle:
        return Obstacle(warning, f"ConfigMap {table_map.name} {words}")

    if table_map.controller_uid and table_map.controller_uid != job_uid:
        return because(Warning.RANK_TABLE_NOT_OURS, f"belongs to {table_map.controller}; it is left alone")
    if table_map.immutable:
        return because(Warning.RANK_TABLE_IMMUTABLE, "is immutable; delete it and create it without `immutable`")
    if table_map.binary:
        words = f"has {RANK_TABLE_KEY} in binaryData; it has to be text in data"
        return because(Warning.RANK_TABLE_WRONG_SHAPE, words)
    size = len(table.text) + table_map.other_bytes
    if size > MAX_BYTES:
        words = f"would have {size} bytes, more than {MAX_BYTES}; take other keys out of it"
        return because(Warning.RANK_TABLE_TOO_LARGE, words)
    return None


def says(table_map: RankTableMap, table: RankTable) -> bool:
    """Whether the ConfigMap says this already, in whatever formatting its author chose."""
    return table_map.said == digest_of(table.text)


def content_of(text: str | None) -> Any:
    """The document in `hccl.json`; None for what is not JSON."""
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError):
        return None


def merge_patch(table_map: RankTableMap, table: RankTable, now: float) -> Object:
    """What to send: refused with a conflict when the ConfigMap is not the one that was looked at."""
    return {
        "metadata": {"uid": table_map.uid, "resourceVersion": table_map.resource_version},
        "data": {RANK_TABLE_KEY: table.text, RANK_TABLE_VERSION_KEY: next_version(table_map.version, now)},
    }


def next_version(previous: str, now: float) -> str:
    """Seconds since the epoch, but always more than before: also after a restart, and when a clock goes back."""
    return str(max(number_in(previous, largest=10**18) + 1, int(now)))
