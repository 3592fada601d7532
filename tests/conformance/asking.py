"""Reviews: whose a token is, and what somebody may get. They are answered and not kept."""

from __future__ import annotations

from scaler.kube.api import ACCESS_REVIEWS, TOKEN_REVIEWS, Object, Resource
from scaler.kube.errors import BadRequestError, InvalidError
from tests.conformance.harness import Cluster, case, refused

_METRICS: Object = {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}


async def _answer(cluster: Cluster, resource: Resource, spec: Object) -> Object:
    review = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
    status: Object = (await cluster.kube.create(resource, None, review))["status"]
    return status


@case
async def a_token_that_nobody_issued_is_nobodys(cluster: Cluster) -> None:
    status = await _answer(cluster, TOKEN_REVIEWS, {"token": "wrong"})
    assert not status.get("authenticated")
    assert not status["user"].get("username")


@case
async def a_review_of_no_token_is_refused(cluster: Cluster) -> None:
    await refused(BadRequestError, _answer(cluster, TOKEN_REVIEWS, {"token": ""}))


@case
async def masters_may_get_metrics_and_a_user_without_a_right_may_not(cluster: Cluster) -> None:
    masters = {"user": "a", "groups": ["system:masters"]}
    for who, may in ((masters, True), ({"user": "a", "groups": ["b"]}, False)):
        status = await _answer(cluster, ACCESS_REVIEWS, {**who, **_METRICS})
        assert status["allowed"] is may


@case
async def a_review_about_nobody_is_refused(cluster: Cluster) -> None:
    asked = _answer(cluster, ACCESS_REVIEWS, _METRICS)
    await refused(InvalidError, asked, "at least one of user or group must be specified")
