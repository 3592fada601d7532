"""Facts in the pages that a look at the code can check: files that they name, defaults that they quote."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler.settings import Settings

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BY_NAME = {
    path.name for folder in ("scaler", "tests", "docs", "manifests", "schemas") for path in (ROOT / folder).rglob("*")
}
UNITS = {"s": 1.0, "seconds": 1.0, "minutes": 60.0, "min": 60.0, "hour": 3600.0}
EXAMPLES = {"scaler/workloads/KIND.py"}
"""Names that stand for the reader's own."""


def named_files(text: str) -> Iterator[str]:
    """Python files in code spans, fences left out. Files of other suffixes may be the reader's own."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for span in re.findall(r"`([^`\n]+)`", prose):
        yield from re.findall(r"[\w/.*-]+\.py\b", span)


def exists(name: str) -> bool:
    if "/" not in name:
        return name in BY_NAME
    return any(next(iter(base.glob(name)), None) is not None for base in (ROOT, ROOT / "scaler"))


def quoted_defaults(text: str) -> Iterator[tuple[str, float]]:
    """Setting and seconds of each quoted default, in a sentence or as the row of a table."""
    for number, unit, name in re.findall(r"(\d+) (s|seconds|minutes|min) \((?:setting )?`(\w+)`", text):
        yield name, float(number) * UNITS[unit]
    for name, number, unit in re.findall(r"^\| `(\w+)` \| (\d+) (s|min) \|", text, re.MULTILINE):
        yield name, float(number) * UNITS[unit]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_python_file_that_a_page_names_exists(page: Path) -> None:
    assert [name for name in named_files(page.read_text("utf-8")) if name not in EXAMPLES and not exists(name)] == []


def test_every_default_that_a_page_quotes_is_the_settings_default() -> None:
    found = [(page.name, *quote) for page in PAGES for quote in quoted_defaults(page.read_text("utf-8"))]
    ours = [(page, name, said) for page, name, said in found if name in Settings.model_fields]
    assert len(ours) > 15
    assert [quote for quote in ours if Settings.model_fields[quote[1]].default != quote[2]] == []
