"""docs/explanation/promises.md: each sentence stands where it is said to, each test exists, and is
not skipped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/explanation/promises.md"
CHINESE = {"README.md": "README.zh-CN.md"}
EXPLANATION = {
    path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/explanation").glob("*.md")
}
OTHER_PROGRAMS = re.compile(r"tests/control_plane/.*(volcano|beside_operator)")
"""Tests that are deselected where the programs of others are not at hand."""
NOT_IN_A_CLONE = {"real_data"}
"""Fixtures that skip a test where what they give is missing."""


class Promise:
    def __init__(self, page: str, cells: list[str]) -> None:
        self.page = page
        self.quote = cells[0]
        self.chinese = cells[1] if page in CHINESE else ""
        self.tests = re.findall(r"`([\w/]+\.py::\w+)`", cells[-1])
        self.benches = re.findall(r"bench `([\w/]+\.py)`", cells[-1])
        self.left_to_the_rest = cells[-1].endswith(" (`make test-rest`)")


def promises() -> Iterator[Promise]:
    for section in PAGE.read_text("utf-8").split("\n## ")[1:]:
        page, *lines = section.splitlines()
        rows = [line for line in lines if line.startswith("|")]
        for row in rows[2:]:  # without head and rule
            yield Promise(page, [cell.strip() for cell in row.strip("|").split(" | ")])


ALL = list(promises())


@cache
def words(page: str) -> str:
    return " ".join((ROOT / page).read_text("utf-8").split())


@cache
def functions(path: str) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """The test functions of a module, also those inside of classes."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    found = (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return {node.name: node for node in found if node.name.startswith("test_")}


def skipped(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """By a mark, or by a call in its body."""
    marked = any(
        re.search(r"\b(skip|skipif|xfail)\b", ast.unparse(decorator))
        for decorator in node.decorator_list
    )
    return marked or "pytest.skip(" in ast.unparse(node)


def needs(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {argument.arg for argument in node.args.args} & NOT_IN_A_CLONE


@cache
def marks(path: str) -> str:
    """Those of a whole module."""
    module = ast.parse((ROOT / path).read_text("utf-8"))
    return " ".join(
        ast.unparse(part) for part in module.body if "pytestmark" in ast.unparse(part)[:12]
    )


def is_long(test: str) -> bool:
    """Whether `make test` leaves it out."""
    path, name = test.split("::")
    own = [ast.unparse(decorator) for decorator in functions(path)[name].decorator_list]
    return any("mark.long(" in mark and "parametrize" not in mark for mark in (marks(path), *own))


def why_not(test: str) -> str:
    """Why this test holds nothing in a plain clone; "" when it does."""
    path, name = test.split("::")
    if not (ROOT / path).is_file() or not Path(path).name.startswith("test_"):
        return "no such test file"
    node = functions(path).get(name)
    if node is None:
        return "no such test"
    if skipped(node) or "skip" in marks(path):
        return "skipped"
    if needs(node) or OTHER_PROGRAMS.search(test):
        return "needs what a clone does not have"
    return ""


@pytest.mark.parametrize(
    "promise", ALL, ids=lambda promise: f"{Path(promise.page).stem}: {promise.quote[:50]}"
)
def test_a_promise_stands_on_its_page_and_something_holds_it(promise: Promise) -> None:
    assert " ".join(promise.quote.split()) in words(promise.page)
    if promise.page in CHINESE:
        assert promise.chinese.replace(" ", "") in words(CHINESE[promise.page]).replace(" ", "")
    assert promise.tests or promise.benches
    assert {test: why_not(test) for test in promise.tests if why_not(test)} == {}
    assert promise.left_to_the_rest == (bool(promise.tests) and all(map(is_long, promise.tests)))
    assert [
        bench for bench in promise.benches if "__main__" not in (ROOT / bench).read_text("utf-8")
    ] == []


def test_every_explanation_page_and_the_readme_have_their_promises_listed() -> None:
    assert {promise.page for promise in ALL} == {"README.md", *EXPLANATION} - {
        PAGE.relative_to(ROOT).as_posix()
    }
    assert len(ALL) > 100


@pytest.mark.parametrize(
    ("test", "wrong"),
    [
        (
            "tests/test_promises.py::test_every_explanation_page_and_the_readme_have_their_promises_listed",
            "",
        ),
        ("tests/test_promises.py::test_that_nobody_wrote", "no such test"),
        ("tests/no_such_folder/test_a.py::test_b", "no such test file"),
        (
            "tests/rules/test_real_inputs.py::test_every_bad_input_gets_its_verdict",
            "needs what a clone does not have",
        ),
    ],
)
def test_the_check_can_tell_a_test_that_holds_something(test: str, wrong: str) -> None:
    assert why_not(test) == wrong
