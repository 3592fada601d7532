"""Earlier releases, out of the history of this repository: what an upgrade comes from and a
rollback goes to.

A release is added here when it is made. Where its commit is not there (a shallow clone, an archive)
tests that need it are skipped with a line that says so."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.control_plane.build import cache_folder, made_once

ROOT = Path(__file__).parents[2]
RELEASES = {"v0.1.0": "8cc5861e65a97832dc16fbf742109795dd5b9379"}
"""Name -> commit, oldest first."""
ONE_BACK = list(RELEASES)[-1]
"""The release before this tree: the only one that an upgrade is promised from."""


def tree(release: str) -> Path:
    """Its files, outside this tree; unpacked once. pytest skips the test where the history does not
    have it."""
    commit = RELEASES[release]
    folder = cache_folder().parent / "releases" / f"{release}-{commit[:12]}"
    with made_once(folder) as fresh:
        if fresh is not None:
            command = ["git", "-C", str(ROOT), "archive", "--format=tar", commit]
            answer = subprocess.run(command, capture_output=True, check=False)
            if answer.returncode:
                pytest.skip(f"{release}: commit {commit[:12]} is not in the history of {ROOT}")
            subprocess.run(["tar", "-xf", "-"], cwd=fresh, input=answer.stdout, check=True)
    return folder


def environment(root: Path) -> dict[str, str]:
    """For a process that takes `scaler` from this tree, whatever its working directory."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("SCALER_", "KUBERNETES_"))
    }
    return {**kept, "PYTHONPATH": str(root), "PYTHONSAFEPATH": "1"}
