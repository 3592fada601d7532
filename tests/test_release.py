"""What is published: one version everywhere, archives that do not say when they were made, honest
verdicts."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import image
import pytest
import release
import release_check
import rootfs
import sbom
from release_check import Outcome

import scaler
from tests.test_manifests import rendered

ROOT = Path(__file__).parent.parent
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
VERSION = scaler.__version__
FIRST = "71342b65"
"""Of the notes of 0.1.0: what was released stays as it was."""


def texts() -> dict[str, str]:
    names = ["pyproject.toml", "README.md", "README.zh-CN.md"]
    folders = ("scaler", "manifests", "docs")
    names += [
        path.relative_to(ROOT).as_posix() for name in folders for path in (ROOT / name).rglob("*")
    ]
    return {
        name: (ROOT / name).read_text("utf-8", "replace")
        for name in names
        if (ROOT / name).is_file()
    }


def test_every_place_that_says_the_version_says_the_same() -> None:
    found = release.versions(texts())
    assert [(place, said) for place, said in found if said != VERSION] == []
    assert release.the_version(texts()) == VERSION


@pytest.mark.parametrize(
    "file",
    [
        "scaler/__init__.py",
        "pyproject.toml",
        "manifests/image/Dockerfile",
        "manifests/base/deployment.yaml",
        "manifests/cluster-wide/kustomization.yaml",
        "manifests/gates-only/kustomization.yaml",
        "manifests/single-namespace/kustomization.yaml",
        "manifests/second-install/install/kustomization.yaml",
        "docs/howto/deploy.md",
        "docs/zh/howto/deploy.md",
        "docs/reference/release.md",
    ],
)
def test_a_place_that_says_another_version_is_named_and_ends_the_release(file: str) -> None:
    known = texts()
    known[file] = known[file].replace(VERSION, "9.9.9", 1)
    with pytest.raises(release.ReleaseError, match=re.escape("9.9.9")) as refused:
        release.the_version(known)
    assert file in str(refused.value)


@pytest.mark.parametrize("line", ["version: 9.9.9", 'appVersion: "9.9.9"'])
def test_the_chart_says_the_version_too(line: str) -> None:
    with pytest.raises(release.ReleaseError, match=r"manifests/helm/Chart\.yaml:2: 9\.9\.9"):
        release.the_version(
            {**texts(), "manifests/helm/Chart.yaml": f"name: mind-cluster-scaler\n{line}\n"}
        )


LOG = "## [Unreleased]\n\n## [1.2.0] - 2026-12-01\n\n- now\n\n## [1.1.0] - 2026-11-01\n\n- before\n"


def test_the_notes_are_what_the_changelog_says_of_that_version_alone() -> None:
    assert (
        release.notes(LOG, "1.2.0", draft=False)
        == "# mind-cluster-scaler 1.2.0, 2026-12-01\n\n- now\n\n"
    )


def test_a_version_without_a_head_in_the_changelog_is_not_released() -> None:
    with pytest.raises(release.ReleaseError, match=r"no head `## \[1\.3\.0\].*ARGS=--draft"):
        release.notes(LOG, "1.3.0", draft=False)
    later = LOG.replace("## [Unreleased]\n", "## [Unreleased]\n\n- later\n")
    draft = release.notes(later, "1.3.0", draft=True)
    assert draft.startswith("# mind-cluster-scaler 1.3.0: draft, not released")
    assert "- later" in draft


def test_entries_that_no_version_has_are_not_released() -> None:
    """Otherwise two trees of one version differ."""
    later = LOG.replace("## [Unreleased]\n", "## [Unreleased]\n\n### Added\n\n- later\n")
    with pytest.raises(release.ReleaseError, match="entries below Unreleased"):
        release.notes(later, "1.2.0", draft=False)
    assert "- now" in release.notes(later, "1.2.0", draft=True)


def test_a_version_of_development_is_not_released() -> None:
    with pytest.raises(release.ReleaseError, match="write the version without -dev"):
        release.notes(LOG, "1.3.0-dev", draft=False)


def test_after_a_release_the_version_is_one_of_development() -> None:
    """A tree with unreleased entries must not call itself by the version that is out."""
    released = re.findall(r"^## \[(\d\S*)\]", CHANGELOG, re.MULTILINE)
    _, _, rest = CHANGELOG.partition("## [Unreleased]")
    unreleased = rest.partition("\n## ")[0]
    if re.search(r"^- ", unreleased, re.MULTILINE):
        assert VERSION.endswith(release.DEVELOPMENT)
        assert VERSION.removesuffix(release.DEVELOPMENT) not in released
    else:
        assert released[0] == VERSION


def test_a_head_without_a_date_is_refused() -> None:
    with pytest.raises(release.ReleaseError, match="YYYY-MM-DD"):
        release.notes("## [1.2.0]\n\n- now\n", "1.2.0", draft=True)


def test_the_changelog_has_a_head_for_what_comes_and_a_date_for_each_version() -> None:
    heads = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)
    assert heads[0] == "[Unreleased]"
    assert [
        head for head in heads[1:] if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", head)
    ] == []


def test_nothing_is_written_into_a_version_that_is_out() -> None:
    told = hashlib.sha256(release.notes(CHANGELOG, "0.1.0", draft=True).encode()).hexdigest()
    assert told[:8] == FIRST, "new lines belong below Unreleased"


def made(folder: Path, names: list[str], moment: float) -> dict[str, Path]:
    folder.mkdir()
    for name in names:
        (folder / name).write_text(f"text of {name}")
        os.utime(folder / name, (moment, moment))
    return {name: folder / name for name in names}


def test_an_archive_does_not_depend_on_order_times_or_owners(tmp_path: Path) -> None:
    first = release.packed(made(tmp_path / "a", ["one", "two"], 1e9), 7)
    second = release.packed(dict(reversed(made(tmp_path / "b", ["one", "two"], 1.5e9).items())), 7)
    assert first == second
    with tarfile.open(fileobj=BytesIO(first)) as tar:
        assert [(one.name, one.mtime, one.uid, one.uname) for one in tar] == [
            ("one", 7, 0, ""),
            ("two", 7, 0, ""),
        ]


def stage(folder: Path) -> Path:
    release.staged(
        folder,
        [name for name in texts() if "__pycache__" not in name] + ["LICENSE", "requirements.lock"],
    )
    return folder


@pytest.mark.parametrize(
    "variant", ["gates-only", "cluster-wide", "single-namespace", "second-install"]
)
def test_the_manifests_of_a_release_apply_as_they_are(tmp_path: Path, variant: str) -> None:
    release.manifests(stage(tmp_path / "stage"), tmp_path, VERSION, 7, None)
    packed = tmp_path / f"mind-cluster-scaler-{VERSION}-manifests.tar.gz"
    # as a user; tarfile before 3.11.4 has no filters
    subprocess.run(["tar", "-xf", packed], cwd=tmp_path, check=True)
    unpacked = tmp_path / f"mind-cluster-scaler-{VERSION}" / "manifests"
    assert rendered(unpacked / variant) == rendered(ROOT / "manifests" / variant)
    assert not (unpacked / "image").exists()


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        (
            f"reg.example:5000/npu/scaler@sha256:{'a' * 64}",
            f"reg.example:5000/npu/scaler@sha256:{'a' * 64}",
        ),
        ("reg.example/npu/scaler:1.0-rc1", "reg.example/npu/scaler:1.0-rc1"),
        ("reg.example/npu/scaler", f"reg.example/npu/scaler:{VERSION}"),
    ],
)
def test_the_manifests_of_a_release_name_the_image_that_was_pushed(
    tmp_path: Path, name: str, runs: str
) -> None:
    folder = stage(tmp_path / "stage")
    release.manifests(folder, tmp_path, VERSION, 7, name)
    for variant in ("gates-only", "cluster-wide", "single-namespace", "second-install"):
        (pods,) = (
            obj for obj in rendered(folder / "manifests" / variant) if obj["kind"] == "Deployment"
        )
        assert pods["spec"]["template"]["spec"]["containers"][0]["image"] == runs


def test_the_chart_is_laid_out_as_helm_packages_it(tmp_path: Path) -> None:
    folder = tmp_path / "stage" / "manifests" / "helm"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(
        f"apiVersion: v2\nname: mind-cluster-scaler\nversion: {VERSION}\n"
    )
    (folder / "templates" / "all.yaml").write_text("a: 1\n")
    out = tmp_path / "out"
    out.mkdir()
    packed = release.packed_chart(tmp_path / "stage", out, 7)
    assert packed is not None
    with tarfile.open(packed) as tar:
        assert tar.getnames() == [
            "mind-cluster-scaler/Chart.yaml",
            "mind-cluster-scaler/templates/all.yaml",
        ]
    assert packed.name == f"mind-cluster-scaler-{VERSION}.tgz"


def test_the_page_names_every_file_of_a_release_that_the_directions_install(tmp_path: Path) -> None:
    release.lock(ROOT, tmp_path)
    (name,) = [path.name for path in tmp_path.iterdir()]
    page = (ROOT / "docs/reference/release.md").read_text()
    assert f"| `{name}` |" in page
    assert f"--require-hashes -r {name}`" in page


def test_a_tree_without_a_chart_says_so(tmp_path: Path) -> None:
    assert release.chart(tmp_path, tmp_path, 7).startswith("no chart")


def bill(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[dict[str, Any]]]:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "7")
    return dict(json.loads(sbom.of_lock((ROOT / "requirements.lock").read_text(), VERSION, ROOT)))


def test_the_bill_names_everything_that_the_lock_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    pins = re.findall(r"^(\S+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    named = []
    for one in bill(monkeypatch)["components"]:
        if one["purl"].startswith("pkg:pypi/"):
            named.append((one["name"], one["version"]))
    assert sorted(named) == sorted(pins)
    assert bill(monkeypatch) == bill(monkeypatch)


def test_the_bill_names_licences_and_the_javascript_of_the_wheel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    components = bill(monkeypatch)["components"]
    without = [
        one["name"] for one in components if "licenses" not in one and "properties" not in one
    ]
    assert without == []
    scripts = {}
    for one in components:
        if one["purl"].startswith("pkg:npm/"):
            scripts[one["name"]] = [Path(part["name"]).name for part in one["components"]]
    there = {path.name for path in (ROOT / sbom.VENDOR).glob("*.js")}
    assert {name for names in scripts.values() for name in names} == there
    assert set(scripts) == {"preact", "htm"}


WHAT_IS_LOADED = """
import importlib, pkgutil, sys
import scaler, kubernetes_asyncio.client, kubernetes_asyncio.config
for found in pkgutil.walk_packages(scaler.__path__, "scaler."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
files = [getattr(module, "__file__", None) or "" for module in sys.modules.values()]
print("\\n".join(sorted(files)))
"""


def test_the_image_lacks_nothing_that_any_command_loads() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WHAT_IS_LOADED], capture_output=True, text=True, check=True, cwd=ROOT
    )
    files = [Path(name) for name in ran.stdout.split()]
    stdlib = Path(sysconfig.get_path("stdlib"))
    wheels = Path(sysconfig.get_path("purelib"))
    python = [
        path for path in files if path.is_relative_to(stdlib) and "site-packages" not in path.parts
    ]
    app = [path.relative_to(wheels) for path in files if path.is_relative_to(wheels)]
    assert [path for path in python if not rootfs.is_of_python(path.relative_to(stdlib))] == []
    development = {"_virtualenv.py", "_distutils_hack"}
    assert [
        path for path in app if not rootfs.is_of_the_app(path) and path.parts[0] not in development
    ] == []
    assert len(python) > 100
    assert len(app) > 100


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ({"a": Outcome("ok"), "b": Outcome("ok")}, 0),
        ({"a": Outcome("ok"), "b": Outcome("not run", "no helm")}, 3),
        ({"a": Outcome("failed"), "b": Outcome("not run", "no helm")}, 1),
    ],
)
def test_a_step_that_was_not_run_is_no_success(outcomes: dict[str, Outcome], code: int) -> None:
    assert release_check.verdict(outcomes) == code


def test_what_was_not_run_stands_there_with_its_reason() -> None:
    told = release_check.table(
        {"chart": Outcome("not run", "helm is not installed"), "links": Outcome("ok")}
    )
    assert told.splitlines() == [
        "not run  chart",
        "           helm is not installed",
        "ok       links",
    ]


def test_a_program_that_could_try_nothing_is_not_ok() -> None:
    ended = release_check.program(
        sys.executable, "-c", "print('not tried: no buildah'); raise SystemExit(3)"
    )
    assert ended == Outcome("not run", "not tried: no buildah")
    assert release_check.program(sys.executable, "-c", "raise SystemExit(2)").word == "failed"


@pytest.mark.parametrize(
    ("report", "seconds", "code"),
    [
        (image.Report(), 1.9, 0),
        (image.Report(), 2.1, 1),
        (image.Report(busy=True), 1.9, 0),
        (image.Report(busy=True), 2.1, 3),
        (image.Report(emulated=True), 2.1, 0),
    ],
)
def test_a_slow_start_fails_and_on_a_busy_machine_is_left_open(
    report: image.Report, seconds: float, code: int
) -> None:
    report.speed(seconds, "start")
    assert report.code() == code


def test_the_page_says_the_limits_that_the_image_is_held_to() -> None:
    page = (ROOT / "docs/reference/image.md").read_text("utf-8")
    assert f"fails above {image.MEGABYTES} MB or {image.SECONDS:.0f} s" in page


def test_the_release_check_asks_everything_that_ci_asks() -> None:
    made = re.findall(r"make --no-print-directory (\S+)", (ROOT / ".ci/run").read_text())
    preparing = {"dev", "control-plane"}  # they ask nothing
    steps = {"static": "static", "test": "tests", "test-rest": "rest"}
    asked = [steps[target] for target in made if target not in preparing]
    assert set(asked) - set(release_check.STEPS) == set()
    assert asked
