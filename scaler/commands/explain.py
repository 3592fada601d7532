"""`scaler explain`: replays recorded snapshots through the planner and says why each instance is where it is.

Must not add knowledge of its own: what it prints is the plan of exactly this snapshot, in the words of plan.explain.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from scaler.decide.explain import target_in_words, words
from scaler.decide.invariants import violations
from scaler.decide.planner import plan
from scaler.decide.world import Plan, Snapshot, Verdict
from scaler.report.recorded import Recorded

HELP = """Say why each instance of a recorded snapshot is where it is.

FILE holds one snapshot as JSON, or one per line, as the controller records them; - is standard input. The same snapshot
always gives the same answer, whatever cluster or day it comes from. Where the service was weighed against others when
it was recorded, what came of that is shown as well.

Exit code: 0 answered, 1 a snapshot cannot be read, 2 usage."""

EXIT_BAD_INPUT = 1
FORMAT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--snapshot", metavar="FILE", required=True, help="recorded snapshot(s); - = standard input")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the answer (default: text)")


def run(args: argparse.Namespace) -> int:
    """Explain every snapshot of the file; stop at none that is bad, but answer 1 in the end."""
    shown = "standard input" if args.snapshot == "-" else args.snapshot
    try:
        content = sys.stdin.buffer.read() if args.snapshot == "-" else Path(args.snapshot).read_bytes()
    except OSError as error:
        sys.stderr.write(f"scaler explain: {shown}: {error.strerror or error}\n")
        return EXIT_BAD_INPUT
    decoder = msgspec.json.Decoder(Recorded)
    failed = False
    for place, document in _documents(content):
        try:
            answer = _answer(_usable(decoder.decode(document)), args.format)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            sys.stderr.write(f"scaler explain: {shown}{place}: not a recorded snapshot: {error}\n")
            failed = True
            continue
        sys.stdout.write(answer)
    return EXIT_BAD_INPUT if failed else 0


def _documents(content: bytes) -> Iterator[tuple[str, bytes]]:
    """The whole file when it is one document, else its lines, each with its place."""
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        pass
    else:
        yield "", content
        return
    lines = [(number, line) for number, line in enumerate(io.BytesIO(content), start=1) if line.strip()]
    yield from ((f":{number}", line) for number, line in lines)
    if not lines:
        yield "", content


def _usable(snapshot: Recorded) -> Recorded:
    """Raises ValueError for what decodes but was never recorded by a controller."""
    if snapshot.format != FORMAT:
        raise ValueError(f"format {snapshot.format}; this version reads format {FORMAT}")
    if snapshot.rule is not None and not snapshot.rule.ratios:
        raise ValueError("its rule has no ratios; a controller never takes such a rule")
    return snapshot


def _answer(snapshot: Recorded, form: str) -> str:
    (made, memory), together = plan(snapshot), snapshot.together
    if form == "json":
        answer = {"plan": made, "memory": memory, "words": _words(made)}
        if together is not None:
            answer |= {"together": together, "together_words": _words(together)}
        return msgspec.json.encode(answer).decode() + "\n"
    return "\n".join([*_text(snapshot, made), *_together(made, together), ""]) + "\n"


def _together(made: Plan, together: Plan | None) -> Iterable[str]:
    """What the arbitration changed."""
    if together is None:
        return
    alone = {verdict.uid: (verdict.reason, verdict.about) for verdict in made.verdicts}
    changed = [each for each in together.verdicts if alone.get(each.uid) != (each.reason, each.about)]
    yield "weighed against the other services:" if changed else "weighed against the other services: nothing changes"
    yield from _verdicts(changed, together)


def _words(made: Plan) -> dict[str, str]:
    return {verdict.uid: words(verdict, made) for verdict in made.verdicts}


def _text(snapshot: Snapshot, made: Plan) -> Iterable[str]:
    yield f"{snapshot.key}: {target_in_words(made)}"
    for name, group in made.groups.items():
        yield (
            f"  {name}: {group.running} of {group.target} running, {group.in_flight} in flight, {group.held} held; "
            f"admit {group.admit}, revoke {group.revoke}"
        )
    yield from _verdicts(made.verdicts, made)
    for note in made.notes:
        yield f"  warning {note.warning}: {note.message}"
    for violation in violations(snapshot, made):
        yield f"  BUG, please report with this file: {violation}"


def _verdicts(verdicts: Sequence[Verdict], made: Plan) -> Iterable[str]:
    width = max((len(verdict.name) for verdict in verdicts), default=0)
    for verdict in verdicts:
        yield f"  {verdict.name:<{width}}  {verdict.state} ({verdict.reason}): {words(verdict, made)}"
