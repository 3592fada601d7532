"""The metadata of objects: as msgspec decodes it (only declared fields), and of plain dicts; names
that are valid.

No decoded value can be part of a reference cycle, so the garbage collector may ignore it
(`gc=False`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from scaler import names

LONGEST_SHARED = 128
"""Characters of a text that is remembered: uids, and most names."""
_remembered: Callable[[str], str] = lru_cache(maxsize=1 << 15)(str)


def shared(text: str) -> str:
    """One object for equal texts, unless they are long. Not `sys.intern`, which on Python 3.12
    keeps every text for ever."""
    return _remembered(text) if len(text) <= LONGEST_SHARED else text


LONGEST_NAME = names.LONGEST_NAME
"""Characters of the name of any object. A longer text is no name."""


class Owner(msgspec.Struct, rename="camel", gc=False):
    """An owner reference; its fields are "" if there is none."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False

    @property
    def type(self) -> tuple[str, str]:
        """Its API group, in any version, and kind."""
        return self.api_version.partition("/")[0], self.kind


NO_OWNER = Owner()


class Stored(msgspec.Struct, frozen=True, gc=False):
    """The metadata that is kept of an object. The records of all kinds begin with these fields;
    `namespace` is "" for cluster-scoped objects."""

    namespace: str
    name: str
    uid: str
    resource_version: str


class Metadata(msgspec.Struct, rename="camel", gc=False):
    """All metadata that is read of any object. `managedFields` is not decoded."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[Owner] = []
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    generation: int = 0

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The first fields of a `Stored`."""
        return shared(self.namespace), self.name, self.uid, self.resource_version

    @property
    def owner(self) -> Owner:
        """The controlling owner; an empty one if there is none, or if a field of it is longer than
        any name."""
        for owner in self.owner_references:
            if owner.controller:
                words = (owner.uid, owner.name, owner.kind, owner.api_version)
                return owner if max(map(len, words)) <= LONGEST_NAME else NO_OWNER
        return NO_OWNER


def version_of(resource_version: str) -> int:
    """A resourceVersion as a number, 0 when it is none. Kubernetes guarantees their order within
    one resource type."""
    return int(resource_version) if resource_version.isdecimal() else 0


def uid_of(obj: dict[str, Any] | None) -> str:
    return str((obj or {}).get("metadata", {}).get("uid", ""))


def with_notes(obj: dict[str, Any], notes: Mapping[str, str | None]) -> dict[str, Any]:
    """A copy with these annotations; None removes one."""
    noted = {**(obj["metadata"].get("annotations") or {}), **notes}
    kept = {key: value for key, value in noted.items() if value is not None}
    return {**obj, "metadata": {**obj["metadata"], "annotations": kept}}
