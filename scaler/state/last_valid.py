"""The last valid rule as a ConfigMap of ours, and back: it survives restarts and the deletion of
the rule. Pure.

Each rule has one in the install's own namespace, where no tenant writes: what stands elsewhere is
never believed. The document is kept to the byte, compressed. It was valid when it was stored, and
is checked again when it is read back."""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from scaler.informers.config_maps import pack, unpack
from scaler.kube.api import Object
from scaler.names import (
    KEPT_FOR_ANNOTATION,
    KEPT_FOR_LABEL,
    KEPT_FOR_NAMESPACE,
    KEPT_FORMAT,
    LONGEST_NAME,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    PREFIX,
    object_name,
    shortened,
)
from scaler.rules.limits import MAX_BYTES

DOCUMENT = "elastic_scaling.json.gz"
ANNOTATIONS = "annotations.json"
SHA256 = "sha256"
RULE_UID = "rule-uid"
INHERITED = "annotations-inherited"
KNOWN_FORMAT = "1"
"""Of what is kept; v0.1.0 did not write it down. Raised when the release before would misread what
is written."""

LAST_VALID_SUFFIX = "-scaler-last-valid"


class ConfigMapName(NamedTuple):
    """The name of a rule or of another ConfigMap."""

    namespace: str
    name: str


class LastValid(msgspec.Struct, frozen=True, gc=False):
    """The text of `elastic_scaling.json` and the rule's `mind-cluster/` annotations."""

    packed: bytes
    """The text, compressed as `informers.config_maps` keeps it; b"" where it is not kept."""
    sha256: str
    """Of the text."""
    annotations: Mapping[str, str] = {}
    rule_uid: str = ""
    """uid of the ConfigMap that the annotations belong to: one created later without any inherits
    them."""
    inherited: bool = False
    """Whether that ConfigMap has none of its own and took these from the one it replaced."""
    format: str = KNOWN_FORMAT
    """Another one is that of a later release, of which nothing else is read."""

    @property
    def document(self) -> str:
        """The text, unpacked anew each time."""
        return unpack(self.packed)


def last_valid_of(
    document: str,
    annotations: Mapping[str, str] = {},
    rule_uid: str = "",
    *,
    inherited: bool = False,
    packed: bytes = b"",
) -> LastValid:
    """This document as the last valid one; `packed`: the same, where it is there already."""
    digest = hashlib.sha256(document.encode("utf-8", "surrogatepass")).hexdigest()
    return LastValid(packed or pack(document), digest, annotations, rule_uid, inherited)


def place_of(rule: ConfigMapName, home: str) -> ConfigMapName:
    """The ConfigMap that keeps the last valid document of a rule; `home` is the install's own
    namespace."""
    return ConfigMapName(
        home, object_name(".".join(rule), LONGEST_NAME - len(LAST_VALID_SUFFIX)) + LAST_VALID_SUFFIX
    )


def encode(place: ConfigMapName, rule: ConfigMapName, last_valid: LastValid) -> Object:
    """The ConfigMap at `place` that keeps `last_valid`; the same value gives the same bytes."""
    raw = last_valid.document.encode("utf-8", "surrogatepass")
    kept = {
        name: value
        for name, value in sorted(last_valid.annotations.items())
        if name.startswith(PREFIX)
    }
    content = {
        "data": {
            ANNOTATIONS: json.dumps(kept, ensure_ascii=False),
            SHA256: last_valid.sha256,
            RULE_UID: last_valid.rule_uid,
            INHERITED: json.dumps(last_valid.inherited),
            KEPT_FORMAT: KNOWN_FORMAT,
        },
        "binaryData": {DOCUMENT: base64.b64encode(gzip.compress(raw, mtime=0)).decode("ascii")},
    }
    return config_map(place, rule, content)


def config_map(place: ConfigMapName, rule: ConfigMapName, content: Mapping[str, object]) -> Object:
    """A ConfigMap of ours; `content` gives `data` or `binaryData`. Without owner reference: it
    outlives the rule."""
    elsewhere = {} if place.namespace == rule.namespace else {KEPT_FOR_NAMESPACE: rule.namespace}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": place.namespace,
            "name": place.name,
            # the most of a label
            "labels": {MANAGED_BY_LABEL: MANAGED_BY, KEPT_FOR_LABEL: shortened(rule.name, 63)},
            "annotations": {KEPT_FOR_ANNOTATION: rule.name, **elsewhere},
        },
        **content,
    }


def decode(existing: Object, rule: ConfigMapName) -> LastValid | None:
    """The value that `encode` stored for `rule`; of another format only that; None for anything
    else. Never raises."""
    if not is_ours(existing) or rule_of(existing) != rule:
        return None
    form = (existing.get("data") or {}).get(KEPT_FORMAT, KNOWN_FORMAT)
    if form != KNOWN_FORMAT:
        return LastValid(b"", "", format=form)
    try:
        packed = base64.b64decode(existing["binaryData"][DOCUMENT], validate=True)
        document = _inflate(packed).decode("utf-8", "surrogatepass")
        annotations = msgspec.json.decode(existing["data"][ANNOTATIONS], type=dict[str, str])
        digest, uid, inherited = (existing["data"][key] for key in (SHA256, RULE_UID, INHERITED))
    except (
        KeyError,
        TypeError,
        ValueError,
        zlib.error,
        binascii.Error,
        msgspec.MsgspecError,
        RecursionError,
    ):
        return None
    found = last_valid_of(document, annotations, str(uid), inherited=inherited == "true")
    return found if found.sha256 == digest else None


def _inflate(packed: bytes) -> bytes:
    """Bounded: a small ConfigMap cannot unfold into gigabytes."""
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    raw = inflater.decompress(packed, MAX_BYTES)
    if not inflater.eof:
        raise ValueError("truncated, or larger than a rule may be")
    return raw


def is_ours(existing: Object) -> bool:
    """Whether the scaler made this object; anything else of that name is left alone."""
    labels = (existing.get("metadata") or {}).get("labels") or {}
    return (
        isinstance(labels, dict)
        and labels.get(MANAGED_BY_LABEL) == MANAGED_BY
        and KEPT_FOR_LABEL in labels
    )


def rule_of(existing: Object) -> ConfigMapName:
    """The rule that a ConfigMap of ours is about; its name is "" when it does not say."""
    metadata = existing.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    namespace = annotations.get(KEPT_FOR_NAMESPACE, metadata.get("namespace", ""))
    return ConfigMapName(str(namespace), str(annotations.get(KEPT_FOR_ANNOTATION, "")))


def same_content(existing: Object, wanted: Object) -> bool:
    """Whether `existing` already says all of `wanted`; foreign labels and annotations do not
    matter."""
    for part in ("data", "binaryData"):
        if (existing.get(part) or {}) != (wanted.get(part) or {}):
            return False
    metadata = existing.get("metadata") or {}
    for part in ("labels", "annotations"):
        if not wanted["metadata"][part].items() <= (metadata.get(part) or {}).items():
            return False
    return True
