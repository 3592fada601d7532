"""What makes a service elastic: its rule, and the labels and the gate of what counts as an instance."""

from __future__ import annotations

from typing import Any, NamedTuple

from scaler.tools.deploying.config import File
from scaler.tools.deploying.source import Source


class Elastic(NamedTuple):
    """The rule of a service."""

    rule: str
    """Name of its ConfigMap."""


def elastic_of(file: File, platform: str, source: Source) -> Elastic | None:
    """None where the file has no `ratios:`."""
    return None
