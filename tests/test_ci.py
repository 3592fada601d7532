"""What a clone brings for whoever works on it: hosted CI and hooks ask what `.ci/run` asks, the map
has every room."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
HOSTED = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"][0]["hooks"]
SETUP = (ROOT / ".ci/setup").read_text("utf-8")
PROGRAMS = list(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"])
BY_HOOK = {
    "format": "format-check",
    "lint": "lint",
    "types": "types",
    "contracts": "contracts",
    "readable": "readable",
}
"""What each hook stands for of `make static`."""


def made(text: str) -> list[str]:
    return re.findall(r"\bmake --no-print-directory ([\w-]+)", text)


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def needed_by(target: str) -> list[str]:
    (line,) = re.findall(rf"^{target}:(.*?)##", MAKEFILE, re.MULTILINE)
    return str(line).split()


def test_actions_are_named_by_what_they_are_and_not_by_a_tag_that_may_move() -> None:
    used = []
    for job in HOSTED["jobs"].values():
        used += [step["uses"] for step in job["steps"] if "uses" in step]
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one)] == []


def test_the_hosted_file_makes_what_ci_run_makes_in_the_same_order() -> None:
    steps = [
        step["run"] for job in HOSTED["jobs"].values() for step in job["steps"] if "run" in step
    ]
    assert made("\n".join(steps)) == made((ROOT / ".ci/run").read_text("utf-8"))
    assert made("\n".join(steps))


def test_the_hooks_ask_everything_that_make_static_asks() -> None:
    assert {BY_HOOK[hook["id"]] for hook in HOOKS} == set(needed_by("static"))


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_uses_the_tools_of_the_clone_and_downloads_nothing(hook: dict[str, str]) -> None:
    assert hook["language"] == "system"
    assert hook["entry"].startswith((".venv/bin/python -m ", "make --no-print-directory "))
    assert set(made(hook["entry"])) <= targets()


def test_the_environment_of_another_tree_is_not_installed_anew(tmp_path: Path) -> None:
    first = tmp_path / "first"
    second = tmp_path / "second"
    for tree in (first, second):
        (tree / ".ci").mkdir(parents=True)
        (tree / ".ci/setup").write_text(SETUP)
        (tree / "requirements-dev.lock").write_text("")
    (first / ".venv").mkdir()
    (first / ".venv/installed-requirements-dev.lock").write_text(f"{first}\n")
    (second / ".venv").symlink_to(first / ".venv")
    ran = subprocess.run(
        ["sh", ".ci/setup", "requirements-dev.lock"],
        cwd=second,
        env={"PATH": "/bin:/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, f"a link to the environment of {first}." in ran.stderr) == (1, True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_clone_has_every_program_of_the_package_and_each_knows_its_name(name: str) -> None:
    """Of the clone itself: `pip install .` would put a copy beside it that goes stale."""
    main = re.findall(r"^ *main='(.*)'$", SETUP, re.MULTILINE)
    assert re.findall(r"for name in (.*); do", SETUP)[0].split() == PROGRAMS
    command = [sys.executable, "-P", "-c", *main, f"/anywhere/{name}", "plan", "--help"]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = {"scaler": "usage: scaler plan", "kubectl-scaler": "usage: kubectl scaler plan"}
    assert ran.stdout.startswith(said.get(name, "--")), ran.stderr


def test_the_map_has_every_room_and_folder_and_nothing_else() -> None:
    rooms = {
        path.relative_to(ROOT).as_posix() + ("/" if path.is_dir() else "")
        for path in (ROOT / "scaler").iterdir()
        if path.name not in ("__init__.py", "__pycache__")
        and (path.is_file() or (path / "__init__.py").exists())
    }
    assert set(re.findall(r"`(scaler/[\w/.]+)`", CONTRIBUTING)) == rooms
    folders = re.findall(r"`((?:tests|manifests|schemas|docs)[\w/]*/)`", CONTRIBUTING)
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def test_every_make_target_that_contributing_names_exists() -> None:
    named = set(re.findall(r"\bmake ([a-z-]+)", CONTRIBUTING))
    assert {"dev", "static", "test", "test-all"} <= named
    assert named <= targets()
