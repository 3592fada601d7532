"""Makes the file system of the image, in the build stage of the Dockerfile: `python -I rootfs.py
APP ROOT`.

The Python that runs this, what of its standard library the scaler can need, the shared libraries of
all that, and the folder APP (wheels and the scaler) as /app: no shell, no package manager, no pip.
Nothing depends on when or where it runs: names are sorted, times are SOURCE_DATE_EPOCH, and
bytecode is checked by nothing. Python's standard library only."""

from __future__ import annotations

import asyncio
import compileall
import os
import py_compile
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import sbom

LEFT_OUT = {
    "dist-packages",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "tkinter",
    "turtledemo",
    "venv",
}
"""Folders of the standard library that nothing of the scaler imports."""
TESTS = {"__pycache__", "test", "tests"}
"""Folders of wheels and of the standard library alike."""
NO_EXTENSIONS = (
    "_curses",
    "_dbm",
    "_gdbm",
    "_sqlite3",
    "_test",
    "_tkinter",
    "nis",
    "ossaudiodev",
    "readline",
    "xx",
)
"""Extension modules that nothing of the scaler imports: each would bring libraries along."""
SOURCES = {".c", ".cpp", ".h", ".pxd", ".pxi", ".pyi", ".pyx"}
"""What wheels carry for compilers and type checkers."""
PYTHON = (Path(os.__file__), Path(asyncio.__file__))
"""One file of each package that the standard library may come in."""
LOADED_LATER = ("libgcc_s.so.1",)
"""What the C library opens by name when a thread ends; `ldd` does not know of it."""


def main(app: Path, root: Path) -> None:
    """Raises OSError or CalledProcessError when anything is missing: there is no half image."""
    interpreter = Path(os.path.realpath(sys.executable))
    copied = [interpreter, *_copy_python(root)]
    _copy_file(interpreter, root)
    for name in ("python", "python3"):
        link = root / "usr/bin" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(interpreter)
    for path in _files(app):
        if is_of_the_app(path.relative_to(app)):
            _copy_file(path, root, Path("/app") / path.relative_to(app))
            copied.append(path)
    libraries = _libraries(copied)
    _copy_libraries(libraries, root)
    _settings(root)
    _compile(root)
    (root / "app/sbom.cdx.json").write_text(sbom.of_image(app, [interpreter, *PYTHON, *libraries]))
    _forget_when_and_who(root, int(os.environ["SOURCE_DATE_EPOCH"]))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def is_of_the_app(path: Path) -> bool:
    """Not the commands of wheels, and not what some of them leave beside their packages."""
    beside = len(path.parts) == 1 and path.suffix not in {".py", ".so"} and path.name != "LICENSE"
    return not (TESTS & {*path.parts} or path.suffix in SOURCES or path.parts[0] == "bin" or beside)


def is_of_python(path: Path) -> bool:
    folders = any(part in TESTS | LEFT_OUT or part.startswith("config-") for part in path.parts)
    return not folders and not (path.suffix == ".so" and path.name.startswith(NO_EXTENSIONS))


def _copy_python(root: Path) -> list[Path]:
    stdlib = Path(sysconfig.get_path("stdlib"))
    wanted = [path for path in _files(stdlib) if is_of_python(path.relative_to(stdlib))]
    for path in wanted:
        _copy_file(path, root)
    return wanted


def _copy_file(source: Path, root: Path, name: Path | None = None) -> None:
    """To the same place below `root`, or to `name` there; what is a link becomes the file."""
    target = root / (name or source).relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def _libraries(files: list[Path]) -> list[Path]:
    """What these programs and extension modules load, and what that loads, by the name under which
    it is looked for."""
    binaries = [
        str(path)
        for path in files
        if path.suffix == ".so" or ".so." in path.name or path == files[0]
    ]
    found: set[str] = set()
    for binary in binaries:
        answer = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False)  # noqa: S603, S607
        if "not found" in answer.stdout:
            raise OSError(f"{binary} lacks a library:\n{answer.stdout}")
        found |= set(re.findall(r"^\s*(?:\S+ => )?(/\S+) \(0x", answer.stdout, flags=re.MULTILINE))
    beside = {Path(os.path.realpath(Path(name).parent)) for name in found}
    found |= {
        str(folder / name) for folder in beside for name in LOADED_LATER if (folder / name).exists()
    }
    inside = {str(path) for path in files}
    return sorted(Path(name) for name in found if os.path.realpath(name) not in inside)


def _copy_libraries(libraries: list[Path], root: Path) -> None:
    """Under their own names in their real folders. /lib and /lib64 are links, as they are in
    Debian."""
    for name in ("lib", "lib64"):
        if Path("/", name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
            (root / "usr" / name).mkdir(parents=True, exist_ok=True)
    for library in libraries:
        _copy_file(library, root, Path(os.path.realpath(library.parent)) / library.name)


def _settings(root: Path) -> None:
    """Where libraries are, in which order names of hosts are looked up, and a place for files that
    a pod may mount."""
    (root / "etc").mkdir(exist_ok=True)
    shutil.copyfile("/etc/ld.so.cache", root / "etc/ld.so.cache")
    (root / "etc/nsswitch.conf").write_text("hosts: files dns\n")
    (root / "tmp").mkdir()


def _compile(root: Path) -> None:
    """Bytecode of everything: the file system is read-only when this runs."""
    for folder in (root / "app", root / sysconfig.get_path("stdlib").lstrip("/")):
        if not compileall.compile_dir(
            folder,
            maxlevels=50,
            quiet=1,
            stripdir=str(root),
            prependdir="/",
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        ):
            raise OSError(f"{folder} cannot be compiled")


def _forget_when_and_who(root: Path, moment: int) -> None:
    for path in [root, *root.rglob("*")]:
        os.chown(path, 0, 0, follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
        os.utime(path, (moment, moment), follow_symlinks=False)
    (root / "tmp").chmod(0o1777)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
