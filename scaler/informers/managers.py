"""Who wrote a part of an object, by its `managedFields`: the API server keeps the product in the
User-Agent of every client that writes. Whoever may write the object may write them as well."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from scaler.kube.api import OUR_MANAGERS
from scaler.kube.metadata import Metadata, shared
from scaler.timestamps import seconds_of

MOST_ENTRIES = 64
"""Entries that are read of one object; ordinary objects have three."""
_LONGEST_MANAGER = 128
"""Characters: the API server allows no longer ones."""


class ManagedMetadata(Metadata):
    """The metadata of an object of which it matters who wrote it."""

    managed_fields: msgspec.Raw = msgspec.Raw()

    @property
    def without_managers(self) -> Metadata:
        """All other fields."""
        return Metadata(*[getattr(self, name) for name in Metadata.__struct_fields__])


class Writing(msgspec.Struct, frozen=True, gc=False):
    """The last write of a part of an object."""

    manager: str
    at: float
    """Seconds since the epoch, by the clock of the API server."""


class _PodSpec(msgspec.Struct, gc=False):
    containers: msgspec.Raw = msgspec.field(name="f:containers", default=msgspec.Raw())


class _Fields(msgspec.Struct, gc=False):
    spec: _PodSpec = msgspec.field(name="f:spec", default_factory=_PodSpec)


class _Entry(msgspec.Struct, gc=False):
    manager: str = ""
    subresource: str = ""
    time: str | None = None
    fields: _Fields = msgspec.field(name="fieldsV1", default_factory=_Fields)

    @property
    def has_made_a_pod(self) -> bool:
        return bool(bytes(self.fields.spec.containers))

    @property
    def is_ours(self) -> bool:
        return self.manager in OUR_MANAGERS


def status_written_by_others(metadata: ManagedMetadata) -> Writing | None:
    """The last write of the status by anybody but the scaler; None without one."""
    last = None
    for entry in _entries(metadata):
        if entry.subresource == "status" and not entry.is_ours:
            at = seconds_of(entry.time)
            if last is None or at > last.at:
                last = Writing(_name(entry), at)
    return last


def pod_made_by_others(metadata: ManagedMetadata) -> str:
    """Who made this pod: the manager of its containers. "" for the scaler, and where nothing says
    it."""
    makers = [entry for entry in _entries(metadata) if entry.has_made_a_pod]
    if not makers or any(entry.is_ours for entry in makers):
        return ""
    return _name(makers[0])


def _entries(metadata: ManagedMetadata) -> list[_Entry]:
    """None where they have a shape that the API server does not write."""
    with suppress(msgspec.MsgspecError, RecursionError):
        return msgspec.json.decode(metadata.managed_fields, type=list[_Entry])[:MOST_ENTRIES]
    return []


def _name(entry: _Entry) -> str:
    return shared(entry.manager[:_LONGEST_MANAGER] or "somebody without a name")
