"""The evictions that were counted for a service as a ConfigMap of ours, and back: 3b.4e of the
contract. So a new leader does not evict once more for what is never bound. Pure.

Each service for which somebody was evicted has one in the install's own namespace, where no tenant
writes, until it has served for `stable_after`."""

from __future__ import annotations

import math

from scaler.decide.memory import Evictions
from scaler.decide.world import ServiceKey
from scaler.kube.api import Object
from scaler.names import (
    KEPT_EVICTIONS,
    KEPT_EVICTIONS_AT,
    KEPT_EVICTIONS_REPEATED,
    KEPT_FOR_JOB_ID,
    KEPT_FORMAT,
    LONGEST_NAME,
    object_name,
)
from scaler.state.last_valid import ConfigMapName, config_map, is_ours, rule_of

SUFFIX = "-scaler-evictions"
KNOWN_FORMAT = "1"
"""Of what is kept. Raised when the release before would misread what is written."""


def place_of(key: ServiceKey, home: str) -> ConfigMapName:
    """The ConfigMap of a service; `home` is the install's own namespace. The name always has a
    hash: names of rules and jobIDs may have dots, so that no separator is sure."""
    return ConfigMapName(home, object_name(str(key), LONGEST_NAME - len(SUFFIX)) + SUFFIX)


def encode(place: ConfigMapName, key: ServiceKey, counted: Evictions) -> Object:
    """The ConfigMap at `place`; the same value gives the same object."""
    content = {
        "data": {
            KEPT_EVICTIONS: str(counted.number),
            KEPT_EVICTIONS_AT: repr(counted.at),
            KEPT_EVICTIONS_REPEATED: str(counted.repeated),
            KEPT_FORMAT: KNOWN_FORMAT,
        }
    }
    body = config_map(place, ConfigMapName(key.namespace, key.rule), content)
    body["metadata"]["annotations"][KEPT_FOR_JOB_ID] = key.job_id
    return body


def decode(existing: Object, key: ServiceKey) -> Evictions | None:
    """The value that `encode` stored for this service; None for anything else, also for that of a
    later release. Never raises."""
    data = existing.get("data") or {}
    if service_of(existing) != key or data.get(KEPT_FORMAT) != KNOWN_FORMAT:
        return None
    try:
        counted = Evictions(
            int(data[KEPT_EVICTIONS]),
            float(data[KEPT_EVICTIONS_AT]),
            int(data.get(KEPT_EVICTIONS_REPEATED, 0)),  # v0.1.0 kept none
        )
    except (KeyError, TypeError, ValueError):
        return None
    is_possible = counted.number > 0 and counted.repeated >= 0 and math.isfinite(counted.at)
    return counted if is_possible else None


def service_of(existing: Object) -> ServiceKey | None:
    """The service that a ConfigMap of ours keeps the evictions of; None for any other object."""
    annotations = (existing.get("metadata") or {}).get("annotations") or {}
    if not is_ours(existing) or KEPT_FOR_JOB_ID not in annotations:
        return None
    return ServiceKey(*rule_of(existing), str(annotations[KEPT_FOR_JOB_ID]))
