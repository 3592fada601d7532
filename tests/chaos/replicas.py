"""Replicas of the controller and their lives: each is the real `run_controller`, and each may end at any moment.

A process that ends by itself is a finding, unless it lost its leadership; either way it is started again, as
Kubernetes would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from scaler.clock import Clock
from scaler.controller import Observer
from scaler.decide.invariants import violations
from scaler.decide.world import Decision, Evict, Plan, World
from scaler.election import LeadershipLost
from scaler.settings import Mode
from scaler.sim.stories.play import real_controller
from tests.chaos.client import Life, settled
from tests.chaos.schedule import Schedule
from tests.chaos.view import wrong
from tests.chaos.witness import Witness

EARLIER = "-earlier"
"""How the name of a life ends that is of the release before."""
RESTART = 3.0
"""Seconds until Kubernetes starts a process again that ended by itself."""

TERMINATION = 10.0
"""Seconds that Kubernetes leaves a process to end after SIGTERM."""


class Replica:
    """One pod of the controller's Deployment."""

    def __init__(
        self, slot: int, born: Callable[[str], Life], clock: Clock, witness: Witness, made: Schedule, mode: Mode
    ) -> None:  # fmt: skip
        self.life: Life | None = None
        self.ahead = 0.0
        """Seconds by which the clock of its machine is; a process reads it when it starts."""
        self._clock = clock
        self._slot = slot
        self._born = born
        self._witness = witness
        self._election = made.election
        self._seed = made.seed
        self._mode = mode
        self.earlier = made.earlier
        """Whether its next life is of the release before."""
        self._number = 0
        self._task: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._lives: list[Life] = []
        self._closed = False
        self._leaving = False
        """Whether a life may still end its writes, and no Lease keeps the next one apart from it."""

    def start(self) -> None:
        """A new life."""
        if self._closed or self._leaving or self._task is not None:
            return
        self._number += 1
        name = f"scaler-{self._slot}.{self._number}{EARLIER if self.earlier else ''}"
        life = self.life = self._born(name)
        self._lives.append(life)
        self._witness.note(f"{name} starts")
        observer = self._observer(name)
        loop_time = asyncio.get_running_loop().time()
        clock = life.gate.clock = Clock(self._clock.now() - loop_time + self.ahead)
        seed = self._seed + self._number
        controller = real_controller(seed, leader_election=self._election, identity=name, mode=self._mode)
        self._task = asyncio.create_task(controller(life, clock, observer))
        self._tasks.append(self._task)
        self._task.add_done_callback(lambda task: self._ended(task, name))

    def crash(self, pause: float) -> None:
        """The process is gone at once: nothing more is sent, nothing arrives; a new one after `pause` seconds."""
        if self._task is None or self.life is None:
            return
        self._witness.note(f"{self.life.name} crashes")
        self.life.gate.dead = True
        self._leave(pause)

    def stop(self, pause: float) -> None:
        """SIGTERM: it may finish what is under way. A new life begins `pause` seconds later, overlapping or not.

        Without a Lease nothing but time keeps two lives apart: the next one waits for TERMINATION as well, whoever
        wants it sooner.
        """
        if self._task is not None and self.life is not None:
            self._witness.note(f"{self.life.name} is stopped")
            self._leaving = not self._election
            self._leave(pause + TERMINATION if self._leaving else pause)

    def roll(self, pause: float) -> None:
        """It is stopped, and its next life is of the other release."""
        self.earlier = not self.earlier
        self.stop(pause)

    def freeze(self, seconds: float) -> None:
        """Nothing leaves the process or reaches it for a while; its clock runs on."""
        if self.life is not None:
            self.life.gate.frozen_until = asyncio.get_running_loop().time() + seconds

    async def close(self) -> None:
        """End the last life and everything that is left of earlier ones."""
        self._closed = True
        self._task = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for life in self._lives:
            await settled(life)

    def _leave(self, pause: float) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        asyncio.get_running_loop().call_later(pause, self._return)

    def _return(self) -> None:
        self._leaving = False
        self.start()

    def _ended(self, task: asyncio.Task[None], name: str) -> None:
        if task is not self._task:
            return  # crashed or stopped, as the schedule wanted
        self._task = None
        error = None if task.cancelled() else task.exception()
        causes = _leaves(error)
        self._witness.note(f"{name} ends: {'; '.join(map(repr, causes))}")
        if causes and all(isinstance(cause, LeadershipLost) for cause in causes):
            self._witness.counts["leadership lost"] += 1
        else:
            self._witness.fail(f"process: {name} ended by itself: {causes or 'it returned'}")
        asyncio.get_running_loop().call_later(RESTART, self.start)

    def _observer(self, name: str) -> Observer:
        def observe(world: World, decision: Decision) -> None:
            self._witness.counts["decision"] += 1
            known = (one for service in decision.memory.services.values() for one in service.instances.items())
            self._witness.had_turn = {uid for uid, memory in known if memory.turns or memory.turn_over}
            for found in (*violations(world, decision), *wrong(world, decision)):
                self._witness.fail(f"{name}: {found}")
            for plan in decision.plans:
                if plan.actions:
                    self._take_note(name, plan)

        return observe

    def _take_note(self, name: str, plan: Plan) -> None:
        evicted = {action.uid for action in plan.actions if isinstance(action, Evict)}
        self._witness.evicted.update(evicted, (one.name for one in plan.verdicts if one.uid in evicted))
        actions = ", ".join(f"{type(action).__name__} {action.uid[:8]}" for action in plan.actions)
        self._witness.note(f"{name} decides for {plan.key}: target {plan.target}: {actions}")


def _leaves(error: BaseException | None) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [] if error is None else [error]
