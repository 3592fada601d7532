"""`make readable` refuses what it says it refuses, and nothing else; the tree has none of it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
import readable


def rules_broken(folder: Path, code: str) -> list[str]:
    """The rules that `code`, as a file, breaks, one for each place."""
    path = folder / "code.py"
    path.write_text(dedent(code))
    return [place.rule for place in readable.found([readable.read(path)])]


def asks(folder: Path, code: str) -> bool:
    """Whether `code` holds a function that asks and writes."""
    return "asks" in rules_broken(folder, code)


# packed


def test_unrelated_values_in_one_assignment_are_refused(tmp_path: Path) -> None:
    assert rules_broken(tmp_path, "a, b = 1, 2") == ["packed"]
    assert rules_broken(tmp_path, "one.a, two[0] = f(x), g(x)") == ["packed"]
    assert rules_broken(tmp_path, "(a, b), c = f(x), 3") == ["packed"]


def test_what_belongs_together_may_be_unpacked(tmp_path: Path) -> None:
    exchange = "a, b = b, a"
    one_call = "a, b = f(x)"
    one_name = "first, *rest = names"
    a_tuple = "both = 1, 2"
    assert rules_broken(tmp_path, "\n".join((exchange, one_call, one_name, a_tuple))) == []


# nested


@pytest.mark.parametrize(
    "code",
    [
        "[[b for b in a] for a in x]",
        "{a: sum(b for b in a) for a in x}",
        "any(b in y for b in x if all(c for c in b))",
        "[a for a in {b for b in x}]",
    ],
)
def test_a_comprehension_inside_another_is_refused(tmp_path: Path, code: str) -> None:
    assert rules_broken(tmp_path, code) == ["nested"]


def test_a_comprehension_beside_another_is_not_refused(tmp_path: Path) -> None:
    assert rules_broken(tmp_path, "[a for a in x] + [b for b in y]") == []
    assert rules_broken(tmp_path, "[a for b in x for a in b]") == []


# asks: who asks


@pytest.mark.parametrize(
    "head",
    [
        "def look(self) -> bool",
        "def look(self) -> bool | None",
        "def look(self) -> Reason | None",
        "def look(self) -> world.Reason",
        "def look(self) -> 'Reason | None'",
        "def look(self) -> TypeGuard[int]",
        "def why_left(self) -> str",
        "def _has_room(self) -> Room",
        "def fits(self) -> int",
        "async def is_alive(self) -> bool",
    ],
)
def test_a_question_must_not_write(tmp_path: Path, head: str) -> None:
    assert asks(tmp_path, f"class A:\n    {head}:\n        self.seen = 1")


def test_a_text_that_says_why_not_is_an_answer(tmp_path: Path) -> None:
    taken = """
        class A:
            def objection(self) -> str:
                '''{words}'''
                self.seen = 1
        """
    assert asks(tmp_path, taken.format(words="Why it is not written, none if it is."))
    assert not asks(tmp_path, taken.format(words="Write it; the name under which it is."))


@pytest.mark.parametrize(
    "head",
    [
        "def look(self) -> None",
        "def look(self) -> int",
        "def look(self) -> Outcome",
        "def isolate(self) -> str",
        "async def renew(self) -> bool",
        "def __exit__(self, *_about: object) -> bool",
    ],
)
def test_what_is_no_question_may_write(tmp_path: Path, head: str) -> None:
    assert not asks(tmp_path, f"class A:\n    {head}:\n        self.seen = 1")


# asks: what is writing


@pytest.mark.parametrize(
    "line",
    [
        "one.a = 1",
        "one.a += 1",
        "one[0] = 1",
        "one.a.b[0].c = 1",
        "del one.a",
        "(first, one.a) = f(x)",
        "one.append(1)",
        "one.a.pop()",
        "setattr(one, name, 1)",
        "global known; known = 1",
        "known[one] = 1",
        "alias = one; alias.a = 1",
        "for each in one: each.a = 1",
        "got = one.get(x); got.a = 1",
        "made = []; made = one; made.append(1)",
    ],
)
def test_a_change_of_what_the_function_has_not_made_is_writing(tmp_path: Path, line: str) -> None:
    assert asks(tmp_path, f"def is_new(one, name):\n    {line}\n    return True")


@pytest.mark.parametrize(
    "line",
    [
        "made = []; made.append(one)",
        "made = {}; made[one] = 1",
        "made: set[int] = set(); made.add(1)",
        "made = sorted(one); made.reverse()",
        "made = [x for x in one]; made.sort()",
        "made = Thing(); made.a = 1",
        "made = copy(one); made.a = 1",
        "one = one.a",
        "one.look(1)",
        "text = one.replace('a', 'b')",
    ],
)
def test_a_change_of_what_the_function_has_made_is_not_writing(tmp_path: Path, line: str) -> None:
    assert not asks(tmp_path, f"def is_new(one, name):\n    {line}\n    return True")


def test_a_question_writes_when_a_function_or_method_that_it_calls_does(tmp_path: Path) -> None:
    assert asks(
        tmp_path,
        """
        class Above:
            def _note(self): self._more()
            def _more(self): self.seen = 1

        class A(Above):
            def is_new(self): return self._note()
        """,
    )
    assert asks(
        tmp_path,
        """
        def note(words, where): where.append(words)
        def is_new(one): note("new", where=one.notes)
        """,
    )


def test_to_let_a_function_fill_what_the_question_has_made_is_not_writing(tmp_path: Path) -> None:
    assert not asks(
        tmp_path,
        """
        def note(words, where): where.append(words)

        def is_new(one):
            notes = []
            note(one.words, notes)
            return bool(notes)
        """,
    )


def test_a_command_of_another_class_is_writing(tmp_path: Path) -> None:
    another = """
        class Memory:
            def remember(self, what) -> None: self.known = what

        class A:
            def is_new(self, memory): memory.remember(1)
        """
    not_in_each = """
        class Log:
            def remember(self, what) -> None: ...
        """
    assert asks(tmp_path, another)
    assert not asks(tmp_path, another + not_in_each)


# the tree


def test_comprehensions_are_counted_in_a_hundred_lines(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text("a = [b for b in x]\n" * 3 + "\n" * 97)
    assert readable.density([readable.read(path)]) == 3.0


def test_a_place_is_named_and_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "code.py"
    path.write_text("\na, b = 1, 2\n")
    assert readable.main([str(path)]) == 1
    assert f"{path}:2: packed: a, b = (1, 2)" in capsys.readouterr().out


def test_a_long_line_of_the_page_is_refused_and_not_one_of_a_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vendor").mkdir()
    for name in ("page.js", "page.css", "words.json", "vendor/library.js"):
        (tmp_path / name).write_text(f"{'a' * 100}\n{'a' * 101}\n")
    assert readable.main([str(tmp_path)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[:-1] == [
        f"{tmp_path}/page.css:2: long: 101 columns",
        f"{tmp_path}/page.js:2: long: 101 columns",
    ]
    assert readable.main([str(tmp_path / "page.js")]) == 1


def test_the_tree_is_readable(capsys: pytest.CaptureFixture[str]) -> None:
    assert readable.main([]) == 0, capsys.readouterr().out
