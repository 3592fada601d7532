"""docs/reference/contract.md explains every number of the contract that code, tests and documents
cite."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "contract.md"
NUMBER = re.compile(
    r"\b(?:S\d{1,2}|L[1-9]|T[1-9]|3[bd]\.\d{1,2}[a-j]?|3\.[1-8]|3[bcd])\b(?![.\d]*\d)"
)
FOLDERS = ("scaler/decide", "scaler/state", "scaler/execute", "tests", "docs/explanation")


def rows() -> set[str]:
    return set(re.findall(r"^\| (\w[\w.]*) \| ", PAGE.read_text("utf-8"), re.MULTILINE)) - {
        "number"
    }


def cited(folder: str) -> dict[str, str]:
    """Number -> a file that cites it."""
    files = [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md")]
    return {
        number: str(path) for path in files for number in NUMBER.findall(path.read_text("utf-8"))
    }


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_number_that_is_cited_stands_on_the_page(folder: str) -> None:
    found = cited(folder)
    assert {number: path for number, path in found.items() if number not in rows()} == {}


def test_the_numbers_are_found_where_they_are_cited() -> None:
    assert {"3b.4", "3b.5", "S3", "L1"} <= cited("tests").keys()
