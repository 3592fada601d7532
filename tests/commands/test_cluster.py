"""Reading a cluster with the rights of whoever calls: what is seen, what is not, and that it
follows changes."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from scaler.kube.api import (
    ASCEND_JOBS,
    CUSTOM_RESOURCE_DEFINITIONS,
    ELASTIC_SERVICES,
    LEASES,
    NODES,
    PODS,
    Object,
    PatchType,
)
from scaler.kube.errors import NotSentError, UnauthorizedError, status_error
from scaler.names import GOVERNS
from scaler.rules.rule import ALL
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.loop import run
from scaler.tools.common.leader import Leaders, leaders
from scaler.tools.common.notes import gap_words
from scaler.tools.common.records import WrittenObject, as_cached, replicas_of, written
from scaler.tools.common.view import Cluster, ask
from tests.jobs import NAMESPACE, job, manifest, rule_config_map, rule_document
from tests.rig import START, Rig, rig

RULE = rule_config_map(rule_document({"group0": 2, "group1": 1}, {"group0": 1, "group1": 1}))
STATUS = {"running": "9+9", "target": "9+9", "reason": "Complete"}


class Forbidden(Interceptor):
    """Nobody may read these."""

    def __init__(self, *plurals: str) -> None:
        self.plurals = plurals

    async def before(self, request: Request) -> None:
        if request.resource.plural in self.plurals:
            raise status_error(403, "Forbidden", f"{request.resource.plural} is forbidden")


class Away(Interceptor):
    """Nobody answers, or not this caller."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def before(self, request: Request) -> None:
        raise self.error


def opened(on: Rig, interceptor: Interceptor | None = None, *namespaces: str) -> Cluster:
    return Cluster(on.cluster.client("caller", interceptor), on.clock, namespaces)


def elastic_service(name: str = "rule-mindie", **status: Any) -> Object:
    made = manifest(ELASTIC_SERVICES, name, NAMESPACE, spec={"rule": "rule", "jobID": "mindie"})
    return {**made, "status": {**STATUS, **status}}


async def scale(on: Rig, replicas: int) -> None:
    """Say how many instances are wanted of the service."""
    patch = {"spec": {"replicas": replicas}}
    (made,) = (await on.cluster.list(ELASTIC_SERVICES, NAMESPACE)).items
    await on.cluster.patch(
        ELASTIC_SERVICES, NAMESPACE, made["metadata"]["name"], patch, patch_type=PatchType.MERGE
    )
    await on.settle(2)


async def write(on: Rig, *made: Object) -> None:
    """ElasticServices, as a scaler would write them."""
    for obj in made:
        await on.cluster.create(ELASTIC_SERVICES, NAMESPACE, obj)
        await on.cluster.patch(
            ELASTIC_SERVICES,
            NAMESPACE,
            obj["metadata"]["name"],
            {"status": obj["status"]},
            patch_type=PatchType.MERGE,
            subresource="status",
        )


def idle(*objects: Object) -> Rig:
    """A cluster in which nobody decides. To be made inside a running loop."""
    made = Rig()
    made.apply(*objects)
    return made


async def uninstall(on: Rig) -> None:
    """Take the definition of ElasticService away."""
    await on.cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, None, ELASTIC_SERVICES.full_name)
    await on.settle()


def words(cluster: Cluster) -> list[tuple[str, str, str]]:
    return [(str(view.key), view.name, view.status["running"]) for view in cluster.views()]


def test_without_elastic_services_the_same_is_decided_from_what_is_seen() -> None:
    async def story() -> None:
        async with rig(RULE, job("p0"), job("p1"), job("d0")) as on:
            await on.start("p0", "d0")
            await uninstall(on)
            cluster = opened(on)
            async with cluster.watched():
                assert words(cluster) == [(f"{NAMESPACE}/rule/mindie", "", "1+1")]
                _, plan = on.decisions[-1]
                _, decision = cluster.decision()
                assert {v.name: v.state for v in decision.plans[0].verdicts} == {
                    v.name: v.state for v in plan.verdicts
                }
                assert ELASTIC_SERVICES.full_name in [gap.resource for gap in cluster.gaps()]

    run(story())


def test_what_the_scaler_wrote_goes_before_what_is_decided_here() -> None:
    async def story() -> None:
        on = idle(RULE, job("p0"), job("d0"))
        await write(on, elastic_service())
        cluster = opened(on)
        async with cluster.watched():
            assert words(cluster) == [(f"{NAMESPACE}/rule/mindie", "rule-mindie", "9+9")]
            assert [gap for gap in cluster.gaps() if gap.installed] == []

    run(story())


def test_what_is_decided_here_follows_the_number_wanted_from_the_first_look_on() -> None:
    async def story() -> list[tuple[int, int]]:
        on = idle(RULE, job("p0"), job("p1"), job("d0"))
        await write(on, elastic_service())
        await scale(on, 2)
        cluster = opened(on)
        found = []
        async with cluster.watched():
            for number in (0, 7, 2):
                found.append((cluster.views()[0].replicas, cluster.decision()[1].plans[0].replicas))
                await scale(on, number)
            await on.cluster.delete(ELASTIC_SERVICES, NAMESPACE, "rule-mindie")
            await on.settle()
            found.append((cluster.views()[0].replicas, cluster.decision()[1].plans[0].replicas))
        return found

    assert run(story()) == [(2, 2), (0, 0), (7, ALL), (ALL, ALL)]


@pytest.mark.parametrize("junk", [None, -1, True, "3", 2.5, [], {}])
def test_what_is_no_number_of_instances_limits_nothing(junk: Any) -> None:
    there = {**elastic_service(), "spec": {"rule": "rule", "jobID": "mindie", "replicas": junk}}
    found = written(msgspec.convert(there, WrittenObject))
    assert found is not None
    assert replicas_of(found.object) == ALL
    cached = as_cached(found)
    assert cached is None or cached.replicas in (ALL, 0)


def test_a_change_is_seen_and_a_quiet_cluster_is_not_waited_for_in_vain() -> None:
    async def story() -> None:
        async with rig(RULE, job("p0"), job("d0")) as on:
            cluster = opened(on)
            async with cluster.watched():
                await asyncio.sleep(5)
                assert words(cluster)[0][2] == "0+0"
                seen = cluster.version
                assert not await cluster.changed(seen, within=5)
                await on.start("p0", "d0")
                assert await cluster.changed(seen, within=5)
                await asyncio.sleep(1)
                assert words(cluster)[0][2] == "1+1"
                await on.cluster.delete(ASCEND_JOBS, NAMESPACE, "p0")
                await on.cluster.delete(ASCEND_JOBS, NAMESPACE, "d0")
                await asyncio.sleep(5)
                assert words(cluster) == []

    run(story())


@pytest.mark.parametrize(
    "plural", ["nodes", "pods", "deployments", "events", "customresourcedefinitions"]
)
def test_what_may_not_be_read_is_said_and_the_rest_goes_on(plural: str) -> None:
    async def story() -> None:
        async with rig(RULE, job("p0"), job("d0")) as on:
            cluster = opened(on, Forbidden(plural))
            async with cluster.watched():
                assert len(cluster.views()) == 1
                said = [gap.resource.split(".")[0] for gap in cluster.gaps() if gap.installed]
                assert said == ([plural] if plural != "customresourcedefinitions" else [])

    run(story())


class Gone(Interceptor):
    """Answers until it is gone."""

    gone = False

    async def before(self, request: Request) -> None:
        if self.gone:
            raise NotSentError("Connection refused")


def test_what_is_old_says_since_when_and_how_old_it_is_until_the_api_server_is_back() -> None:
    async def story() -> None:
        async with rig(RULE, job("p0"), job("d0")) as on:
            away = Gone()
            client = on.cluster.client("caller", away)
            cluster = Cluster(client, on.clock)
            async with cluster.watched():
                await on.settle(1)
                assert (cluster.stale_for(), list(gap_words(cluster.gaps()))) == (0.0, [])
                away.gone = True
                client.cut_watches()
                gone_at = on.clock.now()
                await on.settle(35)
                heard = [gap.since for gap in cluster.gaps() if gap.since]
                assert all(gone_at - 35 <= since <= gone_at for since in heard)
                (words,) = gap_words(cluster.gaps(), min(heard) + 35)
                assert words.startswith("NOT UP TO DATE: what follows of elasticservices, ")
                assert " is from " in words
                assert " UTC, 35s ago: " in words
                away.gone = False
                await on.settle(60)
                assert (cluster.stale_for(), list(gap_words(cluster.gaps()))) == (0.0, [])

    run(story())


def test_nothing_at_all_may_be_read_and_it_still_ends() -> None:
    async def story() -> None:
        everything = Forbidden(
            *(resource.plural for resource in (*CLUSTER_WIDE, PODS, ELASTIC_SERVICES))
        )
        async with rig(RULE, job("p0")) as on:
            cluster = opened(on, everything, NAMESPACE)
            async with cluster.watched():
                assert cluster.views() == []
                assert {gap.resource for gap in cluster.gaps()} >= {
                    "pods",
                    "nodes",
                    ASCEND_JOBS.full_name,
                }

    run(story())


CLUSTER_WIDE = (NODES, ASCEND_JOBS, CUSTOM_RESOURCE_DEFINITIONS)


@pytest.mark.parametrize(
    "error", [NotSentError("refused"), UnauthorizedError(401, "Unauthorized", "who?")], ids=str
)
def test_a_cluster_that_does_not_answer_is_an_error(error: Exception) -> None:
    async def story() -> None:
        async with rig(RULE) as on:
            with pytest.raises(type(error)):
                await ask(on.cluster.client("caller", Away(error)), ())
            answer = await ask(on.cluster.client("caller", Forbidden("elasticservices")), ())
            assert answer.why == "you may not read ElasticServices of all namespaces"

    run(story())


def lease(name: str, namespace: str, **changes: Any) -> Object:
    labels = {"app.kubernetes.io/managed-by": "mind-cluster-scaler"}
    spec = {
        "holderIdentity": "pod-1",
        "leaseDurationSeconds": 8,
        "renewTime": "2023-11-14T22:13:20.000000Z",
        **changes,
    }
    return manifest(LEASES, name, namespace, labels=labels, annotations={GOVERNS: "*"}, spec=spec)


def test_the_scaler_is_at_work_while_its_lease_is_renewed() -> None:
    async def story() -> None:
        async with rig(RULE) as on:
            await on.cluster.create(LEASES, "default", lease("mind-cluster-scaler", "default"))
            found = (await leaders(on.cluster)).of(NAMESPACE, START)
            assert found is not None
            assert (found.is_at_work(START + 20), found.is_at_work(START + 30)) == (True, False)
            assert (await leaders(on.cluster.client("caller", Forbidden("leases")))).unread != ""
            assert Leaders().of(NAMESPACE, START) is None

    run(story())
