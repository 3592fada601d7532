"""Finds the only rule in a file: a ConfigMap, alone or among other manifests, or its bare JSON.

Must not check the document: scaler.rules does, and its findings are shown as `scaler lint` shows
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from scaler.rules.document import read_options
from scaler.rules.finding import Finding
from scaler.rules.rule import Rule, RuleOptions
from scaler.tools.common.manifest import objects
from scaler.tools.common.render import render
from scaler.tools.common.short_file.expanded import is_short_file, manifests_of
from scaler.tools.common.usage import content_of
from scaler.tools.lint.configmap import RuleMap, is_rule_map, read_rule_map
from scaler.tools.lint.document import read_document
from scaler.tools.lint.guess import foreign_json, lost_indentation, yaml_document
from scaler.tools.lint.source import BOM, decode, is_manifest
from scaler.tools.lint.unchecked import counted

STDIN = "<stdin>"


class RuleFileError(Exception):
    """There is no usable rule; the text has place, error and correction, and ends with a line
    end."""


class LoadedRule(NamedTuple):
    rule: Rule
    options: RuleOptions
    name: str
    """Name of the ConfigMap; for bare JSON that of its file."""
    namespace: str = "default"


def load_rule(file: str) -> LoadedRule:
    """The rule in `file` (- = standard input). Raises UnreadableError, and RuleFileError when there
    is none or it has errors."""
    name = STDIN if file == "-" else file
    text, fault = decode(content_of(file), name)
    if fault is not None:
        raise _error([fault], name, text)
    if is_short_file(text):
        text = _made_of(text, name)
    if is_manifest(text):
        return _from_manifest(text.removeprefix(BOM), name)
    other = yaml_document(text, name) or foreign_json(text, name)
    if isinstance(other, Finding):
        raise _error([other], name, text)
    rule, findings = read_document(text)
    if rule is None:
        raise _error(findings, name, text)
    return LoadedRule(rule, RuleOptions(), "rule" if file == "-" else Path(file).stem)


def _made_of(text: str, name: str) -> str:
    """The manifests of a short file. Raises RuleFileError."""
    from scaler.tools.common.short_file.service import ConfigError  # noqa: PLC0415 - rare

    try:
        return manifests_of(text)
    except ConfigError as error:
        raise RuleFileError(
            "".join(f"{name}:{line}\n" for line in str(error).splitlines())
        ) from None


def _from_manifest(text: str, name: str) -> LoadedRule:
    found, broken = objects(text, name, alone=True)
    broken = lost_indentation(text, name) or broken
    if broken:
        raise _error(broken, name, text)
    holders = []
    for one in found:
        if one.kind in ("ConfigMap", "Secret") and is_rule_map(one, wanted=False):
            holders.append(one)
    maps = [read_rule_map(one) for one in holders]
    if len(maps) != 1:
        kinds = Counter(one.kind or "object without a kind" for one in found)
        none = (
            f"no ConfigMap with elastic_scaling.json, but {counted(kinds)}"
            if kinds
            else "no object"
        )
        names = ", ".join(one.object.name for one in maps) or none
        raise RuleFileError(
            f"{name}: one rule is asked about, this file has {names}; give a file with one\n"
        )
    if maps[0].rule is None:
        raise _error(maps[0].findings, name, text)
    found_in = maps[0].object
    return LoadedRule(
        maps[0].rule, _options(maps[0]), found_in.name or "rule", found_in.namespace or "default"
    )


def _options(found: RuleMap) -> RuleOptions:
    annotations = found.object.root.get("metadata", "annotations")
    members = annotations.members if annotations else []
    return read_options({key.text: value.text for key, value in members})[0]


def _error(findings: Sequence[Finding], name: str, text: str) -> RuleFileError:
    errors = []
    for finding in findings:
        if finding.level == "error":
            errors.append(msgspec.structs.replace(finding, file=name))
    return RuleFileError(render(errors, {name: text}, color=False))
