"""ConfigMaps as the cache keeps them: rules, our own, rank tables, fault reports; all else is
dropped at once.

Whatever its author put into it, a record of one has an upper bound."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

import msgspec

from scaler.informers.faults import FaultReport, read_report
from scaler.kube.api import Object
from scaler.kube.metadata import Metadata, Stored, shared
from scaler.names import (
    KEPT_EVICTIONS,
    KEPT_EVICTIONS_AT,
    KEPT_EVICTIONS_REPEATED,
    KEPT_FOR_ANNOTATION,
    KEPT_FOR_JOB_ID,
    KEPT_FOR_LABEL,
    KEPT_FOR_NAMESPACE,
    KEPT_FORMAT,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    PREFIX,
    RANK_TABLE_KEY,
    RANK_TABLE_PREFIX,
    RANK_TABLE_VERSION_KEY,
    RULE_KEY,
    RULE_LABEL,
)
from scaler.remembered import Sharing
from scaler.rules.limits import MAX_BYTES
from scaler.workloads.ascendjob import RETRIES, RETRIES_KEY, read_retries
from scaler.workloads.npu_rules import CONFIGURATION, PLUGIN
from scaler.workloads.super_pods import size_in

MOST_KEYS = 10
"""Names of keys that are kept, to say what there is instead of a rule."""
MOST_ANNOTATIONS = 16
LONGEST_ANNOTATION = 256
"""None of ours is as long as what is cut off."""
MOST_LAST_VALID = 128 * 1024
"""Bytes of a last valid document as it is stored, compressed: five times what a rule of MAX_BYTES
has."""
_NOTHING: dict[str, str] = {}
"""The empty value of most ConfigMaps: one for all, and nothing writes into it."""
_shared = Sharing(2**20)
"""Names of keys: most ConfigMaps have the same few."""
MOST_CONTENT = 8 * 2**20
"""Bytes that are kept of what the ConfigMaps of one namespace say: 10,000 rules of a usual size."""
MOST_COMPARED = 256 * 1024
"""Bytes of a rank table up to which its formatting does not matter."""


class ConfigMapObject(msgspec.Struct, rename="camel"):
    """A ConfigMap. Values are decoded and dropped at once unless they can be a rule or are our
    own."""

    metadata: Metadata
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
    immutable: bool | None = None


class RankTableMap(Stored, frozen=True, gc=False):
    """The fields of the ConfigMap that are kept. Its text is kept for commands only."""

    text: str | None = None
    said: bytes = b""
    """Digest of what `hccl.json` says; b"" without this key."""
    status: str = ""
    servers: int = 0
    version: str = ""
    immutable: bool = False
    binary: bool = False
    """`hccl.json` stands in binaryData, where nothing reads it and where it forbids a text of that
    name."""
    controller: str = ""
    """`Kind name` of its controlling owner, "" without one."""
    controller_uid: str = ""
    other_bytes: int = 0
    """Size of all values but the two that are written."""
    labels: Mapping[str, str] = {}


class ConfigMapRecord(Stored, frozen=True, gc=False):
    """A ConfigMap that may be a rule (names of keys, and the value of the rule key only), one of
    our own, that of a rank table, Volcano's counts of retries per job, or a fault report."""

    keys: tuple[str, ...]
    binary_keys: tuple[str, ...]
    packed: bytes
    """The value of the rule key, as `pack` makes it; b"" without one. As text it took two megabytes
    with one emoji."""
    annotations: dict[str, str]
    own: Object | None
    """When it is one of the scaler's: as metadata the rule that it is about; the last valid
    document only where the scaler alone writes."""
    oversize: int = 0
    """Bytes of a document that is too large to be a rule, which is not kept then."""
    table_map: RankTableMap | None = None
    retries: dict[str, int] | None = None
    faults: FaultReport | None = None
    has_npu_plugin: bool | None = None
    """Whether it makes the scheduler use MindCluster's plugin; None where it is not the
    configuration of the scheduler."""
    largest_super_pod: int = 0
    """Nodes of the largest super-pod, as that configuration says; 0 where it is not that."""
    left_out: bool = False
    """Its keys, document and annotations are not kept, because those of its namespace are too large
    (`MOST_CONTENT`). They are read again when a job names the rule."""

    @property
    def version(self) -> str:
        """Another one for each object and each version of it."""
        return f"{self.uid}/{self.resource_version}"

    @property
    def document(self) -> str | None:
        """The value of the rule key, unpacked anew each time."""
        return unpack(self.packed) if self.packed else None


def pack(document: str) -> bytes:
    """The document, compressed."""
    return zlib.compress(document.encode("utf-8", "surrogatepass"), 1)


def unpack(packed: bytes) -> str:
    return zlib.decompress(packed).decode("utf-8", "surrogatepass")


def bytes_of_content(record: ConfigMapRecord) -> int:
    """Bytes of what `without_content` takes out of the record."""
    texts = chain(record.keys, record.binary_keys, record.annotations, record.annotations.values())
    return len(record.packed) + sum(map(len, texts))


def without_content(record: ConfigMapRecord) -> ConfigMapRecord:
    """The record of which only metadata is kept, and what is not a rule's."""
    return msgspec.structs.replace(
        record, keys=(), binary_keys=(), packed=b"", annotations=_NOTHING, oversize=0, left_out=True
    )


def config_map_record(cm: ConfigMapObject, home: str = "") -> ConfigMapRecord:
    """`home` is the install's own namespace."""
    meta = cm.metadata
    document = cm.data.get(RULE_KEY)
    size = _bytes_of(document or "")
    ours = sorted(key for key in meta.annotations if key.startswith(PREFIX))[:MOST_ANNOTATIONS]
    is_scheduler = (meta.namespace, meta.name) == CONFIGURATION
    retries = None
    if (meta.namespace, meta.name) == RETRIES:
        retries = read_retries(cm.data.get(RETRIES_KEY, ""))
    return ConfigMapRecord(
        *meta.identity,
        keys=_some(cm.data),
        binary_keys=_some(cm.binary_data),
        packed=pack(document) if document is not None and size <= MAX_BYTES else b"",
        annotations={key: meta.annotations[key][:LONGEST_ANNOTATION] for key in ours} or _NOTHING,
        own=_own(cm, home),
        oversize=size if size > MAX_BYTES else 0,
        table_map=read_table_map(cm) if meta.name.startswith(RANK_TABLE_PREFIX) else None,
        retries=retries,
        faults=read_report(meta.namespace, meta.name, cm.data),
        has_npu_plugin=any(PLUGIN in text for text in cm.data.values()) if is_scheduler else None,
        largest_super_pod=size_in("\n".join(cm.data.values())) if is_scheduler else 0,
    )


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _some(keys: Iterable[str]) -> tuple[str, ...]:
    """The first of them, that of a rule always."""
    return _shared(
        tuple(map(shared, sorted(keys, key=lambda key: (key != RULE_KEY, key))[:MOST_KEYS]))
    )


def _own(cm: ConfigMapObject, home: str) -> Object | None:
    """A ConfigMap of ours. One in another namespace is never read: tenants may write it."""
    meta = cm.metadata
    rule = meta.annotations.get(KEPT_FOR_ANNOTATION, "")
    ours = meta.labels.get(MANAGED_BY_LABEL) == MANAGED_BY and KEPT_FOR_LABEL in meta.labels
    if not ours or len(rule) > LONGEST_ANNOTATION:
        return None
    if meta.namespace != home:
        return {
            "metadata": {"namespace": meta.namespace, "annotations": {KEPT_FOR_ANNOTATION: rule}}
        }
    labels = {label: meta.labels[label] for label in (MANAGED_BY_LABEL, KEPT_FOR_LABEL)}
    names = {
        key: text
        for key, text in meta.annotations.items()
        if key in (KEPT_FOR_ANNOTATION, KEPT_FOR_NAMESPACE, KEPT_FOR_JOB_ID)
    }
    metadata = {"namespace": home, "labels": labels, "annotations": names}
    values = (*cm.data.values(), *cm.binary_data.values())
    if f"{RULE_KEY}.gz" not in cm.binary_data or sum(map(len, values)) > MOST_LAST_VALID:
        short = {}
        for key in (KEPT_FORMAT, KEPT_EVICTIONS, KEPT_EVICTIONS_AT, KEPT_EVICTIONS_REPEATED):
            if text := cm.data.get(key):
                short[key] = text[:LONGEST_ANNOTATION]
        return {"metadata": metadata, "data": short}
    return {"metadata": metadata, "data": cm.data, "binaryData": cm.binary_data}


class _Document(msgspec.Struct, gc=False):
    status: str = ""
    server_list: list[msgspec.Raw] = []


def read_table_map(cm: ConfigMapObject) -> RankTableMap:
    meta = cm.metadata
    text = cm.data.get(RANK_TABLE_KEY)
    owner = meta.owner
    others = [
        _bytes_of(v)
        for k, v in cm.data.items()
        if k not in (RANK_TABLE_KEY, RANK_TABLE_VERSION_KEY)
    ]
    return RankTableMap(
        *meta.identity,
        **content_of(text),
        version=cm.data.get(RANK_TABLE_VERSION_KEY, "")[:LONGEST_ANNOTATION],
        immutable=bool(cm.immutable),
        binary=RANK_TABLE_KEY in cm.binary_data,
        controller=f"{owner.kind} {owner.name}"[:LONGEST_ANNOTATION] if owner.uid else "",
        controller_uid=shared(owner.uid),
        other_bytes=sum(others) + sum(map(len, cm.binary_data.values())),
        labels={RULE_LABEL: meta.labels[RULE_LABEL]} if RULE_LABEL in meta.labels else _NOTHING,
    )


def content_of(text: str | None) -> dict[str, Any]:
    """The part of the text of `hccl.json` that a RankTableMap keeps."""
    if text is None:
        return {}
    try:
        document = msgspec.json.decode(text, type=_Document)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        document = _Document()
    status = shared(document.status[:LONGEST_ANNOTATION])
    return {"said": digest_of(text), "status": status, "servers": len(document.server_list)}


def digest_of(text: str) -> bytes:
    """The same for two documents that say the same, in whatever formatting, unless they are very
    long."""
    if len(text) <= MOST_COMPARED:
        with suppress(ValueError, RecursionError):  # what is not JSON says what it is
            text = json.dumps(json.loads(text), sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
