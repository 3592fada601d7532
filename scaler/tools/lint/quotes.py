"""Reads JSON with forgotten quotes: on a line whose quotes do not pair up, the only change with
which it makes sense is read as if it were made."""

from __future__ import annotations

import msgspec

from scaler.rules.quotes import Edit, Reads, quote_cure
from scaler.rules.text import GUESSED, TWO_MISSING, UNPAIRED, line_at, mended_hint, quotes_in
from scaler.tools.lint import brackets
from scaler.tools.lint.jsontext import Node, Reading, TextFinding

MOST_LINES = 8
"""Lines of one document that are mended."""


def read(text: str) -> Reading:
    """As `brackets.read`; a line whose quotes do not pair up is read as if they did, and told in
    one finding, with the mended line where only one change makes sense."""
    reading = brackets.read(text)
    mended = text
    cures: list[Edit] = []
    for _ in range(MOST_LINES):
        fault = _first_guess(mended, reading)
        if fault is None:
            break
        start, end = line_at(mended, fault.start)
        is_odd = _is_odd(mended, fault.start)
        cure = quote_cure(mended, start, end, _reads_from(start), missing=1 if is_odd else 2)
        if cure is None:
            reading = _told_once(reading, start, end) if is_odd else reading
            break
        here = Edit(_original(cure.start, cures), _original(cure.end, cures), cure.text)
        cures = sorted([*cures, here], key=lambda edit: edit.start)
        mended = mended[: cure.start] + cure.text + mended[cure.end :]
        reading = brackets.read(mended)
    return _in_places_of(text, cures, reading) if cures else reading


def _first_guess(text: str, reading: Reading) -> TextFinding | None:
    """The first finding that may come from a forgotten quote: a guess on a line whose quotes do not
    pair up, or the place where the text cannot be read on."""
    for fault in reading.faults:
        if fault.code in GUESSED and _is_odd(text, fault.start):
            return fault
    if reading.root is None and reading.faults and reading.faults[-1].code == "NotJson":
        return reading.faults[-1]
    return None


def _is_odd(text: str, place: int) -> bool:
    start, end = line_at(text, place)
    return bool(quotes_in(text[start:end]) % 2)


def _reads_from(start: int) -> Reads:
    """Whether a text can be read from this place to the end of its line without a guess."""

    def reads(text: str, end: int) -> bool:
        return not any(_is_guess_on(fault, start, end + 1) for fault in brackets.read(text).faults)

    return reads


def _is_guess_on(fault: TextFinding, start: int, end: int) -> bool:
    return fault.code in GUESSED and start <= fault.start <= end


def _original(place: int, cures: list[Edit]) -> int:
    """The offset in the text as it is of one in the mended text."""
    shift = 0
    for cure in cures:
        if place <= cure.start + shift:
            break
        if place < cure.start + shift + len(cure.text):
            return min(place - shift, cure.end)
        shift += len(cure.text) - (cure.end - cure.start)
    return place - shift


def _told_once(reading: Reading, start: int, end: int) -> Reading:
    """One finding in place of the guesses on this line."""
    hint = 'add the `"` that is missing'
    faults = [TextFinding("MissingQuote", (), UNPAIRED, hint, start=start)]
    for fault in reading.faults:
        if not _is_guess_on(fault, start, end):
            faults.append(fault)
    return Reading(reading.root, faults, reading.suspects)


def _in_places_of(text: str, cures: list[Edit], reading: Reading) -> Reading:
    """The reading of the mended text with the places of `text`, and a finding for each cure."""
    faults = [_finding(text, cure) for cure in cures]
    for fault in reading.faults:
        faults.append(_moved_fault(fault, cures))
    if reading.root is not None:
        _move(reading.root, cures)
    suspects = {}
    for comment, bracket in reading.suspects.items():
        suspects[_original(comment, cures)] = _original(bracket, cures)
    return Reading(reading.root, faults, suspects)


def _finding(text: str, cure: Edit) -> TextFinding:
    start, end = line_at(text, cure.start)
    mended = f"{text[start : cure.start]}{cure.text}{text[cure.end : end]}".strip()
    words = UNPAIRED if _is_odd(text, cure.start) else TWO_MISSING
    hint = mended_hint(mended)
    return TextFinding("MissingQuote", (), words, hint, start=cure.start, edit=cure)


def _moved_fault(fault: TextFinding, cures: list[Edit]) -> TextFinding:
    edit = fault.edit
    if edit is not None:
        edit = Edit(_original(edit.start, cures), _original(edit.end, cures), edit.text)
    return msgspec.structs.replace(fault, start=_original(fault.start, cures), edit=edit)


def _move(node: Node, cures: list[Edit]) -> None:
    """Give the node and all below it their places in the text as it is."""
    node.start = _original(node.start, cures)
    node.end = _original(node.end, cures)
    for name, offset in node.keys.items():
        node.keys[name] = _original(offset, cures)
    for child in node.children.values():
        _move(child, cures)
