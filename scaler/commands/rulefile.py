"""Finds the one rule in a file that a user names: a ConfigMap, alone or among other manifests, or its bare JSON.

Must not judge the document: rules.document does, and what it finds is passed on in its words.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from scaler.rules.document import KEY, RuleReading, read_rule
from scaler.rules.finding import Finding
from scaler.rules.rule import Rule, RuleOptions


class RuleFileError(Exception):
    """There is no usable rule; the text says where, what and how, one finding per line."""


class LoadedRule(NamedTuple):
    rule: Rule
    options: RuleOptions


def load_rule(file: str) -> LoadedRule:
    """The rule in `file` (- = standard input). Raises RuleFileError when there is none or it has errors."""
    shown = "standard input" if file == "-" else file
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        text = content.decode()
    except OSError as error:
        raise RuleFileError(f"{shown}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise RuleFileError(f"{shown}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    reading = _read(text, shown)
    if reading.rule is None:
        raise RuleFileError("\n".join(_line(shown, finding) for finding in reading.errors))
    return LoadedRule(reading.rule, reading.options)


def _read(text: str, shown: str) -> RuleReading:
    maps = [found for found in _manifests(text, shown) if found.get("kind") == "ConfigMap"]
    if not maps:
        return read_rule({KEY: text}, (), {})
    rules = [found for found in maps if KEY in _mapping(found, "data")] or maps[:1]
    if len(rules) > 1:
        names = ", ".join(str(_mapping(found, "metadata").get("name")) for found in rules)
        raise RuleFileError(f"{shown}: holds {len(rules)} rules ({names}); give a file with the one you mean")
    found = rules[0]
    return read_rule(
        _mapping(found, "data"),
        list(_mapping(found, "binaryData")),
        _mapping(_mapping(found, "metadata"), "annotations"),
    )


def _manifests(text: str, shown: str) -> Iterator[dict[str, Any]]:
    """The Kubernetes objects of the file; none when it is no manifest, and then it is read as a bare document."""
    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if "kind:" not in text:
            return
        where = getattr(error, "problem_mark", None)
        place = f"{shown}:{where.line + 1}:{where.column + 1}" if where else shown
        raise RuleFileError(f"{place}: not YAML: {getattr(error, 'problem', None) or error}") from None
    for document in documents:
        items = document.get("items") if isinstance(document, dict) else None
        for found in items if isinstance(items, list) else [document]:
            if isinstance(found, dict):
                yield found


def _mapping(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    return value if isinstance(value, dict) else {}


def _line(shown: str, finding: Finding) -> str:
    """`rule.yaml: error NotJson at /a/b (line 3 of elastic_scaling.json): what was found; what to write`."""
    place = f" (line {finding.line}, column {finding.column} of {KEY})" if finding.line else ""
    pointer = f" at {finding.pointer}" if finding.pointer else ""
    hint = f"; {finding.hint}" if finding.hint else ""
    return f"{shown}: {finding.level} {finding.code}{pointer}{place}: {finding.message}{hint}"
