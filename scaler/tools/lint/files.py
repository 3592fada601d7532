"""Lints files of a user: rule documents, ConfigMaps, whole folders of manifests. Text in, findings
out.

Reads no file itself (tools.lint.command does), and never raises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from scaler.names import RULE_KEY
from scaler.rules.finding import Finding, Path
from scaler.tools.common.manifest import Object
from scaler.tools.common.render import dotted
from scaler.tools.lint.configmap import RuleMap
from scaler.tools.lint.contents import INVALID_SERVICE, MIXTURE, Contents, mixtures_of
from scaler.tools.lint.jobs import check_job
from scaler.tools.lint.metadata import label_findings
from scaler.tools.lint.names import name_findings
from scaler.tools.lint.pairing import faults_of, is_made, rules_among
from scaler.tools.lint.source import Source
from scaler.tools.lint.unchecked import (
    MOST_SHOWN,
    kind_in_words,
    label_places,
    names_no_rule,
    nothing_checked,
)
from scaler.tools.lint.workloads import labels_are_its_own, roles_of


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


def lint(sources: Sequence[Source]) -> Report:
    """Lint files together, so that workloads are checked against the rules they name. Never
    raises."""
    contents = Contents()
    for source in sources:
        contents.take(source)
    maps, rules = rules_among(contents.objects)
    findings = contents.findings
    for one in maps:
        findings += _rule_findings(one)
    checked = Counter(rule=contents.documents + len(maps))
    left_out: list[Object] = []
    holders = {id(one.object) for one in maps}
    names = {(one.kind, one.name) for one in contents.objects}
    for found in contents.objects:
        faults = faults_of(found, rules) if not is_made(found, names) else None
        if faults is not None:
            checked[found.kind or "object"] += 1
            findings += _workload_findings(found, faults)
        elif id(found) not in holders:
            left_out.append(found)
    words = Counter(map(kind_in_words, left_out))
    if sources and not checked.total() and not findings:
        findings.append(nothing_checked(sources[0].name, left_out, words))
    only_rules = checked.total() == len(maps)
    if maps and only_rules:
        findings += _naming_no_rule(left_out)
    placed = []
    for finding in findings:
        is_of_made = finding.file in contents.short_files and finding.code != INVALID_SERVICE
        placed.append(_of_made(finding) if is_of_made else finding)
    return Report(_sorted(placed, sources), +checked, words)


def _of_made(found: Finding) -> Finding:
    """A finding about what a short file makes: its line is of no file."""
    keys = dotted(found.path)
    where = f"{keys} of what is made of it: " if keys else ""
    return msgspec.structs.replace(found, message=f"{where}{found.message}", line=0, column=0)


def _rule_findings(found: RuleMap) -> Iterator[Finding]:
    yield from found.findings
    for message, hint in mixtures_of(found.rule):
        yield found.object.finding(("data", RULE_KEY), MIXTURE, message, hint, "info")


def _workload_findings(found: Object, faults: Sequence[Finding]) -> Iterator[Finding]:
    yield from name_findings(found)
    if labels_are_its_own(found):
        yield from check_job(found)
    yield from map(found.placed, faults)
    paths: dict[Path, None] = {}
    for role in roles_of(found) or ():
        paths |= dict.fromkeys(role.labels.values())
    for path in paths:
        yield from label_findings(found, path)


def _naming_no_rule(left_out: Sequence[Object]) -> list[Finding]:
    """The workloads without a rule, when there are rules and none of the workloads names one."""
    findings = []
    for found in left_out:
        if label_places(found):
            findings.append(found.placed(names_no_rule(found)))
    return findings[:MOST_SHOWN]


def _sorted(findings: list[Finding], sources: Sequence[Source]) -> list[Finding]:
    order = {source.name: index for index, source in enumerate(sources)}
    return sorted(
        findings, key=lambda finding: (order.get(finding.file, 0), finding.line, finding.column)
    )
