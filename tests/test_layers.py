"""Who imports whom: the contracts of .importlinter, and what a command loads when it really
runs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import msgspec
import pytest

from scaler import names
from tests.builders import service, world

ROOT = Path(__file__).parent.parent
RULE = str(ROOT / "manifests" / "examples" / "2p1d" / "00-rule.yaml")
SCENARIO = str(ROOT / "tests" / "scenarios" / "start-degrade-climb.yaml")

CLIENTS = ("aiohttp", "kubernetes_asyncio")
"""Half a second and 65 MB of imports, which only a command that talks to a cluster may cost."""


def test_import_contracts_are_kept() -> None:
    call = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    done = subprocess.run(
        [sys.executable, "-c", call], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_every_command_but_those_that_simulate_is_kept_away_from_the_simulated_cluster() -> None:
    contract = ConfigParser()
    contract.read(ROOT / ".importlinter")
    listed = contract["importlinter:contract:real-commands"]["source_modules"].split()
    folders = {path.parent.name for path in (ROOT / "scaler" / "tools").glob("*/__init__.py")}
    assert set(listed) == {f"scaler.tools.{name}" for name in folders - {"demo", "simulate"}}


@pytest.mark.parametrize(
    "arguments",
    [
        ("lint", RULE),
        ("schema", "rule"),
        ("plan", RULE, "--running", "group0=1"),
        ("explain", "--world", "-"),
        ("simulate", SCENARIO),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_command_that_needs_no_cluster_loads_no_client(arguments: tuple[str, ...]) -> None:
    script = f"""
import sys
from scaler.cli import main
code = main({list(arguments)})
loaded = {set(CLIENTS)} & set(sys.modules)
sys.exit(code or ", ".join(loaded) or 0)
"""
    seen = msgspec.json.encode(world(service("2P1D > 1P1D", "p0 Running, p1 Held, d0 Running")))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, input=seen, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")


TALKS = {
    "aiohappyeyeballs",
    "aiohttp",
    "aiosignal",
    "attr",
    "frozenlist",
    "idna",
    "multidict",
    "propcache",
    "yarl",
}
"""The client for HTTP, and what it loads."""
SHOWS = {"msgspec", "pygments", "rich", "structlog", "greenlet", "typing_extensions", "yaml"}
CONTROLS = {
    "scaler.app",
    "scaler.controller",
    "scaler.election",
    "scaler.execute.executor",
    "scaler.report.metrics",
    "scaler.report.reporter",
    "scaler.settings",
    "scaler.rules.model",
}
"""What only the controller needs, and what builds models."""
MODELS = {"annotated_types", "pydantic", "pydantic_core", "typing_inspection"}


@pytest.mark.parametrize(
    ("commands", "models"),
    [
        (["status", "why x", "drain n", "uninstall --list", "deploy status x", "ui"], set()),
        (["shadow report"], MODELS),
    ],
    ids=["plain", "with models"],
)
def test_a_command_that_reads_a_cluster_loads_only_what_it_uses(
    commands: list[str], models: set[str], tmp_path: Path
) -> None:
    """Half of what such a command costs is what it loads: 0.4 s of CPU, 1.1 s with the models of
    kubernetes_asyncio, the settings and the metrics of the controller."""
    config = tmp_path / "config"
    config.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: k}}],"
        ' clusters: [{name: k, cluster: {server: "http://127.0.0.1:1"}}]}'
    )
    script = f"""
import sys
from scaler.cli import main
codes = [main(line.split()) for line in {commands}]
kept = set(sys.stdlib_module_names) | {{"scaler"}}
print(codes, *sorted({{name.partition(".")[0] for name in sys.modules}} - kept))
print(*sorted({CONTROLS} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "KUBECONFIG": str(config)},
        capture_output=True,
        text=True,
        check=True,
    )
    first, own = done.stdout.splitlines()
    codes, _, names = first.partition("] ")
    assert codes == f"{[1] * len(commands)}".removesuffix("]"), done.stderr
    found = {name for name in names.split() if not name.startswith("_")}
    assert found - TALKS - SHOWS - models - NOT_COUNTED == set()
    assert set(own.split()) == ({"scaler.settings"} if models else set())


NOT_COUNTED = {"cython_runtime", "sitecustomize", "distutils-precedence"}
"""Of Python's own start, and of compiled extensions."""

ROOMS = (
    "informers",
    "state",
    "ranktables",
    "execute",
    "report",
    "serve",
    "workloads",
    "rules",
    "kube",
)
CACHE_WRITES = {
    "apply",
    "remove",
    "retain",
    "absent",
    "advance",
    "add_scope",
}
"""Methods of a store and of the cache that change what is known."""
LIBRARY_OBJECTS = {"context"}
"""`ssl.SSLContext` is set up by assignments."""


def modules(*rooms: str) -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(path for room in rooms for path in (ROOT / "scaler" / room).rglob("*.py")):
        yield str(file.relative_to(ROOT)), ast.parse(file.read_text())


def assigned(tree: ast.AST) -> Iterator[ast.expr]:
    """All targets of assignments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from (
                part for target in node.targets for part in getattr(target, "elts", [target])
            )
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            yield node.target


def own_attributes(tree: ast.Module) -> set[str]:
    """Attributes of the classes of this module."""
    found = {
        target
        for target in assigned(tree)
        if isinstance(target, ast.Attribute) and is_self(target.value)
    }
    declared = {
        part.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for part in node.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }
    return {target.attr for target in found} | declared


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def assignments_from_outside(tree: ast.Module) -> list[str]:
    """Attributes of objects of other modules that are assigned to."""
    own = own_attributes(tree)
    return [
        ast.unparse(target)
        for target in assigned(tree)
        if isinstance(target, ast.Attribute)
        and not is_self(target.value)
        and target.attr not in own
        if ast.unparse(target.value) not in LIBRARY_OBJECTS
    ]


def test_nothing_is_assigned_to_an_attribute_from_outside() -> None:
    single = [
        (name, ast.parse((ROOT / name).read_text()))
        for name in (
            "scaler/app.py",
            "scaler/wiring.py",
            "scaler/controller.py",
            "scaler/work_queue.py",
            "scaler/threads.py",
            "scaler/election.py",
            "scaler/installs.py",
        )
    ]
    found = {
        name: outside
        for name, tree in [*modules(*ROOMS), *single]
        if (outside := assignments_from_outside(tree))
    }
    assert found == {}


def test_an_assignment_from_outside_is_found() -> None:
    tree = ast.parse(
        "class A:\n    def f(self, other):\n        self.mine = other.mine = 1\n        other.hook"
        " = 2\n"
    )
    assert assignments_from_outside(tree) == ["other.hook"]


def test_only_informers_write_the_cache() -> None:
    calls = [
        f"{name}: {ast.unparse(node)}"
        for name, tree in modules("state", "ranktables", "execute", "report", "serve")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CACHE_WRITES
        if "cache" in ast.unparse(node.func.value)
    ]
    assert calls == []


def test_names_of_the_cluster_are_written_once() -> None:
    values = {text for name, text in vars(names).items() if name.isupper() and "/" in str(text)} - {
        names.PREFIX
    }
    found = [
        f"{name}: {node.value!r}"
        for name, tree in modules(*ROOMS, "tools", "decide")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in values
    ]
    assert found == []
