"""Finds where a quote was forgotten: on a line whose quotes do not pair up.

Each place of the line where a text may begin or end is tried. For example

    {"group_name": "group0, "group_num": "2"}

has seven quotes; with one more behind `group0` the line can be read, and with one more in any other
place it cannot."""

from __future__ import annotations

import re

import msgspec

from scaler.rules.finding import printable
from scaler.rules.text import GUESSED, line_at, quotes_in
from scaler.tools.lint import brackets
from scaler.tools.lint.jsontext import Edit, Node, Reading, TextFinding

MOST_LINES = 8
"""Lines of one document that are mended."""
MAX_WORK = 1024 * 1024
"""Characters read for the places of one line."""
LONGEST_SHOWN = 160
"""Characters of a mended line in a hint."""

_BOUNDARY = re.compile(r"(?<=[\w.-])(?![\w.-])|(?<![\w.-])(?=[\w.-])")
_NAMES = frozenset(
    {
        "version",
        "elastic_scaling_list",
        "group_list",
        "group_name",
        "group_num",
        "server_num_per_group",
    }
)


def read(text: str) -> Reading:
    """As `brackets.read`; a line with a forgotten quote is read as if it were there, and told in
    one finding, with the mended line where only one place makes sense."""
    reading = brackets.read(text)
    mended = text
    added: list[int] = []
    for _ in range(MOST_LINES):
        line = _line_with_an_odd_quote(mended, reading)
        if line is None:
            break
        place = _place_of_quote(mended, *line)
        if place < 0:
            reading = _told_once(reading, *line)
            break
        added = sorted([*added, _original(place, added)])
        mended = mended[:place] + '"' + mended[place:]
        reading = brackets.read(mended)
    return _in_places_of(text, added, reading) if added else reading


def _original(place: int, added: list[int]) -> int:
    """The offset in the text as it is of one in the mended text. `added`: the offsets in the text
    as it is of the quotes that were added, in order."""
    before = 0
    for index, start in enumerate(added):
        if start + index < place:
            before += 1
    return place - before


def _line_with_an_odd_quote(text: str, reading: Reading) -> tuple[int, int] | None:
    """Start and end of the line of the first guess, if its quotes do not pair up."""
    for fault in reading.faults:
        if fault.code in GUESSED:
            line = line_at(text, fault.start)
            return line if quotes_in(text[slice(*line)]) % 2 else None
    return None


def _place_of_quote(text: str, start: int, end: int) -> int:
    """The only place where one more quote makes sense of the line; -1 for none, or several."""
    places = [found.start() for found in _BOUNDARY.finditer(text, start, end)]
    if len(places) * len(text) > MAX_WORK:
        return -1
    sound = []
    known = []
    for place in places:
        trial = text[:place] + '"' + text[place:]
        reading = brackets.read(trial)
        if any(_is_guess_on(fault, start, end + 1) for fault in reading.faults):
            continue
        sound.append(place)
        if reading.root is None or _has_known_names(reading.root, start, end + 1):
            known.append(place)
    candidates = known if len(known) == 1 else sound
    return candidates[0] if len(candidates) == 1 else -1


def _is_guess_on(fault: TextFinding, start: int, end: int) -> bool:
    return fault.code in GUESSED and start <= fault.start <= end


def _has_known_names(node: Node, start: int, end: int) -> bool:
    """Whether all names of members between these offsets are those of a rule."""
    for name, offset in node.keys.items():
        if start <= offset <= end and name not in _NAMES:
            return False
    for child in node.children.values():
        if not _has_known_names(child, start, end):
            return False
    return True


def _told_once(reading: Reading, start: int, end: int) -> Reading:
    """One finding in place of the guesses on this line."""
    told = TextFinding(
        "MissingQuote",
        (),
        "the quotes on this line do not pair up",
        "add the one that is missing",
        start=start,
    )
    faults = [told]
    for fault in reading.faults:
        if not _is_guess_on(fault, start, end):
            faults.append(fault)
    return Reading(reading.root, faults, reading.suspects)


def _in_places_of(text: str, added: list[int], reading: Reading) -> Reading:
    """The reading of the mended text with the places of `text`, and a finding for each quote that
    was added."""
    faults = [_finding(text, place) for place in added]
    for fault in reading.faults:
        faults.append(_moved_fault(fault, added))
    if reading.root is not None:
        _move(reading.root, added)
    suspects = {}
    for comment, bracket in reading.suspects.items():
        suspects[_original(comment, added)] = _original(bracket, added)
    return Reading(reading.root, faults, suspects)


def _finding(text: str, place: int) -> TextFinding:
    start, end = line_at(text, place)
    mended = f'{text[start:place]}"{text[place:end]}'.strip()
    message = "the quotes on this line do not pair up: one is missing here"
    hint = 'write `"` here'
    if len(mended) <= LONGEST_SHOWN:
        hint = f"write {printable(mended)}"
    return TextFinding("MissingQuote", (), message, hint, start=place, edit=Edit(place, place, '"'))


def _moved_fault(fault: TextFinding, added: list[int]) -> TextFinding:
    edit = fault.edit
    if edit is not None:
        edit = Edit(_original(edit.start, added), _original(edit.end, added), edit.text)
    return msgspec.structs.replace(fault, start=_original(fault.start, added), edit=edit)


def _move(node: Node, added: list[int]) -> None:
    """Give the node and all below it their places in the text as it is."""
    node.start = _original(node.start, added)
    node.end = _original(node.end, added)
    for name, offset in node.keys.items():
        node.keys[name] = _original(offset, added)
    for child in node.children.values():
        _move(child, added)
