"""Findings: errors and warnings, for people and programs. Codes are stable names, listed in
docs/reference/rule.md."""

from __future__ import annotations

from typing import Literal, Self

import msgspec

Level = Literal["error", "warning", "info"]
Path = tuple[str | int, ...]
"""The place in a document: member names and array indices from the root."""


class Finding(msgspec.Struct, frozen=True, gc=False):
    """One error or warning about a document, a file or a Kubernetes object."""

    code: str
    path: Path
    """The place: in the rule document, or in the Kubernetes object for a finding about that."""
    message: str
    hint: str = ""
    """The text to write instead; "" when the message has it."""
    level: Level = "error"
    start: int = -1
    """Offset in the text of the document, -1 until the path has been looked up in the text."""
    on_key: bool = False
    """The place is the name of the member, not its value."""
    cure: str = ""
    """The certain correction of a text in a manifest; "" if it is not certain."""
    line: int = 0
    """Counts from 1, as `column` does, which counts characters; 0 = no place in a text."""
    column: int = 0
    file: str = ""

    @property
    def pointer(self) -> str:
        return pointer(self.path)

    def at(self, line: int, column: int, file: str = "") -> Self:
        """The finding with its place, in characters that every terminal shows."""
        message = printable(self.message)
        hint = printable(self.hint)
        return msgspec.structs.replace(
            self, message=message, hint=hint, line=line, column=column, file=file
        )

    def __str__(self) -> str:
        """One line, as in events, in the status and in the answers of admission."""
        place = f"line {self.line}, column {self.column}: " if self.line else ""
        return f"{place}{self.message}{f'; {self.hint}' if self.hint else ''}"


def pointer(path: Path) -> str:
    """The JSON pointer of a path (RFC 6901): ("a/b", 0) -> "/a~1b/0"."""
    return encodable(
        "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
    )


def encodable(text: str) -> str:
    """`text` for any UTF-8 stream: lone surrogates escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def printable(text: str) -> str:
    """`text` for one line of any UTF-8 stream: lone surrogates and control characters escaped."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in encodable(text)
    )


def shown(value: object, limit: int = 60) -> str:
    """A value of a document as a message shows it: JSON-like, on one line, cut at `limit`
    characters."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return msgspec.json.encode(value).decode()
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return printable(text if len(text) <= limit else text[: limit - 1] + "…")
