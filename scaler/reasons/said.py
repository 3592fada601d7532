"""A text in both languages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")


class Said(NamedTuple):
    """One text in both languages. A row of a table may have blanks, such as `{name}`."""

    en: str
    zh: str

    def of(self, **values: object) -> Said:
        """With its blanks filled. A value that is a `Said` itself is taken in each language."""
        texts = []
        for language, text in zip(LANGUAGES, self, strict=True):
            mine = {}
            for name, value in values.items():
                mine[name] = value.in_language(language) if isinstance(value, Said) else value
            texts.append(text.format(**mine))
        return Said(*texts)

    def in_language(self, language: Language) -> str:
        return self.en if language == "en" else self.zh


NOTHING_SAID = Said("", "")


def as_is(text: str) -> Said:
    """The words of somebody else, or of the cluster: the same in both languages."""
    return Said(text, text)


def in_one(parts: Iterable[Said], between: Said) -> Said:
    """The parts that say something, in their order."""
    found = [part for part in parts if part != NOTHING_SAID]
    return Said(
        between.en.join(part.en for part in found), between.zh.join(part.zh for part in found)
    )


SEMICOLON = Said("; ", "；")
COMMA = Said(", ", "，")
AND = Said(" and ", "和")
OR = Said(" or ", "或")
