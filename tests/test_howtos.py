"""The how-tos for whoever adds something name all the places: compared with where the things that
exist are named."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from reason_pages import PAGES

from scaler.decide.decision import State
from scaler.decide.world import Policy
from scaler.kube.api import Resource
from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning
from scaler.settings import Settings
from scaler.workloads.kind import Kind
from scaler.workloads.kinds import KINDS
from tests.control_plane.test_end_to_end import DIVIDED

BUILT_IN = ("", "apps", "batch")
"""API groups of Kubernetes, whose objects are also met where no kind of workload is meant."""
ROOT = Path(__file__).parent.parent
HOWTO = ROOT / "docs" / "howto"
PLACEHOLDER = "KIND.py"
BESIDE_THE_RULES = ("scaler/tools/deploy/", "scaler/tools/common/short_file/")
"""`scaler deploy` knows what its own short files become."""
DECIDED_BY = [name for name in Settings.model_fields if name in Policy.__struct_fields__]
NAMES = [kind.name for kind in KINDS if kind.membership is not None]
Spellings = frozenset[str]


def places(page: str) -> list[str]:
    """The first column of the table of places."""
    (table,) = re.findall(
        r"^\| file \|.*\n\|[-|]+\n((?:\|.*\n)+)", (HOWTO / page).read_text("utf-8"), re.MULTILINE
    )
    return [
        name for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[1])
    ]


@cache
def named(path: Path) -> frozenset[str]:
    """The words of a file; of Python files without docstrings and comments: a name there is no
    place to edit."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        text = "\n".join(_code(text))
    return frozenset(re.findall(r"\w+", text))


def _code(text: str) -> Iterator[str]:
    strings = (
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr) and _is_text(node)
    )
    described = {
        line for node in strings for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    yield from (
        line.split("#")[0]
        for number, line in enumerate(text.splitlines(), 1)
        if number not in described
    )


def _is_text(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        found = [ROOT / folder] if (ROOT / folder).is_file() else sorted((ROOT / folder).rglob("*"))
        yield from (path for path in found if path.suffix in (".py", ".md", ".yaml", ".json"))


def rooms() -> list[str]:
    """All of the product but the simulated cluster."""
    return [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "scaler").iterdir()
        if path.name != "sim"
    ]


def naming(least: int, wanted: Iterable[Spellings], *folders: str) -> set[str]:
    """The files that name so many of these."""
    each = list(wanted)
    found = set()
    for path in files(*folders):
        if len(each) - len(left_out(each, path)) >= least:
            found.add(path.relative_to(ROOT).as_posix())
    return found


def left_out(wanted: list[Spellings], path: Path) -> list[str]:
    """What this file does not name of them."""
    return [min(one) for one in wanted if one.isdisjoint(named(path))]


def named_in(folder: str, pattern: str, *but: str) -> set[str]:
    """What the pattern finds in the modules of a folder, but for these."""
    modules = [path for path in (ROOT / folder).rglob("*.py") if path.name not in but]
    return {name for path in modules for name in re.findall(pattern, path.read_text("utf-8"))}


def words(names: Iterable[str]) -> list[Spellings]:
    return [frozenset({name}) for name in names]


NEARLY = 3
"""So many names may be left out by a file that is meant to have all."""
SETTINGS = "add-a-setting.md"
REASONS = "add-a-reason.md"
KIND_PAGE = "add-a-workload-kind.md"


@pytest.mark.parametrize("page", [SETTINGS, REASONS, KIND_PAGE])
def test_every_place_that_a_page_names_is_there(page: str) -> None:
    assert [
        name for name in places(page) if PLACEHOLDER not in name and not (ROOT / name).is_file()
    ] == []


def missing(wanted: Iterable[Spellings], *folders: str) -> dict[str, list[str]]:
    """Of the files that name nearly all of these, what each leaves out: somebody forgot it
    there."""
    each = list(wanted)
    found = naming(len(each) - NEARLY, each, *folders)
    return {name: left_out(each, ROOT / name) for name in found}


def test_a_setting_is_named_in_these_places_and_no_others() -> None:
    references = ("docs/reference", "docs/zh/reference", ".ci/settings_zh.yaml")
    every = missing(words(Settings.model_fields), "scaler", "schemas", "docs", references[-1])
    decided = missing(words(DECIDED_BY), "scaler", "schemas", *references)
    assert every.keys() <= decided.keys()
    assert decided.keys() <= set(places(SETTINGS))
    assert {name: left_out for name, left_out in (every | decided).items() if left_out} == {}
    assert [
        one
        for one in places(SETTINGS)
        if one not in naming(1, words(DECIDED_BY), *places(SETTINGS))
    ] == []


def test_a_reason_is_named_in_these_places_and_no_others() -> None:
    states = {state.value for state in State}
    reasons = [
        frozenset({reason.name, reason.value}) for reason in Reason if reason.value not in states
    ]
    complete = missing(reasons, "scaler", "docs")
    for page in PAGES:  # written from the rows
        complete.pop(page, None)
    assert complete.keys() | naming(5, reasons, "scaler") <= set(places(REASONS))
    assert {name: left_out for name, left_out in complete.items() if left_out} == {}
    assert [one for one in places(REASONS) if one not in naming(1, reasons, *places(REASONS))] == []


def test_every_setting_of_the_decision_is_read_by_it() -> None:
    read = named_in("scaler/decide", r"\bpolicy\.(\w+)")
    assert set(DECIDED_BY) - read == set()


def test_every_duration_of_the_decision_is_divided_where_scenarios_run_in_real_time() -> None:
    durations = {
        name for name in DECIDED_BY if isinstance(Settings.model_fields[name].default, float)
    }
    assert durations == set(DIVIDED)


def test_every_reason_is_chosen_somewhere() -> None:
    rooms = ("decide", "state", "workloads")
    chosen = set().union(
        *(named_in(f"scaler/{room}", r"\bReason\.(\w+)", "explain.py") for room in rooms)
    )
    assert {reason.name for reason in Reason} - chosen == set()


def test_every_warning_is_given_somewhere() -> None:
    rooms = ("decide", "state", "ranktables", "report")
    given = set().union(
        *(named_in(f"scaler/{room}", r"\bWarning\.(\w+)", "world.py") for room in rooms)
    )
    assert {warning.name for warning in Warning} - given == set()


def module_of(kind: Kind) -> str:
    """The module whose `KIND` it is."""
    for name, module in sys.modules.items():
        if name.startswith("scaler.workloads.") and vars(module).get("KIND") is kind:
            return name
    raise AssertionError(kind.name)


def file_of(kind: Kind) -> str:
    return module_of(kind).replace(".", "/") + ".py"


def spellings(kind: Kind) -> Spellings:
    """How files may name a kind: its module, its types of objects, and the constants with these."""
    module = module_of(kind)
    found = {module.rpartition(".")[2]}
    for constant, value in vars(sys.modules[module]).items():
        if isinstance(value, Resource) and value.group not in BUILT_IN:
            found |= {constant, value.kind, value.plural}
    return frozenset(found)


def test_a_kind_is_named_in_these_places_and_no_others() -> None:
    folders = (
        *rooms(),
        "manifests/base",
        "manifests/admission-webhook",
        "docs/howto/rights.md",
        "docs/reference/kinds.md",
        "tests/workloads/pods.py",
    )
    kinds = [kind for kind in KINDS if kind.membership is not None and kind.project]
    of_kinds = {file_of(kind) for kind in KINDS}
    found = {"scaler/workloads/KIND.py"}
    for kind in kinds:
        for name in naming(1, [spellings(kind)], *folders) - of_kinds:
            if not name.startswith(BESIDE_THE_RULES):
                found.add(name)
    assert found == set(places(KIND_PAGE))
    assert len(found) <= 9


def test_the_table_of_existing_kinds_has_every_kind() -> None:
    table = (HOWTO / KIND_PAGE).read_text("utf-8")
    assert [kind for kind in NAMES if kind not in table] == []
