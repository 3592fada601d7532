"""Places, names and labels of the ConfigMaps that the scaler owns. Pure.

The last valid rule of everybody is kept in the install's own namespace, where no tenant writes: what stands elsewhere
is never believed. Must not decide what is inside them: see last_valid.py.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import NamedTuple

from scaler.kube.api import Object
from scaler.names import KEPT_FOR_ANNOTATION, KEPT_FOR_LABEL, KEPT_FOR_NAMESPACE, MANAGED_BY, MANAGED_BY_LABEL

LAST_VALID_SUFFIX = "-scaler-last-valid"
_SUFFIXES = (LAST_VALID_SUFFIX, "-scaler-status")
"""Of all that was ever kept. What ends otherwise is a later release's, and stays."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
MAX_NAME = 253
_MAX_LABEL = 63


class Name(NamedTuple):
    """Of a rule or of another ConfigMap."""

    namespace: str
    name: str


class Home(NamedTuple):
    """Where this install keeps its ConfigMaps."""

    namespace: str = "default"
    """The install's own."""

    def last_valid(self, rule: Name) -> Name:
        """The ConfigMap that keeps the last valid document of a rule."""
        return Name(self.namespace, object_name(".".join(rule), MAX_NAME - len(LAST_VALID_SUFFIX)) + LAST_VALID_SUFFIX)

    def is_left_over(self, place: Name, rule: Name) -> bool:
        """Whether what stands at `place` about `rule` is ours and of no use any more."""
        return bool(rule.name) and place.name.endswith(_SUFFIXES) and place != self.last_valid(rule)


def config_map(place: Name, rule: Name, content: Mapping[str, object]) -> Object:
    """A ConfigMap of ours; `content` gives `data` or `binaryData`. Without owner reference: it outlives the rule."""
    elsewhere = {} if place.namespace == rule.namespace else {KEPT_FOR_NAMESPACE: rule.namespace}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": place.namespace,
            "name": place.name,
            "labels": {MANAGED_BY_LABEL: MANAGED_BY, KEPT_FOR_LABEL: shortened(rule.name, _MAX_LABEL)},
            "annotations": {KEPT_FOR_ANNOTATION: rule.name, **elsewhere},
        },
        **content,
    }


def is_ours(existing: Object) -> bool:
    """Whether the scaler made this object; anything else of that name is left alone."""
    labels = (existing.get("metadata") or {}).get("labels") or {}
    return isinstance(labels, dict) and labels.get(MANAGED_BY_LABEL) == MANAGED_BY and KEPT_FOR_LABEL in labels


def rule_of(existing: Object) -> Name:
    """The rule that a ConfigMap of ours is about; its name is "" when it does not say."""
    metadata = existing.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    namespace = annotations.get(KEPT_FOR_NAMESPACE, metadata.get("namespace", ""))
    return Name(str(namespace), str(annotations.get(KEPT_FOR_ANNOTATION, "")))


def same_content(existing: Object, wanted: Object) -> bool:
    """Whether `existing` already says all of `wanted`; foreign labels and annotations do not matter."""
    metadata = existing.get("metadata") or {}
    return all((existing.get(part) or {}) == (wanted.get(part) or {}) for part in ("data", "binaryData")) and all(
        wanted["metadata"][part].items() <= (metadata.get(part) or {}).items() for part in ("labels", "annotations")
    )


def object_name(text: str, limit: int) -> str:
    """`text` when it is a valid object name of at most `limit` characters, else something like it and a hash.

    A rule's name comes from a label, and labels allow what names do not: `My_Rule`.
    """
    if len(text) <= limit and _NAME.fullmatch(text):
        return text
    like = re.sub(r"[^a-z0-9]+", "-", text.lower())[: limit - 17].strip("-")
    return f"{like}-{digest(text)}" if like else digest(text)


def shortened(text: str, limit: int) -> str:
    """`text` itself when it fits in `limit` characters, else its start and 16 hex digits of its SHA-256."""
    return text if len(text) <= limit else f"{text[: limit - 17].rstrip('-._')}-{digest(text)}"


def digest(text: str) -> str:
    """16 hex digits of its SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
