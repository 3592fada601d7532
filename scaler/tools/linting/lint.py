"""Lints files as the user has them: rule documents, ConfigMaps, whole folders of manifests. Text in, findings out.

Reads no file itself (tools.lint does), and never raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import msgspec

from scaler.names import RULE_KEY
from scaler.rules.finding import Finding
from scaler.rules.limits import MAX_BYTES
from scaler.rules.rule import Rule
from scaler.tools.linting.brackets import read
from scaler.tools.linting.configmap import RuleMap, is_rule_map, read_rule_map
from scaler.tools.linting.document import read_document
from scaler.tools.linting.jobs import check_job, is_service_job, rule_name
from scaler.tools.linting.manifest import Object, objects
from scaler.tools.linting.mixtures import in_words, mixtures

_MANIFEST = re.compile(r"""^[ \t]*["']?(?:kind|apiVersion)["']?[ \t]*:""", re.MULTILINE)
_MARKS = re.compile(rb"elastic_scaling|^kind:", re.MULTILINE)
_RULE_WORD = "elastic_scaling_list"
BOM = "\ufeff"
MIXTURE = "MixturePossible"
"""An `info`: nothing is wrong, and nothing fails because of it."""
_WHAT_ENDS_ONE = (
    "it ends when what is missing has room again, or a minimum takes the room of the surplus; "
    'with the annotation mind-cluster/trade: "always" the service gives up surplus by itself'
)


class Source(msgspec.Struct, frozen=True):
    """One file. `listed`: the user named it; otherwise it was found in a folder."""

    name: str
    data: bytes
    listed: bool = True


class Report(msgspec.Struct, frozen=True):
    """What was looked at and what was found, in the order of the files and of the lines in them."""

    findings: list[Finding]
    rules: int
    jobs: int

    @property
    def ok(self) -> bool:
        return not any(finding.level == "error" for finding in self.findings)


def lint(sources: Sequence[Source]) -> Report:
    """Lint files together, so that jobs are checked against the rules they name. Never raises."""
    findings: list[Finding] = []
    found: list[Object] = []
    documents = 0
    for source in sources:
        text, fault = decode(source.data, source.name)
        if fault is not None:
            findings += [fault] if source.listed or _MARKS.search(source.data) else []
        elif is_manifest(text):
            several, broken = objects(text.removeprefix(BOM), source.name, alone=source.listed)
            found += several
            findings += broken
        elif source.listed or _RULE_WORD in text:
            documents += 1
            meant, said = read_document(text)
            findings += [msgspec.structs.replace(finding, file=source.name) for finding in said]
            findings += [Finding("info", MIXTURE, "", 1, 1, *words, source.name) for words in _mixtures(meant)]
    rules, jobs = _relevant(found)
    for rule in rules:
        findings += rule.findings
        place = ("data", RULE_KEY)
        findings += [rule.object.finding(place, MIXTURE, *words, "info") for words in _mixtures(rule.rule)]
    for job in jobs:
        findings += check_job(job, _Rules(rules).find)
    if sources and not (documents or rules or jobs or findings):
        findings.append(_nothing(sources[0].name))
    return Report(_sorted(findings, sources), documents + len(rules), len(jobs))


def decode(data: bytes, name: str) -> tuple[str, Finding | None]:
    """The text of a file, or why it has none. Never raises."""
    try:
        return data.decode("utf-8"), None
    except UnicodeDecodeError as broken:
        line_start = data.rfind(b"\n", 0, broken.start) + 1
        line = data.count(b"\n", 0, line_start) + 1
        column = len(data[line_start : broken.start].decode("utf-8", "replace")) + 1
    message = "the file is not UTF-8; kubectl would put it under binaryData, where nobody reads a rule"
    return "", Finding("error", "NotUtf8", "", line, column, message, _encoding_hint(data), name)


def is_manifest(text: str) -> bool:
    """Whether a text is made of Kubernetes objects, and not the bare JSON of a rule."""
    if not text.lstrip(BOM + " \t\r\n").startswith(("{", "[")):
        return _MANIFEST.search(text) is not None
    try:
        value = json.loads(text.removeprefix(BOM))
    except (ValueError, RecursionError):
        root = read(text).root if len(text) <= MAX_BYTES else None
        value = root.value if root is not None else None
    return isinstance(value, dict) and "kind" in value


def _encoding_hint(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "it is UTF-16; save it as UTF-8"
    try:
        data.decode("gbk")
    except UnicodeDecodeError:
        return "save it as UTF-8"
    return "it looks like GBK; save it as UTF-8"


def _relevant(found: Sequence[Object]) -> tuple[list[RuleMap], list[Object]]:
    """The ConfigMaps that hold rules (or should) and the jobs of inference services."""
    jobs = [candidate for candidate in found if is_service_job(candidate)]
    named = {(job.namespace, rule_name(job)) for job in jobs if rule_name(job)}
    holders = [candidate for candidate in found if candidate.kind in ("ConfigMap", "Secret")]
    return [read_rule_map(holder) for holder in holders if is_rule_map(holder, wanted=_is_named(holder, named))], jobs


def _is_named(holder: Object, named: set[tuple[str, str]]) -> bool:
    return any(name == holder.name and _same_namespace(namespace, holder.namespace) for namespace, name in named)


def _same_namespace(one: str, other: str) -> bool:
    """A manifest without a namespace goes wherever kubectl is told."""
    return one == other or not one or not other


class _Rules:
    """The rules among the linted files, by what a job says."""

    def __init__(self, rules: Sequence[RuleMap]) -> None:
        self._rules = rules

    def find(self, job: Object) -> tuple[bool, Rule | None]:
        """Whether the job's rule is there, and the rule when it is valid and the only one of its name."""
        matching = [rule for rule in self._rules if _is_named(rule.object, {(job.namespace, rule_name(job))})]
        return bool(matching), matching[0].rule if len(matching) == 1 else None


def _mixtures(rule: Rule | None) -> Iterator[tuple[str, str]]:
    """What was found and what to write, where a rule leaves mixtures open."""
    found = mixtures(rule) if rule is not None else None
    if found is not None:
        yield in_words(found), _WHAT_ENDS_ONE


def _nothing(file: str) -> Finding:
    message = "nothing to check: no rule, no ConfigMap with a rule and no AscendJob of an inference service"
    return Finding("warning", "NothingToCheck", "", 1, 1, message, "is a `kind` misspelt?", file)


def _sorted(findings: list[Finding], sources: Sequence[Source]) -> list[Finding]:
    order = {source.name: index for index, source in enumerate(sources)}
    return sorted(findings, key=lambda finding: (order.get(finding.file, 0), finding.line, finding.column))
