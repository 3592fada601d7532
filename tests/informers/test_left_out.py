"""ConfigMaps of one namespace say more than is kept: only metadata of the rest is kept, and what a
job names is read again."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from scaler.clock import loop_time
from scaler.informers import cache as caches
from scaler.informers.cache import Cache
from scaler.informers.changes import Changes
from scaler.informers.config_maps import (
    MOST_CONTENT,
    ConfigMapObject,
    bytes_of_content,
    config_map_record,
)
from scaler.kube.api import CONFIG_MAPS, Object, PatchType
from scaler.kube.errors import status_error
from scaler.names import RULE_KEY
from scaler.rules.limits import MAX_BYTES
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.loop import run
from tests.jobs import NAMESPACE, job, rule_config_map, rule_document
from tests.rig import Rig, rig

SERVICE = (rule_config_map(), job("p0"), job("p1"), job("d0"))


def large(number: int, namespace: str = "tenant") -> Object:
    """A ConfigMap that nothing compresses well, of the size that a rule may have."""
    noise = random.Random(number).randbytes(MAX_BYTES * 3 // 4 - 100)
    made = rule_config_map(base64.b64encode(noise).decode(), f"rule-{number}")
    made["metadata"] |= {"namespace": namespace, "uid": f"u{number}", "resourceVersion": "1"}
    made["metadata"]["annotations"] = {"mind-cluster/paused": "x" * 300}
    return made


def filled(namespace: str, numbers: range) -> Iterator[Object]:
    for number in numbers:
        yield large(number, namespace)


def take(cache: Cache, made: Object) -> None:
    record = config_map_record(msgspec.convert(made, ConfigMapObject))
    cache.config_maps.apply(cache.bounded(record))


def content(cache: Cache, namespace: str) -> int:
    return sum(map(bytes_of_content, cache.config_maps.values(namespace)))


def test_what_is_kept_of_one_namespace_has_a_limit_and_costs_no_other() -> None:
    cache = Cache(Changes(), lambda: 0.0)
    for made in filled("tenant", range(40)):
        take(cache, made)
    assert MOST_CONTENT - MAX_BYTES < content(cache, "tenant") <= MOST_CONTENT
    left_out = [record for record in cache.config_maps.values("tenant") if record.left_out]
    assert len(left_out) > 10
    assert {(one.packed, one.keys, len(one.annotations)) for one in left_out} == {(b"", (), 0)}
    take(cache, large(1, "neighbour"))
    found = cache.config_maps.get("neighbour", "rule-1")
    assert found is not None
    assert found.document


def test_the_room_of_what_is_gone_or_smaller_is_there_again() -> None:
    cache = Cache(Changes(), lambda: 0.0)
    for version in range(1, 60):
        made = large(version)
        made["metadata"] |= {"name": "rule", "uid": "u", "resourceVersion": str(version)}
        take(cache, made)
    found = cache.config_maps.get("tenant", "rule")
    assert found is not None
    assert not found.left_out
    cache.config_maps.remove("tenant", "rule", "u")
    assert cache._content == {}


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept of any ConfigMap."""
    monkeypatch.setattr(caches, "MOST_CONTENT", 0)


class Reads(Interceptor):
    """Counts the lists of one ConfigMap, and refuses them until `refused_until`."""

    def __init__(self, refused_until: float = 0.0) -> None:
        self.number = 0
        self._refused_until = loop_time() + refused_until

    async def before(self, request: Request) -> None:
        of_one = request.verb == "list" and request.namespace == NAMESPACE
        if of_one and request.resource == CONFIG_MAPS:
            self.number += 1
            if loop_time() < self._refused_until:
                raise status_error(500, "InternalError", "no")


def problem(on: Rig) -> str:
    service, _ = on.decisions[-1]
    return f"{service.problem.kind}: {service.problem.message}" if service.problem else ""


async def edit(on: Rig, document: str) -> None:
    patch = {"data": {RULE_KEY: document}}
    await on.cluster.patch(CONFIG_MAPS, NAMESPACE, "rule", patch, patch_type=PatchType.MERGE)


@pytest.mark.usefixtures("little")
def test_what_a_job_names_is_read_again_and_serves() -> None:
    async def story() -> None:
        reads = Reads()
        async with rig(*SERVICE, interceptor=reads) as on:
            await on.settle(2)
            assert on.with_pods() == {"p0", "d0"}
            await on.start("p0", "d0")
            await on.settle(5)
            assert "p1" in on.with_pods()
            assert reads.number == 1
            await on.settle(700)
            assert reads.number == 1

    run(story())


@pytest.mark.usefixtures("little")
def test_an_edit_of_it_counts_and_a_broken_one_leaves_the_last_valid_rule() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.settle(2)
            await edit(on, "{")
            await on.settle(10)
            assert problem(on).startswith("RuleInvalid")
            assert on.with_pods() == {"p0", "d0"}
            await edit(on, rule_document({"group0": 1, "group1": 1}))
            await on.settle(10)
            assert problem(on) == ""
            assert on.with_pods() == {"p0", "d0"}

    run(story())


@pytest.mark.usefixtures("little")
def test_while_it_cannot_be_read_its_jobs_say_so_and_it_is_tried_again() -> None:
    async def story() -> None:
        async with rig(*SERVICE, interceptor=Reads(refused_until=20.0)) as on:
            await on.settle(5)
            assert on.with_pods() == set()
            assert problem(on).startswith("RuleMissing: ConfigMap mindie/rule is being read")
            await on.settle(60)
            assert on.with_pods() == {"p0", "d0"}

    run(story())


@pytest.mark.usefixtures("little")
def test_after_a_restart_the_last_valid_rule_is_in_force_until_it_is_read() -> None:
    async def story() -> None:
        async with rig(*SERVICE, lease_namespace="scaler-home") as first:
            await first.start("p0", "d0")
            await first.settle(3)
        again: dict[str, Any] = {"cluster": first.cluster, "interceptor": Reads(1e6)}
        async with rig(**again, lease_namespace="scaler-home") as on:
            await on.kill("d0")
            await on.settle(5)
            assert "d0" in on.with_pods()

    run(story())


@pytest.mark.usefixtures("little")
def test_what_no_job_names_is_not_read() -> None:
    async def story() -> None:
        reads = Reads()
        async with rig(rule_config_map(), job("p0", rule="another"), interceptor=reads) as on:
            await on.settle(60)
            assert reads.number == 0

    run(story())
