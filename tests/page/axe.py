"""axe-core, which looks for what people with a disability cannot use: one published version by its
digest, taken with npm into the cache outside the tree. Not part of what we ship."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path

from tests.control_plane.build import (
    BuildError,
    NotInCacheError,
    cache_folder,
    is_cached_only,
    made_once,
)

PART = "axe"
VERSION = "4.14.1"
SHA256 = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"
"""Of the archive as npm packs it."""
_SCRIPT = "axe.min.js"


def script() -> str:
    """The program, taken now if need be. Raises BuildError, NotInCacheError where CI does not wait
    for it or npm is not installed."""
    return (ensure() / _SCRIPT).read_text("utf-8")


def ensure() -> Path:
    """The folder with the program."""
    folder = cache_folder().parent / f"axe-core-{VERSION}-{SHA256[:12]}"
    if not folder.is_dir() and is_cached_only():
        raise NotInCacheError(PART)
    if not folder.is_dir() and not shutil.which("npm"):
        raise NotInCacheError(PART, "npm is not installed")
    with made_once(folder) as fresh:
        if fresh is not None:
            _take(fresh)
    return folder


def _take(folder: Path) -> None:
    command = ["npm", "pack", f"axe-core@{VERSION}", "--silent", "--pack-destination", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    archive = folder / f"axe-core-{VERSION}.tgz"
    if done.returncode or not archive.is_file():
        raise BuildError(f"npm could not get axe-core {VERSION}:\n{done.stderr[-2000:]}")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != SHA256:
        raise BuildError(f"axe-core {VERSION} has the digest {digest}, and not {SHA256}")
    with tarfile.open(archive) as packed:
        member = packed.extractfile(f"package/{_SCRIPT}")
        if member is None:
            raise BuildError(f"axe-core {VERSION} has no {_SCRIPT}")
        (folder / _SCRIPT).write_bytes(member.read())
    archive.unlink()
