"""`scaler why --rank-table` on a simulated cluster: what it reads, says and returns."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from scaler.cli import main
from scaler.clock import Clock
from scaler.kube.api import CONFIG_MAPS, PODS, KubeApi, Object, PatchType
from scaler.kube.errors import status_error
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from scaler.tools.common.check_result import Level
from scaler.tools.common.diagnosis import diagnose
from scaler.tools.why.rank_table import gather
from tests.jobs import NAMESPACE
from tests.ranktables.test_reconciler import NAME, RULE, by_node, give_chips, rings, server
from tests.rig import START, Rig, rig


def mindie_pod(role: str) -> Object:
    labels = {"app": f"mindie-ms-{role}", "jobID": "mindie"}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": role, "labels": labels},
        "spec": spec,
    }


async def failures(on: Rig) -> list[str]:
    checks = diagnose(await gather(on.cluster, NAMESPACE, "mindie"))
    return [f"{check.about}: {check.text}" for check in checks if check.level is Level.ERROR]


def test_a_service_is_followed_from_its_first_fault_to_health() -> None:
    async def story() -> None:
        labelled = rings()
        labelled["metadata"]["labels"]["grt-group/deploy-server"] = "0"
        async with rig(RULE, server()) as on:
            assert any("rings-config-p0 does not exist" in words for words in await failures(on))
            on.apply(labelled, mindie_pod("controller"), mindie_pod("coordinator"))
            await give_chips(on, by_node)
            assert [words.split(":")[0] for words in await failures(on)] == [
                "MindIE Controller",
                "MindIE Coordinator",
            ]
            for pod in on.cluster.peek(PODS, NAMESPACE):
                await on.status(pod, hostIP="1.1.1.1", podIP="2.2.2.2")
            assert await failures(on) == []
            patch = {"metadata": {"labels": {"mx-consumer-cim": None}}}
            await on.cluster.patch(CONFIG_MAPS, NAMESPACE, NAME, patch, patch_type=PatchType.MERGE)
            assert [words.split(":")[0] for words in await failures(on)] == [NAME]
            assert not any(write.split()[0] != "patch" for write in on.writes() if NAME in write)

    run(story())


class Closed(Interceptor):
    """Nobody may read anything, when closed."""

    closed = False

    async def before(self, request: Request) -> None:
        if self.closed:
            raise status_error(403, "Forbidden", f"{request.resource.plural} is forbidden")


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Closed:
    """An empty cluster behind any kubeconfig."""
    made = Closed()

    @asynccontextmanager
    async def connect(**_: Any) -> AsyncIterator[KubeApi]:
        yield SimCluster(Clock(START)).client("why", made)

    monkeypatch.setattr("scaler.kube.client.connect", connect)
    return made


def test_the_answer_names_each_condition_and_the_exit_code_says_whether_all_are_met(
    door: Closed, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not door.closed
    assert main(["why", "--rank-table", "mindie/mindie"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "FAIL namespace mindie: no AscendJob of a server has label jobID=mindie" in out
    assert out.count(" FAIL ") == 5  # four conditions, and what to do


def test_programs_get_json(door: Closed, capsys: pytest.CaptureFixture[str]) -> None:
    assert not door.closed
    assert main(["why", "--rank-table", "mindie/mindie", "-o", "json"]) == 1
    (section,) = json.loads(capsys.readouterr().out)["sections"]
    assert (section["title"], {check["standing"] for check in section["checks"]}) == (
        "rank table",
        {"FAIL"},
    )


@pytest.mark.parametrize("service", ["/mindie", "mindie/", "a/b/c/d", "a b", ""])
def test_a_service_is_named_by_namespace_and_job_id(
    service: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", "--rank-table", service]) == 2
    assert "name" in capsys.readouterr().err.lower()


def test_a_cluster_that_cannot_be_read_is_told(
    door: Closed, capsys: pytest.CaptureFixture[str]
) -> None:
    door.closed = True
    assert main(["why", "--rank-table", "mindie/mindie"]) == 1
    said = capsys.readouterr().err
    assert "you may not read " in said
    assert "ascendjobs" in said
