"""What the scaler keeps for one namespace has a limit; its jobs say what is not kept, and serve all
the same."""

from __future__ import annotations

from typing import Any

from scaler.decide.memory import Evictions
from scaler.decide.world import ServiceKey
from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, ELASTIC_SERVICES, EVENTS, Object
from scaler.sim.loop import run
from scaler.state import kept_evictions
from tests.jobs import NAMESPACE, job, rule_config_map, rule_document
from tests.rig import Rig, rig
from tests.test_minimums import nodes, service, two_prefill_and_no_decode

HOME = "scaler-home"
LIMIT: dict[str, Any] = {"lease_namespace": HOME, "kept_per_namespace": 1}
SMALL = rule_document({"group0": 1})


def small(name: str) -> tuple[Object, Object]:
    """A service of one instance."""
    return rule_config_map(SMALL, name), job(f"{name}-p0", "group0", rule=name)


def kept(on: Rig) -> list[str]:
    """The rules whose last valid document is kept."""
    found = on.cluster.peek(CONFIG_MAPS, HOME)
    return sorted(one["metadata"]["annotations"]["mind-cluster/scaler-rule-name"] for one in found)


def told(on: Rig) -> dict[str, list[str]]:
    """The words of the events about what is not kept, by job."""
    words: dict[str, list[str]] = {}
    for event in on.cluster.peek(EVENTS, NAMESPACE):
        if event["reason"] == "NotKept":
            words.setdefault(event["involvedObject"]["name"], []).append(event["message"])
    return words


def shown(on: Rig) -> list[str]:
    return [one["metadata"]["name"] for one in on.cluster.peek(ELASTIC_SERVICES, NAMESPACE)]


def test_a_rule_beyond_the_limit_is_in_force_and_its_job_says_that_it_is_not_kept() -> None:
    async def story() -> None:
        async with rig(*nodes(2), *small("a"), **LIMIT) as on:
            await on.settle(5)
            await on.start("a-p0", node_name="n1")
            on.apply(*small("b"))
            await on.settle(5)
            await on.start("b-p0", node_name="n2")
            assert on.with_pods() == {"a-p0", "b-p0"}
            assert kept(on) == ["a"]
            words = told(on)
            assert set(words) == {"b-p0"}
            assert any("the rule is not kept" in one for one in words["b-p0"])
            await on.cluster.delete(CONFIG_MAPS, NAMESPACE, "b")
            await on.kill("b-p0")
            await on.settle(60)
            assert "b-p0" in on.with_pods(), "it is in force while the process runs"

    run(story())


def test_it_is_kept_once_there_is_a_place() -> None:
    async def story() -> None:
        async with rig(*small("a"), **LIMIT) as on:
            await on.settle(5)
            on.apply(*small("b"))
            await on.settle(5)
            await on.cluster.delete(ASCEND_JOBS, NAMESPACE, "a-p0")
            await on.settle(700)
            assert kept(on) == ["b"]
            assert shown(on) == ["b-mindie"]

    run(story())


def test_the_next_leader_keeps_the_same_rule() -> None:
    async def story() -> None:
        async with rig(*small("b"), **LIMIT) as first:
            await first.settle(5)
            first.apply(*small("a"))
            await first.settle(5)
        async with rig(cluster=first.cluster, **LIMIT) as on:
            await on.settle(30)
            assert kept(on) == ["b"]

    run(story())


def test_a_tenant_who_names_ever_new_rules_takes_no_more_than_the_limit() -> None:
    """It never has more than two ConfigMaps, and each rule is named by a job that stays."""

    async def story() -> None:
        async with rig(**(LIMIT | {"kept_per_namespace": 5})) as on:
            for number in range(30):
                on.apply(*small(f"r{number:02}"))
                await on.settle(3)
                await on.cluster.delete(CONFIG_MAPS, NAMESPACE, f"r{number:02}")
            await on.settle(30)
            assert len(kept(on)) == 5
            assert len(shown(on)) == 5

    run(story())


def test_beyond_the_limit_no_elastic_service_is_made_and_the_job_says_so() -> None:
    async def story() -> None:
        async with rig(*small("a"), **LIMIT) as on:
            await on.settle(5)
            on.apply(*small("b"))
            await on.settle(5)
            assert shown(on) == ["a-mindie"]
            assert any("no ElasticService is made" in one for one in told(on)["b-p0"])
            (found,) = [
                one for one in on.cluster.peek(ASCEND_JOBS) if one["metadata"]["name"] == "b-p0"
            ]
            assert found["status"]["conditions"], "the job says everything"

    run(story())


def test_beyond_the_limit_nobody_is_evicted_and_the_jobs_say_so() -> None:
    """For another service of the namespace an eviction is counted."""

    async def story() -> None:
        key = ServiceKey(NAMESPACE, "other", "mindie")
        place = kept_evictions.place_of(key, HOME)
        counted = kept_evictions.encode(place, key, Evictions(1, 5.0))
        waits = rule_config_map(SMALL, "other"), job("other-d0", "group1", rule="other")
        async with rig(*nodes(3), *service("a"), *waits, counted, **LIMIT) as on:
            await two_prefill_and_no_decode(on)
            await on.settle(200)
            assert not any("deletionTimestamp" in pod["metadata"] for pod in on.pods_of("a-p1"))
            assert any("nobody is evicted for this service" in one for one in told(on)["a-d0"])

    run(story())
