"""What admission is told about a rule's groups."""

from __future__ import annotations

from scaler.informers.config_maps import ConfigMapRecord
from scaler.state import rule_groups
from scaler.state.rule_groups import RuleGroups
from tests.jobs import TWO_P_ONE_D, rule_document
from tests.state.test_rules_in_force import record


def test_a_valid_rule_has_its_groups_and_others_none() -> None:
    found = {"rule": record(), "broken": record("{")}
    groups = RuleGroups(lambda _namespace, name: found.get(name))
    assert groups.of("n", "rule") == ("group0", "group1")
    assert groups.of("n", "broken") is None
    assert groups.of("n", "missing") is None


def test_a_new_version_is_read_anew_and_an_old_one_is_not_read_again() -> None:
    now: dict[str, ConfigMapRecord] = {"rule": record(TWO_P_ONE_D, version=1)}
    groups = RuleGroups(lambda _namespace, name: now[name])
    assert groups.of("n", "rule") is groups.of("n", "rule")
    now["rule"] = record(rule_document({"prefill": 1}), version=2)
    assert groups.of("n", "rule") == ("prefill",)


def test_however_many_rules_there_are_the_memory_is_bounded() -> None:
    groups = RuleGroups(lambda _namespace, _name: record())
    for number in range(2 * rule_groups.LIMIT + 5):
        assert groups.of("n", f"rule-{number}") == ("group0", "group1")
    assert len(groups._known) <= rule_groups.LIMIT
