"""`scaler ui`: a live page of the cluster on this machine. Reads with the caller's rights, changes
nothing."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import webbrowser
from typing import TYPE_CHECKING, Any

from scaler.tools.common.access import add_cluster_arguments, complaint, first, named
from scaler.tools.common.serving import end_on_signals, port, print_address

if TYPE_CHECKING:
    from scaler.tools.common.access import Access

HELP = """Show the cluster in a browser.

The page has services, the worst first; one service over time; nodes and who waits for them.

Serves a page on 127.0.0.1 and prints its address, with a token in it. Reads with the rights of your
kubeconfig and changes nothing: a rule can be edited there to see what it would do, and is applied
with kubectl. Ctrl-C ends it. From another machine: ssh -L 8001:127.0.0.1:8001 HOST, with --port
8001.

Exit code: 0 ended by you, 1 the cluster cannot be read, 2 usage, or the port is taken."""

EXIT_ENDED = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
LEADERS_EVERY = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port", type=port, default=0, metavar="N", help="on 127.0.0.1 (default: a free one)"
    )
    parser.add_argument(
        "--open", action="store_true", help="open it in the browser of this machine"
    )
    parser.add_argument(
        "--prometheus", metavar="URL", default="", help="scrapes the scaler: shows older times"
    )
    scope = parser.add_argument_group("namespaces").add_mutually_exclusive_group()
    scope.add_argument(
        "-n", "--namespace", type=named, metavar="NAME", help="default: all that you may read"
    )
    scope.add_argument("-A", "--all-namespaces", action="store_true", help="the default")
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    from scaler.kube.errors import KubeError  # noqa: PLC0415 - `scaler ui --help` stays fast

    try:
        asyncio.run(_serve(args))
    except asyncio.CancelledError:
        return EXIT_ENDED
    except (OSError, KubeError, ExceptionGroup) as error:
        group = ExceptionGroup("", [error])
        cause = first(group)
        if isinstance(cause, OSError):
            sys.stderr.write(
                f"scaler ui: port {args.port}:"
                f" {os.strerror(cause.errno) if cause.errno else cause}\n"
            )
            return EXIT_USAGE
        if not isinstance(cause, KubeError):
            raise
        sys.stderr.write(f"scaler ui: {complaint(group)}\n")
        return EXIT_FAILED
    return EXIT_ENDED


async def _serve(args: argparse.Namespace) -> None:
    from scaler.tools.common.access import opened  # noqa: PLC0415

    end_on_signals()
    async with opened(args) as access:
        await _show(access, args)


async def _show(access: Access, args: argparse.Namespace) -> None:
    from scaler.kube.client import HttpKubeApi  # noqa: PLC0415
    from scaler.tools.common.view import Cluster, ask, reach  # noqa: PLC0415
    from scaler.tools.ui import server  # noqa: PLC0415
    from scaler.tools.ui.guard import new_token  # noqa: PLC0415
    from scaler.tools.ui.prometheus import Prometheus  # noqa: PLC0415

    seen = await reach(access.api, access.namespaces)
    await ask(access.api, seen)
    known = _Leaders(access)
    cluster = Cluster(access.api, access.clock, seen, await known.look())
    where = access.api.server if isinstance(access.api, HttpKubeApi) else ""
    about: dict[str, Any] = {
        "cluster": args.context or where.partition("//")[2],
        "namespaces": [args.namespace] if args.namespace else seen,
    }
    prometheus = Prometheus(args.prometheus) if args.prometheus else None
    page = server.Page(
        cluster,
        access.api,
        about,
        only=args.namespace or "",
        extra=known.as_row,
        prometheus=prometheus,
    )
    async with server.served(page, new_token(), args.port) as address, asyncio.TaskGroup() as group:
        print_address(address)
        if args.open:
            webbrowser.open(address)
        looking = group.create_task(known.keep_looking())
        await server.keep_up(page, cluster)
        looking.cancel()


class _Leaders:
    """Whether a scaler is at work, checked from time to time."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._row: dict[str, Any] = {}

    def as_row(self) -> dict[str, Any]:
        return self._row

    async def look(self) -> str:
        """Check now; returns the namespace of the install."""
        from scaler.tools.common.leader import leaders  # noqa: PLC0415

        found = await leaders(self._access.api)
        now = self._access.clock.server()
        at_work = [one for one in found.found if one.is_at_work(now)]
        blind = ""
        for one in at_work:
            if one.blind_since:
                blind = one.blind_since
                break
        said = {
            "found": len(found.found),
            "atWork": len(at_work),
            "blind": blind,
            "unread": found.unread,
        }
        self._row = {"scaler": said}
        return found.home(next(iter(self._access.namespaces), ""), now)

    async def keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LEADERS_EVERY)
            await self.look()
