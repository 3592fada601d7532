"""What a tenant may write, on a real API server, against the scaler as users run it: the others are
served.

tests/test_any_input.py sends more, and faster, past an API server."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest

from scaler.kube.api import EVENTS, PODS, Object
from scaler.sim.actors.nodes import NodeSpec, add_node
from scaler.sim.apiserver.crds import definitions
from tests.control_plane.plane import ControlPlane, PlaneOptions
from tests.control_plane.plugin import FreshPlane
from tests.control_plane.scaler_process import install, scaler
from tests.control_plane.stage import staged, until
from tests.jobs import NAMESPACE, held, job, rule_config_map, rule_document

DEEP = 2_000
DIGITS = "9" * 5_000


@pytest.mark.long("a cluster of its own")
def test_what_one_tenant_writes_costs_the_others_nothing(
    fresh_plane: FreshPlane, tmp_path: Path
) -> None:
    plane = fresh_plane(PlaneOptions(crds=definitions()))
    asyncio.run(_attacked(plane, tmp_path))


async def _attacked(plane: ControlPlane, folder: Path) -> None:
    kubeconfig = install(plane)
    async with staged(plane) as stage:
        await add_node(stage.api, NodeSpec("node-0", npu=64, cpu=2000, memory="8Ti", pods=500))
        plane.kubectl("create", "namespace", NAMESPACE)

        async def pods_of(name: str) -> bool:
            pods = (await stage.api.list(PODS, NAMESPACE)).items
            return any(pod["metadata"]["name"].startswith(f"{name}-master-") for pod in pods)

        async def told() -> set[tuple[str, str]]:
            events = (await stage.api.list(EVENTS, NAMESPACE)).items
            return {(event["involvedObject"]["name"], event["reason"]) for event in events}

        async def is_told() -> bool:
            return {("odd-mindie", "ObjectUnreadable"), ("large", "RuleInvalid")} <= await told()

        for name in ("a", "b"):  # the second time it starts among all that
            async with scaler(folder, kubeconfig, name=f"scaler-{name}") as process:
                if name == "a":
                    await asyncio.to_thread(_attack, plane)
                _create(
                    plane,
                    rule_config_map(rule_document({"group0": 1}), name=name),
                    job(name, "group0", rule=name),
                )
                await until(partial(pods_of, name), f"pods of {name}")
                await until(is_told, "what cannot be read is told", told)
                assert process.lines("decision failed") == []


def _attack(plane: ControlPlane) -> None:
    nested = '"image": "mindie:1", "deep": ' + '{"a": ' * DEEP + "1" + "}" * DEEP
    deep = json.dumps(job("odd", "group0", rule="odd")).replace('"image": "mindie:1"', nested, 1)
    plane.kubectl("create", "--validate=false", "-f", "-", text=deep)
    ladder = ({"group0": 9_999 - size} for size in range(9_999))
    large = rule_document(*ladder).replace(": ", ":").replace(", ", ",")
    _create(plane, rule_config_map(name="odd"), rule_config_map(large[:900_000], name="large"))
    _create(plane, job("l0", "group0", rule="large"))
    digits = held(
        "p9", "group0", rule="odd", annotations={"mind-cluster/instance": DIGITS}, owner=""
    )
    _create(plane, digits, held("p8", "group0", rule="odd", owner=""))


def _create(plane: ControlPlane, *found: Object) -> None:
    for obj in found:
        plane.kubectl(
            "create", "--validate=false", "--namespace", NAMESPACE, "-f", "-", text=json.dumps(obj)
        )
