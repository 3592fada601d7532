"""What a row of the reasons says: words in both languages, and how whoever shows a reason treats
it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from scaler.reasons.steps import Step


class Part(StrEnum):
    """Where the page of reasons has the reason."""

    HELD = "held"
    ADMITTED = "admitted"
    OTHERS = "others"


class Tone(StrEnum):
    """Whether somebody has to do something."""

    PERSON = "person"
    """A person has to act: its events are of type Warning, and an alert names it."""
    PASSES = "passes"
    """It passes by itself."""
    WELL = "well"
    """It is as it should be."""


class Lacks(StrEnum):
    """What a held instance with this reason lacks."""

    NOTHING = ""
    ROOM = "room"
    MINIMUM = "room for the minimum"
    """Room, and a service does not serve for want of it."""


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a reason or warning in one language. `meaning` and what follows it are
    Markdown."""

    short: str = ""
    """A few words, for the page."""
    sentence: str = ""
    """Why, and what to do. In English, which events and conditions speak, `{about}`, `{colon}`,
    `{group}` and `{key}` stand for what the verdict refers to; "" where `decide/explain.py` makes
    the sentence."""
    meaning: str
    to_do: str = ""
    if_unavailable: str = ""
    """What to do while the service is not available, in the runbooks; "" for what cannot keep a
    minimum from running."""
    if_it_lasts: str = ""
    """What to do in the runbook of the alert that names the reason."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One reason. Flags are false and texts empty where nothing is said."""

    name: str
    """Stable: events, conditions, status, metrics, commands and alerts of users have it."""
    part: Part
    tone: Tone = Tone.PASSES
    step: Step | None = None
    """Where `scaler why` sends people next."""
    follows: bool = False
    """From the reason of another instance: the reason of a service only where there is no other."""
    room_may_end_it: bool = False
    """It may end when more is free or when some pod is bound."""
    room_is_kept: bool = False
    starts_when_it_fits: bool = False
    """What is held for it has to start when there is room."""
    lacks: Lacks = Lacks.NOTHING
    counts_for_nothing: bool = False
    """A label or the rule is wrong: what runs with it counts for nothing, and pods that it loses
    are not replaced."""
    missing_label: str = ""
    """The label that is missing or empty."""
    other_alert: bool = False
    """`ScalerInstancesNeedAPerson` leaves it out: another alert shows it, or it is made good
    without a person."""
    of_counts: str = ""
    """Half a sentence of `scaler plan`, where bare counts already give the reason."""
    en: Words
    zh: Words

    @property
    def warns(self) -> bool:
        return self.tone is Tone.PERSON


class WarningRow(msgspec.Struct, frozen=True, kw_only=True):
    """One warning beside the reasons. Words that a reason of the same name has are left out."""

    name: str
    passing: bool = False
    """It comes and goes during a deployment: a deployer applies jobs one by one, deletes and
    creates a rule to replace it, and deletes a job's ConfigMap before the job; chips are assigned
    one after the other. It has to last a while to become an event."""
    of_rule: bool = False
    """It is about the rule's ConfigMap as well as about the service."""
    en: Words
    zh: Words
