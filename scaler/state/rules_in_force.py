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
from scaler.rules.document import RuleReading, read_options, read_rule, unread
from scaler.rules.finding import Finding
from scaler.rules.rule import Rule, RuleOptions
from scaler.state.kept_rules import MOST_IN_FORCE, KeptRules, RulesInMemory, size_in_memory
from scaler.state.last_valid import KNOWN_FORMAT, ConfigMapName, LastValid, last_valid_of

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
    """Without its text where that is not kept."""
    not_kept: str = ""
    """Why the text is not kept, in words; "" when it is."""
    size_not_kept: int = 0
    """Bytes of the present text if it is not kept, compressed."""
    size_refused: int = 0
    """Bytes of memory that the present rule would take, if its namespace has no place for it."""


class RulesInForce:
    """Rules by namespace and name, each read once per version."""

    def __init__(
        self,
        config_map: Callable[[str, str], ConfigMapRecord | None],
        stored: Callable[[str, str], LastValid | None],
        places: KeptRules,
    ) -> None:
        """`config_map(namespace, rule)` is the cache's; `stored` reads back what an earlier process
        left; `places` says what is kept."""
        self._config_map = config_map
        self._stored = stored
        self._places = places
        self._in_memory = RulesInMemory()
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
        if (
            known is not None
            and known[0] == version
            and not self._has_place_by_now(namespace, name)
        ):
            return known[1]
        if record is not None and record.left_out:
            self._ask(namespace, name)
            if known is not None:
                return known[1]
            words = f"ConfigMap {namespace}/{name} is being read"
            return _without(words, self._before(namespace, name))
        if record is not None:
            return self.read(record)
        words = f"ConfigMap {namespace}/{name} does not exist"
        current = _without(words, self._before(namespace, name))
        self._known[namespace, name] = (version, current)
        return current

    def read(self, record: ConfigMapRecord) -> RuleInForce:
        """Take in a ConfigMap with its document: the rule in force from now on."""
        rule = ConfigMapName(record.namespace, record.name)
        before = self._before(*rule)
        current = _read(record, before)
        if current.problem is None and current.rule is not None:
            size = size_in_memory(current.rule)
            if self._in_memory.has_place(rule, size):
                self._in_memory.put(rule, size)
            else:
                current = _refused(current, before, rule, size)
        if current.problem is None and current.last_valid is not None:
            current = self._kept(rule, current, current.last_valid)
        self._known[rule] = (record.version, current)
        return current

    def lacks(self, namespace: str, name: str) -> bool:
        """Whether the cache has left out the present version, and it was not read since, or was not
        kept and has a place by now."""
        record = self._config_map(namespace, name)
        if record is None or not record.left_out:
            return False
        known = self._known.get((namespace, name))
        if known is None or known[0] != record.version:
            return True
        return self._has_place_by_now(namespace, name)

    def _kept(self, rule: ConfigMapName, current: RuleInForce, valid: LastValid) -> RuleInForce:
        """The rule, whose text is kept if its namespace has a place for it, else dropped."""
        size = len(valid.packed)
        why = self._places.keep(rule, size)
        if not why:
            return current
        without_text = msgspec.structs.replace(valid, packed=b"")
        return msgspec.structs.replace(
            current, last_valid=without_text, not_kept=why, size_not_kept=size
        )

    def _has_place_by_now(self, namespace: str, name: str) -> bool:
        """Whether this rule was not put in force, or its text not kept, for lack of a place, and
        has one by now."""
        known = self._known.get((namespace, name))
        if known is None:
            return False
        rule = ConfigMapName(namespace, name)
        if known[1].size_refused:
            return self._in_memory.has_place(rule, known[1].size_refused)
        size = known[1].size_not_kept
        return bool(size) and not self._places.why_not(rule, size)

    def _before(self, namespace: str, name: str) -> RuleInForce:
        """What was in force until now: as this process knows it, or as an earlier one left it."""
        known = self._known.get((namespace, name))
        if known is not None:
            return known[1]
        stored = self._left(namespace, name)
        if stored is None:
            return RuleInForce()
        rule = _reread(stored).rule
        self._places.measured(ConfigMapName(namespace, name), len(stored.packed))
        if rule is not None:
            self._in_memory.put(ConfigMapName(namespace, name), size_in_memory(rule))
        return RuleInForce(rule, last_valid=stored)

    def _left(self, namespace: str, name: str) -> LastValid | None:
        """What an earlier process left, unless it is beyond what is valid now, or a later
        release's."""
        stored = self._stored(namespace, name)
        if stored is None:
            return None
        if stored.format != KNOWN_FORMAT:
            so = "it is left as it is until a valid rule is seen, and none is in force before"
            words = {"namespace": namespace, "rule": name, "format": stored.format}
            _log.warning(
                "the last valid rule is of a later release", **words, known=KNOWN_FORMAT, so=so
            )
            return None
        return stored if _reread(stored).rule is not None else None

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
        self._places.forget(ConfigMapName(namespace, name))
        self._in_memory.drop(ConfigMapName(namespace, name))


def _without(words: str, before: RuleInForce) -> RuleInForce:
    """The rule in force while there is no ConfigMap to read; `words` say why."""
    last_valid = before.last_valid
    if last_valid is None:
        return RuleInForce(
            problem=RuleProblem(Warning.RULE_MISSING, f"{words}, and no valid one was seen before")
        )
    options, _ = read_options(last_valid.annotations)
    problem = RuleProblem(Warning.RULE_MISSING, f"{words}: the last valid rule stays in force")
    return RuleInForce(
        before.rule, options, problem, last_valid=last_valid, not_kept=before.not_kept
    )


def _read(record: ConfigMapRecord, before: RuleInForce) -> RuleInForce:
    annotations, inherited = _annotations(record, before.last_valid)
    if record.oversize:
        return _invalid(record, unread(record.oversize, annotations), before)
    document = record.document
    data = dict.fromkeys(record.keys, "")
    if document is not None:
        data[RULE_KEY] = document
    reading = read_rule(data, record.binary_keys, annotations)
    if reading.rule is None or document is None:
        return _invalid(record, reading, before)
    valid = last_valid_of(
        document, annotations, record.uid, inherited=inherited, packed=record.packed
    )
    return RuleInForce(reading.rule, reading.options, None, reading.warnings, record.uid, valid)


def _invalid(record: ConfigMapRecord, reading: RuleReading, before: RuleInForce) -> RuleInForce:
    """Its annotations count all the same: a person who pauses a broken rule means it."""
    first = reading.errors[0]
    more = f" (and {len(reading.errors) - 1} more)" if len(reading.errors) > 1 else ""
    words = str(msgspec.structs.replace(first, message=first.message + more))
    if before.last_valid is not None:
        words = f"{words}; the last valid rule stays in force"
    return RuleInForce(
        before.rule,
        reading.options,
        RuleProblem(Warning.RULE_INVALID, words),
        reading.errors + reading.warnings,
        record.uid,
        before.last_valid,
        before.not_kept,
    )


def _refused(
    current: RuleInForce, before: RuleInForce, rule: ConfigMapName, size: int
) -> RuleInForce:
    """What is in force instead of a valid rule for which its namespace has no place."""
    words = (
        f"the rules of namespace {rule.namespace} would take more than"
        f" {MOST_IN_FORCE // 2**20} MiB of memory with ConfigMap {rule.name}, which has"
        f" {size:,} bytes: write fewer ratios, or delete jobs that name rules which nobody needs"
    )
    if before.rule is not None:
        words = f"{words}; the last valid rule stays in force"
    return RuleInForce(
        before.rule,
        current.options,
        RuleProblem(Warning.RULE_INVALID, words),
        current.findings,
        current.uid,
        before.last_valid,
        before.not_kept,
        size_refused=size,
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
