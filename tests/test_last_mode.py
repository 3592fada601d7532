"""What mode `auto` last resolved to is kept on the Lease, so that no restart takes the pods over
from an Ascend Operator that is away: that takes another setting (section 1, mode)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from scaler.kube.api import DEPLOYMENTS, LEASES, PatchType
from scaler.names import LAST_MODE
from scaler.sim.loop import run
from tests.jobs import node
from tests.rig import Rig, controller
from tests.test_controller import OPERATOR, SERVICE

OPERATORS = ("mindx-dl", "ascend-operator-manager")
NEVER_KEPT = "no last mode is kept"


class Stage(Rig):
    def __init__(self) -> None:
        super().__init__()
        self.apply(node("npu-0"), *SERVICE)

    async def scale_operator(self, replicas: int) -> None:
        patch = {"spec": {"replicas": replicas}}
        await self.cluster.patch(DEPLOYMENTS, *OPERATORS, patch, patch_type=PatchType.MERGE)

    async def write_on_lease(self, value: str | None) -> None:
        (lease,) = self.cluster.peek(LEASES)
        where = (lease["metadata"]["namespace"], lease["metadata"]["name"])
        patch = {"metadata": {"annotations": {LAST_MODE: value}}}
        await self.cluster.patch(LEASES, *where, patch, patch_type=PatchType.MERGE)

    @property
    def kept(self) -> str | None:
        (lease,) = self.cluster.peek(LEASES)
        value: str | None = lease["metadata"].get("annotations", {}).get(LAST_MODE)
        return value


@asynccontextmanager
async def led(on: Stage, **settings: Any) -> AsyncIterator[None]:
    """One life of the scaler, which leads by a Lease."""
    async with controller(on, leader_election=True, **settings):
        await asyncio.sleep(60)
        yield


async def beside_an_operator_that_leaves(on: Stage) -> None:
    on.apply(OPERATOR)
    async with led(on, mode="auto"):
        assert on.kept == "gates"
    await on.scale_operator(0)


def test_a_restart_while_the_operator_is_away_makes_no_pods() -> None:
    async def story() -> None:
        on = Stage()
        await beside_an_operator_that_leaves(on)
        with capture_logs() as log:
            async with led(on, mode="auto"):
                assert on.with_pods() == set()
                assert on.kept == "gates"
        (said,) = [line["why"] for line in log if line["event"] == "mode changed"]
        assert "an Ascend Operator that is away" in said
        assert "--mode create" in said
        async with led(on, mode="auto"):
            assert on.with_pods() == set()

    run(story())


def test_another_setting_is_the_explicit_takeover() -> None:
    async def story() -> None:
        on = Stage()
        await beside_an_operator_that_leaves(on)
        async with led(on, mode="create"):
            assert on.with_pods() == {"p0", "d0"}
            assert on.kept is None
        async with led(on, mode="auto"):
            assert on.kept == "create"

    run(story())


@pytest.mark.parametrize(
    ("value", "event"),
    [(None, NEVER_KEPT), ("Gates!", "last mode not understood"), ("create", "")],
)
def test_a_value_that_is_missing_or_wrong_is_as_none(value: str | None, event: str) -> None:
    async def story() -> None:
        on = Stage()
        await beside_an_operator_that_leaves(on)
        await on.write_on_lease(value)
        with capture_logs() as log:
            async with led(on, mode="auto"):
                assert on.with_pods() == {"p0", "d0"}
                assert on.kept == "create"
        said = {line["event"] for line in log} & {NEVER_KEPT, "last mode not understood"}
        assert said == ({event} if event else set())

    run(story())


def test_an_edit_of_the_lease_while_it_leads_changes_nothing() -> None:
    async def story() -> None:
        on = Stage()
        on.apply(OPERATOR)
        async with led(on, mode="auto"):
            await on.write_on_lease("create")
            await asyncio.sleep(30)
            assert on.kept == "gates"
            await on.scale_operator(0)
            await on.settle(30)
            assert on.with_pods() == set()

    run(story())


def test_a_shadow_keeps_no_mode() -> None:
    async def story() -> None:
        on = Stage()
        async with led(on, mode="shadow"):
            assert on.kept is None

    run(story())
