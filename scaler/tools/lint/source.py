"""A file of a user, and its text. Reads no file itself, and never raises."""

from __future__ import annotations

import json
import re

import msgspec

from scaler.rules.finding import Finding
from scaler.rules.limits import MAX_BYTES
from scaler.tools.lint.brackets import read

_MANIFEST = re.compile(r"""^[ \t]*["']?(?:kind|apiVersion)["']?[ \t]*:""", re.MULTILINE)
BOM = "\ufeff"


class Source(msgspec.Struct, frozen=True):
    """One file. `listed`: the user named it; otherwise it was found in a folder."""

    name: str
    data: bytes
    listed: bool = True


def decode(data: bytes, name: str) -> tuple[str, Finding | None]:
    """The text of a file, or why it has none. Never raises."""
    try:
        return data.decode("utf-8"), None
    except UnicodeDecodeError as broken:
        line_start = data.rfind(b"\n", 0, broken.start) + 1
        line = data.count(b"\n", 0, line_start) + 1
        column = len(data[line_start : broken.start].decode("utf-8", "replace")) + 1
    message = (
        "the file is not UTF-8; kubectl would put it under binaryData, where nobody reads a rule"
    )
    return "", Finding(
        "NotUtf8", (), message, _encoding_hint(data), line=line, column=column, file=name
    )


def is_manifest(text: str) -> bool:
    """Whether a text consists of Kubernetes objects, and is not the bare JSON of a rule."""
    if not text.lstrip(BOM + " \t\r\n").startswith(("{", "[")):
        return _MANIFEST.search(text) is not None
    try:
        value = json.loads(text.removeprefix(BOM))
    except (ValueError, RecursionError):
        root = read(text).root if len(text) <= MAX_BYTES else None
        value = root.value if root is not None else None
    if isinstance(value, list):  # the bare items of a list, as client libraries and jq print them
        return any(isinstance(one, dict) and ("kind" in one or "metadata" in one) for one in value)
    return isinstance(value, dict) and "kind" in value


def _encoding_hint(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "it is UTF-16; save it as UTF-8"
    try:
        data.decode("gbk")
    except UnicodeDecodeError:
        return "save it as UTF-8"
    return "it looks like GBK; save it as UTF-8"
