"""Labels and rule: are the labels complete, and do they name what was intended? Finds near matches
of typos. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from scaler.decide.world import World
from scaler.names import GROUP_LABEL, JOB_ID_LABEL, MOVED_RULE, PREFIX, RULE_KEY, RULE_LABEL
from scaler.rules.labels import group_finding, nearest
from scaler.rules.values import as_text, at
from scaler.tools.common.check_result import CheckResult, Level
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
            words = f"label {name} is {wrong}, and it was admitted with {right}"
            command = relabel_subject(subject, f"{name}={right}")
            yield CheckResult(Level.ERROR, words, command, about=about)


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
        words = (
            f"no label {RULE_LABEL}: it is no part of any service, and the scaler leaves it alone"
        )
        where = (
            " (of Deployments and the like, labels stand in the template of the pods)"
            if inside
            else ""
        )
        yield CheckResult(Level.ERROR, words + where, about=about)
        return
    for fault in faults:
        standing = Level.ERROR if fault.level == "error" else Level.NOTE
        yield CheckResult(standing, f"{fault.message}; {fault.hint}", about=about)
    if all(labels.get(key) for key in KEYS):
        said = ", ".join(f"{key.removeprefix(PREFIX)} {labels[key]}" for key in KEYS)
        yield CheckResult(Level.OK, f"has its labels: {said}", about=about)


def _outsiders(cluster: Cluster, subject: Subject) -> Iterator[CheckResult]:
    """Jobs of the service that do not count because of their own labels: the answer names each of
    them."""
    for instance in subject.instances:
        if instance.label_problem:
            standing = subject.standings.get(instance.uid)
            words = standing.message if standing is not None else instance.label_problem.value
            yield CheckResult(Level.ERROR, words, about=f"{instance.kind} {instance.name}")
    key = subject.key
    for record in cluster.cache.jobs.values():
        if record.is_foreign or record.namespace != key.namespace:
            continue
        labels = at(record.object, "metadata", "labels")
        if record.job.key != key and key.job_id and labels.get(JOB_ID_LABEL) == key.job_id:
            app = as_text(labels.get(APP_LABEL))
            if app.startswith("mindie-ms-co"):  # controller and coordinator name no rule
                continue
            rule = record.job.key.rule
            words = (
                "has the jobID of this service and"
                f" {f'rule {rule}' if rule else f'no label {RULE_LABEL}'}"
            )
            advice = ""
            if not cluster.state.rules.follow(key.namespace, rule).uid:
                advice = relabel(
                    key.namespace, "AscendJob", record.name, f"{RULE_LABEL}={key.rule}"
                )
            yield CheckResult(
                Level.NOTE,
                f"{words}: it is not counted here",
                advice,
                about=f"AscendJob {record.name}",
            )
        elif record.job.key == key:
            about = f"AscendJob {record.name}"
            for one in app_faults(labels):
                app = nearest(as_text(labels.get(APP_LABEL)), APPS)
                advice = relabel(key.namespace, "AscendJob", record.name, f"{APP_LABEL}={app}")
                yield CheckResult(Level.ERROR, f"{one.message}; {one.hint}", advice, about=about)


def rule_checks(cluster: Cluster, subject: Subject) -> Iterator[CheckResult]:
    """Whether the rule exists, is valid, and has the groups."""
    key = subject.key
    known = cluster.state.rules.follow(key.namespace, key.rule)
    about = f"rule {key.rule}"
    if known.problem is not None:
        near = _near_rules(cluster, key.namespace, key.rule) if not known.uid else []
        words = known.problem.message
        advice = ""
        if near:
            words = f"there is no ConfigMap {key.namespace}/{key.rule}; did you mean"
            words = f"{words} {' or '.join(near)}?"
            advice = _rename_rule(subject, near[0])
        yield CheckResult(Level.ERROR, words, advice, about=about)
    elif known.rule is not None:
        ratios = len(known.rule.ratios)
        yield CheckResult(
            Level.OK, f"valid, {ratios} ratio{'s' if ratios > 1 else ''}", about=about
        )
    if known.options.paused:
        yield CheckResult(
            Level.NOTE,
            'annotation mind-cluster/paused is "true": nothing is admitted until it goes',
            about=about,
        )
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
        yield CheckResult(Level.ERROR, f"{fault.message}; {fault.hint}", command, about=about)


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
            words = (
                f"{key.job_id} has {mine} and {near} has {others[near]} instances of the same rule:"
                " a typo?"
            )
            change = f"{JOB_ID_LABEL}={near}"
            advice = relabel_instance(key.namespace, subject.instances[0], change)
            yield CheckResult(Level.NOTE, words, advice, about=f"label {JOB_ID_LABEL}")
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
                words = f"has jobID {other}, and is not counted here: a typo?"
                change = f"{JOB_ID_LABEL}={key.job_id}"
                advice = relabel_instance(key.namespace, instance, change)
                about = f"{instance.kind} {instance.name}"
                yield CheckResult(Level.NOTE, words, advice, about=about)
