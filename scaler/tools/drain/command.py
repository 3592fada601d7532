"""`scaler drain NODE...`: the effect of a drain of nodes. Reads, decides as the controller would,
changes nothing."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from scaler.tools.common.access import add_cluster_arguments, named
from scaler.tools.common.output import add_output, written

if TYPE_CHECKING:
    from scaler.tools.common.access import Access
    from scaler.tools.drain.evictions import Evictions
    from scaler.tools.drain.foresee import Fate, Standing

HELP = """Say what a drain of nodes would do to the services.

Ask it before `kubectl drain`.

Which instances end, how far each service falls, what starts elsewhere and where, whether a minimum
is lost, and which disruption budget refuses what. Decided by the controller's own code from the
cluster as it is; nothing is changed.

Exit code: 0 no minimum is lost, 1 one is, even if only until its instances have started elsewhere,
or the cluster cannot be read, 2 usage."""

EXIT_KEPT = 0
EXIT_LOST = 1


class Forecast(msgspec.Struct, frozen=True):
    """The whole answer. `notes`: what could not be read."""

    nodes: tuple[str, ...]
    loses_minimum: tuple[str, ...]
    evictions: Evictions
    services: tuple[Fate, ...]
    notes: tuple[str, ...] = ()


class UnknownNodeError(Exception):
    """There is no such node. The message is for people."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodes", metavar="NODE", nargs="+", type=named, help="drained together")
    add_output(parser)
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0 when no service loses its minimum, else 1."""
    found = asyncio.run(_asked(args))
    if found is None:
        return EXIT_LOST
    if args.format == "text":
        sys.stdout.write("\n".join(text(found)) + "\n")
    else:
        sys.stdout.write(written(found, args.format))
    return EXIT_LOST if found.loses_minimum else EXIT_KEPT


async def _asked(args: argparse.Namespace) -> Forecast | None:
    """None when the cluster cannot be read: then stderr says why."""
    from scaler.kube.errors import KubeError  # noqa: PLC0415 - --help stays fast
    from scaler.tools.common.access import complaint, first, opened  # noqa: PLC0415

    try:
        async with opened(args) as access:
            return await forecast(access, tuple(dict.fromkeys(args.nodes)))
    except* UnknownNodeError as group:
        sys.stderr.write(f"scaler drain: {first(group)}\n")
    except* KubeError as group:
        sys.stderr.write(f"scaler drain: {complaint(group)}\n")
    return None


async def forecast(access: Access, nodes: tuple[str, ...]) -> Forecast:
    """The effect of a drain of these nodes together. Raises KubeError and UnknownNodeError."""
    from scaler.tools.common.notes import gap_words  # noqa: PLC0415
    from scaler.tools.common.view import Cluster, ask  # noqa: PLC0415
    from scaler.tools.drain.evictions import evictions  # noqa: PLC0415
    from scaler.tools.drain.foresee import foresee  # noqa: PLC0415

    await ask(access.api, ())  # fails fast if the cluster does not answer
    going = await evictions(access.api, nodes)
    cluster = Cluster(access.api, access.clock)
    async with cluster.watched():
        await cluster.settle()
        known = {node.name for node in cluster.cache.nodes.values()}
        unknown = [] if cluster.why_alone() else [name for name in nodes if name not in known]
        fates = foresee(*cluster.decision(), set(nodes))
        notes = list(gap_words(cluster.gaps()))
        if why := cluster.why_alone():
            notes.append(f"what starts elsewhere is not known: {why}")
    if unknown:
        raise UnknownNodeError(f"there is no node {', '.join(unknown)}")
    found = []
    for fate in fates:
        if fate.loses_minimum:
            found.append(fate.service)
    lost = tuple(found)
    return Forecast(nodes, lost, going, tuple(fates), tuple(notes))


def text(found: Forecast) -> Iterator[str]:
    """The text for people: each service, refused evictions, then the answer and the command; where
    a minimum is lost, what to do before a drain instead."""
    for note in found.notes:
        yield f"note: {note}"
    going = found.evictions
    stay = f", {going.stay} of DaemonSets stay" if going.stay else ""
    yield f"{', '.join(found.nodes)}: {len(going.pods)} pods would be evicted{stay}"
    for fate in found.services:
        yield from _service(fate)
    for words in going.refused:
        yield f"refused: {words}"
    for words in going.asked:
        yield f"not known: {words}"
    for name in going.bare:
        yield f"lost: pod {name}: nothing makes it again"
    yield ""
    yield _answer(found)
    if found.loses_minimum:
        yield from _instead(found)
    else:
        yield f"  {_command(found)}"


def _service(fate: Fate) -> Iterator[str]:
    yield f"service {fate.service}: {_standing(fate.now)}"
    if fate.ends:
        yield f"  ends: {', '.join(fate.ends)}"
        yield (
            f"  then: {_standing(fate.then)}{', THE MINIMUM IS LOST' if fate.loses_minimum else ''}"
        )
    if fate.evicted:
        yield f"  evicted for a minimum: {', '.join(fate.evicted)}"
    for name, nodes in fate.starts.items():
        yield f"  starts: {name} on {', '.join(nodes)}"
    yield f"  later: {_standing(fate.later)}"
    for words in fate.held:
        yield f"    {words}"


def _standing(standing: Standing) -> str:
    from scaler.decide.explain import counts_in_words  # noqa: PLC0415 - --help stays fast

    counts = counts_in_words(standing.counts)
    if not standing.counts:
        return "no instances, no rule"
    return f"runs {counts}" if standing.serves else f"does not serve (runs {counts})"


def _answer(found: Forecast) -> str:
    if not found.loses_minimum:
        return "No service loses its minimum."
    back = [fate for fate in found.services if fate.loses_minimum and fate.later.serves]
    lost = f"Services that lose their minimum: {', '.join(found.loses_minimum)}."
    until = (
        f" Of these, {len(back)} come back when their instances have started elsewhere."
        if back
        else ""
    )
    return f"{lost}{until}"


def _instead(found: Forecast) -> Iterator[str]:
    """How to empty the nodes without the loss."""
    if len(found.nodes) > 1:
        yield "Look at the nodes one by one; two that are harmless alone may not be so together."
    yield (
        "Before you drain: let one more instance of the group run on another node, then look again."
    )
    yield f"  kubectl cordon {' '.join(found.nodes)}"
    yield f"  scaler drain {' '.join(found.nodes)}"


def _command(found: Forecast) -> str:
    going = found.evictions
    flags: Sequence[str] = [
        *(["--ignore-daemonsets"] if going.stay else []),
        *(["--delete-emptydir-data"] if going.local else []),
        *(["--force"] if going.bare else []),
    ]
    return " ".join(["kubectl drain", *found.nodes, *flags])
