"""The warnings of one service beside the reasons of its instances: the last part of section 5.

They say what is wrong with the rule, with the numbers of jobs and with single jobs. No action
follows from them."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.decide.decision import Note
from scaler.decide.explain import counts_in_words
from scaler.decide.service.demand import Demand
from scaler.decide.world import Instance
from scaler.reasons.warnings import Warning
from scaler.rules.rule import Rule


def notes_of(demand: Demand) -> tuple[Note, ...]:
    """All warnings: about what was read, then about the rule against the jobs that exist."""
    notes = list(_about_objects(demand))
    if demand.rule is not None:
        notes += _unreachable_ratio(demand, demand.rule)
        notes += _other_sizes(demand, demand.rule)
    return tuple(notes)


def _about_objects(demand: Demand) -> Iterator[Note]:
    service = demand.service
    if service.problem:
        yield Note(service.problem.kind, service.problem.message)
    for words in service.unread:
        yield Note(Warning.OBJECT_UNREADABLE, words)
    for instance in service.instances:
        for warning, words in instance.warnings:
            yield Note(warning, words, instance.uid)
    for instance in service.instances:
        if instance.faults and instance.pods:
            yield Note(Warning.JOB_INVALID, _edited_job(instance), instance.uid)


def _edited_job(instance: Instance) -> str:
    after = "none is replaced" if instance.made_by_us else "none is released"
    return f"{'; '.join(instance.faults)}: its pods stay, {after}"


def _unreachable_ratio(demand: Demand, rule: Rule) -> Iterator[Note]:
    words = lacking_in_words(demand, rule)
    if words:
        yield Note(Warning.TARGET_UNREACHABLE, words)


def lacking_in_words(demand: Demand, rule: Rule) -> str:
    """What the smallest ratio lacks that names more jobs than exist; "" when no ratio does."""
    if demand.target is None or not demand.target.unreachable:
        return ""
    index = demand.target.unreachable - 1
    lacking = []
    for name, number in rule.ratios[index].counts.items():
        group = demand.groups[name]
        refused = len(group.refused)
        if group.live < number:
            lacking.append(f"{number} of {name}, {group.live} exist")
        elif group.live - refused < number:
            lacking.append(
                f"{number} of {name}, of {group.live} the creation of {refused} is refused"
            )
    ratio = counts_in_words(rule.ratios[index].counts)
    return f"the ratio {ratio} needs {'; '.join(lacking)}"


def _other_sizes(demand: Demand, rule: Rule) -> Iterator[Note]:
    for instance in demand.service.instances:
        size = rule.largest.sizes.get(instance.group or "", instance.expected)
        if size != instance.expected:
            words = (
                f"{instance.name} has {instance.expected} pods, server_num_per_group of"
                f" {instance.group} is {size}; it counts as one instance all the same"
            )
            yield Note(Warning.INSTANCE_SIZE_MISMATCH, words, instance.uid)
