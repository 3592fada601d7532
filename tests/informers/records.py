"""A small record and object type for the tests of the cache."""

from __future__ import annotations

import msgspec

from scaler.kube.metadata import Metadata, Stored


class Thing(msgspec.Struct):
    metadata: Metadata
    data: str = ""


class Record(Stored, frozen=True):
    terminating: bool = False
    data: str = ""


def record(thing: Thing) -> Record | None:
    """Things with the data "ignored" are left out."""
    return None if thing.data == "ignored" else Record(*thing.metadata.identity, data=thing.data)


def thing(name: str, version: int, *, namespace: str = "ns", data: str = "") -> Thing:
    meta = Metadata(
        name=name, namespace=namespace, uid=f"uid-{name}", resource_version=str(version)
    )
    return Thing(meta, data)


def a_record(
    name: str, version: int, *, uid: str = "", namespace: str = "ns", terminating: bool = False
) -> Record:
    return Record(namespace, name, uid or f"uid-{name}", str(version), terminating)
