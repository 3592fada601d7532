"""Refusals of the cluster in words that include the remedy. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scaler.kube.api import Resource
from scaler.kube.errors import (
    ConflictError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    StatusError,
    UnauthorizedError,
    UnknownOutcomeError,
)
from scaler.tools.common.console import clean
from scaler.tools.deploy.kinds import INSTALL

_OWNERS = re.compile(
    r'"((?:[^"\\]|\\.)*)"(?: with subresource "[^"]*")? using \S+?:((?:\s*(?:- )?\.\S+)+)'
)


class DeployError(Exception):
    """The command cannot be carried out; `lines` say why."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


def is_unknown_kind(error: KubeError) -> bool:
    """Whether the kind is missing, not one object of it."""
    return isinstance(error, NotFoundError) and '" not found' not in error.message


def missing_kind(resource: Resource) -> str:
    found = f"the kind {resource.kind} ({resource.api_version}) is not installed in this cluster"
    return f"{found}; install {INSTALL[resource]}" if resource in INSTALL else found


def in_words(error: KubeError, resource: Resource, name: str) -> Iterator[str]:
    """One refusal, the object first."""
    about = f"{resource.kind} {name}"
    words = clean(error.message if isinstance(error, StatusError) else str(error))
    if is_unknown_kind(error):
        yield missing_kind(resource)
    elif isinstance(error, ConflictError) and "Apply failed" in words:
        yield f"{about}: fields of it belong to somebody else:"
        for owner, fields in _OWNERS.findall(words):
            listed = []
            for field in fields.split():
                if field != "-":
                    listed.append(field.lstrip("- ").rstrip(","))
            yield f"  {', '.join(listed)}: {owner}"
        yield "  Write into the file what is there, or take the fields over with --force-conflicts."
    elif isinstance(error, ForbiddenError) and " cannot " in words:
        yield f"{about}: you have no right to do that: {words}"
    elif isinstance(error, UnauthorizedError):
        yield f"the cluster does not know who you are: {words}"
    elif isinstance(error, UnknownOutcomeError):
        yield f"{about}: whether it was done is not known: {words}"
    else:
        yield f"{about}: refused: {words}"
