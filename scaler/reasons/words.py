"""The words of all rows in one language, as the page shows them."""

from __future__ import annotations

from typing import Literal

from scaler.reasons.reasons import Reason
from scaler.reasons.row import Row, WarningRow, Words
from scaler.reasons.steps import EVERY_ADVICE
from scaler.reasons.warnings import Warning

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")


def words_of(row: Row | WarningRow, language: Language) -> Words:
    return row.en if language == "en" else row.zh


def words_for_page(language: Language) -> dict[str, dict[str, str]]:
    """`words`: key of the page's dictionary -> text. `sentences`: reason or warning -> sentence;
    empty in English, which the scaler itself writes."""
    words: dict[str, str] = {}
    sentences: dict[str, str] = {}
    for one in (*Warning, *Reason):  # of the same name, the reason has the words
        said = words_of(one.row, language)
        if said.short:
            words[f"reason.{one.value}"] = said.short
        if said.sentence and language != "en":
            sentences[one.value] = said.sentence
    for advice in EVERY_ADVICE:
        words[f"next.{advice.en}"] = advice.en if language == "en" else advice.zh
    return {"words": words, "sentences": sentences}
