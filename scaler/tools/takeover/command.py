"""`scaler takeover --check`: may the scaler take over the services of this cluster? Reads, prints,
changes nothing."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from scaler.settings import Settings, SettingsError, load
from scaler.tools.common.access import add_cluster_arguments, named
from scaler.tools.common.output import add_output, written
from scaler.tools.takeover.comparison import Consequence, Weight

if TYPE_CHECKING:
    from scaler.tools.takeover.check import JobReport, Report

HELP = """Check whether the scaler can take over from Ascend Operator.

Reads the cluster and changes nothing. Says for each AscendJob what differs from what the scaler
would create and what the scaler would do to it first. Run it while the operator still runs, and
again when it is scaled to 0.

Exit code: 0 no running pod would be touched, 1 one would, or the cluster cannot be read, 2
usage."""

EXIT_SAFE = 0
EXIT_NOT_SAFE = 1
EXIT_USAGE = 2
_SIGNS = {Weight.BLOCKS: "NOT SAFE", Weight.DOES: "does", Weight.DIFFERS: "differs"}
_ONE_REASON = "NOT SAFE, for 1 reason above: fix it first."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--check", action="store_true", help="look and tell, which is all that it does"
    )
    parser.add_argument(
        "-n",
        "--namespace",
        type=named,
        metavar="NAMESPACE",
        help="look at this one only; default: all",
    )
    parser.add_argument("--namespaces", metavar="A,B", help="look at these only")
    add_output(parser)
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0 when the takeover is safe, 1 when it is not or the cluster cannot be read, 2 for wrong
    arguments."""
    if args.namespace:
        args.namespaces = ",".join(filter(None, (args.namespaces, args.namespace)))
    try:
        settings = load(args, {})
    except SettingsError as error:
        sys.stderr.write(f"scaler takeover: {error}\n")
        return EXIT_USAGE
    report = asyncio.run(_check(args, settings))
    if report is None:
        return EXIT_NOT_SAFE
    sys.stdout.write(
        "\n".join(text(report)) + "\n" if args.format == "text" else written(report, args.format)
    )
    return EXIT_SAFE if report.safe else EXIT_NOT_SAFE


async def _check(args: argparse.Namespace, settings: Settings) -> Report | None:
    """None when the cluster cannot be read: then stderr says why."""
    from scaler.kube.errors import KubeError  # noqa: PLC0415 - `scaler takeover --help` stays fast
    from scaler.tools.common.access import complaint, first, opened  # noqa: PLC0415
    from scaler.tools.common.view import ask  # noqa: PLC0415
    from scaler.tools.takeover.check import NotReadableError, check  # noqa: PLC0415

    try:
        async with opened(args) as access:
            await ask(access.api, settings.namespaces)  # fails fast if the cluster does not answer
            return await check(access.api, settings, access.clock)
    except* NotReadableError as group:
        sys.stderr.write(f"scaler takeover: {first(group)}\n")
    except* KubeError as group:
        sys.stderr.write(f"scaler takeover: {complaint(group)}\n")
    return None


def text(report: Report) -> Iterator[str]:
    """The report for people, line by line: the cluster, then service by service, then the
    answer."""
    from scaler.decide.world import shown  # noqa: PLC0415 - --help stays fast

    for consequence in report.consequences:
        yield _line(consequence)
    service = ""
    for job in report.jobs:
        if f"{job.namespace} {job.service}" != service:
            service = f"{job.namespace} {job.service}"
            yield f"service {shown(job.service)}"
        yield f"  {job.name}: {_standing(job)}"
        for consequence in _told(job.consequences):
            yield f"    {_line(consequence)}"
    yield ""
    yield from _answer(report)


def _standing(job: JobReport) -> str:
    pods = f"{job.pods} of {job.expected} pods" if job.pods else "no pods"
    fate = "adopted as it is" if job.pods and not _told(job.consequences) else ""
    return ", ".join(part for part in (job.state, pods, fate) if part)


def _told(consequences: Sequence[Consequence]) -> list[Consequence]:
    return [
        consequence for consequence in consequences if consequence.weight is not Weight.EXPECTED
    ]


def _line(consequence: Consequence) -> str:
    return f"{_SIGNS.get(consequence.weight, consequence.weight)}: {consequence.text}"


def _answer(report: Report) -> Iterator[str]:
    counts = Counter(consequence.weight for consequence in report.consequences)
    for job in report.jobs:
        counts.update(consequence.weight for consequence in job.consequences)
    adopted = sum(bool(job.pods) for job in report.jobs)
    if not report.jobs:
        yield "There is no AscendJob to take over."
    elif report.safe:
        yield (
            f"Safe: {adopted} of {len(report.jobs)} jobs have pods, and none of these pods would be"
            " touched."
        )
    else:
        number = counts[Weight.BLOCKS]
        yield (
            f"NOT SAFE, for {number} reasons above: fix them first." if number > 1 else _ONE_REASON
        )
    if counts[Weight.DIFFERS]:
        yield (
            "What differs stays as it is while its pods run, and becomes the scaler's when an"
            " instance is made anew."
        )
    if report.operator:
        namespace, name = report.operator.split("/")
        yield (
            f"Ascend Operator {report.operator} runs. When all is safe, stop it, then start the"
            " scaler:"
        )
        yield f"  kubectl -n {namespace} scale deployment {name} --replicas=0"
