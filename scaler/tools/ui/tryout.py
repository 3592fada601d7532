"""The effect of another rule on a service: decided by the controller's own function and by that of
`scaler plan`.

Nothing is written anywhere. Must not: send requests, or add rules of its own."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any

import msgspec

from scaler.decide.decide import decide
from scaler.decide.decision import Action, Admit, Complete, Decision, Evict, Plan, Revoke
from scaler.decide.explain import words
from scaler.decide.world import World
from scaler.rules.document import judge
from scaler.rules.finding import Finding
from scaler.rules.limits import MAX_BYTES
from scaler.rules.rule import Rule
from scaler.tools.common import counts
from scaler.tools.common.ladder import in_words, table
from scaler.tools.common.render import as_values

MOST_CHANGES = 200
_MEMBERS = ("code", "level", "line", "column", "message", "hint")
"""Of a finding about the rule, for the page."""
_DEEDS: dict[type, str] = {Admit: "admit", Complete: "complete", Revoke: "revoke", Evict: "evict"}


class Change(msgspec.Struct, frozen=True):
    """A change of one instance. `deed`: the action that would follow at once; "" when only its
    reason changes."""

    service: str
    name: str
    deed: str
    before: str
    """Reason now."""
    after: str
    words: str


class Aim(msgspec.Struct, frozen=True):
    """What a service works towards, for the page to say in its language. `standing`: `complete`,
    `waits` (for the groups `awaited`), `rests` (no instances are wanted) or `none` (no rule is in
    force)."""

    standing: str
    counts: tuple[tuple[str, int], ...] = ()
    """Instances of each group in the ratio, in the rule's order."""
    awaited: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """`changes` are the decisions that would follow at once, for this service and all others;
    `plan` and `table` are the answers of `scaler plan` for the rule and these counts. Empty when
    the rule has errors."""

    findings: tuple[Finding, ...]
    valid: bool
    now: Aim = Aim("none")
    then: Aim = Aim("none")
    changes: tuple[Change, ...] = ()
    left_out: int = 0
    plan: str = ""
    table: str = ""
    command: str = ""


def try_rule(world: World, text: str, service: str) -> Answer:
    """The decision if the rule of `service` (a `str(ServiceKey)`) were this text. Raises
    LookupError for a service that has no jobs."""
    named = [one for one in world.services if str(one.key) == service]
    if not named:
        raise LookupError(f"no job of {service} is seen")
    rule, found = judge(text[: MAX_BYTES + 1])
    if rule is None:
        return Answer(found, valid=False)
    mine = named[0]
    services = []
    for one in world.services:
        has_the_rule = (one.key.namespace, one.key.rule) == (mine.key.namespace, mine.key.rule)
        services.append(
            msgspec.structs.replace(one, rule=rule, problem=None) if has_the_rule else one
        )
    others = msgspec.structs.replace(world, services=tuple(services))
    before = decide(world)
    after = decide(others)
    changes = list(_changes(before, after))
    changes.sort(key=lambda one: (one.service != service, not one.deed))
    now, then = (_plan_of(decision, service) for decision in (before, after))
    case = _case(rule, then, mine.replicas)
    return Answer(
        found,
        valid=True,
        now=_aim(now, mine.rule),
        then=_aim(then, rule),
        changes=tuple(changes[:MOST_CHANGES]),
        left_out=max(0, len(changes) - MOST_CHANGES),
        plan=in_words(rule, counts.decide(rule, case, paused=mine.options.paused)),
        table=table(rule),
        command=_command(case),
    )


def _aim(plan: Plan, rule: Rule | None) -> Aim:
    if not plan.replicas:
        return Aim("rests")
    if plan.target_index < 0:
        return Aim("none")
    names = rule.groups if rule is not None else tuple(plan.target)
    counts = tuple((name, plan.target[name]) for name in names if plan.target.get(name))
    awaited = []
    for name, group in plan.groups.items():
        if group.running < group.target:
            awaited.append(name)
    return Aim("complete" if plan.complete else "waits", counts, tuple(awaited))


def _plan_of(decision: Decision, service: str) -> Plan:
    return next(plan for plan in decision.plans if str(plan.key) == service)


def _changes(before: Decision, after: Decision) -> Iterable[Change]:
    for old, new in zip(before.plans, after.plans, strict=True):
        if old == new:
            continue
        reasons = {verdict.uid: verdict.reason.value for verdict in old.verdicts}
        done = _deeds(old.actions)
        to_do = _deeds(new.actions)
        for verdict in new.verdicts:
            deed = to_do.get(verdict.uid, "")
            was = reasons.get(verdict.uid, "")
            if was != verdict.reason.value or deed != done.get(verdict.uid, ""):
                yield Change(
                    str(new.key), verdict.name, deed, was, verdict.reason.value, words(verdict, new)
                )


def _deeds(actions: Iterable[Action]) -> dict[str, str]:
    found: dict[str, str] = {}
    for action in actions:
        if type(action) in _DEEDS:
            found[action.uid] = _DEEDS[type(action)]
    return found


def _case(rule: Rule, plan: Plan, replicas: int) -> counts.Case:
    """The present counts of the service, for the groups in the rule."""
    groups: dict[str, dict[str, int]] = {"running": {}, "in_flight": {}, "held": {}}
    for name, group in plan.groups.items():
        if name in rule.groups:
            for what, found in groups.items():
                if getattr(group, what):
                    found[name] = getattr(group, what)
    return counts.Case(**groups, replicas=replicas)


def _command(case: counts.Case) -> str:
    """The shell command for the same question."""
    parts = ["scaler plan rule.json"]
    for option, found in (
        ("--running", case.running),
        ("--in-flight", case.in_flight),
        ("--held", case.held),
    ):
        if found:
            counted = ",".join(f"{name}={number}" for name, number in found.items())
            parts.append(f"{option} {shlex.quote(counted)}")
    if case.replicas < counts.MOST:
        parts.append(f"--replicas {case.replicas}")
    return " ".join(parts)


def as_rows(answer: Answer) -> dict[str, Any]:
    """The answer as plain JSON values."""
    values = dict(msgspec.to_builtins(answer))
    values["findings"] = as_values(answer.findings, _MEMBERS)
    return values
