"""The last valid rule as a ConfigMap of ours, and back: it survives restarts and the deletion of the rule. Pure.

The document is kept to the byte, compressed. Must not judge documents: what is stored here was valid when stored,
and whoever reads it back checks it again.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping

import msgspec

from scaler.kube.api import Object
from scaler.names import KEPT_FORMAT, PREFIX
from scaler.rules.limits import MAX_BYTES
from scaler.state.own_config_maps import Name, config_map, is_ours, rule_of

DOCUMENT = "elastic_scaling.json.gz"
ANNOTATIONS = "annotations.json"
SHA256 = "sha256"
RULE_UID = "rule-uid"
INHERITED = "annotations-inherited"
KNOWN_FORMAT = "1"
"""Of what is kept; v0.1.0 did not write it down. Raised when the release before would misread what is written."""


class LastValid(msgspec.Struct, frozen=True, gc=False):
    """The text of `elastic_scaling.json` and the rule's `mind-cluster/` annotations."""

    document: str
    annotations: Mapping[str, str] = {}
    rule_uid: str = ""
    """uid of the ConfigMap that the annotations belong to: one created later without any inherits them."""
    inherited: bool = False
    """Whether that ConfigMap has none of its own and took these from the one it replaced."""
    format: str = KNOWN_FORMAT
    """Another one is that of a later release, of which nothing else is read."""

    @property
    def sha256(self) -> str:
        """Hex digest of the document's UTF-8 bytes."""
        return hashlib.sha256(self.document.encode("utf-8", "surrogatepass")).hexdigest()


def encode(place: Name, rule: Name, last_valid: LastValid) -> Object:
    """The ConfigMap at `place` that keeps `last_valid`; the same value gives the same bytes."""
    raw = last_valid.document.encode("utf-8", "surrogatepass")
    kept = {name: value for name, value in sorted(last_valid.annotations.items()) if name.startswith(PREFIX)}
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


def decode(existing: Object, rule: Name) -> LastValid | None:
    """The value that `encode` stored for `rule`; None for anything that is not exactly that. Never raises."""
    if not is_ours(existing) or rule_of(existing) != rule:
        return None
    form = (existing.get("data") or {}).get(KEPT_FORMAT, KNOWN_FORMAT)
    if form != KNOWN_FORMAT:
        return LastValid("", format=form)
    try:
        packed = base64.b64decode(existing["binaryData"][DOCUMENT], validate=True)
        document = _inflate(packed).decode("utf-8", "surrogatepass")
        annotations = msgspec.json.decode(existing["data"][ANNOTATIONS], type=dict[str, str])
        digest, uid, inherited = (existing["data"][key] for key in (SHA256, RULE_UID, INHERITED))
    except (KeyError, TypeError, ValueError, zlib.error, binascii.Error, msgspec.MsgspecError, RecursionError):
        return None
    found = LastValid(document, annotations, str(uid), inherited == "true")
    return found if found.sha256 == digest else None


def _inflate(packed: bytes) -> bytes:
    """Bounded: a small ConfigMap cannot unfold into gigabytes."""
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    raw = inflater.decompress(packed, MAX_BYTES)
    if not inflater.eof:
        raise ValueError("truncated, or larger than a rule may be")
    return raw
