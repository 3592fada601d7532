"""Checks names of workloads: Kubernetes refuses some of the names that are made of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scaler.rules.finding import Finding, shown
from scaler.tools.common.manifest import Object
from scaler.tools.lint.workloads import made_names_of
from scaler.workloads.kind import LONGEST_LABEL, MadeName

_NAME: tuple[str, ...] = ("metadata", "name")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_SUBDOMAIN = 253


def name_findings(found: Object) -> Iterator[Finding]:
    """Why the API server refuses the object, or what is made of it, for its name."""
    name = found.root.get(*_NAME)
    if name is None or name.kind != "scalar":  # a generateName, or a finding of others
        return
    text = name.text
    if not _SUBDOMAIN.fullmatch(text) or len(text) > _LONGEST_SUBDOMAIN:
        message = f"{shown(text)} cannot be a name: the API server refuses the object"
        hint = (
            f"write at most {_LONGEST_SUBDOMAIN} lower case letters, digits, '-' or '.', a letter"
            " or digit at both ends"
        )
        yield found.finding(_NAME, "NameInvalid", message, hint)
        return
    for made in made_names_of(found, text):
        if made.of_service and (not text[0].isalpha() or "." in text):
            yield _no_service(found, made)
        if made.length > LONGEST_LABEL:
            yield _too_long(found, text, made)


def _no_service(found: Object, made: MadeName) -> Finding:
    message = (
        f"{made.what} cannot be made: the name of a Service begins with a letter, without dots"
    )
    hint = "give it a name of lower case letters, digits and '-' that begins with a letter"
    return found.finding(_NAME, "NameInvalid", message, hint)


def _too_long(found: Object, name: str, made: MadeName) -> Finding:
    message = f"{made.what} would have {made.length} characters; {LONGEST_LABEL} are the most"
    hint = f"shorten the name to {len(name) - (made.length - LONGEST_LABEL)} characters"
    return found.finding(_NAME, "NameTooLong", message, hint)
