"""What a Lease says, and what is noted in its annotations: pure values."""

from __future__ import annotations

from collections.abc import Mapping

from scaler.kube.api import LEASES, Object


def spec_of(lease: Object | None) -> Object:
    """Its spec; empty for a Lease that is missing, too."""
    return (lease or {}).get("spec") or {}


def uid_of(lease: Object | None) -> str:
    return str((lease or {}).get("metadata", {}).get("uid", ""))


def notes_of(lease: Object | None) -> dict[str, str]:
    """Its annotations."""
    return (lease or {}).get("metadata", {}).get("annotations") or {}


def with_notes(lease: Object, notes: Mapping[str, str | None]) -> Object:
    """A copy with these annotations; None = without it."""
    kept = {key: value for key, value in {**notes_of(lease), **notes}.items() if value is not None}
    return {**lease, "metadata": {**lease["metadata"], "annotations": kept}}


def lease_body(
    lease: Object | None, namespace: str, name: str, spec: Object, marks: Mapping[str, Mapping[str, str]]
) -> Object:
    """The Lease with another spec, and with these labels and annotations beside its own, if it is as it was seen."""
    old = (lease or {}).get("metadata", {})
    kept = {key: old[key] for key in ("uid", "resourceVersion") if key in old}
    marked = {part: {**(old.get(part) or {}), **marks.get(part, {})} for part in ("labels", "annotations")}
    metadata = {"name": name, "namespace": namespace, **kept, **marked}
    return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
