"""Names of services and of their namespaces, for shell completion. Must not wait long; prints no
errors."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable
from contextlib import suppress

from scaler.kube.api import ELASTIC_SERVICES, KubeApi, Object
from scaler.kube.errors import KubeError
from scaler.rules.finding import printable
from scaler.rules.values import as_text, at
from scaler.tools.common.access import opened

PATIENCE = 2.0
"""Seconds; a user who completes a word waits no longer."""
MOST = 500
MOST_WORDS = 40


def services(args: argparse.Namespace) -> list[tuple[str, str]]:
    """`NAME` in the namespace of `args`, then `NAMESPACE/NAME` of all readable services, with their
    running and target counts. Empty if the cluster does not answer in time."""
    own, every = _asked(args)
    named = [(_of(one, "name"), _runs(one)) for one in own]
    return named + [(f"{_of(one, 'namespace')}/{_of(one, 'name')}", _runs(one)) for one in every]


def namespaces(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Namespaces with services."""
    own, every = _asked(args)
    names = {_of(one, "namespace") for one in (*own, *every)}
    return [(name, "") for name in sorted(names)]


def _asked(args: argparse.Namespace) -> tuple[list[Object], list[Object]]:
    """ElasticServices of the caller's namespace, and of all."""
    found: tuple[list[Object], list[Object]] = [], []
    with suppress(TimeoutError, OSError, KubeError, ExceptionGroup):
        asyncio.run(_ask(args, found))
    return found


async def _ask(args: argparse.Namespace, found: tuple[list[Object], list[Object]]) -> None:
    async with asyncio.timeout(PATIENCE), opened(args) as access:
        for namespace in access.namespaces:
            found[0].extend(await _list(access.api, namespace))
        found[1].extend(await _list(access.api, None))


async def _list(api: KubeApi, namespace: str | None) -> Iterable[Object]:
    with suppress(KubeError):  # one of the two may be forbidden
        return (await api.list(ELASTIC_SERVICES, namespace, limit=MOST)).items
    return []


def _of(found: Object, field: str) -> str:
    return as_text(at(found, "metadata").get(field))


def _runs(found: Object) -> str:
    status = at(found, "status")
    runs = as_text(status.get("running")) or "-"
    reason = as_text(status.get("reason"))
    return printable(f"{runs} of {as_text(status.get('target')) or '-'}, {reason}"[:MOST_WORDS])
