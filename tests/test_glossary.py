"""The glossary: each name in it exists, both languages have the same words, and no page uses an old
word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scaler.decide.decision import State
from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning
from scaler.report.metrics import Metrics
from scaler.settings import Settings

ROOT = Path(__file__).parent.parent
ENGLISH = (ROOT / "docs/reference/glossary.md").read_text("utf-8")
CHINESE = (ROOT / "docs/zh/reference/glossary.md").read_text("utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

GIVEN_UP = {
    "floor": "minimum",
    "climb": "scale up",
    "climbs": "scales up",
    "reclaim": "revoke",
    "reclaims": "revokes",
    "muted": "in backoff",
    "lets? (it|them|those|one)( \\w+)? go": "release",
    "in hands": "with the scheduler",
    "spoil(s|t|ed)?": "invalidate",
    "pardon(s|ed)?": "reset",
    "to no use": "occupied, not serving",
    "(had|has|have) (its|their|a) turn": "had its attempt",
    "mixtures?": "combination",
    "room to come": "expected room",
    "slots?": "place in a ratio",
    "seats?": "bound pod",
    "(told|tell) (apart|by|from)": "distinguish, recognize",
    "mend(s|ed|ing)?": "fix, correct",
    "beyond doubt": "only one fix is possible",
    "(scheduler's|scaler's) hands": "with the scheduler",
}
"""Words of earlier versions as regular expressions, and those of today."""
QUOTES_OLD_WORDS = {"CHANGELOG.md"}


def rows(text: str) -> list[list[str]]:
    found = []
    for line in text.splitlines():
        if line.startswith("|"):
            found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found[2:]  # without head and rule


def metric_names() -> set[str]:
    families = Metrics().registry.collect()
    return {family.name + ("_total" if family.type == "counter" else "") for family in families}


def names(column: int = 2) -> set[str]:
    return {name for row in rows(ENGLISH) for name in re.findall(r"`([^`]+)`", row[column])}


def is_there(name: str, source: str) -> bool:
    """Whether somebody who looks for this name in the product finds it: the closed lists first,
    else the sources."""
    if name.startswith("scaler_"):
        return name in metric_names()
    if name.startswith("scaler "):
        return f'"{name.split()[1]}"' in source and all(
            f'"{word}"' in source for word in name.split()[2:]
        )
    if re.fullmatch(r"[A-Z][A-Za-z]+", name):
        return (
            name in {*Reason, *Warning, *State}
            or f'"{name}"' in source
            or f"class {name}(" in source
        )
    if "_" in name and name in Settings.model_fields:
        return True
    return name in source


@pytest.fixture(scope="module")
def source() -> str:
    return "".join(path.read_text("utf-8") for path in sorted((ROOT / "scaler").rglob("*.py")))


def test_every_name_of_the_glossary_exists(source: str) -> None:
    assert len(names()) > 40
    assert sorted(name for name in names() if not is_there(name, source)) == []


@pytest.mark.parametrize(
    "name", ["scaler_promises_total", "scaler guess", "NobodyKnowsWhy", "floor_timeout"]
)
def test_a_name_that_does_not_exist_is_noticed(name: str, source: str) -> None:
    assert not is_there(name, source)


def test_both_languages_have_the_same_words_in_the_same_order() -> None:
    assert [(row[0], row[3]) for row in rows(ENGLISH)] == [
        (row[3], row[0]) for row in rows(CHINESE)
    ]


def test_no_word_means_two_things_and_no_thing_has_two_words() -> None:
    words = [row[0] for row in rows(ENGLISH)]
    assert len(words) == len(set(words))
    assert len({row[3] for row in rows(ENGLISH)}) == len(words)


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_each_readme_links_the_glossary_in_its_first_paragraph(page: str) -> None:
    paragraphs = [
        part for part in (ROOT / page).read_text("utf-8").split("\n\n") if part[:1] not in "#["
    ]
    assert "reference/glossary.md)" in paragraphs[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_uses_a_word_that_was_given_up(page: Path) -> None:
    if page.name in QUOTES_OLD_WORDS:
        assert "Names, before the first release" in page.read_text("utf-8")
        return
    text = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", " ", page.read_text("utf-8"), flags=re.DOTALL)
    found = {word for word in GIVEN_UP if re.search(rf"\b{word}\b", text, re.IGNORECASE)}
    assert found == set()
