"""Lints files of a user: rule documents, ConfigMaps, whole folders of manifests. Text in, findings
out.

Reads no file itself (tools.lint.command does), and never raises."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence

import msgspec

from scaler.names import KEPT_FOR_ANNOTATION, MANAGED_BY, MANAGED_BY_LABEL, RULE_KEY, RULE_LABEL
from scaler.rules.finding import Finding, Path
from scaler.rules.limits import MAX_BYTES
from scaler.rules.rule import Rule
from scaler.tools.common.manifest import Object, objects
from scaler.tools.common.mixtures import in_words, mixtures
from scaler.tools.lint.brackets import read
from scaler.tools.lint.configmap import RuleMap, is_rank_table, is_rule_map, read_rule_map
from scaler.tools.lint.document import read_document
from scaler.tools.lint.guess import (
    foreign_json,
    likely_kind,
    lost_indentation,
    odd_kinds,
    yaml_document,
)
from scaler.tools.lint.jobs import check_job, is_service_job, job_label_faults, rule_name
from scaler.tools.lint.metadata import label_findings
from scaler.tools.lint.roles import NamedRule, Rules, labels_at, same_namespace, workload_faults
from scaler.tools.lint.workloads import labels_are_its_own, roles_of

_MANIFEST = re.compile(r"""^[ \t]*["']?(?:kind|apiVersion)["']?[ \t]*:""", re.MULTILINE)
_MARKS = re.compile(rb"elastic_scaling|^kind:", re.MULTILINE)
_RULE_WORD = "elastic_scaling_list"
BOM = "\ufeff"
MIXTURE = "MixturePossible"
"""An `info`: no error, and nothing fails because of it."""
_WHAT_ENDS_ONE = (
    "it ends when what is missing has room again, fewer are wanted, or a minimum takes the room of"
    ' the surplus; with the annotation mind-cluster/trade: "always" a service that shares nodes'
    " gives up surplus by itself"
)
_HOLDERS = ("ConfigMap", "Secret")
_MOST_KINDS = 8
"""Kinds of unchecked objects that are named in one line."""


class Source(msgspec.Struct, frozen=True):
    """One file. `listed`: the user named it; otherwise it was found in a folder."""

    name: str
    data: bytes
    listed: bool = True


class Report(msgspec.Struct, frozen=True):
    """What was checked and what was found, in the order of the files and of the lines in them."""

    findings: list[Finding]
    checked: Mapping[str, int]
    """The number of `rule`s, and of objects of each kind that name a rule."""
    left_out: Mapping[str, int]
    """Other content of the files, in words, with its number: none of it was checked."""

    @property
    def rules(self) -> int:
        return self.checked.get("rule", 0)

    @property
    def jobs(self) -> int:
        """Workloads of any kind."""
        return sum(self.checked.values()) - self.rules

    @property
    def ok(self) -> bool:
        return not any(finding.level == "error" for finding in self.findings)


class _Read:
    """The content of the files."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.objects: list[Object] = []
        self.documents = 0

    def take(self, source: Source) -> None:
        text, fault = decode(source.data, source.name)
        if fault is not None:
            self.findings += [fault] if source.listed or _MARKS.search(source.data) else []
        elif is_manifest(text):
            self._manifest(text.removeprefix(BOM), source)
        elif source.listed or _RULE_WORD in text:
            self._document(text, source)

    def _manifest(self, text: str, source: Source) -> None:
        lost = lost_indentation(text, source.name)
        if lost:
            self.findings += lost
            return
        several, broken = objects(text, source.name, alone=source.listed)
        self.objects += several
        self.findings += broken
        for one in several:
            self.findings += odd_kinds(one)

    def _document(self, text: str, source: Source) -> None:
        other = yaml_document(text, source.name) or foreign_json(text, source.name)
        if isinstance(other, Object):
            self.objects.append(other)
            message = "this is the data of a ConfigMap without its head; it was checked as one"
            hint = "write apiVersion, kind and metadata.name above it"
            self.findings.append(
                Finding("KindMissing", (), message, hint, line=1, column=1, file=source.name)
            )
        elif other is not None:
            self.findings.append(other)
        else:
            self.documents += 1
            meant, said = read_document(text)
            for finding in said:
                self.findings.append(msgspec.structs.replace(finding, file=source.name))
            for words in _mixtures(meant):
                self.findings.append(Finding(MIXTURE, (), *words, "info").at(1, 1, source.name))


def lint(sources: Sequence[Source]) -> Report:
    """Lint files together, so that workloads are checked against the rules they name. Never
    raises."""
    read_in = _Read()
    for source in sources:
        read_in.take(source)
    maps, rules = rules_among(read_in.objects)
    findings = read_in.findings
    for rule in maps:
        findings += rule.findings
        findings += [
            rule.object.finding(("data", RULE_KEY), MIXTURE, *words, "info")
            for words in _mixtures(rule.rule)
        ]
    checked = Counter(rule=read_in.documents + len(maps))
    left_out = list[Object]()
    holders = {id(rule.object) for rule in maps}
    names = {(one.kind, one.name) for one in read_in.objects}
    for found in read_in.objects:
        faults = faults_of(found, rules) if not is_made(found, names) else None
        if faults is not None:
            checked[found.kind or "object"] += 1
            findings += _findings(found, faults)
        elif id(found) not in holders:
            left_out.append(found)
    words = Counter(map(_what, left_out))
    if sources and not checked.total() and not findings:
        findings.append(_nothing(sources[0].name, left_out, words))
    if maps and checked.total() == len(maps):
        findings += [found.placed(_names_no_rule(found)) for found in left_out if _places(found)][
            :_MOST_KINDS
        ]
    return Report(_sorted(findings, sources), +checked, words)


def faults_of(found: Object, rules: Rules) -> list[Finding] | None:
    """Findings about the labels, gates and sizes of a workload; None for a workload of no
    service."""
    if labels_are_its_own(found):
        return job_label_faults(found, rules) if is_service_job(found) else None
    return None if found.kind in _HOLDERS else workload_faults(found, rules)


def rules_among(found: Sequence[Object]) -> tuple[list[RuleMap], Rules]:
    """The ConfigMaps with rules (or meant to have one), and the same by their names."""
    named = set()
    for one in found:
        for name in _named_by(one):
            named.add((one.namespace, name))
    holders = [one for one in found if _may_hold(one) and not (_is_ours(one) or is_rank_table(one))]
    maps = []
    for one in holders:
        if is_rule_map(one, wanted=_is_named(one, named)):
            maps.append(read_rule_map(one))
    return maps, Rules([NamedRule(one.object.namespace, one.object.name, one.rule) for one in maps])


def is_made(found: Object, names: Container[tuple[str, str]]) -> bool:
    """Whether another object makes this one, so that the other object has to be corrected. `names`
    are the kinds and names of all objects in the files."""
    holder = found.root.get("metadata", "ownerReferences")
    owners = []
    for one in holder.items if holder else ():
        owners.append((one.string_at("kind"), one.string_at("name")))
    if not owners or found.kind == "Pod":  # the labels of a pod may have been edited directly
        return False
    return found.kind in ("ReplicaSet", "ControllerRevision") or any(
        owner in names for owner in owners
    )


def _findings(found: Object, faults: Sequence[Finding]) -> Iterator[Finding]:
    if labels_are_its_own(found):
        yield from check_job(found)
    yield from map(found.placed, faults)
    paths: dict[Path, None] = {}
    for role in roles_of(found) or ():
        paths |= dict.fromkeys(role.labels.values())
    for path in paths:
        yield from label_findings(found, path)


def _named_by(found: Object) -> set[str]:
    """The rules that an object names."""
    if labels_are_its_own(found):
        return {rule_name(found)} - {""}
    names = set()
    for role in roles_of(found) or ():
        for path in role.labels.values():
            names.add(labels_at(found, path).get(RULE_LABEL, ""))
    return names - {""}


def _may_hold(found: Object) -> bool:
    """Whether it is a ConfigMap, or the data of one without its head."""
    return found.kind in _HOLDERS or (
        not found.kind and found.root.get("data", RULE_KEY) is not None
    )


def _is_ours(found: Object) -> bool:
    return found.root.string_at("metadata", "labels", MANAGED_BY_LABEL) == MANAGED_BY


def _is_named(holder: Object, named: set[tuple[str, str]]) -> bool:
    namespaces = []
    for namespace, name in named:
        if name == holder.name:
            namespaces.append(namespace)
    return any(same_namespace(namespace, holder.namespace) for namespace in namespaces)


def _mixtures(rule: Rule | None) -> Iterator[tuple[str, str]]:
    """Finding and advice, if the rule allows combinations."""
    found = mixtures(rule) if rule is not None else None
    if found is not None:
        yield in_words(found), _WHAT_ENDS_ONE


def _what(found: Object) -> str:
    """The words for an object that was not checked."""
    kind = found.kind or "object without a kind"
    if found.kind in _HOLDERS:
        return f"{kind} of the scaler itself" if _is_ours(found) else f"{kind} without a rule"
    checked = labels_are_its_own(found) or roles_of(found)
    return f"{kind} without a rule" if checked else kind


def _nothing(file: str, left_out: Sequence[Object], words: Mapping[str, int]) -> Finding:
    if not left_out:
        message = "nothing to check: no rule, and nothing that names one"
        return Finding("NothingToCheck", (), message, "is this the right file?", "warning").at(
            1, 1, file
        )
    first = left_out[0]
    line, column = first.lines.place(first.root.start)
    near = likely_kind(first.kind)
    kept_for = first.root.string_at("metadata", "annotations", KEPT_FOR_ANNOTATION)
    hint = "give the rule's ConfigMap, or what names it with the label mind-cluster/scaling-rule"
    if near:
        hint = f"did you mean kind: {near}?"
    elif kept_for:
        hint = f"the rule is ConfigMap {kept_for}"
    elif _places(first):
        hint = _where(first)
    message = f"nothing to check: there is {counted(words)}"
    return Finding("NothingToCheck", (), message, hint, "warning").at(line, column, first.file)


def _places(found: Object) -> list[str]:
    """The paths of the labels of an object, in the form of kubectl explain."""
    places: list[str] = []
    for role in roles_of(found) or ():
        if role.is_instance:
            for path in role.labels.values():
                places.append(".".join(map(str, path)))
    return places


def _where(found: Object) -> str:
    return (
        "the scaler leaves its pods alone; the labels that say otherwise belong at"
        f" {' and '.join(_places(found))}"
    )


def _names_no_rule(found: Object) -> Finding:
    """The finding about a workload without a rule, beside rules that no workload names."""
    message = f"this {found.kind} names no rule, and nothing else here names one"
    return Finding("NamesNoRule", ("metadata", "name"), message, _where(found), "warning")


def counted(words: Mapping[str, int]) -> str:
    """`1 Namespace, 2 Service`, the most frequent first."""
    several = sorted(words.items(), key=lambda one: (-one[1], one[0]))
    rest = f" and {len(several) - _MOST_KINDS} other kinds" if len(several) > _MOST_KINDS else ""
    return (
        ", ".join(f"{number} {_several(what, number)}" for what, number in several[:_MOST_KINDS])
        + rest
    )


def _several(what: str, number: int) -> str:
    kind, blank, more = what.partition(" ")
    ending = ("es" if kind.endswith("s") else "s") if number > 1 else ""
    return f"{kind}{ending}{blank}{more}"


def _sorted(findings: list[Finding], sources: Sequence[Source]) -> list[Finding]:
    order = {source.name: index for index, source in enumerate(sources)}
    return sorted(
        findings, key=lambda finding: (order.get(finding.file, 0), finding.line, finding.column)
    )


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
