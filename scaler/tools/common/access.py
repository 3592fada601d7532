"""The flags of every command that reads a cluster, as in kubectl: cluster, credentials and
namespaces."""

from __future__ import annotations

import argparse
import logging
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scaler.tools.common.usage import UnreadableError

if TYPE_CHECKING:
    from scaler.clock import Clock
    from scaler.kube.api import KubeApi


_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?")


def named(text: str) -> str:
    """A possible name or label value in Kubernetes; argparse prints the error."""
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name in Kubernetes: letters, digits, - _ and ."
        )
    return text


_SHORT = frozenset({"esvc", "deploy", "sts", "lws", "po", "vcjob"})
"""Short names of kinds, as kubectl prints them before a name and a slash."""


def _is_type(word: str) -> bool:
    """Whether this is a kind of object as kubectl names it: `deployment`, `deployment.apps`,
    `deployments`, `deploy`."""
    from scaler.kube.api import ELASTIC_SERVICES, PODS  # noqa: PLC0415
    from scaler.workloads.kinds import WATCHED  # noqa: PLC0415

    name = word.partition(".")[0].lower()
    if name in _SHORT:
        return True
    resources = (*WATCHED, ELASTIC_SERVICES, PODS)
    return any(name in (one.plural, one.kind.lower()) for one in resources)


def place(text: str) -> tuple[str, str]:
    """`NAMESPACE/NAME` or `NAME` as a pair, the namespace "" if not given; argparse prints the
    error. `TYPE/NAME`, as kubectl prints it, is the name alone; `NAMESPACE/RULE/JOBID`, as logs
    name a service, has the name `RULE/JOBID`."""
    parts = text.split("/")
    has_type = len(parts) > 1 and _is_type(parts[-2])
    if has_type:
        del parts[-2]
    if len(parts) > 3 or not all(parts):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither NAME nor NAMESPACE/NAME, as in mindie/mindie-server-p0"
        )
    *namespace, name = [named(part) for part in parts]
    if len(namespace) == 2:
        return namespace[0], f"{namespace[1]}/{name}"
    return "".join(namespace), name


class Access(NamedTuple):
    """An open connection. `namespaces` are those to read, () for all."""

    api: KubeApi
    clock: Clock
    namespaces: tuple[str, ...]


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags for cluster and credentials."""
    group = parser.add_argument_group("cluster, as with kubectl")
    group.add_argument(
        "-k",
        "--kubeconfig",
        metavar="FILE",
        type=os.path.expanduser,
        help="default: $KUBECONFIG, else ~/.kube/config, else this pod",
    )
    group.add_argument(
        "--context", metavar="NAME", help="context in the kubeconfig; default: the current one"
    )
    group.add_argument(
        "--insecure-skip-tls-verify",
        action="store_true",
        help="believe whoever answers; insecure",
    )


def add_scope_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags for namespaces."""
    group = parser.add_argument_group("namespaces").add_mutually_exclusive_group()
    group.add_argument(
        "-n", "--namespace", type=named, metavar="NAME", help="default: that of the context"
    )
    group.add_argument("-A", "--all-namespaces", action="store_true", help="every namespace")
    parser.add_argument("-ns", nargs="?", action=_OfDeploy, help=argparse.SUPPRESS)


class _OfDeploy(argparse.Action):
    """An error for -ns, a flag of the one-command deployer, which would mean a namespace `s`
    here."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        parser.error(
            "-ns is of MindCluster's deployer and of `scaler deploy`; here it is -n NAMESPACE"
        )


@asynccontextmanager
async def opened(args: argparse.Namespace) -> AsyncIterator[Access]:
    """The cluster that `args` name. Raises KubeError or UnreadableError; no request is sent
    yet."""
    import structlog  # noqa: PLC0415 - --help stays fast

    from scaler.clock import Clock  # noqa: PLC0415
    from scaler.kube import client  # noqa: PLC0415
    from scaler.kube.api import Resource  # noqa: PLC0415

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.getLogger("kubernetes_asyncio").setLevel(logging.CRITICAL + 1)
    _require(args.kubeconfig)
    clock = Clock()
    kubeconfig = args.kubeconfig or _kubeconfig()

    def answered(_verb: str, _resource: Resource, took: float, date: float | None) -> None:
        if date is not None:
            clock.saw(date, took)

    async with client.connect(
        kubeconfig=kubeconfig,
        context=args.context,
        answered=answered,
        insecure=args.insecure_skip_tls_verify,
    ) as api:
        yield Access(api, clock, _namespaces(args, kubeconfig))


def _require(paths: str | None) -> None:
    """Check that one of the kubeconfigs of the command line is there."""
    if paths and not any(Path(path).is_file() for path in paths.split(os.pathsep)):
        raise UnreadableError(f"{paths}: there is no such file")


def _kubeconfig() -> str | None:
    """The path, found as by kubectl; None inside a pod without one."""
    usual = Path.home() / ".kube" / "config"
    return os.environ.get("KUBECONFIG") or (str(usual) if usual.is_file() else None)


def _namespaces(args: argparse.Namespace, kubeconfig: str | None) -> tuple[str, ...]:
    if getattr(args, "all_namespaces", False):
        return ()
    from scaler.kube.configuration import namespace_of  # noqa: PLC0415

    return (getattr(args, "namespace", None) or namespace_of(kubeconfig, args.context),)


def complaint(group: BaseExceptionGroup[BaseException]) -> str:
    """Why a cluster cannot be read, for people."""
    from scaler.kube.errors import (  # noqa: PLC0415
        NotSentError,
        UnauthorizedError,
        UnknownOutcomeError,
    )

    error = first(group)
    if isinstance(error, UnauthorizedError):
        return f"the cluster does not know who you are: {error}"
    if isinstance(error, UnknownOutcomeError):
        return f"the API server gave no answer that can be used: {error}"
    if isinstance(error, NotSentError) and "configuration" not in str(error):
        return f"the API server cannot be reached: {error}"
    return str(error)


def first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """One of the errors that ended all tasks."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
