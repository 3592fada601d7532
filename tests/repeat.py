"""What a failed test prints at its end: the command that repeats it, with its seeds.

Histories that are drawn from a seed say which one is played: `played("tests.chaos --seed 7")`.
Where `CI` is set hypothesis draws the same examples in every run: then `CI=true` repeats them, not
a seed."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

_last_played: list[str] = []


def played(command: str) -> None:
    """The history that begins now is repeated by `python -m` and this."""
    _last_played[:] = [command]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _last_played.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.append(("to repeat it", "\n".join(commands(item))))
    return report


def commands(item: pytest.Item) -> list[str]:
    """The test alone with what makes hypothesis draw the same, and the history that it played
    last."""
    words = [_python(), "-m", "pytest", item.nodeid]
    test = getattr(item, "obj", None)
    seed: int | str | None = item.config.getoption("--hypothesis-seed", None)
    if seed is None:
        seed = getattr(test, "_hypothesis_internal_use_generated_seed", None)
    words += [f"--hypothesis-seed={seed}"] if seed is not None else []
    alike = is_hypothesis_test(test) and getattr(settings.default, "derandomize", False)
    same = "CI=true " if alike else ""
    return [same + shlex.join(words), *(f"{_python()} -m {command}" for command in _last_played)]


def _python() -> str:
    """As one would type it in the root of the repository."""
    path = Path(sys.executable)
    here = Path(os.curdir).absolute()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
