"""Facts in the pages that a look at the code can check: files that they name, defaults that they
quote."""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from scaler.cli import COMMANDS
from scaler.rules.document import judge
from scaler.settings import Settings
from scaler.tools.common.counts import Case, decide
from scaler.tools.common.ladder import in_words, table
from scaler.tools.common.mixtures import in_words as mixtures_in_words
from scaler.tools.common.mixtures import mixtures
from scaler.tools.common.output import for_programs
from tests.builders import rule

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BY_NAME = {
    path.name
    for folder in ("scaler", "tests", "docs", "manifests", "schemas")
    for path in (ROOT / folder).rglob("*")
}
UNITS = {"s": 1.0, "seconds": 1.0, "minutes": 60.0, "min": 60.0, "hour": 3600.0}
EXAMPLES = {"scaler/workloads/KIND.py"}
"""Names that stand for the reader's own."""


def named_files(text: str) -> Iterator[str]:
    """Python files in code spans, fences left out. Files of other suffixes may be the reader's
    own."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for span in re.findall(r"`([^`\n]+)`", prose):
        yield from re.findall(r"[\w/.*-]+\.py\b", span)


FOLDERS = (ROOT, ROOT / "scaler", ROOT / "scaler" / "decide")
"""Where a path on a page may begin: pages about the decision name the files of its rooms."""


def exists(name: str) -> bool:
    if "/" not in name:
        return name in BY_NAME
    return any(list(folder.glob(name)) for folder in FOLDERS)


def quoted_defaults(text: str) -> Iterator[tuple[str, float]]:
    """Setting and seconds of each quoted default, in a sentence or as the row of a table."""
    for number, unit, name in re.findall(
        r"(\d+) (s|seconds|minutes|min) \((?:setting )?`(\w+)`", text
    ):
        yield name, float(number) * UNITS[unit]
    for name, number, unit in re.findall(r"^\| `(\w+)` \| (\d+) (s|min) \|", text, re.MULTILINE):
        yield name, float(number) * UNITS[unit]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_python_file_that_a_page_names_exists(page: Path) -> None:
    assert [
        name
        for name in named_files(page.read_text("utf-8"))
        if name not in EXAMPLES and not exists(name)
    ] == []


def test_every_default_that_a_page_quotes_is_the_settings_default() -> None:
    found = [
        (page.name, *quote) for page in PAGES for quote in quoted_defaults(page.read_text("utf-8"))
    ]
    ours = [(page, name, said) for page, name, said in found if name in Settings.model_fields]
    assert len(ours) > 15
    assert [quote for quote in ours if Settings.model_fields[quote[1]].default != quote[2]] == []


def fences(page: str) -> list[str]:
    """The printed blocks of a page."""
    return re.findall(
        r"^```\w*\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE
    )


def test_the_printed_table_is_what_plan_prints() -> None:
    (printed,) = [
        block for block in fences("docs/explanation/how-it-decides.md") if "group0 runs" in block
    ]
    assert printed in table(rule("2P1D > 1P1D"))


def without_old_names(value: Any) -> Any:
    """JSON of a command without the names of v0.2.0, which pages do not show."""
    if isinstance(value, dict):
        return {key: without_old_names(one) for key, one in value.items() if "_" not in key}
    return value


def test_the_printed_answers_of_plan_are_its_answers() -> None:
    ladder = rule("2P1D > 1P1D")
    case = Case({"group0": 1}, {}, {"group0": 1, "group1": 1})
    text = in_words(ladder, decide(ladder, case))
    answer = without_old_names(for_programs(decide(ladder, case)))
    printed = fences("docs/reference/plan.md")
    assert any(block.endswith(text) and block.startswith("$ scaler plan") for block in printed)
    answers = [block for block in printed if block.startswith('{"target"')]
    assert [msgspec.json.decode(block) for block in answers] == [answer]


def test_the_line_about_mixtures_that_write_a_rule_prints_is_what_lint_says() -> None:
    found = mixtures(rule("4P2D > 2P2D > 1P1D"))
    assert found is not None
    assert mixtures_in_words(found) + "\n" in fences("docs/howto/write-a-rule.md")


def test_the_rule_that_the_readme_shows_is_valid_and_is_the_ladder_that_it_names() -> None:
    (shown,) = [block for block in fences("README.md") if block.startswith("apiVersion")]
    written = yaml.safe_load(shown)["data"]["elastic_scaling.json"]
    found, findings = judge(written)
    assert found is not None
    assert not findings
    assert [ratio.counts for ratio in found.ratios] == [
        ratio.counts for ratio in rule("2P1D > 1P1D").ratios
    ]


ALL_PAGES = "\n".join(page.read_text("utf-8") for page in PAGES)
OTHERS_FLAGS = {
    "--ignore-not-found",
    "--previous",
    "--build-arg",
    "--for",
    "--force-conflicts",
    "--gated",
    "--seed",
    "--jobs",
    "--interactive",
    "--set",
    "--create-namespace",
    "--reuse-values",
    "--reset-then-reuse-values",
}
"""Flags of docker, of kubectl, of Helm, of chaos tests and of pytest, and of commands that are
named beside them."""


def flags() -> set[str]:
    """Every flag of every command, and of the program."""
    found = {"--version", "--help"}
    for name in COMMANDS:
        parser = argparse.ArgumentParser()
        module = "scaler.run" if name == "run" else f"scaler.tools.{name}.command"
        importlib.import_module(module).add_arguments(parser)
        found |= {
            flag
            for one in parsers(parser)
            for action in one._actions
            for flag in action.option_strings
        }
    programs = "".join(path.read_text("utf-8") for path in (ROOT / ".ci").glob("*.py"))
    return found | set(re.findall(r'add_argument\(\s*"(--[a-z-]+)"', programs))


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Of a command and of the commands within it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def test_every_flag_that_a_page_names_is_one_of_a_command() -> None:
    named = set(re.findall(r"`(--[a-z][a-z-]+)", ALL_PAGES))
    assert len(named) > 40
    assert named - flags() - OTHERS_FLAGS == set()


def test_every_metric_variable_label_and_annotation_that_a_page_names_exists() -> None:
    source = "".join(path.read_text("utf-8") for path in sorted((ROOT / "scaler").rglob("*.py")))
    metrics = {
        f'"{name.removesuffix("_total")}' for name in re.findall(r"\bscaler_[a-z_]+", ALL_PAGES)
    }
    labels = set(re.findall(r"mind-cluster/[a-z]+(?:-[a-z]+)*", ALL_PAGES))
    # Options of a rule are spelt without the prefix that they have in common.
    assert {
        name
        for name in labels
        if name not in source and f'"{name.partition("/")[2]}"' not in source
    } == set()
    assert {name for name in metrics if name not in source} == set()
    variables = set(re.findall(r"\bSCALER_[A-Z_]+", ALL_PAGES)) - {"SCALER_CONFIG", "SCALER_DEBUG"}
    assert {
        name
        for name in variables
        if name.removeprefix("SCALER_").lower() not in Settings.model_fields
    } == set()


def test_the_test_that_the_page_on_tests_shows_passes() -> None:
    (shown,) = re.findall(
        r"^```python\n(.*?)^```",
        (ROOT / "docs/reference/tests.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    names: dict[str, Any] = {}
    exec(shown, names)  # noqa: S102 - a page of our own
    (test,) = [made for name, made in names.items() if name.startswith("test_")]
    test()
