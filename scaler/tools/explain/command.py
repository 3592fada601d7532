"""`scaler explain`: replays recorded worlds through the decision and prints why each instance is in
its state.

Must not add knowledge of its own: it prints the decision about exactly this world, in the words of
decide.explain."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Iterable, Iterator

import msgspec

from scaler.decide.decide import decide
from scaler.decide.decision import Decision, Plan
from scaler.decide.explain import target_in_words, words
from scaler.decide.invariants import violations
from scaler.decide.world import World
from scaler.tools.common.output import add_output, converted, in_one_line
from scaler.tools.common.usage import content_of

HELP = """Say why each instance of a recorded world is where it is.

FILE holds one world as JSON, or one per line, as the controller serves them under /snapshots/world;
- is standard input. A world is all that the decision about every service depends on: the same world
always gives the same answer, whatever cluster or day it comes from.

Exit code: 0 answered, 1 a world is wrong or has no such service, 2 usage."""

EXIT_BAD_INPUT = 1
FORMAT = World.__struct_defaults__[-1]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--world", metavar="FILE", required=True, help="recorded world(s); - = standard input"
    )
    parser.add_argument(
        "--service",
        metavar="NAMESPACE/RULE/JOBID",
        default="",
        help="this service only (- = no rule, no jobID)",
    )
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Explain every world of the file; an invalid one makes the exit code 1 and does not stop the
    others."""
    shown = "standard input" if args.world == "-" else args.world
    content = content_of(args.world)
    decoder = msgspec.json.Decoder(World)
    failed = False
    for place, document in _documents(content):
        try:
            _check_format(document)
            world = _usable(decoder.decode(document))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            sys.stderr.write(f"scaler explain: {shown}{place}: not a recorded world: {error}\n")
            failed = True
            continue
        try:
            sys.stdout.write(_answer(world, args.service, args.format))
        except LookupError as error:
            sys.stderr.write(f"scaler explain: {shown}{place}: {error}\n")
            failed = True
    return EXIT_BAD_INPUT if failed else 0


def _documents(content: bytes) -> Iterator[tuple[str, bytes]]:
    """The whole file if it is one document, else its lines, each with its place."""
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        pass
    else:
        yield "", content
        return
    lines = []
    for number, line in enumerate(io.BytesIO(content), start=1):
        if line.strip():
            lines.append((number, line))
    for number, line in lines:
        yield (f":{number}", line)
    if not lines:
        yield "", content


class _Recorded(msgspec.Struct):
    """The fields of a world of any release."""

    format: int = FORMAT


def _check_format(document: bytes | str) -> None:
    """Raises ValueError for a world of another release, before other fields are read."""
    found = msgspec.json.decode(document, type=_Recorded).format
    if found != FORMAT:
        raise ValueError(f"format {found}; this version reads format {FORMAT}")


def _usable(world: World) -> World:
    """Raises ValueError for a document that decodes but cannot be from a controller."""
    if any(service.rule is not None and not service.rule.ratios for service in world.services):
        raise ValueError("a rule in it has no ratios; a controller never takes such a rule")
    keys = [service.key for service in world.services]
    if keys != sorted(set(keys)):
        raise ValueError("its services are not sorted, or one is there twice")
    return world


def _answer(world: World, service: str, form: str) -> str:
    """Raises LookupError when the world has no such service."""
    decision = decide(world)
    plans = [plan for plan in decision.plans if service in ("", str(plan.key), plan.key.shown)]
    if service and not plans:
        known = ", ".join(plan.key.shown for plan in decision.plans[:5]) or "none"
        raise LookupError(f"no service {service} in it; it has {len(decision.plans)}: {known}")
    if form != "text":
        return ("" if form == "json" else "---\n") + converted(
            _json(decision, plans if service else None), form
        )
    lines = list(_head(world))
    for plan in plans:
        lines.extend(_text(plan))
    for violation in violations(world, decision):
        lines.append(f"BUG, please report with this file: {violation}")
    return "\n".join(lines) + "\n"


def _json(decision: Decision, only: list[Plan] | None) -> str:
    """The decision and the words about every instance; of one service only its plan."""
    plans = decision.plans if only is None else only
    spoken = {}
    for plan in plans:
        spoken[str(plan.key)] = {verdict.uid: words(verdict, plan) for verdict in plan.verdicts}
    answer = {"decision": decision} if only is None else {"plan": only[0]}
    return in_one_line({**answer, "words": spoken})


def _head(world: World) -> Iterable[str]:
    if world.alone:
        yield f"each service decides alone: {world.alone}"
        yield ""


def _text(plan: Plan) -> Iterable[str]:
    yield f"{plan.key.shown}: {target_in_words(plan)}"
    for name, group in plan.groups.items():
        yield (
            f"  {name}: {group.running} of {group.target} running, {group.in_flight} in flight,"
            f" {group.held} held; admit {group.admit}, revoke {group.revoke}"
        )
    width = max((len(verdict.name) for verdict in plan.verdicts), default=0)
    for verdict in plan.verdicts:
        yield (
            f"  {verdict.name:<{width}}  {verdict.state} ({verdict.reason}): {words(verdict, plan)}"
        )
    for note in plan.notes:
        yield f"  warning {note.warning}: {note.message}"
    yield ""
