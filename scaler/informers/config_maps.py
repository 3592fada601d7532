"""ConfigMaps as the cache keeps them: rules, our own, rank tables, fault reports; all else is dropped at once."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import msgspec

from scaler.informers.faults import FaultReport, read_report
from scaler.kube.api import Object
from scaler.kube.metadata import LabelledMetadata
from scaler.names import (
    KEPT_FOR_ANNOTATION,
    KEPT_FOR_LABEL,
    PREFIX,
    RANK_TABLE_KEY,
    RANK_TABLE_PREFIX,
    RANK_TABLE_VERSION_KEY,
    RULE_KEY,
)
from scaler.workloads import retries

_MAX_RULE_NAME = 63
"""A rule is named by a label."""


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
    """A ConfigMap that may be a rule (its key names, and the value of the rule key only), one of our own (whole where
    only we write), or that of a rank table."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    keys: tuple[str, ...]
    binary_keys: tuple[str, ...]
    data: dict[str, str]
    annotations: dict[str, str]
    own: Object | None
    """The object itself when it is one of the scaler's; outside of its own namespace only whose it says that it is."""
    table_map: RankTableMap | None = None
    """What matters for a rank table, when its name says that it is for one."""
    retries: dict[str, int] | None = None
    """Volcano's count of retries per job, when it is the ConfigMap that holds it."""
    faults: FaultReport | None = None
    """What it reports, when it is one of MindCluster's fault reports."""


def config_map_record(cm: ConfigMapObject, home: str = "") -> ConfigMapRecord:
    """`home` is the install's own namespace."""
    meta = cm.metadata
    table_map = _table_map(cm) if meta.name.startswith(RANK_TABLE_PREFIX) else None
    return ConfigMapRecord(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        keys=tuple(sorted(map(sys.intern, cm.data))),
        binary_keys=tuple(sorted(map(sys.intern, cm.binary_data))),
        data={key: value for key, value in cm.data.items() if key == RULE_KEY},
        annotations={k: v for k, v in meta.annotations.items() if k.startswith(PREFIX)},
        own=_own(cm, home) if KEPT_FOR_LABEL in meta.labels and table_map is None else None,
        table_map=table_map,
        retries=_retries(cm),
        faults=read_report(meta.namespace, meta.name, cm.data),
    )


def _own(cm: ConfigMapObject, home: str) -> Object:
    """Whoever may write elsewhere could write anything into it: that is never read."""
    meta = cm.metadata
    if meta.namespace == home:
        named = {"namespace": home, "labels": meta.labels, "annotations": meta.annotations}
        return {"metadata": named, "data": cm.data, "binaryData": cm.binary_data}
    rule = meta.annotations.get(KEPT_FOR_ANNOTATION, "")[:_MAX_RULE_NAME]
    return {"metadata": {"namespace": meta.namespace, "annotations": {KEPT_FOR_ANNOTATION: rule}}}


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
