"""Names and labels of the ConfigMaps that the scaler owns, and the shell that both kinds share. Pure.

Must not decide what is inside them: see status.py and last_valid.py.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from scaler.kube.api import Object
from scaler.names import KEPT_FOR_ANNOTATION, KEPT_FOR_LABEL, MANAGED_BY, MANAGED_BY_LABEL

STATUS_SUFFIX = "-scaler-status"
LAST_VALID_SUFFIX = "-scaler-last-valid"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_NAME = 253
_MAX_LABEL = 63


def status_name(rule: str) -> str:
    """The status ConfigMap's name for a rule."""
    return object_name(rule, _MAX_NAME - len(STATUS_SUFFIX)) + STATUS_SUFFIX


def last_valid_name(rule: str) -> str:
    """The name of the ConfigMap that keeps the last valid document of a rule."""
    return object_name(rule, _MAX_NAME - len(LAST_VALID_SUFFIX)) + LAST_VALID_SUFFIX


def config_map(namespace: str, name: str, rule: str, content: Mapping[str, object]) -> Object:
    """A ConfigMap of ours; `content` gives `data` or `binaryData`. Without owner reference: it outlives the rule."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {MANAGED_BY_LABEL: MANAGED_BY, KEPT_FOR_LABEL: shortened(rule, _MAX_LABEL)},
            "annotations": {KEPT_FOR_ANNOTATION: rule},
        },
        **content,
    }


def is_ours(existing: Object) -> bool:
    """Whether the scaler made this object; anything else of that name is left alone."""
    labels = (existing.get("metadata") or {}).get("labels") or {}
    return isinstance(labels, dict) and labels.get(MANAGED_BY_LABEL) == MANAGED_BY and KEPT_FOR_LABEL in labels


def rule_of(existing: Object) -> str:
    """The rule that a ConfigMap of ours is about; "" when it does not say."""
    annotations = (existing.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(KEPT_FOR_ANNOTATION, "")) if isinstance(annotations, dict) else ""


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
    return f"{like}-{_digest(text)}" if like else _digest(text)


def shortened(text: str, limit: int) -> str:
    """`text` itself when it fits in `limit` characters, else its start and 16 hex digits of its SHA-256."""
    return text if len(text) <= limit else f"{text[: limit - 17].rstrip('-._')}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
