"""Code with one mistake in it, and the question who notices.

A mutant edits functions of modules that are loaded (`broken`), or a file in a copy of the tree (tests.decide.mutants).
Either way `ask` puts the question to one mutant after the other.
"""

from __future__ import annotations

import inspect
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, NamedTuple, Protocol, TypeVar


class Edit(NamedTuple):
    """In `module`, the function or property `where` (`Class.method` or a plain name) has `new` instead of `old`."""

    module: ModuleType
    where: str
    old: str
    new: str


class Mutant(NamedTuple):
    """The fields of an `Edit`, and `also` others that the mistake takes."""

    mistake: str
    module: ModuleType
    where: str
    old: str
    new: str
    aimed: str = ""
    """Histories that bring it about (tests.chaos.aimed); "": random ones."""
    also: tuple[Edit, ...] = ()

    @property
    def edits(self) -> tuple[Edit, ...]:
        return Edit(self.module, self.where, self.old, self.new), *self.also


@contextmanager
def broken(mutant: Mutant) -> Iterator[None]:
    """The controller with this mistake in it."""
    with ExitStack() as mended:
        for edit in mutant.edits:
            mended.enter_context(_edited(mutant.mistake, edit))
        yield


@contextmanager
def _edited(mistake: str, edit: Edit) -> Iterator[None]:
    owner: Any = edit.module
    *classes, name = edit.where.split(".")
    for part in classes:
        owner = getattr(owner, part)
    original = getattr(owner, name)
    function: Any = original.fget if isinstance(original, property) else original
    source = textwrap.dedent(inspect.getsource(function))
    if edit.old not in source:
        raise ValueError(f"{mistake}: {edit.where} has no {edit.old!r} any more")
    changed = source.replace(edit.old, edit.new)
    made: dict[str, Any] = {}
    exec(compile(f"from __future__ import annotations\n{changed}", name, "exec"), function.__globals__, made)  # noqa: S102
    setattr(owner, name, made[name])
    try:
        yield
    finally:
        setattr(owner, name, original)


class Named(Protocol):
    @property
    def mistake(self) -> str: ...


_M = TypeVar("_M", bound=Named)


def ask(mutants: Iterable[_M], words: Iterable[str], noticed_by: Callable[[_M], str]) -> int:
    """Ask about each mutant whose name has all of these words; a line for each. How many survived.

    `noticed_by` names the test or history that notices, "" for none. SystemExit when no name fits.
    """
    chosen = [mutant for mutant in mutants if all(word in mutant.mistake for word in words)]
    if not chosen:
        raise SystemExit(f"no mutant's name has {' and '.join(words)} in it")
    survivors = 0
    for mutant in chosen:
        began = time.perf_counter()
        who = noticed_by(mutant)
        survivors += not who
        verdict = f"killed by {who}" if who else "SURVIVED"
        print(f"{mutant.mistake}: {verdict[:200]} ({time.perf_counter() - began:.0f} s)", flush=True)
    return survivors
