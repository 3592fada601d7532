"""Who imports whom: the contracts of .importlinter, and what a command loads when it really runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

CLIENTS = {"kubernetes_asyncio", "aiohttp"}
"""Half a second and 65 MB of imports, which only a command that talks to a cluster may cost."""


def test_import_contracts_are_kept() -> None:
    call = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    done = subprocess.run([sys.executable, "-c", call], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
