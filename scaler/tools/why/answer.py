"""The whole answer of `scaler why`: put together, as a value and as text. Must not read a
cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scaler.decide.decision import State
from scaler.names import PREFIX, RULE_LABEL
from scaler.reasons import checks
from scaler.reasons.reasons import ROWS, Reason
from scaler.reasons.row import Tone
from scaler.reasons.said import Language, Said
from scaler.reasons.steps import ADVICE, CORRECT, FIX, MORE_RIGHTS, NOTHING, OTHER_RULE, WAIT, Step
from scaler.reasons.warnings import Warning
from scaler.reasons.words import advice_in, short_of
from scaler.rules.values import as_text
from scaler.tools.common.check_result import CheckResult, Level, checked
from scaler.tools.common.console import text
from scaler.tools.common.detail import is_true
from scaler.tools.common.output import Members
from scaler.tools.why.scale import undo
from scaler.tools.why.subject import InstanceStanding, Subject

_MARKS = {
    Level.OK: ("ok", "green"),
    Level.NOTE: ("note", "yellow"),
    Level.ERROR: ("FAIL", "bold red"),
}
_AVAILABLE = {
    True: checks.AVAILABLE,
    False: checks.NOT_AVAILABLE,
    None: checks.NOT_KNOWN,
}
_WELL = frozenset({State.RUNNING.value, State.FINISHED.value})
_SHOWN = 6
"""Checks shown of a section with a problem, and instances in the head."""
_WELL_SHOWN = 2
"""Checks shown of a section without a problem."""

RANKS = "rank table"
ROOM = "minimum and room"
SCHEDULER = "scheduler"
FAIL = Level.ERROR


class Section(msgspec.Struct, frozen=True):
    title: str
    checks: tuple[CheckResult, ...]
    whole: bool = False
    """Every check is shown, however many there are."""

    @property
    def level(self) -> Level:
        """The worst of its checks."""
        found = {check.level for check in self.checks}
        for one in (Level.ERROR, Level.NOTE):
            if one in found:
                return one
        return Level.OK


class Hints(msgspec.Struct, frozen=True):
    """What to do next about room, and about pods that do not run: sentences and commands."""

    room: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """`head` is the state in one line, `notes` are limits of the answer, `next` is the advice."""

    about: str
    head: tuple[str, ...]
    notes: tuple[str, ...]
    sections: tuple[Section, ...]
    next: tuple[str, ...]
    well: bool
    """No check found a fault that needs a person, and the state is the right one."""
    has_ranks: bool = False
    """All conditions of a global rank table are met."""
    head_zh: tuple[str, ...] = ()
    """`head` in Chinese."""


def answer_of(
    subject: Subject,
    notes: Iterable[str],
    sections: Sequence[Section],
    hints: Hints,
) -> Answer:
    """The answer from all sections with content, causes before what follows from them."""
    shown = [section for section in sections if section.checks]
    kept = causes_first(shown, serves=_stands_well(subject))
    failed = any(section.level is FAIL for section in kept)
    well = _stands_well(subject) and not failed
    head = list(_head(subject))
    return Answer(
        f"{subject.kind} {subject.shown}",
        tuple([line.en for line in head]),
        tuple(notes),
        kept,
        tuple(_next(subject, kept, hints)),
        well,
        _has_ranks(kept),
        tuple([line.zh for line in head]),
    )


def causes_first(sections: Sequence[Section], *, serves: bool) -> tuple[Section, ...]:
    """The sections with a fault first; what follows from a fault of another section is no fault of
    its own, nor is a rank table that is not completed where the service serves all the same."""
    failed = {section.title for section in sections if section.level is FAIL}
    lacks_room = any(_lacks_room(section) for section in sections)
    found = []
    for section in sections:
        kept = section
        if section.title == SCHEDULER and lacks_room:
            kept = _without_fault(section, checks.SILENT)
        elif section.title == RANKS and (serves or failed - {RANKS}) and not section.whole:
            kept = _without_fault(section, checks.NONE_COMPLETED)
        found.append(kept)
    return tuple(sorted(found, key=lambda section: section.level is not FAIL))


def _lacks_room(section: Section) -> bool:
    for check in section.checks:
        if check.level is FAIL and _is_about_nodes(section.title, check):
            return True
    return False


def _without_fault(section: Section, words: Said) -> Section:
    """The section with its checks of these words as notes."""
    kept = []
    for check in section.checks:
        if check.level is FAIL and words.en in check.text:
            said = check.text.replace(checks.SILENT.en, checks.WAITS_FOR_ROOM.en)
            zh = check.zh.replace(checks.SILENT.zh, checks.WAITS_FOR_ROOM.zh)
            kept.append(msgspec.structs.replace(check, level=Level.NOTE, text=said, zh=zh))
        else:
            kept.append(check)
    return msgspec.structs.replace(section, checks=tuple(kept))


def _has_ranks(sections: Sequence[Section]) -> bool:
    """Whether rank tables were looked at and none of their checks failed."""
    ranks = [section.level for section in sections if section.title == RANKS]
    return bool(ranks) and FAIL not in ranks


def _stands_well(subject: Subject) -> bool:
    if subject.whole and subject.view is not None:
        return is_true(subject.view, "Available") is True
    return bool(subject.standings) and all(_is_well(one) for one in subject.standings.values())


def _is_well(one: InstanceStanding) -> bool:
    row = ROWS.get(one.reason)
    return one.state in _WELL or (row is not None and row.tone is Tone.WELL)


def _head(subject: Subject) -> Iterator[Said]:
    """The state in one line; for a service also each instance that does not run."""
    if subject.whole and subject.view is not None:
        row = checks.AT_REST
        if subject.view.replicas:
            row = _AVAILABLE[is_true(subject.view, "Available")]
        yield row.of(message=subject.view.status.get("message", ""))
    elif subject.service is None and not subject.written:
        yield checks.NO_INSTANCE
    waiting = []
    for name, uid in _instances_of(subject):
        if not subject.whole or not _is_expected(subject.standings[uid]):
            waiting.append((name, subject.standings[uid]))
    for name, one in waiting[:_SHOWN]:
        yield checks.INSTANCE_IS.of(
            name=name,
            state=one.state,
            reason="" if one.reason == one.state else _reason_of(one),
            message=one.message,
            whose="" if one.by_leader else checks.DECIDED_HERE,
        )
    if len(waiting) > _SHOWN:
        yield checks.AND_MORE.of(count=len(waiting) - _SHOWN, service=subject.key.shown)


def _reason_of(one: InstanceStanding) -> Said:
    """The name; in Chinese with its few words."""
    words = short_of(one.reason, "zh")
    chinese = f"{words}（{one.reason}）" if words else one.reason
    return checks.REASON.of(reason=Said(one.reason, chinese))


def _instances_of(subject: Subject) -> list[tuple[str, str]]:
    """Name and uid of each instance in question."""
    if subject.written:
        return [(as_text(one.get("name")), as_text(one.get("uid"))) for one in subject.written]
    return [(one.name, one.uid) for one in subject.instances]


def _is_expected(one: InstanceStanding) -> bool:
    """Whether the state of the instance is explained by the answer about its service."""
    return one.state in _WELL or (one.reason, one.state) == (Reason.SCALED_DOWN, State.HELD)


def _next(subject: Subject, sections: Sequence[Section], hints: Hints) -> Iterator[str]:
    """The advice: first how to correct each fault, then where to look."""
    failed = []
    for section in sections:
        for check in section.checks:
            if check.level is Level.ERROR:
                failed.append((section.title, check))
    yield from _first_fault(failed)
    corrections = list(_corrections(sections))
    yield from corrections
    steps = _steps(subject)
    names_the_rule = any(f"{RULE_LABEL}=" in line for line in corrections)
    if Step.RULE in steps and names_the_rule:
        steps.remove(Step.RULE)
    lacks_nodes = any(_is_about_nodes(title, check) for title, check in failed)
    lines: list[str] = []
    if subject.written:
        steps = [step for step in steps if step in (Step.SCALE, Step.RESUME, Step.RULE)]
        if not _stands_well(subject):
            lines.append(MORE_RIGHTS.en)
    for step in steps:
        # a PodGroup waits for the nodes that are missing
        meant = Step.ROOM if lacks_nodes and step is Step.POD_GROUP else step
        lines += _lines(meant, subject, hints)
    if any(title == SCHEDULER and check.about.startswith("pod ") for title, check in failed):
        lines += hints.pods
    yield from dict.fromkeys(lines)
    if not (failed or steps or corrections or lines):
        yield NOTHING.en if _stands_well(subject) else WAIT.en


def _first_fault(failed: Sequence[tuple[str, CheckResult]]) -> Iterator[str]:
    """Where to begin; nothing where only room or the scheduler is in the way."""
    others = {ROOM, SCHEDULER}
    if others & {title for title, _ in failed}:  # rank tables come after pods
        others.add(RANKS)
    for title, check in failed:
        if title not in others:
            yield FIX.en.format(check.about)
            return


def _corrections(sections: Sequence[Section]) -> Iterator[str]:
    """The commands that correct what is mistyped."""
    commands: list[str] = []
    for section in sections:
        for check in section.checks:
            if check.advice and check.advice not in commands:
                commands.append(check.advice)
    if commands:
        yield CORRECT.en
        yield from commands


def _is_about_nodes(title: str, check: CheckResult) -> bool:
    return title == ROOM and check.about == "nodes"


def _steps(subject: Subject) -> list[Step]:
    """What its instances ask for, each step once."""
    steps: list[Step] = []
    for one in subject.standings.values():
        step = _step(one)
        if step is not None and step not in steps:
            steps.append(step)
    return steps


def _step(one: InstanceStanding) -> Step | None:
    row = ROWS.get(one.reason)
    return row.step if row is not None else None


def _lines(step: Step, subject: Subject, hints: Hints) -> Iterator[str]:
    """The advice of the step, and its command."""
    where = f"-n {subject.namespace}"
    rule = subject.key.rule
    if step in ADVICE:
        yield ADVICE[step].en
    match step:
        case Step.ROOM:
            yield from hints.room
        case Step.POD:
            yield from hints.pods
        case Step.RULE:
            yield from _about_rule(subject)
        case Step.SCALE:
            yield undo(subject)
        case Step.RESUME:
            yield f"kubectl {where} annotate configmap {rule} {PREFIX}paused-"
        case Step.POD_GROUP:
            yield (
                f"kubectl {where} describe podgroups; kubectl -n volcano-system logs"
                " deploy/volcano-scheduler"
            )


def _about_rule(subject: Subject) -> Iterator[str]:
    """How to see what is wrong with the rule, or which rules there are where it does not exist."""
    where = f"kubectl -n {subject.namespace} get configmap"
    problem = subject.service.problem if subject.service is not None else None
    if problem is not None and problem.kind is Warning.RULE_MISSING:
        yield OTHER_RULE.en
        yield where
    else:
        yield f"{where} {subject.key.rule} -o yaml | scaler lint -"


# As text


def document(answer: Answer, language: Language = "en") -> dict[str, Any]:
    """The answer for programs and for the page. Titles of sections are names."""
    sections = []
    for section in answer.sections:
        results = [_check(one, language) for one in section.checks]
        sections.append({"title": section.title, "checks": results, "whole": section.whole})
    return Members(
        about=answer.about,
        head=_head_in(answer, language),
        notes=answer.notes,
        sections=sections,
        next=[advice_in(line, language) for line in answer.next],
        well=answer.well,
        has_ranks=answer.has_ranks,
    )


def _check(result: CheckResult, language: Language) -> dict[str, str]:
    standing, _ = _MARKS[result.level]
    about, words = _in_language(result, language)
    return {"standing": standing, "about": about, "words": words}


def _in_language(result: CheckResult, language: Language) -> tuple[str, str]:
    """What the check is about, and its text."""
    if language == "en":
        return result.about, result.text
    return checks.ABOUT.get(result.about, result.about), result.zh or result.text


def _head_in(answer: Answer, language: Language) -> tuple[str, ...]:
    return answer.head if language == "en" else answer.head_zh


def rendered(answer: Answer, language: Language = "en") -> RenderableType:
    """The answer on one screen: checks with problems in full, the others in one line."""
    parts: list[RenderableType] = [text(answer.about, "bold")]
    parts += [text(line, "" if answer.well else "bold") for line in _head_in(answer, language)]
    parts += [text(note, "yellow") for note in answer.notes]
    grid = Table.grid(padding=(0, 2, 0, 0))
    for section in answer.sections:
        for number, check in enumerate(_shown(section)):
            mark, tone = _MARKS[check.level]
            title = _title_in(section, language) if number == 0 else ""
            about, words = _in_language(check, language)
            grid.add_row(
                text(title, "bold"),
                text(mark, tone),
                text(f"{about}: {words}", tone if mark == "FAIL" else ""),
            )
    parts += [Text(), grid]
    if answer.next:
        parts += [Text(), text(checks.WHAT_TO_DO.in_language(language), "bold")]
        parts += [text(f"  {advice_in(line, language)}") for line in answer.next]
    return Group(*parts)


def _title_in(section: Section, language: Language) -> str:
    title = section.title
    return title if language == "en" else checks.SECTIONS[title]


def _shown(section: Section) -> list[CheckResult]:
    """Checks with problems first; of the others only as many as fit."""
    bad: list[CheckResult] = []
    good: list[CheckResult] = []
    for check in section.checks:
        if check.level is Level.OK:
            good.append(check)
        else:
            bad.append(check)
    if section.whole:
        return [*bad, *good]
    most = _SHOWN - 1 - len(bad) if bad else _WELL_SHOWN
    if len(good) <= most + 1:
        return [*bad, *good]
    kept = good[: max(0, most)]
    left = len(good) - len(kept)
    more = checked(Level.OK, checks.MORE_WELL.of(count=left), about="and")
    return [*bad, *kept, *([more] if left else [])]
