"""The mode in force, from the setting `mode` and from what is in the cluster: whether the scaler
makes the pods of AscendJobs, and whether each service decides alone.

An Ascend Operator may come and go, and so may the right to read nodes. There is no lock between an
operator and the scaler, so the scaler must not make pods beside an operator. Beside one, the
settings `gates` and `auto` release the pods that the operator makes; the setting `create` does
nothing at all until the operator is gone.

An operator that is away, because it is being upgraded, has not left. So mode auto never goes back
to making pods by itself, not after a restart either: the Lease keeps what it last resolved to.
Setting another mode is the explicit takeover."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

import structlog

from scaler.defaults import Mode
from scaler.informers.cache import Cache
from scaler.informers.changes import AloneChanged, Change, ModeChanged, NodesSeen
from scaler.informers.informer import Freshness
from scaler.names import LAST_MODE

if TYPE_CHECKING:
    from scaler.settings import Settings

AWAY = "that is away"
"""An operator that an earlier process has seen, in words."""
_log = structlog.get_logger("mode")


class ModeInForce(StrEnum):
    MAKES = "makes pods"
    RELEASES = "releases pods"
    STANDS_BACK = "stands back"
    SHADOW = "only notes what it would do"


def in_force(mode: Mode, operator: str) -> ModeInForce:
    """The mode that this setting gives beside this operator; `operator`: "" for none."""
    if mode is Mode.GATES:
        return ModeInForce.RELEASES
    if mode is Mode.SHADOW:
        return ModeInForce.SHADOW
    if not operator:
        return ModeInForce.MAKES
    return ModeInForce.RELEASES if mode is Mode.AUTO else ModeInForce.STANDS_BACK


class CurrentMode:
    """The mode in force. In mode auto, once an operator was seen only another setting, an explicit
    takeover, leads back to making pods."""

    def __init__(self, cache: Cache, mode: Mode, publish: Callable[[ModeChanged], None]) -> None:
        self._cache = cache
        self._mode = mode
        self._publish = publish
        self._operator = ""
        self._before: ModeInForce | None = None

    def begin(self, last: str) -> None:
        """Begin a term of leadership; `last`: the annotation of the Lease, "" if it has none. What
        is not understood counts as none."""
        if self._mode is not Mode.AUTO:
            return
        if last == Mode.GATES:
            self._operator = AWAY
        elif not last:
            _log.info("no last mode is kept", annotation=LAST_MODE)
        elif last != Mode.CREATE:
            _log.warning("last mode not understood", annotation=LAST_MODE, value=last[:20])

    def kept(self) -> Mapping[str, str | None]:
        """What the Lease has to keep, as annotations; None = to be removed. Nothing before the
        first decision. For any thread."""
        acting = self._before
        if acting is None or self._mode is Mode.SHADOW:
            return {}
        if self._mode is not Mode.AUTO:
            return {LAST_MODE: None}
        mode = Mode.GATES if acting is ModeInForce.RELEASES else Mode.CREATE
        return {LAST_MODE: mode.value}

    @property
    def now(self) -> ModeInForce:
        """The mode in force beside the present operator."""
        return in_force(self._mode, self._operator_that_counts())

    def follow(self) -> ModeInForce:
        """Look for the operator anew: the mode from now on. A change is published and logged."""
        self._operator = self._operator_that_counts()
        acting = in_force(self._mode, self._operator)
        if acting is not self._before:
            self._before = acting
            shadow = acting is ModeInForce.SHADOW
            self._publish(ModeChanged(shadow or acting is ModeInForce.MAKES, shadow))
            log = _log.warning if acting is ModeInForce.STANDS_BACK else _log.info
            log("mode changed", acting=acting.value, why=self._why(acting))
        return acting

    def _operator_that_counts(self) -> str:
        """The operator that is there; in mode auto also one that was there before."""
        operator = self._cache.ascend_operator()
        return self._operator if self._mode is Mode.AUTO and not operator else operator

    def _why(self, acting: ModeInForce) -> str:
        here = f"Ascend Operator {self._operator} makes the pods here"
        if self._operator == AWAY:
            here = f"an Ascend Operator {AWAY} made the pods here"
        match acting:
            case ModeInForce.SHADOW:
                return "mode shadow: it decides as if it made the pods, and does nothing"
            case ModeInForce.MAKES:
                return "no Ascend Operator with replicas is here"
            case ModeInForce.STANDS_BACK:
                return (
                    f"{here}, and mode create would make them too; "
                    "scale the operator to 0, or use mode gates or auto"
                )
            case ModeInForce.RELEASES:
                return (
                    f"{here if self._operator else 'mode gates'}; the scaler takes its gate off"
                    " them (to make pods instead: scale the operator to 0, --mode create)"
                )


class Alone:
    """Why each service decides alone: because the nodes cannot be read, or because of the
    settings."""

    def __init__(
        self, freshness: Freshness, settings: Settings, publish: Callable[[Change], None]
    ) -> None:
        self._freshness = freshness
        self._publish = publish
        self._sees_nodes = True
        self._by_settings = "" if settings.arbitration else "setting arbitration is off"
        if settings.namespaces and not self._by_settings:
            self._by_settings = (
                "setting namespaces: what pods of other namespaces take of the nodes is not seen"
            )
        self._why = ""

    def why(self) -> str:
        """Why each service decides alone, as last read; "" while services are decided together."""
        return self._why

    def follow(self) -> None:
        """Look anew whether nodes can be read. A change is published and logged."""
        unread = self._freshness.no_nodes()
        if bool(unread) == self._sees_nodes:
            self._sees_nodes = not unread
            self._publish(NodesSeen(self._sees_nodes))
            words = (
                "nodes not seen: pods count as being on nodes that are Ready"
                if unread
                else "nodes seen again"
            )
            _log.warning(words, why=self._freshness.nodes.problem)
        before = self._why
        self._why = self._by_settings or unread
        if self._why != before:
            again = "services are weighed against each other again"
            _log.warning(
                "no arbitration: each service decides alone" if self._why else again, why=self._why
            )
            self._publish(AloneChanged(self._why))
