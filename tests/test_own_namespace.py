"""What the scaler keeps for itself stands in its own namespace, and what tenants write of that kind
is not believed."""

from __future__ import annotations

import msgspec
import pytest

from scaler.clock import Clock
from scaler.informers.config_maps import ConfigMapObject, config_map_record
from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, Object
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from scaler.state.last_valid import ConfigMapName, decode, encode, last_valid_of, rule_of
from tests.jobs import NAMESPACE, job, rule_config_map
from tests.rig import START, rig

OWN = "scaler-home"
RULE = ConfigMapName(NAMESPACE, "rule")
VALID = rule_config_map()["data"]["elastic_scaling.json"]
SERVICE = (rule_config_map(), job("p0"), job("p1"), job("d0"))


def places(cluster: SimCluster) -> list[ConfigMapName]:
    """Where ConfigMaps are, the rule left out."""
    found = [
        ConfigMapName(cm["metadata"]["namespace"], cm["metadata"]["name"])
        for cm in cluster.peek(CONFIG_MAPS)
    ]
    return sorted(place for place in found if place != RULE)


def forged(place: ConfigMapName, rule: ConfigMapName) -> Object:
    """A last valid rule as the scaler itself would keep it at that place."""
    return encode(place, rule, last_valid_of(VALID))


def test_config_maps_are_kept_in_the_own_namespace_only() -> None:
    async def story() -> None:
        async with rig(*SERVICE, lease_namespace=OWN) as on:
            await on.settle(3)
            assert places(on.cluster) == [(OWN, "mindie.rule-scaler-last-valid")]
            for name in ("p0", "p1", "d0"):
                await on.cluster.delete(ASCEND_JOBS, NAMESPACE, name)
            await on.settle(3)
            assert places(on.cluster) == []
        written = {
            w.namespace
            for w in on.cluster.audit
            if w.client == "scaler" and w.resource == CONFIG_MAPS
        }
        assert written == {OWN}

    run(story())


@pytest.mark.parametrize("namespaces", [(), (NAMESPACE,)])
def test_it_is_read_there_after_a_restart(namespaces: tuple[str, ...]) -> None:
    async def story() -> None:
        async with rig(*SERVICE, lease_namespace=OWN, namespaces=namespaces) as on:
            await on.start("p0", "d0")
            await on.settle(3)
        await on.cluster.delete(CONFIG_MAPS, NAMESPACE, "rule")
        await on.kill("d0")
        async with rig(cluster=on.cluster, lease_namespace=OWN, namespaces=namespaces) as again:
            assert "d0" in again.with_pods()

    run(story())


@pytest.mark.parametrize(
    "place",
    [
        ConfigMapName(NAMESPACE, "rule-scaler-last-valid"),
        ConfigMapName(NAMESPACE, "mindie.rule-scaler-last-valid"),
        ConfigMapName("tenant", "rule-scaler-last-valid"),
        ConfigMapName("tenant", "mindie.rule-scaler-last-valid"),
        ConfigMapName("tenant", "rule"),
    ],
)
def test_what_a_tenant_writes_as_the_last_valid_rule_of_anybody_is_not_believed(
    place: ConfigMapName,
) -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        cluster.apply([forged(place, RULE)], place.namespace)
        async with rig(job("p0"), job("d0"), cluster=cluster, lease_namespace=OWN) as on:
            await on.settle(3)
            assert (on.reason("p0"), on.with_pods()) == ("RuleMissing", set())

    run(story())


def test_config_maps_with_its_labels_elsewhere_are_left_alone() -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        elsewhere = ConfigMapName(NAMESPACE, "rule-scaler-last-valid")
        cluster.apply([forged(elsewhere, RULE)], NAMESPACE)
        async with rig(*SERVICE, cluster=cluster, lease_namespace=OWN) as on:
            await on.settle(3)
            assert places(on.cluster) == [elsewhere, (OWN, "mindie.rule-scaler-last-valid")]
        assert {
            w.namespace for w in cluster.audit if w.client == "scaler" and w.resource == CONFIG_MAPS
        } == {OWN}

    run(story())


def test_of_what_stands_elsewhere_only_its_rule_is_kept_and_only_of_its_own_namespace() -> None:
    for namespace, rule, content in (
        (OWN, RULE, last_valid_of(VALID)),
        ("tenant", ConfigMapName("tenant", "rule"), None),
    ):
        found = msgspec.convert(forged(ConfigMapName(namespace, "x"), RULE), ConfigMapObject)
        own = config_map_record(found, OWN).own
        assert own is not None
        assert (rule_of(own), decode(own, RULE)) == (rule, content)
