"""`make size`: lines of Python, with the definition of what is counted. It limits nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

DEFINITION = """\
Lines as `wc -l` counts them, of *.py, comments, docstrings and empty lines included.
controller:   all that `scaler run` imports, directly or not (the module `run` of the commands),
              without scaler/sim
simulation:   scaler/sim
test helpers: files under tests/ that hold no tests or benches: no function test_*, no @case of
              tests/conformance, and not named bench_*
offline:      the rest of scaler/, which only other commands import
"""
_HOLDS_TESTS = re.compile(r"^\s*(async )?def test_|^@case$", re.MULTILINE)


def lines(paths: Iterable[Path]) -> int:
    return sum(path.read_text("utf-8").count("\n") for path in paths)


def modules(root: Path) -> dict[str, Path]:
    """Dotted name -> file; a package is its __init__."""
    found = {}
    for path in sorted((root / "scaler").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(tree: ast.AST, known: Iterable[str]) -> set[str]:
    """Modules of ours that this source imports anywhere, in functions too."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names & set(known)


def reached(start: str, sources: dict[str, Path]) -> set[str]:
    """All that is loaded when `start` is imported: what it imports, and the packages around each
    module."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name not in sources or name in seen:
            continue
        seen.add(name)
        todo += [
            name.rpartition(".")[0],
            *imported(ast.parse(sources[name].read_text("utf-8")), sources),
        ]
    return seen


def measured(root: Path) -> dict[str, int]:
    """Lines by name."""
    sources = modules(root)
    (run,) = [name for name in sources if name.endswith(".run")]
    simulation = {name for name in sources if f"{name}.".startswith("scaler.sim.")}
    controller = reached(run, sources) - simulation
    tests = (root / "tests").rglob("*.py")
    helpers = [
        path
        for path in tests
        if not path.name.startswith("bench_") and not _HOLDS_TESTS.search(path.read_text("utf-8"))
    ]
    return {
        "controller": lines(sources[name] for name in controller),
        "simulation": lines(sources[name] for name in simulation),
        "test helpers": lines(helpers),
        "offline": lines(sources[name] for name in sources.keys() - controller - simulation),
    }


def main() -> None:
    print(DEFINITION)
    for what, count in measured(Path(__file__).parents[1]).items():
        print(f"{what:13} {count:7,}")


if __name__ == "__main__":
    main()
