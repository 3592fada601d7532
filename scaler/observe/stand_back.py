"""Whether somebody else creates the pods: beside an Ascend Operator the scaler must not.

There is no lock between the two, so the only safe thing is to look for its Deployment before every pass.
"""

from __future__ import annotations

import structlog

from scaler.observe.cache import Cache

_log = structlog.get_logger("mode")


class StandBack:
    """Called before every pass. In mode auto, once an operator was seen the way back is an explicit takeover."""

    def __init__(self, cache: Cache, *, for_good: bool) -> None:
        """`for_good`: mode auto. Otherwise (mode create) the scaler goes on as soon as the operator is gone."""
        self._cache = cache
        self._for_good = for_good
        self._operator = ""

    @property
    def reason(self) -> str:
        """Words for readiness and logs, "" while the scaler acts."""
        if not self._operator:
            return ""
        mend = "restart the scaler with --mode create" if self._for_good else "nothing else is needed"
        return (
            f"Ascend Operator {self._operator} creates the pods here, so the scaler creates nothing; "
            f"to change that, scale the operator to 0, then {mend}"
        )

    def __call__(self) -> bool:
        """Whether to do nothing in this pass. Logs every change of mind."""
        now = self._cache.ascend_operator()
        if now != self._operator and not (self._for_good and self._operator):
            self._operator = now
            if now:
                _log.warning("standing back", why=self.reason)
            else:
                _log.info("acting again", why="no Ascend Operator with replicas is left")
        return bool(self._operator)
