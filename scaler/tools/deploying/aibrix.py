"""Made soon."""

from __future__ import annotations

from scaler.kube.api import Object
from scaler.tools.deploying.config import File
from scaler.tools.deploying.elastic import Elastic
from scaler.tools.deploying.source import Fault


def faults(file: File, elastic: Elastic | None) -> list[Fault]:
    """What cannot be."""
    return []


def objects(file: File, elastic: Elastic | None) -> tuple[Object, ...]:
    """In the order in which they are applied."""
    return ()
