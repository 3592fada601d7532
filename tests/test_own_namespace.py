"""What the scaler keeps for itself stands in its own namespace, and what tenants write of that kind is not believed."""

from __future__ import annotations

import msgspec
import pytest
from structlog.testing import capture_logs

from scaler.clock import Clock
from scaler.informers.config_maps import ConfigMapObject, config_map_record
from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, Object
from scaler.kube.errors import ForbiddenError
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from scaler.state.last_valid import LastValid, Name, config_map, decode, encode, rule_of
from tests.jobs import NAMESPACE, job, rule_config_map
from tests.rig import START, rig

OWN = "scaler-home"
RULE = Name(NAMESPACE, "rule")
VALID = rule_config_map()["data"]["elastic_scaling.json"]
SERVICE = (rule_config_map(), job("p0"), job("p1"), job("d0"))


def places(cluster: SimCluster) -> list[Name]:
    """Where ConfigMaps are, the rule left out."""
    found = [Name(cm["metadata"]["namespace"], cm["metadata"]["name"]) for cm in cluster.peek(CONFIG_MAPS)]
    return sorted(place for place in found if place != RULE)


def forged(place: Name, rule: Name) -> Object:
    """A last valid rule as the scaler itself would keep it at that place."""
    return encode(place, rule, LastValid(VALID))


def test_config_maps_are_kept_in_the_own_namespace_only() -> None:
    async def story() -> None:
        async with rig(*SERVICE, lease_namespace=OWN) as on:
            await on.settle(3)
            assert places(on.cluster) == [(OWN, "mindie.rule-scaler-last-valid")]
            for name in ("p0", "p1", "d0"):
                await on.cluster.delete(ASCEND_JOBS, NAMESPACE, name)
            await on.settle(3)
            assert places(on.cluster) == []
        written = {w.namespace for w in on.cluster.audit if w.client == "scaler" and w.resource == CONFIG_MAPS}
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
        Name(NAMESPACE, "rule-scaler-last-valid"),
        Name(NAMESPACE, "mindie.rule-scaler-last-valid"),
        Name("tenant", "rule-scaler-last-valid"),
        Name("tenant", "mindie.rule-scaler-last-valid"),
        Name("tenant", "rule"),
    ],
)
def test_what_a_tenant_writes_as_the_last_valid_rule_of_anybody_is_not_believed(place: Name) -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        cluster.apply([forged(place, RULE)], place.namespace)
        async with rig(job("p0"), job("d0"), cluster=cluster, lease_namespace=OWN) as on:
            await on.settle(3)
            assert (on.reason("p0"), on.with_pods()) == ("RuleMissing", set())

    run(story())


def old_status(place: Name, rule: Name) -> Object:
    return config_map(place, rule, {"data": {"status.json": "{}", "status.txt": "rule mindie/rule"}})


def test_what_an_earlier_version_kept_in_config_maps_is_deleted_and_nothing_else() -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        others = forged(Name(NAMESPACE, "not-ours-scaler-last-valid"), Name(NAMESPACE, "not-ours"))
        del others["metadata"]["labels"]["app.kubernetes.io/managed-by"]
        old = [
            old_status(Name(NAMESPACE, "rule-scaler-status"), RULE),
            old_status(Name(OWN, "mindie.rule-scaler-status"), RULE),
            old_status(Name(NAMESPACE, "gone-scaler-status"), Name(NAMESPACE, "gone")),
            forged(Name(NAMESPACE, "rule-scaler-last-valid"), RULE),
        ]
        cluster.apply([*old, others], NAMESPACE)
        async with rig(*SERVICE, cluster=cluster, lease_namespace=OWN) as on:
            await on.settle(3)
            assert places(on.cluster) == [
                (NAMESPACE, "not-ours-scaler-last-valid"),
                (OWN, "mindie.rule-scaler-last-valid"),
            ]

    run(story())


class NotThere(Interceptor):
    """No ConfigMap may be deleted in the services' namespaces."""

    async def before(self, request: Request) -> None:
        if request.verb in ("get", "delete") and request.resource == CONFIG_MAPS and request.namespace != OWN:
            raise ForbiddenError(403, "Forbidden", "configmaps")


def test_what_may_not_be_deleted_stays_without_a_word() -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        cluster.apply([old_status(Name(NAMESPACE, "rule-scaler-status"), RULE)], NAMESPACE)
        with capture_logs() as logs:
            async with rig(*SERVICE, cluster=cluster, lease_namespace=OWN, interceptor=NotThere()) as on:
                await on.settle(30)
                assert (NAMESPACE, "rule-scaler-status") in places(on.cluster)
        assert [line for line in logs if line["event"] == "report not written"] == []

    run(story())


def test_of_what_stands_elsewhere_only_its_rule_is_kept_and_only_of_its_own_namespace() -> None:
    for namespace, rule, content in ((OWN, RULE, LastValid(VALID)), ("tenant", Name("tenant", "rule"), None)):
        found = msgspec.convert(forged(Name(namespace, "x"), RULE), ConfigMapObject)
        own = config_map_record(found, OWN).own
        assert own is not None
        assert (rule_of(own), decode(own, RULE)) == (rule, content)
