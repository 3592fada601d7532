"""Kubernetes objects in YAML (or JSON) text, each value with its place. Knows YAML, not the meaning
of the objects.

Built on PyYAML's events rather than its nodes: composing nodes recurses, and the C loader ends the
whole process on deep nesting. Nothing here raises on bad text: unreadable text is a finding."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from scaler.rules.finding import Finding, Level, Path
from scaler.tools.common.position import Lines
from scaler.tools.common.yaml_slips import slip_near

MAX_DEPTH = 100
MAX_OBJECTS = 10_000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STRING = "tag:yaml.org,2002:str"
_NULL = "tag:yaml.org,2002:null"
_INTEGER = "tag:yaml.org,2002:int"
_BOOLEAN = "tag:yaml.org,2002:bool"
_KINDS: dict[Any, str] = {yaml.MappingStartEvent: "mapping", yaml.SequenceStartEvent: "list"}


class Value(msgspec.Struct):
    """One YAML value: `text` of a scalar, `members` of a mapping (in order, double names kept),
    `items` of a list."""

    kind: str
    """`scalar`, `mapping` or `list`."""
    tag: str
    start: int
    end: int
    text: str = ""
    style: str = ""
    """Of a scalar: `|`, `>`, `"`, `'`, or "" for plain."""
    members: list[tuple[Value, Value]] = []
    items: list[Value] = []

    @property
    def string(self) -> str | None:
        """The text when it is a YAML string, else None."""
        return self.text if self.kind == "scalar" and self.tag == _STRING else None

    @property
    def integer(self) -> int | None:
        """The number when it is a decimal integer, else None."""
        decimal = (
            self.tag == _INTEGER and len(self.text) < 20 and re.fullmatch(r"[-+]?[0-9]+", self.text)
        )
        return int(self.text) if decimal else None

    @property
    def null(self) -> bool:
        return self.kind == "scalar" and self.tag == _NULL

    def get(self, *path: str | int) -> Value | None:
        """The value at the end of `path`, None when there is none (or null). Of duplicate names the
        last counts."""
        here: Value | None = self
        for step in path:
            found = here._at(step) if here else []
            here = found[-1] if found and not found[-1].null else None
        return here

    def _at(self, step: str | int) -> list[Value]:
        if isinstance(step, int):
            return self.items[step : step + 1]
        found: list[Value] = []
        for key, value in self.members:
            if key.text == step:
                found.append(value)
        return found

    def key(self, name: str) -> Value | None:
        """The last member name equal to `name`, with its place."""
        for key, _ in reversed(self.members):
            if key.text == name:
                return key
        return None

    def string_at(self, *path: str | int) -> str:
        """The string at the end of `path`, "" when there is none."""
        value = self.get(*path)
        return (value.string or "") if value else ""

    def plain(self, depth: int, seen: dict[tuple[int, int], Any] | None = None) -> Any:
        """The value as plain JSON, at most `depth` levels of it: deeper values are None.

        A number that is no decimal integer stays text. A value that aliases repeat is made only
        once per level (`seen`), so that a few lines of YAML cannot become a billion."""
        seen = {} if seen is None else seen
        if self.kind == "scalar":
            if self.integer is not None or self.null:
                return self.integer
            return self.text.lower() == "true" if self.tag == _BOOLEAN else self.text
        if (id(self), depth) not in seen:
            seen[id(self), depth] = self._container(depth - 1, seen) if depth > 0 else None
        return seen[id(self), depth]

    def _container(self, depth: int, seen: dict[tuple[int, int], Any]) -> Any:
        if self.kind == "list":
            return [value.plain(depth, seen) for value in self.items]
        return {key.text: value.plain(depth, seen) for key, value in self.members}


class Object(msgspec.Struct, frozen=True):
    """One Kubernetes object of a file."""

    file: str
    lines: Lines
    root: Value
    alone: bool
    """The only object of a file that the user named, not found in a folder."""

    @property
    def kind(self) -> str:
        return self.root.string_at("kind")

    @property
    def name(self) -> str:
        return self.root.string_at("metadata", "name")

    @property
    def namespace(self) -> str:
        """ "" when the manifest has none: kubectl then decides."""
        return self.root.string_at("metadata", "namespace")

    def finding(
        self, path: Path, code: str, message: str, hint: str = "", level: Level = "error"
    ) -> Finding:
        """A finding at the value at `path`; for a missing value at the name that should have it."""
        return self.placed(Finding(code, path, message, hint, level))

    def placed(self, fault: Finding) -> Finding:
        """The finding, whose path leads into this object, with its place in the file."""
        line, column = self.lines.place(self.nearest(fault.path, on_key=fault.on_key).start)
        return fault.at(line, column, self.file)

    def nearest(self, path: Path, *, on_key: bool = False) -> Value:
        """The value at `path`, or its name (`on_key`); for a missing value the name that should
        have it."""
        value = place = self.root
        for step in path:
            key = value.key(str(step))
            inner = value.get(step)
            if inner is None:
                return key or place
            value = inner
            place = key or inner
        return place if on_key else value


def objects(text: str, file: str, *, alone: bool) -> tuple[list[Object], list[Finding]]:
    """All objects of a YAML text, List items one by one; unreadable text is a finding. Never
    raises."""
    found, findings = values(text, file)
    lines = Lines(text)
    roots = []
    for root in found:
        roots.extend(_unpacked(root))
    only = alone and len(roots) == 1 and not findings
    return [Object(file, lines, root, only) for root in roots], findings


def values(text: str, file: str) -> tuple[list[Value], list[Finding]]:
    """The documents of a YAML text up to the first mistake, and that mistake. Never raises."""
    lines = Lines(text)
    roots: list[Value] = []
    findings: list[Finding] = []
    try:
        roots.extend(_documents(text))
        findings.extend(_texts_meant_as_mappings(file, lines, roots))
    except _TooDeepError as deep:
        findings.append(
            _finding(file, lines, deep.offset, f"nested more than {MAX_DEPTH} deep", "")
        )
    except yaml.YAMLError as broken:
        findings.append(_syntax_finding(file, lines, broken))
    except ValueError as broken:  # lone surrogates, which no file can contain
        findings.append(_finding(file, lines, 0, f"not a text: {broken}", "save it as UTF-8"))
    return roots, findings


def _texts_meant_as_mappings(file: str, lines: Lines, roots: list[Value]) -> Iterator[Finding]:
    """`name:value` without a space is a text for YAML."""
    for root in roots:
        if root.kind == "scalar" and not root.style and ":" in root.text:
            slip = slip_near(lines, [lines.place(root.start)[0]])
            if slip is not None:
                place = lines.offset(slip.line, slip.column)
                yield _finding(file, lines, place, f"not YAML: {slip.message}", slip.hint)


def _unpacked(root: Value) -> list[Value]:
    items = root if root.kind == "list" else root.get("items")
    bare = root.kind == "list" or root.string_at("kind").endswith("List")
    if bare and items is not None and items.kind == "list":
        return [item for item in items.items if item.kind == "mapping"][:MAX_OBJECTS]
    return [root] if root.kind == "mapping" else []


class _TooDeepError(Exception):
    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def _documents(text: str) -> Iterator[Value]:
    loader = _LOADER(text)
    try:
        builder = _Builder(loader)
        while loader.check_event():
            root = builder.feed(loader.get_event())
            if root is not None:
                yield root
    finally:
        loader.dispose()


class _Builder:
    """Puts values together from events, with a stack of its own instead of recursion."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._open: list[Value] = []
        self._keys: list[Value | None] = []
        self._anchors: dict[str, Value] = {}

    def feed(self, event: Any) -> Value | None:
        """Take one event; returns the root value when the event completes it."""
        kind = type(event)
        if kind is yaml.DocumentStartEvent:
            self._anchors = {}
        elif kind is yaml.ScalarEvent:
            return self._add(self._scalar(event), event.anchor)
        elif kind is yaml.AliasEvent:
            unknown = Value("scalar", _NULL, event.start_mark.index, event.end_mark.index)
            return self._add(self._anchors.get(event.anchor, unknown), None)
        elif kind in _KINDS:
            start = event.start_mark.index
            self._begin(Value(_KINDS[kind], "", start, start, members=[], items=[]), event.anchor)
        elif kind in (yaml.MappingEndEvent, yaml.SequenceEndEvent):
            self._keys.pop()
            done = self._open.pop()
            done.end = event.end_mark.index
            return self._add(done, None)
        return None

    def _begin(self, value: Value, anchor: str | None) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise _TooDeepError(value.start)
        if anchor:
            self._anchors[anchor] = value
        self._open.append(value)
        self._keys.append(None)

    def _add(self, value: Value, anchor: str | None) -> Value | None:
        if anchor:
            self._anchors[anchor] = value
        if not self._open:
            return value
        holder = self._open[-1]
        key = self._keys[-1]
        if holder.kind == "list":
            holder.items.append(value)
        elif key is None:
            self._keys[-1] = value
        else:
            holder.members.append((key, value))
            self._keys[-1] = None
        return None

    def _scalar(self, event: Any) -> Value:
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        style = event.style if event.style in ("|", ">", '"', "'") else ""
        return Value(
            "scalar", tag, event.start_mark.index, event.end_mark.index, event.value, style
        )


def _syntax_finding(file: str, lines: Lines, broken: yaml.YAMLError) -> Finding:
    mark = getattr(broken, "problem_mark", None)
    offset = mark.index if mark is not None else getattr(broken, "position", 0)
    problem = getattr(broken, "problem", None) or getattr(broken, "reason", None) or "unreadable"
    begun = getattr(broken, "context_mark", None)
    numbers = [lines.place(min(offset, len(lines.text)))[0]]
    if begun is not None:
        numbers.insert(0, lines.place(min(begun.index, len(lines.text)))[0])
    slip = slip_near(lines, numbers)
    if slip is None:
        return _finding(file, lines, offset, f"not YAML: {problem}", "")
    place = lines.offset(slip.line, slip.column)
    return _finding(file, lines, place, f"not YAML: {slip.message}", slip.hint)


def _finding(file: str, lines: Lines, offset: int, message: str, hint: str) -> Finding:
    line, column = lines.place(max(0, min(offset, len(lines.text))))
    return Finding("NotYaml", (), message, hint).at(line, column, file)
