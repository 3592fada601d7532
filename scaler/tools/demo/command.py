"""`scaler demo`: a scenario in under a minute, without a cluster; or a simulated cluster for own
tries.

Must not: know how the controller or the simulation work; it plays manifests/examples/demo.yaml and
shows it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scaler.tools.common.serving import port

if TYPE_CHECKING:
    from scaler.sim.stories.scenario import Scenario

HELP = """Show the scaler at work on a simulated cluster.

The story: start, faults, degradation, a typo in the rule, and the climb back.

The real controller runs on a simulated cluster in virtual time, paced for people; --fast does
without the pauses. --interactive keeps a cluster up in real time and prints how to reach it with
kubectl; Ctrl-C ends it. --ui tells the story on the page of `scaler ui`, in a browser, and goes on
until Ctrl-C. -f plays a scenario of one's own, such as `scaler new` writes, instead of the story.

Exit code: 0 the service ended where it should, 1 it did not, 2 usage."""

EXIT_UNEXPECTED = 1
EXIT_USAGE = 2
MOST_NODES = 1_000
SPEED = 12.0
"""Seconds of the scenario per second, in a browser."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fast", action="store_true", help="no pauses; also without a terminal")
    parser.add_argument(
        "--interactive", action="store_true", help="keep the cluster up and serve kubectl"
    )
    parser.add_argument(
        "-f",
        "--folder",
        metavar="DIR",
        type=Path,
        help="play DIR/scenario.yaml (scaler new writes it)",
    )
    parser.add_argument(
        "--nodes", metavar="N", type=nodes, help="so many nodes with NPUs instead of the scenario's"
    )
    parser.add_argument("--ui", action="store_true", help="serve a page that shows it live")
    parser.add_argument(
        "--port",
        type=port,
        default=0,
        metavar="N",
        help="of the API or the page (default: a free one)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="another order of things (default: 0)"
    )


def nodes(text: str) -> int:
    """A number of nodes; argparse prints the error."""
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:6]) <= MOST_NODES):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {MOST_NODES:,}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Play the demo, or keep a cluster running."""
    # Loaded only here: `scaler --help` reads this module too.
    from scaler.tools.simulate.scenario_file import (  # noqa: PLC0415
        ScenarioError,
        check_inputs,
        load_scenario,
    )

    try:
        scenario = load_scenario(
            args.folder / "scenario.yaml" if args.folder else examples() / "demo.yaml"
        )
        scenario = scenario if args.nodes is None else _on(args.nodes, scenario)
        check_inputs(scenario)
    except ScenarioError as error:
        sys.stderr.write(f"scaler demo: {error}\n")
        return EXIT_USAGE
    if args.ui:
        return _show(scenario, args)
    if args.interactive:
        return _keep_up(scenario, args)
    from scaler.tools.demo.story import tell  # noqa: PLC0415

    live = sys.stdout.isatty()
    good = tell(scenario, seed=args.seed, out=sys.stdout, live=live, paced=live and not args.fast)
    return 0 if good else EXIT_UNEXPECTED


def _on(count: int, scenario: Scenario) -> Scenario:
    """The scenario on this number of NPU nodes: those of the first node group with NPUs."""
    groups = list(scenario.nodes)
    place = next((place for place, group in enumerate(groups) if group.npu), None)
    if place is None:
        return scenario
    name = groups[place].name
    pattern = f"{name}-{{}}" if count > 1 and "{}" not in name else name
    groups[place] = groups[place].model_copy(update={"count": count, "name": pattern})
    return scenario.model_copy(update={"nodes": groups})


def _keep_up(scenario: Scenario, args: argparse.Namespace) -> int:
    # Brings an HTTP server along.
    from scaler.tools.demo.interactive import keep_up  # noqa: PLC0415

    try:
        keep_up(scenario, port=args.port, seed=args.seed, out=sys.stdout)
    except OSError as error:
        sys.stderr.write(f"scaler demo: port {args.port}: {error.strerror}\n")
        return EXIT_USAGE
    return 0


def _show(scenario: Scenario, args: argparse.Namespace) -> int:
    from scaler.tools.simulate import watched  # noqa: PLC0415 - brings an HTTP server along

    try:
        watched.show(scenario, speed=SPEED, seed=args.seed, port=args.port)
    except watched.NotServedError as error:
        sys.stderr.write(f"scaler demo: {error}\n")
        return EXIT_USAGE
    return 0


def examples() -> Path:
    """The folder of examples: in the repository, or beside the installed package."""
    package = Path(__file__).resolve().parents[2]
    installed = package / "examples"
    return installed if installed.is_dir() else package.parent / "manifests" / "examples"
