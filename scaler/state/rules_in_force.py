"""Which rule is in force: the ConfigMap as it is now, or the last valid one that was ever seen. No
I/O.

The deployer edits a rule by deleting and creating it, so a missing rule is a normal moment and
never a reason to forget. What must survive a restart leaves here as a `LastValid`, which
report.reporter stores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec
import structlog

from scaler.decide.world import RuleProblem
from scaler.informers.config_maps import ConfigMapRecord, unpack
from scaler.names import RULE_KEY
from scaler.reasons.warnings import Warning
from scaler.remembered import Remembered
from scaler.rules.document import RuleReading, read_rule, unread
from scaler.rules.finding import Finding
from scaler.rules.rule import Rule, RuleOptions
from scaler.state.last_valid import KNOWN_FORMAT, LastValid, last_valid_of

MOST_GROUPS = 2**20
"""Bytes of the groups of documents that are remembered."""
_log = structlog.get_logger("rules")


class RuleInForce(msgspec.Struct, frozen=True, gc=False):
    """The rule in force of a service. `rule` is None when no valid rule was ever seen."""

    rule: Rule | None = None
    options: RuleOptions = RuleOptions()
    problem: RuleProblem | None = None
    findings: tuple[Finding, ...] = ()
    uid: str = ""
    """uid of the ConfigMap that exists now, "" when none does."""
    last_valid: LastValid | None = None


class RulesInForce:
    """Rules by namespace and name, each read once per version."""

    def __init__(
        self,
        config_map: Callable[[str, str], ConfigMapRecord | None],
        stored: Callable[[str, str], LastValid | None],
    ) -> None:
        """`config_map(namespace, rule)` is the cache's; `stored` reads back what an earlier process
        left."""
        self._config_map = config_map
        self._stored = stored
        self._ask: Callable[[str, str], None] = lambda _namespace, _name: None
        self._known: dict[tuple[str, str], tuple[str, RuleInForce]] = {}

    def ask_of(self, ask: Callable[[str, str], None]) -> None:
        """Have `ask` called for a rule whose document the cache has left out: `read` gets it."""
        self._ask = ask

    def follow(self, namespace: str, name: str) -> RuleInForce:
        """Take in the ConfigMap as it is now, and remember its rule if that is valid: the rule in
        force from now on."""
        record = self._config_map(namespace, name)
        version = record.version if record else ""
        known = self._known.get((namespace, name))
        if known is not None and known[0] == version:
            return known[1]
        if record is not None and record.left_out:
            self._ask(namespace, name)
            if known is not None:
                return known[1]
            words = f"ConfigMap {namespace}/{name} is being read"
            return _without(words, self._last_valid(namespace, name))
        last_valid = self._last_valid(namespace, name)
        if record is None:
            current = _without(f"ConfigMap {namespace}/{name} does not exist", last_valid)
        else:
            current = _read(record, last_valid)
        self._known[namespace, name] = (version, current)
        return current

    def lacks(self, namespace: str, name: str) -> bool:
        """Whether the cache has left out the present version, and it was not read since."""
        record = self._config_map(namespace, name)
        if record is None or not record.left_out:
            return False
        known = self._known.get((namespace, name))
        return known is None or known[0] != record.version

    def read(self, record: ConfigMapRecord) -> None:
        """Take in a ConfigMap that the cache has left out, as the API server answers it."""
        name = (record.namespace, record.name)
        self._known[name] = (record.version, _read(record, self._last_valid(*name)))

    def _last_valid(self, namespace: str, name: str) -> LastValid | None:
        known = self._known.get((namespace, name))
        return known[1].last_valid if known else self._left(namespace, name)

    def _left(self, namespace: str, name: str) -> LastValid | None:
        """What an earlier process left, unless it is beyond what is valid now, or a later
        release's."""
        stored = self._stored(namespace, name)
        if stored is not None and stored.format != KNOWN_FORMAT:
            so = "it is left as it is until a valid rule is seen, and none is in force before"
            words = {"namespace": namespace, "rule": name, "format": stored.format}
            _log.warning(
                "the last valid rule is of a later release", **words, known=KNOWN_FORMAT, so=so
            )
        return stored if stored is not None and _reread(stored).rule is not None else None

    def knows(self, namespace: str, name: str) -> bool:
        """Whether there is such a ConfigMap, or a valid one was ever seen."""
        known = self._known.get((namespace, name))
        seen = known is not None and known[1].rule is not None
        return (
            seen
            or self._config_map(namespace, name) is not None
            or self._stored(namespace, name) is not None
        )

    def forget(self, namespace: str, name: str) -> None:
        """No job names the rule any more."""
        self._known.pop((namespace, name), None)


def _without(words: str, last_valid: LastValid | None) -> RuleInForce:
    """The rule in force while there is no ConfigMap to read; `words` say why."""
    if last_valid is None:
        return RuleInForce(
            problem=RuleProblem(Warning.RULE_MISSING, f"{words}, and no valid one was seen before")
        )
    reading = _reread(last_valid)
    problem = RuleProblem(Warning.RULE_MISSING, f"{words}: the last valid rule stays in force")
    return RuleInForce(reading.rule, reading.options, problem, last_valid=last_valid)


def _read(record: ConfigMapRecord, last_valid: LastValid | None) -> RuleInForce:
    annotations, inherited = _annotations(record, last_valid)
    if record.oversize:
        return _invalid(record, unread(record.oversize, annotations), last_valid)
    document = record.document
    data = dict.fromkeys(record.keys, "")
    if document is not None:
        data[RULE_KEY] = document
    reading = read_rule(data, record.binary_keys, annotations)
    if reading.rule is None or document is None:
        return _invalid(record, reading, last_valid)
    valid = last_valid_of(
        document, annotations, record.uid, inherited=inherited, packed=record.packed
    )
    return RuleInForce(reading.rule, reading.options, None, reading.warnings, record.uid, valid)


def _invalid(
    record: ConfigMapRecord, reading: RuleReading, last_valid: LastValid | None
) -> RuleInForce:
    """Its annotations count all the same: a person who pauses a broken rule means it."""
    first = reading.errors[0]
    more = f" (and {len(reading.errors) - 1} more)" if len(reading.errors) > 1 else ""
    words = str(msgspec.structs.replace(first, message=first.message + more))
    rule = None
    if last_valid is not None:
        rule = _reread(last_valid).rule
        words = f"{words}; the last valid rule stays in force"
    problem = RuleProblem(Warning.RULE_INVALID, words)
    return RuleInForce(
        rule, reading.options, problem, reading.errors + reading.warnings, record.uid, last_valid
    )


def _reread(last_valid: LastValid) -> RuleReading:
    return read_rule({RULE_KEY: last_valid.document}, (), last_valid.annotations)


def _annotations(
    record: ConfigMapRecord, last_valid: LastValid | None
) -> tuple[dict[str, str], bool]:
    """The annotations in force, and whether they are inherited from a ConfigMap that this one
    replaced.

    A deployer that deletes and creates the rule does not know of them; a person who takes one off
    in place does."""
    if record.annotations or last_valid is None:
        return record.annotations, False
    replaced = last_valid.rule_uid != record.uid
    if last_valid.annotations and (replaced or last_valid.inherited):
        return dict(last_valid.annotations), True
    return {}, False


def groups_of(record: ConfigMapRecord | None) -> tuple[str, ...] | None:
    """The groups of a rule as it is now, for admission, which may come before the caches are
    filled; None where it is missing or not valid."""
    return _groups_of(record.packed) if record is not None and record.packed else None


_groups: Remembered[bytes, tuple[str, ...]] = Remembered(MOST_GROUPS)
"""The groups of a document, by its digest; none for one that is no rule."""


def _groups_of(packed: bytes) -> tuple[str, ...] | None:
    digest = hashlib.sha256(packed).digest()
    known = _groups.get(digest)
    if known is None:
        rule = read_rule({RULE_KEY: unpack(packed)}, (), {}).rule
        known = _groups.keep(digest, rule.groups if rule is not None else ())
    return known or None
