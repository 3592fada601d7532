"""What the settings come to in this cluster: who makes the pods of AscendJobs, and whether each
service decides alone. An Ascend Operator and the right to read nodes may come and go.

There is no lock between an operator and the scaler, so the scaler must not make pods beside one.
What it then does depends on the setting: `gates` and `auto` release what the operator makes,
`create` does nothing at all until the operator is gone."""

from __future__ import annotations

from enum import StrEnum

import structlog

from scaler.informers.cache import Cache
from scaler.informers.informer import Freshness
from scaler.settings import Mode, Settings

_log = structlog.get_logger("mode")


class ModeInForce(StrEnum):
    MAKES = "makes pods"
    RELEASES = "releases pods"
    STANDS_BACK = "stands back"
    WATCHES = "only notes what it would do"


def in_force(mode: Mode, operator: str) -> ModeInForce:
    """What this setting comes to beside this operator; "" for none."""
    if mode is Mode.GATES:
        return ModeInForce.RELEASES
    if mode is Mode.SHADOW:
        return ModeInForce.WATCHES
    if not operator:
        return ModeInForce.MAKES
    return ModeInForce.RELEASES if mode is Mode.AUTO else ModeInForce.STANDS_BACK


class CurrentMode:
    """Looks anew at each call. In mode auto, once an operator was seen the way back is an explicit
    takeover."""

    def __init__(self, cache: Cache, mode: Mode) -> None:
        self._cache = cache
        self._mode = mode
        self._operator = ""
        self._acting: ModeInForce | None = None

    def __call__(self) -> ModeInForce:
        """The mode now. A change is logged, and the cache follows."""
        operator = self._cache.ascend_operator()
        if operator or self._mode is not Mode.AUTO:
            self._operator = operator
        acting = in_force(self._mode, self._operator)
        if acting is not self._acting:
            self._acting = acting
            watches = acting is ModeInForce.WATCHES
            self._cache.set_maker(
                makes_pods=watches or acting is ModeInForce.MAKES, watches=watches
            )
            log = _log.warning if acting is ModeInForce.STANDS_BACK else _log.info
            log("mode changed", acting=acting.value, why=self._why(acting))
        return acting

    def _why(self, acting: ModeInForce) -> str:
        here = f"Ascend Operator {self._operator} makes the pods here"
        return {
            ModeInForce.WATCHES: "mode shadow: it decides as if it made the pods, and does nothing",
            ModeInForce.MAKES: "no Ascend Operator with replicas is here",
            ModeInForce.STANDS_BACK: (
                f"{here}, and mode create would make them too; "
                "scale the operator to 0, or use mode gates or auto"
            ),
            ModeInForce.RELEASES: (
                f"{here if self._operator else 'mode gates'}; the scaler takes its gate off them "
                "(to make pods instead: scale the operator to 0, --mode create)"
            ),
        }[acting]


class Alone:
    """Why each service decides alone: because the nodes cannot be read, or because the settings
    have it so."""

    def __init__(self, cache: Cache, freshness: Freshness, settings: Settings) -> None:
        self._cache = cache
        self._freshness = freshness
        self._set = "" if settings.arbitration else "setting arbitration is off"
        if settings.namespaces and not self._set:
            self._set = (
                "setting namespaces: what pods of other namespaces take of the nodes is not seen"
            )
        self.why = ""
        """As of the last check; "" while services are weighed against each other."""

    def check(self) -> bool:
        """Follow whether nodes can be read; gives whether services decide otherwise from now on."""
        unread = self._freshness.no_nodes()
        if bool(unread) == self._cache.sees_nodes:
            self._cache.set_sees_nodes(sees_nodes=not unread)
            words = (
                "nodes not seen: pods count as being on nodes that are Ready"
                if unread
                else "nodes seen again"
            )
            _log.warning(words, why=self._freshness.nodes.problem)
        before = self.why
        self.why = self._set or unread
        if self.why != before:
            again = "services are weighed against each other again"
            _log.warning(
                "no arbitration: each service decides alone" if self.why else again, why=self.why
            )
        return self.why != before
