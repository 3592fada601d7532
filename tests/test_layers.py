"""Who imports whom: the contracts of .importlinter, and what a command loads when it really runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.builders import service, world

ROOT = Path(__file__).parent.parent
RULE = str(ROOT / "manifests" / "examples" / "2p1d" / "00-rule.yaml")
SCENARIO = str(ROOT / "tests" / "scenarios" / "start-degrade-climb.yaml")

CLIENTS = ("aiohttp", "kubernetes_asyncio")
"""Half a second and 65 MB of imports, which only a command that talks to a cluster may cost."""


def test_import_contracts_are_kept() -> None:
    call = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    done = subprocess.run([sys.executable, "-c", call], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


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
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, input=seen, capture_output=True, check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")
