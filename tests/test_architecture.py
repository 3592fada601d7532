"""The pictures of docs/explanation/architecture.md show the modules that there are, and what really
runs."""

from __future__ import annotations

import ast
import asyncio
import functools
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from scaler.cli import COMMANDS
from scaler.kube.api import PODS
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.loop import run
from tests.jobs import held, job, rule_config_map
from tests.rig import rig
from tests.test_gates import SERVICE, let_run, lose

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
ARROW = re.compile(r"\s*(?:--(?: \"[^\"]*\" --)?>|(-\.) \"[^\"]*\" \.->)\s*")
MOST = 25
"""Modules on the way of an event that one has to read to follow it to the write it causes."""
PLAYED = ("sim/",)
"""The cluster in process, which the tests play: no part of the controller."""
EVENTS = Path(asyncio.events.__file__)


def picture(heading: str) -> list[tuple[str, str, bool]]:
    """The arrows under this heading: from, to, and whether it is dotted."""
    section = PAGE.read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = re.search(r"```mermaid\nflowchart TD\n(.*?)```", section, re.DOTALL)
    assert found is not None
    arrows = []
    for line in found[1].splitlines():
        first, *rest = re.split(ARROW, line.strip())
        for dotted, after in zip(rest[::2], rest[1::2], strict=True):
            arrows.append((first, after, dotted is not None))
            first = after
    return arrows


@functools.cache
def imports() -> frozenset[tuple[str, str]]:
    """Module -> module as paths below scaler/, without the ending."""
    names = {
        str(path.relative_to(ROOT / "scaler").with_suffix(""))
        for path in (ROOT / "scaler").rglob("*.py")
    }
    found = set()
    for name in names:
        for node in ast.walk(ast.parse((ROOT / "scaler" / f"{name}.py").read_text())):
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and node.module.startswith("scaler")
            ):
                base = node.module.removeprefix("scaler").removeprefix(".").replace(".", "/")
                candidates = [f"{base}/{part.name}".removeprefix("/") for part in node.names] + [
                    base
                ]
                found |= {(name, one) for one in candidates if one in names}
    return frozenset(found)


def room(module: str) -> str:
    return module.split("/", 1)[0]


@functools.cache
def rooms() -> frozenset[tuple[str, str]]:
    return frozenset(
        (room(one), room(other)) for one, other in imports() if room(one) != room(other)
    )


def test_every_arrow_between_rooms_is_an_import() -> None:
    assert [(one, other) for one, other, _ in picture("Rooms") if (one, other) not in rooms()] == []


def test_every_import_between_rooms_goes_along_the_arrows() -> None:
    below: defaultdict[str, set[str]] = defaultdict(set)
    for one, other, _ in picture("Rooms"):
        below[one].add(other)

    def reached(name: str) -> set[str]:
        return below[name] | {far for near in list(below[name]) for far in reached(near)}

    entry = {"__main__", "cli", "__init__"}  # they load commands by name
    strange = {(one, other) for one, other in rooms() if other not in reached(one)}
    assert {(one, other) for one, other in strange if not {one, other} & entry} == set()


def test_every_arrow_on_the_way_of_an_event_is_an_import() -> None:
    arrows = picture("One event, followed")
    assert [
        (a, b) for a, b, dotted in arrows if not dotted and not {(a, b), (b, a)} & imports()
    ] == []
    wired = {other for one, other in imports() if one == "informers/resources"}
    assert [(a, b) for a, b, dotted in arrows if dotted and not {a, b} <= wired] == []


class Trace(Interceptor):
    """Modules that run from `begin` until the spec of a pod is written, by this verb."""

    def __init__(self, verb: str) -> None:
        self.modules: set[str] = set()
        self._verb = verb
        self._on = False

    def begin(self) -> None:
        self._on = True
        sys.setprofile(self._call)

    def end(self) -> None:
        self._on = False
        sys.setprofile(None)

    async def before(self, request: Request) -> None:
        written = request.verb == self._verb and request.resource == PODS
        if self._on and written and "spec" in request.body:
            self.end()

    def _call(self, frame: FrameType, event: str, _arg: Any) -> None:
        module = module_of(frame)
        if event == "call" and module and not module.startswith(PLAYED) and not by_a_test(frame):
            self.modules.add(module)


def module_of(frame: FrameType) -> str:
    """Its path below scaler/, without the ending; "" for code of others."""
    file = Path(frame.f_code.co_filename)
    if not file.is_relative_to(ROOT / "scaler"):
        return ""
    return str(file.relative_to(ROOT / "scaler").with_suffix(""))


def by_a_test(frame: FrameType) -> bool:
    """Whether a test has called it in this turn of the loop, as the witnesses of tests/rig.py do
    with each decision."""
    caller = frame.f_back
    while caller is not None and Path(caller.f_code.co_filename) != EVENTS:
        if Path(caller.f_code.co_filename).is_relative_to(ROOT / "tests"):
            return True
        caller = caller.f_back
    return False


def by_room(modules: Iterable[str]) -> Counter[str]:
    return Counter(room(module) for module in modules)


def as_rows(way: Counter[str], ran: Counter[str]) -> dict[str, tuple[int, int]]:
    """Of each room the modules on the way, and those that run beside it."""
    return {name: (way[name], ran[name] - way[name]) for name in sorted(ran)}


def counted() -> dict[str, tuple[int, int]]:
    """The rows of the page's table."""
    section = PAGE.read_text().split("## One event, followed\n", 1)[1].split("\n### ", 1)[0]
    rows = re.findall(r"^\| `(\w+)/?` \| (\d+) \| (\d+) \|", section, re.MULTILINE)
    return {name: (int(way), int(beside)) for name, way, beside in rows}


def test_the_page_counts_what_runs_from_an_event_to_its_write_room_by_room() -> None:
    trace = Trace("patch")

    async def story() -> None:
        async with rig(*SERVICE, interceptor=trace) as on:
            await let_run(on, "p0", "d0")
            await let_run(on, "p1")
            await on.settle(20)
            trace.begin()
            try:
                await lose(on, "d0")
                on.apply(held("d1", "group1", owner="decoder-77f"))
                await on.settle()
            finally:
                trace.end()

    run(story())
    shown = {name for one, other, _ in picture("One event, followed") for name in (one, other)}
    assert len(shown) <= MOST
    assert shown - trace.modules == set()
    found = as_rows(by_room(shown), by_room(trace.modules))
    assert counted() == found, f"the page counts others than run: {sorted(trace.modules)}"
    total = len(trace.modules)
    assert f"In all {total} modules run" in PAGE.read_text(), f"{total} modules run"


def test_the_modules_that_the_page_names_run_when_a_job_loses_its_pods() -> None:
    trace = Trace("create")

    async def story() -> None:
        async with rig(job("p0"), job("d0"), rule_config_map(), interceptor=trace) as on:
            await on.start("p0", "d0")
            await on.settle(20)
            trace.begin()
            try:
                await on.kill("d0")
                await on.settle()
            finally:
                trace.end()

    run(story())
    section = PAGE.read_text().split("### A job loses its pods\n", 1)[1].split("\nWhat ends", 1)[0]
    named = set(re.findall(r"`([a-z]+/[a-z_]+)`", section))
    assert len(named) >= 5
    assert named - trace.modules == set()


NOT_IN_THE_TABLE = {"schema", "completion", "common"}
"""Folders of tools whose commands the page leaves out, and the one that is no command."""


def test_the_table_of_tools_names_every_command_and_every_folder() -> None:
    section = PAGE.read_text().split("## Tools\n", 1)[1].split("\n## ", 1)[0]
    commands, folders = zip(
        *re.findall(r"^\| (`\w+`.*?) \| (.*?) \|", section, re.MULTILINE), strict=True
    )
    named = set(re.findall(r"`(\w+)`", " ".join(commands)))
    assert named == set(COMMANDS) - {"run", *NOT_IN_THE_TABLE}
    there = {
        path.name for path in (ROOT / "scaler/tools").iterdir() if (path / "__init__.py").is_file()
    }
    assert set(re.findall(r"`(\w+)/`", " ".join(folders))) == there - NOT_IN_THE_TABLE


def test_the_table_of_drafts_names_all_that_is_written_in_one() -> None:
    section = PAGE.read_text().split("### One decision, followed\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (`\w+`.*?) \|", section.split("| field |", 1)[1], re.MULTILINE)
    methods = {"note", "admit", "revoke", "evict"}
    plan = ast.parse((ROOT / "scaler/decide/draft.py").read_text())
    made = {
        node.attr
        for node in ast.walk(plan)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and not node.attr.startswith("_")
    }
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) - methods == made - {"demand"}
