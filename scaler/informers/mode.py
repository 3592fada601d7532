"""Who makes the pods of AscendJobs: looked at before every pass, because an Ascend Operator may come or go.

There is no lock between the two, so the scaler must not make pods beside an operator. What it then does depends on the
setting: `gates` and `auto` release what the operator makes, `create` does nothing at all until the operator is gone.
"""

from __future__ import annotations

from enum import StrEnum

import structlog

from scaler.informers.cache import Cache
from scaler.settings import Mode

_log = structlog.get_logger("mode")


class ModeInForce(StrEnum):
    """What the scaler does about AscendJobs now."""

    MAKES = "makes pods"
    RELEASES = "releases pods"
    STANDS_BACK = "stands back"


def in_force(mode: Mode, operator: str) -> ModeInForce:
    """What this setting comes to beside this operator; "" for none."""
    if mode is Mode.GATES:
        return ModeInForce.RELEASES
    if not operator:
        return ModeInForce.MAKES
    return ModeInForce.RELEASES if mode is Mode.AUTO else ModeInForce.STANDS_BACK


class CurrentMode:
    """Called before every pass. In mode auto, once an operator was seen the way back is an explicit takeover."""

    def __init__(self, cache: Cache, mode: Mode) -> None:
        self._cache = cache
        self._mode = mode
        self._operator = ""
        self._acting: ModeInForce | None = None

    @property
    def makes_pods(self) -> bool:
        return self() is ModeInForce.MAKES

    def __call__(self) -> ModeInForce:
        """Logs every change of mind, and tells the cache."""
        operator = self._cache.ascend_operator()
        if operator or self._mode is not Mode.AUTO:
            self._operator = operator
        acting = in_force(self._mode, self._operator)
        if acting is not self._acting:
            self._acting = acting
            self._cache.set_maker(makes_pods=acting is ModeInForce.MAKES)
            log = _log.warning if acting is ModeInForce.STANDS_BACK else _log.info
            log("mode changed", acting=acting.value, why=self._why(acting))
        return acting

    def _why(self, acting: ModeInForce) -> str:
        if acting is ModeInForce.MAKES:
            return "no Ascend Operator with replicas is here"
        if acting is ModeInForce.STANDS_BACK:
            return (
                f"Ascend Operator {self._operator} makes the pods here, and mode create would make them too; "
                "scale the operator to 0, or use mode gates or auto"
            )
        who = f"Ascend Operator {self._operator} makes the pods here" if self._operator else "mode gates"
        return (
            f"{who}; the scaler takes its gate off them (to make pods instead: scale the operator to 0, --mode create)"
        )
