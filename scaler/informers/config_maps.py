"""ConfigMaps as the cache keeps them: rules, our own, rank tables, fault reports; all else is dropped at once."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import msgspec

from scaler.informers.faults import FaultReport, read_report
from scaler.kube.api import Object
from scaler.kube.metadata import LabelledMetadata
from scaler.names import PREFIX, RANK_TABLE_KEY, RANK_TABLE_PREFIX, RANK_TABLE_VERSION_KEY, RULE_KEY
from scaler.workloads import retries


class ConfigMapObject(msgspec.Struct, rename="camel"):
    """A ConfigMap. Values are decoded and dropped at once unless they can be a rule or are our own."""

    metadata: LabelledMetadata
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
    immutable: bool | None = None


class RankTableMap(msgspec.Struct, frozen=True):
    """The ConfigMap as it is. `text` is None without the key `hccl.json`."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    text: str | None
    version: str = ""
    immutable: bool = False
    binary: bool = False
    """`hccl.json` stands in binaryData, where nobody reads it and where it forbids a text of that name."""
    controller: str = ""
    """`Kind name` of its controlling owner, "" without one."""
    controller_uid: str = ""
    other_bytes: int = 0
    """Size of all values but the two that are written."""
    labels: Mapping[str, str] = {}


class ConfigMapRecord(msgspec.Struct, frozen=True):
    """A ConfigMap that may be a rule (its key names, and the value of the rule key only), one of our own (whole), or
    that of a rank table."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    keys: tuple[str, ...]
    binary_keys: tuple[str, ...]
    data: dict[str, str]
    annotations: dict[str, str]
    own: Object | None
    """The object itself, with labels and annotations as its metadata, when it is one that the scaler wrote."""
    table_map: RankTableMap | None = None
    """What matters for a rank table, when its name says that it is for one."""
    retries: dict[str, int] | None = None
    """Volcano's count of retries per job, when it is the ConfigMap that holds it."""
    faults: FaultReport | None = None
    """What it reports, when it is one of MindCluster's fault reports."""


def config_map_record(cm: ConfigMapObject) -> ConfigMapRecord:
    meta = cm.metadata
    own = None
    table_map = _table_map(cm) if meta.name.startswith(RANK_TABLE_PREFIX) else None
    if table_map is None and any(label.startswith(PREFIX) for label in meta.labels):
        named = {"labels": meta.labels, "annotations": meta.annotations}
        own = {"metadata": named, "data": cm.data, "binaryData": cm.binary_data}
    return ConfigMapRecord(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        keys=tuple(sorted(map(sys.intern, cm.data))),
        binary_keys=tuple(sorted(map(sys.intern, cm.binary_data))),
        data={key: value for key, value in cm.data.items() if key == RULE_KEY},
        annotations={k: v for k, v in meta.annotations.items() if k.startswith(PREFIX)},
        own=own,
        table_map=table_map,
        retries=_retries(cm),
        faults=read_report(meta.namespace, meta.name, cm.data),
    )


def _retries(cm: ConfigMapObject) -> dict[str, int] | None:
    known = cm.metadata.name == retries.CONFIG_MAP and cm.metadata.namespace == retries.NAMESPACE
    return retries.read_retries(cm.data.get(retries.KEY, "")) if known else None


def _table_map(cm: ConfigMapObject) -> RankTableMap:
    meta = cm.metadata
    owner = meta.owner
    others = [len(v.encode()) for k, v in cm.data.items() if k not in (RANK_TABLE_KEY, RANK_TABLE_VERSION_KEY)]
    return RankTableMap(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        text=cm.data.get(RANK_TABLE_KEY),
        version=cm.data.get(RANK_TABLE_VERSION_KEY, ""),
        immutable=bool(cm.immutable),
        binary=RANK_TABLE_KEY in cm.binary_data,
        controller=f"{owner.kind} {owner.name}" if owner.uid else "",
        controller_uid=owner.uid,
        other_bytes=sum(others) + sum(map(len, cm.binary_data.values())),
        labels=meta.labels,
    )


def read_rank_table_map(obj: Object) -> RankTableMap:
    """The ConfigMap of a rank table as the API server answers it."""
    return _table_map(msgspec.convert(obj, ConfigMapObject))
