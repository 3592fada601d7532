"""`scaler why NAME`: the reason for the state of a job, a pod or a service, on one screen; changes
nothing."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import TYPE_CHECKING

from scaler.reasons.said import LANGUAGES
from scaler.tools.common.access import add_cluster_arguments, named, place
from scaler.tools.common.language import spoken
from scaler.tools.common.output import add_output

if TYPE_CHECKING:
    from scaler.reasons.said import Language
    from scaler.tools.why.answer import Answer

HELP = """Say why a job, a pod or a service is as it is.

NAME is a job (AscendJob, Volcano Job, Deployment, ...), one of its instances, a pod, or a service
(its ElasticService, jobID or rule); NAMESPACE/NAME names the namespace too. Labels and rule,
minimum and room, scheduler, operator, admission and rank tables are looked at with the rights of
your kubeconfig; nothing is changed. What to do next stands at the end.

Exit code: 0 all is as it should be, 1 something is in the way, or the cluster cannot be read, or
there is no such thing, 2 usage."""

EXIT_WELL = 0
EXIT_NOT_WELL = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", type=place, help="NAMESPACE/NAME or NAME of a job, pod or service"
    )
    parser.add_argument(
        "-n", "--namespace", type=named, metavar="NAME", help="default: that of the context"
    )
    parser.add_argument(
        "--rank-table",
        action="store_true",
        help="all conditions of a global rank table, also if nothing seems to need one",
    )
    parser.add_argument(
        "--language",
        choices=LANGUAGES,
        help="of the answer as text; default: Chinese where LC_ALL, LC_MESSAGES or LANG says zh",
    )
    add_output(parser)
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the answer."""
    namespace, args.name = args.name
    args.namespace = namespace or args.namespace
    return asyncio.run(_answer(args))


async def _answer(args: argparse.Namespace) -> int:
    from scaler.kube.errors import KubeError  # noqa: PLC0415 - `scaler why --help` stays fast
    from scaler.tools.common.access import complaint, opened  # noqa: PLC0415
    from scaler.tools.why.inquiry import ask_why  # noqa: PLC0415

    try:
        async with opened(args) as access:
            found = await ask_why(access, args.name, always_ranks=args.rank_table)
            if found is None:
                return EXIT_NOT_WELL
            _print(found, args.format, args.language or spoken(os.environ))
            is_well = found.has_ranks if args.rank_table else found.well
            return EXIT_WELL if is_well else EXIT_NOT_WELL
    except* KubeError as group:
        sys.stderr.write(f"scaler why: {complaint(group)}\n")
    return EXIT_NOT_WELL


def _print(found: Answer, output: str, language: Language) -> None:
    from scaler.tools.common.console import console, show  # noqa: PLC0415
    from scaler.tools.common.output import written  # noqa: PLC0415
    from scaler.tools.why.answer import document, rendered  # noqa: PLC0415

    if output != "text":
        sys.stdout.write(written(document(found), output))
        return
    screen = console()
    show(screen, rendered(found, language))
