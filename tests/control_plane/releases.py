"""Earlier releases, out of the history of this repository: what an upgrade comes from and a rollback goes to.

A release is added here when it is made. Where its commit is not there (a shallow clone, an archive) tests that need it
are skipped with a line that says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

from tests.control_plane.build import cache_folder

ROOT = Path(__file__).parents[2]
RELEASES = {"v0.1.0": "8cc5861e65a97832dc16fbf742109795dd5b9379"}
"""Name -> commit, oldest first."""
ONE_BACK = list(RELEASES)[-1]
"""The release before this tree: the only one that an upgrade is promised from."""


def tree(release: str) -> Path:
    """Its files, outside this tree; unpacked once. pytest skips the test where the history does not have it."""
    commit = RELEASES[release]
    folder = cache_folder().parent / "releases" / f"{release}-{commit[:12]}"
    if folder.is_dir():
        return folder
    with tempfile.TemporaryFile() as archive:
        command = ["git", "-C", str(ROOT), "archive", "--format=tar", commit]
        if subprocess.run(command, stdout=archive, stderr=subprocess.DEVNULL, check=False).returncode:
            pytest.skip(f"{release}: commit {commit[:12]} is not in the history of {ROOT}")
        archive.seek(0)
        folder.parent.mkdir(parents=True, exist_ok=True)
        unpacked = Path(tempfile.mkdtemp(dir=folder.parent))
        with tarfile.open(fileobj=archive) as tar:
            tar.extractall(unpacked, filter="data")
    try:
        unpacked.rename(folder)
    except OSError:  # another process was first
        shutil.rmtree(unpacked)
    return folder


def environment(root: Path) -> dict[str, str]:
    """For a process that takes `scaler` from this tree, whatever its working directory."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SCALER_", "KUBERNETES_"))}
    return {**kept, "PYTHONPATH": str(root), "PYTHONSAFEPATH": "1"}
