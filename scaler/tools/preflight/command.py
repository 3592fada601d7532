"""`scaler preflight`: is this cluster ready for the scaler, and does its scaler work? Reads,
changes nothing."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from scaler.tools.common.access import add_cluster_arguments, named
from scaler.tools.common.output import add_output, written

if TYPE_CHECKING:
    from scaler.tools.common.check_result import CheckResult
    from scaler.tools.preflight.checks import Check

HELP = """Check a cluster before or after the scaler is installed.

It says what is missing, and what to do about it.

One line for each check: Kubernetes, kinds, rights, scheduler, Ascend Operator, admission, fault
data, NPU nodes, the scaler and its services. Reads with the rights of your kubeconfig and changes
nothing; what you may not read is said.

Exit code: 0 no errors, 1 an error, something that is not known, or the cluster cannot be read, 2
usage."""

EXIT_WELL = 0
EXIT_ERRORS = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n",
        "--namespace",
        type=named,
        metavar="NAME",
        help="services of this one only; default: all",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="with the details of each check"
    )
    add_output(parser)
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0 if no check found an error and all could look, 1 if not or the cluster cannot be read."""
    checks = asyncio.run(_checked(args))
    if checks is None:
        return EXIT_ERRORS
    worst = {str(result.level) for one in checks for result in one.results}
    well = not {"error", "not known"} & worst
    if args.format == "text":
        sys.stdout.write("\n".join(text(checks, verbose=args.verbose)) + "\n")
    else:
        answer = {"ok": well, "checks": [_document(one) for one in checks]}
        sys.stdout.write(written(answer, args.format))
    return EXIT_WELL if well else EXIT_ERRORS


def _document(check: Check) -> dict[str, Any]:
    """A check for programs."""
    results = []
    for one in check.results:
        results.append(
            {"level": one.level, "text": one.text, "advice": one.advice, "details": one.details}
        )
    return {"name": check.name, "findings": results}


async def _checked(args: argparse.Namespace) -> list[Check] | None:
    """None if the cluster cannot be read: then stderr says why."""
    from scaler.kube.errors import KubeError  # noqa: PLC0415 - `scaler preflight --help` stays fast
    from scaler.tools.common.access import complaint, opened  # noqa: PLC0415
    from scaler.tools.common.view import ask  # noqa: PLC0415
    from scaler.tools.preflight.judgement import judge  # noqa: PLC0415
    from scaler.tools.preflight.read_picture import read  # noqa: PLC0415

    try:
        async with opened(args) as access:
            # fails fast without an answer
            await ask(access.api, [args.namespace] if args.namespace else [])
            return judge(await read(access.api, access.clock, args.namespace or ""))
    except* KubeError as group:
        sys.stderr.write(f"scaler preflight: {complaint(group)}\n")
    return None


def text(checks: Sequence[Check], *, verbose: bool = False) -> Iterator[str]:
    """One line for each check without a problem; for the others each result and its advice; then
    the count."""
    counts: Counter[str] = Counter()
    for one in checks:
        for result in one.results:
            counts[str(result.level)] += 1
            yield from _lines(one.name, result, verbose=verbose)
    said = []
    for level, number in _told(counts):
        plural = "s" if number > 1 and level != "not known" else ""
        said.append(f"{number} {level}{plural}")
    yield ""
    yield f"{', '.join(said)}: what to do stands behind each ->" if said else "All is well."


def _told(counts: Counter[str]) -> Iterator[tuple[str, int]]:
    for level in ("error", "warning", "not known"):
        if counts[level]:
            yield (level, counts[level])


def _lines(name: str, result: CheckResult, *, verbose: bool) -> Iterator[str]:
    from scaler.tools.common.console import clean  # noqa: PLC0415

    yield f"{result.level:<9} {name:<16} {clean(result.text)}"
    if result.advice:
        yield f"{'':<26} -> {clean(result.advice)}"
    if verbose:
        for one in result.details:
            yield f"{'':<29} {clean(one)}"
