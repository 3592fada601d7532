"""Code with one mistake in it, and whether the history or the tests that are named for it notice.

    nice python -m tests.mutants [--random N] [WORDS ...]

WORDS are parts of its name or of what notices it; without any all are tried. Mutants of the
decision, each a sentence of the contract, are noticed by tests (`test_`, tests/decide/mutants.py),
those of the controller by histories (tests/chaos/mutants.py). The exit code is 1 when one
survives."""

from __future__ import annotations

import argparse
import inspect
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import hypothesis
import pytest

DECISION = Path(__file__).parent / "decide"
OPTIONS = ("-x", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
HANGS = 900
"""Seconds after which tests count as failed: none of the decision takes that long."""


class Edit(NamedTuple):
    """In functions of `module` there is `new` instead of `old`, which is in its source exactly
    once."""

    module: ModuleType
    old: str
    new: str


class Mutant(NamedTuple):
    """The fields of an `Edit`, and `also` others that the mistake takes."""

    mistake: str
    module: ModuleType
    old: str
    new: str
    by: str
    """What notices: a history (tests.chaos.mutants.failures_of), or names of test files of the
    decision."""
    sentence: str = ""
    """Where the contract says otherwise."""
    also: tuple[Edit, ...] = ()


@contextmanager
def broken(mutant: Mutant) -> Iterator[None]:
    """The controller with this mistake in it. ValueError when it can no longer be made."""
    with ExitStack() as mended:
        for module, old, new in (Edit(mutant.module, mutant.old, mutant.new), *mutant.also):
            source = inspect.getsource(module)
            if (found := source.count(old)) != 1:
                raise ValueError(f"{mutant.mistake}: {module.__name__} has {found} of {old!r}")
            before, after = (
                _codes(compile(text, str(module.__file__), "exec"))
                for text in (source, source.replace(old, new))
            )
            changed = {name: code for name, code in after.items() if code != before[name]}
            if not changed:
                raise ValueError(f"{mutant.mistake}: {old!r} is in no function")
            for name, code in changed.items():
                function = _function(module, name)
                mended.callback(setattr, function, "__code__", function.__code__)
                function.__code__ = code
        yield


def _codes(code: CodeType) -> dict[str, CodeType]:
    """The functions of a module or class, methods included, by qualified name."""
    found: dict[str, CodeType] = {}
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and not inner.co_name.startswith("<"):
            is_function = inner.co_flags & inspect.CO_NEWLOCALS
            found |= {inner.co_qualname: inner} if is_function else _codes(inner)
    return found


def _function(module: ModuleType, name: str) -> FunctionType:
    """Below properties and decorators."""
    found: Any = module
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    while not isinstance(found, FunctionType) or hasattr(found, "__wrapped__"):
        inside = ("__wrapped__", "__func__", "fget", "func")
        found = next(getattr(found, where) for where in inside if hasattr(found, where))
    return found


def failing_test(files: list[str]) -> str:
    """The first test in these files of the decision that fails, "" when all pass; in a process of
    its own."""
    with multiprocessing.get_context("fork").Pool(1) as processes:
        try:
            return processes.apply_async(_failing_test, [files]).get(HANGS)
        except multiprocessing.TimeoutError:
            return f"no end within {HANGS} s"


def _failing_test(files: list[str]) -> str:
    failed: list[str] = []

    class Listener:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            failed.extend([report.nodeid] if report.failed else [])

    # The same examples each time, and none that failed with another mutant.
    hypothesis.settings.register_profile("mutants", derandomize=True, database=None)
    hypothesis.settings.load_profile("mutants")
    paths = [str(DECISION / f"{name}.py") for name in files]
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        code = pytest.main([*OPTIONS, *paths], plugins=[Listener()])
    if code not in (0, 1):
        raise RuntimeError(f"the tests cannot be run: {code}")
    return failed[0] if failed else ""


def _has_all(mutant: Mutant, words: list[str]) -> bool:
    """Its name or what notices it has all these words in it."""
    said = f"{mutant.mistake} {mutant.by}"
    return all(word in said for word in words)


def main() -> int:
    """1 if any mutant survives. SystemExit when what should notice fails without one."""
    from tests.chaos.mutants import MUTANTS as OF_CONTROLLER
    from tests.chaos.mutants import failures_of
    from tests.decide.mutants import MUTANTS as OF_DECISION

    def found_by(by: str) -> str:
        failures = [failing_test(by.split())] if by.startswith("test_") else failures_of(by)
        return next((f"{by}: {failure}" for failure in failures if failure), "")

    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument(
        "--random",
        type=int,
        default=0,
        metavar="N",
        help="play the random schedules below N instead",
    )
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()
    everything = (*OF_DECISION, *OF_CONTROLLER)
    chosen = [mutant for mutant in everything if _has_all(mutant, args.words)]
    if not chosen:
        raise SystemExit(f"no mutant's name has {' and '.join(args.words)} in it")
    at_random = [f"random {number}" for number in range(args.random)]
    for by in at_random or sorted({mutant.by for mutant in chosen}):
        if failure := found_by(by):
            raise SystemExit(f"fails without any mistake: {failure}")
    survivors = 0
    for mutant in chosen:
        began = time.perf_counter()
        with broken(mutant):
            found = next(filter(None, map(found_by, at_random or [mutant.by])), "")
        survivors += not found
        verdict = f"killed by {found}" if found else "SURVIVED"
        print(
            f"{mutant.mistake}: {verdict[:200]} ({time.perf_counter() - began:.0f} s)", flush=True
        )
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main())
