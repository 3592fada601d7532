"""`scaler shadow`: runs the controller in mode shadow, with notes; or prints a report of such
notes."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from scaler.tools.common.access import add_cluster_arguments, named
from scaler.tools.common.output import Members, add_output, written

if TYPE_CHECKING:
    from scaler.tools.shadow.notes import Difference, Tally
    from scaler.tools.shadow.record import Noted

HELP = """Decide beside what runs, and report where the two differ.

`scaler shadow run` is the controller in mode shadow: it decides and does nothing, and writes its
notes into its own namespace. manifests/shadow starts it.

`scaler shadow report` reads these notes and changes nothing. Per service: how long what ran was
what the decision wants, how long it did not serve although it could have, and what was started that
the decision would have held; each with times and reasons.

Exit code of report: 0 shown, 1 there is no report or the cluster cannot be read, 2 usage; of run as
of `scaler run`."""

USUAL = "mind-cluster-scaler-shadow"
"""Namespace of manifests/shadow."""
EXIT_SHOWN = 0
EXIT_FAILED = 1
LATE = 120.0
"""Seconds after which a report is so old that its shadow seems to have stopped."""
SHORT = 5.0
"""Seconds: a difference that the other controller ends sooner gets no line of its own."""
WORDS = {
    "start": "held, and the decision would have started it",
    "hold": "waiting for a node, and the decision would have taken it back",
    "evict": "on nodes, and the decision would have evicted it",
    "started": "started, when the decision would have held it",
}
TIMES = ("watched", "as_decided", "serving", "could_serve", "held_up")
LIMITS = (
    "Every decision was made afresh from what was seen, and none was carried out.",
    (
        "What would have followed from one is not known: which pods would have run, and what would"
        " have been decided next."
    ),
    "A difference of a few seconds is most often the time that the other one needs to do the same.",
    (
        "What ran before the shadow began counts as given, and so does what was started while it"
        " was away."
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from scaler import settings  # noqa: PLC0415 - `scaler --help` stays fast

    parts = parser.add_subparsers(dest="part", required=True, metavar="report|run")
    report = parts.add_parser(
        "report", description="Report what a shadow has noted.", help="report what it has noted"
    )
    report.add_argument(
        "service",
        metavar="TEXT",
        nargs="?",
        default="",
        help="only services with this in their name",
    )
    report.add_argument(
        "-n",
        "--namespace",
        type=named,
        default=USUAL,
        metavar="NAME",
        help=f"of the install; default: {USUAL}",
    )
    add_output(report)
    add_cluster_arguments(report)
    settings.add_arguments(
        parts.add_parser(
            "run",
            description="Run the controller in mode shadow.",
            help="run the controller in mode shadow",
        )
    )


def run(args: argparse.Namespace) -> int:
    """Print the report, or run the shadow until SIGTERM."""
    if args.part == "report":
        return asyncio.run(_show(args))
    from scaler.run import run as run_controller  # noqa: PLC0415
    from scaler.tools.shadow.record import Record  # noqa: PLC0415

    args.mode = "shadow"
    return run_controller(args, Record())


async def _show(args: argparse.Namespace) -> int:
    # `scaler shadow --help` stays fast.
    from scaler.kube.api import CONFIG_MAPS  # noqa: PLC0415
    from scaler.kube.deadline import within  # noqa: PLC0415
    from scaler.kube.errors import KubeError, NotFoundError  # noqa: PLC0415
    from scaler.tools.common.access import complaint, opened  # noqa: PLC0415
    from scaler.tools.shadow.record import NAME, decode  # noqa: PLC0415

    where = f"ConfigMap {NAME} in namespace {args.namespace}"
    try:
        async with opened(args) as access:
            noted = decode(
                await within(PATIENCE, access.api.get(CONFIG_MAPS, args.namespace, NAME))
            )
            report = report_of(noted, access.clock.now(), args.service)
    except* NotFoundError:
        sys.stderr.write(
            f"scaler shadow: there is no {where}: the first report comes half a minute after the"
            " start\n"
        )
    except* KubeError as group:
        sys.stderr.write(f"scaler shadow: {complaint(group)}\n")
    except* ValueError as group:
        sys.stderr.write(f"scaler shadow: {where}: {group.exceptions[0]}\n")
    else:
        sys.stdout.write(
            "\n".join(text(report)) + "\n"
            if args.format == "text"
            else written(report, args.format)
        )
        return EXIT_SHOWN
    return EXIT_FAILED


PATIENCE = 30.0
"""Seconds for the one request."""


def report_of(noted: Noted, now: float, only: str = "") -> dict[str, Any]:
    """The report as one value for people and programs: seconds, and times as Kubernetes writes
    them."""
    from scaler.timestamps import rfc3339  # noqa: PLC0415

    services = []
    for name, tally in sorted(noted.services.items()):
        if only in name:
            services.append(_service(name, tally))
    totals: dict[str, Any] = {}
    for name in TIMES:
        totals[name] = round(sum(service[name] for service in services), 1)
    totals["differences"] = {what: _added(services, what) for what in WORDS}
    return Members(
        as_of=rfc3339(noted.at),
        stale=round(now - noted.at) if now - noted.at > LATE else 0,
        alone=noted.alone,
        left_out=noted.left_out,
        totals=Members(totals),
        services=services,
        not_known=list(LIMITS),
    )


def _service(name: str, tally: Tally) -> dict[str, Any]:
    from scaler.timestamps import rfc3339  # noqa: PLC0415

    found = []
    for ended in tally.ended.values():
        found.extend(ended)
    found.extend(tally.open.values())
    found.sort(key=lambda one: (one.since, one.instance))
    return Members(
        service=name,
        since=rfc3339(tally.since),
        until=rfc3339(tally.at),
        gone=tally.gone,
        **{field: round(getattr(tally, field), 1) for field in TIMES},
        differences={what: _count(what, tally) for what in WORDS},
        examples=[_difference(one, tally.at) for one in found],
    )


def _count(what: str, tally: Tally) -> dict[str, Any]:
    from scaler.tools.shadow.notes import What  # noqa: PLC0415

    kind = What(what)
    lasting = []
    for one in tally.open.values():
        if one.what is kind:
            lasting.append(tally.at - one.since)
    return {
        "count": tally.counts.get(kind, 0) + len(lasting),
        "seconds": round(tally.seconds.get(kind, 0.0) + sum(lasting), 1),
    }


def _difference(one: Difference, at: float) -> dict[str, Any]:
    from scaler.timestamps import rfc3339  # noqa: PLC0415

    return {
        "what": str(one.what),
        "instance": one.instance,
        "since": rfc3339(one.since),
        "until": rfc3339(one.until) if one.until else "",
        "seconds": round((one.until or at) - one.since, 1),
        "ran": one.runs,
        "wanted": one.target,
        "why": one.why,
    }


def _added(services: Sequence[dict[str, Any]], what: str) -> dict[str, float]:
    """The differences of one kind of all services, added up."""
    count = 0
    seconds = 0
    for service in services:
        count += service["differences"][what]["count"]
        seconds += service["differences"][what]["seconds"]
    return {"count": round(count, 1), "seconds": round(seconds, 1)}


# The text for people


def text(report: dict[str, Any]) -> Iterator[str]:
    """The report line by line."""
    services = report["services"]
    yield (
        f"Mode shadow, as of {report['as_of']}: services watched: {len(services)}; nothing was done"
        " to them."
    )
    if report["stale"]:
        yield f"This is {_age(report['stale'])} old: the shadow seems to be away."
    if report["alone"]:
        yield f"Each service was decided by itself, without regard to room: {report['alone']}."
    if not services:
        return
    yield ""
    yield from _table([report["totals"] | {"service": "all of them"}, *services])
    yield ""
    yield "AS DECIDED  what ran was what the decision wants"
    yield "SERVED      every group ran at least its minimum"
    yield (
        "COULD HAVE  it did not serve, and the room that it needs was free: the decision would have"
        " started it"
    )
    yield (
        "HELD UP     it did not serve for want of room, and nodes were where the decision would not"
        " have given them"
    )
    for what, words in WORDS.items():
        yield f"{what.upper():<11} {words}"
    for service in services:
        if service["examples"]:
            yield ""
            yield _clean(service["service"])
            yield from _examples(service["examples"])
    if report["left_out"]:
        yield f"{report['left_out']} more were noted than there was room for; they are in the sums."
    yield ""
    yield from LIMITS


def _examples(examples: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each example. What was started within a short time is counted only."""
    short = 0
    for one in examples:
        if one["what"] == "start" and one["seconds"] < SHORT:
            short += 1
        else:
            yield f"  {_line(one)}"
    if short:
        yield f"  and {short} that were started within {SHORT:g} s (-o json)"


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    kinds = [what.upper() for what in WORDS]
    head = ["WATCHED", "AS DECIDED", "SERVED", "COULD HAVE", "HELD UP", *kinds, "SERVICE"]
    lines = [head, *map(_cells, rows)]
    widths = []
    for at in range(len(head) - 1):
        widths.append(max(len(line[at]) for line in lines))
    for *cells, service in lines:
        aligned = map(str.rjust, cells, widths)
        yield "  ".join([*aligned, service])


def _cells(row: dict[str, Any]) -> list[str]:
    watched = row["watched"]
    shares = [_share(row[name], watched) for name in ("as_decided", "serving")]
    counts = [str(round(row["differences"][what]["count"])) for what in WORDS]
    name = _clean(row["service"]) + (" (gone)" if row.get("gone") else "")
    return [_age(watched), *shares, _age(row["could_serve"]), _age(row["held_up"]), *counts, name]


def _share(seconds: float, watched: float) -> str:
    return f"{100 * seconds / watched:.1f}%" if watched else "-"


def _line(one: dict[str, Any]) -> str:
    until = f"to {one['until']}" if one["until"] else "until now"
    why = _clean(one["why"])
    ran = _clean(one["ran"])
    wanted = _clean(one["wanted"])
    words = f"{_clean(one['instance'])}: {WORDS[one['what']]}: {why} (ran {ran}, wanted {wanted})"
    return f"{one['since']} {until} ({_age(one['seconds'])}) {words}"


def _age(seconds: float) -> str:
    from scaler.tools.common.console import age  # noqa: PLC0415

    return age(seconds)


def _clean(words: str) -> str:
    from scaler.tools.common.console import clean  # noqa: PLC0415

    return clean(words)
