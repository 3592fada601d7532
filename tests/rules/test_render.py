from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scaler.rules.finding import Finding
from scaler.tools.common.render import WINDOW, render


def shown(line: str, column: int, **options: bool) -> list[str]:
    finding = Finding("Code", ("a",), "words", "do this").at(1, column, "f.yaml")
    return render([finding], {"f.yaml": line}, color=options.get("color", False)).splitlines()


def test_a_finding_is_shown_as_a_compiler_shows_it() -> None:
    assert shown('"a": 1,', 6) == [
        "f.yaml:1:6: error: Code words",
        '    "a": 1,',
        "         ^",
        "    hint: do this",
    ]


def test_the_caret_stands_under_the_fault_behind_wide_characters_and_tabs() -> None:
    assert shown("说明\t#", 4)[1:3] == ["    说明 #", "         ^"]


def test_of_a_long_line_the_part_around_the_fault_is_shown() -> None:
    _, line, caret, _ = shown("x" * 500 + "!" + "y" * 500, 501)
    assert len(line) <= WINDOW + 6
    assert line[len(caret) - 1] == "!"


def test_colours_are_there_only_when_asked_for() -> None:
    assert "\x1b" in "".join(shown("a", 1, color=True))
    assert "\x1b" not in "".join(shown("\x1b[31ma", 1))


def test_a_finding_without_place_or_text_shows_what_it_has() -> None:
    finding = Finding("Code", (), "words", level="warning", file="f")
    assert render([finding], {}, color=False) == "f: warning: Code words\n"


@given(st.text(max_size=300), st.integers(1, 300))
def test_any_line_can_be_shown(line: str, column: int) -> None:
    assert all("\x1b" not in part for part in shown(line, column))
