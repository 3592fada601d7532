"""The output of `scaler status`: the chosen services, once or live. Must not write to the
cluster."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from scaler.kube.api import ELASTIC_SERVICES, EVENTS
from scaler.tools.common.access import Access
from scaler.tools.common.console import console, show, text
from scaler.tools.common.detail import ServiceDetail, detail_of, urgency
from scaler.tools.common.leader import Leaders, leaders
from scaler.tools.common.notes import absent_scaler, gap_words
from scaler.tools.common.output import written
from scaler.tools.common.view import NOTHING_TO_SEE, Answer, Cluster, ServiceView, ask, reach
from scaler.tools.status.tables import Style, label, overview, tree

TICK = 1.0
"""Seconds until ages are printed again although nothing has changed."""
CALM = 0.2
"""Seconds in which changes are collected and shown together."""
LEADERS_EVERY = 10.0
NARROW = 110
"""Columns: on a narrower terminal, text beside a table would be a few letters wide."""
WIDE = 2000
"""Columns: more than a line of a wide table has."""
_INSTALL = "kubectl apply -f manifests/base/elasticservices.yaml"


class Board:
    """One cluster, and the part of it that `args` select. `answer`: the answer about
    ElasticServices."""

    def __init__(
        self,
        access: Access,
        args: argparse.Namespace,
        cluster: Cluster,
        answer: Answer,
        known: Leaders,
    ) -> None:
        self.args = args
        self.cluster = cluster
        self.namespaces = access.namespaces
        self.leaders = known
        self._api = access.api
        self._answer = answer

    async def look_for_leaders(self) -> None:
        self.leaders = await leaders(self._api)

    @property
    def now(self) -> float:
        return self.cluster.clock.server()

    def views(self) -> list[ServiceView]:
        """The selected services, the worst first."""
        found = []
        for view in self.cluster.views():
            if view.key.namespace in (self.namespaces or [view.key.namespace]):
                found.append(view)
        return sorted(chosen(found, self.args.service), key=urgency)

    def details(self, views: Iterable[ServiceView]) -> list[ServiceDetail]:
        return [detail_of(self.cluster, view) for view in views]

    def notes(self, views: Sequence[ServiceView], *, aged: bool = True) -> list[str]:
        """The notes before the tables. `aged`: they say how old things are, which changes each
        second."""
        found = list(absent_scaler(self.leaders, {view.key.namespace for view in views}, self.now))
        if self._answer.why:
            install = f"; to install it: {_INSTALL}" if self._answer.missing else ""
            found.append(
                f"{self._answer.why}: what follows is decided here, from what can be read{install}"
            )
        return [*found, *gap_words(self.cluster.gaps(), self.now if aged else 0.0)]

    def style(self, screen: Console) -> Style:
        several = len(self.namespaces) != 1
        ascii_only = screen.options.ascii_only
        narrow = screen.width < NARROW
        wide = self.args.format == "wide"
        style = Style(self.now, wide=wide, namespaces=several, ascii_only=ascii_only, narrow=narrow)
        style.columns = screen.width
        return style

    @property
    def width(self) -> int:
        """Columns of a line: without a limit in wide tables."""
        return WIDE if self.args.format == "wide" and not self.args.service else 0

    def render(self, screen: Console) -> RenderableType:
        """All tables, as of now."""
        views = self.views()
        style = self.style(screen)
        parts: list[RenderableType] = [text(note, "yellow") for note in self.notes(views)]
        if parts:
            parts.append(Text())
        if not views:
            parts.append(text(self.nothing()))
        elif self.args.service:
            for detail in self.details(views):
                parts += [tree(detail, style), Text()]
            parts.pop()
        else:
            most = len(views)
            if self.args.watch and screen.is_terminal:
                most = max(1, screen.height - 2 - len(parts))
            parts.append(overview(views[:most], style))
            if len(views) > most:
                parts.append(text(f"... and {len(views) - most} more, less badly off"))
        return Group(*parts)

    @property
    def is_blind(self) -> bool:
        """Nothing that shows which services exist may be read."""
        forbidden = set()
        for gap in self.cluster.gaps():
            if gap.forbidden:
                forbidden.add(gap.resource)
        return bool(self._answer.why) and forbidden >= NOTHING_TO_SEE

    def nothing(self) -> str:
        """That there is no such service, and which services there are."""
        where = f"in namespace {self.namespaces[0]}" if self.namespaces else "in this cluster"
        if self.is_blind:
            return (
                f"which services there are {where} is not known: you may read neither"
                " ElasticServices nor jobs and pods"
            )
        if not self.args.service:
            hint = " (-A looks everywhere)" if self.namespaces else ""
            return (
                f"there are no services {where}{hint}: no job or pod names a rule by label"
                " mind-cluster/scaling-rule"
            )
        known = [label(view) for view in self.cluster.views()]
        near = difflib.get_close_matches(self.args.service, known, n=3, cutoff=0.5) or known[:5]
        if near:
            hint = f"; there are {', '.join(near)}"
        elif self.namespaces:
            hint = " (-A looks everywhere)"
        else:
            hint = ""
        return f"there is no service {self.args.service!r} {where}{hint}"


def chosen(views: Sequence[ServiceView], name: str) -> list[ServiceView]:
    """Services by name: that of their ElasticService, else by jobID, rule, or both; all for ""."""
    return _named(views, name) if name else list(views)


def _named(views: Sequence[ServiceView], name: str) -> list[ServiceView]:
    for names in (
        lambda view: (view.name,),
        lambda view: (
            view.key.job_id,
            f"{view.key.rule}/{view.key.job_id}",
            f"{view.key.rule}-{view.key.job_id}",
        ),
        lambda view: (view.key.rule,),
    ):
        found = [view for view in views if name in names(view)]
        if found:
            return found
    return []


@asynccontextmanager
async def opened_board(access: Access, args: argparse.Namespace) -> AsyncIterator[Board]:
    """Read the resources that are needed, and keep them current inside. Raises KubeError without an
    answer."""
    answer = await ask(access.api, access.namespaces)
    found = await leaders(access.api)
    async with AsyncExitStack() as stack:
        only = bool(answer.some and not args.service)
        scope = access.namespaces if answer.some else await reach(access.api, access.namespaces)
        home = found.home(access.namespaces[0] if access.namespaces else "", access.clock.server())
        cluster = Cluster(access.api, access.clock, scope, home)
        if only:
            resources = {ELASTIC_SERVICES}
        elif args.service:
            resources = set(cluster.informers)
        else:
            resources = set(cluster.informers) - {EVENTS}
        await stack.enter_async_context(cluster.watched(tuple(resources)))
        yield Board(access, args, cluster, answer, found)


async def once(board: Board) -> int:
    """Print once. 1 when there is no such service."""
    views = board.views()
    if board.args.format in ("json", "yaml"):
        sys.stdout.write(written(data_of(board, views), board.args.format))
    elif not views and (board.args.service or board.is_blind):
        sys.stderr.write(f"scaler status: {board.nothing()}\n")
    else:
        screen = console()
        show(screen, board.render(screen), board.width)
    return 1 if (board.args.service or board.is_blind) and not views else 0


def data_of(board: Board, views: Sequence[ServiceView]) -> dict[str, Any]:
    details = (
        {detail.view.key: detail for detail in board.details(views)} if board.args.service else {}
    )
    services = []
    for view in views:
        key = view.key
        detail = details.get(view.key)
        found: dict[str, Any] = {
            "namespace": key.namespace,
            "name": view.name,
            "rule": key.rule,
            "jobID": key.job_id,
        }
        found |= {"replicas": view.replicas, "status": view.status}
        if detail is not None:
            found |= {
                "instances": detail.instances,
                "events": [_event(event) for event in detail.events],
            }
        services.append(found)
    return {"services": services, "notes": board.notes(views)}


def _event(event: Any) -> dict[str, Any]:
    names = ("kind", "about", "type", "reason", "message", "count", "first", "last", "source")
    return {name: getattr(event, name) for name in names}


async def live(board: Board) -> int:
    """Show every change until Ctrl-C."""
    screen = console()
    if not screen.is_terminal:
        return await _follow(board, screen)
    try:
        with Live(board.render(screen), console=screen, screen=True, auto_refresh=False) as display:
            async for _ in _changes(board):
                display.update(board.render(screen), refresh=True)
    finally:
        show(screen, board.render(screen))  # the last view stays
    return 0


async def _follow(board: Board, screen: Console) -> int:
    """One table after the other, without a terminal: whenever any content changes."""
    before: Any = None
    async for _ in _changes(board):
        views = board.views()
        now = (views, board.notes(views, aged=False))
        if before != now:
            before = now
            show(screen, Group(board.render(screen), Text()), board.width)
            sys.stdout.flush()
    return 0


async def _changes(board: Board) -> AsyncIterator[None]:
    """At once, after each change, and whenever ages have to be printed again."""
    loop = asyncio.get_running_loop()
    seen = -1
    looked = loop.time()
    while True:
        yield
        if await board.cluster.changed(seen, TICK):
            await asyncio.sleep(CALM)
        seen = board.cluster.version
        if loop.time() - looked > LEADERS_EVERY:
            looked = loop.time()
            await board.look_for_leaders()
