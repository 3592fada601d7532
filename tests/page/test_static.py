"""The page's files: languages that say the same, a library as it was published, no way to run what
a tenant wrote."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from scaler.decide.decision import State
from scaler.reasons.reasons import Reason
from scaler.reasons.said import LANGUAGES
from scaler.reasons.warnings import Warning
from scaler.reasons.words import words_for_page
from scaler.report import service_status
from scaler.report.service_events import ServiceEventReason
from scaler.tools.ui.server import STATIC
from scaler.workloads.scheduler_words import REASONS
from tests.page import pictures

ROOT = Path(__file__).parent.parent.parent
VENDOR = STATIC / "vendor"
OURS = sorted(STATIC.glob("*.js"))
WORDS = {
    language: json.loads((STATIC / f"words-{language}.json").read_text("utf-8"))
    for language in ("en", "zh")
}
for each in LANGUAGES:
    WORDS[each] |= words_for_page(each)["words"]
SENTENCES = {
    **json.loads((STATIC / "sentences-zh.json").read_text("utf-8")),
    **words_for_page("zh")["sentences"],
}
STANDINGS = {
    "Complete",
    "Incomplete",
    "MinimumRuns",
    "NoJobs",
    "NothingLost",
    "OutOfTouch",
    "Valid",
}
"""What report.service_status says of a whole service, beside reasons and warnings."""
CODE = {file.name: file.read_text("utf-8") for file in OURS}


def test_both_languages_have_the_same_keys_and_blanks() -> None:
    def blanks(words: dict[str, str]) -> dict[str, set[str]]:
        return {key: set(re.findall(r"\{\w+\}", text)) for key, text in words.items()}

    assert blanks(WORDS["en"]) == blanks(WORDS["zh"])


def test_every_text_is_there_and_translated() -> None:
    assert [
        key for words in WORDS.values() for key, text in words.items() if not text.strip()
    ] == []
    same = {key for key, text in WORDS["en"].items() if text == WORDS["zh"][key]}
    assert same == {"col.pod", "state.node.notReady"}


def test_every_reason_warning_and_state_has_words() -> None:
    names = {f"reason.{one.value}" for one in (*Reason, *Warning, *ServiceEventReason)} | {
        f"state.{one.value}" for one in State
    }
    assert names - WORDS["en"].keys() == set()


def test_every_reason_warning_event_and_standing_has_a_chinese_sentence() -> None:
    ours = {one.value for one in (*Reason, *Warning, *ServiceEventReason)}
    assert SENTENCES.keys() == ours | STANDINGS | {service_status.RESTING, *REASONS}
    assert [
        name for name, text in SENTENCES.items() if not re.search(r"[\u4e00-\u9fff].*。$", text)
    ] == []


def test_the_page_knows_what_the_scheduler_says_in_the_words_of_a_status() -> None:
    code = (STATIC / "words.js").read_text("utf-8")
    (found,) = re.findall(r"/\(([\w|]+)\)Failed/", code)
    assert {f"{name}Failed" for name in found.split("|")} == set(REASONS)


def test_every_finding_about_a_rule_has_a_chinese_sentence() -> None:
    """Those of docs/reference/rule.md that a rule by itself can have."""
    page = (ROOT / "docs" / "reference" / "rule.md").read_text("utf-8")
    tables = page.partition("| `NotJson` |")[2].partition("| `TooManyFindings` |")[0]
    codes = set()
    for row in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", tables, re.MULTILINE):
        codes |= set(re.findall(r"`(\w+)`", row))
    found = json.loads((STATIC / "findings-zh.json").read_text("utf-8"))
    assert found.keys() == codes - {"HighStep"} | {"NotJson", "TooManyFindings"}
    assert [
        code for code, text in found.items() if not re.search(r"[\u4e00-\u9fff].*。$", text)
    ] == []


def test_the_standings_are_those_that_the_controller_says() -> None:
    code = Path(service_status.__file__).read_text("utf-8").partition("# Scaling\n")[0]
    assert set(re.findall(r'Statement\("(\w+)"', code)) == STANDINGS


def test_the_code_says_only_what_is_in_the_dictionary() -> None:
    used = {key for code in CODE.values() for key in re.findall(r"""say\("([\w.]+)"[,)]""", code)}
    assert len(used) > 60
    assert used - WORDS["en"].keys() == set()


def test_nothing_in_the_dictionary_is_unused() -> None:
    code = "".join(CODE.values())
    made = (
        "reason.",
        "state.",
        "rank.",
        "condition.",
        "tab.",
        "link.",
        "part.",
        "deed.",
        "moment.",
        "section.",
        "sort.",
        "try.aim.",
    )
    assert [key for key in WORDS["en"] if f'"{key}"' not in code and not key.startswith(made)] == []


@pytest.mark.parametrize("file", OURS, ids=lambda file: file.name)
def test_no_text_becomes_html_or_code(file: Path) -> None:
    found = re.findall(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySet|\beval\b|new"
        r" Function|srcdoc"
        r"|javascript:|href=\$\{(?!href\})",
        CODE[file.name],
    )
    assert found == []


def test_nothing_is_loaded_from_anywhere_else() -> None:
    files = [*OURS, STATIC / "index.html", STATIC / "style.css"]
    links = {
        file.name: re.findall(r"https?://[^\s\"']+|@import|url\(", file.read_text("utf-8"))
        for file in files
    }
    assert {name: found for name, found in links.items() if found} == {}
    assert "<script>" not in (STATIC / "index.html").read_text("utf-8")


def test_the_library_is_as_it_was_published() -> None:
    listed = dict(
        re.findall(
            r"^\| `([\w.-]+)` \|.*\| `([0-9a-f]{64})` \|$",
            (VENDOR / "README.md").read_text(),
            re.MULTILINE,
        )
    )
    there = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in VENDOR.iterdir()}
    del there["README.md"]
    assert listed == there


def test_the_pictures_in_the_documents_show_the_page_as_it_is() -> None:
    assert pictures.MADE_OF.read_text() == pictures.sources(), (
        "the page is another one than when its pictures were taken: run `make page-pictures`"
    )


PAIRS = (
    ("faint", "surface"),
    ("faint", "ground"),
    ("ink", "surface"),
    ("soft", "surface"),
    ("soft", "ground"),
    ("accent", "surface"),
    ("bad", "surface"),
    ("bad", "bad-soft"),
    ("warn", "warn-soft"),
    ("good", "surface"),
)


def test_colours_are_told_apart_by_more_than_colour() -> None:
    """Contrast of words on their ground, as WCAG counts it: at least 4.5 in both themes."""
    style = (STATIC / "style.css").read_text("utf-8")
    themes = re.findall(r"\{\s*(--ground:.*?color-scheme: \w+;)", style, re.DOTALL)
    assert len(themes) == 3
    for theme in themes:
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", theme))
        for front, back in PAIRS:
            assert contrast(colours[front], colours[back]) >= 4.5, (front, back, theme[-20:])


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
