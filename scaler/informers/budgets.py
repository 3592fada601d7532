"""What is kept of a PodDisruptionBudget, and which pods it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scaler.kube.metadata import Metadata

_LARGEST = 4096
"""Bytes of a selector. People write a few labels; every budget of a cluster is kept."""


class _BudgetSpec(msgspec.Struct, frozen=True):
    selector: msgspec.Raw = msgspec.Raw(b"null")


class BudgetObject(msgspec.Struct, gc=False):
    """The part of a PodDisruptionBudget that the scaler reads."""

    metadata: Metadata
    spec: _BudgetSpec = _BudgetSpec()


class BudgetRecord(msgspec.Struct, frozen=True, gc=False):
    """One budget."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    selector: bytes
    """As JSON; `{}`, which is about all pods of the namespace, where it was too large to keep."""

    def covers(self, labels: Mapping[str, Any]) -> bool:
        """Whether it is about a pod with these labels. What cannot be read is: then nothing is added to it."""
        try:
            return selects(msgspec.json.decode(self.selector), labels)
        except (AttributeError, KeyError, TypeError, RecursionError, msgspec.DecodeError):
            return True


def budget_record(obj: BudgetObject) -> BudgetRecord:
    meta, selector = obj.metadata, bytes(obj.spec.selector)
    kept = selector if len(selector) <= _LARGEST else b"{}"
    return BudgetRecord(meta.namespace, meta.name, meta.uid, meta.resource_version, kept)


def selects(selector: Any, labels: Mapping[str, Any]) -> bool:
    """Whether a label selector of policy/v1 chooses what has these labels: an empty one all, none at all nothing."""
    if not isinstance(selector, dict):
        return False
    wanted = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return wanted and all(_holds(one, labels) for one in selector.get("matchExpressions") or ())


def _holds(expression: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    return bool(
        {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }.get(expression["operator"], True)
    )
