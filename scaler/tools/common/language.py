"""The language in which a command answers people. JSON and YAML are English: programs read them."""

from __future__ import annotations

from collections.abc import Mapping

from scaler.reasons.said import Language

_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")


def spoken(environment: Mapping[str, str]) -> Language:
    """That of the terminal, as its locale says: the first of these variables that is set counts."""
    for name in _VARIABLES:
        if environment.get(name):
            return "zh" if environment[name].startswith("zh") else "en"
    return "en"
