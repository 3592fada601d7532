"""Of which rules the last valid document is kept, and which are in force: of each namespace a
limited number, and a limited number of bytes. What is there stays; what comes later and has no
place says so. Pure."""

from __future__ import annotations

from scaler.rules.rule import Rule
from scaler.state.last_valid import ConfigMapName

MOST_BYTES = 4 * 2**20
"""Of the documents of one namespace, compressed."""
MOST_OF_ONE = 90 * 1024
"""Bytes of one document, compressed: what takes more could not be read back
(`informers.config_maps.MOST_LAST_VALID`, which counts base64)."""
MOST_IN_FORCE = 64 * 2**20
"""Bytes of memory of the rules in force in one namespace: 13,000 of ten ratios."""
_OF_RATIO = 400
_OF_GROUP = 32
"""Bytes of memory that a ratio takes, and each group of it beside that."""


class Sizes:
    """Bytes by namespace and rule, and their sums."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[str, int]] = {}
        self._sums: dict[str, int] = {}

    def of(self, rule: ConfigMapName) -> int:
        """0 for one that has none."""
        return self._sizes.get(rule.namespace, {}).get(rule.name, 0)

    def number(self, namespace: str) -> int:
        """The rules of the namespace that have some."""
        return len(self._sizes.get(namespace, ()))

    def of_others(self, rule: ConfigMapName) -> int:
        """Those of all other rules of its namespace."""
        return self._sums.get(rule.namespace, 0) - self.of(rule)

    def put(self, rule: ConfigMapName, size: int) -> None:
        """Let the rule have so many."""
        self._sums[rule.namespace] = self.of_others(rule) + size
        self._sizes.setdefault(rule.namespace, {})[rule.name] = size

    def drop(self, rule: ConfigMapName) -> None:
        """Let the rule have none."""
        if rule.name not in self._sizes.get(rule.namespace, {}):
            return
        self._sums[rule.namespace] = self.of_others(rule)
        del self._sizes[rule.namespace][rule.name]
        if not self._sizes[rule.namespace]:
            del self._sizes[rule.namespace]
            del self._sums[rule.namespace]


class RulesInMemory(Sizes):
    """The bytes of the rules in force."""

    def has_place(self, rule: ConfigMapName, size: int) -> bool:
        """Whether a rule of so many bytes may be in force. What is no larger than the one before
        always may."""
        return size <= self.of(rule) or self.of_others(rule) + size <= MOST_IN_FORCE


def size_in_memory(rule: Rule) -> int:
    """Bytes of memory that the rule takes, roughly."""
    return len(rule.ratios) * (_OF_RATIO + _OF_GROUP * len(rule.groups))


class KeptRules:
    """The bytes of what is kept, by namespace and rule. `most`: documents of each namespace."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sizes = Sizes()

    def keep(self, rule: ConfigMapName, size: int) -> str:
        """Keep a document of so many bytes of this rule, in place of the one before; why it is not
        kept, in words, or "" when it is. The one before stays where the new one has no place."""
        why = self.why_not(rule, size)
        if not why:
            self._sizes.put(rule, size)
        return why

    def why_not(self, rule: ConfigMapName, size: int) -> str:
        """Why a document of so many bytes would not be kept, in words; "" when it would."""
        own = self._sizes.of(rule)
        number = self._sizes.number(rule.namespace)
        cure = (
            "while this process runs it stays in force; after that it is in force as long as the"
            " ConfigMap is there"
        )
        if size > MOST_OF_ONE:
            what = f"it has {size:,} bytes, compressed, and the limit is {MOST_OF_ONE:,}"
            return f"the rule is not kept: {what}; {cure}. Take out of it what is not a rule"
        if size <= own:
            return ""
        if not own and number >= self._most:
            what = f"{number:,} of namespace {rule.namespace} are kept (kept_per_namespace)"
        elif self._sizes.of_others(rule) + size > MOST_BYTES:
            what = f"the rules of namespace {rule.namespace} have {MOST_BYTES // 2**20} MiB"
        else:
            return ""
        more = "Delete jobs that name rules which nobody needs"
        return f"the rule is not kept: {what}, which is the limit; {cure}. {more}"

    def measured(self, rule: ConfigMapName, size: int) -> None:
        """What an earlier process kept of this rule has so many bytes; it stays, also beyond the
        limit."""
        self._sizes.put(rule, size)

    def forget(self, rule: ConfigMapName) -> None:
        """Nothing is kept of this rule any more."""
        self._sizes.drop(rule)
