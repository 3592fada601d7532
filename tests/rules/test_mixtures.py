"""Which combinations a rule leaves open: counted by hand, and against every combination."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.rules.rule import Ratio, Rule
from scaler.tools.common.mixtures import Mixtures, in_words, mixtures
from scaler.tools.lint.files import lint
from scaler.tools.lint.source import Source
from tests.builders import rule
from tests.rules.documents import TWO_TO_ONE, config_map, text

FOUR = text({"group0": 4, "group1": 2}, {"group0": 2, "group1": 2}, {"group0": 1, "group1": 1})


@pytest.mark.parametrize(
    ("ladder", "number", "example"),
    [
        ("4P2D > 2P2D > 1P1D", 5, {"group0": 4, "group1": 1}),
        ("1P3D > 1P2D > 1P1D", 0, {}),
        ("2P1D > 1P1D", 0, {}),
        ("3P1D > 1P1D", 1, {"group0": 2, "group1": 1}),
        ("2P2D > 1P1D", 2, {"group0": 2, "group1": 1}),
        ("1P2D > 1P1D > 1P1D", 0, {}),
        ("2P1D > 1P", 2, {"group0": 2, "group1": 0}),
    ],
)
def test_combinations_between_smallest_and_largest_that_no_ratio_is_are_counted(
    ladder: str, number: int, example: dict[str, int]
) -> None:
    assert mixtures(rule(ladder)) == (Mixtures(number, example) if number else None)


@st.composite
def ladders(draw: st.DrawFn) -> Rule:
    groups = [f"group{number}" for number in range(draw(st.integers(1, 3)))]
    counts = {name: draw(st.integers(1, 5)) for name in groups}
    found = [Ratio(counts, {})]
    for _ in range(draw(st.integers(0, 4))):
        counts = {name: draw(st.integers(0, number)) for name, number in counts.items()}
        found.append(Ratio(counts, {}))
    return Rule(tuple(found))


@given(ladders())
def test_number_and_example_are_those_of_every_combination(ladder: Rule) -> None:
    ranges = [
        range(ladder.smallest.of(name), ladder.largest.of(name) + 1) for name in ladder.groups
    ]
    named = set()
    for ratio in ladder.ratios:
        named.add(tuple(ratio.of(name) for name in ladder.groups))
    unnamed = [
        combination for combination in itertools.product(*ranges) if combination not in named
    ]
    found = mixtures(ladder)
    assert (found.number if found else 0) == len(unnamed)
    assert found is None or tuple(found.example.values()) in unnamed


def test_one_mixture_is_said_by_itself_and_several_by_an_example() -> None:
    assert in_words(Mixtures(1, {"p": 2, "d": 1})) == (
        "1 combination that no ratio names can run while instances are lost or find no room:"
        " 2 p + 1 d"
    )
    assert in_words(Mixtures(1200, {"p": 2})).endswith("find no room, such as 2 p")


@pytest.mark.parametrize("document", [FOUR, config_map(FOUR)], ids=["bare", "ConfigMap"])
def test_lint_says_it_of_a_users_rule_and_finds_nothing_wrong_with_it(document: str) -> None:
    report = lint([Source("f", document.encode())])
    (finding,) = report.findings
    assert (report.ok, finding.level, finding.code, finding.file) == (
        True,
        "info",
        "MixturePossible",
        "f",
    )
    assert finding.line == (1 if document == FOUR else 7)
    assert "5 combinations" in finding.message
    assert "4 group0 + 1 group1" in finding.message
    assert "mind-cluster/trade" in finding.hint


@pytest.mark.parametrize(
    "document", [TWO_TO_ONE, config_map(TWO_TO_ONE), FOUR.replace('"2"', "2", 1)]
)
def test_lint_is_silent_where_no_mixture_is_open_or_the_rule_has_errors(document: str) -> None:
    assert "MixturePossible" not in [
        found.code for found in lint([Source("f", document.encode())]).findings
    ]
