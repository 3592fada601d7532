"""The content of files: the objects and the rule documents in them, and what is wrong with their
text. Never raises."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from scaler.rules.finding import Finding
from scaler.rules.rule import Rule
from scaler.tools.common.manifest import Object, objects
from scaler.tools.common.mixtures import in_words, mixtures
from scaler.tools.common.render import dotted
from scaler.tools.common.short_file.expanded import is_short_file, manifests_of
from scaler.tools.lint.document import read_document
from scaler.tools.lint.guess import foreign_json, lost_indentation, odd_kinds, yaml_document
from scaler.tools.lint.source import BOM, Source, decode, is_manifest

_MARKS = re.compile(rb"elastic_scaling|^kind:", re.MULTILINE)
_RULE_WORD = "elastic_scaling_list"
MIXTURE = "MixturePossible"
"""An `info`: no error, and nothing fails because of it."""
_WHAT_ENDS_ONE = (
    "it ends when what is missing has room again, fewer are wanted, or a minimum takes the room of"
    ' the surplus; with the annotation mind-cluster/trade: "always" a service that shares nodes'
    " gives up surplus by itself"
)


INVALID_SERVICE = "ServiceFileInvalid"
"""Any mistake in a short file."""


class Contents:
    """The objects of all files, the number of bare rule documents, and the findings about the
    text."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.objects: list[Object] = []
        self.documents = 0
        self.short_files: set[str] = set()
        """Names of those among the sources."""

    def take(self, source: Source) -> None:
        text, fault = decode(source.data, source.name)
        if fault is not None:
            self.findings += [fault] if source.listed or _MARKS.search(source.data) else []
        elif is_manifest(text):
            self._manifest(text.removeprefix(BOM), source)
        elif is_short_file(text):
            self._short_file(text, source)
        elif source.listed or _RULE_WORD in text:
            self._document(text, source)

    def _manifest(self, text: str, source: Source) -> None:
        lost = lost_indentation(text, source.name)
        if lost:
            self.findings += lost
            return
        several, broken = objects(text, source.name, alone=source.listed)
        self.objects += several
        self.findings += broken
        for one in several:
            self.findings += odd_kinds(one)

    def _short_file(self, text: str, source: Source) -> None:
        """What a short file makes is judged as manifests are, without their lines."""
        from scaler.tools.common.short_file.service import ConfigError  # noqa: PLC0415 - rare

        self.short_files.add(source.name)
        try:
            made = manifests_of(text)
        except ConfigError as error:
            for one in error.findings:
                keys = dotted(one.path)
                words = f"{keys} {one.message}" if keys else one.message
                self.findings.append(
                    msgspec.structs.replace(
                        one, code=INVALID_SERVICE, message=words, file=source.name
                    )
                )
            return
        several, broken = objects(made, source.name, alone=True)
        self.objects += several
        self.findings += broken

    def _document(self, text: str, source: Source) -> None:
        other = yaml_document(text, source.name) or foreign_json(text, source.name)
        if isinstance(other, Object):
            self.objects.append(other)
            message = "this is the data of a ConfigMap without its head; it was checked as one"
            hint = "write apiVersion, kind and metadata.name above it"
            self.findings.append(
                Finding("KindMissing", (), message, hint, line=1, column=1, file=source.name)
            )
        elif other is not None:
            self.findings.append(other)
        else:
            self.documents += 1
            meant, said = read_document(text)
            for finding in said:
                self.findings.append(msgspec.structs.replace(finding, file=source.name))
            for words in mixtures_of(meant):
                self.findings.append(Finding(MIXTURE, (), *words, "info").at(1, 1, source.name))


def mixtures_of(rule: Rule | None) -> Iterator[tuple[str, str]]:
    """Finding and advice, if the rule allows combinations."""
    found = mixtures(rule) if rule is not None else None
    if found is not None:
        yield in_words(found), _WHAT_ENDS_ONE
