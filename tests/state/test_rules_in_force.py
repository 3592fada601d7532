"""Which rule is in force: the present one, the last valid one, and whose annotations."""

from __future__ import annotations

import msgspec
import pytest

from scaler.informers.config_maps import ConfigMapRecord, pack
from scaler.reasons.warnings import Warning
from scaler.remembered import Remembered
from scaler.state import kept_rules, rules_in_force
from scaler.state.kept_rules import KeptRules
from scaler.state.last_valid import LastValid, last_valid_of
from scaler.state.rules_in_force import RuleInForce, RulesInForce, groups_of
from tests.jobs import TWO_P_ONE_D, rule_document

PAUSED = {"mind-cluster/paused": "true"}


def record(
    document: str = TWO_P_ONE_D, *, uid: str = "a", version: int = 1, **annotations: str
) -> ConfigMapRecord:
    named = {f"mind-cluster/{key}": value for key, value in annotations.items()}
    keys = ("elastic_scaling.json",)
    packed = pack(document)
    return ConfigMapRecord("n", "rule", uid, str(version), keys, (), packed, named, None)


class Shelf:
    """A RulesInForce over one ConfigMap that the test exchanges."""

    def __init__(self, stored: LastValid | None = None) -> None:
        self.record: ConfigMapRecord | None = None
        self.book = RulesInForce(
            lambda _namespace, _name: self.record,
            lambda _namespace, _name: stored,
            KeptRules(9),
        )

    def put(self, record: ConfigMapRecord | None) -> RuleInForce:
        self.record = record
        return self.book.follow("n", "rule")


def test_a_valid_rule_is_in_force() -> None:
    found = Shelf().put(record())
    assert found.rule is not None
    assert (found.problem, found.uid) == (None, "a")


def test_a_rule_never_seen_leaves_nothing_in_force() -> None:
    found = Shelf().put(None)
    assert found.rule is None
    assert found.problem is not None
    assert found.problem.kind is Warning.RULE_MISSING


def test_a_broken_edit_leaves_the_last_valid_rule_in_force_and_says_where_it_is_broken() -> None:
    shelf = Shelf()
    before = shelf.put(record()).rule
    found = shelf.put(record("{\n#", version=2))
    assert found.rule == before
    assert found.problem is not None
    assert "line 2" in found.problem.message
    assert "; ;" not in shelf.put(record('{"a" "b", "c": 1}', version=3)).problem.message  # type: ignore[union-attr]


def test_a_rule_without_its_key_names_no_place_in_a_text_that_is_not_there() -> None:
    found = Shelf().put(ConfigMapRecord("n", "rule", "a", "1", (), (), b"", {}, None))
    assert found.problem is not None
    assert found.problem.message.startswith("the ConfigMap has no key elastic_scaling.json")


def test_a_deleted_rule_leaves_the_last_valid_one_in_force() -> None:
    shelf = Shelf()
    before = shelf.put(record()).rule
    found = shelf.put(None)
    assert (found.rule, found.uid) == (before, "")


def test_a_restart_reads_back_what_the_process_before_kept() -> None:
    kept = last_valid_of(TWO_P_ONE_D, PAUSED, "a")
    found = Shelf(kept).put(None)
    assert found.rule is not None
    assert found.options.paused


def test_a_stored_document_that_is_no_rule_is_not_believed() -> None:
    assert Shelf(last_valid_of("{", {}, "a")).put(None).rule is None


def test_a_rule_created_again_without_annotations_inherits_them() -> None:
    shelf = Shelf()
    shelf.put(record(paused="true"))
    shelf.put(None)
    assert shelf.put(record(uid="b", version=3)).options.paused
    assert shelf.put(record(rule_document({"group0": 1}), uid="b", version=4)).options.paused


def test_an_annotation_taken_off_in_place_is_off() -> None:
    shelf = Shelf()
    shelf.put(record(paused="true"))
    assert not shelf.put(record(version=2)).options.paused


def test_a_rule_created_again_with_annotations_has_its_own() -> None:
    shelf = Shelf()
    shelf.put(record(paused="true"))
    found = shelf.put(record(uid="b", version=3, trade="off"))
    assert not found.options.paused


def test_pausing_a_broken_rule_pauses() -> None:
    shelf = Shelf()
    shelf.put(record())
    assert shelf.put(record("{", version=2, paused="true")).options.paused


def test_a_version_is_read_once() -> None:
    shelf = Shelf()
    assert shelf.put(record()) is shelf.put(record())


def test_admission_learns_the_groups_of_a_valid_rule_and_of_no_other() -> None:
    assert groups_of(record()) == ("group0", "group1")
    assert groups_of(record("{")) is None
    assert groups_of(None) is None


def test_a_new_version_is_read_anew_and_an_old_one_is_not_read_again() -> None:
    assert groups_of(record()) is groups_of(record())
    assert groups_of(record(rule_document({"prefill": 1}), version=2)) == ("prefill",)


def test_however_many_rules_there_are_the_memory_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rules_in_force, "_groups", Remembered(20_000))
    for number in range(200):
        assert groups_of(record(rule_document({f"group-{number}": 1}))) == (f"group-{number}",)
    assert 10 < len(rules_in_force._groups) < 100


def test_the_rules_in_force_of_one_namespace_take_a_limited_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job that names one more is told how much it is and what to do. What is in force stays, also
    when it is edited, and the room of what no job names is there again."""
    monkeypatch.setattr(kept_rules, "MOST_IN_FORCE", 2_000)
    many = rule_document(*({"group0": number} for number in range(4, 0, -1)))

    def named(name: str, text: str, version: int = 1) -> ConfigMapRecord:
        made = record(text, uid=name, version=version)
        return msgspec.structs.replace(made, name=name)

    records = {name: named(name, many) for name in "ab"}
    book = RulesInForce(
        lambda _namespace, name: records.get(name), lambda _namespace, _name: None, KeptRules(9)
    )
    first = book.follow("n", "a")
    assert first.problem is None
    second = book.follow("n", "b")
    assert second.rule is None
    assert second.problem is not None
    assert second.problem.message.startswith("the rules of namespace n would take more than")
    assert book.follow("n", "b") is second
    records["a"] = named("a", TWO_P_ONE_D, 2)
    assert book.follow("n", "a").problem is None, "what is smaller has a place"
    records["a"] = named("a", many, 3)
    assert book.follow("n", "a").rule is not None
    book.forget("n", "a")
    assert book.follow("n", "b").problem is None
