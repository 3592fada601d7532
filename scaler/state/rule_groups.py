"""The groups that a rule has now, for admission: asked from outside at any time, also before the caches are filled.

That is why it is not the rule book: what that has read once it remembers, and it must not be asked too early.
"""

from __future__ import annotations

from collections.abc import Callable

from scaler.informers.config_maps import ConfigMapRecord
from scaler.rules.document import read_rule

LIMIT = 1_000
"""Rules remembered at once."""


class RuleGroups:
    """`config_map(namespace, name)` is the cache's. Each version of a rule is read once."""

    def __init__(self, config_map: Callable[[str, str], ConfigMapRecord | None]) -> None:
        self._config_map = config_map
        self._known: dict[tuple[str, str], tuple[str, tuple[str, ...] | None]] = {}

    def of(self, namespace: str, name: str) -> tuple[str, ...] | None:
        """The groups of a valid rule; None when there is none of this name, or it is wrong."""
        record = self._config_map(namespace, name)
        if record is None:
            return None
        version = f"{record.uid}/{record.resource_version}"
        known = self._known.get((namespace, name))
        if known is None or known[0] != version:
            known = version, _groups(record)
            if len(self._known) >= LIMIT:
                self._known.clear()
            self._known[namespace, name] = known
        return known[1]


def _groups(record: ConfigMapRecord) -> tuple[str, ...] | None:
    rule = read_rule(record.data, record.binary_keys, {}).rule
    return rule.groups if rule is not None else None
