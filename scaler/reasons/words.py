"""The words of all rows in one language, as the page shows them."""

from __future__ import annotations

from scaler.reasons.checks import OWN_WORDS, SCHEDULER_SAYS, SECTIONS
from scaler.reasons.reasons import Reason
from scaler.reasons.row import Row, WarningRow, Words
from scaler.reasons.said import Language, Said, as_is
from scaler.reasons.steps import EVERY_ADVICE, FIX
from scaler.reasons.warnings import Warning


def words_of(row: Row | WarningRow, language: Language) -> Words:
    return row.en if language == "en" else row.zh


def words_for_page(language: Language) -> dict[str, dict[str, str]]:
    """`words`: key of the page's dictionary -> text. `sentences`: reason or warning -> sentence;
    empty in English, which the scaler itself writes."""
    words: dict[str, str] = {}
    sentences: dict[str, str] = dict(SCHEDULER_SAYS) if language == "zh" else {}
    for one in (*Warning, *Reason):  # of the same name, the reason has the words
        said = words_of(one.row, language)
        if said.short:
            words[f"reason.{one.value}"] = said.short
        if said.sentence and language != "en":
            sentences[one.value] = said.sentence
    for title, chinese in SECTIONS.items():
        words[f"section.{title}"] = title if language == "en" else chinese
    return {"words": words, "sentences": sentences}


def with_meaning(name: str, own: str) -> Said:
    """The scaler's own words about a reason or a warning of this name: in Chinese after a sentence
    that says what it means."""
    rows = {one.value: one.row for one in (*Warning, *Reason)}
    meaning = rows[name].zh.sentence if name in rows else ""
    return explained(meaning, own)


def short_of(name: str, language: Language) -> str:
    """A few words for a reason or a warning; "" for a name that is not known."""
    for one in (*Reason, *Warning):  # of the same name, the reason has the words
        if one.value == name:
            return words_of(one.row, language).short
    return ""


def explained(meaning: str, own: str) -> Said:
    """Own words, in Chinese after what they mean; "" for words that nobody explains."""
    if not meaning:
        return as_is(own)
    said = OWN_WORDS.of(words=own, meaning=meaning.rstrip("。"))
    return Said(own, said.zh)


def advice_in(line: str, language: Language) -> str:
    """A line of advice in this language; a command stands for itself."""
    if language == "en":
        return line
    start = FIX.en.format("")
    if line.startswith(start):
        return FIX.zh.format(line.removeprefix(start))
    known = {advice.en: advice.zh for advice in EVERY_ADVICE}
    return known.get(line, line)
