"""What the pages promise: links lead somewhere, and commands run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NEEDS_MORE = re.compile(
    r"[|<>$]|\bREGISTRY\b|\bFILE\b|\bNAME\b|\.\.\.|demo|scaler run|port-forward|my-|-o"
    r" |--interactive"
    r"|--picture|--no-arbitration| (scaling-)?rule\.yaml"
)
"""Commands with placeholders, files of the reader, pictures, a cluster or minutes of their own: run
by hand."""


def blocks(page: Path) -> list[str]:
    return re.findall(
        r"^```(?:sh|console)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )


def commands(page: Path) -> list[str]:
    """The `scaler` commands of a page that can run just as they stand."""
    lines = [
        line.removeprefix("$ ").split("  #")[0].strip()
        for block in blocks(page)
        for line in block.splitlines()
    ]
    ours = (".venv/bin/python -m scaler ", ".venv/bin/scaler ")
    return [line for line in lines if line.startswith(ours) and not NEEDS_MORE.search(line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text("utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def anchors(page: Path) -> set[str]:
    """The names under which hosting sites link the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", title).lower()).replace(" ", "-")
        for title in titles
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_section_leads_to_its_heading(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", page.read_text("utf-8"))
    goals = [(page.parent / file if file else page, section) for file, section in links]
    assert [
        section for goal, section in goals if goal.suffix == ".md" and section not in anchors(goal)
    ] == []


VAGUE = re.compile(
    r"(?i)here|there|above|below|this|it|see|more|details?|measured|not (drained|promised)|its \w+"
    r"|(and )?(how|why|which|what)( (to|so|else|much|many|builds|kinds|reason|it changes))?"
    r"|这里|此处|[见如同]?[上下]文|同上|如何|实测|读取|详情"
)
"""Links that say nothing of where they lead: whoever looks for a page jumps from link to link."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_says_where_it_leads(page: Path) -> None:
    words = re.findall(r"(?<!!)\[([^\]\n]*)\]\(", page.read_text("utf-8"))
    assert [word for word in words if VAGUE.fullmatch(word.removesuffix("（英文）"))] == []


SCREEN = 40
RECIPES = [
    page for page in PAGES if page.parent.name == "howto" and not page.name.startswith("add-a-")
]


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_recipe_begins_with_what_to_do_within_a_screen(page: Path) -> None:
    before = page.read_text("utf-8").partition("```")[0]
    assert before.count("\n") < SCREEN


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs/explanation").glob("*.md")), ids=lambda page: page.stem
)
def test_an_explanation_says_first_where_the_recipe_is(page: Path) -> None:
    first = page.read_text("utf-8").split("\n\n")[1]
    assert re.search(r"\]\(\.\./(howto|reference)/[\w/-]+\.md", first)
    assert len(first) < 500


TABLE = re.compile(r"^(\|.*)\n\|[-:| ]+\|\n((?:\|.*\n?)*)", re.MULTILINE)


def cells(row: str) -> int:
    """A vertical bar inside of code does not end a cell when it is escaped."""
    return len(re.findall(r"(?<!\\)\|", row)) - 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_row_of_a_table_has_as_many_cells_as_its_heading(page: Path) -> None:
    tables = TABLE.findall(page.read_text("utf-8"))
    assert [
        row for heading, rows in tables for row in rows.splitlines() if cells(row) != cells(heading)
    ] == []


LONGEST_CELL = 200
REGISTERS = {"docs/reference/contract.md", "docs/explanation/promises.md"}
"""Pages whose tables are read by tests: a sentence, and what holds it."""


def as_read(cell: str) -> str:
    """A cell without the marks of links, code and emphasis."""
    return re.sub(r"\]\([^)]*\)|[`*\[]", "", cell.strip())


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.relative_to(ROOT).as_posix() not in REGISTERS],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_cell_of_a_table_can_be_read_at_a_glance(page: Path) -> None:
    rows = [line for line in page.read_text("utf-8").splitlines() if line.startswith("|")]
    every = [as_read(cell) for row in rows for cell in re.split(r"(?<!\\)\|", row)]
    assert [cell for cell in every if len(cell) > LONGEST_CELL] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_file_of_a_command_is_there(page: Path) -> None:
    words = [
        word
        for block in blocks(page)
        for line in block.splitlines()
        for word in line.split("  #")[0].split()
    ]
    named = [
        word.split("::")[0]
        for word in words
        if re.match(r"(tests|scaler|schemas)/[\w./:-]+$", word)
    ]
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("line", sorted({line for page in PAGES for line in commands(page)}))
def test_every_command_of_the_pages_runs(line: str) -> None:
    words = shlex.split(line)
    arguments = words[words.index("scaler") + 1 :] if "scaler" in words else words[1:]
    ran = subprocess.run(
        [sys.executable, "-m", "scaler", *arguments],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()


@pytest.mark.parametrize(
    "page", ["README.md", "README.zh-CN.md", "docs/howto/label-jobs.md", "docs/howto/ome.md"]
)
def test_these_pages_show_commands_that_run(page: str) -> None:
    assert commands(ROOT / page)
