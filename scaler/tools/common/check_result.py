"""What a check of a cluster found. Values only."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from scaler.reasons.said import Said


class Level(StrEnum):
    """The severity, the worst first."""

    ERROR = "error"
    """Something does not work, or will not, until a person acts."""
    WARNING = "warning"
    """It works with limits, or not for long."""
    NOTE = "note"
    """It works; a part of it is missing from the result."""
    UNKNOWN = "not known"
    """The objects that would show it are forbidden to read."""
    OK = "ok"


class CheckResult(msgspec.Struct, frozen=True):
    """One result of a check. `text` says what was found; `advice` what to do, mostly a command;
    `details` are further facts; `about` is the object, if the check is about one; `zh` is `text` in
    Chinese, "" where nobody says it in Chinese.

    It is no `scaler.rules.finding.Finding`: that is a mistake at a place in a document, with a
    code. A result may also say that all is well, or that something is not known."""

    level: Level
    text: str
    advice: str = ""
    details: tuple[str, ...] = ()
    about: str = ""
    zh: str = ""


def checked(level: Level, said: Said, advice: str = "", *, about: str) -> CheckResult:
    """A result in both languages."""
    return CheckResult(level, said.en, advice, about=about, zh=said.zh)
