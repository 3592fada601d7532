"""Values of settings that more than the settings name.

`scaler.settings` builds a model of all of them, which takes a command 0.2 s: what only needs one
of these values takes it from here."""

from __future__ import annotations

from enum import StrEnum

MOST_KEPT = 2_000
"""Last valid rules of one namespace, and as many ElasticServices and counts of evictions."""


class Mode(StrEnum):
    """Which controller creates the pods: the scaler (create), another (gates), or the one that the
    cluster has (auto). A shadow decides as if it did, and does nothing."""

    CREATE = "create"
    GATES = "gates"
    AUTO = "auto"
    SHADOW = "shadow"
