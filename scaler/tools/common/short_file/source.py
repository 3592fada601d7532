"""The text of a short file: YAML, read strictly, each value with its place, and its mistakes in
words.

Strict: no duplicate names, no merge or alias that grows, bounded in size and depth. Must not know
the meaning of keys."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar, get_args

import msgspec
import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from scaler.rules.finding import Finding, Path, shown
from scaler.tools.common.manifest import Value, values
from scaler.tools.common.position import Lines
from scaler.tools.common.render import dotted, in_one_line

MAX_BYTES = 256 * 1024
"""Of a file. The shipped ones have 3 KiB."""
MAX_MEMBERS = 1_000
"""Members of one mapping or list."""
MAX_ENTRIES = 50_000
"""Members of all mappings and lists together; merged ones count each time."""
MAX_DEPTH = 100
"""Levels of mappings and lists, also by merging."""
MOST = 50
"""Findings that are printed."""

M = TypeVar("M", bound=BaseModel)
_MERGE = "tag:yaml.org,2002:merge"
_STRING = "tag:yaml.org,2002:str"


class ConfigError(Exception):
    """The text describes no service; `str()` has one line for each finding, without the name of the
    file."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        by_place: dict[tuple[int, int, str, str, str], Finding] = {}
        for one in findings:
            by_place[one.line, one.column, dotted(one.path), one.message, one.hint] = one
        in_order = [by_place[place] for place in sorted(by_place)]
        self.findings = tuple(in_order[:MOST])
        super().__init__("\n".join(map(in_one_line, self.findings)))


def mistake(path: Path, what: str, how: str = "") -> Finding:
    """A mistake in a short file, by the keys to its place. It needs no code: these mistakes end the
    command, and nothing refers to them."""
    return Finding("", path, what, how)


class Scalar(str):
    """A plain scalar that YAML reads as another type than text; its value is the text as
    written."""

    __slots__ = ("meaning",)
    meaning: Any


class Source:
    """A mapping, and the places of all values in it."""

    def __init__(self, lines: Lines, root: Value, data: dict[str, Any]) -> None:
        self._lines = lines
        self._root = root
        self._data = data

    @property
    def keys(self) -> Collection[str]:
        """Keys of the top level, except for those without a value."""
        found = []
        for key, value in self._data.items():
            if value is not None:
                found.append(key)
        return found

    def text_at(self, key: str) -> str | None:
        """A text of the top level."""
        value = self._data.get(key)
        return str(value) if isinstance(value, str) else None

    def validated(self, model: type[M], *, without: Collection[str]) -> M:
        """The model's value, without some keys of the top level. Raises ConfigError."""
        try:
            return model.model_validate(
                {key: self._data[key] for key in self._data if key not in without}
            )
        except ValidationError as error:
            found = [_fault(details, model) for details in error.errors(include_url=False)]
        raise ConfigError([self._finding(fault) for fault in found])

    def refuse(self, *faults: Finding) -> None:
        """Raises ConfigError if there is any fault."""
        if faults:
            raise ConfigError([self._finding(fault) for fault in faults])

    def _finding(self, fault: Finding) -> Finding:
        key: Value | None = None
        here = self._root
        for step in fault.path:
            found = _member(here, step)
            if found is None:
                break
            key, here = found
        place = key or here
        return _placed(self._lines, place.start, fault)


def _placed(lines: Lines, offset: int, fault: Finding) -> Finding:
    line, column = lines.place(max(0, min(offset, len(lines.text))))
    return fault.at(line, column)


def _member(here: Value, step: str | int) -> tuple[Value, Value] | None:
    """The name (of an item: itself) and the value."""
    if isinstance(step, int):
        return (here.items[step], here.items[step]) if step < len(here.items) else None
    for key, value in reversed(here.members):
        if key.text == step:
            return key, value
    merged = [value for key, value in here.members if key.tag == _MERGE]
    for other in merged:
        for one in other.items if other.kind == "list" else [other]:
            if (found := _member(one, step)) is not None:
                return found
    return None


# From text to values


def read_source(text: str | bytes) -> Source:
    """The source. Raises ConfigError if the text is no YAML, not one mapping, or too large."""
    text = _decoded(text)
    lines = Lines(text)
    (roots, broken) = values(text, "")
    if broken:
        raise ConfigError(msgspec.structs.replace(one, path=()) for one in broken)
    roots = [root for root in roots if not root.null]
    if not roots:
        raise ConfigError(
            [mistake((), "there is nothing in it", "start with app_name: ...").at(1, 1)]
        )
    if len(roots) > 1:
        fault = mistake((), "a second document begins here", "one file describes one service")
        raise ConfigError([_placed(lines, roots[1].start, fault)])
    if roots[0].kind != "mapping":
        raise ConfigError(
            [_placed(lines, roots[0].start, mistake((), "keys and values are needed here"))]
        )
    reader = _Reader(lines)
    data = reader.data(roots[0], ())
    if reader.findings:
        raise ConfigError(reader.findings)
    return Source(lines, roots[0], data)


def _decoded(text: str | bytes) -> str:
    """The text. Raises ConfigError if it is too long or no UTF-8 (also if cut inside a
    character)."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if len(data) > MAX_BYTES:
        what = f"{len(data):,} bytes are more than {MAX_BYTES:,}"
        raise ConfigError([mistake((), what, "shorten it").at(1, 1)])
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        line, column = Lines(before).place(len(before))
        how = "save the file as UTF-8"
        fault = mistake((), "here is no UTF-8 text", how)
        raise ConfigError([fault.at(line, column)]) from None


class _Reader:
    """Makes dicts, lists and texts from values, each value once, and collects their mistakes."""

    def __init__(self, lines: Lines) -> None:
        self.findings: list[Finding] = []
        self._lines = lines
        self._made: dict[int, Any] = {}
        self._open: set[int] = set()
        self._entries = 0

    def data(self, value: Value, path: Path) -> Any:
        """None, a text, a Scalar, or a list or dict of these."""
        if value.kind == "scalar":
            return _scalar(value)
        if id(value) in self._open or len(self._open) > MAX_DEPTH or self._entries > MAX_ENTRIES:
            own = id(value) in self._open
            self._refuse(
                value, path, "it contains itself" if own else "too much is nested or merged here"
            )
            return None
        if id(value) not in self._made:
            self._open.add(id(value))
            self._made[id(value)] = self._container(value, path)
            self._open.remove(id(value))
        return self._made[id(value)]

    def _container(self, value: Value, path: Path) -> Any:
        if len(value.items) + len(value.members) > MAX_MEMBERS:
            self._refuse(value, path, f"more than {MAX_MEMBERS:,} entries")
            return None
        if value.kind == "list":
            return [self.data(item, (*path, number)) for number, item in enumerate(value.items)]
        made: dict[str, Any] = {}
        for key, inner in value.members:
            if key.tag == _MERGE:
                continue
            if key.kind != "scalar":
                self._refuse(key, path, "a name is needed here, not a list or a mapping")
            elif key.text in made:
                self._refuse(
                    key, (*path, key.text), "the same name a second time", "delete one of them"
                )
            else:
                made[key.text] = self.data(inner, (*path, key.text))
        for inner in (inner for key, inner in value.members if key.tag == _MERGE):
            for name, item in self._merged(inner, path).items():
                made.setdefault(name, item)
        self._entries += len(made)
        return made

    def _merged(self, value: Value, path: Path) -> dict[str, Any]:
        """The members that `<<` merges; of several the first wins."""
        found: dict[str, Any] = {}
        for one in value.items if value.kind == "list" else [value]:
            data = self.data(one, path)
            if not isinstance(data, dict):
                self._refuse(value, (*path, "<<"), "only a mapping can be merged")
                return {}
            found = {**data, **found}
        return found

    def _refuse(self, value: Value, path: Path, what: str, how: str = "") -> None:
        if len(self.findings) < MOST:
            self.findings.append(_placed(self._lines, value.start, mistake(path, what, how)))


def _scalar(value: Value) -> Any:
    if value.null:
        return None
    if value.tag == _STRING:
        return value.text
    found = Scalar(value.text)
    found.meaning = _meaning(value.text)
    return found


def _meaning(text: str) -> Any:
    """YAML's value of a plain scalar; the text itself if there is no such value."""
    try:
        return yaml.safe_load(text) if len(text) < 100 else text
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        return text


# What a model refuses, in words

_WORDS = {
    "model_type": "keys and values are needed here",
    "dict_type": "names and texts are needed here",
    "list_type": "a list is needed here",
    "string_type": "a text is needed here",
}


def _fault(details: ErrorDetails, model: type[BaseModel]) -> Finding:
    path = tuple(step for step in details["loc"] if step != "[key]")
    kind = details["type"]
    context = details.get("ctx", {})
    if kind == "extra_forbidden":
        return mistake(path, "is not known here", _nearest(str(path[-1]), path[:-1], model))
    if kind == "missing":
        return mistake(path, "is missing", f"add {path[-1]}: ...")
    if kind == "too_short":
        return mistake(path, "is empty", "write at least one, or leave it out")
    if kind == "literal_error":
        return mistake(
            path,
            f"{shown(_plain(details['input']))} is not known here",
            f"write {context['expected']}",
        )
    if kind in _WORDS:
        return mistake(path, f"{_WORDS[kind]}, found {shown(_plain(details['input']))}")
    for name, words in (("ge", "less than"), ("le", "more than")):
        if name in context:
            return mistake(path, f"{details['input']} is {words} {context[name]:,}")
    what, _, how = details["msg"].removeprefix("Value error, ").partition("|")
    return mistake(path, what, how)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, str) else value


def _nearest(word: str, path: Sequence[str | int], model: type[BaseModel]) -> str:
    """The key that was probably meant."""
    here = _model_at(path, model)
    names = [field.alias or name for name, field in here.model_fields.items()] if here else []
    plain = {name.lower().replace("_", "").replace("-", ""): name for name in names}
    close = difflib.get_close_matches(
        word[:63].lower().replace("_", "").replace("-", ""), plain, n=1, cutoff=0.6
    )
    if close:
        return f"did you mean {plain[close[0]]}?"
    return f"known are {', '.join(names)}" if names else ""


def _model_at(path: Sequence[str | int], model: type[BaseModel]) -> type[BaseModel] | None:
    here: type[BaseModel] | None = model
    for step in path:
        fields = (
            {field.alias or name: field for name, field in here.model_fields.items()}
            if here
            else {}
        )
        kinds = (
            [fields[step].annotation, *get_args(fields[step].annotation)] if step in fields else []
        )
        here = None
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                here = kind
                break
    return here
