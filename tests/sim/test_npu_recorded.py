"""The answers of MindCluster's plugin to generated worlds, as they were recorded, and those of the
stand-in (tests/control_plane/test_npu_plugin.py records them)."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests import npu_worlds
from tests.npu_worlds import NpuWorld, Recorded

ANSWERS = Path(__file__).with_name("npu_answers.json")
RECORDED = msgspec.json.decode(ANSWERS.read_bytes(), type=dict[str, list[Recorded]])
WORLDS = [world for world in npu_worlds.worlds(len(RECORDED)) if world.name in RECORDED]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_the_stand_in_answers_as_the_real_plugin_did(world: NpuWorld) -> None:
    course = npu_worlds.Course(world)
    for step, recorded in zip(world.steps, RECORDED[world.name], strict=True):
        before = course.with_step(step)
        if recorded.answer is not None:
            answer = npu_worlds.stand_in_answers(before, step, course.memory)
            assert answer.as_far_as(recorded.answer) == recorded.answer
        course.adopt(step, recorded)


def test_at_least_fifty_worlds_of_a2_and_a3_are_recorded() -> None:
    kinds = [world.name.partition("-")[0] for world in WORLDS]
    assert len(WORLDS) >= 50
    assert min(kinds.count("a2"), kinds.count("a3")) >= 25
    refused = sum("reasons" in json.dumps(one) for one in msgspec.to_builtins(RECORDED).values())
    assert refused
