"""Health in virtual time: who has to give signs of life, and since when not."""

from __future__ import annotations

import asyncio

from scaler.serve.health import HealthState
from scaler.sim.loop import run


def test_a_loop_that_stops_is_named_after_a_while_and_forgiven_when_it_beats_again() -> None:
    async def main() -> list[list[str]]:
        health = HealthState(dict)
        health.beat("decision loop")
        await asyncio.sleep(30)
        answers = [health.stalled()]
        await asyncio.sleep(1)
        answers.append(health.stalled())
        health.beat("decision loop")
        return [*answers, health.stalled()]

    assert run(main()) == [[], ["decision loop: no sign of life for 31 s"], []]


def test_everything_waited_for_is_named() -> None:
    problems = {"webhook": "no certificate yet", "pods": "not listed yet", "nodes": ""}
    health = HealthState(lambda: problems)
    assert health.missing() == ["waiting for pods: not listed yet", "waiting for webhook: no certificate yet"]
    problems |= {"webhook": "", "pods": ""}
    assert health.missing() == []
