"""`scaler simulate`: a what-if of a user in virtual time, as text, JSON and a picture.

Must not: know how a simulation works; it reads the file, plays it and shows the result."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scaler.tools.common.output import add_output, converted
from scaler.tools.common.serving import port

if TYPE_CHECKING:
    from scaler.sim.stories.scenario import Scenario

HELP = """Play a scenario in virtual time, and check what it expects.

A scenario has nodes, manifests as they are, timed faults and edits, and expectations.

The real controller runs on a simulated cluster; hours pass in moments, and one seed gives one
history. Files are described in docs/reference/scenario.md; examples are in tests/scenarios/.

Exit code: 0 everything came as expected, 1 something did not, 2 usage or not a scenario."""

EXIT_UNEXPECTED = 1
EXIT_USAGE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", metavar="SCENARIO.yaml", type=Path, help="the scenario file")
    add_output(parser)
    parser.add_argument(
        "--picture",
        metavar="FILE.svg",
        type=Path,
        help="draw instances, target and faults over time",
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, help="instead of the scenario's: another order of things"
    )
    parser.add_argument(
        "--no-arbitration",
        action="store_true",
        help="the same with every service alone, to see what minimums first is worth",
    )
    parser.add_argument(
        "--ui", action="store_true", help="show it live in a browser, until Ctrl-C, judging nothing"
    )
    parser.add_argument(
        "--speed",
        type=_speed,
        default=10.0,
        metavar="N",
        help="of --ui: seconds in one (default: 10)",
    )
    parser.add_argument(
        "--port", type=port, default=0, metavar="N", help="of --ui (default: a free one)"
    )
    parser.add_argument(
        "--record",
        metavar="DIR",
        type=Path,
        help="write the world of every decision for `scaler explain`",
    )


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0.1 <= speed <= 100.0:
        raise argparse.ArgumentTypeError(f"'{text}' is no speed; write a number from 0.1 to 100")
    return speed


def run(args: argparse.Namespace) -> int:
    """Play the scenario, print the result, check the expectations."""
    # See _play.
    from scaler.tools.simulate.scenario_file import (  # noqa: PLC0415
        ScenarioError,
        check_inputs,
        load_scenario,
    )

    try:
        scenario = load_scenario(args.scenario)
        check_inputs(scenario)
        if args.no_arbitration:
            scenario = scenario.model_copy(update={"arbitration": False})
    except ScenarioError as error:
        sys.stderr.write(f"scaler simulate: {error}\n")
        return EXIT_USAGE
    if args.ui:
        return _show(scenario, args)
    try:
        return _play(scenario, args)
    except OSError as error:
        sys.stderr.write(f"scaler simulate: {error.filename}: {error.strerror}\n")
        return EXIT_USAGE


def _show(scenario: Scenario, args: argparse.Namespace) -> int:
    from scaler.tools.simulate import watched  # noqa: PLC0415 - brings an HTTP server along

    seed = scenario.seed if args.seed is None else args.seed
    try:
        watched.show(scenario, speed=args.speed, seed=seed, port=args.port)
    except watched.NotServedError as error:
        sys.stderr.write(f"scaler simulate: {error}\n")
        return EXIT_USAGE
    return 0


def _play(scenario: Scenario, args: argparse.Namespace) -> int:
    # The controller and its simulation are loaded only here: `scaler --help` reads this module too.
    from scaler.sim.stories.play import play, silence_logs  # noqa: PLC0415
    from scaler.sim.stories.timeline import Timeline  # noqa: PLC0415
    from scaler.tools.simulate import present  # noqa: PLC0415
    from scaler.tools.simulate.figures import figures  # noqa: PLC0415
    from scaler.tools.simulate.overview import draw  # noqa: PLC0415
    from scaler.tools.simulate.verdicts import judge  # noqa: PLC0415

    silence_logs()
    listener = (lambda moment: _write(present.line(moment))) if args.format == "text" else None
    recorder = present.WorldFiles(args.record) if args.record else None
    title = _title(scenario, args.scenario.name)
    if args.format == "text":
        sys.stdout.write(f"{title}\n")
    seed = scenario.seed if args.seed is None else args.seed
    timeline = play(scenario, seed=seed, timeline=Timeline(listener), record=recorder)
    verdicts = judge(scenario, timeline)
    loads = figures(scenario.load, timeline)
    if args.picture:
        args.picture.write_text(draw(timeline, title), encoding="utf-8")
    if args.format != "text":
        sys.stdout.write(converted(present.document(seed, timeline, verdicts, loads), args.format))
    else:
        sys.stdout.write(present.summary(timeline, verdicts, loads))
    return 0 if all(verdict.ok for verdict in verdicts) else EXIT_UNEXPECTED


def _title(scenario: Scenario, name: str) -> str:
    """The title. With many services it says whether they are weighed against each other."""
    title = scenario.title or name
    if not scenario.arbitration:
        return f"Alone: {title}"
    return f"Minimums first: {title}" if scenario.copies else title


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
