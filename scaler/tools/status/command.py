"""`scaler status`: every service in a table, or one as a tree; once, or live. Reads, prints,
changes nothing."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from scaler.tools.common.access import add_cluster_arguments, add_scope_arguments, place
from scaler.tools.common.output import add_output

if TYPE_CHECKING:
    from scaler.tools.common.access import Access

HELP = """Show all services, the worst first, or one of them.

One service comes with its ladder, instances, pods and nodes.

SERVICE is the name of an ElasticService, a jobID or a rule; NAMESPACE/SERVICE names its namespace
too. Reads with the rights of your kubeconfig and changes nothing; what you may not read is said.
Ctrl-C ends -w.

Exit code: 0 shown, 1 the cluster cannot be read or there is no such service, 2 usage."""

EXIT_SHOWN = 0
EXIT_FAILED = 1
EXIT_USAGE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "service", metavar="SERVICE", nargs="?", type=place, help="default: all of them"
    )
    parser.add_argument("-w", "--watch", action="store_true", help="stay, and show every change")
    add_output(parser, ("table", "wide", "json", "yaml"))
    add_scope_arguments(parser)
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Show the services that `args` name."""
    namespace, args.service = args.service or ("", "")
    if namespace:
        args.namespace = namespace
        args.all_namespaces = False
    if args.watch and args.format in ("json", "yaml"):
        sys.stderr.write(
            "scaler status: -w shows tables; for programs: kubectl get elasticservices -w -o json\n"
        )
        return EXIT_USAGE
    return asyncio.run(_show(args))


async def _show(args: argparse.Namespace) -> int:
    from scaler.kube.errors import KubeError  # noqa: PLC0415 - `scaler status --help` stays fast
    from scaler.tools.common.access import complaint, opened  # noqa: PLC0415

    try:
        async with opened(args) as access:
            return await _on(access, args)
    except* KubeError as group:
        sys.stderr.write(f"scaler status: {complaint(group)}\n")
    return EXIT_FAILED


async def _on(access: Access, args: argparse.Namespace) -> int:
    from scaler.tools.status.screen import live, once, opened_board  # noqa: PLC0415

    async with opened_board(access, args) as board:
        if args.watch:
            return await live(board)
        return await once(board)
