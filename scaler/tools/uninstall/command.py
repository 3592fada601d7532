"""`scaler uninstall`: removes an install from the cluster, so that no pod stays behind its gate."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, cast

from scaler.tools.common.access import add_cluster_arguments, named

if TYPE_CHECKING:
    from scaler.tools.uninstall.install import Install
    from scaler.tools.uninstall.leave import Asks, Say

HELP = """Stop the scaler for good, and leave no pod held.

Deletes the webhook configurations and policies of one install, waits until new pods come without
the gate, stops the scaler, deletes its PodDisruptionBudgets, and releases the pods that are held,
or lists the command that releases each. Then says what is left and how to delete it. Deletes no
pod; what runs goes on. May be interrupted and run again at any point.

Exit code: 0 nothing is stranded, 1 something is, as said, or the cluster cannot be read, 2
usage."""

EXIT_DONE = 0
EXIT_LEFT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    held = parser.add_mutually_exclusive_group(required=True)
    held.add_argument(
        "--release",
        action="store_true",
        help="release all pods that are held; the scheduler chooses",
    )
    held.add_argument(
        "--list",
        action="store_true",
        help="leave them held, and print the command that releases each",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be done, and change nothing"
    )
    parser.add_argument(
        "-n",
        "--namespace",
        type=named,
        default="mind-cluster-scaler-system",
        metavar="NAME",
        help="where the scaler is installed; default: mind-cluster-scaler-system",
    )
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0 when nothing is stranded, else 1; what --list leaves held on purpose does not count."""
    return asyncio.run(_leave(args))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _leave(args: argparse.Namespace) -> int:
    from scaler.kube.errors import ForbiddenError, KubeError  # noqa: PLC0415 - --help stays fast
    from scaler.tools.common.access import complaint, first, opened  # noqa: PLC0415
    from scaler.tools.uninstall.install import InstallNotFoundError  # noqa: PLC0415
    from scaler.tools.uninstall.leave import StuckError  # noqa: PLC0415

    try:
        async with opened(args) as access:
            return await leave(cast("Asks", access.api), args, _say)
    except* (StuckError, InstallNotFoundError) as group:
        sys.stderr.write(f"scaler uninstall: {first(group)}\n")
    except* ForbiddenError as group:
        sys.stderr.write(f"scaler uninstall: you may not do that: {first(group)}\n")
    except* KubeError as group:
        sys.stderr.write(f"scaler uninstall: {complaint(group)}\n")
    return EXIT_LEFT


async def leave(api: Asks, args: argparse.Namespace, say: Say) -> int:
    """All steps; returns the exit code. Raises KubeError, StuckError and InstallNotFoundError."""
    from scaler.tools.uninstall.install import admission_of, find  # noqa: PLC0415
    from scaler.tools.uninstall.leave import Leaving  # noqa: PLC0415
    from scaler.tools.uninstall.rights import missing  # noqa: PLC0415

    install = await find(api, args.namespace)
    admission = await admission_of(api, install)
    say(f"install {install.name} in {install.namespace}, which looks after {install.words}")
    lacking = await missing(api, install, admission, releases=args.release)
    for words in lacking:
        say(f"you may not {words}")
    if lacking:
        say("Nothing has been changed.")
        return EXIT_LEFT
    if args.dry_run:
        await _foretell(api, args, install, say)
        return EXIT_DONE
    leaving = Leaving(api, install, say)
    await leaving.let_pods_be_made()
    await leaving.stop()
    await leaving.let_nodes_be_drained()
    stranded = await leaving.release() if args.release else await leaving.tell()
    return await _after(api, install, stranded, say)


async def _foretell(api: Asks, args: argparse.Namespace, install: Install, say: Say) -> None:
    from scaler.tools.uninstall.held import held_pods  # noqa: PLC0415
    from scaler.tools.uninstall.install import admission_of  # noqa: PLC0415
    from scaler.tools.uninstall.remains import budgets  # noqa: PLC0415

    for resource, one in await admission_of(api, install):
        say(f"would delete {resource.kind} {one['metadata']['name']}")
    for one in install.deployments:
        say(f"would scale Deployment {install.namespace}/{one['metadata']['name']} to 0")
    for one in await budgets(api, install):
        say(
            "would delete PodDisruptionBudget"
            f" {one['metadata']['namespace']}/{one['metadata']['name']}"
        )
    held = await held_pods(api, install)
    say(f"would {'release' if args.release else 'list'} {len(held)} pods that are held")
    for pod in held:
        say(f"  {pod.metadata.namespace}/{pod.metadata.name}")
    say("Nothing has been changed.")


async def _after(api: Asks, install: Install, stranded: list[str], say: Say) -> int:
    """Print what is left to do; returns the exit code."""
    from scaler.tools.uninstall.remains import (  # noqa: PLC0415
        gates_in_templates,
        jobs_without_pods,
        removal,
    )

    for words in stranded:
        say(words)
    templates = await gates_in_templates(api, install)
    for words in templates:
        say(f"{words} sets the gate in its pod template: take it out, or its next pods stay held")
    if jobs := await jobs_without_pods(api, install):
        say(
            f"{len(jobs)} AscendJobs have no pods:"
            f" {', '.join(jobs[:10])}{', ...' if len(jobs) > 10 else ''}"
        )
        say("Ascend Operator makes them where it runs; nobody else does now.")
    say("Pods that run go on. These commands delete what is left of the install:")
    async for line in removal(api, install):
        say(f"  {line}")
    return EXIT_LEFT if stranded or templates else EXIT_DONE
