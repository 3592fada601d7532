"""Of which rules the last valid document is kept: of each namespace a limited number, and a limited
number of bytes. What is kept stays; what comes later and has no place is not kept, and says so.
Pure."""

from __future__ import annotations

from collections import defaultdict

from scaler.state.last_valid import ConfigMapName

MOST_BYTES = 4 * 2**20
"""Of the documents of one namespace, compressed."""
MOST_OF_ONE = 90 * 1024
"""Bytes of one document, compressed: what takes more could not be read back
(`informers.config_maps.MOST_LAST_VALID`, which counts base64)."""


class KeptRules:
    """The bytes of what is kept, by namespace and rule. `most`: documents of each namespace."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sizes: defaultdict[str, dict[str, int]] = defaultdict(dict)

    def keep(self, rule: ConfigMapName, size: int) -> str:
        """Keep a document of so many bytes of this rule, in place of the one before; why it is not
        kept, in words, or "" when it is. The one before stays where the new one has no place."""
        why = self.why_not(rule, size)
        if not why:
            self._sizes[rule.namespace][rule.name] = size
        return why

    def why_not(self, rule: ConfigMapName, size: int) -> str:
        """Why a document of so many bytes would not be kept, in words; "" when it would."""
        sizes = self._sizes.get(rule.namespace, {})
        own = sizes.get(rule.name, 0)
        cure = (
            "while this process runs it stays in force; after that it is in force as long as the"
            " ConfigMap is there"
        )
        if size > MOST_OF_ONE:
            what = f"it has {size:,} bytes, compressed, and the limit is {MOST_OF_ONE:,}"
            return f"the rule is not kept: {what}; {cure}. Take out of it what is not a rule"
        if size <= own:
            return ""
        if not own and len(sizes) >= self._most:
            what = f"{len(sizes):,} of namespace {rule.namespace} are kept (kept_per_namespace)"
        elif sum(sizes.values()) - own + size > MOST_BYTES:
            what = f"the rules of namespace {rule.namespace} have {MOST_BYTES // 2**20} MiB"
        else:
            return ""
        more = "Delete jobs that name rules which nobody needs"
        return f"the rule is not kept: {what}, which is the limit; {cure}. {more}"

    def measured(self, rule: ConfigMapName, size: int) -> None:
        """What an earlier process kept of this rule has so many bytes; it stays, also beyond the
        limit."""
        self._sizes[rule.namespace][rule.name] = size

    def forget(self, rule: ConfigMapName) -> None:
        """Nothing is kept of this rule any more."""
        sizes = self._sizes[rule.namespace]
        sizes.pop(rule.name, None)
        if not sizes:
            del self._sizes[rule.namespace]
