"""Jobs that come and go: what each costs in writes of ours."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from scaler.kube.api import ASCEND_JOBS, Object
from scaler.report.newcomers import LASTING, MOST_AT_ONCE
from scaler.sim.loop import run
from tests.jobs import NAMESPACE, job, rule_config_map, rule_document
from tests.rig import Rig, rig

RULE = rule_config_map(rule_document({"group0": 1, "group1": 1}, pods=1))
STAYS = (RULE, job("p0", "group0"), job("d0", "group1"))
"""A service that stays, so that no other is alone."""
MODES = ("create", "gates")


def held(number: int) -> Object:
    """A job of a service of its own, which lacks the other half."""
    return job(f"x{number}", "group0", job_id=f"own-{number}")


def training(number: int) -> Object:
    made = job(f"train-{number}", rule=None)
    made["metadata"]["labels"] = {"ring-controller.atlas": "ascend-910", "framework": "pytorch"}
    return made


def about_those_that_go(on: Rig) -> list[str]:
    return [one for one in on.writes() if " x" in one or "own-" in one]


async def come_and_go(on: Rig, *jobs: Object) -> None:
    for one in jobs:
        on.apply(one)
        await on.settle(0.3)
        await on.cluster.delete(ASCEND_JOBS, NAMESPACE, one["metadata"]["name"])
        await on.settle(0.3)


@pytest.mark.parametrize("mode", MODES)
def test_a_job_among_many_that_come_and_go_costs_two_writes(mode: str) -> None:
    async def story() -> None:
        async with rig(*STAYS, mode=mode) as on:
            await come_and_go(on, *[held(number) for number in range(MOST_AT_ONCE)])
            before = len(about_those_that_go(on))
            await come_and_go(on, *[held(MOST_AT_ONCE + number) for number in range(10)])
            await on.settle(2 * LASTING)
            written = about_those_that_go(on)[before:]
            assert 0 < len(written) <= 2 * 10
            assert not [one for one in written if "elasticservices" in one]

    run(story())


@pytest.mark.parametrize("mode", MODES)
def test_one_that_lasts_has_its_object_all_the_same(mode: str) -> None:
    async def story() -> None:
        async with rig(*STAYS, mode=mode) as on:
            await come_and_go(on, *[held(number) for number in range(MOST_AT_ONCE)])
            on.apply(held(99))
            await on.settle(2.0)
            assert on.said(job_id="own-99") == {}
            await on.settle(LASTING)
            assert on.said(job_id="own-99")["reason"] == "MinimumIncomplete"

    run(story())


@pytest.mark.parametrize("mode", MODES)
def test_training_that_is_none_of_ours_costs_no_write_and_no_line(mode: str) -> None:
    async def story() -> None:
        async with rig(*STAYS, mode=mode) as on:
            with capture_logs() as lines:
                await come_and_go(on, *[training(number) for number in range(20)])
            assert [one for one in on.writes() if "train" in one] == []
            lines = [line for line in lines if "train" in str(line)]
            assert [line for line in lines if line["log_level"] != "debug"] == []

    run(story())
