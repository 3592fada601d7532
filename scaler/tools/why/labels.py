"""Labels and rule: are the labels complete, and do they name what was intended? Finds near matches
of typos. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from scaler.decide.world import ServiceKey, World
from scaler.informers.jobs import JobRecord
from scaler.names import GROUP_LABEL, JOB_ID_LABEL, MOVED_RULE, PREFIX, RULE_KEY, RULE_LABEL
from scaler.reasons import checks
from scaler.reasons.said import OR, Said, as_is, in_one
from scaler.reasons.words import explained, with_meaning
from scaler.rules.finding import Finding
from scaler.rules.labels import group_finding, nearest
from scaler.rules.values import as_text, at
from scaler.tools.common.check_result import CheckResult, Level, checked
from scaler.tools.common.slips import APPS, all_label_faults, app_faults, misspelt
from scaler.tools.common.view import Cluster
from scaler.tools.why.relabel import relabel, relabel_instance, relabel_subject
from scaler.tools.why.subject import Subject
from scaler.workloads.ascendjob import APP_LABEL
from scaler.workloads.kind import Template, look_into
from scaler.workloads.kinds import written_as

KEYS = (RULE_LABEL, GROUP_LABEL, JOB_ID_LABEL)
_MOST = 4
"""Jobs with a mistyped jobID that are named."""
_DIGITS = re.compile(r"\d+")
"""Names that differ only in numbers are different on purpose."""


def label_checks(cluster: Cluster, subject: Subject) -> Iterator[CheckResult]:
    """Checks of the object with the labels, then of the rule that the labels name."""
    labels = labels_of(subject)
    if labels is not None:
        about = f"{subject.object['kind']} {at(subject.object, 'metadata').get('name')}"
        inside = subject.resource is not None and subject.resource.kind != "Pod"
        for check in key_checks(labels, about, inside=inside):
            yield _with_command(subject, labels, check)
        yield from _other_than_admitted(subject, labels, about)
        group = labels.get(GROUP_LABEL, "")
        rule = (
            cluster.state.rules.follow(subject.namespace, subject.key.rule).rule
            if subject.key.rule
            else None
        )
        if rule is not None and group and not any(one.group == group for one in subject.instances):
            near = nearest(group, rule.groups)
            command = relabel_subject(subject, f"{GROUP_LABEL}={near}") if near else ""
            yield from _group_check(group, rule.groups, about, command)
    if subject.whole:
        yield from _outsiders(cluster, subject)
    if subject.key.rule:
        yield from rule_checks(cluster, subject)
        yield from _job_id(cluster, subject)


def _other_than_admitted(
    subject: Subject, labels: Mapping[str, str], about: str
) -> Iterator[CheckResult]:
    """A label that names something else than the service to which the instance was admitted."""
    admitted = {RULE_LABEL: subject.key.rule, JOB_ID_LABEL: subject.key.job_id}
    for name, right in admitted.items():
        wrong = labels.get(name)
        if wrong and right and wrong != right:
            said = checks.OTHER_LABEL.of(name=name, wrong=wrong, right=right)
            command = relabel_subject(subject, f"{name}={right}")
            yield checked(Level.ERROR, said, command, about=about)


def _with_command(subject: Subject, labels: Mapping[str, str], check: CheckResult) -> CheckResult:
    """The check with the command that corrects a label that is nearly one of ours."""
    changes: list[str] = []
    for right, wrong in misspelt(labels):
        if wrong in check.text:
            changes += [f"{right}={labels[wrong]}", f"{wrong}-"]
    for fault in app_faults(labels):
        if fault.message in check.text:
            changes.append(f"{APP_LABEL}={nearest(labels[APP_LABEL], APPS)}")
    if not changes:
        return check
    return msgspec.structs.replace(check, advice=relabel_subject(subject, *changes))


def labels_of(subject: Subject) -> Mapping[str, str] | None:
    """The labels that count: of the job itself, or of the template of its pods. None when neither
    is seen."""
    if not subject.object or subject.whole:
        return None
    obj = subject.object
    labels = dict(at(obj, "metadata", "labels"))
    moved = as_text(at(obj, "metadata", "annotations").get(MOVED_RULE))
    if moved and RULE_LABEL not in labels:  # our admission moved it, beside Ascend Operator
        labels[RULE_LABEL] = moved
    known = written_as(subject.resource.group, obj["kind"]) if subject.resource else None
    if known is not None:
        look = look_into(obj)
        _, written = known
        templates: list[Template] = []
        for role in written.roles(look) if written.roles is not None else ():
            templates += role.templates
        for template in reversed(templates):  # of an instance of several: the first counts
            found = look(template.labels)
            labels |= found if isinstance(found, dict) else {}
    return labels


def key_checks(
    labels: Mapping[str, str], about: str, *, inside: bool = False
) -> Iterator[CheckResult]:
    """The findings of `scaler lint` about these labels: missing ones, and probable misspellings."""
    faults = list(all_label_faults(labels, "it"))
    if not any(key in labels for key in KEYS[:2]) and not faults:
        where = checks.IN_THE_TEMPLATE if inside else ""
        said = checks.NO_RULE_LABEL.of(name=RULE_LABEL, where=where)
        yield checked(Level.ERROR, said, about=about)
        return
    for fault in faults:
        standing = Level.ERROR if fault.level == "error" else Level.NOTE
        yield checked(standing, _fault_in_words(fault), about=about)
    if all(labels.get(key) for key in KEYS):
        named = ", ".join(f"{key.removeprefix(PREFIX)} {labels[key]}" for key in KEYS)
        yield checked(Level.OK, checks.HAS_LABELS.of(labels=named), about=about)


def _fault_in_words(fault: Finding) -> Said:
    return explained(checks.LABEL_FAULTS.get(fault.code, ""), f"{fault.message}; {fault.hint}")


def _outsiders(cluster: Cluster, subject: Subject) -> Iterator[CheckResult]:
    """Jobs of the service that do not count because of their own labels: the answer names each of
    them."""
    for instance in subject.instances:
        if instance.label_problem:
            standing = subject.standings.get(instance.uid)
            reason = instance.label_problem.value
            said = as_is(reason)
            if standing is not None:
                said = with_meaning(reason, standing.message)
            yield checked(Level.ERROR, said, about=f"{instance.kind} {instance.name}")
    for record in cluster.cache.jobs.values():
        if not record.is_foreign and record.namespace == subject.key.namespace:
            yield from _job_outside(cluster, subject.key, record)


def _job_outside(cluster: Cluster, key: ServiceKey, record: JobRecord) -> Iterator[CheckResult]:
    """A job that another service or none has, or whose label `app` nobody knows."""
    labels = at(record.object, "metadata", "labels")
    if record.job.key != key and key.job_id and labels.get(JOB_ID_LABEL) == key.job_id:
        app = as_text(labels.get(APP_LABEL))
        if app.startswith("mindie-ms-co"):  # controller and coordinator name no rule
            return
        rule = record.job.key.rule
        label = checks.OF_RULE.of(rule=rule) if rule else checks.OF_NO_RULE.of(name=RULE_LABEL)
        advice = ""
        if not cluster.state.rules.follow(key.namespace, rule).uid:
            advice = relabel(key.namespace, "AscendJob", record.name, f"{RULE_LABEL}={key.rule}")
        said = checks.NOT_COUNTED.of(label=label)
        yield checked(Level.NOTE, said, advice, about=f"AscendJob {record.name}")
    elif record.job.key == key:
        about = f"AscendJob {record.name}"
        for one in app_faults(labels):
            app = nearest(as_text(labels.get(APP_LABEL)), APPS)
            advice = relabel(key.namespace, "AscendJob", record.name, f"{APP_LABEL}={app}")
            yield checked(Level.ERROR, _fault_in_words(one), advice, about=about)


def rule_checks(cluster: Cluster, subject: Subject) -> Iterator[CheckResult]:
    """Whether the rule exists, is valid, and has the groups."""
    key = subject.key
    known = cluster.state.rules.follow(key.namespace, key.rule)
    about = f"rule {key.rule}"
    if known.problem is not None:
        near = _near_rules(cluster, key.namespace, key.rule) if not known.uid else []
        said = with_meaning(known.problem.kind.value, known.problem.message)
        advice = ""
        if near:
            names = in_one(map(as_is, near), OR)
            said = checks.DID_YOU_MEAN_RULE.of(namespace=key.namespace, rule=key.rule, near=names)
            advice = _rename_rule(subject, near[0])
        yield checked(Level.ERROR, said, advice, about=about)
    elif known.rule is not None:
        ratios = len(known.rule.ratios)
        row = checks.VALID_ONE if ratios == 1 else checks.VALID_MANY
        yield checked(Level.OK, row.of(count=ratios), about=about)
    if known.options.paused:
        yield checked(Level.NOTE, checks.PAUSED, about=about)
    if known.rule is not None:
        for instance in subject.instances:
            if instance.group and instance.group not in known.rule.groups:
                near_group = nearest(instance.group, known.rule.groups)
                command = ""
                if near_group:
                    change = f"{GROUP_LABEL}={near_group}"
                    command = relabel_instance(key.namespace, instance, change)
                about_it = f"{instance.kind} {instance.name}"
                yield from _group_check(instance.group, known.rule.groups, about_it, command)


def _rename_rule(subject: Subject, right: str) -> str:
    """The command that names this rule in the labels of what was asked about."""
    change = f"{RULE_LABEL}={right}"
    if not subject.whole:
        return relabel_subject(subject, change)
    for instance in subject.instances:
        return relabel_instance(subject.namespace, instance, change)
    return ""


def _group_check(
    group: str, groups: Sequence[str], about: str, command: str
) -> Iterator[CheckResult]:
    fault = group_finding(group, groups)
    if fault is not None:
        yield checked(Level.ERROR, _fault_in_words(fault), command, about=about)


def _near_rules(cluster: Cluster, namespace: str, rule: str) -> Sequence[str]:
    rules = []
    for cm in cluster.cache.config_maps.values():
        if cm.namespace == namespace and RULE_KEY in cm.keys:
            rules.append(cm.name)
    return difflib.get_close_matches(rule, rules, n=2, cutoff=0.6)


def _job_id(cluster: Cluster, subject: Subject) -> Iterator[CheckResult]:
    """A jobID that is nearly that of a larger service of the same rule."""
    key = subject.key
    world, _ = cluster.decision()
    others = {}
    for one in world.services:
        if (
            one.key.namespace == key.namespace
            and one.key.rule == key.rule
            and one.key.job_id != key.job_id
        ):
            others[one.key.job_id] = len(one.instances)
    mine = len(subject.service.instances) if subject.service is not None else 0
    for near in difflib.get_close_matches(key.job_id, others, n=1, cutoff=0.8):
        if others[near] > mine and _DIGITS.sub("", near) != _DIGITS.sub("", key.job_id):
            said = checks.NEAR_JOB_ID.of(
                job_id=key.job_id, mine=mine, near=near, others=others[near]
            )
            change = f"{JOB_ID_LABEL}={near}"
            advice = relabel_instance(key.namespace, subject.instances[0], change)
            yield checked(Level.NOTE, said, advice, about=f"label {JOB_ID_LABEL}")
    yield from _nearly_ours(world, subject, mine)


def _nearly_ours(world: World, subject: Subject, mine: int) -> Iterator[CheckResult]:
    """Smaller services of the same rule whose jobID is nearly that of this one."""
    key = subject.key
    if not subject.whole or not key.job_id:
        return
    for one in world.services:
        other = one.key.job_id
        same_rule = (one.key.namespace, one.key.rule) == (key.namespace, key.rule)
        if not same_rule or other == key.job_id or len(one.instances) >= mine:
            continue
        near = difflib.get_close_matches(other, [key.job_id], n=1, cutoff=0.8)
        if near and _DIGITS.sub("", other) != _DIGITS.sub("", key.job_id):
            for instance in one.instances[:_MOST]:
                said = checks.NEARLY_OURS.of(other=other)
                change = f"{JOB_ID_LABEL}={key.job_id}"
                advice = relabel_instance(key.namespace, instance, change)
                about = f"{instance.kind} {instance.name}"
                yield checked(Level.NOTE, said, advice, about=about)
