"""`make size` counts what it says it counts."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent


def size() -> ModuleType:
    spec = importlib.util.spec_from_file_location("size", ROOT / ".ci" / "size.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


FILES = {
    "scaler/__init__.py": "",
    "scaler/tools/__init__.py": "",
    "scaler/run.py": "from scaler.act import do\nimport scaler.sim.loop\n",
    "scaler/tools/plan.py": "\n\n\n",
    "scaler/act.py": "def do():\n    from scaler import late\n",
    "scaler/late.py": "# only imported in a function\n",
    "scaler/sim/__init__.py": "",
    "scaler/sim/loop.py": "\n" * 20,
    "tests/helper.py": "\n" * 5,
    "tests/test_it.py": "def test_it(): ...\n",
    "tests/conformance/cases.py": "@case\nasync def it_answers(): ...\n",
    "tests/bench/bench_it.py": "\n",
}


def test_lines_are_counted_by_what_run_imports_and_by_what_holds_tests(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert size().measured(tmp_path) == {
        "controller": 5,
        "simulation": 20,
        "test helpers": 5,
        "offline": 3,
    }
