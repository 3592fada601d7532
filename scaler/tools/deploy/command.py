"""`scaler deploy`: applies a service from a short file, shows its state, deletes it."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from scaler.tools.common.access import add_cluster_arguments, named, place
from scaler.tools.common.output import add_output, written
from scaler.tools.common.usage import add_renamed, content_of, wrong

if TYPE_CHECKING:
    from scaler.tools.common.access import Access
    from scaler.tools.common.short_file.service import Service

HELP = """Deploy a service from a short file.

The file is that of MindCluster's one-command deployer for OME and AIBrix, unchanged, or with a list
of ratios that makes the service elastic (docs/howto/deploy-a-service.md). Everything is done with
the rights of your kubeconfig.

Exit code: 0 done (apply: and available; status: available), 1 not, or refused, or the cluster
cannot be read, 2 usage."""

EXIT_WELL = 0
EXIT_NOT_WELL = 1
FRAMEWORK = "SERVING_FRAMEWORK"
"""Environment variable: the platform, as in MindCluster's one-command deployer."""
_DURATION = re.compile(r"(\d{1,6})(s|m|h|)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}

_APPLY = """\
Make the service of a file, or change it, and wait until it is available.

Everything is checked by the API server before the first write. When a first apply fails midway,
what it made is deleted again; when a change fails, what it changed is put back. What an earlier
apply made and FILE has no more is deleted.

Exit code: 0 available (--no-wait: applied; --dry-run: it could be), 1 not, 2 usage."""
_STATUS = """Show what was made for a service, and whether it is available.

Exit code: 0 available, 1 not, or there is no such service, or the cluster cannot be read,
2 usage."""
_DELETE = """Delete all that `scaler deploy apply` made for a service, and nothing else.

The namespace stays, because what others have put there is not ours to delete.

Exit code: 0 all of it is gone (--no-wait: is being deleted), 1 something is left, or there is no
such service, 2 usage."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="apply|status|delete")
    add_renamed(parser, "-c", "-f", "--config", now="scaler deploy apply -c FILE")
    apply = _action(actions, "apply", _APPLY)
    apply.add_argument(
        "-c",
        "-f",
        "--config",
        metavar="FILE",
        required=True,
        help="the service, `-` for standard input",
    )
    apply.add_argument(
        "--dry-run",
        nargs="?",
        const="server",
        choices=("server", "client"),
        help="say what would be done, with every object or change; =client prints the objects"
        " without any cluster",
    )
    apply.add_argument(
        "--force-conflicts",
        action="store_true",
        help="take fields that others own, as kubectl does",
    )
    _waiting(apply, "10m", "available")
    add_cluster_arguments(apply)
    status = _action(actions, "status", _STATUS)
    _which(status)
    add_output(status)
    add_cluster_arguments(status)
    delete = _action(actions, "delete", _DELETE)
    _which(delete)
    _waiting(delete, "2m", "gone")
    add_cluster_arguments(delete)


def _action(actions: Any, name: str, words: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = actions.add_parser(
        name, help=words.split("\n", 1)[0], description=words
    )
    return made


def _which(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        type=place,
        nargs="?",
        metavar="NAME",
        help="its app_name; NAMESPACE/NAME names the namespace too",
    )
    parser.add_argument(
        "-n",
        "--namespace",
        type=named,
        metavar="NAMESPACE",
        help="default: that of the context",
    )
    # As in MindCluster's one-command deployer: -n NAME -ns NAMESPACE.
    parser.add_argument("-ns", dest="old_namespace", type=named, help=argparse.SUPPRESS)
    parser.add_argument("--app-name", dest="old_name", type=named, help=argparse.SUPPRESS)


def _chosen(args: argparse.Namespace) -> str:
    """What is wrong with the names on the command line, "" if nothing is; afterwards `args` have a
    name, and a namespace where one was given."""
    namespace, name = args.name or ("", args.old_name or "")
    if args.old_namespace and not name:  # the deployer's own form
        name = args.namespace
        args.namespace = None
    if not name:
        return f"name the service: scaler deploy {args.action} NAME -n NAMESPACE"
    args.name = name
    args.namespace = namespace or args.old_namespace or args.namespace
    return ""


def _waiting(parser: argparse.ArgumentParser, default: str, what: str) -> None:
    parser.add_argument("--no-wait", action="store_true", help=f"do not wait until it is {what}")
    words = f"wait so long, as in 90s, 10m, 1h; default: {default}"
    parser.add_argument("--timeout", type=seconds, default=default, metavar="TIME", help=words)


def seconds(text: str) -> float:
    """A duration; argparse prints the error."""
    found = _DURATION.fullmatch(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time, as in 90s, 10m, 1h")
    return float(found[1]) * _SECONDS[found[2]]


def run(args: argparse.Namespace) -> int:
    """Run the command, with all errors on stderr."""
    if args.action != "apply":
        missing = _chosen(args)
        if missing:
            return wrong("deploy", missing)
        return asyncio.run(_on_cluster(args, _status if args.action == "status" else _delete))
    service = _read(args.config)
    if service is None:
        return EXIT_NOT_WELL
    if args.dry_run == "client":
        sys.stdout.write(_manifests(service))
        return EXIT_WELL
    args.namespace = service.namespace
    return asyncio.run(_on_cluster(args, lambda access, args: _apply(access, args, service)))


def _manifests(service: Service) -> str:
    """The objects as they are applied, for kubectl, a repository or a check."""
    from scaler.tools.deploy.objects import document, labelled  # noqa: PLC0415

    made = []
    for obj in service.objects:
        made.append(document(labelled(obj, service.name, service.namespace)))
    return "---\n".join(made)


def _read(path: str) -> Service | None:
    """The service of a file; None when the file is invalid: the errors are printed."""
    # --help stays fast.
    from scaler.tools.common.short_file.service import ConfigError, read_service  # noqa: PLC0415

    text = content_of(path)
    try:
        return read_service(text, framework=os.environ.get(FRAMEWORK) or None)
    except ConfigError as error:
        _complain(*(f"{path}:{line}" for line in str(error).splitlines()))
    return None


async def _on_cluster(
    args: argparse.Namespace, act: Callable[[Access, argparse.Namespace], Coroutine[Any, Any, int]]
) -> int:
    from scaler.tools.common.access import opened  # noqa: PLC0415

    async def acted() -> int:
        async with opened(args) as access:
            args.namespace = args.namespace or access.namespaces[0]
            return await act(access, args)

    return await exit_code_of(acted())


async def exit_code_of(doing: Coroutine[Any, Any, int]) -> int:
    """The exit code; refusals of the cluster and of this command are printed."""
    from scaler.kube.errors import KubeError  # noqa: PLC0415
    from scaler.tools.common.access import complaint  # noqa: PLC0415
    from scaler.tools.deploy.refusals import DeployError  # noqa: PLC0415

    try:
        return await doing
    except* DeployError as group:
        for error in group.exceptions:
            _complain(*getattr(error, "lines", (str(error),)))
    except* KubeError as group:
        _complain(complaint(group))
    return EXIT_NOT_WELL


async def _apply(access: Access, args: argparse.Namespace, service: Service) -> int:
    from scaler.tools.deploy import rollout, shown  # noqa: PLC0415
    from scaler.tools.deploy.progress import until_available  # noqa: PLC0415

    mode = rollout.ApplyMode(force=args.force_conflicts, dry_run=bool(args.dry_run))
    made = await rollout.prepared(access.api, service, mode, _tell)
    if args.dry_run:
        for line in shown.planned(
            made.rollout, namespace="" if made.namespace is None else service.namespace
        ):
            _tell(line)
        return EXIT_WELL
    for change in made.rollout.changes:
        if change.before is not None and change.is_needed:
            _tell(f"{change}: changes")
            for line in shown.difference(change):
                _tell(line)
    await rollout.carry_out(access.api, made, service.namespace, _tell, mode)
    for line in shown.kept_by_pods(made.rollout):
        _tell(line)
    if args.no_wait:
        return EXIT_WELL
    found = await until_available(access, service.name, service.namespace, _tell, args.timeout)
    if found.available:
        _tell(f"{service.name} in namespace {service.namespace}: available")
        return EXIT_WELL
    more = f"scaler deploy status {service.namespace}/{service.name}"
    _complain(
        f"{service.name} is not available after {args.timeout:.0f} s. It stays and may become"
        f" available later: {more}",
        *found.waits(),
    )
    return EXIT_NOT_WELL


async def _status(access: Access, args: argparse.Namespace) -> int:
    from scaler.tools.deploy import shown  # noqa: PLC0415
    from scaler.tools.deploy.standing import standing  # noqa: PLC0415

    found, _ = await standing(access, args.name, args.namespace)
    if not found.parts:
        return await _nothing(access, args, found.notes)
    if args.format == "text":
        sys.stdout.write("".join(f"{line}\n" for line in shown.status_lines(found)))
    else:
        sys.stdout.write(written(found, args.format))
    return EXIT_WELL if found.available else EXIT_NOT_WELL


async def _nothing(access: Access, args: argparse.Namespace, notes: Iterable[str]) -> int:
    from scaler.tools.deploy.inventory import elsewhere  # noqa: PLC0415

    words = (
        f"there is nothing in namespace {args.namespace} that `scaler deploy apply` made for"
        f" {args.name}"
    )
    others = await elsewhere(access.api, args.name)
    _complain(f"{words}; there is in {', '.join(others)} (-n)" if others else words, *notes)
    return EXIT_NOT_WELL


async def _delete(access: Access, args: argparse.Namespace) -> int:
    from scaler.tools.deploy.inventory import inventory  # noqa: PLC0415
    from scaler.tools.deploy.removal import (  # noqa: PLC0415
        kept_namespace,
        remove,
        until_gone,
        why_left,
    )

    known = await inventory(access.api, args.name, args.namespace)
    if not known.found:
        return await _nothing(access, args, known.notes())
    refused = await remove(access.api, known.found, args.namespace)
    sent = [one for one in known.found if str(one) not in refused]
    left = [] if args.no_wait else await until_gone(access.api, sent, args.namespace, args.timeout)
    there = {str(one) for one in left}
    for one in sent:
        if str(one) not in there:
            _tell(f"{one}: {'is being deleted' if args.no_wait else 'deleted'}")
    notes = [*known.notes(), *await kept_namespace(access.api, args.namespace)]
    for note in notes:
        _tell(note)
    _complain(*(f"{one} is left: {why}" for one, why in refused.items()))
    _complain(*(f"{one} is left after {args.timeout:.0f} s: {why_left(one)}" for one in left))
    return EXIT_NOT_WELL if refused or left else EXIT_WELL


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _complain(*lines: str) -> None:
    sys.stderr.write("".join(f"scaler deploy: {line}\n" for line in lines))
