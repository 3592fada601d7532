"""Which steps of a ladder make it a poor target for whoever scales it."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given

from scaler.rules.rule import Rule
from scaler.tools.lint.document import read_document
from scaler.tools.lint.files import lint
from scaler.tools.lint.source import Source
from scaler.tools.lint.steps import step_faults
from tests.builders import rule
from tests.rules.documents import config_map, text
from tests.rules.test_mixtures import ladders

STEEP = text({"group0": 4, "group1": 2}, {"group0": 1, "group1": 1})


@pytest.mark.parametrize(
    ("ladder", "steps"),
    [
        ("2P1D > 1P1D", []),
        ("2P2D > 1P1D", []),
        ("3P2D > 1P1D", []),
        ("3P3D > 1P1D", [("elastic_scaling_list", 0)]),
        ("9P9D > 3P3D > 1P1D", [("elastic_scaling_list", 0), ("elastic_scaling_list", 1)]),
        ("3P3D > 2P2D > 1P1D", []),
        ("3P > 1P", [("elastic_scaling_list", 0)]),
        ("9P9D", []),
    ],
)
def test_a_ratio_with_three_times_as_many_instances_as_the_next_is_too_high_a_step(
    ladder: str, steps: list[tuple[str, int]]
) -> None:
    assert [fault.path for fault in step_faults(rule(ladder))] == steps


@pytest.mark.parametrize(
    ("ladder", "between"),
    [
        ("4P2D > 1P1D", "2 group0 + 1 group1"),
        ("9P1D > 1P1D", "5 group0 + 1 group1"),
        ("1P1D1E > 1P", "1 group0 + 1 group1"),
    ],
)
def test_the_hint_names_a_ratio_that_lies_between_the_two(ladder: str, between: str) -> None:
    (fault,) = step_faults(rule(ladder))
    assert fault.hint == f"write ratios between the two, such as {between}"


@pytest.mark.parametrize(
    ("document", "line", "column"), [(STEEP, 4, 5), (config_map(STEEP), 11, 9)]
)
def test_lint_warns_at_the_ratio_itself_and_says_what_a_number_would_mean(
    document: str, line: int, column: int
) -> None:
    report = lint([Source("f", document.encode())])
    (finding,) = [one for one in report.findings if one.code == "HighStep"]
    assert (report.ok, finding.level, finding.pointer) == (
        True,
        "warning",
        "/elastic_scaling_list/0",
    )
    assert (finding.line, finding.column) == (line, column)
    assert (
        "6 instances here, 2 in the next ratio; whoever scales the service to 3 gets 6"
        in finding.message
    )


def test_two_ratios_with_as_many_instances_are_the_same_ratio_which_lint_says() -> None:
    same = text({"group0": 2, "group1": 1}, {"group0": 2, "group1": 1}, {"group0": 1, "group1": 1})
    _, found = read_document(same)
    assert [one.code for one in found] == ["EqualNeighbours"]
    _, found = read_document(text({"group0": 2, "group1": 1}, {"group0": 1, "group1": 2}))
    assert "GroupNumRising" in [one.code for one in found]


@given(ladders())
def test_what_the_hint_names_lies_between_the_two_ratios_in_every_group(ladder: Rule) -> None:
    assume(sum(ladder.smallest.counts.values()))
    for fault in step_faults(ladder):
        large, small = ladder.ratios[int(fault.path[-1]) :][:2]
        named = {name: int(number) for number, name in re.findall(r"(\d+) (group\d)", fault.hint)}
        assert all(small.of(name) <= named.get(name, 0) <= large.of(name) for name in ladder.groups)
        assert sum(small.counts.values()) < sum(named.values()) < sum(large.counts.values())
