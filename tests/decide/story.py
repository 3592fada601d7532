"""Decisions one after the other in virtual seconds: the test changes the world by hand and sees what is done."""

from __future__ import annotations

from typing import Any

from scaler.decide.decide import decide
from scaler.decide.memory import Memory, ServiceMemory
from scaler.decide.world import Decision, Service
from tests.builders import NOW, doings, reasons, world


class Story:
    """Nothing happens by itself: each step says what the cluster looks like then."""

    def __init__(self, nodes: str, **settings: Any) -> None:
        self.nodes, self.settings = nodes, settings
        self.memory = Memory()
        self.last_bind = 0.0
        self.made: Decision | None = None

    def at(self, time: float, *services: Service, nodes: str = "", bound: bool = False) -> dict[str, str]:
        """What is done at this time, seconds after the start; `bound`: any pod was bound just before."""
        if bound:
            self.last_bind = NOW + time
        seen = world(
            *services,
            nodes=nodes or self.nodes,
            now=NOW + time,
            memory=self.memory,
            last_bind=self.last_bind,
            **self.settings,
        )
        self.made = decide(seen)
        self.memory = self.made.memory
        return doings(self.made)

    def remembered(self, service: Service) -> ServiceMemory:
        return self.memory.services.get(str(service.key), ServiceMemory())

    @property
    def reasons(self) -> dict[str, str]:
        assert self.made is not None
        return {uid: str(reason) for uid, reason in reasons(self.made).items()}

    @property
    def recheck_in(self) -> float:
        """Seconds from the start until the decision has to be made again."""
        assert self.made is not None
        return self.made.recheck_at - NOW
