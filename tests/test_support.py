"""docs/reference/support.md claims nothing that the tests do not run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.control_plane.build import ETCD, HELM, LWS, PROMETHEUS, VERSIONS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/reference/support.md").read_text("utf-8")


def rows(section: str) -> list[list[str]]:
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return lines[1:]


def test_every_kubernetes_that_is_said_to_be_tested_is_built_and_no_other() -> None:
    said = {row[0]: row[2] for row in rows("Kubernetes")}
    assert list(said) == [f"1.{minor}" for minor in range(27, 37)]
    tried = {version: cell for version, cell in said.items() if not cell.startswith("not tried")}
    built = {".".join(version.split(".")[:2]): version for version in VERSIONS}
    assert set(tried) == set(built)
    assert [
        cell for version, cell in tried.items() if not cell.startswith(f"tests: {built[version]}, ")
    ] == []


def test_only_the_first_version_is_said_to_run_everything() -> None:
    everything = [row[0] for row in rows("Kubernetes") if row[2].endswith(", everything")]
    assert everything == [".".join(VERSIONS[0].split(".")[:2])]


def test_the_other_programs_are_those_that_are_built() -> None:
    said = {row[0]: row[1] for row in rows("Other programs that tests run")}
    assert said["etcd"] == ETCD.version
    assert said["LeaderWorkerSet's manager"] == LWS.version
    major, minor, patch = said["Prometheus, promtool"].split(".")
    assert PROMETHEUS.version == f"0.{major}{int(minor):02d}.{patch}"


@pytest.mark.parametrize("major", ["3", "4"])
def test_helm_is_not_said_to_be_tried_in_a_version_that_is_not_built(major: str) -> None:
    (row,) = [row for row in rows("Other programs that tests run") if row[0] == f"Helm {major}"]
    if row[2] != "not tried":
        assert f"helm.sh/helm/v{major} v{row[1]} " in (HELM.folder / "go.mod").read_text()


def test_each_cell_says_tests_by_hand_or_not_tried() -> None:
    sections = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    for measured in ("Jobs of Volcano", "The whole of MindCluster"):
        sections.remove(measured)  # its first sentences say when
    cells = [row[-1] for section in sections for row in rows(section)]
    assert [
        cell
        for cell in cells
        if not cell.startswith(("tests: ", "by hand, ", "not tried", "the same"))
    ] == []
    assert len(cells) > 25


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", PAGE)
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []
