"""The suite of the KubeApi seam against real API servers: what the simulated cluster passes, they
pass."""

from __future__ import annotations

import asyncio

import pytest

from tests.conformance import (
    applying,
    asking,
    custom,
    deleting,
    listing,
    objects,
    patching,
    pods,
    scaling,
    watching,
)
from tests.conformance.harness import CASES, Case, judge_real
from tests.control_plane.plane import ControlPlane

pytestmark = [pytest.mark.every_kubernetes, pytest.mark.shares_plane("clients")]
LONG = pytest.mark.long("an API server sends a bookmark once a minute")
_SLOW = (watching.bookmark_tells_a_version_to_go_on_from,)
_MODULES = (
    applying,
    asking,
    custom,
    deleting,
    listing,
    objects,
    patching,
    pods,
    scaling,
    watching,
)  # loading them registers their cases


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=LONG if case in _SLOW else (), id=case.__name__) for case in CASES],
)
def test_conformance(plane: ControlPlane, case: Case) -> None:
    passed = asyncio.run(_passes(plane, case))
    assert passed


async def _passes(plane: ControlPlane, case: Case) -> bool:
    async with plane.client() as kube:
        return await judge_real(case, kube, plane.compact, plane.minor)
