"""Which ways of holding pods are set up, as far as the scaler may see it."""

from __future__ import annotations

from scaler.clock import Clock
from scaler.kube.api import MUTATING_WEBHOOKS, Object
from scaler.kube.errors import ForbiddenError
from scaler.report.gate_setup import NOT_SET_UP, NOT_TRUSTED, SET_UP, UNKNOWN, GateSetup
from scaler.report.metrics import Metrics
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run


class Refuses(Interceptor):
    async def before(self, request: Request) -> None:
        raise ForbiddenError(403, "Forbidden", "no such right")


def webhook(bundle: str) -> Object:
    client = {"url": "https://localhost", **({"caBundle": bundle} if bundle else {})}
    return {
        "apiVersion": MUTATING_WEBHOOKS.api_version,
        "kind": MUTATING_WEBHOOKS.kind,
        "metadata": {"name": "mind-cluster-scaler"},
        "webhooks": [{"name": "pods.mind-cluster", "clientConfig": client}],
    }


def looked(*objects: Object, interceptor: Interceptor | None = None) -> tuple[dict[str, str], str]:
    metrics = Metrics()

    async def story() -> dict[str, str]:
        cluster = SimCluster(Clock(0.0))
        cluster.apply(objects)
        return await GateSetup(
            cluster.client("scaler", interceptor), metrics, "mind-cluster-scaler"
        ).look()

    return run(story()), metrics.render().decode()


def test_nothing_is_set_up_in_an_empty_cluster() -> None:
    assert looked()[0] == {"policy": NOT_SET_UP, "webhook": NOT_SET_UP}


def test_a_webhook_counts_once_api_servers_trust_it() -> None:
    assert looked(webhook(""))[0]["webhook"] == NOT_TRUSTED
    found, metrics = looked(webhook("Y2E="))
    assert found["webhook"] == SET_UP
    assert 'scaler_gate_way{way="webhook"} 1.0' in metrics


def test_without_rights_it_is_not_known() -> None:
    assert set(looked(interceptor=Refuses())[0].values()) == {UNKNOWN}
