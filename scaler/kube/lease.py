"""The spec of a Lease, and the notes in its annotations: pure values."""

from __future__ import annotations

from collections.abc import Mapping

from scaler.kube.api import Object


def spec_of(lease: Object | None) -> Object:
    """The spec of the Lease; empty for a missing Lease."""
    return (lease or {}).get("spec") or {}


def uid_of(lease: Object | None) -> str:
    return str((lease or {}).get("metadata", {}).get("uid", ""))


def notes_of(lease: Object | None) -> dict[str, str]:
    """The annotations of the Lease."""
    return (lease or {}).get("metadata", {}).get("annotations") or {}


def with_notes(lease: Object, notes: Mapping[str, str | None]) -> Object:
    """A copy with these annotations; None removes one."""
    kept = {key: value for key, value in {**notes_of(lease), **notes}.items() if value is not None}
    return {**lease, "metadata": {**lease["metadata"], "annotations": kept}}
