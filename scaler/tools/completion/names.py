"""Names of services, their namespaces, jobs and nodes, for shell completion. Must not wait long;
prints no errors."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from scaler.kube.api import ELASTIC_SERVICES, NODES, PODS, KubeApi, Object, Resource
from scaler.kube.errors import KubeError
from scaler.names import RULE_LABEL
from scaler.rules.finding import printable
from scaler.rules.values import as_text, at
from scaler.tools.common.access import opened
from scaler.tools.common.usage import UnreadableError

PATIENCE = 2.0
"""Seconds; a user who completes a word waits no longer."""
MOST = 500
MOST_WORDS = 40
_NO_ANSWER = (TimeoutError, OSError, KubeError, ExceptionGroup, UnreadableError)


def services(args: argparse.Namespace) -> list[tuple[str, str]]:
    """`NAME` in the namespace of `args`, then `NAMESPACE/NAME` of all readable services, with their
    running and target counts. Empty if the cluster does not answer in time."""
    return _named(_asked(args))


def jobs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Services, then jobs and pods with our label in the namespace of `args`."""
    found = _asked(args, jobs=True)
    named = dict(_named(found))
    for one in found.jobs:
        named.setdefault(_of(one, "name"), as_text(one.get("kind")))
    return list(named.items())


def nodes(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Nodes, with what says that they take no pods."""
    found: list[tuple[str, str]] = []

    async def ask() -> None:
        async with asyncio.timeout(PATIENCE), opened(args) as access:
            for one in await _list(access.api, None, NODES):
                cordoned = at(one, "spec").get("unschedulable") is True
                found.append((_of(one, "name"), "cordoned" if cordoned else ""))

    with suppress(*_NO_ANSWER):
        asyncio.run(ask())
    return found


def namespaces(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Namespaces with services."""
    found = _asked(args)
    names = {_of(one, "namespace") for one in (*found.own, *found.every)}
    return [(name, "") for name in sorted(names)]


class _Found(NamedTuple):
    """ElasticServices of the caller's namespace, and of all; jobs and pods of the caller's."""

    own: list[Object]
    every: list[Object]
    jobs: list[Object]


def _named(found: _Found) -> list[tuple[str, str]]:
    names = [(_of(one, "name"), _runs(one)) for one in found.own]
    for one in found.every:
        names.append((f"{_of(one, 'namespace')}/{_of(one, 'name')}", _runs(one)))
    return names


def _asked(args: argparse.Namespace, *, jobs: bool = False) -> _Found:
    found = _Found([], [], [])
    with suppress(*_NO_ANSWER):
        asyncio.run(_ask(args, found, jobs))
    return found


async def _ask(args: argparse.Namespace, found: _Found, jobs: bool) -> None:
    async with asyncio.timeout(PATIENCE), opened(args) as access:
        for namespace in access.namespaces:
            found.own.extend(await _list(access.api, namespace))
        found.every.extend(await _list(access.api, None))
        if not jobs:
            return
        from scaler.workloads.kinds import JOBS  # noqa: PLC0415 - services need them not

        for namespace in access.namespaces:
            for resource in (*JOBS.values(), PODS):
                for one in await _list(access.api, namespace, resource, RULE_LABEL):
                    found.jobs.append({**one, "kind": resource.kind})


async def _list(
    api: KubeApi, namespace: str | None, resource: Resource = ELASTIC_SERVICES, labels: str = ""
) -> Iterable[Object]:
    with suppress(KubeError):  # it may be forbidden, or not installed
        return (await api.list(resource, namespace, limit=MOST, label_selector=labels)).items
    return []


def _of(found: Object, field: str) -> str:
    return as_text(at(found, "metadata").get(field))


def _runs(found: Object) -> str:
    status = at(found, "status")
    runs = as_text(status.get("running")) or "-"
    reason = as_text(status.get("reason"))
    return printable(f"{runs} of {as_text(status.get('target')) or '-'}, {reason}"[:MOST_WORDS])
