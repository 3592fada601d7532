"""`make test` and `make test-rest` together run every test once, and a failure says how to repeat
it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts import short_and_long

ROOT = Path(__file__).parent.parent
TESTS = """
import pytest
from hypothesis import given, settings, strategies as st
from tests.parts import short_and_long
from tests.repeat import played

@pytest.mark.parametrize("number", short_and_long(range(4), short=1, why="four take long"))
def test_is_small(number):
    played(f"tests.contention --seed {number}")
    assert number < 2

@pytest.mark.parametrize("plane", ["1.35.3", "1.28.15"])
def test_on(plane, request):
    request.node.user_properties.append(("other", 1))

@settings(database=None)
@given(st.integers())
def test_drawn(number):
    assert number < 10

@pytest.mark.long("a week", first=True)
def test_of_a_week():
    pass
"""
TESTS_IN_GROUPS = """
import pytest

@pytest.mark.parametrize("number", range(6))
@pytest.mark.xdist_group("together")
def test_together(number, worker_id):
    with open("{folder}/workers", "a") as workers:
        workers.write(worker_id + chr(10))

@pytest.mark.parametrize("number", range(6))
def test_anywhere(number):
    pass
"""
TESTS_THAT_SLEEP = """
import time
import pytest

@pytest.mark.parametrize("number", range(6))
def test_of_half_a_second(number, worker_id):
    time.sleep(0.5)
    with open("{folder}/{kind}", "a") as workers:
        workers.write(worker_id + chr(10))
"""
TESTS_OF_A_PLANE = """
import pytest

MADE = []

@pytest.fixture(scope="module")
def plane(request, programs_needed):
    MADE.append(request.param)
    return len(MADE)

def test_before(plane):
    assert plane == 1

def test_at_fault(plane):
    assert plane == 2

def test_after(plane):
    assert plane == 2
"""
TESTS_THAT_SHARE_A_PLANE = """
import pytest

pytestmark = pytest.mark.shares_plane("both")

@pytest.fixture(scope="module")
def plane(request, programs_needed):
    with open("{folder}/planes", "a") as planes:
        planes.write(request.param.name + chr(10))

def test_one(plane):
    pass

def test_another(plane):
    pass
"""
TESTS_OF_A_PROGRAM_THAT_IS_NOT_BUILT = """
import pytest
from tests.control_plane.build import NotInCacheError

@pytest.fixture(scope="module")
def helm():
    raise NotInCacheError("helm")

@pytest.mark.parametrize("number", range(2))
def test_with_helm(helm, number):
    pass

def test_in_a_group():
    raise ExceptionGroup("tasks", [NotInCacheError("helm")])

def test_without():
    pass
"""
CONFTEST = """
import pytest
from hypothesis import settings

settings.load_profile("{profile}")

def pytest_collection_modifyitems(items):
    for item in items:
        if hasattr(item, "callspec") and "plane" in item.callspec.params:
            item.user_properties.append(("kubernetes", item.callspec.params["plane"]))
"""


def run_pytest(folder: Path, *words: str, tests: str = TESTS, ci: bool = False) -> str:
    (folder / "test_few.py").write_text(tests)
    (folder / "conftest.py").write_text(CONFTEST.format(profile="ci" if ci else "default"))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.parts",
        "-p",
        "tests.repeat",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*command, "--rootdir", str(folder), "-c", "/dev/null", *words, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
    )
    return done.stdout


def collected(folder: Path, *words: str) -> list[str]:
    return re.findall(r"::(\S+)$", run_pytest(folder, "--collect-only", *words), re.MULTILINE)


def test_modules_that_share_a_plane_are_given_the_same_one(tmp_path: Path) -> None:
    text = TESTS_THAT_SHARE_A_PLANE.format(folder=tmp_path)
    (tmp_path / "test_others.py").write_text(text)

    said = run_pytest(tmp_path, "-p", "tests.control_plane.plugin", tests=text)

    assert "4 passed" in said
    assert (tmp_path / "planes").read_text().split() == ["both-0", "both-0"]


def test_what_needs_a_program_that_ci_does_not_wait_for_is_skipped_and_counted_at_the_end(
    tmp_path: Path,
) -> None:
    said = run_pytest(
        tmp_path, "-p", "tests.control_plane.plugin", tests=TESTS_OF_A_PROGRAM_THAT_IS_NOT_BUILT
    )

    assert "1 passed, 3 skipped" in said
    words = "helm is not in the cache: 3 tests that need it were skipped; to run them: make"
    assert words in said


def test_the_two_parts_are_all_tests_and_share_none(tmp_path: Path) -> None:
    short = collected(tmp_path, "-m", "not long")
    rest = collected(tmp_path, "-m", "long")
    assert short == ["test_is_small[0]", "test_on[1.35.3]", "test_drawn"]
    assert rest[0] == "test_of_a_week"  # it would be alone at the end
    assert rest[1:] == [
        "test_is_small[1]",
        "test_is_small[2]",
        "test_is_small[3]",
        "test_on[1.28.15]",
    ]


def test_a_failure_names_the_command_and_the_seed_that_repeat_it(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, "-k", "drawn")
    assert re.search(
        r"-m pytest test_few\.py::test_drawn --hypothesis-seed=\d+$", said, re.MULTILINE
    )


def test_a_failure_in_ci_is_repeated_as_in_ci(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, "-k", "drawn", ci=True)
    assert re.search(r"^CI=true \S+ -m pytest test_few\.py::test_drawn$", said, re.MULTILINE)


def test_a_failure_names_the_history_that_was_played_last(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, "-k", "is_small")
    assert re.findall(r"-m tests\.contention --seed (\d)$", said, re.MULTILINE) == ["2", "3"]


def test_what_is_long_says_why() -> None:
    first, second = short_and_long("ab", short=1, why="b is long")
    assert (first, second) == ("a", pytest.param("b", marks=pytest.mark.long("b is long")))


def test_the_tests_of_a_group_run_in_one_worker(tmp_path: Path) -> None:
    tests = TESTS_IN_GROUPS.format(folder=tmp_path)
    said = run_pytest(tmp_path, "-n", "2", "--dist", "loadgroup", tests=tests)
    assert "12 passed" in said
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 6
    assert len(set(workers)) == 1


def test_tests_that_wait_are_spread_over_every_other_worker(tmp_path: Path) -> None:
    (tmp_path / "tests/control_plane").mkdir(parents=True)
    waiting = TESTS_THAT_SLEEP.format(folder=tmp_path, kind="waits")
    (tmp_path / "tests/control_plane/test_waits.py").write_text(waiting)
    said = run_pytest(
        tmp_path,
        "-n",
        "2",
        "--dist",
        "loadgroup",
        tests=TESTS_THAT_SLEEP.format(folder=tmp_path, kind="computes"),
    )
    assert "12 passed" in said
    first, second = ({*(tmp_path / kind).read_text().split()[:3]} for kind in ("waits", "computes"))
    assert (len(first), len(second)) == (1, 1)
    assert first != second


def test_what_fails_is_run_again_on_a_fresh_control_plane_and_so_is_the_rest(
    tmp_path: Path,
) -> None:
    said = run_pytest(tmp_path, "-p", "tests.control_plane.plugin", tests=TESTS_OF_A_PLANE)
    assert "3 passed, 1 rerun" in said
    assert re.search(r"failed once and was run again: \S+::test_at_fault\S*: assert 1 == 2", said)
